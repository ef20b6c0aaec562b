"""What parts of a long row give, and the row's results from them: see `online_rows`.

Words after the strides: number of parts, length of a part, words of what follows; whether stores go
past the caches; for each row two counters (parts that are done, and whether its results are there),
its results, then those of its parts; then scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.online_sums import OnlineSums, doubled, guessed, wide
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.reducing.row_reduction import RowReduction
from fuser.backends.cpu.vector_memory import get_register, put_register
from fuser.codegen import LoopNest
from fuser.traffic.online_reductions import Merged, merging

#: Words before the counters, and counters of one row.
FLAGS, COUNTERS = 1, 2


def reductions_of(nest: LoopNest) -> list[Accumulator]:
    """All reductions of a nest, stage by stage."""
    stages = stages_of(nest)
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


class OnlineRowPart(RowReduction):
    """What the three functions have in common."""

    linkage = "internal "

    def __init__(self, module: Module, nest: LoopNest, name: str, of: LoopNest) -> None:
        """Prepare the function of one nest that belongs to another one's rows."""
        super().__init__(module, nest, name, split=True)
        self.stages.kept = {}  # elements are read twice rather than written twice
        self.operands = [*of.loads, *(desc for _, desc in of.stores)]
        found = merging(of)
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
        put_register(self.b, value, address, align=8)

    def _get(self, scalar: str, address: str) -> Value:
        """Read a result."""
        return get_register(self.b, scalar, 1, address, align=8)

    def _whole_row(self, item: str) -> str:
        """Take all of a row."""
        self.begin, self.part = "0", "0"
        return item

    def _cut(self, row: str, part: str) -> str:
        """Take one part of a row."""
        self.part = part
        self.begin = self.number(f"mul i64 {part}, {self.part_length}")
        self.counts = [self._elements_of(part)]
        return row


class LocalPart(OnlineRowPart):
    """All reductions of one part of a row; item: row * parts + part."""

    def __init__(self, module: Module, nest: LoopNest, name: str, merged: Merged) -> None:
        """Prepare."""
        super().__init__(module, merged.local, name, nest)

    def _part_of(self, item: str, kept: int) -> str:
        part = self.number(f"urem i64 {item}, {self.parts}")
        return self._cut(self.number(f"udiv i64 {item}, {self.parts}"), part)

    def _all_stages(self) -> None:
        saved = dict(self.values)
        self._load_edges()
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
        """A part's result as if all of the row were like it."""
        b, number = self.b, accumulator.number
        ratio = b.op("fdiv", wide(b, self.lengths[-1]), wide(b, self.counts[-1]))
        self.values[number] = guessed(b, accumulator, self.values[number], ratio)


class MergeRow(OnlineRowPart, OnlineSums):
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
        self._load_edges()
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
        b.branch(finite.text, good, again)
        self._store_finals()
        b.jump(done, again)
        self.values = known
        for stage in later:
            running = self.stages.reductions_of(stage)
            self._stage(stage, running)
            for accumulator in running:
                self._finish(accumulator, accumulator.parts)
            self._results(stage + 1)
        self._store_finals()
        b.jump(done)
        self.values = saved

    def _store_finals(self) -> None:
        """Note a row's results, for its elements' stores and in arrays of results."""
        for number in self.room.finals:
            self._put(self.values[number], self._final(number))
        self._store_each_result()

    def _sum_of(self, number: int, part: str) -> tuple[Value, Value | None]:
        register = conversion.REGISTER[self.merged.local.dtype_of(number)]
        word = self.room.sums[number]
        value, error = (self._get(register, self._of_part(part, word + k)) for k in range(2))
        return doubled(self.b, value), doubled(self.b, error)

    def _reference(self, number: int, part: str) -> Value:
        register = conversion.REGISTER[self.merged.local.dtype_of(number)]
        return self._get(register, self._of_part(part, self.room.references[number]))
