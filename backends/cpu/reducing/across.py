"""Sums across rows in the nest that reduces the rows: see `fuser.scheduling.epilogues`.

The rows are cut into blocks, as with other totals. Each block adds its rows' elements to a row of
running sums in scratch memory; who finishes last adds those of all blocks in order, with the
rounding errors of these additions, and computes and stores what follows.

The scratch memory's address comes after those of operands. Words after the strides: number of
blocks, rows of one, a counter; then scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.epilogues import epilogues_of
from fuser.backends.cpu.reducing.reduction import element_bytes
from fuser.backends.cpu.reducing.row_places import RowPlaces
from fuser.backends.cpu.spelling import spell
from fuser.backends.cpu.vector_memory import lane_mask, load, store
from fuser.codegen import LoopNest

#: Words after a row of running sums: the last vector is kept whole.
PADDING = 64


def lay_out(nest: LoopNest, lengths: Sequence[int]) -> tuple[list[int], Extent]:
    """How the rows are cut into blocks: by lengths alone.

    Args:
        nest: rows with sums across them.
        lengths: of all loops.
    """
    rows, elements = math.prod(lengths[:-1]), math.prod(lengths)
    each = 8 * len(epilogues_of(nest)) * (lengths[-1] + PADDING)
    many = min(elements // tuning.EPILOGUE_BLOCK, rows // tuning.ACROSS_ROWS)
    blocks = max(1, min(tuning.EPILOGUE_BLOCKS, many))
    count = -(-rows // blocks)
    blocks = -(-rows // count) if rows else 1
    extent = Extent(blocks, 1, elements, 1, 1, room_bytes=each * blocks, counts_parts=True)
    return [blocks, count, 0], extent


class RowsAcross(RowPlaces):
    """Rows, and sums across them. An item is a block of rows."""

    extra_operands = 1

    def __init__(self, module: Module, nest: LoopNest, name: str) -> None:
        """Take the rows' own nest, whose last stores are those of running sums."""
        super().__init__(module, nest, name, split=False)
        self.stages.kept = {}  # running sums are no place to leave values in
        self.running = epilogues_of(nest)
        self.own_stores = len(self.nest.stores) - len(self.running)

    def _more_words(self, place: int) -> tuple[int, str]:
        self.blocks, self.units = (self._word(place + k, "i64").text for k in range(2))
        scratch = self._word(len(self.operands), "ptr").text
        self.scratch_memory, self.counter = scratch, self.moved("%block", str(8 * (place + 2)))
        return place + 3, ""

    def _item(self, item: str) -> None:
        b, saved = self.b, dict(self.values)
        self.sums = [self._sums(slot, item) for slot in range(len(self.running))]
        self._begin_sums()
        rows = "1"
        for length in self.lengths[:-1]:
            rows = self.number(f"mul i64 {rows}, {length}")
        first = self.number(f"mul i64 {item}, {self.units}")
        end = self._less(self.number(f"add i64 {first}, {self.units}"), rows)
        loop = begin_loop(b, first, end)
        super()._item(loop.index)
        loop.end()
        seen = self.number(f"atomicrmw add ptr {self.counter}, i64 1 acq_rel")
        after = self.number(f"add i64 {seen}, 1")
        last = b.value(f"icmp eq i64 {after}, {self.blocks}", "i1", 1).text
        finish, done = b.label("finish"), b.label("closed")
        b.line(f"br i1 {last}, label %{finish}, label %{done}")
        b.start(finish)
        self._finish_columns()
        b.line(f"br label %{done}")
        b.start(done)
        self.values = saved

    def _sums(self, slot: int, block: str) -> str:
        """The address of a block's running sums."""
        each = self.number(f"add i64 {self.lengths[-1]}, {PADDING}")
        place = self.number(f"mul i64 {block}, {len(self.running)}")
        place = self.number(f"add i64 {place}, {slot}")
        place = self.number(f"mul i64 {place}, {each}")
        return self.moved(self.scratch_memory, self.number(f"shl i64 {place}, 3"))

    def _begin_sums(self) -> None:
        """All running sums of a block begin with 0."""
        b = self.b
        up = self.number(f"add i64 {self.lengths[-1]}, {self.lanes - 1}")
        loop = begin_loop(b, "0", self.number(f"udiv i64 {up}, {self.lanes}"))
        for accumulator, address in zip(self.running, self.sums, strict=True):
            size = self.lanes * element_bytes(accumulator.register)
            at = self.moved(address, self.number(f"mul i64 {loop.index}, {size}"))
            zero = accumulators.zero(b, accumulator, self.lanes)
            b.line(f"store {zero.typed}, ptr {at}, align 1")
        loop.end()

    def _load_sums(self, accumulator: Accumulator, address: str, lanes: int) -> Value:
        kind = Value("", accumulator.register, lanes).type
        text = f"load {kind}, ptr {address}, align 1"
        return self.b.value(text, accumulator.register, lanes)

    def _store_vector(
        self,
        place: int,
        value: Value,
        address: Callable[[int], str],
        step: Callable[[int], str],
        mask: Value | None,
    ) -> None:
        if place < self.own_stores:
            super()._store_vector(place, value, address, step, mask)
            return
        b, accumulator = self.b, self.running[place - self.own_stores]
        if mask is not None:
            value = b.select(mask, value, accumulators.zero(b, accumulator, value.lanes))
        size = element_bytes(accumulator.register)
        offset = self.number(f"mul i64 {self.done}, {size}")
        sums = self.moved(self.sums[place - self.own_stores], offset)
        old = self._load_sums(accumulator, sums, value.lanes)
        new = spell(b, "add", accumulator.dtype, [old, value])
        b.line(f"store {new.typed}, ptr {sums}, align 1")

    # -- the end ----------------------------------------------------------------------------

    def _finish_columns(self) -> None:
        """The sums of all blocks, what follows from them, and their stores."""
        b, wide = self.b, self.lanes
        self.lanes, self.divisors = self.native, {}
        length = self.lengths[-1]
        up = self.number(f"add i64 {length}, {self.lanes - 1}")
        loop = begin_loop(b, "0", self.number(f"udiv i64 {up}, {self.lanes}"))
        begin = self.number(f"mul i64 {loop.index}, {self.lanes}")
        rest = self.number(f"sub i64 {length}, {begin}")
        mask = lane_mask(b, self._less(rest, str(self.lanes)), self.lanes)
        saved = dict(self.values)
        for slot, accumulator in enumerate(self.running):
            self._finish(accumulator, self._joined_blocks(slot, accumulator, begin))
        self._follow(begin, mask)
        self.values = saved
        loop.end()
        self.lanes = wide

    def _joined_blocks(self, slot: int, accumulator: Accumulator, begin: str) -> list[Value]:
        """One vector of sums of all blocks, in order."""
        b = self.b
        offset = self.number(f"mul i64 {begin}, {element_bytes(accumulator.register)}")
        first = self.moved(self._sums(slot, "0"), offset)
        parts = [self._load_sums(accumulator, first, self.lanes)]
        if accumulator.exact:
            parts.append(accumulators.zero(b, accumulator, self.lanes))
        loop = begin_loop(b, "1", self.blocks)
        carried = [loop.carry(part) for part in parts]
        address = self.moved(self._sums(slot, loop.index), offset)
        new = self._load_sums(accumulator, address, self.lanes)
        loop.end(accumulators.merge(b, accumulator, carried, [new]))
        return loop.results

    def _follow(self, begin: str, mask: Value) -> None:
        """What follows from one vector of sums, and its stores."""
        b, whole, end = self.b, self.whole, self.whole.value_count

        def address(k: int) -> str:
            return self.moved(self.pointers[k], self.number(f"mul i64 {begin}, {self._step(k)}"))

        stack, found = list(range(end - whole.totals, end)), set()
        while stack:
            number = stack.pop()
            if number in found or number in self.values:
                continue
            found.add(number)
            if number >= self.first:
                stack.extend(whole.body[number - self.first].operands)
        for number in sorted(found):
            if number < len(whole.loads):
                desc, step = self.operands[number], self._step(number)
                self.values[number] = load(b, desc, address(number), mask, step, self.lanes)
            else:
                self._instruction(number, whole.body[number - self.first], 2)
        for place, (number, desc) in enumerate(whole.stores):
            if end - whole.totals <= number < end:
                k = len(whole.loads) + place
                store(b, desc, self._operand(number), address(k), mask, self._step(k))
