"""What belongs where in a loop nest that reduces: levels and stages of its values."""

from __future__ import annotations

from fuser.backends.cpu.accumulators import Accumulator
from fuser.codegen import LoopNest
from fuser.ops import TABLE
from fuser.specs import INVARIANT, TensorDesc

#: Cost of a body in light operations, and the native vectors that it takes at a time.
ROW_UNROLL = ((6, 4), (24, 2))
COLUMN_UNROLL = ((6, 8), (24, 4), (60, 2))
#: Native registers that running values may take.
RUNNING_REGISTERS = 16


def body_cost(nest: LoopNest) -> int:
    """The work of one element in light operations."""
    light = sum(4 if TABLE[i.op].heavy else 1 for i in nest.body)
    return light + sum(5 for i in nest.body if TABLE[i.op].heavy)


def native_lanes(nest: LoopNest, vector_bytes: int) -> int:
    """Elements of one native vector of the widest value that is computed with."""
    return max(1, vector_bytes // max(nest.itemsize, 4))


def unrolled(nest: LoopNest, steps: tuple[tuple[int, int], ...]) -> int:
    """How many native vectors the body takes at a time."""
    cost = body_cost(nest)
    wide = next((vectors for limit, vectors in steps if cost <= limit), 1)
    parts = sum(1 + i.op.startswith("arg") for i in nest.body if TABLE[i.op].reduction)
    while wide > 1 and wide * parts > RUNNING_REGISTERS:
        wide //= 2
    return wide


class Stages:
    """Levels (0 a call, 1 a result, 2 an element) and stages of a nest's values."""

    def __init__(self, nest: LoopNest) -> None:
        """Classify every value."""
        self.nest = nest
        self.first = nest.value_count - len(nest.body)
        self.levels: dict[int, int] = {}
        self._stages: dict[int, int] = {}
        for k, desc in enumerate(nest.loads):
            self.levels[k], self._stages[k] = (1 if self._steady(desc) else 2), 0
        for k in range(len(nest.loads), self.first):
            self.levels[k], self._stages[k] = 0, 0
        for place, instruction in enumerate(nest.body):
            number = self.first + place
            levels = [self.levels[k] for k in instruction.operands]
            stage = max((self._stages[k] for k in instruction.operands), default=0)
            if TABLE[instruction.op].reduction:
                self.levels[number], self._stages[number] = 1, stage + 1
            else:
                self.levels[number] = max(levels, default=0)
                self._stages[number] = stage
        self.last = max(self._with_loops(), default=0)
        self.loops = sorted(set(self._with_loops()) | {0})
        self.final = len(self.loops) - (0 if self.reductions_of(self.last) else 1)
        """The number of the step, counted from 0, that makes the stores of results."""

    def _steady(self, desc: TensorDesc) -> bool:
        """Whether an operand stays the same along the reduced loops."""
        if self.nest.strategy == "row" and self.nest.reduced == 1:
            return desc.access == INVARIANT
        return desc.steady

    def _with_loops(self) -> list[int]:
        """Stages whose reductions or stores need every element."""
        found = [
            self._stages[self.first + place] - 1
            for place, instruction in enumerate(self.nest.body)
            if TABLE[instruction.op].reduction
        ]
        found += [
            self._stages[number]
            for place, (number, _) in enumerate(self.nest.stores)
            if self.store_level(place) == 2
        ]
        return found

    def reductions_of(self, stage: int) -> list[Accumulator]:
        """The reductions that the loop of a stage computes."""
        found = []
        for place, instruction in enumerate(self.nest.body):
            number = self.first + place
            if TABLE[instruction.op].reduction and self._stages[number] == stage + 1:
                operand = instruction.operands[0]
                found.append(
                    Accumulator(number, instruction.op, instruction.operand_dtype, operand)
                )
        return found

    def stores_of(self, stage: int) -> list[int]:
        """Places of the stores that the loop of a stage makes."""
        return [
            place
            for place, (number, _) in enumerate(self.nest.stores)
            if self.store_level(place) == 2 and self._stages[number] == stage
        ]

    def store_level(self, place: int) -> int:
        """Whether a store writes every element (2) or every result (1)."""
        return 1 if self._steady(self.nest.stores[place][1]) else 2

    def is_plain_result(self, number: int, stage: int) -> bool:
        """Whether a value of a result's shape, no reduction, is computable after a stage."""
        op = TABLE[self.nest.body[number - self.first].op]
        return self.levels[number] < 2 and not op.reduction and self._stages[number] == stage

    def needed(self, wanted: list[int]) -> list[int]:
        """Elements' values that others need, in order."""
        found: set[int] = set()
        stack = list(wanted)
        while stack:
            number = stack.pop()
            if self.levels[number] < 2 or number in found:
                continue
            found.add(number)
            if number >= self.first:
                stack.extend(self.nest.body[number - self.first].operands)
        return sorted(found)

    def first_slot(self, stage: int, column: bool) -> int:
        """Partial results that stages before this one keep of one part."""
        return sum(
            len(accumulator.saved(column=column))
            for before in self.loops
            if before < stage
            for accumulator in self.reductions_of(before)
        )

    def slots(self, *, column: bool) -> int:
        """Partial results that all stages keep of one part."""
        return self.first_slot(self.last + 1, column)
