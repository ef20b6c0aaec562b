"""What parts of a long row give, and the row's results from them: see `long_rows`.

Words after the strides: number of parts, length of a part, words of what follows; whether stores go
past the caches; for each row two counters (parts that are done, and whether its results are there),
its results, then those of its parts; then scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.backends.cpu.reducing.row_reduction import RowReduction
from fuser.backends.cpu.spelling import spell
from fuser.codegen import LoopNest
from fuser.planning.merging import Factor, Merged, Merging, merging

#: Words before the counters, and counters of one row.
FLAGS, COUNTERS = 1, 2


def reductions_of(nest: LoopNest) -> list[Accumulator]:
    """All reductions of a nest, stage by stage."""
    stages = Stages(nest)
    return [a for stage in stages.loops for a in stages.reductions_of(stage)]


class Room:
    """Where results lie in the argument block, in words."""

    def __init__(self, nest: LoopNest, merged: Merged) -> None:
        """Count them."""
        self.finals = {a.number: k for k, a in enumerate(reductions_of(nest))}
        """A row's results by their numbers in its nest."""
        self.sums: dict[int, int] = {}
        """A part's results by their numbers in the parts' nest."""
        words = 0
        for accumulator in reductions_of(merged.local):
            self.sums[accumulator.number] = words
            words += len(accumulator.saved(column=False))
        self.references = {number: words + k for k, number in enumerate(merged.references)}
        self.part_words = words + len(merged.references)

    def words(self, rows: int, parts: int) -> int:
        """Words of flags, counters and results."""
        return FLAGS + rows * (COUNTERS + len(self.finals) + parts * self.part_words)


class LongRowPart(RowReduction):
    """What the three functions have in common."""

    linkage = "internal "

    def __init__(self, module: Module, nest: LoopNest, name: str, of: LoopNest) -> None:
        """Prepare the function of one nest that belongs to another one's rows."""
        super().__init__(module, nest, name, split=True)
        self.stages.kept = {}  # elements are read twice rather than written twice
        self.operands = [*of.loads, *(desc for _, desc in of.stores)]
        found = merging(of.without_totals, Stages(of).steady)
        assert found is not None
        self.merged: Merged = found
        self.room = Room(of, self.merged)

    def _row_count(self) -> str:
        """How many rows there are."""
        rows = "1"
        for length in self.lengths[:-1]:
            rows = self.number(f"mul i64 {rows}, {length}")
        return rows

    def _address(self, word: str) -> str:
        """The address of a word among counters and results."""
        place = self.number(f"add i64 {word}, {self.counters + FLAGS}")
        return self.moved("%block", self.number(f"shl i64 {place}, 3"))

    def _counter(self, which: int) -> str:
        """The address of a row's counter."""
        place = self.number(f"mul i64 {self.place}, {COUNTERS}")
        return self._address(self.number(f"add i64 {place}, {which}"))

    def _final(self, number: int) -> str:
        """The address of a row's result."""
        count = len(self.room.finals)
        first = self.number(f"mul i64 {self._row_count()}, {COUNTERS}")
        place = self.number(f"mul i64 {self.place}, {count}")
        place = self.number(f"add i64 {place}, {self.room.finals[number]}")
        return self._address(self.number(f"add i64 {first}, {place}"))

    def _of_part(self, part: str, word: int) -> str:
        """The address of a part's result."""
        each = COUNTERS + len(self.room.finals)
        first = self.number(f"mul i64 {self._row_count()}, {each}")
        place = self.number(f"mul i64 {self.place}, {self.parts}")
        place = self.number(f"add i64 {place}, {part}")
        place = self.number(f"mul i64 {place}, {self.room.part_words}")
        place = self.number(f"add i64 {place}, {word}")
        return self._address(self.number(f"add i64 {first}, {place}"))

    def _put(self, value: Value, address: str) -> None:
        """Write a result down."""
        raw = self.b.cast("zext", value, "i8") if value.scalar == "i1" else value
        self.b.line(f"store {raw.typed}, ptr {address}, align 8")

    def _get(self, scalar: str, address: str) -> Value:
        """Read a result."""
        memory = "i8" if scalar == "i1" else scalar
        raw = self.b.value(f"load {memory}, ptr {address}, align 8", memory, 1)
        return self.b.compare("icmp ne", raw, self.b.iconst(raw, 0)) if scalar == "i1" else raw

    def _begin(self) -> None:
        """Values that need no elements."""
        for k in range(len(self.nest.loads)):
            if self.stages.levels[k] == 1:
                self.values[k] = self._edge(k)
        self._results(0)

    def _whole_row(self, item: str) -> str:
        """Take all of a row."""
        self.begin, self.part = "0", "0"
        return item

    def _cut(self, row: str, part: str) -> str:
        """Take one part of a row."""
        self.part = part
        self.begin = self.number(f"mul i64 {part}, {self.part_length}")
        self.counts = [self._length_of(part)]
        return row

    def _length_of(self, part: str) -> str:
        """How many elements a part has."""
        begin = self.number(f"mul i64 {part}, {self.part_length}")
        left = self.number(f"sub i64 {self.lengths[-1]}, {begin}")
        less = self.b.value(f"icmp ult i64 {left}, {self.part_length}", "i1", 1).text
        return self.number(f"select i1 {less}, i64 {left}, i64 {self.part_length}")

    def _wide(self, count: str) -> Value:
        """A count as a double."""
        return self.b.value(f"uitofp i64 {count} to double", "double", 1)

    def _doubled(self, value: Value) -> Value:
        """A float or double as a double."""
        return value if value.scalar == "double" else self.b.cast("fpext", value, "double")


class LocalPart(LongRowPart):
    """All reductions of one part of a row; item: row * parts + part."""

    def __init__(self, module: Module, nest: LoopNest, name: str, merged: Merged) -> None:
        """Prepare."""
        super().__init__(module, merged.local, name, nest)

    def _part_of(self, item: str, kept: int) -> str:
        part = self.number(f"urem i64 {item}, {self.parts}")
        return self._cut(self.number(f"udiv i64 {item}, {self.parts}"), part)

    def _all_stages(self) -> None:
        saved = dict(self.values)
        self._begin()
        for stage in self.stages.loops:
            running = self.stages.reductions_of(stage)
            if running:
                self._stage(stage, running)
            for accumulator in running:
                word = self.room.sums[accumulator.number]
                for k, value in enumerate(accumulator.parts):
                    self._put(value, self._of_part(self.part, word + k))
                self._finish(accumulator, accumulator.parts)
                self._guess(accumulator)
            self._results(stage + 1)
        for number, word in self.room.references.items():
            self._put(self.values[number], self._of_part(self.part, word))
        self.values = saved

    def _guess(self, accumulator: Accumulator) -> None:
        """A part's result as if all of the row were like it: what references are made of.

        Any reference is right; that of nothing but -inf must not make every element NaN.
        """
        b, value = self.b, self.values[accumulator.number]
        if value.scalar not in ("float", "double"):
            return
        if accumulator.op == "sum":
            ratio = b.op("fdiv", self._wide(self.lengths[-1]), self._wide(self.counts[-1]))
            guess = b.op("fmul", self._doubled(value), ratio)
            guess = guess if value.scalar == "double" else b.cast("fptrunc", guess, "float")
        else:
            size = b.intrinsic("llvm.fabs", value)
            endless = b.compare("fcmp oeq", size, b.fconst(size, float("inf")))
            guess = b.select(endless, b.fconst(value, 0.0), value)
        self.values[accumulator.number] = guess


class MergeRow(LongRowPart):
    """A row's results from those of its parts; item: row."""

    def __init__(self, module: Module, nest: LoopNest, name: str) -> None:
        """Prepare."""
        super().__init__(module, nest, name, nest)
        self.numbers = dict(self.merged.plain)

    def _part_of(self, item: str, kept: int) -> str:
        return self._whole_row(item)

    def _load_parts(self, stage: int, part: str, running: Sequence[Accumulator]) -> None:
        for accumulator in running:
            word = self.room.sums[self.numbers[accumulator.number]]
            accumulator.parts = [
                self._get(scalar, self._of_part(part, word + k))
                for k, scalar in enumerate(accumulator.saved(column=False))
            ]

    def _all_stages(self) -> None:
        b, saved = self.b, dict(self.values)
        self._begin()
        self._joined(0, self.stages.reductions_of(0))
        self._results(1)
        known = dict(self.values)
        later = [s for s in self.stages.loops if s and self.stages.reductions_of(s)]
        if not later:
            self._store_finals()
            self.values = saved
            return
        finite = b.constant_bits("i1", 1, 1)
        for stage in later:
            found = [self.merged.mergings[a.number] for a in self.stages.reductions_of(stage)]
            for value in self._merge(found):
                size = b.intrinsic("llvm.fabs", value)
                below = b.compare("fcmp olt", size, b.fconst(size, float("inf")))
                finite = b.op("and", finite, below)
            self._results(stage + 1)
        good, again, done = b.label("good"), b.label("again"), b.label("merged")
        b.line(f"br i1 {finite.text}, label %{good}, label %{again}")
        b.start(good)
        self._store_finals()
        b.line(f"br label %{done}")
        b.start(again)
        self.values = known
        for stage in later:
            running = self.stages.reductions_of(stage)
            self._stage(stage, running)
            for accumulator in running:
                self._finish(accumulator, accumulator.parts)
            self._results(stage + 1)
        self._store_finals()
        b.line(f"br label %{done}")
        b.start(done)
        self.values = saved

    def _store_finals(self) -> None:
        """Note a row's results, for its elements' stores and in arrays of results."""
        for number in self.room.finals:
            self._put(self.values[number], self._final(number))
        self._store_each_result()

    # -- from parts to the whole ------------------------------------------------------------

    def _merge(self, mergings: list[Merging]) -> list[Value]:
        """Results of one stage."""
        b = self.b
        zero = Value("0x0000000000000000", "double", 1)
        loop = begin_loop(b, "0", self.parts)
        totals = [(loop.carry(zero), loop.carry(zero)) for _ in mergings]
        count = self._wide(self._length_of(loop.index))
        ends: list[Value] = []
        for merging_, (total, error) in zip(mergings, totals, strict=True):
            for addend, rest in self._addends(merging_, loop.index, count):
                total, more = accumulators.two_sum(b, total, addend)
                error = b.op("fadd", error, more)
                if rest is not None:
                    error = b.op("fadd", error, rest)
            ends += [total, error]
        loop.end(ends)
        for k, merging_ in enumerate(mergings):
            value = b.op("fadd", loop.results[2 * k], loop.results[2 * k + 1])
            self.values[merging_.number] = self._scaled(merging_, value)
        return [self.values[m.number] for m in mergings]

    def _sum_of(self, number: int, part: str) -> tuple[Value, Value]:
        """A part's sum and its error."""
        register = conversion.REGISTER[self.merged.local.dtype_of(number)]
        word = self.room.sums[number]
        value, error = (self._get(register, self._of_part(part, word + k)) for k in range(2))
        return self._doubled(value), self._doubled(error)

    def _addends(
        self, merging_: Merging, part: str, count: Value
    ) -> list[tuple[Value, Value | None]]:
        """What one part adds to a sum, with rounding errors that are known."""
        b = self.b
        total, error = self._sum_of(merging_.total, part)
        moves = [self._move(factor, part) for factor in merging_.factors]
        if merging_.exponential:
            assert moves[0] is not None
            weight = spell(b, "exp", "float64", [moves[0]])
            return [(b.op("fmul", total, weight), b.op("fmul", error, weight))]
        found: list[tuple[Value, Value | None]] = [(total, error)]
        for move, other in zip(moves, merging_.sums, strict=True):
            if move is not None and other is not None:
                value, error = self._sum_of(other, part)
                found.append((b.op("fmul", value, move), b.op("fmul", error, move)))
        if moves[0] is not None and moves[-1] is not None:
            every = b.op("fmul", count, moves[0])
            found.append((every if len(moves) == 1 else b.op("fmul", every, moves[-1]), None))
        return found

    def _move(self, factor: Factor, part: str) -> Value | None:
        """How far a factor moves from a part's reference to the whole row's result."""
        b = self.b
        moved: Value | None = None
        for shift in factor.shifts:
            step = self._doubled(self.values[shift.result])
            if shift.reference is not None:
                register = conversion.REGISTER[self.merged.local.dtype_of(shift.reference)]
                address = self._of_part(part, self.room.references[shift.reference])
                step = b.op("fsub", step, self._doubled(self._get(register, address)))
            if shift.sign < 0:
                step = b.op("fneg", step)
            moved = step if moved is None else b.op("fadd", moved, step)
        return moved

    def _scaled(self, merging_: Merging, value: Value) -> Value:
        """A result in its own dtype, with the factors that stand outside of the sum."""
        b = self.b
        for op, number in merging_.scales:
            if op == "negative":
                value = b.op("fneg", value)
                continue
            factor = self._doubled(self.values[number])
            value = b.op({"multiply": "fmul", "divide": "fdiv"}[op], value, factor)
        if self.nest.dtype_of(merging_.number) == "float32":
            return b.cast("fptrunc", value, "float")
        return value
