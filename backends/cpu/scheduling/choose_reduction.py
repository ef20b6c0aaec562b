"""Which legal schedule a reduction is given, by its lengths and strides alone: see `choose`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fuser.backends.cpu import conversion, spacing, tuning
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
    columns_as_rows,
    turned,
)
from fuser.backends.cpu.reducing.reduction_stages import native_lanes, stages_of
from fuser.backends.cpu.reducing.row_batches import batch_of, moving_of
from fuser.backends.cpu.reducing.row_places import RowPlaces
from fuser.backends.cpu.reducing.row_reduction import is_short
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling import parts, row_costs
from fuser.backends.cpu.scheduling.parts import Space
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import INVARIANT
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES

Lengths = Sequence[int]
Strides = Sequence[Sequence[int]]


def choose_reduction(
    nest: LoopNest, lengths: Lengths, strides: Strides = (), turns: int = 0
) -> Schedule:
    """Choose a schedule for a nest that reduces.

    Args:
        nest: what is computed.
        lengths: of all loops.
        strides: of loads, then of stores, in bytes; without them nothing is packed.
        turns: as `choose` has it.
    """
    times = max(turns, 1)
    if can_be_gathered(nest):
        packed = choose_packed_rows(nest, lengths, strides, times) if strides else None
        chosen = packed or choose_rows(nest, lengths, strides, times)
        one_by_one = chosen == changed(DEFAULT, accumulate=chosen.accumulate)
        return _in_parts(nest, chosen, lengths) if one_by_one and not turns else chosen
    if (columns := choose_unrolled_columns(nest, lengths, times)) is not None:
        return columns
    if strides and not turns and flattens_rows(nest, lengths, strides):
        return _in_parts(nest, Schedule(flattened=1), lengths)
    if strides and not turns and runs_down(nest, lengths, strides):
        rows = columns_as_rows(nest)
        return changed(_in_parts(rows, DEFAULT, lengths), vector_axis="strided")
    return DEFAULT if turns else _in_parts(nest, DEFAULT, lengths)


def _in_parts(nest: LoopNest, schedule: Schedule, lengths: Lengths) -> Schedule:
    """Rows or columns one after another, or in parts that threads share."""
    space = Space.of(nest, lengths)
    cut = parts.cut_of(nest, schedule, lengths)
    if not schedule.flattened and _is_long(nest, space):
        return Schedule(passes="online", split="await")
    if parts.reads_once(nest, space.reduced, space.elements, cut.parts):
        joins = "await" if stages_of(nest).ends_with_stores else "last_joins"
        return changed(schedule, passes="online", split=joins if cut.parts > 1 else "none")
    if cut.parts > 1:
        joins = "last_joins" if can_be_joined(nest) else "await"
        return changed(DEFAULT, flattened=schedule.flattened, split=joins)
    return schedule


def _is_long(nest: LoopNest, space: Space) -> bool:
    """Whether rows are longer than the cache, and parts of them can be read once."""
    if nest.strategy != "row" or nest.reduced != 1 or not space.rows:
        return False
    reach = parts.element_bytes_of(nest) * space.reduced
    long = reach > ROW_CACHE_BYTES and space.reduced >= 2 * tuning.PART
    return long and online_rows.find(nest) is not None


# -- many rows ----------------------------------------------------------------------------------


def choose_rows(
    nest: LoopNest, lengths: Lengths, strides: Strides = (), times: int = 1
) -> Schedule:
    """The schedule of rows that costs least by the model of `row_costs`.

    Kernels that know the length of a row serve that length alone, so small calls have none.

    Args:
        nest: rows of one loop, and loops outside.
        lengths: of all loops: outside, rows, elements.
        strides: as of `choose_reduction`.
        times: how many times as many rows there are in all.
    """
    ways, reduced = _ways(nest, lengths, strides, times), lengths[-1]
    way, best = next(ways)
    least = row_costs.cost_of(way, nest, reduced)
    for way, schedule in ways:
        cost = row_costs.cost_of(way, nest, reduced)
        if cost < least:
            best, least = schedule, cost
    return best


def _ways(
    nest: LoopNest, lengths: Lengths, strides: Strides, times: int
) -> Iterator[tuple[str, Schedule]]:
    """Ways to run rows, as `tuning.ROW_COSTS` calls them.

    Sums of the shortest rows have the same bits in all ways that they have, however many these are.
    """
    *_, rows, reduced = lengths
    if reduced <= tuning.GATHERED_LONGEST:
        yield "gathered", gathered_rows.schedule_of(nest, reduced)
    if reduced > tuning.UNROLLED_LENGTHS[-1]:
        yield "rows", _row_by_row(nest, lengths, times)
    if math.prod(lengths) * times < tuning.MANY_ROWS_ELEMENTS:
        return
    if strides and _can_be_deinterleaved(nest, lengths, strides):
        yield "deinterleaved", deinterleaved_rows.schedule_of(reduced)
    if reduced <= tuning.UNROLLED_LENGTHS[-1]:
        return
    vectors = -(-reduced // native_lanes(nest, unrolled_rows.VECTOR_BYTES))
    if vectors <= tuning.UNROLLED_VECTORS and unrolled_rows.can_be_unrolled(nest, vectors):
        yield "unrolled", unrolled_rows.schedule_of(nest, reduced)
        if rows >= batch_of(nest):
            yield "unrolled batches", unrolled_rows.schedule_of(nest, reduced, batched=True)
    if (batches := _batches_of(nest, lengths, times)) is not None:
        yield "batches", batches


def _row_by_row(nest: LoopNest, lengths: Lengths, times: int = 1) -> Schedule:
    """Rows one after another; many that are one block of vectors each are added plainly."""
    if nest.reduced != 1 or math.prod(lengths) * times < tuning.MANY_ROWS_ELEMENTS:
        return DEFAULT
    short = is_short(nest, lengths[-1], by_stage=RowPlaces.by_stage)
    return Schedule(accumulate="plain") if short else DEFAULT


def _batches_of(nest: LoopNest, lengths: Lengths, times: int) -> Schedule | None:
    """Rows whose lanes are joined in batches: a batch stays in the first cache.

    Not long ones from memory that later stages read again: it waits meanwhile.
    """
    if not row_batches.can_be_batched(nest):
        return None
    *outside, rows, reduced = lengths
    row_bytes = reduced * sum(conversion.bytes_of(desc.dtype) for desc in moving_of(nest))
    if len(stages_of(nest).loops) > 1 and reduced > tuning.BATCH_FAR_LENGTH:
        if math.prod(outside) * rows * times * row_bytes > tuning.NEAR_ROWS_BYTES:
            return None
    for batch in (batch_of(nest), batch_of(nest, small=True)):
        many = rows >= batch and math.prod(outside) * rows * times >= tuning.BATCH_JOBS * batch
        if many and batch * row_bytes <= tuning.BATCH_MOST_BYTES:
            short = is_short(nest, reduced, by_stage=row_batches.RowBatches.by_stage)
            batches = Schedule(combine="lane_transpose", tile=batch)
            return changed(batches, accumulate="plain") if short else batches
    return None


def _can_be_deinterleaved(nest: LoopNest, lengths: Lengths, strides: Strides) -> bool:
    """Whether rows are two to a few elements of dense operands."""
    if len(lengths) != 2:
        return False
    rows, length = lengths
    if rows < tuning.UNROLLED_COLUMNS or length not in tuning.UNROLLED_LENGTHS:
        return False
    dense = deinterleaved_rows.are_dense(turned(nest), lengths, strides)
    return dense and deinterleaved_rows.can_be_deinterleaved(turned(nest), length)


def choose_packed_rows(
    nest: LoopNest, lengths: Lengths, strides: Strides, times: int = 1
) -> Schedule | None:
    """Rows that are read again in each outer iteration, or short ones by later stages."""
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
    staged = len(stages_of(nest).loops) > 1 and reduced in tuning.PACKED_STAGED
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
    """Whether a nest of few columns is flattened: vectors run over several rows at once."""
    if nest.strategy != "column" or not flattened_columns.can_be_flattened(nest):
        return False
    *_, columns, rows = lengths
    elements, least = math.prod(lengths), tuning.FLATTENED_LEAST_GROUPS
    if elements < tuning.FLATTENED_COLUMN_ELEMENTS:
        return False
    if not 0 < columns < tuning.FLATTENED_COLUMNS:
        return False
    if rows < least * flattened_columns.group_of(columns):
        return False
    return flattened_columns.are_dense(nest, lengths, strides)


def runs_down(nest: LoopNest, lengths: Lengths, strides: Strides) -> bool:
    """Whether columns that fill no vector are run through one after another, from the cache.

    Where an operand has one element for all columns, some rows are no wide row. Vectors then run
    down the columns, shuffled out of whole ones.
    """
    if nest.strategy != "column" or nest.reduced != 1 or any(d.counted for d in nest.operands):
        return False
    *_, columns, rows = lengths
    if math.prod(lengths) < tuning.FLATTENED_COLUMN_ELEMENTS or columns not in tuning.COLUMNS_DOWN:
        return False
    if not any(desc.access == INVARIANT and not desc.steady for desc in nest.loads):
        return False
    row_bytes = 0
    for desc, steps in zip(nest.operands, strides, strict=True):
        size, apart = conversion.bytes_of(desc.dtype), desc.access != INVARIANT
        if apart and steps[-1] not in (0, *(size * step for step in spacing.STEPS)):
            return False
        row_bytes += size * columns if apart else size
    return row_bytes * rows <= ROW_CACHE_BYTES
