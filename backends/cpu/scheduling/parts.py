"""How the rows or columns of a reduction are cut into parts and chunks, by their lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fuser.backends.cpu import conversion, costs, tuning
from fuser.backends.cpu.reducing import flattened_columns, online_columns
from fuser.backends.cpu.reducing.column_reduction import PADDING
from fuser.backends.cpu.reducing.column_tiles import can_be_tiled
from fuser.backends.cpu.reducing.nest_views import can_be_joined
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.schedule import Schedule
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT
from fuser.runtime.symbolic import value_of

#: Places are counted in 32 bits within one part.
LONGEST_PLACES = 1 << 30


class Space(NamedTuple):
    """The iteration space of a reduction.

    Attributes:
        rows: iterations of the loops that are counted outside.
        inner: columns; 1 of rows.
        reduced: iterations of the reduced loops.
        elements: of all.
    """

    rows: int
    inner: int
    reduced: int
    elements: int

    @classmethod
    def of(cls, nest: LoopNest, lengths: Sequence[int]) -> Space:
        """The space of a nest with these lengths."""
        kept = list(lengths[: nest.rank - nest.reduced])
        inner = kept.pop() if nest.strategy == "column" else 1
        return cls(
            math.prod(kept), inner, math.prod(lengths[len(lengths) - nest.reduced :]),
            math.prod(lengths),
        )  # fmt: skip


class Cut(NamedTuple):
    """How work is cut.

    Attributes:
        parts: of each row or column.
        length: of a part, in iterations of the outermost reduced loop.
        ochunk: outer iterations of one chunk, where there is one part.
        ichunk: columns of one chunk.
    """

    parts: int
    length: int
    ochunk: int
    ichunk: int


def cut_of(
    nest: LoopNest, schedule: Schedule, lengths: Sequence[int], turns: int = 0
) -> Cut:
    """How a nest whose rows or columns come one after another is cut.

    Args:
        nest: what is computed.
        schedule: one that is flattened, or not.
        lengths: of all loops.
        turns: as `choose` has it.
    """
    space = Space.of(nest, lengths)
    inner, reduced, elements = space[1:]
    length = lengths[nest.rank - nest.reduced]
    if schedule.flattened:
        group = flattened_columns.group_of(inner)
        _, length = _parts(nest, space, reduced, 0)
        length = -(-length // group) * group
        return Cut(-(-reduced // length), length, 1, inner)
    if nest.strategy == "row":
        fair = max(1, costs.row_chunk(elements, tuning.REDUCED_CHUNK) // max(value_of(reduced), 1))
        count, length = (1, length) if turns else _parts(nest, space, length, 0)
        return Cut(count, length, fair, 1)
    tiled = can_be_tiled(nest) and elements >= tuning.TILED_ELEMENTS
    fair = max(1, tuning.REDUCED_CHUNK // max(value_of(reduced), 1))
    least = tuning.REDUCED_COLUMNS
    wide = max(fair, min(tuning.COLUMN_TILE, value_of(inner) // tuning.JOBS)) // least * least
    if tiled:
        wide = even_tiles(inner, online_columns.tile_columns(nest))
    ichunk = max(least, wide)
    if turns:
        return Cut(1, length, 1, ichunk)
    count, part = _parts(nest, space, length, wide if tiled else 0)
    few = 1 if tiled else _few_parts(nest, space)
    if few > 1:
        part = -(-length // few)
        return Cut(-(-length // part), part, 1, inner)
    if count < 2 and not tiled and _stays_near(nest, space):
        ichunk = max(ichunk, inner)
    return Cut(count, part, 1, ichunk)


def halves_of(nest: LoopNest, schedule: Schedule, lengths: Sequence[int]) -> Cut:
    """As `cut_of`, where a schedule asks for parts that lengths do not: two, if that can be."""
    space, length = Space.of(nest, lengths), lengths[nest.rank - nest.reduced]
    step, ichunk = 1, 1
    if schedule.flattened:
        step, ichunk = flattened_columns.group_of(space.inner), space.inner
    elif nest.strategy == "column":
        ichunk = even_tiles(space.inner, online_columns.tile_columns(nest))
    elif nest.reduced == 1:
        step = tuning.CUT
    part = max(1, -(-length // (2 * step))) * step
    return Cut(-(-length // part), part, 1, ichunk)


def reads_once(nest: LoopNest, reduced: int, elements: int, parts: int) -> bool:
    """Whether columns of so many rows, and elements in all, are merged from parts.

    One part is as well summed stage by stage where there is one stage.
    """
    if nest.strategy != "column" or reduced < tuning.ONLINE_ROWS:
        return False
    merged = online_columns.find(nest) if elements >= tuning.ONLINE_ELEMENTS else None
    return merged is not None and (parts > 1 or bool(merged.mergings))


def words_of_parts(nest: LoopNest, space: Space, parts: int, length: int) -> list[int]:
    """Words after the strides of a nest whose rows or columns are computed in parts."""
    scratch = space.rows * len(stages_of(nest).loops) + parts * _words_of_part(nest, space)
    return [parts, length, scratch, *[0] * scratch]


def _words_of_part(nest: LoopNest, space: Space) -> int:
    """Words of the partial results of one part."""
    stages, width = stages_of(nest), 1
    if nest.strategy == "column":
        width = -(-(space.inner + PADDING) * stages.slot_bytes // 8)
    return space.rows * stages.slots(column=nest.strategy == "column") * width


def element_bytes_of(nest: LoopNest) -> int:
    """Bytes of one element of all operands that are read along rows."""
    return sum(conversion.bytes_of(d.dtype) for d in nest.loads if d.access != INVARIANT)


def even_tiles(columns: int, most: int) -> int:
    """Columns of one tile of several that are about as wide as each other."""
    tiles, least = -(-columns // most), tuning.REDUCED_COLUMNS
    wide = -(-columns // (tiles * least)) * least if tiles else 0
    return max(tuning.COLUMN_TILE, wide)


def _parts(nest: LoopNest, space: Space, length: int, tile: int) -> tuple[int, int]:
    """How many parts the outermost reduced loop is cut into, and their length.

    Args:
        nest: what is computed.
        space: of it.
        length: of the outermost reduced loop.
        tile: columns of a tile; 0: chunks are no tiles.
    """
    rows, inner, _, elements = space
    jobs = rows * -(-inner // (tile or tuning.REDUCED_COLUMNS))
    places = any(i.row.places for i in nest.body)
    least = -(-length // LONGEST_PLACES) if places else 1
    wanted = least
    if jobs < tuning.JOBS and rows and inner:
        most = elements // tuning.WORD_ELEMENTS if tile else tuning.PART_WORDS
        room = (most - rows * len(stages_of(nest).loops)) // max(1, _words_of_part(nest, space))
        share = min(elements // _part(nest, elements) // jobs, tuning.PARTS // jobs, room)
        wanted = max(least, share)
    if wanted < 2:
        return 1, length
    cut = tuning.CUT if nest.strategy == "row" and nest.reduced == 1 else 1
    part = -(-length // (wanted * cut)) * cut
    return -(-length // part), part


def _part(nest: LoopNest, elements: int) -> int:
    """Elements of one part of a row or column, at least: fewer parts, but enough, take less."""
    if nest.strategy == "column":
        return tuning.PART
    loads = [conversion.bytes_of(d.dtype) for d in nest.loads if d.access == CONTIGUOUS]
    least = min(tuning.PART, tuning.PART_BYTES // max(1, sum(loads)))
    joined = can_be_joined(nest)
    return max(least, min(4 * least, elements // tuning.JOBS)) if joined else least


def _few_parts(nest: LoopNest, space: Space) -> int:
    """Parts of whole rows, where threads would share these otherwise: 1, 2, 4 ….

    Where two threads write parts of each row, their prefetchers take lines from each other.
    """
    rows, inner, _, elements = space
    narrow = tuning.REDUCED_COLUMNS < inner <= tuning.COLUMN_TILE
    if not can_be_tiled(nest) or not rows or not narrow:
        return 1
    stages = stages_of(nest)
    words = max(1, _words_of_part(nest, space))
    room = (tuning.FEW_WORDS - rows * len(stages.loops)) // words
    worth = tuning.FEW_WORD_ELEMENTS // (2 if stages.ends_with_stores else 1)
    wanted = round(elements / max(rows * 2 * tuning.PART, worth * words))
    return 1 << max(0, min(wanted, room, tuning.JOBS).bit_length() - 1)


def _stays_near(nest: LoopNest, space: Space) -> bool:
    """Whether columns that are stored are one thread's.

    Others would write parts of the same rows, and lines of these go from one cache to the other:
    two threads have taken up to four times as long as one.
    """
    few = value_of(space.inner) <= tuning.STORED_COLUMNS
    few = few and value_of(space.elements) < 4 * tuning.PART
    return few and stages_of(nest).ends_with_stores
