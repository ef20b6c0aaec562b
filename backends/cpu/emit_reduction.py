"""Loop nests that reduce, as LLVM IR text with explicit vectors.

A nest runs through its elements once for every stage; a stage ends where a reduction's result is
needed. Row: the innermost loop in memory is reduced, see `row_reduction`. Column: elements beside
each other belong to different results, see `column_reduction`.

Forms of one nest, chosen by lengths alone (see `reduction_forms`):
plain: each row, or vector of columns, is computed as a whole.
split: few, long rows or columns are computed in parts; each part's partial results are kept in
the argument block, and whoever needs them waits until the block counts all parts, then joins them
in order. Parts depend on lengths, so the bits are the same whatever the number of threads.

The function's arguments are those of `emit`; words of the block are addresses, lengths of all
loops, strides of all loops operand by operand (reduced loops last); in split form the number of
parts, the length of a part, the words of the partial results, and those; then scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuser.backends.cpu import accumulators, conversion
from fuser.backends.cpu.accumulators import Accumulator
from fuser.backends.cpu.body import BITS, Body, Module, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reduction_stages import Stages, native_lanes
from fuser.backends.cpu.spelling import EXACT_IN_HALF, spell
from fuser.backends.cpu.vector_memory import load, store
from fuser.codegen import Instruction, LoopNest
from fuser.specs import TensorDesc

_AWAIT = """\
define internal void @await(ptr %counter, i64 %wanted) noinline #0 {
entry:
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %seen = load atomic i64, ptr %counter acquire, align 8
  %there = icmp uge i64 %seen, %wanted
  br i1 %there, label %done, label %wait
wait:
  %n1 = add i64 %n, 1
  %long = icmp ugt i64 %n, 4096
  br i1 %long, label %yield, label %again
yield:
  %ignored = call i32 @sched_yield()
  br label %again
again:
  br label %look
done:
  ret void
}"""


class Reduction:
    """Emits one nest; rows and columns differ in `_results_of` and in how they loop."""

    def __init__(self, module: Module, nest: LoopNest, name: str, *, split: bool) -> None:
        """Prepare an empty function."""
        self.module, self.nest, self.name, self.split = module, nest, name, split
        self.b = Body(module)
        self.native = native_lanes(nest, module.features.vector_bytes)
        self.lanes = self.native
        self.operands: list[TensorDesc] = [*nest.loads, *(desc for _, desc in nest.stores)]
        self.column = nest.strategy == "column"
        self.values: dict[int, Value] = {}
        self.stages = Stages(nest)
        self.first = self.stages.first
        self.tops: list[str] = []
        """Addresses of operands where the reduced loops begin."""

    # -- what rows and columns do differently -----------------------------------------------

    def _results_of(self, place: str) -> None:
        """Compute what belongs to one turn of the loops that are counted outside."""
        raise NotImplementedError

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        """The loops of one stage; leaves partial results in the accumulators."""
        raise NotImplementedError

    def _edge(self, k: int) -> Value:
        """Load an operand that is the same along the reduced loops."""
        raise NotImplementedError

    def _store_result(self, k: int, number: int) -> None:
        """Store a value of a result's shape."""
        raise NotImplementedError

    def _slot(self, scalar: str, place: str) -> tuple[str, int]:
        """Where a partial result is kept, and in how many lanes."""
        raise NotImplementedError

    def _amount(self) -> str:
        """How many results a part counts when it is done."""
        raise NotImplementedError

    # -- the function -----------------------------------------------------------------------

    def emit(self) -> None:
        """Append the function to the module."""
        b = self.b
        self._header()
        items = begin_loop(b, "%obegin", "%oend")
        self._item(items.index)
        items.end()
        b.line("ret i32 %status" if b.flagged else "ret i32 0")
        lines = b.lines
        if b.flagged:
            lines = ["  %flag = alloca i32", "  store i32 0, ptr %flag", *lines]
            lines.insert(len(lines) - 1, "  %status = load i32, ptr %flag")
        head = (
            f"define i32 @{self.name}(ptr %block, i64 %obegin, i64 %oend, "
            "i64 %ibegin, i64 %iend) #0 {"
        )
        self.module.functions.append("\n".join([head, "entry:", *lines, "}"]))

    def number(self, text: str) -> str:
        """Append one instruction on 64-bit integers."""
        return self.b.value(text, "i64", 1).text

    def _word(self, place: int | str, scalar: str) -> Value:
        """Load one word of the argument block."""
        b = self.b
        offset = str(8 * place) if isinstance(place, int) else self.number(f"shl i64 {place}, 3")
        address = b.value(f"getelementptr i8, ptr %block, i64 {offset}", "ptr", 1)
        return b.value(f"load {scalar}, ptr {address.text}", scalar, 1)

    def _header(self) -> None:
        """Addresses, lengths, strides, scalars and constants."""
        nest, count, rank = self.nest, len(self.operands), self.nest.rank
        self.pointers = [self._word(k, "ptr").text for k in range(count)]
        self.lengths = [self._word(count + d, "i64").text for d in range(rank)]
        first = count + rank
        self.strides = [
            [self._word(first + k * rank + d, "i64").text for d in range(rank)]
            for k in range(count)
        ]
        place = first + count * rank
        skipped = "0"
        if self.split:
            self.parts, self.part_length, skipped = (
                self._word(place + k, "i64").text for k in range(3)
            )
            place += 3
            self.counters = place
        number = len(nest.loads)
        for dtype in nest.scalars:
            at: int | str = place
            if self.split:
                at = self.number(f"add i64 {skipped}, {place}")
            raw = self._word(at, conversion.MEMORY[dtype])
            self.values[number] = conversion.from_memory(self.b, raw, dtype)
            number, place = number + 1, place + 1
        for dtype, bits in nest.constants:
            self.values[number] = conversion.constant(dtype, bits)
            number += 1

    def _item(self, item: str) -> None:
        """One outer iteration: a row, an outer iteration of columns, or a part of such."""
        nest = self.nest
        kept = nest.rank - nest.reduced - int(self.column)  # loops that `item` counts
        self.begin, self.counts = "0", self.lengths[nest.rank - nest.reduced :]
        if self.split:
            item = self._part_of(item, kept)
        self.place = item
        places: list[str] = []
        for d in range(kept - 1, 0, -1):
            places.insert(0, self.number(f"urem i64 {item}, {self.lengths[d]}"))
            item = self.number(f"udiv i64 {item}, {self.lengths[d]}")
        if kept:
            places.insert(0, item)
        self.rows = []
        for k in range(len(self.operands)):
            offset = "0"
            for d, place in enumerate(places):
                step = self.number(f"mul i64 {place}, {self.strides[k][d]}")
                offset = self.number(f"add i64 {offset}, {step}")
            if self.split:
                along = self.strides[k][nest.rank - nest.reduced]
                step = self.number(f"mul i64 {self.begin}, {along}")
                offset = self.number(f"add i64 {offset}, {step}")
            self.rows.append(self.moved(self.pointers[k], offset))
        self._results_of(self.place)

    def moved(self, address: str, offset: str) -> str:
        """An address some bytes further on."""
        text = f"getelementptr i8, ptr {address}, i64 {offset}"
        return self.b.value(text, "ptr", 1).text

    # -- stages -----------------------------------------------------------------------------

    def _all_stages(self) -> None:
        """All stages of one row or vector of columns."""
        b, stages = self.b, self.stages
        saved = dict(self.values)
        done = b.label("done")
        for k in range(len(self.nest.loads)):
            if stages.levels[k] == 1:
                self.values[k] = self._edge(k)
        self._results(0)
        for stage in range(stages.last + 1):
            running = stages.reductions_of(stage)
            if stage in stages.loops:
                if self.split:
                    self._part(stage, running, done)
                else:
                    self._stage(stage, running)
                    for accumulator in running:
                        self._finish(accumulator, accumulator.parts)
            self._results(stage + 1)
        self._store_results(done)
        self.values = saved

    def _store_results(self, done: str) -> None:
        """Stores of a result's shape; in split form the last stage's first part makes them."""
        b = self.b
        if self.split:
            write = b.label("write")
            last = b.value(f"icmp eq i64 {self.now}, {self.stages.final}", "i1", 1).text
            zeroth = b.value(f"icmp eq i64 {self.part}, 0", "i1", 1).text
            both = b.value(f"and i1 {last}, {zeroth}", "i1", 1).text
            b.line(f"br i1 {both}, label %{write}, label %{done}")
            b.start(write)
        for place, (number, _) in enumerate(self.nest.stores):
            if self.stages.store_level(place) == 1:
                self._store_result(len(self.nest.loads) + place, number)
        if self.split:
            b.line(f"br label %{done}")
            b.start(done)

    def _finish(self, accumulator: Accumulator, parts: list[Value]) -> None:
        """Note a reduction's result."""
        self.values[accumulator.number] = accumulators.finish(self.b, accumulator, parts)

    def _results(self, stage: int) -> None:
        """Values of a result's shape that a stage makes computable."""
        for place, instruction in enumerate(self.nest.body):
            number = self.first + place
            if number not in self.values and self.stages.is_plain_result(number, stage):
                self._instruction(number, instruction, self.stages.levels[number])

    def _instruction(self, number: int, instruction: Instruction, level: int) -> None:
        """Spell one operation."""
        b = self.b
        wide = level == 2 or (level == 1 and self.column)
        lanes = self.lanes if wide else 1
        operands = [self._operand(k, lanes) for k in instruction.operands]
        if instruction.op == "cast":
            source = instruction.operand_dtype
            result = conversion.convert(b, operands[0], source, instruction.dtype)
        else:
            result = spell(b, instruction.op, instruction.operand_dtype, operands)
            if instruction.dtype == "float16" and instruction.op not in EXACT_IN_HALF:
                result = conversion.round_half(b, result)
        self.values[number] = result

    def _operand(self, number: int, lanes: int = 0) -> Value:
        """A value in as many lanes as the vector has."""
        value, lanes = self.values[number], lanes or self.lanes
        if value.lanes == lanes:
            return value
        if not value.text.startswith("%"):
            text = f"splat ({value.scalar} {value.text})" if lanes > 1 else value.text
            return Value(text, value.scalar, lanes)
        return self.b.splat(value, lanes)

    # -- one vector of elements -------------------------------------------------------------

    def _vector(
        self,
        stage: int,
        running: list[Accumulator],
        address: Callable[[int], str],
        step: Callable[[int], str],
        mask: Value | None,
    ) -> list[Value]:
        """Load, compute and store one vector; returns the accumulators' operands."""
        b, stores = self.b, self.stages.stores_of(stage)
        wanted = [a.operand for a in running] + [self.nest.stores[place][0] for place in stores]
        kept = dict(self.values)
        for number in self.stages.needed(wanted):
            if number < len(self.nest.loads):
                desc = self.operands[number]
                self.values[number] = load(
                    b, desc, address(number), mask, step(number), self.lanes
                )
            else:
                self._instruction(number, self.nest.body[number - self.first], 2)
        operands = [self._operand(a.operand) for a in running]
        for place in stores:
            k = len(self.nest.loads) + place
            value = self._operand(self.nest.stores[place][0])
            store(b, self.operands[k], value, address(k), mask, step(k))
        self.values = kept
        return operands

    def _index(self, accumulator: Accumulator, turn: str) -> Value | None:
        """A loop's turn in every lane, where places are wanted."""
        if not accumulator.places:
            return None
        one = Value(turn, "i64", 1)
        if accumulator.index != "i64":
            one = self.b.cast("trunc", one, accumulator.index)
        return self.b.splat(one, self.lanes)

    def _nested(
        self,
        depth: int,
        tops: list[str],
        running: list[Accumulator],
        inside: Callable[[list[str]], None],
        last: int,
    ) -> None:
        """Reduced loops from `depth` up to, not including, `last`, then what is inside them."""
        if depth == last:
            inside(tops)
            return
        b = self.b
        loop = begin_loop(b, "0", self.counts[depth])
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        self.turn = loop.index
        along = self.nest.rank - self.nest.reduced + depth
        moved = []
        for k, top in enumerate(tops):
            offset = self.number(f"mul i64 {loop.index}, {self.strides[k][along]}")
            moved.append(self.moved(top, offset))
        self._nested(depth + 1, moved, running, inside, last)
        loop.end([part for accumulator in running for part in accumulator.parts])
        deal(loop.results, running)

    # -- parts ------------------------------------------------------------------------------

    def _part_of(self, item: str, kept: int) -> str:
        """Which stage and part an item is; returns the row that it belongs to."""
        b = self.b
        rows = "1"
        for d in range(kept):
            rows = self.number(f"mul i64 {rows}, {self.lengths[d]}")
        job = self.number(f"udiv i64 {item}, {rows}")
        self.now = self.number(f"udiv i64 {job}, {self.parts}")
        self.part = self.number(f"urem i64 {job}, {self.parts}")
        self.rows_in_all = rows
        self.begin = self.number(f"mul i64 {self.part}, {self.part_length}")
        left = self.number(f"sub i64 {self.counts[0]}, {self.begin}")
        less = b.value(f"icmp ult i64 {left}, {self.part_length}", "i1", 1).text
        count = self.number(f"select i1 {less}, i64 {left}, i64 {self.part_length}")
        self.counts = [count, *self.counts[1:]]
        return self.number(f"urem i64 {item}, {rows}")

    def _part(self, stage: int, running: list[Accumulator], done: str) -> None:
        """One stage in split form: a part of it is computed, or all parts are joined."""
        b, at = self.b, self.stages.loops.index(stage)
        work, after = b.label("part"), b.label("parts")
        mine = b.value(f"icmp eq i64 {self.now}, {at}", "i1", 1).text
        b.line(f"br i1 {mine}, label %{work}, label %{after}")
        b.start(work)
        self._stage(stage, running)
        self._keep(stage, running)
        last = not running and at == self.stages.final
        b.line(f"br label %{after if last else done}")
        b.start(after)
        if running:
            self._join(stage, running)

    def _counter(self, stage: int) -> str:
        """The address of the count of finished results of a stage."""
        loops = len(self.stages.loops)
        place = self.number(f"mul i64 {self.place}, {loops}")
        place = self.number(f"add i64 {place}, {self.counters + self.stages.loops.index(stage)}")
        return self.moved("%block", self.number(f"shl i64 {place}, 3"))

    def _slot_of(self, stage: int, part: str, place: int, scalar: str) -> tuple[str, int]:
        """The address of one partial result."""
        loops, slots = len(self.stages.loops), self.stages.slots(column=self.column)
        first = self.number(f"mul i64 {self.rows_in_all}, {loops}")
        first = self.number(f"add i64 {first}, {self.counters}")
        row = self.number(f"mul i64 {self.place}, {slots}")
        row = self.number(f"add i64 {row}, {self.stages.first_slot(stage, self.column) + place}")
        row = self.number(f"mul i64 {row}, {self.parts}")
        row = self.number(f"add i64 {row}, {part}")
        offset, lanes = self._slot(scalar, row)
        base = self.moved("%block", self.number(f"shl i64 {first}, 3"))
        return self.moved(base, offset), lanes

    def _keep(self, stage: int, running: list[Accumulator]) -> None:
        """Write a part's partial results, and count them."""
        b = self.b
        place = 0
        for accumulator in running:
            for value, scalar in zip(
                accumulator.parts, accumulator.saved(column=self.column), strict=True
            ):
                address, _ = self._slot_of(stage, self.part, place, scalar)
                raw = b.cast("zext", value, "i8") if scalar == "i1" else value
                b.line(f"store {raw.typed}, ptr {address}, align 1")
                place += 1
        if running:
            b.line(f"%{b.label('count')} = atomicrmw add ptr {self._counter(stage)}, "
                   f"i64 {self._amount()} acq_rel")  # fmt: skip

    def _load_parts(self, stage: int, part: str, running: Sequence[Accumulator]) -> None:
        """Read a part's partial results."""
        b = self.b
        place = 0
        for accumulator in running:
            accumulator.parts = []
            for scalar in accumulator.saved(column=self.column):
                address, lanes = self._slot_of(stage, part, place, scalar)
                memory = "i8" if scalar == "i1" else scalar
                kind = Value("", memory, lanes).type
                raw = b.value(f"load {kind}, ptr {address}, align 1", memory, lanes)
                if scalar == "i1":
                    raw = b.compare("icmp ne", raw, b.iconst(raw, 0))
                accumulator.parts.append(raw)
                place += 1

    def _join(self, stage: int, running: list[Accumulator]) -> None:
        """Wait for all parts of a stage and join them in order."""
        b = self.b
        self.module.helpers["await"] = _AWAIT
        self.module.declare("sched_yield", "i32", ())
        wanted = self.number(f"mul i64 {self.parts}, {self._whole()}")
        b.line(f"call void @await(ptr {self._counter(stage)}, i64 {wanted})")
        self._load_parts(stage, "0", running)
        for accumulator in running:
            if accumulator.exact and len(accumulator.parts) == 1:
                accumulator.parts.append(accumulators.zero(b, accumulator, self.lanes))
        loop = begin_loop(b, "1", self.parts)
        joined = []
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
            joined.append(accumulator.parts)
        self._load_parts(stage, loop.index, running)
        ends: list[Value] = []
        for accumulator, old in zip(running, joined, strict=True):
            ends += accumulators.merge(b, accumulator, old, accumulator.parts)
            accumulator.parts = old
        loop.end(ends)
        deal(loop.results, running)
        for accumulator in running:
            self._finish(accumulator, accumulator.parts)

    def _whole(self) -> str:
        """How many results all parts of one number count."""
        raise NotImplementedError


def deal(values: list[Value], running: Sequence[Accumulator]) -> None:
    """Hand a loop's results out to its accumulators."""
    place = 0
    for accumulator in running:
        width = len(accumulator.parts)
        accumulator.parts = values[place : place + width]
        place += width


def element_bytes(scalar: str) -> int:
    """Bytes of a partial result in the block."""
    return max(1, BITS[scalar] // 8)
