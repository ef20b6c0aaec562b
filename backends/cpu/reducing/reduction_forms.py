"""Forms of one reducing nest, chosen by lengths: which one, and how its work is cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT
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


def emit_reduction(module: Module, nest: LoopNest, name: str, form: str = "plain") -> None:
    """Append the function of one reducing nest to a module.

    Args:
        module: where.
        nest: what.
        name: the function's.
        form: "plain", "split", "beside": rows as columns, where they are short; "long beside":
            where they are not that short; "packed", "short packed", "brief packed": these from
            scratch memory, "4 packed" and so on where there are few columns; "turned packed", "long
            turned packed": rows that are stored, too; "3 laced" and so on: rows of so few elements;
            "3 written": columns of so few; "3 held", "3 group held": rows of so many vectors;
            "grouped", "small grouped": some rows at a time; "early": rows, the first stage in the
            last loop of the row before; "far": rows from memory; these with "short": a row is one
            block; "joined split": parts that nobody waits for; "long split": rows that are longer
            than the cache; with "merged": columns whose parts are read once, also "broad": in one
            tile; with
            "along": columns as rows, where there are few beside each other; with "wide": these in
            groups of rows.
    """
    if nest.totals:
        _emit_totals(module, nest, name, form)
        return
    if (length := few_rows.length_of(form)) and nest.strategy == "column" and nest.reduced == 1:
        if few_rows.can_be_written(nest, length):
            few_rows.FewRows(module, nest, name, length).emit()
            return
    if form.startswith(wide_columns.FORM) and wide_columns.can_be_wide(nest):
        wide_columns.emit_wide(module, nest, name, form)
        return
    split = form.endswith("split")
    if form.startswith("along") and can_run_along(nest):
        nest = lengthwise(nest)
    if form in ("long split", "along long split") and long_rows.find(nest) is not None:
        long_rows.LongRow(module, nest, name).emit()
    elif (length := few_rows.length_of(form, laced_rows.FORM)) and laces(nest, length):
        laced_rows.LacedRows(module, turned(nest), name, length).emit()
    elif (vectors := held_rows.vectors_of(form)) and held_rows.can_be_held(nest, vectors):
        held_rows.emit_held(module, nest, name, form)
    elif form.endswith(turned_rows.FORM) and turns(nest):
        turned_rows.emit_turned(module, turned(nest), name, form)
    elif form.endswith("packed") and packs(nest):
        packed_rows.emit_packed(module, turned(nest), name, form, along(nest))
    elif form.endswith("grouped") and grouped_rows.can_be_grouped(nest):
        small, short = "small" in form, form.startswith("short")
        grouped_rows.GroupedRows(module, nest, name, small=small, short=short).emit()
    elif form == "beside" and can_lie_beside(nest):
        ColumnReduction(module, turned(nest), name, split=False, narrow=True).emit()
    elif form == beside_rows.LONG and can_lie_beside(nest):
        rows = beside_rows.BesideRows(module, turned(nest), name, split=False, narrow=True)
        rows.along = along(nest)
        rows.emit()
    elif form.startswith("merged") and merged_columns.find(nest) is not None:
        broad = form == merged_columns.BROAD and broad_columns.most_columns(nest) > 0
        merged_columns.MergedColumns(module, nest, name, split=split, broad=broad).emit()
    elif form.endswith("joined split") and can_be_joined(nest):
        JoinedParts(module, nest, name, split=True).emit()
    elif form.endswith(early_rows.FORM) and early_rows.can_be_early(nest):
        early_rows.EarlyRows(module, nest, name, short=form.startswith("short")).emit()
    elif nest.strategy == "row":
        far, short = form.endswith("far"), form == "short far"
        RowPlaces(module, nest, name, split=split, far=far, short=short).emit()
    elif can_be_tiled(nest):
        TiledColumns(module, nest, name, split=split).emit()
    else:
        ColumnReduction(module, nest, name, split=split).emit()


def _emit_totals(module: Module, nest: LoopNest, name: str, form: str) -> None:
    """Append the function of a nest with totals."""
    if nest.across:
        across.RowsAcross(module, nest, name).emit()
    elif form == "beside" and can_lie_beside(nest):
        totals.ColumnTotals(module, turned(nest), name).emit()
    elif form == beside_rows.LONG and can_lie_beside(nest):
        rows = totals.BesideTotals(module, turned(nest), name)
        rows.along = along(nest)
        rows.emit()
    elif form == "long split" and long_rows.find(nest) is not None:
        long_rows.LongRow(module, nest, name).emit()
    elif form == "split" and nest.strategy == "row":
        split_totals.SplitTotals(module, nest, name, split=True).emit()
    elif nest.strategy == "row":
        totals.RowTotals(module, nest, name).emit()
    else:
        totals.ColumnTotals(module, nest, name).emit()


def lay_out(
    nest: LoopNest,
    lengths: Sequence[int],
    strides: Sequence[Sequence[int]] = (),
    *,
    waited: bool = False,
    turns: int = 0,
) -> tuple[list[int], Extent]:
    """Choose a form for these lengths.

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
        if extent.form == "plain" or extent.form.endswith("split"):  # others are not emitted along
            form = f"along {extent.form}".removesuffix(" plain")
            return words, extent._replace(form=form)
    fair = max(1, (CHUNK if column else row_chunk(elements, CHUNK)) // max(reduced, 1))
    grouped = grouped_rows.extent_of(nest, lengths, max(turns, 1))
    longest = LONGEST_BESIDE if grouped is not None else SHORT_ONCE
    if can_lie_beside(nest) and reduced <= min(longest, short_rows(nest)):
        return [], _beside(nest, kept, reduced, elements)
    if (early := early_rows.extent_of(nest, lengths, max(turns, 1))) is not None:
        return [], early
    if grouped is not None:
        return [], grouped
    wide = max(fair, min(TILE, inner // JOBS)) // COLUMNS * COLUMNS
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
        return cut[0], Extent(cut[1], 1, elements, 1, 1, "long split")
    few = _few_parts(nest, rows, inner, elements) if column and not tiled else 1
    if few > 1:
        whole = lengths[nest.rank - nest.reduced]
        length = -(-whole // few)
        parts, ichunk = -(-whole // length), inner
    merged = merged_columns.is_worth_it(nest, reduced, elements, parts)
    if parts < 2:
        form = "merged" if merged else _row_form(nest, reduced, elements)
        if column and not tiled and _stays_near(nest, inner, elements):
            ichunk = max(ichunk, inner)
        return [], Extent(rows, inner, elements, ochunk, ichunk, form)
    if merged:
        words, items, room, form = merged_columns.lay_out(
            nest, rows, inner, parts, length, broad=broad is not None
        )
        return words, Extent(items, inner, elements, 1, ichunk, form, room)
    words = _words_of_parts(nest, rows, inner, parts, length)
    if not waited and can_be_joined(nest):
        return words, Extent(rows * parts, inner, elements, 1, ichunk, "joined split")
    items = rows * (parts * len(Stages(nest).loops) + int(_waits(nest)))
    return words, Extent(items, inner, elements, 1, ichunk, "split")


def _lay_wide_out(
    nest: LoopNest, rows: int, inner: int, reduced: int, group: int
) -> tuple[list[int], Extent]:
    """Words and form of few columns, of which some rows are one wide one."""
    elements = rows * inner * reduced
    parts, length = _parts(nest, rows, inner, reduced, elements, 0)
    length = -(-length // group) * group
    parts = -(-reduced // length)
    merged = merged_columns.is_worth_it(nest, reduced, elements, parts)
    if parts < 2:
        form = f"{wide_columns.FORM} merged" if merged else wide_columns.FORM
        return [], Extent(rows, inner, elements, 1, inner, form)
    if merged:
        words, items, room, form = merged_columns.lay_out(nest, rows, inner, parts, length)
        form = f"{wide_columns.FORM} {form}"
        return words, Extent(items, inner, elements, 1, inner, form, room)
    words = _words_of_parts(nest, rows, inner, parts, length)
    items = rows * (parts * len(Stages(nest).loops) + int(_waits(nest)))
    return words, Extent(items, inner, elements, 1, inner, f"{wide_columns.FORM} split")


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
    """Choose a form for a nest with totals: few, long rows are computed in parts."""
    rows = math.prod(lengths[: nest.rank - nest.reduced])
    if nest.across:
        return across.lay_out(nest, lengths)
    if nest.strategy == "row":
        words, extent = lay_out(nest.without_totals, lengths, waited=True)
        if extent.form in ("split", "long split"):
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


def _row_form(nest: LoopNest, length: int, elements: int) -> str:
    """Whether rows that are read more than once come from memory, and are short."""
    sizes = [np.dtype(nest.loads[k].dtype).itemsize for k in looked_ahead(nest)]
    if elements * sum(sizes) < NEAR_BYTES:
        return "plain"
    return "short far" if is_short(nest, length, by_stage=RowPlaces.by_stage) else "far"


def longest_whole(nest: LoopNest) -> int:
    """The most elements of a nest that is never computed in parts."""
    return 2 * (totals.BLOCK_ELEMENTS if nest.totals else PART) - 1


def short_rows(nest: LoopNest) -> int:
    """The longest rows that are computed side by side."""
    return SHORT_ONCE if len(Stages(nest).loops) == 1 else SHORT


def _beside(nest: LoopNest, kept: list[int], reduced: int, elements: int) -> Extent:
    """Short rows: the last kept loop is the innermost one."""
    outer, inner = math.prod(kept[:-1]), kept[-1]
    fair = max(1, row_chunk(elements, CHUNK) // max(reduced, 1))
    ichunk = max(COLUMNS, fair // COLUMNS * COLUMNS)
    ochunk = 1 if inner > ichunk else max(1, fair // max(inner, 1))
    form = beside_rows.form_of(nest, reduced)
    return Extent(outer, inner, elements, ochunk, ichunk, form)


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
