"""What a reduction's schedule asks for on some lengths: words of its block, chunks, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.backends.cpu import conversion, costs, tuning
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.reducing import (
    online_columns,
    online_parts,
    online_rows,
    packed_rows,
)
from fuser.backends.cpu.reducing.nest_views import turned
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling import parts
from fuser.backends.cpu.scheduling.parts import Cut, Space
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS
from fuser.runtime.symbolic import value_of

Lengths = Sequence[int]
Strides = Sequence[Sequence[int]]
Launch = tuple[list[int], Extent]
"""Words after the strides, and how the nest is run."""


def one_by_one(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Rows or columns one after another, or parts of them."""
    space = Space.of(nest, lengths)
    cut = parts.cut_of(nest, schedule, lengths, turns)
    if schedule.split == "none":
        extent = Extent(space.rows, space.inner, space.elements, cut.ochunk, cut.ichunk, schedule)
        return [], extent
    if cut.parts < 2:
        cut = parts.halves_of(nest, schedule, lengths)
    return _split(nest, schedule, space, cut)


def _split(nest: LoopNest, schedule: Schedule, space: Space, cut: Cut) -> Launch:
    """Parts of rows or columns."""
    count, length = cut.parts, cut.length
    rows, inner, _, elements = space
    if schedule.passes == "online":
        words, items, room_bytes = online_columns.lay_out(nest, rows, inner, count, length)
        extent = Extent(items, inner, elements, 1, cut.ichunk, schedule, room_bytes)
        return words, extent
    words = parts.words_of_parts(nest, space, count, length)
    items = rows * count
    if schedule.split == "await":
        stages = stages_of(nest)
        last = stages.final == len(stages.loops)  # results are stored by one more item a row
        items = rows * (count * len(stages.loops) + int(last))
    return words, Extent(items, inner, elements, 1, cut.ichunk, schedule)


def long_rows_in_parts(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Rows whose parts are read once for all reductions."""
    rows, _, reduced, elements = Space.of(nest, lengths)
    merged = online_rows.find(nest)
    assert merged is not None
    element_bytes = max(parts.element_bytes_of(nest), 1)
    most = max(1, tuning.LONG_PART_BYTES // element_bytes // tuning.CUT) * tuning.CUT
    count = -(-reduced // most)
    part = -(-reduced // (count * tuning.CUT)) * tuning.CUT
    count = -(-reduced // part)
    scratch = online_parts.Room(nest, merged).words(rows, count)
    items = rows * count * (2 if stages_of(nest).ends_with_stores else 1)
    stored = [d for _, d in nest.stores if d.access == CONTIGUOUS]
    stored_bytes = rows * reduced * sum(conversion.bytes_of(d.dtype) for d in stored)
    words = [count, part, scratch, int(stored_bytes >= stream_bytes()), *[0] * (scratch - 1)]
    return words, Extent(items, 1, elements, 1, 1, schedule)


def unrolled_rows(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Rows of a few vectors, one by one or in batches."""
    *outside, rows, reduced = lengths
    outer, elements = math.prod(outside), math.prod(lengths)
    fair = max(1, costs.row_chunk(elements, tuning.UNROLLED_CHUNK) // reduced)
    if schedule.combine == "tree":
        return [], Extent(outer * rows, 1, elements, fair, 1, schedule)
    fair = max(1, fair // schedule.tile) * schedule.tile
    return [], Extent(outer, rows, elements, 1, fair, schedule)


def row_batches(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Rows in batches, which the inner loop counts."""
    *outside, rows, reduced = lengths
    batch, elements = schedule.tile, math.prod(lengths)
    fair = max(1, costs.row_chunk(elements, tuning.BATCH_CHUNK) // (reduced * batch)) * batch
    if not outside:
        fair = min(fair, max(1, rows // tuning.BATCH_JOBS // batch) * batch)
    return [], Extent(math.prod(outside), rows, elements, 1, fair, schedule)


def gathered_rows(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Short rows side by side: the last kept loop is the innermost one."""
    *outside, inner, reduced = lengths
    elements, least = math.prod(lengths), tuning.REDUCED_COLUMNS
    fair = costs.row_chunk(elements, tuning.REDUCED_CHUNK) // max(value_of(reduced), 1)
    ichunk, beside = max(least, fair // least * least), value_of(inner)
    ochunk = 1 if beside > ichunk else max(1, fair // max(beside, 1))
    return [], Extent(math.prod(outside), inner, elements, ochunk, ichunk, schedule)


def deinterleaved_rows(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Rows of two to a few elements."""
    rows, length = lengths
    chunk = tuning.UNROLLED_COLUMN_CHUNK // length // tuning.UNROLLED_COLUMNS
    return [], Extent(1, rows, rows * length, 1, chunk * tuning.UNROLLED_COLUMNS, schedule)


def packed_columns(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Outer iterations and columns of one chunk: all columns that one tile has room for.

    Where two threads write parts of one row, their prefetchers take lines from each other.
    """
    *outside, inner, reduced = lengths
    outer, columns = math.prod(outside), tuning.PACKED_COLUMNS
    loads = turned(nest).loads
    size = max(conversion.bytes_of(desc.dtype) for desc in loads if desc.picked)
    most = max(1, tuning.PACKED_BYTES // (reduced * size * columns)) * columns
    ichunk = -(-inner // (-(-inner // most) * columns)) * columns
    each = reduced + tuning.PACKED_RESULT
    wanted = max(1, min(tuning.PACKED_JOBS, outer * inner * each // tuning.PACKED_CHUNK))
    ochunk = max(tuning.PACKED_OUTER, -(-outer // -(-wanted // -(-inner // ichunk))))
    group = tuning.PACKED_GROUPS[0][0]
    ochunk = -(-ochunk // group) * group
    extent = Extent(outer, inner, math.prod(lengths), ochunk, ichunk, schedule)
    return [int(packed_rows.goes_past(nest, outer * inner))], extent


def unrolled_columns(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    """Columns of two to a few elements."""
    *outside, columns, length = lengths
    least = tuning.UNROLLED_COLUMNS
    wide = max(least, tuning.UNROLLED_COLUMN_CHUNK // length // least * least)
    rows = max(1, wide // columns)
    return [], Extent(math.prod(outside), columns, math.prod(lengths), rows, wide, schedule)
