"""Columns of wide rows that are read from memory: one tile of all of them, see `online_columns`.

Pieces of rows are read more slowly than whole ones. What tiles on the stack have no room for is
written down in the call's memory: parts of some rows, each with its own running values.
"""

from __future__ import annotations

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.reducing import online_columns
from fuser.backends.cpu.reducing.column_room import ColumnRoom
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.codegen import LoopNest


def most_columns(nest: LoopNest) -> int:
    """Columns of rows that are read whole, at most; 0 where elements are stored, too."""
    merged = online_columns.find(nest)
    if merged is None or Stages(nest).ends_with_stores:
        return 0
    return tuning.WHOLE_ROW_BYTES // ColumnRoom(nest, merged).column_bytes


def parts_of(
    nest: LoopNest, rows: int, inner: int, reduced: int, elements: int
) -> tuple[int, int] | None:
    """Parts of a column where rows are read whole, and their rows; None where they are not.

    Short parts have a long way from one stream of rows to the next: they are as long as leaves
    enough of them.

    Args:
        nest: columns.
        rows: outer iterations.
        inner: columns.
        reduced: rows of these.
        elements: of all.
    """
    if not online_columns.tile_columns(nest) < inner <= most_columns(nest):
        return None
    merged = online_columns.find(nest)
    if not rows or merged is None:
        return None
    if reduced < tuning.ONLINE_ROWS:
        return None
    room = ColumnRoom(nest, merged)
    if len(room.left) > 1 and inner % tuning.WHOLE_ROW_SHARED == 0:
        return None
    each_bytes = room.size_bytes(rows, 2, inner) - room.size_bytes(rows, 1, inner)
    moving = (desc for desc in nest.loads if not desc.steady)
    read_bytes = elements * sum(conversion.bytes_of(desc.dtype) for desc in moving)
    many = max(tuning.WHOLE_ROW_PARTS, elements // tuning.WHOLE_ROW_PART)
    wanted = min(
        min(many, tuning.WHOLE_ROW_MOST_PARTS) // rows,
        read_bytes // (tuning.WHOLE_ROW_READ * each_bytes), reduced // tuning.WHOLE_ROW_ROWS,
    )  # fmt: skip
    if wanted < 2 or wanted * rows < tuning.WHOLE_ROW_PARTS:
        return None
    length = -(-reduced // wanted)
    return -(-reduced // length), length
