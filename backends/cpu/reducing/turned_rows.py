"""Short rows that become rows: turned into columns in scratch memory, and the results back.

Softmax of ten classes, norms of a few features: joining lanes would cost more than what the rows
are computed for, and picking elements up one by one as much. Tiles of rows are packed as columns,
their nest runs down whole vectors of these, and what it stores for each element is packed as rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.reducing.beside_rows import BLOCK, BesideRows
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.packed_rows import MOST_PACKED, PackedRows
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.wrappers import beside
from fuser.base.records import changed
from fuser.codegen import LoopNest

#: Lengths of rows: longer ones fill vectors by themselves, in groups; of shorter ones too little is
#: turned at a time.
LENGTHS = range(6, 17)
#: Elements of so many bytes wait for memory where they do not stay in a cache, however computed.
WIDE_BYTES = 8
#: Elements of an operand in a tile, and rows of it, at most; elements between columns of a tile, so
#: that these begin in different sets of the cache.
TILE, ROWS, BETWEEN = 1 << 12, 256, 16
#: Rows and elements in all, at least, and elements of one chunk of work.
LEAST_ROWS, LEAST, CHUNK = 64, 1 << 14, 1 << 13

TRANSPOSED = Schedule(vector_axis="strided", layout="transpose", accumulate="plain")
PAIRWISE = changed(TRANSPOSED, accumulate="pairwise")


def extent_of(
    nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]], turns: int = 1
) -> Extent | None:
    """How a nest runs in this form, or None where it does not.

    Args:
        nest: rows, turned into columns.
        lengths: of both loops: rows, and their elements.
        strides: of loads, then of stores, in bytes.
        turns: these are some rows of so many times as many.
    """
    if len(lengths) != 2:
        return None
    rows, reduced = lengths
    if rows * reduced * turns < LEAST or rows < LEAST_ROWS or reduced not in LENGTHS:
        return None
    if not can_be_turned(nest):
        return None
    for desc, steps in zip(nest.operands, strides, strict=False):
        size = conversion.bytes_of(desc.dtype)
        far = size >= WIDE_BYTES and rows * reduced * size * turns >= stream_bytes()
        if desc.picked and (steps[-1] != size or far):
            return None
    chunk = -(-CHUNK // (reduced * ROWS)) * ROWS
    return Extent(1, rows, rows * reduced, 1, chunk, PAIRWISE if reduced >= BLOCK else TRANSPOSED)


def can_be_turned(nest: LoopNest) -> bool:
    """Whether a nest of turned rows stores elements, and has few operands to turn."""
    stages = Stages(nest)
    stored = stages.stores_elements
    return nest.rank == 2 and stored and 0 < len(_moved(nest)) <= MOST_PACKED


def _moved(nest: LoopNest) -> list[int]:
    """The operands that are turned."""
    return [k for k, desc in enumerate(nest.operands) if desc.picked]


def emit_turned(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest of turned rows, and the one that it calls."""
    loads = tuple(map(beside, nest.loads))
    stores = tuple((number, beside(desc)) for number, desc in nest.stores)
    columns = changed(nest, loads=loads, stores=stores)
    kind = _LongColumns if schedule == PAIRWISE else _Columns
    inner = kind(module, columns, f"{name}.turned", split=False, narrow=True)
    inner.emit()
    module.functions.append(TurnedRows(module, nest, name, "").emit(inner.name, inner.lanes))


class _Columns(ColumnReduction):
    """The nest, of columns that lie in scratch memory."""

    linkage = "internal "


class _LongColumns(BesideRows):
    """The same of rows that have a block of elements."""

    linkage = "internal "


class TurnedRows(PackedRows):
    """A nest's function: packs tiles, has `inner` run down them, and packs what it has stored."""

    def emit(self, inner: str, lanes: int) -> str:
        """The function; `inner` computes so many columns at a time."""
        b, count, moved = self.b, len(self.block.operands), _moved(self.nest)
        sizes = {k: conversion.bytes_of(self.block.operands[k].dtype) for k in moved}
        room = TILE + BETWEEN * LENGTHS[-1]
        self.copy_words({k: room * size for k, size in sizes.items()}, 0)
        reduced = self.word(count + 1)
        width = self.least(str(ROWS), self.number(f"udiv i64 {TILE}, {reduced}"))
        between = self.number(f"add i64 {width}, {BETWEEN}")
        for k in moved:
            self.set_word(self.stride(k, 0), str(sizes[k]))
            self.set_word(self.stride(k, 1), self.number(f"mul i64 {between}, {sizes[k]}"))
        rows = self.number("sub i64 %iend, %ibegin")
        more = self.number(f"add i64 {rows}, {self.number(f'sub i64 {width}, 1')}")
        loop = begin_loop(b, "0", self.number(f"udiv i64 {more}, {width}"))
        begin = self.number(f"add i64 %ibegin, {self.number(f'mul i64 {loop.index}, {width}')}")
        wide = self.least(width, self.number(f"sub i64 %iend, {begin}"))
        for k in moved:
            if k < len(self.nest.loads):
                self.pack(k, sizes[k], begin, (reduced, wide, between))
            else:
                self.place(k, sizes[k], begin)
        end = self.number(f"add i64 {begin}, {wide}")
        self.call(inner, "%copy", ("%obegin", "%oend", begin, end))
        for k in moved:
            if k >= len(self.nest.loads):
                self.unpack(k, sizes[k], begin, (reduced, wide, between))
        loop.end()
        return self.finish()

    def unpack(self, k: int, size: int, begin: str, shape: tuple[str, str, str]) -> None:
        """Turn what was stored into one operand's part of a tile back into rows."""
        reduced, wide, between = shape
        column = self.number(f"mul i64 {between}, {size}")
        source = (f"%scratch{k}", str(size), column)
        self.turn(size, self.rows_from(k, begin), source, (wide, reduced))
