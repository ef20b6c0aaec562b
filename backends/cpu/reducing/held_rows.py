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

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from fuser.backends.cpu.body import Module
from fuser.backends.cpu.costs import Extent, row_chunk
from fuser.backends.cpu.division import is_shared
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.few_rows import work_of
from fuser.backends.cpu.reducing.grouped_rows import GroupedRows, group_of, moving_of
from fuser.backends.cpu.reducing.known_elements import KnownElements
from fuser.backends.cpu.reducing.reduction_stages import Stages, native_lanes
from fuser.backends.cpu.reducing.row_reduction import RowReduction, joined
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.vector_memory import lane_mask
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.costs import is_costly
from fuser.ir.specs import CONTIGUOUS, INVARIANT

#: Bytes of a vector, whatever the processor has: lengths alone choose forms.
VECTOR_BYTES = 64
#: Vectors of a row at most, and of one with heavy functions; the work of one row in light
#: operations, at most: all of it is written out, and takes its time to compile.
MOST_VECTORS, MOST_HEAVY, MOST_COST = 16, 8, 160
#: Elements of a row, and in all, at least, and elements of one chunk.
SHORTEST, LEAST, CHUNK = 9, 1 << 14, 1 << 14
#: Vectors that all operands of a row have in groups, at most: of longer rows later stages would
#: find less in the first cache than the time is worth that results take.
GROUPED = 10
#: Bytes of an operand's row, at most, where rows come from memory, but for reductions of several
#: operands: others are not as fast as by looking ahead (0.75 to 0.9 times, doubles).
MOST_FAR_BYTES = 320
#: Rows of fewer elements fill too little of their vectors if there are several reductions, or one
#: of one operand.
WELL_FILLED = 13
#: Reductions of rows of one vector, at most, if these are stored or do not fill it: more lanes
#: would be joined than computed with; turned rows have none to join.
MOST_REDUCTIONS = 3
#: Rows of at most so many doubles with heavy functions are turned: see `turned_rows`.
TURNED, DOUBLES = 16, 8
#: Elements in all from which on rows of more vectors than that are left to `early_rows`.
EARLY = 1 << 17
#: Results of a row that are slow, if nothing waits for them, so that groups are worth it.
MANY_SLOW = 3


def extent_of(nest: LoopNest, lengths: Sequence[int], turns: int = 1) -> Extent | None:
    """How a nest runs in this form, or None where it does not.

    Args:
        nest: rows.
        lengths: of all loops: outside, rows, elements.
        turns: how many times as many rows there are in all.
    """
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2:
        return None
    *outside, rows, reduced = lengths
    outer, lanes = math.prod(outside), native_lanes(nest, VECTOR_BYTES)
    elements, vectors = outer * rows * reduced, -(-reduced // lanes)
    if elements * turns < LEAST or reduced < SHORTEST or vectors > MOST_VECTORS:
        return None
    if not can_be_held(nest, vectors) or not _fills(nest, reduced, vectors):
        return None
    fair, group = max(1, row_chunk(elements, CHUNK) // reduced), group_of(nest)
    waits, few = _waits(nest), vectors * len(moving_of(nest)) <= GROUPED
    grouped = waits and rows >= group and (few or _divides(nest))
    schedule = Schedule(
        unroll=vectors, tail="none" if reduced == vectors * lanes else "masked", accumulate="plain"
    )
    if waits and not grouped and len(moving_of(nest)) == 1 and elements * turns >= EARLY:
        return None
    if not _is_near(nest, elements * turns, reduced):
        return None
    if grouped:
        fair = max(1, fair // group) * group
        grouped_schedule = changed(schedule, combine="lane_transpose", tile=group)
        return Extent(outer, rows, elements, 1, fair, grouped_schedule)
    if reduced <= TURNED and lanes <= DOUBLES and _is_heavy(nest):
        return None
    return Extent(outer * rows, 1, elements, fair, 1, schedule)


def can_be_held(nest: LoopNest, vectors: int) -> bool:
    """Whether a nest's rows lie in memory as vectors, and their code stays short."""
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2 or nest.checked or nest.totals:
        return False
    stages = Stages(nest)
    running = [a for stage in stages.loops for a in stages.reductions_of(stage)]
    plain = all(not a.places and a.dtype in ("float32", "float64") for a in running)
    together = all(desc.access in (CONTIGUOUS, INVARIANT) for desc in nest.operands)
    short = work_of(nest) * vectors <= MOST_COST and not (vectors > MOST_HEAVY and _is_heavy(nest))
    return bool(running) and plain and together and short


def _fills(nest: LoopNest, reduced: int, vectors: int) -> bool:
    """Whether rows fill their vectors well enough."""
    stages = Stages(nest)
    stored = stages.stores_elements
    count = sum(len(stages.reductions_of(stage)) for stage in stages.loops)
    filled = reduced == native_lanes(nest, VECTOR_BYTES)
    if vectors == 1 and count > MOST_REDUCTIONS and (stored or not filled):
        return False
    return reduced >= WELL_FILLED or (count == 1 and (stored or len(moving_of(nest)) > 1))


def _is_near(nest: LoopNest, elements: int, reduced: int) -> bool:
    """Whether rows need not be looked ahead for."""
    sizes = [np.dtype(desc.dtype).itemsize for desc in moving_of(nest)]
    if reduced * max(sizes, default=0) <= MOST_FAR_BYTES or elements * sum(sizes) <= stream_bytes():
        return True
    return len(sizes) > 1 and not Stages(nest).stores_elements


def _is_heavy(nest: LoopNest) -> bool:
    """Whether elements take heavy functions."""
    stages = Stages(nest)
    body = enumerate(nest.body, stages.first)
    return any(i.row.heavy and stages.levels[number] == 2 for number, i in body)


def _waits(nest: LoopNest) -> bool:
    """Whether a row's results take so long that several rows at a time are faster."""
    stages = Stages(nest)
    results = [
        (number, i.row) for number, i in enumerate(nest.body, stages.first)
        if stages.levels[number] == 1
    ]  # fmt: skip
    slow = [number for number, row in results if is_costly(row)]
    needed = _needed(nest, [n for stage in stages.loops for n in stages.edge(stage)], stages)
    heavy = any(row.heavy for _, row in results)
    return heavy or any(number in needed for number in slow) or len(slow) >= MANY_SLOW


def _needed(nest: LoopNest, numbers: Sequence[int], stages: Stages) -> set[int]:
    """Results that some results are computed from, and these."""
    found: set[int] = set()
    stack = list(numbers)
    while stack:
        number = stack.pop()
        if number in found or number < stages.first or stages.levels[number] != 1:
            continue
        found.add(number)
        stack.extend(nest.body[number - stages.first].operands)
    return found


def _divides(nest: LoopNest) -> bool:
    """Whether results are heavy, or doubles are divided by one, which is looked at before."""
    stages = Stages(nest)
    return any(
        (stages.levels[number] == 1 and i.row.heavy)
        or (i.operand_dtype == "float64" and is_shared(i, stages.levels))
        for number, i in enumerate(nest.body, stages.first)
    )


class Held(KnownElements, RowReduction):
    """What rows one by one and rows in groups share: a row's vectors, one after another."""

    vector_bytes = VECTOR_BYTES
    vectors_held, whole_rows = 1, False

    def _hold(self, schedule: Schedule) -> None:
        """Take one vector at a time, and leave nothing in memory."""
        self.lanes = self.native
        self.stages.kept, self.known = {}, {}
        self.vectors_held, self.whole_rows = schedule.unroll, schedule.tail == "none"

    def _count_vectors(self) -> None:
        """Which lanes of the last vector are in the row."""
        before = (self.vectors_held - 1) * self.native
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
        for piece in range(self.vectors_held):
            self.element = piece
            masked = piece == self.vectors_held - 1 and not self.whole_rows
            mask = self.mask if masked else None
            self._take_at(stage, running, self.tops, str(piece * self.native), mask)
            for place, accumulator in enumerate(sums):
                accumulator.parts, others[place] = others[place], accumulator.parts
        accumulators.settle(b, running, self.native)
        for accumulator, (other,) in zip(sums, others, strict=True):
            accumulator.parts = [joined(b, accumulator, accumulator.parts[0], other)]


class HeldRows(Held):
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


class HeldGroups(Held, GroupedRows):
    """The same by groups of rows, whose results are computed together."""

    def __init__(self, module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
        """Note how many vectors a row has."""
        GroupedRows.__init__(self, module, nest, name, group=schedule.tile, short=True)
        self._hold(schedule)
        self.row_lanes = self.lanes

    def _take_row(self, stage: int, running: list[Accumulator]) -> None:
        self.known = {}  # another row
        super()._take_row(stage, running)


def emit_held(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest of such rows."""
    kind = HeldGroups if schedule.combine == "lane_transpose" else HeldRows
    kind(module, nest, name, schedule).emit()
