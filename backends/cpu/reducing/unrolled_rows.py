"""Rows of one to a few vectors of elements, written out: nothing is counted.

Counting a row's vectors, their blocks and what is left over takes longer than its arithmetic where
there are so few. Here a row's vectors stand one after another, the last one with a mask if it needs
one. Lanes are
joined by halves: sums are trees, of every other vector each, and less deep than those of NumPy's
eight running sums of as many elements.

Rows are computed one by one, and what one stage has loaded or computed of an element the next ones
find in registers; the processor begins with the next row while lanes of one are joined. Where
elements wait for roots, quotients or heavier functions of sums, that is too far ahead: such rows
are computed by groups, whose results are vectors.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction_stages import native_lanes, stages_of
from fuser.backends.cpu.reducing.row_batches import RowBatches, batch_of
from fuser.backends.cpu.reducing.row_reduction import RowReduction, joined
from fuser.backends.cpu.reducing.unrolled_columns import KnownElements, work_of
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.vector_memory import lane_mask
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT

#: Bytes of a vector, whatever the processor has: lengths alone choose forms.
VECTOR_BYTES = 64


def schedule_of(nest: LoopNest, length: int, *, batched: bool = False) -> Schedule:
    """The schedule of rows of so many elements, one by one or in batches."""
    lanes = native_lanes(nest, VECTOR_BYTES)
    vectors = -(-length // lanes)
    tail: Literal["masked", "none"] = "none" if length == vectors * lanes else "masked"
    schedule = Schedule(unroll=vectors, tail=tail, accumulate="plain")
    if not batched:
        return schedule
    return changed(schedule, combine="lane_transpose", tile=batch_of(nest))


def can_be_unrolled(nest: LoopNest, vectors: int) -> bool:
    """Whether a nest's rows lie in memory as vectors, and their code stays short."""
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2 or nest.checked:
        return False
    stages = stages_of(nest)
    running = [a for stage in stages.loops for a in stages.reductions_of(stage)]
    plain = all(not a.places and a.dtype in ("float32", "float64") for a in running)
    together = all(desc.access in (CONTIGUOUS, INVARIANT) for desc in nest.operands)
    short = vectors <= tuning.UNROLLED_HEAVY_VECTORS or not is_heavy(nest)
    short = short and work_of(nest) * vectors <= tuning.UNROLLED_COST
    return bool(running) and plain and together and short


def is_heavy(nest: LoopNest) -> bool:
    """Whether elements take heavy functions."""
    stages = stages_of(nest)
    body = enumerate(nest.body, stages.first)
    return any(i.row.heavy and stages.levels[number] == 2 for number, i in body)


class Unrolled(KnownElements, RowReduction):
    """What rows one by one and rows in groups share: a row's vectors, one after another."""

    vector_bytes = VECTOR_BYTES
    unrolled_vectors, whole_rows = 1, False

    def _hold(self, schedule: Schedule) -> None:
        """Take one vector at a time, and leave nothing in memory."""
        self.lanes = self.native
        self.stages.kept, self.known = {}, {}
        self.unrolled_vectors, self.whole_rows = schedule.unroll, schedule.tail == "none"

    def _count_vectors(self) -> None:
        """Which lanes of the last vector are in the row."""
        before = (self.unrolled_vectors - 1) * self.native
        rest = self.number(f"sub i64 {self.lengths[-1]}, {before}")
        self.mask = lane_mask(self.b, rest, self.native)

    def _take_row(self, stage: int, running: list[Accumulator]) -> None:
        b = self.b
        self._prepare_divisors(stage)
        for accumulator in running:
            accumulator.parts = accumulators.start(b, accumulator, self.native)
        accumulators.note(b, running, self.native)
        sums = [accumulator for accumulator in running if accumulator.exact]
        others = [accumulator.parts for accumulator in sums]
        for accumulator in sums:  # x + -0.0 is x, which costs nothing; the others' 0.0 makes it 0.0
            accumulator.parts = [b.fconst(accumulator.parts[0], -0.0)]
        for piece in range(self.unrolled_vectors):
            self.element = piece
            masked = piece == self.unrolled_vectors - 1 and not self.whole_rows
            mask = self.mask if masked else None
            self._take_at(stage, running, self.tops, str(piece * self.native), mask)
            for place, accumulator in enumerate(sums):
                accumulator.parts, others[place] = others[place], accumulator.parts
        accumulators.settle(b, running, self.native)
        for accumulator, (other,) in zip(sums, others, strict=True):
            accumulator.parts = [joined(b, accumulator, accumulator.parts[0], other)]


class UnrolledRows(Unrolled):
    """Emits one nest whose rows have a known number of vectors."""

    by_stage = looks_ahead = False

    def __init__(self, module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
        """Note how many vectors a row has."""
        super().__init__(module, nest, name, split=False, short=True)
        self._hold(schedule)

    def _header(self) -> None:
        super()._header()
        self._count_vectors()

    def _results_of(self, place: str) -> None:
        """All stages over one row."""
        self.tops, self.known = self.rows, {}
        self._all_stages()

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        self._take_row(stage, running)
        for accumulator in running:
            if accumulator.exact:
                join = partial(joined, self.b, accumulator)
                accumulator.parts = [accumulators.halved(self.b, accumulator.parts[0], join)]
            else:
                accumulator.parts = accumulators.combine_lanes(
                    self.b, accumulator, self.begin, keep_error=False
                )


class UnrolledBatches(Unrolled, RowBatches):
    """The same by groups of rows, whose results are computed together."""

    def __init__(self, module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
        """Note how many vectors a row has."""
        RowBatches.__init__(self, module, nest, name, group=schedule.tile, short=True)
        self._hold(schedule)
        self.row_lanes = self.lanes

    def _take_row(self, stage: int, running: list[Accumulator]) -> None:
        self.known = {}  # another row
        super()._take_row(stage, running)


