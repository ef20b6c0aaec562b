"""Reductions down columns: elements beside each other belong to different results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fuser.backends.cpu import conversion, interleaving, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.loops import Loop, begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction import Reduction, element_bytes
from fuser.backends.cpu.reducing.reduction_stages import unrolled
from fuser.backends.cpu.vector_memory import (
    get_register,
    lane_mask,
    load,
    put_register,
    store,
)
from fuser.codegen import LoopNest

#: Elements after the partial results of a part: the last vector is kept whole.
PADDING = 16


class ColumnReduction(Reduction):
    """Emits one nest by columns."""

    tile_columns = tuning.COLUMN_TILE
    """Columns of a tile."""
    fused_squares = False  # waits for memory, not for sums: a few rows have NumPy's bits

    def __init__(
        self, module: Module, nest: LoopNest, name: str, *, split: bool, narrow: bool = False
    ) -> None:
        """Choose how many columns are computed at a time; `narrow`: one native vector only."""
        super().__init__(module, nest, name, split=split)
        wide = 1 if narrow else unrolled(nest, tuning.COLUMN_UNROLL)
        self.widths = [self.native * wide, self.native] if wide > 1 else [self.native]
        self.beside = nest.rank - nest.reduced - 1
        """The loop over columns."""
        self.left: list[int] = []
        if not split and not narrow and self.stages.ends_with_stores:
            self.postponed = self.stages.last
            self.left = self.stages.edge(self.postponed)
            size = max(1, len(self.left)) * 8 * (tuning.COLUMN_TILE + PADDING)
            self.scratch.append(f"  %left = alloca [{size} x i8], align 64")

    def _results_of(self, place: str) -> None:
        """All columns of one outer iteration.

        A last stage that only stores runs through the rows of a tile of columns, from one end of
        memory to the other, when all results of the tile are there.
        """
        if self.postponed < 0:
            self._walk("%ibegin", "%iend", self._columns)
            return
        loop, begin, end = self._tile_loop()
        self.tile = begin
        self._walk(begin, end, self._columns)

        def inside(tops: list[str]) -> None:
            self._walk(begin, end, partial(self._last_columns, tops))

        self._nested(0, self.rows, [], inside, self.nest.reduced)
        loop.end()

    def _tile_loop(self) -> tuple[Loop, str, str]:
        """Begin the loop over tiles; the first column of each, and the one behind its last."""
        b = self.b
        count, size = self.number("sub i64 %iend, %ibegin"), self._tile_width()
        up = self.number(f"sub i64 {self.number(f'add i64 {count}, {size}')}, 1")
        tiles = self.number(f"udiv i64 {up}, {size}")
        loop = begin_loop(b, "0", tiles)
        begin = self.number(f"add i64 %ibegin, {self.number(f'mul i64 {loop.index}, {size}')}")
        end = self.number(f"add i64 {begin}, {size}")
        more = b.value(f"icmp ult i64 {end}, %iend", "i1", 1).text
        return loop, begin, self.number(f"select i1 {more}, i64 {end}, i64 %iend")

    def _tile_width(self) -> str:
        """Columns of a tile."""
        return str(self.tile_columns)

    def _walk(self, first: str, end: str, visit: Callable[..., None]) -> None:
        """Columns [first, end): wide vectors, native ones, what is left over."""
        b = self.b
        for lanes in self.widths:
            self.lanes = lanes
            count = self.number(f"sub i64 {end}, {first}")
            vectors = self.number(f"udiv i64 {count}, {lanes}")
            loop = begin_loop(b, "0", vectors)
            done = self.number(f"mul i64 {loop.index}, {lanes}")
            visit(self.number(f"add i64 {first}, {done}"), None, str(lanes))
            loop.end()
            done = self.number(f"mul i64 {vectors}, {lanes}")
            first = self.number(f"add i64 {first}, {done}")
        rest = self.number(f"sub i64 {end}, {first}")
        some = b.value(f"icmp ne i64 {rest}, 0", "i1", 1).text
        tail, join = b.label("tail"), b.label("join")
        b.branch(some, tail, join)
        visit(first, lane_mask(b, rest, self.lanes), rest)
        b.jump(join)

    def _at(self, tops: list[str], column: str) -> list[str]:
        """Addresses of operands in a column."""
        return [
            self.moved(top, self.number(f"mul i64 {column}, {self.strides[k][self.beside]}"))
            for k, top in enumerate(tops)
        ]

    def _columns(self, column: str, mask: Value | None, amount: str) -> None:
        """All stages down one vector of columns."""
        self.current, self.mask, self.amount = column, mask, amount
        self.tops = self._at(self.rows, column)
        self._all_stages()

    def _last_columns(
        self, tops: list[str], column: str, mask: Value | None, amount: str
    ) -> None:
        """The postponed stage for one vector of one row."""
        self.current = column
        saved = dict(self.values)
        for slot, number in enumerate(self.left):
            address, scalar = self._left(slot, number)
            self.values[number] = get_register(self.b, scalar, self.lanes, address)
        places = self._at(tops, column)
        self._vector(self.postponed, [], lambda k: places[k], self._step, mask)
        self.values = saved

    def _leave(self) -> None:
        """Write down the results that the postponed stage needs."""
        for slot, number in enumerate(self.left):
            address, _ = self._left(slot, number)
            put_register(self.b, self._operand(number), address)

    def _left(self, slot: int, number: int) -> tuple[str, str]:
        """Where a result of the current column is written down, and as what."""
        scalar = conversion.REGISTER[self.nest.dtype_of(number)]
        beside = self.number(f"sub i64 {self.current}, {self.tile}")
        offset = self.number(f"mul i64 {beside}, {element_bytes(scalar)}")
        offset = self.number(f"add i64 {offset}, {slot * 8 * (tuning.COLUMN_TILE + PADDING)}")
        return self.moved("%left", offset), scalar

    def _step(self, k: int) -> str:
        """The stride between columns, in bytes."""
        return self.strides[k][self.beside]

    def _edge(self, k: int) -> Value:
        return load(self.b, self.operands[k], self.tops[k], self.mask, self._step(k), self.lanes)

    def _store_each_result(self) -> None:
        """As the base class; whole vectors that lie in turn in memory are stored together."""
        apart: list[interleaving.Apart] = []
        for place, (number, desc) in enumerate(self.nest.stores):
            k = len(self.nest.loads) + place
            if self.stages.store_level(place) != 1:
                continue
            if self.mask is None and desc.picked and self.lanes > 1:
                raw = conversion.to_memory(self.b, self._operand(number), desc.dtype)
                apart.append((raw, self.tops[k], self._step(k)))
            else:
                self._store_result(k, number)
        if apart:
            interleaving.lay_all(self.b, apart)

    def _store_result(self, k: int, number: int) -> None:
        value = self._operand(number)
        store(self.b, self.operands[k], value, self.tops[k], self.mask, self._step(k))

    def _slot(self, scalar: str, place: str) -> tuple[str, int]:
        columns = self.number(f"add i64 {self.lengths[self.beside]}, {PADDING}")
        row = self.number(f"mul i64 {place}, {columns}")
        row = self.number(f"mul i64 {row}, {self.stages.slot_bytes}")
        beside = self.number(f"mul i64 {self.current}, {element_bytes(scalar)}")
        return self.number(f"add i64 {row}, {beside}"), self.lanes

    def _amount(self) -> str:
        return self.amount

    def _whole(self) -> str:
        return self.lengths[self.beside]

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        """All reduced loops of one stage."""
        b = self.b
        for accumulator in running:
            accumulator.parts = accumulators.start(b, accumulator, self.lanes)

        def inside(tops: list[str]) -> None:
            operands = self._vector(stage, running, lambda k: tops[k], self._step, self.mask)
            for accumulator, value in zip(running, operands, strict=True):
                index = self._index(accumulator, self.turn)
                accumulators.take(b, accumulator, value, None, index)

        self._nested(0, self.tops, running, inside, self.nest.reduced)
        for accumulator in running:
            if accumulator.places:
                value, index = accumulator.parts
                if index.scalar != "i64":
                    index = b.cast("zext", index, "i64")
                begin = b.splat(Value(self.begin, "i64", 1), self.lanes)
                accumulator.parts = [value, b.op("add", index, begin)]
