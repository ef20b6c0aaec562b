"""Totals of a nest's own results, taken as soon as these are there: `scheduling.epilogues`.

The loops outside are cut into blocks of rows (or, of columns, of ranges of them). An item is a
block: its rows one after another, whose results are taken into running totals. Where there is
more than one block, each leaves its totals in the argument block, and who finishes last joins all
of them in order. Blocks depend on lengths alone, so the bits are the same whatever the number of
threads.

Words after the strides: number of blocks, units of one block, words of the partial totals, ranges
of columns of one outer iteration and columns of one range (1 and 1 of rows); where there are
several blocks, a counter and the partial totals of each; then scalars.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.gathered_rows import GatheredRows
from fuser.backends.cpu.reducing.reduction import Reduction, element_bytes
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.backends.cpu.reducing.row_places import RowPlaces
from fuser.backends.cpu.vector_memory import get_register, lane_mask, load_one, put_register
from fuser.codegen import LoopNest

#: Words after the strides before the counter.
FIXED_WORDS = 5


def epilogues_of(nest: LoopNest) -> list[Accumulator]:
    """The totals themselves, without what follows from them."""
    first = nest.value_count - nest.totals
    return [
        Accumulator(number, i.op, i.operand_dtype, i.operands[0])
        for number, i in enumerate(nest.body[-nest.totals :], first)
        if i.row.reduction
    ]


def lay_out(nest: LoopNest, lengths: Sequence[int], *, beside: bool) -> tuple[list[int], Extent]:
    """How a nest with totals is cut into blocks.

    Args:
        nest: rows, or columns.
        lengths: of all loops.
        beside: rows are computed side by side.
    """
    column = beside or nest.strategy == "column"
    kept = list(lengths[: nest.rank - nest.reduced])
    inner = kept.pop() if column else 1
    elements = math.prod(lengths)
    outer, ranges, width = math.prod(kept), 1, max(inner, 1)
    if column and outer < tuning.EPILOGUE_BLOCKS and elements >= 2 * tuning.EPILOGUE_BLOCK:
        ranges = max(1, min(tuning.EPILOGUE_BLOCKS // outer, inner // tuning.EPILOGUE_COLUMNS))
        width = -(-inner // (ranges * tuning.EPILOGUE_COLUMNS)) * tuning.EPILOGUE_COLUMNS
        ranges = -(-inner // width)
    units = outer * ranges
    blocks = max(1, min(tuning.EPILOGUE_BLOCKS, elements // tuning.EPILOGUE_BLOCK, units))
    each = -(-units // blocks)
    blocks = -(-units // each) if units else 1
    words = [blocks, each, 0, ranges, width]
    if blocks > 1:
        slots = sum(len(a.saved(column=False)) for a in epilogues_of(nest))
        words[2] = 1 + slots * blocks
        words += [0] * words[2]
    return words, Extent(blocks, 1, elements, 1, 1, counts_parts=blocks > 1)


class Epilogue(Reduction):
    """What rows and columns with totals have in common; comes before either in the bases."""

    wide = 1
    """Lanes of running totals."""

    def emit(self) -> None:
        """Append the function; running totals wait in memory, where every loop reaches them."""
        self.slots: list[str] = []
        self.running = epilogues_of(self.whole)
        for accumulator in self.running:
            for _ in accumulator.saved(column=False):
                self.slots.append(f"%totals{len(self.slots)}")
                self.scratch.append(f"  {self.slots[-1]} = alloca [{8 * self.wide} x i8], align 64")
        super().emit()

    def _more_words(self, place: int) -> tuple[int, str]:
        self.blocks, self.units, skipped, self.ranges, self.width = (
            self._word(place + k, "i64").text for k in range(FIXED_WORDS)
        )
        self.counters = place + FIXED_WORDS
        return self.counters, skipped

    # -- one block --------------------------------------------------------------------------

    def _item(self, item: str) -> None:
        """A block: its units, then the end of all where it is the last one."""
        b, saved = self.b, dict(self.values)
        self._write([self._start(a) for a in self.running])
        count = "1"
        for d in range(self.nest.rank - self.nest.reduced - int(self.column)):
            count = self.number(f"mul i64 {count}, {self.lengths[d]}")
        count = self.number(f"mul i64 {count}, {self.ranges}")
        first = self.number(f"mul i64 {item}, {self.units}")
        end = self._less(self.number(f"add i64 {first}, {self.units}"), count)
        loop = begin_loop(b, first, end)
        self._unit(loop.index, first)
        loop.end()
        self._rest(self.number(f"sub i64 {end}, {first}"))
        self._close(item)
        self.values = saved

    def _one_row(self, row: str) -> None:
        """What belongs to one turn of the loops outside."""
        super()._item(row)

    def _unit(self, unit: str, first: str) -> None:
        """One of a block's units, that begins with `first`."""
        outer = self.number(f"udiv i64 {unit}, {self.ranges}")
        part = self.number(f"urem i64 {unit}, {self.ranges}")
        inner = self.lengths[self.nest.rank - self.nest.reduced - 1]
        self.range_begin = self.number(f"mul i64 {part}, {self.width}")
        after = self.number(f"add i64 {self.range_begin}, {self.width}")
        self.range_end = self._less(after, inner)
        self._one_row(outer)

    def _rest(self, count: str) -> None:
        """What is left to do after so many units."""

    def _start(self, accumulator: Accumulator) -> list[Value]:
        """What a running total starts from."""
        parts = accumulators.start(self.b, accumulator, self.wide)
        if accumulator.exact:
            parts.append(accumulators.zero(self.b, accumulator, self.wide))
        return parts

    def _take_results(self, mask: Value | None) -> None:
        """Take the results at hand, one in each lane, into the totals."""
        self._read(self.wide)
        for accumulator in self.running:
            value = self._operand(accumulator.operand, self.wide)
            accumulators.take(self.b, accumulator, value, mask, None)
        self._write([a.parts for a in self.running])

    def _compute(self, wanted: Sequence[int], level: int) -> None:
        """Values of the whole nest that are not at hand, with those that they need."""
        whole, found = self.whole, set()
        stack = list(wanted)
        while stack:
            number = stack.pop()
            if number in found or number in self.values:
                continue
            found.add(number)
            if number >= self.first:
                stack.extend(whole.body[number - self.first].operands)
        for number in sorted(found):
            if number >= self.first:
                self._instruction(number, whole.body[number - self.first], level)
            else:
                desc = self.operands[number]
                self.values[number] = load_one(self.b, desc, self.pointers[number])

    # -- memory -----------------------------------------------------------------------------

    def _write(self, values: Sequence[Sequence[Value]]) -> None:
        """Write running totals down."""
        parts = [part for parts in values for part in parts]
        for address, part in zip(self.slots, parts, strict=True):
            put_register(self.b, part, address)

    def _read(self, lanes: int) -> None:
        """Read running totals back."""
        addresses = iter(self.slots)
        for accumulator in self.running:
            accumulator.parts = [
                get_register(self.b, scalar, lanes, next(addresses))
                for scalar in accumulator.saved(column=False)
            ]

    def _partial(self, slot: int, block: str) -> str:
        """Where a block leaves one of its totals."""
        place = self.number(f"mul i64 {block}, {len(self.slots)}")
        place = self.number(f"add i64 {place}, {self.counters + 1 + slot}")
        return self.moved("%block", self.number(f"shl i64 {place}, 3"))

    # -- the end ----------------------------------------------------------------------------

    def _close(self, block: str) -> None:
        """Join the lanes; who is the last of several blocks joins those; then what follows."""
        b = self.b
        self._read(self.wide)
        for accumulator in self.running:
            accumulator.parts = accumulators.combine_lanes(b, accumulator, "0", keep_error=True)
        self._write([a.parts for a in self.running])
        several, finish, done = b.label("several"), b.label("finish"), b.label("closed")
        one = b.value(f"icmp ult i64 {self.blocks}, 2", "i1", 1).text
        b.line(f"br i1 {one}, label %{finish}, label %{several}")
        b.start(several)
        parts = [part for a in self.running for part in a.parts]
        for slot, part in enumerate(parts):
            put_register(self.b, part, self._partial(slot, block))
        counter = self.moved("%block", str(8 * self.counters))
        seen = self.number(f"atomicrmw add ptr {counter}, i64 1 acq_rel")
        after = self.number(f"add i64 {seen}, 1")
        last, join = b.value(f"icmp eq i64 {after}, {self.blocks}", "i1", 1).text, b.label("all")
        b.line(f"br i1 {last}, label %{join}, label %{done}")
        b.start(join)
        self._join_blocks()
        b.line(f"br label %{finish}")
        b.start(finish)
        self._finish_totals()
        b.line(f"br label %{done}")
        b.start(done)

    def _load_block(self, block: str) -> None:
        """Read a block's totals."""
        slot = 0
        for accumulator in self.running:
            accumulator.parts = []
            for scalar in accumulator.saved(column=False):
                address = self._partial(slot, block)
                accumulator.parts.append(get_register(self.b, scalar, 1, address))
                slot += 1

    def _join_blocks(self) -> None:
        """The totals of all blocks, in order."""
        b = self.b
        self._load_block("0")
        self._write([a.parts for a in self.running])
        loop = begin_loop(b, "1", self.blocks)
        self._read(1)
        before = [a.parts for a in self.running]
        self._load_block(loop.index)
        joined = [
            accumulators.merge(b, a, old, a.parts)
            for a, old in zip(self.running, before, strict=True)
        ]
        self._write(joined)
        loop.end()

    def _finish_totals(self) -> None:
        """The totals, what follows from them, and their stores."""
        self._read(1)
        self.divisors = {}
        for accumulator in self.running:
            self._finish(accumulator, accumulator.parts)
        whole, end = self.whole, self.whole.value_count
        self._compute(range(end - whole.totals, end), 0)
        for place, (number, desc) in enumerate(whole.stores):
            if end - whole.totals <= number < end:
                raw = conversion.to_memory(self.b, self.values[number], desc.dtype)
                address = self.pointers[len(whole.loads) + place]
                self.b.line(f"store {raw.typed}, ptr {address}, align 1")


def _needed_in_rows(stages: Stages) -> frozenset[int]:
    """Values that rows themselves need: reductions, and what elements and stores want."""
    body, first = stages.nest.body, stages.first
    stack = [number for number, _ in stages.nest.stores]
    for number, instruction in enumerate(body, first):
        reduces = instruction.row.reduction
        if reduces:
            stack.append(number)
        if reduces or stages.levels[number] == 2:
            stack.extend(instruction.operands)
    found: set[int] = set()
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            if number >= first:
                stack.extend(body[number - first].operands)
    return frozenset(found)


def border_of(nest: LoopNest, stages: Stages) -> tuple[list[int], frozenset[int]]:
    """What of a row its totals are computed from, and what rows need not compute for them.

    Args:
        nest: with totals.
        stages: of the same nest.
    """
    in_rows = _needed_in_rows(stages)
    stack = [a.operand for a in epilogues_of(nest)]
    found, seen = set(), set()
    while stack:
        number = stack.pop()
        if number in seen or stages.levels[number] == 0:
            continue
        seen.add(number)
        if number < stages.first or number in in_rows:
            found.add(number)
        else:
            stack.extend(nest.body[number - stages.first].operands)
    numbers = range(stages.first, nest.value_count - nest.totals)
    results = (number for number in numbers if stages.levels[number] == 1)
    return sorted(found), frozenset(results) - in_rows


class RowEpilogue(Epilogue, RowPlaces):
    """Rows with totals of their results.

    What totals need of some rows is written down; then all that follows from it is computed for
    a vector of rows at once.
    """

    def __init__(
        self, module: Module, nest: LoopNest, name: str, *, split: bool = False
    ) -> None:
        """Take the rows' own nest, with all operands of the whole."""
        super().__init__(module, nest, name, split=split)
        self.wide = self.native
        self.border, self.skipped = border_of(nest, self.stages)

    def emit(self) -> None:
        """Append the function, with memory for some rows' values."""
        for number in self.border:
            size = 8 * tuning.EPILOGUE_ROWS
            self.scratch.append(f"  %of{number} = alloca [{size} x i8], align 64")
        super().emit()

    def _store_results(self, done: str) -> None:
        for number in self.border:
            value = self.values[number]
            put_register(self.b, value, self._noted(number, self.at, value.scalar))
        super()._store_results(done)

    def _noted(self, number: int, at: str, scalar: str) -> str:
        """Where a row's value is written down."""
        return self.moved(f"%of{number}", self.number(f"mul i64 {at}, {element_bytes(scalar)}"))

    def _unit(self, unit: str, first: str) -> None:
        """A row; when enough rows are written down, their totals."""
        b = self.b
        done = self.number(f"sub i64 {unit}, {first}")
        self.at = self.number(f"and i64 {done}, {tuning.EPILOGUE_ROWS - 1}")
        self._one_row(unit)
        full = b.value(f"icmp eq i64 {self.at}, {tuning.EPILOGUE_ROWS - 1}", "i1", 1).text
        flush, after = b.label("flush"), b.label("flushed")
        b.line(f"br i1 {full}, label %{flush}, label %{after}")
        b.start(flush)
        self._flush(str(tuning.EPILOGUE_ROWS))
        b.line(f"br label %{after}")
        b.start(after)

    def _rest(self, count: str) -> None:
        self._flush(self.number(f"and i64 {count}, {tuning.EPILOGUE_ROWS - 1}"))

    def _flush(self, rows: str) -> None:
        """Take the rows that are written down into the totals."""
        b, saved, narrow = self.b, dict(self.values), self.lanes
        self.lanes, self.divisors = self.wide, {}
        up = self.number(f"add i64 {rows}, {self.wide - 1}")
        loop = begin_loop(b, "0", self.number(f"udiv i64 {up}, {self.wide}"))
        begin = self.number(f"mul i64 {loop.index}, {self.wide}")
        mask = lane_mask(b, self.number(f"sub i64 {rows}, {begin}"), self.wide)
        for number in self.border:
            scalar = conversion.REGISTER[self.nest.dtype_of(number)]
            address = self._noted(number, begin, scalar)
            self.values[number] = get_register(b, scalar, self.wide, address)
        self._compute([a.operand for a in self.running], 2)
        self._take_results(mask)
        loop.end()
        self.lanes, self.values = narrow, saved


class ColumnEpilogue(Epilogue, ColumnReduction):
    """Columns with totals of their results."""

    def __init__(self, module: Module, nest: LoopNest, name: str) -> None:
        """Take the columns' own nest, with all operands of the whole."""
        super().__init__(module, nest, name, split=False, narrow=True)
        self.wide = self.lanes

    def _results_of(self, place: str) -> None:
        self._walk(self.range_begin, self.range_end, self._columns)

    def _store_results(self, done: str) -> None:
        self._take_results(self.mask)
        super()._store_results(done)


class GatheredEpilogue(ColumnEpilogue, GatheredRows):
    """Short rows side by side, with totals of their results."""
