"""Columns of wide rows that are read from memory: one tile of all of them, see `merged_columns`.

Pieces of rows are read more slowly than whole ones. What tiles on the stack have no room for is
written down in the call's memory: parts of some rows, each with its own running values.
"""

from __future__ import annotations

from fuser.backends.cpu import conversion
from fuser.backends.cpu.reducing import merged_columns
from fuser.backends.cpu.reducing.column_room import ColumnRoom
from fuser.backends.cpu.reducing.column_tiles import ROWS
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.codegen import LoopNest

#: Bytes of what is written down of one part, at most: the second cache holds it. What is narrow
#: enough for a tile on the stack is better there, in the first cache, and the same for all parts.
MOST_BYTES = 1 << 18
#: A block's rows that lie so many columns apart share sets of the first cache: with several running
#: values for each column, whole rows take 1.1 times as long then, otherwise 0.8 times.
SHARED = 1 << 10
#: Bytes that are read for one that a part leaves, at least, and rows of such a part.
READ_FOR_LEFT, PART_ROWS = 24, 2 * ROWS
#: Elements of a part that is long enough, parts at least, and at most.
PART, PARTS, MOST_PARTS = 1 << 20, 16, 64


def most_columns(nest: LoopNest) -> int:
    """Columns in this form, at most; 0 where elements are stored, too."""
    merged = merged_columns.find(nest)
    if merged is None or Stages(nest).ends_with_stores:
        return 0
    return MOST_BYTES // ColumnRoom(nest, merged).column_bytes


def parts_of(
    nest: LoopNest, rows: int, inner: int, reduced: int, elements: int
) -> tuple[int, int, int] | None:
    """Parts of a column in this form, their rows, and columns of a chunk; None: another form.

    Short parts have a long way from one stream of rows to the next: they are as long as leaves
    enough of them.

    Args:
        nest: columns.
        rows: outer iterations.
        inner: columns.
        reduced: rows of these.
        elements: of all.
    """
    if not merged_columns.tile_columns(nest) < inner <= most_columns(nest):
        return None
    merged = merged_columns.find(nest)
    if not rows or merged is None:
        return None
    if not merged_columns.is_worth_it(nest, reduced, elements, PARTS):
        return None
    room = ColumnRoom(nest, merged)
    if len(room.left) > 1 and inner % SHARED == 0:
        return None
    each_bytes = room.size_bytes(rows, 2, inner) - room.size_bytes(rows, 1, inner)
    moving = (desc for desc in nest.loads if not desc.steady)
    read_bytes = elements * sum(conversion.bytes_of(desc.dtype) for desc in moving)
    wanted = min(
        min(max(PARTS, elements // PART), MOST_PARTS) // rows,
        read_bytes // (READ_FOR_LEFT * each_bytes), reduced // PART_ROWS,
    )  # fmt: skip
    if wanted < 2 or wanted * rows < PARTS:
        return None
    length = -(-reduced // wanted)
    return -(-reduced // length), length, inner
