"""A reducing loop nest in stages: what each of its runs through the elements needs.

A stage ends where a reduction's result is needed. A value has level 0 if it is one for a call,
level 1 if it belongs to a result, level 2 if it belongs to an element.
"""

from __future__ import annotations

from collections.abc import Iterable

from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import INVARIANT, TensorDesc


class Stages:
    """In which pass over a nest's elements each value is computed, and how often: its level.

    Attributes:
        nest: what is computed.
        first: the number of its first instruction.
        steady: loads that stay the same along the reduced loops.
        levels: of the values.
        stage_of: how many reductions, one after another, are done before a value is computed.
        reducing: reductions with their numbers.
        last: the last stage that needs the elements.
    """

    def __init__(self, nest: LoopNest) -> None:
        """Classify every value."""
        self.nest = nest
        self.first = nest.value_count - len(nest.body)
        self.steady = [k for k, desc in enumerate(nest.loads) if self.is_steady(desc)]
        self.levels = [1 if k in self.steady else 2 for k in range(len(nest.loads))]
        self.levels += [0] * (self.first - len(self.levels))
        self.stage_of = [0] * self.first
        for instruction in nest.body:
            reduces = instruction.row.reduction
            levels = [self.levels[k] for k in instruction.operands]
            stage = max((self.stage_of[k] for k in instruction.operands), default=0)
            self.levels.append(1 if reduces else max(levels, default=0))
            self.stage_of.append(stage + reduces)
        numbered = enumerate(nest.body, self.first)
        self.reducing = [(number, each) for number, each in numbered if each.row.reduction]
        self.last = max(self.passes(), default=0)

    def is_steady(self, desc: TensorDesc) -> bool:
        """Whether an operand stays the same along the reduced loops."""
        if self.nest.strategy == "row" and self.nest.reduced == 1:
            return desc.access == INVARIANT
        return desc.steady

    def passes(self) -> list[int]:
        """Stages whose reductions or stores need every element."""
        found = [self.stage_of[number] - 1 for number, _ in self.reducing]
        found += [
            self.stage_of[number]
            for place, (number, _) in enumerate(self.nest.stores)
            if self.store_level(place) == 2
        ]
        return found

    def reduced_by(self, stage: int) -> list[tuple[int, Instruction]]:
        """The reductions that a stage computes, with their numbers."""
        return [(number, each) for number, each in self.reducing
                if self.stage_of[number] == stage + 1]  # fmt: skip

    def store_level(self, place: int) -> int:
        """Whether a store writes every element (2) or every result (1)."""
        return 1 if self.is_steady(self.nest.stores[place][1]) else 2

    def stores_of(self, stage: int) -> list[int]:
        """Positions of the stores that write elements in a stage."""
        return [place for place, (number, _) in enumerate(self.nest.stores)
                if self.store_level(place) == 2 and self.stage_of[number] == stage]  # fmt: skip

    def wanted_by(self, stage: int) -> list[int]:
        """Values that a stage reduces or stores."""
        reduced = [each.operands[0] for _, each in self.reduced_by(stage)]
        return reduced + [self.nest.stores[place][0] for place in self.stores_of(stage)]

    def is_kept(self, number: int, stage: int) -> bool:
        """Whether a stage reads a value back that an earlier one left; without memory none is."""
        return False

    def needed(self, stage: int) -> list[int]:
        """Elements' values that a stage computes, loads or reads back, in order."""
        return self.elements_of(self.wanted_by(stage), stage)

    def loads_of(self, stage: int) -> list[int]:
        """Operands whose elements a stage loads."""
        return [number for number in self.needed(stage) if number < len(self.nest.loads)]

    def elements_of(self, wanted: Iterable[int], stage: int = 0) -> list[int]:
        """Elements' values that some values are computed from in a stage, in order."""
        found: set[int] = set()
        stack = list(wanted)
        while stack:
            number = stack.pop()
            if self.levels[number] < 2 or number in found:
                continue
            found.add(number)
            if number >= self.first and not self.is_kept(number, stage):
                stack.extend(self.nest.body[number - self.first].operands)
        return sorted(found)
