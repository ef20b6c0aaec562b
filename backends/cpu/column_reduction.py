"""Reductions down columns: elements beside each other belong to different results."""

from __future__ import annotations

from fuser.backends.cpu import accumulators
from fuser.backends.cpu.accumulators import Accumulator
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.emit_reduction import Reduction, element_bytes
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reduction_stages import COLUMN_UNROLL, unrolled
from fuser.backends.cpu.vector_memory import lane_mask, load, store
from fuser.codegen import LoopNest

#: Words after the partial results of a part: the last vector is kept whole.
PADDING = 16


class ColumnReduction(Reduction):
    """Emits one nest by columns."""

    def __init__(
        self, module: Module, nest: LoopNest, name: str, *, split: bool, narrow: bool = False
    ) -> None:
        """Choose how many columns are computed at a time; `narrow`: one native vector only."""
        super().__init__(module, nest, name, split=split)
        wide = 1 if narrow else unrolled(nest, COLUMN_UNROLL)
        self.widths = [self.native * wide, self.native] if wide > 1 else [self.native]
        self.beside = nest.rank - nest.reduced - 1
        """The loop over columns."""

    def _results_of(self, place: str) -> None:
        """All columns of one outer iteration: wide vectors, native ones, what is left over."""
        b = self.b
        first = "%ibegin"
        for lanes in self.widths:
            self.lanes = lanes
            count = self.number(f"sub i64 %iend, {first}")
            vectors = self.number(f"udiv i64 {count}, {lanes}")
            loop = begin_loop(b, "0", vectors)
            done = self.number(f"mul i64 {loop.index}, {lanes}")
            self._columns(self.number(f"add i64 {first}, {done}"), None, str(lanes))
            loop.end()
            done = self.number(f"mul i64 {vectors}, {lanes}")
            first = self.number(f"add i64 {first}, {done}")
        rest = self.number(f"sub i64 %iend, {first}")
        some = b.value(f"icmp ne i64 {rest}, 0", "i1", 1).text
        tail, join = b.label("tail"), b.label("join")
        b.line(f"br i1 {some}, label %{tail}, label %{join}")
        b.start(tail)
        self._columns(first, lane_mask(b, rest, self.lanes), rest)
        b.line(f"br label %{join}")
        b.start(join)

    def _columns(self, column: str, mask: Value | None, amount: str) -> None:
        """All stages down one vector of columns."""
        self.current, self.mask, self.amount = column, mask, amount
        self.tops = [
            self.moved(row, self.number(f"mul i64 {column}, {self.strides[k][self.beside]}"))
            for k, row in enumerate(self.rows)
        ]
        self._all_stages()

    def _step(self, k: int) -> str:
        """The stride between columns, in bytes."""
        return self.strides[k][self.beside]

    def _edge(self, k: int) -> Value:
        return load(self.b, self.operands[k], self.tops[k], self.mask, self._step(k), self.lanes)

    def _store_result(self, k: int, number: int) -> None:
        value = self._operand(number)
        store(self.b, self.operands[k], value, self.tops[k], self.mask, self._step(k))

    def _slot(self, scalar: str, place: str) -> tuple[str, int]:
        columns = self.number(f"add i64 {self.lengths[self.beside]}, {PADDING}")
        row = self.number(f"mul i64 {place}, {columns}")
        row = self.number(f"shl i64 {row}, 3")
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
