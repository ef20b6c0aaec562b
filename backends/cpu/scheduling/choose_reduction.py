"""Which legal schedule a reduction is given, by its lengths and strides alone: see `choose`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.division import is_shared
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.reducing import (
    deinterleaved_rows,
    flattened_columns,
    gathered_rows,
    online_rows,
    packed_columns,
    packed_rows,
    row_batches,
    unrolled_columns,
    unrolled_rows,
)
from fuser.backends.cpu.reducing.nest_views import (
    can_be_gathered,
    can_be_joined,
    can_run_along,
    lengthwise,
    turned,
)
from fuser.backends.cpu.reducing.reduction_stages import Stages, native_lanes, stages_of
from fuser.backends.cpu.reducing.row_batches import batch_of, moved_bytes, moving_of
from fuser.backends.cpu.reducing.row_reduction import is_short
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling import parts
from fuser.backends.cpu.scheduling.parts import Space
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.costs import is_costly
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES

Lengths = Sequence[int]
Strides = Sequence[Sequence[int]]


def choose_reduction(
    nest: LoopNest, lengths: Lengths, strides: Strides = (), turns: int = 0, *, waits: bool = False
) -> Schedule:
    """Choose a schedule for a nest that reduces.

    Args:
        nest: what is computed.
        lengths: of all loops.
        strides: of loads, then of stores, in bytes; without them nothing is packed.
        turns: as `choose` has it.
        waits: whether something has to wait for all parts of a row.
    """
    if nest.totals:
        return _with_epilogue(nest, lengths)
    space, times = Space.of(nest, lengths), max(turns, 1)
    unrolled = choose_unrolled_rows(nest, lengths, times)
    if unrolled is not None and nest.rank == 2:
        return unrolled
    if strides and can_be_gathered(nest):
        for chosen in (
            choose_deinterleaved_rows(nest, lengths, strides, times),
            choose_packed_rows(nest, lengths, strides, times),
            unrolled,
        ):
            if chosen is not None:
                return chosen
    if (columns := choose_unrolled_columns(nest, lengths, times)) is not None:
        return columns
    if strides and not turns and flattens_rows(nest, lengths, strides):
        return _in_parts(nest, Schedule(flattened=1), lengths)
    narrow = 0 < space.inner <= tuning.NARROW_COLUMNS
    if can_run_along(nest) and narrow and space.elements * times >= 2 * tuning.PART:
        row = choose_reduction(lengthwise(nest), lengths, (), turns)
        if row == changed(DEFAULT, split=row.split):
            return changed(row, vector_axis="strided", layout="gather")
    batches = choose_row_batches(nest, lengths, times)
    longest = tuning.GATHERED_BEFORE_BATCHES if batches is not None else tuning.GATHERED_ONCE
    if can_be_gathered(nest) and space.reduced <= min(longest, longest_gathered(nest)):
        return gathered_rows.schedule_of(nest, space.reduced)
    if batches is not None or turns:
        return batches or DEFAULT
    return _in_parts(nest, DEFAULT, lengths, waits=waits)


def longest_gathered(nest: LoopNest) -> int:
    """The longest rows that are computed side by side."""
    return tuning.GATHERED_ONCE if len(stages_of(nest).loops) == 1 else tuning.GATHERED


def longest_whole(nest: LoopNest) -> int:
    """The most elements of a nest that is never computed in parts."""
    return 2 * (tuning.EPILOGUE_BLOCK if nest.totals else tuning.PART) - 1


def _with_epilogue(nest: LoopNest, lengths: Lengths) -> Schedule:
    """Few, long rows are computed in parts."""
    if nest.across:
        return DEFAULT
    if nest.strategy == "row":
        row = choose_reduction(nest.without_totals, lengths, waits=True)
        if row.split == "await":
            return row
    reduced = Space.of(nest, lengths).reduced
    if can_be_gathered(nest) and reduced <= longest_gathered(nest):
        return gathered_rows.schedule_of(nest, reduced)
    return DEFAULT


def _in_parts(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, *, waits: bool = False
) -> Schedule:
    """Rows or columns one after another, or in parts that threads share."""
    space = Space.of(nest, lengths)
    cut = parts.cut_of(nest, schedule, lengths)
    if not schedule.flattened and _is_long(nest, space):
        return Schedule(passes="online", split="await")
    if parts.reads_once(nest, space.reduced, space.elements, cut.parts):
        joins = "await" if stages_of(nest).ends_with_stores else "last_joins"
        return changed(
            schedule, passes="online", split=joins if cut.parts > 1 else "none",
        )  # fmt: skip
    if cut.parts > 1:
        joined = can_be_joined(nest) and not waits
        return changed(schedule, split="last_joins" if joined else "await")
    return schedule


def _is_long(nest: LoopNest, space: Space) -> bool:
    """Whether rows are longer than the cache, and parts of them can be read once."""
    if nest.strategy != "row" or nest.reduced != 1 or not space.rows:
        return False
    reach = parts.element_bytes_of(nest) * space.reduced
    long = reach > ROW_CACHE_BYTES and space.reduced >= 2 * tuning.PART
    return long and online_rows.find(nest) is not None


# -- rows in unrolled vectors -------------------------------------------------------------------


def choose_unrolled_rows(nest: LoopNest, lengths: Lengths, times: int = 1) -> Schedule | None:
    """Rows of one to a few vectors, one by one, or in batches where results are waited for.

    Args:
        nest: what is computed.
        lengths: of all loops: outside, rows, elements.
        times: how many times as many rows there are in all.
    """
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2:
        return None
    *_, rows, reduced = lengths
    lanes, elements = native_lanes(nest, unrolled_rows.VECTOR_BYTES), math.prod(lengths) * times
    vectors = -(-reduced // lanes)
    if elements < tuning.UNROLLED_ELEMENTS or reduced < tuning.UNROLLED_SHORTEST:
        return None
    if vectors > tuning.UNROLLED_VECTORS or not unrolled_rows.can_be_unrolled(nest, vectors):
        return None
    if not _fills(nest, reduced, vectors):
        return None
    waits, batch, moving = _waits(nest), batch_of(nest), len(moving_of(nest))
    few = vectors * moving <= tuning.UNROLLED_BATCH_VECTORS
    batched = waits and rows >= batch and (few or _divides(nest))
    if not _is_near(nest, elements, reduced):
        return None
    schedule = unrolled_rows.schedule_of(nest, reduced, batched=batched)
    short = reduced <= tuning.UNROLLED_TRANSPOSED and lanes <= tuning.UNROLLED_DOUBLES
    return None if not batched and short and unrolled_rows.is_heavy(nest) else schedule


def _fills(nest: LoopNest, reduced: int, vectors: int) -> bool:
    """Whether rows fill their vectors well enough."""
    stages = stages_of(nest)
    count = sum(len(stages.reductions_of(stage)) for stage in stages.loops)
    stored = stages.stores_elements
    filled = reduced == native_lanes(nest, unrolled_rows.VECTOR_BYTES)
    if vectors == 1 and count > tuning.UNROLLED_REDUCTIONS and (stored or not filled):
        return False
    alone = count == 1 and (stored or len(moving_of(nest)) > 1)
    return reduced >= tuning.UNROLLED_WELL_FILLED or alone


def _is_near(nest: LoopNest, elements: int, reduced: int) -> bool:
    """Whether rows need no prefetching."""
    sizes = [conversion.bytes_of(desc.dtype) for desc in moving_of(nest)]
    few = reduced * max(sizes, default=0) <= tuning.UNROLLED_FAR_BYTES
    if few or elements * sum(sizes) <= stream_bytes():
        return True
    return len(sizes) > 1 and not stages_of(nest).stores_elements


def _waits(nest: LoopNest) -> bool:
    """Whether a row's results take so long that several rows at a time are faster."""
    stages = stages_of(nest)
    results = [
        (number, i.row) for number, i in enumerate(nest.body, stages.first)
        if stages.levels[number] == 1
    ]  # fmt: skip
    slow = [number for number, row in results if is_costly(row)]
    needed = _needed(nest, [n for stage in stages.loops for n in stages.edge(stage)], stages)
    heavy = any(row.heavy for _, row in results)
    return heavy or any(number in needed for number in slow) or len(slow) >= tuning.UNROLLED_SLOW


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
    stages = stages_of(nest)
    return any(
        (stages.levels[number] == 1 and i.row.heavy)
        or (i.operand_dtype == "float64" and is_shared(i, stages.levels))
        for number, i in enumerate(nest.body, stages.first)
    )


# -- rows in batches ----------------------------------------------------------------------------


def choose_row_batches(nest: LoopNest, lengths: Lengths, times: int = 1) -> Schedule | None:
    """Rows whose lanes are joined in batches: these have to stay in the first cache."""
    if len(lengths) < 2 or not (elements := math.prod(lengths)):
        return None
    rows, reduced = lengths[-2:]
    if elements * times < tuning.BATCH_ELEMENTS or not row_batches.can_be_batched(nest):
        return None
    loads = [conversion.bytes_of(desc.dtype) for desc in moving_of(nest)]
    most = tuning.BATCH_ONCE_BYTES
    if len(stages_of(nest).loops) > 1:
        few = reduced * max(loads) <= tuning.FEW_ROW_BYTES
        near = 2 * tuning.NEAR_ROWS_BYTES if few else tuning.NEAR_ROWS_BYTES
        far = elements * times * moved_bytes(nest) > near
        most = tuning.BATCH_FAR_BYTES if far else tuning.BATCH_MOST_BYTES
        if far and reduced > tuning.BATCH_FAR_LENGTH:
            return None
    for batch in (batch_of(nest), batch_of(nest, small=True)):
        many = rows >= batch and elements // reduced * times >= tuning.BATCH_JOBS * batch
        if many and batch * reduced * sum(loads) <= most:
            short = is_short(nest, reduced, by_stage=row_batches.RowBatches.by_stage)
            batches = Schedule(combine="lane_transpose", tile=batch)
            return changed(batches, accumulate="plain") if short else batches
    return None


# -- vectors across rows ------------------------------------------------------------------------


def choose_deinterleaved_rows(
    nest: LoopNest, lengths: Lengths, strides: Strides, times: int = 1
) -> Schedule | None:
    """Rows of two to a few elements, which are unrolled, of dense operands."""
    if len(lengths) != 2:
        return None
    rows, length = lengths
    if rows * length * times < tuning.UNROLLED_COLUMN_ELEMENTS:
        return None
    if rows < tuning.UNROLLED_COLUMNS or length not in tuning.UNROLLED_LENGTHS:
        return None
    dense = deinterleaved_rows.are_dense(turned(nest), lengths, strides)
    legal = dense and deinterleaved_rows.can_be_deinterleaved(turned(nest), length)
    return deinterleaved_rows.schedule_of(length) if legal else None


def choose_packed_rows(
    nest: LoopNest, lengths: Lengths, strides: Strides, times: int = 1
) -> Schedule | None:
    """Rows that are read several times: for each outer iteration, or for each stage."""
    columns = turned(nest)
    *outside, inner, reduced = lengths
    if math.prod(lengths) * times < tuning.PACKED_ELEMENTS:
        return None
    if not packed_rows.can_be_packed(columns):
        return None
    half = 2 * inner < tuning.PACKED_COLUMNS
    longest = tuning.PACKED_LONGEST_OF_HALF if half else tuning.PACKED_LONGEST_OF_FEW
    if inner < tuning.PACKED_INNER or (inner < tuning.PACKED_COLUMNS and reduced > longest):
        return None
    if not packed_rows.is_same_outside(columns, lengths, strides):
        return None
    staged = reduced in tuning.PACKED_STAGED and len(stages_of(nest).loops) > 1
    staged = staged and packed_rows.row_bytes(columns, reduced) <= tuning.PACKED_ROW_BYTES
    if math.prod(outside) < tuning.PACKED_OUTER and not staged:
        return None
    return packed_columns.schedule_of(inner, reduced)


# -- columns ------------------------------------------------------------------------------------


def choose_unrolled_columns(nest: LoopNest, lengths: Lengths, times: int = 1) -> Schedule | None:
    """Columns of two to a few elements."""
    if nest.strategy != "column" or nest.reduced != 1:
        return None
    columns, length = lengths[-2:]
    if math.prod(lengths) * times < tuning.UNROLLED_COLUMN_ELEMENTS:
        return None
    if columns < tuning.UNROLLED_COLUMNS or length not in tuning.UNROLLED_LENGTHS:
        return None
    return Schedule(unroll=length) if unrolled_columns.can_be_unrolled(nest, length) else None


def flattens_rows(nest: LoopNest, lengths: Lengths, strides: Strides) -> bool:
    """Whether some rows of few columns are one wide row."""
    if nest.strategy != "column" or not flattened_columns.can_be_flattened(nest):
        return False
    *_, columns, rows = lengths
    elements, least = math.prod(lengths), tuning.FLATTENED_LEAST_GROUPS
    if elements < tuning.FLATTENED_COLUMN_ELEMENTS:
        return False
    if not 0 < columns < tuning.FLATTENED_COLUMNS:
        return False
    if columns <= tuning.FLATTENED_PAIR and _is_of_extremes(nest):
        return False
    if rows < least * flattened_columns.group_of(columns):
        return False
    if elements >= tuning.FLATTENED_FAR_ELEMENTS and columns > tuning.FLATTENED_FAR_COLUMNS:
        return False
    return flattened_columns.are_dense(nest, lengths, strides)


def _is_of_extremes(nest: LoopNest) -> bool:
    """Whether a nest does nothing but find several extremes of floats."""
    stages = stages_of(nest)
    running = stages.reductions_of(0)
    extremes = all(a.row.is_extreme and "float" in a.dtype for a in running)
    return len(stages.loops) == 1 and len(running) > 1 and extremes
