"""Columns of two to eight elements: the loop over them is unrolled.

Colours of an image, classes or channels before the pixels: running values stay in registers, what
one stage has loaded or computed of an element the next ones find there, and nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.reduction import Reduction
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.codegen import Instruction, LoopNest


class KnownElements(Reduction):
    """What one stage has loaded or computed of an element the next ones find in registers."""

    element = 0
    """Which element, or vector of elements, is met."""
    known: dict[tuple[int, int], Value]
    """What was loaded and computed of elements: (value, which element)."""

    def _instruction(self, number: int, instruction: Instruction, level: int) -> None:
        key = number, self.element
        if level == 2 and key in self.known:
            self.values[number] = self.known[key]
            return
        super()._instruction(number, instruction, level)
        if level == 2:
            self.known[key] = self.values[number]

    def _load_pair(
        self, k: int, address: Callable[[int], str], step: Callable[[int], str]
    ) -> None:
        keys = [(number, self.element) for number in (k, k + 1)]
        if not all(key in self.known for key in keys):
            super()._load_pair(k, address, step)
            self.known |= {key: self.values[key[0]] for key in keys}
        self.values |= {key[0]: self.known[key] for key in keys}

    def _load_vector(self, k: int, address: str, step: str, mask: Value | None) -> Value:
        key = k, self.element
        if key not in self.known:
            self.known[key] = super()._load_vector(k, address, step, mask)
        return self.known[key]


def can_be_unrolled(nest: LoopNest, length: int) -> bool:
    """Whether the code of columns of a length stays short."""
    return not nest.checked and work_of(nest) * length <= tuning.UNROLLED_COLUMN_COST


def work_of(nest: LoopNest) -> int:
    """The work of an element that no stage computes again, in light operations."""
    stages = stages_of(nest)
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
