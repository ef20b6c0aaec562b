"""Kinds of schedules of nests that reduce, and what emits them."""

from __future__ import annotations

import math

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.reducing import (
    deinterleaved_rows,
    flattened_columns,
    gathered_rows,
    online_columns,
    online_rows,
    packed_columns,
    packed_rows,
    row_batches,
    unrolled_columns,
    unrolled_rows,
)
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.column_tiles import TiledColumns, can_be_tiled
from fuser.backends.cpu.reducing.nest_views import (
    along,
    can_be_gathered,
    can_be_joined,
    columns_as_rows,
    deinterleaves,
    packs,
    turned,
)
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.reducing.row_places import JoinedParts, RowPlaces
from fuser.backends.cpu.reducing.row_reduction import RowReduction, is_short
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling import extents
from fuser.backends.cpu.scheduling.parts import Space
from fuser.backends.cpu.scheduling.templates import Fits, Kind, Lengths, Strides, Template
from fuser.codegen import LoopNest

# -- rows ---------------------------------------------------------------------------------------


def _emit_rows(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    if schedule.split == "last_joins":
        JoinedParts(module, nest, name, split=True).emit()
        return
    RowPlaces(
        module, nest, name, split=schedule.split != "none", short=schedule.accumulate == "plain"
    ).emit()  # fmt: skip


def _rows_are_legal(nest: LoopNest, schedule: Schedule) -> bool:
    if schedule.split == "none":
        return schedule.accumulate == "blocked" or nest.reduced == 1
    return schedule.accumulate == "blocked" and (schedule.split == "await" or can_be_joined(nest))


def _one_block(by_stage: type[RowReduction]) -> Fits:
    """Rows whose sums are plain are one block of vectors."""

    def fits(nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides) -> bool:
        short = schedule.accumulate != "plain" or is_short(
            nest, lengths[-1], by_stage=by_stage.by_stage
        )
        return short and _parts_fit(nest, schedule, lengths, strides)

    return fits


def _parts_fit(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    """Partial results have room in the argument block; parts of nothing are no parts."""
    if schedule.split == "none":
        return True
    space = Space.of(nest, lengths)
    if not space.elements:
        return False
    words, _ = extents.one_by_one(nest, schedule, lengths, strides, 0)
    return len(words) <= max(tuning.FEW_WORDS, space.elements // tuning.WORD_ELEMENTS)


def _emit_batches(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    short = schedule.accumulate == "plain"
    row_batches.RowBatches(module, nest, name, group=schedule.tile, short=short).emit()


def _emit_long_rows(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    online_rows.OnlineRow(module, nest, name).emit()


def _emit_unrolled_rows(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    alone = schedule.combine == "tree"
    kind = unrolled_rows.UnrolledRows if alone else unrolled_rows.UnrolledBatches
    kind(module, nest, name, schedule).emit()


def _unrolled_is_legal(nest: LoopNest, schedule: Schedule) -> bool:
    batch = row_batches.batch_of(nest) if schedule.combine == "lane_transpose" else 0
    return schedule.tile == batch and unrolled_rows.can_be_unrolled(nest, schedule.unroll)


def _unrolled_fit(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    batched = schedule.combine == "lane_transpose"
    return schedule == unrolled_rows.schedule_of(nest, lengths[-1], batched=batched)


def _of_batches(nest: LoopNest, strides: Strides) -> tuple[int, ...]:
    """Rows of one batch."""
    return tuple(row_batches.batch_of(nest, small=small) for small in (False, True))


def _of_whole_batches(nest: LoopNest, strides: Strides) -> tuple[int, ...]:
    """Rows of one batch of unrolled rows; 0 of rows one by one."""
    return 0, row_batches.batch_of(nest)


# -- vectors across rows ------------------------------------------------------------------------


def _emit_gathered(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    if schedule.accumulate == "plain":
        ColumnReduction(module, turned(nest), name, split=False, narrow=True).emit()
        return
    rows = gathered_rows.GatheredRows(module, turned(nest), name, split=False, narrow=True)
    rows.along = along(nest)
    rows.emit()


def _gathered_fit(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    return schedule == gathered_rows.schedule_of(nest, lengths[-1])


def _emit_deinterleaved(
    module: Module, nest: LoopNest, name: str, schedule: Schedule
) -> None:
    deinterleaved_rows.DeinterleavedRows(module, turned(nest), name, schedule.unroll).emit()


def _emit_packed(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    packed_rows.emit_packed(module, turned(nest), name, schedule, along(nest))


def _packed_fit(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    usual = packed_columns.schedule_of(lengths[-2], lengths[-1])
    ordered = schedule.accumulate == usual.accumulate and 0 < schedule.tile <= usual.tile
    return ordered and packed_rows.is_same_outside(turned(nest), lengths, strides)


# -- columns ------------------------------------------------------------------------------------


def _emit_columns(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    kind = TiledColumns if can_be_tiled(nest) else ColumnReduction
    kind(module, nest, name, split=schedule.split != "none").emit()


def _emit_columns_as_rows(
    module: Module, nest: LoopNest, name: str, schedule: Schedule
) -> None:
    _emit_rows(module, columns_as_rows(nest), name, schedule)


def _columns_as_rows_are_legal(nest: LoopNest, schedule: Schedule) -> bool:
    counted = any(desc.counted for desc in nest.operands)
    return nest.reduced == 1 and not counted and _rows_are_legal(columns_as_rows(nest), schedule)


def _emit_online(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    online_columns.OnlineColumns(module, nest, name, split=schedule.split != "none").emit()


def _online_is_legal(nest: LoopNest, schedule: Schedule) -> bool:
    if online_columns.find(nest) is None:
        return False
    joins = "await" if stages_of(nest).ends_with_stores else "last_joins"
    return schedule.split in ("none", joins)


def _online_fits(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    return math.prod(lengths) > 0 and _parts_fit(nest, schedule, lengths, strides)


def _emit_unrolled(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    unrolled_columns.UnrolledVectors(module, nest, name, schedule.unroll).emit()


def _emit_flattened(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    online = schedule.passes == "online"
    kind = flattened_columns.FlattenedOnline if online else flattened_columns.FlattenedColumns
    kind(module, nest, name, split=schedule.split != "none").emit()


def _flattened_fit(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    if not 0 < lengths[-2] < tuning.FLATTENED_COLUMNS or not math.prod(lengths):
        return False
    dense = flattened_columns.are_dense(nest, lengths, strides)
    return dense and _parts_fit(nest, schedule, lengths, strides)


def _some(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    """There is something to compute."""
    return math.prod(lengths) > 0


_SHORT = {"accumulate": ("blocked", "plain")}
_SPLIT = {"split": ("none", "await", "last_joins")}
_WAITING = {"split": ("none", "await")}
_STRIDED = "strided"

TEMPLATES: dict[Kind, Template] = {
    Kind("row"): Template(
        _emit_rows, extents.one_by_one, _rows_are_legal, _one_block(RowPlaces),
        {**_SHORT, **_SPLIT},
    ),
    Kind("row", passes="online"): Template(
        _emit_long_rows, extents.long_rows_in_parts,
        lambda nest, s: online_rows.find(nest) is not None, _some, {"split": ("await",)},
    ),
    **dict.fromkeys(
        (Kind("row", is_unrolled=True), Kind("row", is_unrolled=True, combine="lane_transpose")),
        Template(
            _emit_unrolled_rows, extents.unrolled_rows,
            _unrolled_is_legal, _unrolled_fit,
            {
                "unroll": range(1, tuning.UNROLLED_VECTORS + 1), "tail": ("masked", "none"),
                "tile": _of_whole_batches, "accumulate": ("plain",),
            },
        ),
    ),
    Kind("row", combine="lane_transpose"): Template(
        _emit_batches, extents.row_batches,
        lambda nest, s: row_batches.can_be_batched(nest) and s.tile in _of_batches(nest, ()),
        _one_block(row_batches.RowBatches), {**_SHORT, "tile": _of_batches},
    ),
    Kind("row", _STRIDED, "gather"): Template(
        _emit_gathered, extents.gathered_rows, lambda nest, s: can_be_gathered(nest),
        _gathered_fit, {"accumulate": ("plain", "pairwise")},
    ),
    Kind("row", _STRIDED, "deinterleave", is_unrolled=True): Template(
        _emit_deinterleaved, extents.deinterleaved_rows,
        lambda nest, s: (
            deinterleaves(nest, s.unroll) and s == deinterleaved_rows.schedule_of(s.unroll)
        ),
        lambda nest, s, lengths, strides: (
            s.unroll == lengths[-1] and deinterleaved_rows.are_dense(turned(nest), lengths, strides)
        ),
        {"unroll": tuning.UNROLLED_LENGTHS, "accumulate": ("plain", "pairwise")},
    ),
    Kind("row", _STRIDED, "pack"): Template(
        _emit_packed, extents.packed_columns, lambda nest, s: packs(nest), _packed_fit,
        {
            "accumulate": ("plain", "chained", "blocked"),
            "tile": [1 << k for k in range(tuning.PACKED_COLUMNS.bit_length())],
        },
    ),
    Kind("column"): Template(
        _emit_columns, extents.one_by_one, fits=_parts_fit, parameters=_WAITING
    ),
    Kind("column", _STRIDED): Template(
        _emit_columns_as_rows,
        lambda nest, s, *given: extents.one_by_one(columns_as_rows(nest), s, *given),
        _columns_as_rows_are_legal,
        lambda nest, s, *given: _parts_fit(columns_as_rows(nest), s, *given),
        _SPLIT,
    ),
    Kind("column", passes="online"): Template(
        _emit_online, extents.one_by_one, _online_is_legal, _online_fits,
        _SPLIT,
    ),
    Kind("column", is_unrolled=True): Template(
        _emit_unrolled, extents.unrolled_columns,
        lambda nest, s: nest.reduced == 1 and unrolled_columns.can_be_unrolled(nest, s.unroll),
        lambda nest, s, lengths, strides: s.unroll == lengths[-1] and math.prod(lengths) > 0,
        {"unroll": tuning.UNROLLED_LENGTHS},
    ),
    Kind("column", is_flattened=True): Template(
        _emit_flattened, extents.one_by_one,
        lambda nest, s: flattened_columns.can_be_flattened(nest),
        _flattened_fit, {**_WAITING, "flattened": (1,)},
    ),
    Kind("column", is_flattened=True, passes="online"): Template(
        _emit_flattened, extents.one_by_one,
        lambda nest, s: flattened_columns.can_be_flattened(nest) and _online_is_legal(nest, s),
        _flattened_fit, {**_SPLIT, "flattened": (1,)},
    ),
}  # fmt: skip
"""What each kind is; a kind that is not here is legal for no nest."""
