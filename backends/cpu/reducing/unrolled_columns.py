"""Columns of two to eight elements: the loop over them is written out.

Colours of an image, classes or channels before the pixels: running values stay in registers, what
one stage has loaded or computed of an element the next ones find there, and nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.known_elements import KnownElements
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.codegen import LoopNest


def can_be_unrolled(nest: LoopNest, length: int) -> bool:
    """Whether the code of columns of a length stays short."""
    plain = not nest.totals and not nest.checked
    return plain and work_of(nest) * length <= tuning.UNROLLED_COLUMN_COST


def work_of(nest: LoopNest) -> int:
    """The work of an element that no stage computes again, in light operations."""
    stages = Stages(nest)
    return stages.cost_of({number for stage in stages.loops for number in stages.computed(stage)})


class UnrolledColumns(KnownElements, ColumnReduction):
    """Emits one nest of columns of a known length."""

    def __init__(self, module: Module, nest: LoopNest, name: str, length: int) -> None:
        """Choose how many columns are computed at a time."""
        super().__init__(module, nest, name, split=False, narrow=True)
        self.length, self.known = length, {}

    def _columns(self, column: str, mask: Value | None, amount: str) -> None:
        self.known = {}
        super()._columns(column, mask, amount)

    def _nested(
        self,
        depth: int,
        tops: list[str],
        running: list[Accumulator],
        inside: Callable[[list[str]], None],
        last: int,
    ) -> None:
        """The elements, one after another."""
        along = self.nest.rank - self.nest.reduced
        for element in range(self.length):
            self.element, self.turn = element, str(element)
            moved = tops
            if element:
                steps = (self.number(f"mul i64 {element}, {s[along]}") for s in self.strides)
                moved = [self.moved(top, step) for top, step in zip(tops, steps, strict=True)]
            inside(moved)


class UnrolledVectors(UnrolledColumns):
    """Emits one nest whose columns lie beside each other."""

    def __init__(self, module: Module, nest: LoopNest, name: str, length: int) -> None:
        """As the base class; light work is done on two vectors at a time."""
        super().__init__(module, nest, name, length)
        picked = any(desc.picked for desc in self.operands)
        if not picked and work_of(nest) * length <= tuning.UNROLLED_LIGHT_COST:
            self.widths = [2 * self.native, self.native]
