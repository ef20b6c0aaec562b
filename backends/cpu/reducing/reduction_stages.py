"""What belongs where in a loop nest that reduces: levels and stages of its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import BITS
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.spelling import HEAVY_CODE
from fuser.base.caches import memo
from fuser.base.records import changed, record
from fuser.codegen import LoopNest
from fuser.ir.ops import TABLE
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc
from fuser.traffic import stages as by_elements


def native_lanes(nest: LoopNest, vector_bytes: int) -> int:
    """Elements of one native vector of the widest value that is computed with."""
    return max(1, vector_bytes // max(nest.itemsize, 4))


def unrolled(nest: LoopNest, steps: tuple[tuple[int, int], ...], *, by_stage: bool = False) -> int:
    """How many native vectors the body takes at a time; one where elements are picked.

    Args:
        nest: the loops.
        steps: costs of a body at most, and vectors.
        by_stage: whether running values of one stage are in registers at once, not of all.
    """
    if any(desc.picked for desc in nest.loads) or not _gathers_rows(nest):
        return 1
    stages = stages_of(nest)
    wide = next((vectors for limit, vectors in steps if stages.cost <= limit), 1)
    counts = [sum(1 + a.places for a in stages.reductions_of(stage)) for stage in stages.loops]
    parts = max(counts) if by_stage else sum(counts)
    while wide > 1 and wide * parts > tuning.RUNNING_REGISTERS:
        wide //= 2
    return wide


def _gathers_rows(nest: LoopNest) -> bool:
    """Whether all elements that are read at computed places lie beside each other."""
    alike = {k for k, desc in enumerate(nest.loads) if desc.access == INVARIANT}
    first = nest.value_count - len(nest.body)
    alike.update(range(len(nest.loads), first))
    for number, instruction in enumerate(nest.body, first):
        if instruction.row.gathers and not alike.issuperset(instruction.operands[:-1]):
            return False
        if alike.issuperset(instruction.operands):
            alike.add(number)
    return True


@record
class Kept:
    """A value that one stage leaves for later ones.

    Attributes:
        made: the stage that computes it.
        place: of the store where it is left.
        until: the last stage that may read it back: the next value takes its place there.
    """

    made: int
    place: int
    until: int


@memo(64)
def stages_of(nest: LoopNest) -> Stages:
    """The stages of a nest, for those who change nothing: a choice asks for them many times."""
    return Stages(nest)


class Stages(by_elements.Stages):
    """The stages with their accumulators, and what one leaves in memory for later ones."""

    def __init__(self, nest: LoopNest) -> None:
        """Classify every value."""
        super().__init__(nest)
        self.loops = sorted(set(self.passes()) | {0})
        self.final = len(self.loops) - (0 if self.reductions_of(self.last) else 1)
        """The number of the step, counted from 0, that makes the stores of results."""
        self.kept: dict[int, Kept] = {}
        """Costly values that one stage leaves for later ones where the last one's store goes."""
        self._find_kept()

    def reductions_of(self, stage: int) -> list[Accumulator]:
        """The reductions that the loop of a stage computes."""
        return [
            Accumulator(number, each.op, each.operand_dtype, each.operands[0])
            for number, each in self.reduced_by(stage)
        ]

    def is_plain_result(self, number: int, stage: int) -> bool:
        """Whether a value of a result's shape, no reduction, is computable after a stage."""
        op = TABLE[self.nest.body[number - self.first].op]
        return self.levels[number] < 2 and not op.reduction and self.stage_of[number] == stage

    def is_kept(self, number: int, stage: int) -> bool:
        """Whether a stage reads a value back that an earlier one left."""
        kept = self.kept.get(number)
        return kept is not None and kept.made < stage <= kept.until

    def left_by(self, stage: int) -> list[tuple[int, int]]:
        """Values that a stage leaves for later ones, and the places of the stores."""
        return [(n, kept.place) for n, kept in self.kept.items() if kept.made == stage]

    @property
    def cost(self) -> int:
        """The work of one element in the most costly stage, in light operations."""
        return max(self.cost_of(self.computed(stage)) for stage in self.loops)

    def cost_of(self, numbers: Iterable[int]) -> int:
        """The work of some values of one element, in light operations."""
        return sum(self._cost(number) for number in numbers)

    def computed(self, stage: int) -> list[int]:
        """Elements' values that a stage computes, neither loaded nor read back."""
        return [
            number
            for number in self.needed(stage)
            if number >= self.first and not self.is_kept(number, stage)
        ]

    def _cost(self, number: int) -> int:
        return HEAVY_CODE if self.nest.body[number - self.first].row.heavy else 1

    @property
    def stores_elements(self) -> bool:
        """Whether any stage stores elements."""
        return any(self.stores_of(stage) for stage in self.loops)

    @property
    def ends_with_stores(self) -> bool:
        """Whether the last stage computes elements from results, and reduces nothing."""
        return len(self.loops) > 1 and not self.reductions_of(self.last)

    def edge(self, stage: int) -> list[int]:
        """Values of a result's shape that a stage needs for its elements."""
        wanted = self.wanted_by(stage)
        for number in self.needed(stage):
            if number >= self.first:
                wanted.extend(self.nest.body[number - self.first].operands)
        return sorted({number for number in wanted if self.levels[number] == 1})

    def _find_kept(self) -> None:
        """Find costly values of one stage that later ones need again.

        They are left where the last stage stores, if that lies like them in memory. What a stage
        leaves takes the place of what an earlier one has left. Not so in columns: memory is
        written row by row, once all results are there.
        """
        stores = self.stores_of(self.last)
        if len(stores) != 1 or not self.ends_with_stores or self.nest.strategy == "column":
            return
        desc = self.nest.stores[stores[0]][1]
        if desc.access != CONTIGUOUS or desc.dtype not in ("float32", "float64"):
            return
        for place, stage in enumerate(self.loops[:-1]):
            later = self.loops[place + 1 :]
            best, before = self._later_cost(later) - HEAVY_CODE, self.kept
            for number in self.needed(stage):
                alike = self.nest.dtype_of(number) == desc.dtype and number not in before
                if not alike or not self._is_costly(number):
                    continue
                found = {n: changed(k, until=min(k.until, stage)) for n, k in before.items()}
                found[number] = Kept(stage, stores[0], self.last)
                tried, self.kept = self.kept, found
                cost = self._later_cost(later)
                if cost > best or not all(self._is_apart(stage, desc) for stage in later):
                    self.kept = tried
                else:
                    best = cost

    def _later_cost(self, stages: Sequence[int]) -> int:
        """The work of one element in some stages, in light operations."""
        return sum(self.cost_of(self.computed(stage)) for stage in stages)

    def _is_apart(self, stage: int, target: TensorDesc) -> bool:
        """Whether a stage loads no elements from what might be the memory that is stored to.

        That has elements for every row: what all rows share is no part of it.
        """
        loads = (self.nest.loads[k] for k in self.needed(stage) if k < len(self.nest.loads))
        own_rows = target.beside not in ("", INVARIANT)
        return all(own_rows and desc.beside == INVARIANT for desc in loads)

    def _is_costly(self, number: int) -> bool:
        """Whether a value takes heavy operations on elements."""
        stack, seen = [number], set()
        while stack:
            current = stack.pop()
            if self.levels[current] < 2 or current in seen or current < self.first:
                continue
            seen.add(current)
            instruction = self.nest.body[current - self.first]
            if instruction.row.heavy:
                return True
            stack.extend(instruction.operands)
        return False

    def first_slot(self, stage: int, column: bool) -> int:
        """Partial results that stages before this one keep of one part."""
        return sum(
            len(accumulator.saved(column=column))
            for before in self.loops
            if before < stage
            for accumulator in self.reductions_of(before)
        )

    @property
    def slot_bytes(self) -> int:
        """Bytes of the widest partial result that is kept of a column."""
        kept = [a.saved(column=True) for stage in self.loops for a in self.reductions_of(stage)]
        return max((BITS[scalar] // 8 for scalars in kept for scalar in scalars), default=1) or 1

    def slots(self, *, column: bool) -> int:
        """Partial results that all stages keep of one part."""
        return self.first_slot(self.last + 1, column)
