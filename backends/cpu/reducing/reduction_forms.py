"""Schedules of one reducing nest, chosen by lengths: which one, and how its work is cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fuser.backends.cpu.body import Module
from fuser.backends.cpu.costs import Extent, row_chunk
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.reducing import (
    across,
    beside_rows,
    broad_columns,
    early_rows,
    few_rows,
    grouped_rows,
    held_rows,
    laced_rows,
    long_parts,
    long_rows,
    merged_columns,
    packed_rows,
    split_totals,
    totals,
    turned_rows,
    wide_columns,
)
from fuser.backends.cpu.reducing.column_reduction import PADDING, TILE, ColumnReduction
from fuser.backends.cpu.reducing.column_tiles import (
    TILED_ELEMENTS,
    TiledColumns,
    can_be_tiled,
)
from fuser.backends.cpu.reducing.nest_views import (
    along,
    can_be_joined,
    can_lie_beside,
    can_run_along,
    laces,
    lengthwise,
    packs,
    turned,
    turns,
)
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.backends.cpu.reducing.row_parts import JoinedParts
from fuser.backends.cpu.reducing.row_places import RowPlaces
from fuser.backends.cpu.reducing.row_reduction import NEAR_BYTES, is_short, looked_ahead
from fuser.backends.cpu.schedule import DEFAULT, WHOLE_ROW, IllegalScheduleError, Schedule
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT
from fuser.runtime.symbolic import value_of
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES

#: Elements of one chunk of work, at least.
CHUNK = 1 << 14
#: Columns of one chunk, at least: whole vectors; short chunks cost more than an uneven end.
COLUMNS = 256
#: Chunks that keep many threads busy; with fewer, rows and columns are computed in parts.
JOBS = 16
#: Elements of one part, at least, fewer where they have so many bytes; parts of one row, at most.
PART, PART_BYTES, PARTS = 1 << 16, 1 << 18, 64
#: Bytes of operands of one part of a row that is longer than the cache.
LONG_PART_BYTES = 1 << 18
#: Rows are cut at multiples of this many elements.
CUT = 1 << 12
#: Words of partial results that an argument block may hold.
SCRATCH_WORDS = 1024
#: Where columns are cut into tiles (`TILED_ELEMENTS`) there may be a word for so many elements.
WORD_ELEMENTS = 256
#: With fewer elements parts of whole rows have at most so many words, which the native entry
#: holds, and one for so many elements: each is written, read and joined.
FEW_WORDS, FEW_WORD_ELEMENTS = 7 << 10, 300
#: Places are counted in 32 bits within one part.
LONGEST_PLACES = 1 << 30
#: Rows of at most this many elements are computed side by side: where each element is picked up
#: once, and where that happens for each stage.
SHORT_ONCE, SHORT = 32, 16
#: The same where longer ones can be computed by groups.
LONGEST_BESIDE = 23
#: Columns that one thread computes where several would share rows that are stored.
NEAR = 1 << 9
#: So few columns are computed one after another, where there are many elements.
NARROW = 4


class _Kind(NamedTuple):
    """What of a schedule, and of a nest, says which function emits it."""

    strategy: str
    vector_axis: str = "contiguous"
    layout: str = "direct"
    flattened: int = 0
    unrolled: bool = False
    combine: str = "tree"
    passes: str = "staged"
    pipeline_depth: int = 1


def _kind_of(nest: LoopNest, schedule: Schedule) -> _Kind:
    """The kind of a schedule of a nest."""
    strategy = nest.strategy + (" across" if nest.across else " totals" if nest.totals else "")
    return _Kind(
        strategy, schedule.vector_axis, schedule.layout, schedule.flattened,
        schedule.unroll > 0, schedule.combine, schedule.passes, schedule.pipeline_depth,
    )  # fmt: skip


def emit_reduction(
    module: Module, nest: LoopNest, name: str, schedule: Schedule = DEFAULT
) -> None:
    """Append the function of one reducing nest to a module.

    Args:
        module: where.
        nest: what.
        name: the function's.
        schedule: how it is run.

    Raises:
        IllegalScheduleError: the schedule does not compute such a nest.
    """
    template = _TEMPLATES.get(_kind_of(nest, schedule))
    if template is None or not template.legal(nest, schedule):
        raise IllegalScheduleError(f"no loop nest that reduces {nest.strategy}s so: {schedule}")
    template.emit(module, nest, name, schedule)


class _Template(NamedTuple):
    """A way to run nests of one kind: which schedules it has, and what emits them."""

    legal: Callable[[LoopNest, Schedule], bool]
    emit: Callable[[Module, LoopNest, str, Schedule], None]


def _is(schedule: Schedule, *names: str) -> bool:
    """Whether a schedule is the usual one but for the fields that say its kind, and for some."""
    return changed(DEFAULT, **{k: getattr(schedule, k) for k in (*_KIND, *names)}) == schedule


_KIND = ("vector_axis", "layout", "flattened", "combine", "passes", "pipeline_depth")


def _rows_legal(nest: LoopNest, schedule: Schedule) -> bool:
    joined = schedule.split == "last_joins"
    if joined and not can_be_joined(nest):
        return False
    return _is(schedule, "split", "accumulate", "prefetch")


def _rows(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    if schedule.split == "last_joins":
        JoinedParts(module, nest, name, split=True).emit()
        return
    RowPlaces(
        module, nest, name, split=schedule.split != "none", far=schedule.prefetch == "runs",
        short=schedule.accumulate == "plain",
    ).emit()  # fmt: skip


def _long_rows(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    long_rows.LongRow(module, nest, name).emit()


def _beside_rows(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    if schedule.accumulate == "plain":
        ColumnReduction(module, turned(nest), name, split=False, narrow=True).emit()
        return
    rows = beside_rows.BesideRows(module, turned(nest), name, split=False, narrow=True)
    rows.along = along(nest)
    rows.emit()


def _columns(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    kind = TiledColumns if can_be_tiled(nest) else ColumnReduction
    kind(module, nest, name, split=schedule.split != "none").emit()


def _online_columns(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    split, broad = schedule.split != "none", schedule.tile == WHOLE_ROW
    merged_columns.MergedColumns(module, nest, name, split=split, broad=broad).emit()


def _online_legal(nest: LoopNest, schedule: Schedule) -> bool:
    if merged_columns.find(nest) is None:
        return False
    if schedule.tile == WHOLE_ROW and not broad_columns.most_columns(nest):
        return False
    joins = "await" if Stages(nest).ends_with_stores else "last_joins"
    return schedule.split in ("none", joins) and _is(schedule, "split", "tile")


def _along_legal(nest: LoopNest, schedule: Schedule) -> bool:
    if not can_run_along(nest):
        return False
    row = changed(schedule, vector_axis="contiguous", layout="direct")
    template = _TEMPLATES[_kind_of(lengthwise(nest), row)]
    return _is(schedule, "split") and template.legal(lengthwise(nest), row)


def _along(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    row = changed(schedule, vector_axis="contiguous", layout="direct")
    emit_reduction(module, lengthwise(nest), name, row)


def _held_legal(nest: LoopNest, schedule: Schedule) -> bool:
    grouped = schedule.combine == "lane_transpose"
    wanted = Schedule(
        unroll=schedule.unroll, tail=schedule.tail, accumulate="plain", combine=schedule.combine,
        tile=grouped_rows.group_of(nest) if grouped else 0,
    )  # fmt: skip
    return schedule == wanted and held_rows.can_be_held(nest, schedule.unroll)


def _grouped_legal(nest: LoopNest, schedule: Schedule) -> bool:
    groups = [grouped_rows.group_of(nest, small=small) for small in (False, True)]
    plain = schedule.tile in groups and _is(schedule, "tile", "accumulate")
    return plain and grouped_rows.can_be_grouped(nest)


def _grouped(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    short = schedule.accumulate == "plain"
    grouped_rows.GroupedRows(module, nest, name, group=schedule.tile, short=short).emit()


def _totals_of_rows(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    if schedule.split == "await":
        split_totals.SplitTotals(module, nest, name, split=True).emit()
    else:
        totals.RowTotals(module, nest, name).emit()


def _totals_beside(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    if schedule.accumulate == "plain":
        totals.ColumnTotals(module, turned(nest), name).emit()
        return
    rows = totals.BesideTotals(module, turned(nest), name)
    rows.along = along(nest)
    rows.emit()


def _online_rows(nest: LoopNest, schedule: Schedule) -> bool:
    await_parts = schedule.split == "await" and _is(schedule, "split")
    return await_parts and long_rows.find(nest) is not None


def _can_lie_so(nest: LoopNest, schedule: Schedule) -> bool:
    return schedule.accumulate != "blocked" and _is(schedule, "accumulate") and can_lie_beside(nest)


_STRIDED = "strided"
_TEMPLATES: dict[_Kind, _Template] = {
    _Kind("row"): _Template(_rows_legal, _rows),
    _Kind("row", passes="online"): _Template(_online_rows, _long_rows),
    _Kind("row", pipeline_depth=2): _Template(
        lambda nest, s: _is(s, "accumulate") and early_rows.can_be_early(nest),
        lambda module, nest, name, s: early_rows.EarlyRows(
            module, nest, name, short=s.accumulate == "plain"
        ).emit(),
    ),
    _Kind("row", unrolled=True): _Template(_held_legal, held_rows.emit_held),
    _Kind("row", unrolled=True, combine="lane_transpose"): _Template(
        _held_legal, held_rows.emit_held
    ),
    _Kind("row", combine="lane_transpose"): _Template(_grouped_legal, _grouped),
    _Kind("row", _STRIDED, "gather"): _Template(_can_lie_so, _beside_rows),
    _Kind("row", _STRIDED, "deinterleave", unrolled=True): _Template(
        lambda nest, s: s == laced_rows.schedule_of(s.unroll) and laces(nest, s.unroll),
        lambda module, nest, name, s: laced_rows.LacedRows(
            module, turned(nest), name, s.unroll
        ).emit(),
    ),
    _Kind("row", _STRIDED, "transpose"): _Template(
        lambda nest, s: s in (turned_rows.TRANSPOSED, turned_rows.PAIRWISE) and turns(nest),
        lambda module, nest, name, s: turned_rows.emit_turned(module, turned(nest), name, s),
    ),
    _Kind("row", _STRIDED, "pack"): _Template(
        lambda nest, s: _is(s, "accumulate", "tile") and packs(nest),
        lambda module, nest, name, s: packed_rows.emit_packed(
            module, turned(nest), name, s, along(nest)
        ),
    ),
    _Kind("column"): _Template(
        lambda nest, s: s.split != "last_joins" and _is(s, "split"), _columns
    ),
    _Kind("column", passes="online"): _Template(_online_legal, _online_columns),
    _Kind("column", unrolled=True): _Template(
        lambda nest, s: _is(s, "unroll") and few_rows.can_be_written(nest, s.unroll),
        lambda module, nest, name, s: few_rows.FewRows(module, nest, name, s.unroll).emit(),
    ),
    _Kind("column", flattened=1): _Template(
        lambda nest, s: s.split != "last_joins" and _is(s, "split")
        and wide_columns.can_be_wide(nest),
        wide_columns.emit_wide,
    ),
    _Kind("column", flattened=1, passes="online"): _Template(
        lambda nest, s: wide_columns.can_be_wide(nest) and _online_legal(nest, s),
        wide_columns.emit_wide,
    ),
    _Kind("column", _STRIDED, "gather"): _Template(_along_legal, _along),
    _Kind("column", _STRIDED, "gather", passes="online"): _Template(_along_legal, _along),
    _Kind("row totals"): _Template(
        lambda nest, s: s.split != "last_joins" and _is(s, "split"), _totals_of_rows
    ),
    _Kind("row totals", passes="online"): _Template(_online_rows, _long_rows),
    _Kind("row totals", _STRIDED, "gather"): _Template(_can_lie_so, _totals_beside),
    _Kind("column totals"): _Template(
        lambda nest, s: s == DEFAULT,
        lambda module, nest, name, s: totals.ColumnTotals(module, nest, name).emit(),
    ),
    _Kind("row across"): _Template(
        lambda nest, s: s == DEFAULT,
        lambda module, nest, name, s: across.RowsAcross(module, nest, name).emit(),
    ),
}  # fmt: skip


def lay_out(
    nest: LoopNest,
    lengths: Sequence[int],
    strides: Sequence[Sequence[int]] = (),
    *,
    waited: bool = False,
    turns: int = 0,
) -> tuple[list[int], Extent]:
    """Choose a schedule for these lengths.

    Args:
        nest: what is computed.
        lengths: of all loops.
        strides: of loads, then of stores, in bytes; without them nothing is packed.
        waited: whether something has to wait for all parts of a row.
        turns: these are some rows of so many times as many, which one thread computes: never in
            parts.

    Returns:
        Words after the strides, and how to run it.
    """
    column = nest.strategy == "column"
    if nest.totals:
        return _lay_totals_out(nest, lengths)
    held = held_rows.extent_of(nest, lengths, max(turns, 1))
    if held is not None and nest.rank == 2:
        return [], held
    if strides and can_lie_beside(nest):
        laced = laced_rows.extent_of(turned(nest), lengths, strides, max(turns, 1))
        if laced is not None:
            return [], laced
        packed = packed_rows.extent_of(turned(nest), lengths, strides, max(turns, 1))
        if packed is not None:
            return [int(packed_rows.goes_past(nest, packed))], packed
        if held is not None:
            return [], held
        by_tiles = turned_rows.extent_of(turned(nest), lengths, strides, max(turns, 1))
        if by_tiles is not None:
            return [], by_tiles
    if (written := few_rows.extent_of(nest, lengths, max(turns, 1))) is not None:
        return [], written
    kept = list(lengths[: nest.rank - nest.reduced])
    inner = kept.pop() if column else 1
    rows = math.prod(kept)
    reduced = math.prod(lengths[nest.rank - nest.reduced :])
    elements = rows * inner * reduced
    total = elements * max(turns, 1)
    if column and strides and not turns:
        if group := wide_columns.group_of(nest, lengths, strides):
            return _lay_wide_out(nest, rows, inner, reduced, group)
    if can_run_along(nest) and 0 < inner <= NARROW and total >= 2 * PART:
        words, extent = lay_out(lengthwise(nest), lengths, turns=turns)
        schedule = changed(extent.schedule, vector_axis="strided", layout="gather")
        if _along_legal(nest, schedule):
            return words, extent._replace(schedule=schedule)
    fair = max(1, (CHUNK if column else row_chunk(elements, CHUNK)) // max(value_of(reduced), 1))
    grouped = grouped_rows.extent_of(nest, lengths, max(turns, 1))
    longest = LONGEST_BESIDE if grouped is not None else SHORT_ONCE
    if can_lie_beside(nest) and reduced <= min(longest, short_rows(nest)):
        return [], _beside(nest, kept, reduced, elements)
    if (early := early_rows.extent_of(nest, lengths, max(turns, 1))) is not None:
        return [], early
    if grouped is not None:
        return [], grouped
    wide = max(fair, min(TILE, value_of(inner) // JOBS)) // COLUMNS * COLUMNS
    if tiled := column and can_be_tiled(nest) and elements >= TILED_ELEMENTS:
        wide = _even(inner, merged_columns.tile_columns(nest))
    ochunk, ichunk = (1, max(COLUMNS, wide)) if column else (fair, 1)
    if turns:
        return [], Extent(rows, inner, elements, ochunk, ichunk)
    length = lengths[nest.rank - nest.reduced]
    broad = broad_columns.parts_of(nest, rows, inner, reduced, elements) if tiled else None
    if broad is not None:
        parts, length, ichunk = broad
    else:
        parts, length = _parts(nest, rows, inner, length, elements, wide if tiled else 0)
    if (cut := _long(nest, rows, reduced)) is not None:
        return cut[0], Extent(cut[1], 1, elements, 1, 1, Schedule(passes="online", split="await"))
    few = _few_parts(nest, rows, inner, elements) if column and not tiled else 1
    if few > 1:
        whole = lengths[nest.rank - nest.reduced]
        length = -(-whole // few)
        parts, ichunk = -(-whole // length), inner
    merged = merged_columns.is_worth_it(nest, reduced, elements, parts)
    if parts < 2:
        schedule = _row_schedule(nest, reduced, elements)
        if merged:
            schedule = Schedule(passes="online")
        if column and not tiled and _stays_near(nest, value_of(inner), value_of(elements)):
            ichunk = max(ichunk, inner)
        return [], Extent(rows, inner, elements, ochunk, ichunk, schedule)
    if merged:
        words, items, room, schedule = merged_columns.lay_out(
            nest, rows, inner, parts, length, broad=broad is not None
        )
        return words, Extent(items, inner, elements, 1, ichunk, schedule, room)
    words = _words_of_parts(nest, rows, inner, parts, length)
    if not waited and can_be_joined(nest):
        return words, Extent(rows * parts, inner, elements, 1, ichunk, Schedule(split="last_joins"))
    items = rows * (parts * len(Stages(nest).loops) + int(_waits(nest)))
    return words, Extent(items, inner, elements, 1, ichunk, Schedule(split="await"))


def _lay_wide_out(
    nest: LoopNest, rows: int, inner: int, reduced: int, group: int
) -> tuple[list[int], Extent]:
    """Words and schedule of few columns, of which some rows are one wide one."""
    elements = rows * inner * reduced
    parts, length = _parts(nest, rows, inner, reduced, elements, 0)
    length = -(-length // group) * group
    parts = -(-reduced // length)
    merged = merged_columns.is_worth_it(nest, reduced, elements, parts)
    if parts < 2:
        schedule = Schedule(flattened=1, passes="online" if merged else "staged")
        return [], Extent(rows, inner, elements, 1, inner, schedule)
    if merged:
        words, items, room, schedule = merged_columns.lay_out(nest, rows, inner, parts, length)
        schedule = changed(schedule, flattened=1)
        return words, Extent(items, inner, elements, 1, inner, schedule, room)
    words = _words_of_parts(nest, rows, inner, parts, length)
    items = rows * (parts * len(Stages(nest).loops) + int(_waits(nest)))
    return words, Extent(items, inner, elements, 1, inner, Schedule(flattened=1, split="await"))


def _words_of_parts(
    nest: LoopNest, rows: int, inner: int, parts: int, length: int
) -> list[int]:
    """Words after the strides of a nest whose rows or columns are computed in parts."""
    stages = Stages(nest)
    slots = stages.slots(column=nest.strategy == "column")
    scratch = rows * len(stages.loops) + rows * slots * parts * _width(nest, inner)
    return [parts, length, scratch, *[0] * scratch]


def _waits(nest: LoopNest) -> bool:
    """Whether results are stored after all loops: by one more item a row."""
    stages = Stages(nest)
    return stages.final == len(stages.loops)


def _lay_totals_out(nest: LoopNest, lengths: Sequence[int]) -> tuple[list[int], Extent]:
    """Choose a schedule for a nest with totals: few, long rows are computed in parts."""
    rows = math.prod(lengths[: nest.rank - nest.reduced])
    if nest.across:
        return across.lay_out(nest, lengths)
    if nest.strategy == "row":
        words, extent = lay_out(nest.without_totals, lengths, waited=True)
        if extent.schedule.split == "await":
            notes = split_totals.note_words(nest, rows)
            words[2] += notes
            return [*words, *[0] * notes], extent
    reduced = math.prod(lengths[nest.rank - nest.reduced :])
    short = can_lie_beside(nest) and reduced <= short_rows(nest)
    return totals.lay_out(nest, lengths, beside=short)


def _long(nest: LoopNest, rows: int, reduced: int) -> tuple[list[int], int] | None:
    """Words and items of rows that are longer than the cache; None where they are not.

    Args:
        nest: what is computed.
        rows: how many.
        reduced: elements of a row.
    """
    if nest.strategy != "row" or nest.reduced != 1:
        return None
    element_bytes = sum(np.dtype(d.dtype).itemsize for d in nest.loads if d.access != INVARIANT)
    if not rows or element_bytes * reduced <= ROW_CACHE_BYTES or reduced < 2 * PART:
        return None
    if (merged := long_rows.find(nest)) is None:
        return None
    most = max(1, LONG_PART_BYTES // max(element_bytes, 1) // CUT) * CUT
    count = -(-reduced // most)
    part = -(-reduced // (count * CUT)) * CUT
    count = -(-reduced // part)
    scratch = long_parts.Room(nest, merged).words(rows, count)
    items = rows * count * (2 if Stages(nest).ends_with_stores else 1)
    stored = [d for _, d in nest.stores if d.access == CONTIGUOUS]
    past = rows * reduced * sum(np.dtype(d.dtype).itemsize for d in stored) >= stream_bytes()
    return [count, part, scratch, int(past), *[0] * (scratch - 1)], items


def _row_schedule(nest: LoopNest, length: int, elements: int) -> Schedule:
    """Whether rows that are read more than once come from memory, and are short."""
    sizes = [np.dtype(nest.loads[k].dtype).itemsize for k in looked_ahead(nest)]
    if elements * sum(sizes) < NEAR_BYTES:
        return DEFAULT
    short = is_short(nest, length, by_stage=RowPlaces.by_stage)
    return Schedule(prefetch="runs", accumulate="plain" if short else "blocked")


def longest_whole(nest: LoopNest) -> int:
    """The most elements of a nest that is never computed in parts."""
    return 2 * (totals.BLOCK_ELEMENTS if nest.totals else PART) - 1


def short_rows(nest: LoopNest) -> int:
    """The longest rows that are computed side by side."""
    return SHORT_ONCE if len(Stages(nest).loops) == 1 else SHORT


def _beside(nest: LoopNest, kept: list[int], reduced: int, elements: int) -> Extent:
    """Short rows: the last kept loop is the innermost one."""
    outer, inner = math.prod(kept[:-1]), kept[-1]
    fair = max(1, row_chunk(elements, CHUNK) // max(value_of(reduced), 1))
    ichunk = max(COLUMNS, fair // COLUMNS * COLUMNS)
    ochunk = 1 if value_of(inner) > ichunk else max(1, fair // max(value_of(inner), 1))
    schedule = beside_rows.schedule_of(nest, reduced)
    return Extent(outer, inner, elements, ochunk, ichunk, schedule)


def _width(nest: LoopNest, inner: int) -> int:
    """Words that one partial result of one part takes."""
    if nest.strategy != "column":
        return 1
    return -(-(inner + PADDING) * Stages(nest).slot_bytes // 8)


def _part(nest: LoopNest, elements: int) -> int:
    """Elements of one part of a row or column, at least: fewer parts, but enough, take less."""
    if nest.strategy == "column":
        return PART
    loads = [np.dtype(desc.dtype).itemsize for desc in nest.loads if desc.access == CONTIGUOUS]
    least = min(PART, PART_BYTES // max(1, sum(loads)))
    return max(least, min(4 * least, elements // JOBS)) if can_be_joined(nest) else least


def _even(columns: int, most: int) -> int:
    """Columns of one tile of several that are about as wide as each other."""
    tiles = -(-columns // most)
    return max(TILE, -(-columns // (tiles * COLUMNS)) * COLUMNS) if tiles else TILE


def _few_parts(nest: LoopNest, rows: int, inner: int, elements: int) -> int:
    """Parts of whole rows, where threads would share these otherwise: 1, 2, 4 ….

    Where two threads write parts of each row, their prefetchers take lines from each other.
    """
    if not can_be_tiled(nest) or not rows or not COLUMNS < inner <= TILE:
        return 1
    stages = Stages(nest)
    words = max(1, rows * stages.slots(column=True) * _width(nest, inner))  # of one part
    room = (FEW_WORDS - rows * len(stages.loops)) // words
    worth = FEW_WORD_ELEMENTS // 2 if stages.ends_with_stores else FEW_WORD_ELEMENTS
    wanted = round(elements / max(rows * 2 * PART, worth * words))
    return 1 << max(0, min(wanted, room, JOBS).bit_length() - 1)


def _stays_near(nest: LoopNest, inner: int, elements: int) -> bool:
    """Whether columns that are stored are one thread's.

    Others would write parts of the same rows, and lines of these go from one cache to the other:
    two threads have taken up to four times as long as one.
    """
    return inner <= NEAR and elements < 4 * PART and Stages(nest).ends_with_stores


def _parts(
    nest: LoopNest, rows: int, inner: int, length: int, elements: int, tiled: int
) -> tuple[int, int]:
    """How many parts the outermost reduced loop is cut into, and their length.

    Tiles have as many columns as `tiled` says, if it does.
    """
    jobs = rows * -(-inner // (tiled or COLUMNS))
    places = any(i.row.places for i in nest.body)
    least = -(-length // LONGEST_PLACES) if places else 1
    if jobs >= JOBS or not rows or not inner:
        wanted = least
    else:
        stages = Stages(nest)
        slots = stages.slots(column=nest.strategy == "column")
        words = max(1, rows * slots * _width(nest, inner))  # of one part
        most = elements // WORD_ELEMENTS if tiled else SCRATCH_WORDS
        room = (most - rows * len(stages.loops)) // words
        wanted = max(least, min(elements // _part(nest, elements) // jobs, PARTS // jobs, room))
    if wanted < 2:
        return 1, length
    cut = CUT if nest.strategy == "row" and nest.reduced == 1 else 1
    part = -(-length // (wanted * cut)) * cut
    return -(-length // part), part
