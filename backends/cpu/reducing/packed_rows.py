"""Short rows that are read several times: turned once into scratch memory, then as columns.

Distances of all pairs, products of all pairs of rows: an operand is met anew for each turn of the
loops outside. Variances, correlations: each stage runs through its rows again. Tiles are packed so
that elements of different results lie beside each other; then whole vectors of results are
computed at once, and no lanes of one sum need joining.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.backends.cpu import conversion, packing
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.emit_reduction import deal
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.backends.cpu.wrappers import Wrapper
from fuser.codegen import LoopNest
from fuser.records import changed
from fuser.specs import CONTIGUOUS

#: Elements that are added plainly before their sum is added with its rounding error.
BLOCK = 8
#: Bytes of one packed operand: wanted, so that a tile stays in the first cache, and at most.
TILE_BYTES, MOST_BYTES = 1 << 14, 1 << 16
#: Columns that one vector has at most.
MOST_LANES = 64
#: Operands that are packed, at most.
MOST_PACKED = 4
#: A packed operand is met so often at least, and has so many rows at least.
LEAST_OUTER, LEAST_INNER = 16, 64
#: Lengths of rows that are only met again by other stages, and bytes of their packed operands, at
#: most: beyond, turning a row costs as much as joining the lanes of its sums.
STAGED, MOST_ROW_BYTES = range(5, 33), 512
#: Elements in all, at least: smaller calls are served for all lengths at once (`entry_patterns`).
LEAST = 1 << 17
#: Columns of one chunk of work, and chunks that keep many threads busy.
COLUMNS, JOBS = 256, 32


def extent_of(
    nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]]
) -> Extent | None:
    """How a nest runs in this form, or None where it does not.

    Args:
        nest: rows, turned into columns.
        lengths: of all loops: outside, beside, reduced.
        strides: of loads, then of stores, in bytes.
    """
    *outside, inner, reduced = lengths
    outer = math.prod(outside)
    elements = outer * inner * reduced
    if inner < LEAST_INNER or elements < LEAST or not can_be_packed(nest):
        return None
    row_bytes = 0
    for desc, steps in zip(nest.loads, strides, strict=False):
        if not desc.picked:
            continue
        own_bytes = reduced * conversion.bytes_of(desc.dtype)
        moves = any(s and n > 1 for s, n in zip(steps, outside, strict=False))
        if moves or own_bytes * MOST_LANES > MOST_BYTES:
            return None
        row_bytes += own_bytes
    staged = reduced in STAGED and row_bytes <= MOST_ROW_BYTES and len(Stages(nest).loops) > 1
    if outer < LEAST_OUTER and not staged:
        return None
    across = -(-inner // COLUMNS)
    ochunk = max(LEAST_OUTER, -(-outer // -(-JOBS // across)))
    return Extent(outer, inner, elements, ochunk, COLUMNS, "packed")


def can_be_packed(nest: LoopNest) -> bool:
    """Whether a nest of turned rows has operands to pack, and stores results only."""
    if not 0 < sum(desc.picked for desc in nest.loads) <= MOST_PACKED:
        return False
    stages = Stages(nest)
    places = any(a.places for stage in stages.loops for a in stages.reductions_of(stage))
    return not places and not any(stages.stores_of(stage) for stage in stages.loops)


def emit_packed(module: Module, nest: LoopNest, name: str) -> None:
    """Append the function of a nest of turned rows, and the one that it calls."""
    loads = tuple(changed(desc, access=CONTIGUOUS) if desc.picked else desc for desc in nest.loads)
    inner = PackedColumns(module, changed(nest, loads=loads), f"{name}.packed", split=False)
    inner.emit()
    module.functions.append(PackedRows(module, nest, name, "").emit(inner.name, inner.widths[0]))


class PackedColumns(ColumnReduction):
    """Sums down packed columns: blocks, which are added to each other with the error kept."""

    linkage = "internal "
    fused_squares = True

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        b = self.b
        exact = [a for a in running if a.exact]
        if not exact:
            super()._stage(stage, running)
            return
        ordered = [*exact, *(a for a in running if not a.exact)]
        for accumulator in ordered:
            accumulator.parts = accumulators.start(b, accumulator, self.lanes)
            if accumulator.exact:
                accumulator.parts.append(accumulators.zero(b, accumulator, self.lanes))
        count = self.counts[0]
        blocks = self.number(f"udiv i64 {self.number(f'add i64 {count}, {BLOCK - 1}')}, {BLOCK}")
        outer = begin_loop(b, "0", blocks)
        for accumulator in ordered:
            accumulator.parts = [outer.carry(part) for part in accumulator.parts]
        sums = [a.parts for a in exact]
        begin = self.number(f"mul i64 {outer.index}, {BLOCK}")
        ahead = self.number(f"add i64 {begin}, {BLOCK}")
        more = b.value(f"icmp ult i64 {ahead}, {count}", "i1", 1).text
        end = self.number(f"select i1 {more}, i64 {ahead}, i64 {count}")
        for accumulator in exact:
            accumulator.parts = accumulators.start(b, accumulator, self.lanes)
        self._block(stage, running, ordered, begin, end)
        for accumulator, (high, low) in zip(exact, sums, strict=True):
            total, error = accumulators.two_sum(b, high, accumulator.parts[0])
            accumulator.parts = [total, b.op("fadd", low, error)]
        outer.end([part for accumulator in ordered for part in accumulator.parts])
        deal(outer.results, ordered)

    def _block(
        self,
        stage: int,
        running: list[Accumulator],
        ordered: list[Accumulator],
        begin: str,
        end: str,
    ) -> None:
        """The elements [begin, end) of every column."""
        b = self.b
        loop = begin_loop(b, begin, end)
        for accumulator in ordered:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        places = [
            self.moved(top, self.number(f"mul i64 {loop.index}, {self.strides[k][-1]}"))
            for k, top in enumerate(self.tops)
        ]
        operands = self._vector(stage, running, lambda k: places[k], self._step, self.mask)
        for accumulator, value in zip(running, operands, strict=True):
            squared = self._squared(accumulator) is not None
            accumulators.take(b, accumulator, value, None, None, squared=squared)
        loop.end([part for accumulator in ordered for part in accumulator.parts])
        deal(loop.results, ordered)


class PackedRows(Wrapper):
    """A nest's function: packs tiles of operands and has `inner` run through all outer loops."""

    def emit(self, inner: str, lanes: int) -> str:
        """The function; `inner` computes so many columns at a time."""
        b, rank, count = self.b, self.block.rank, len(self.block.operands)
        self.first_stride = count + rank
        packed = [k for k, desc in enumerate(self.nest.loads) if desc.picked]
        sizes = {k: conversion.bytes_of(self.nest.loads[k].dtype) for k in packed}
        words = self.first_stride + count * rank + self.block.scalars
        b.line(f"%copy = alloca [{words} x i64], align 16")
        for k in packed:
            b.line(f"%scratch{k} = alloca [{MOST_BYTES} x i8], align 64")
        for place in range(words):
            self.set_word(place, self.word(place))
        reduced = self.word(count + rank - 1)
        vector_bytes = self.number(f"mul i64 {reduced}, {lanes * max(sizes.values())}")
        vectors = self.number(f"udiv i64 {TILE_BYTES}, {vector_bytes}")
        none = b.value(f"icmp eq i64 {vectors}, 0", "i1", 1).text
        vectors = self.number(f"select i1 {none}, i64 1, i64 {vectors}")
        width = self.number(f"mul i64 {vectors}, {lanes}")
        for k in packed:
            for loop in range(rank - 2):
                self.set_word(self.stride(k, loop), "0")
            self.set_word(self.stride(k, rank - 2), str(sizes[k]))
            self.set_word(self.stride(k, rank - 1), self.number(f"mul i64 {width}, {sizes[k]}"))
        columns = self.number("sub i64 %iend, %ibegin")
        more = self.number(f"sub i64 {self.number(f'add i64 {columns}, {width}')}, 1")
        tiles = begin_loop(b, "0", self.number(f"udiv i64 {more}, {width}"))
        begin = self.number(f"add i64 %ibegin, {self.number(f'mul i64 {tiles.index}, {width}')}")
        wide = self.least(width, self.number(f"sub i64 %iend, {begin}"))
        for k in packed:
            self.pack(k, sizes[k], begin, (reduced, wide, width))
        end = self.number(f"add i64 {begin}, {wide}")
        self.call(inner, "%copy", ("%obegin", "%oend", begin, end))
        tiles.end()
        return self.finish()

    def stride(self, k: int, loop: int) -> int:
        """The word of an operand's stride: a reduction's block has all lengths before."""
        return self.first_stride + k * self.block.rank + loop

    def set_word(self, place: int, value: str) -> None:
        """Write one word of the block that `inner` is given."""
        address = self.b.value(f"getelementptr i8, ptr %copy, i64 {8 * place}", "ptr", 1).text
        self.b.line(f"store i64 {value}, ptr {address}")

    def pack(self, k: int, size: int, begin: str, shape: tuple[str, str, str]) -> None:
        """Turn one operand's part of a tile; its address becomes that of scratch memory.

        `inner` computes addresses from its place in the whole nest, so the scratch memory's own
        place is taken off.
        """
        b, rank = self.b, self.block.rank
        reduced, wide, width = shape
        base, step = self.word(k, "ptr"), self.word(self.stride(k, rank - 2))
        along = self.number(f"mul i64 {begin}, {step}")
        source = b.value(f"getelementptr i8, ptr {base}, i64 {along}", "ptr", 1).text
        row = self.number(f"mul i64 {width}, {size}")
        b.line(
            f"call void @{packing.declare(b.module, size)}(ptr %scratch{k}, i64 {row}, "
            f"ptr {source}, i64 {self.word(self.stride(k, rank - 1))}, i64 {step}, "
            f"i64 {reduced}, i64 {wide})"
        )
        before = self.number(f"mul i64 {begin}, {size}")
        start = self.number(f"ptrtoint ptr %scratch{k} to i64")
        self.set_word(k, self.number(f"sub i64 {start}, {before}"))
