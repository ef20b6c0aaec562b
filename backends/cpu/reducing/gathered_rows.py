"""Rows of few elements, side by side: a vector has an element of each.

NumPy adds eight numbers at a time where a row has as many. Here eight elements are added in pairs,
and these in pairs, to two running sums, which has errors of the same size, and what is left over
one after another, as NumPy does: rows of less than sixteen elements have its bits. Bodies whose
code is not worth repeating so often are added to four sums in turn.

All schedules of such rows add in this order, so that their results do not depend on how many there
are.
"""

from __future__ import annotations

from collections.abc import Mapping

from fuser.backends.cpu import conversion, spacing, tuning
from fuser.backends.cpu.body import Body, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.reduction import deal
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.schedule import Schedule
from fuser.base.records import changed
from fuser.codegen import LoopNest

GATHERED = Schedule(vector_axis="strided", layout="gather", accumulate="plain")
PAIRWISE = changed(GATHERED, accumulate="pairwise")


def schedule_of(nest: LoopNest, length: int) -> Schedule:
    """How rows of a length lie side by side: others than sums have one order for all."""
    stages = stages_of(nest)
    exact = any(a.exact for stage in stages.loops for a in stages.reductions_of(stage))
    return PAIRWISE if exact and length >= tuning.PAIRED_BLOCK else GATHERED


class GatheredRows(ColumnReduction):
    """Emits one nest of rows, turned into columns, that have a block of elements."""

    finds_pairs = False
    along: Mapping[int, int] = {}
    """Bytes from element to element of a row of an operand, where they are known."""

    apart = False
    """Whether rows are known to be longer than what shuffles pick elements from."""

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        """The elements of all rows."""
        exact = any(accumulator.exact for accumulator in running)
        if not exact or any(accumulator.places for accumulator in running):
            super()._stage(stage, running)
            return
        light = self.stages.cost <= tuning.PAIRED_COST
        for accumulator in running:
            accumulator.parts = accumulators.start(self.b, accumulator, self.lanes)
            if accumulator.exact:
                accumulator.parts *= 2 if light else tuning.GATHERED_CHAINS
        if light:
            self._in_pairs(stage, running)
        else:
            self._in_chains(stage, running)

    def _in_pairs(self, stage: int, running: list[Accumulator]) -> None:
        """Blocks of elements, and the rest one by one."""
        b, count, self.apart = self.b, self.counts[0], True
        blocks = self.number(f"udiv i64 {count}, {tuning.PAIRED_BLOCK}")
        loop = begin_loop(b, "0", blocks)
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        self._block(stage, running, self.number(f"mul i64 {loop.index}, {tuning.PAIRED_BLOCK}"))
        loop.end([part for accumulator in running for part in accumulator.parts])
        deal(loop.results, running)
        self._join_sums(running)
        loop = begin_loop(b, self.number(f"mul i64 {blocks}, {tuning.PAIRED_BLOCK}"), count)
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        operands = self._element(stage, running, loop.index)
        for accumulator, value in zip(running, operands, strict=True):
            accumulators.take(b, accumulator, value, None, None)
        loop.end([part for accumulator in running for part in accumulator.parts])
        deal(loop.results, running)
        self.apart = False

    def _block(self, stage: int, running: list[Accumulator], first: str) -> None:
        """Add the lower half of eight elements to the first sums, the upper to the others."""
        b = self.b
        for half in range(2):
            sums: list[list[tuple[int, Value]]] = [[] for _ in running]
            many = tuning.PAIRED_BLOCK // 2
            for turn in range(half * many, (half + 1) * many):
                operands = self._element(stage, running, first, turn)
                for accumulator, found, value in zip(running, sums, operands, strict=True):
                    if accumulator.exact:
                        _add_pairs(b, found, value)
                    else:
                        accumulators.take(b, accumulator, value, None, None)
            for accumulator, found in zip(running, sums, strict=True):
                if accumulator.exact:
                    ((_, total),) = found
                    accumulator.parts[half] = b.op("fadd", accumulator.parts[half], total)

    def _in_chains(self, stage: int, running: list[Accumulator]) -> None:
        """One element after another."""
        loop = begin_loop(self.b, "0", self.counts[0])
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        self._take_in_turn(running, self._element(stage, running, loop.index))
        loop.end([part for accumulator in running for part in accumulator.parts])
        deal(loop.results, running)
        self._join_sums(running)

    def _take_in_turn(self, running: list[Accumulator], operands: list[Value]) -> None:
        """Add to the first sums, which become the last ones."""
        for accumulator, value in zip(running, operands, strict=True):
            if accumulator.exact:
                first, *others = accumulator.parts
                accumulator.parts = [*others, self.b.op("fadd", first, value)]
            else:
                accumulators.take(self.b, accumulator, value, None, None)

    def _join_sums(self, running: list[Accumulator]) -> None:
        """Add the sums in pairs."""
        for accumulator in running:
            if accumulator.exact:
                found: list[tuple[int, Value]] = []
                for part in accumulator.parts:
                    _add_pairs(self.b, found, part)
                accumulator.parts = [found[0][1]]

    def _element(
        self, stage: int, running: list[Accumulator], first: str, turn: int = 0
    ) -> list[Value]:
        """What is reduced of one element of each row, so many after some first one."""
        tops = []
        for k, top in enumerate(self.tops):
            step = str(self.along.get(k) or self.strides[k][-1])
            at = self.moved(top, self.number(f"mul i64 {first}, {step}"))
            further = self.number(f"mul i64 {turn}, {step}")
            tops.append(self.moved(at, further) if turn else at)
        return self._vector(stage, running, lambda k: tops[k], self._step, self.mask)

    def _load_vector(self, k: int, address: str, step: str, mask: Value | None) -> Value:
        desc = self.operands[k]
        single = self.apart and (k in self.along or self.lanes <= tuning.GATHERED_LANES)
        if mask is not None or not single or not desc.picked or self.lanes == 1:
            return super()._load_vector(k, address, step, mask)
        memory = conversion.MEMORY[desc.dtype]
        raw = spacing.one_by_one(self.b, memory, address, step, self.lanes)
        return conversion.from_memory(self.b, raw, desc.dtype)


def _add_pairs(b: Body, sums: list[tuple[int, Value]], value: Value) -> None:
    """Add one value to sums of one, two, four … values, as a counter carries its ones."""
    size = 1
    while sums and sums[-1][0] == size:
        value = b.op("fadd", sums.pop()[1], value)
        size *= 2
    sums.append((size, value))
