"""Short rows that become rows: turned into columns in scratch memory, and the results back.

Softmax of ten classes, norms of a few features: joining lanes would cost more than what the rows
are computed for, and picking elements up one by one as much. Tiles of rows are packed as columns,
their nest runs down whole vectors of these, and what it stores for each element is packed as rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.gathered_rows import GatheredRows
from fuser.backends.cpu.reducing.packed_rows import PackedRows
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.wrappers import beside
from fuser.base.records import changed
from fuser.codegen import LoopNest

TRANSPOSED = Schedule(vector_axis="strided", layout="transpose", accumulate="plain")
PAIRWISE = changed(TRANSPOSED, accumulate="pairwise")


def schedule_of(length: int) -> Schedule:
    """The schedule of rows of so many elements."""
    return PAIRWISE if length >= tuning.PAIRED_BLOCK else TRANSPOSED


def fits(nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]]) -> bool:
    """Whether rows have room in scratch memory, and elements of transposed ones lie together.

    Args:
        nest: rows, turned into columns.
        lengths: of both loops: rows, and their elements.
        strides: of loads, then of stores, in bytes.
    """
    sizes = {k: conversion.bytes_of(nest.operands[k].dtype) for k in _moved(nest)}
    together = all(strides[k][-1] == size for k, size in sizes.items())
    return together and 0 < lengths[-1] <= tuning.TRANSPOSED_LENGTHS[-1]


def can_be_transposed(nest: LoopNest) -> bool:
    """Whether a nest of turned rows stores elements, and has few operands to turn."""
    stages = stages_of(nest)
    stored = stages.stores_elements
    return nest.rank == 2 and stored and 0 < len(_moved(nest)) <= tuning.PACKED_OPERANDS


def _moved(nest: LoopNest) -> list[int]:
    """The operands that are turned."""
    return [k for k, desc in enumerate(nest.operands) if desc.picked]


def emit_transposed(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest of turned rows, and the one that it calls."""
    loads = tuple(map(beside, nest.loads))
    stores = tuple((number, beside(desc)) for number, desc in nest.stores)
    columns = changed(nest, loads=loads, stores=stores)
    kind = _LongColumns if schedule == PAIRWISE else _Columns
    inner = kind(module, columns, f"{name}.turned", split=False, narrow=True)
    inner.emit()
    module.functions.append(TransposedRows(module, nest, name, "").emit(inner.name, inner.lanes))


class _Columns(ColumnReduction):
    """The nest, of columns that lie in scratch memory."""

    linkage = "internal "


class _LongColumns(GatheredRows):
    """The same of rows that have a block of elements."""

    linkage = "internal "


class TransposedRows(PackedRows):
    """A nest's function: packs tiles, has `inner` run down them, and packs what it has stored."""

    def emit(self, inner: str, lanes: int) -> str:
        """The function; `inner` computes so many columns at a time."""
        b, count, moved = self.b, len(self.block.operands), _moved(self.nest)
        sizes = {k: conversion.bytes_of(self.block.operands[k].dtype) for k in moved}
        room = tuning.TRANSPOSED_TILE + tuning.TRANSPOSED_GAP * tuning.TRANSPOSED_LENGTHS[-1]
        self.copy_words({k: room * size for k, size in sizes.items()}, 0)
        reduced = self.word(count + 1)
        width = self.number(f"udiv i64 {tuning.TRANSPOSED_TILE}, {reduced}")
        width = self.least(str(tuning.TRANSPOSED_TILE_ROWS), width)
        between = self.number(f"add i64 {width}, {tuning.TRANSPOSED_GAP}")
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
