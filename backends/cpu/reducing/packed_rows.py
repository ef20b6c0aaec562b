"""Short rows that are read several times: turned once into scratch memory, then as columns.

Distances of all pairs, products of all pairs of rows: an operand is met anew for each turn of the
loops outside. Variances, correlations: each stage runs through its rows again. Tiles are packed so
that elements of different results lie beside each other; then whole vectors of results are
computed at once, and no lanes of one sum need joining.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fuser.backends.cpu import conversion, packing, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.reducing.packed_columns import (
    PackedColumns,
    fills_lines,
)
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.section import beside
from fuser.backends.cpu.wrappers import CACHE_LINE, Wrapper
from fuser.base.records import changed
from fuser.codegen import LoopNest

#: Words after the strides: whether results are sent past the caches.
EXTRA_WORDS = 1


def goes_past(nest: LoopNest, results: int) -> bool:
    """Whether so many results are too large for the last cache."""
    sizes = sum(conversion.bytes_of(desc.dtype) for _, desc in nest.stores)
    return results * sizes >= stream_bytes()


def is_same_outside(
    nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]]
) -> bool:
    """Whether packed operands are the same in all outer iterations, and have room.

    Args:
        nest: rows, turned into columns.
        lengths: of all loops: outside, beside, reduced.
        strides: of loads, then of stores, in bytes.
    """
    *outside, _, reduced = lengths
    for desc, steps in zip(nest.loads, strides, strict=False):
        own_bytes = reduced * conversion.bytes_of(desc.dtype)
        moves = any(s and n > 1 for s, n in zip(steps, outside, strict=False))
        if desc.picked and (moves or own_bytes * tuning.PACKED_LANES > tuning.PACKED_BYTES):
            return False
    return True


def can_be_packed(nest: LoopNest) -> bool:
    """Whether a nest of turned rows has operands to pack, and stores results only."""
    if not 0 < sum(desc.picked for desc in nest.loads) <= tuning.PACKED_OPERANDS:
        return False
    stages = stages_of(nest)
    places = any(a.places for stage in stages.loops for a in stages.reductions_of(stage))
    return not places and not stages.stores_elements


def emit_packed(
    module: Module, nest: LoopNest, name: str, schedule: Schedule, along: Mapping[int, int]
) -> None:
    """Append the function of a nest of turned rows, and the one that it calls.

    `along`: bytes from element to element of a row of an operand, where they are known.
    """
    loads = tuple(map(beside, nest.loads))
    packed = [k for k, desc in enumerate(nest.loads) if desc.picked]
    turned = changed(nest, loads=loads)
    along = {k: step for k, step in along.items() if k not in packed}  # these are turned round
    inner = PackedColumns(module, turned, f"{name}.packed", packed, schedule, along)
    inner.emit()
    module.functions.append(PackedRows(module, nest, name, "").emit(inner.name, inner.lanes))


class PackedRows(Wrapper):
    """A nest's function: packs tiles of operands and has `inner` run through all outer loops."""

    def emit(self, inner: str, lanes: int) -> str:
        """The function; `inner` computes so many columns at a time."""
        b, rank, count = self.b, self.block.rank, len(self.block.operands)
        packed = [k for k, desc in enumerate(self.nest.loads) if desc.picked]
        sizes = {k: conversion.bytes_of(self.nest.loads[k].dtype) for k in packed}
        self.copy_words(dict.fromkeys(packed, tuning.PACKED_BYTES), EXTRA_WORDS)
        reduced = self.word(count + rank - 1)
        vector_bytes = self.number(f"mul i64 {reduced}, {lanes * max(sizes.values())}")
        vectors = self.number(f"udiv i64 {tuning.PACKED_BYTES}, {vector_bytes}")
        none = b.value(f"icmp eq i64 {vectors}, 0", "i1", 1).text
        vectors = self.number(f"select i1 {none}, i64 1, i64 {vectors}")
        width = self.number(f"mul i64 {vectors}, {lanes}")
        for k in packed:
            for loop in range(rank - 2):
                self.set_word(self.stride(k, loop), "0")
            self.set_word(self.stride(k, rank - 2), str(sizes[k]))
            self.set_word(self.stride(k, rank - 1), self.number(f"mul i64 {width}, {sizes[k]}"))
        for begin, end in self.tiles(width, lanes):
            wide = self.number(f"sub i64 {end}, {begin}")
            for k in packed:
                self.pack(k, sizes[k], begin, (reduced, wide, width))
            self.call(inner, "%copy", ("%obegin", "%oend", begin, end))
        return self.finish()

    def copy_words(self, scratch_bytes: Mapping[int, int], extra_words: int) -> None:
        """Copy the block, and have scratch memory for some operands."""
        b, rank, count = self.b, self.block.rank, len(self.block.operands)
        self.first_stride = count + rank
        words = self.first_stride + count * rank + extra_words + self.block.scalars
        b.line(f"%copy = alloca [{words} x i64], align 16")
        for k, size in scratch_bytes.items():
            b.line(f"%scratch{k} = alloca [{size} x i8], align 64")
        for place in range(words):
            self.set_word(place, self.word(place))

    def tiles(self, width: str, lanes: int) -> Iterator[tuple[str, str]]:
        """Write a loop over tiles: where one begins and ends.

        Chunks and tiles begin with lines of the cache: all move by the columns before the first
        line, which are a tile of their own. No tile has less columns than a vector: it shares some
        with another one then.
        """
        b = self.b
        length = self.word(self.first_stride - 2)
        before = self.columns_before_line() if fills_lines(self.nest, lanes) else "0"
        before = self.least(before, length)
        moved = self.least(self.number(f"add i64 %ibegin, {before}"), length)
        zeroth = b.value("icmp eq i64 %ibegin, 0", "i1", 1).text
        start = self.number(f"select i1 {zeroth}, i64 0, i64 {moved}")
        end = self.least(self.number(f"add i64 %iend, {before}"), length)
        some = b.value(f"icmp ne i64 {before}, 0", "i1", 1)
        narrow = b.op("and", some, Value(zeroth, "i1", 1)).text
        rest = self.number(f"sub i64 {width}, {before}")
        less = self.number(f"select i1 {narrow}, i64 {rest}, i64 0")
        columns = self.number(f"sub i64 {end}, {start}")
        more = self.number(f"add i64 {self.number(f'add i64 {columns}, {less}')}, {width}")
        more = self.number(f"sub i64 {more}, 1")
        loop = begin_loop(b, "0", self.number(f"udiv i64 {more}, {width}"))
        begin = self.number(f"sub i64 {self.number(f'mul i64 {loop.index}, {width}')}, {less}")
        first = b.value(f"icmp slt i64 {begin}, 0", "i1", 1).text
        last = self.least(self.number(f"add i64 {begin}, {width}"), columns)
        begin = self.number(f"select i1 {first}, i64 0, i64 {begin}")
        begin, end = (self.number(f"add i64 {start}, {place}") for place in (begin, last))
        whole = b.value(f"icmp uge i64 {end}, {lanes}", "i1", 1).text
        end = self.number(f"select i1 {whole}, i64 {end}, i64 {lanes}")
        yield self.least(begin, self.number(f"sub i64 {end}, {lanes}")), end
        loop.end()

    def columns_before_line(self) -> str:
        """Columns before a line of the cache begins, in all rows of all results.

        Where these differ, nothing is sent past the caches.
        """
        b, rank = self.b, self.block.rank
        wrong, heads = "0", []
        for k in range(len(self.nest.loads), len(self.block.operands)):
            size = conversion.bytes_of(self.block.operands[k].dtype)
            start = self.number(f"ptrtoint ptr {self.word(k, 'ptr')} to i64")
            before = self.number(f"and i64 {self.number(f'sub i64 0, {start}')}, {CACHE_LINE - 1}")
            heads.append(self.number(f"udiv i64 {before}, {size}"))
            bits = [self.number(f"urem i64 {before}, {size}")]
            bits.append(self.number(f"xor i64 {heads[0]}, {heads[-1]}"))
            steps = [self.word(self.stride(k, loop)) for loop in range(rank - 2)]
            bits += [self.number(f"and i64 {step}, {CACHE_LINE - 1}") for step in steps]
            for each in bits:
                wrong = self.number(f"or i64 {wrong}, {each}")
        alike = b.value(f"icmp eq i64 {wrong}, 0", "i1", 1).text
        place = self.stride(len(self.block.operands), 0)
        past = self.number(f"select i1 {alike}, i64 {self.word(place)}, i64 0")
        self.set_word(place, past)
        wanted = b.value(f"icmp ne i64 {past}, 0", "i1", 1).text
        return self.number(f"select i1 {wanted}, i64 {heads[0]}, i64 0")

    def stride(self, k: int, loop: int) -> int:
        """The word of an operand's stride: a reduction's block has all lengths before."""
        return self.first_stride + k * self.block.rank + loop

    def pack(self, k: int, size: int, begin: str, shape: tuple[str, str, str]) -> None:
        """Turn one operand's part of a tile; its address becomes that of scratch memory.

        `inner` computes addresses from its place in the whole nest, so the scratch memory's own
        place is taken off.
        """
        reduced, wide, width = shape
        source, step = self.rows_from(k, begin)
        row = self.number(f"mul i64 {width}, {size}")
        along = self.word(self.stride(k, self.block.rank - 1))
        self.turn(size, (f"%scratch{k}", row), (source, along, step), (reduced, wide))
        self.place(k, size, begin)

    def rows_from(self, k: int, begin: str) -> tuple[str, str]:
        """Where an operand's row `begin` lies, and the bytes from row to row."""
        base, step = self.word(k, "ptr"), self.word(self.stride(k, self.block.rank - 2))
        along = self.number(f"mul i64 {begin}, {step}")
        return self.b.value(f"getelementptr i8, ptr {base}, i64 {along}", "ptr", 1).text, step

    def turn(
        self, size: int, to: tuple[str, str], source: tuple[str, str, str], shape: tuple[str, str]
    ) -> None:
        """Copy a matrix of elements of `size` bytes, so that what lay across runs on.

        Args:
            size: of an element.
            to: an address, and the bytes from row to row; elements of a row lie together.
            source: an address, and the bytes from row to row and from column to column.
            shape: rows and columns.
        """
        b = self.b
        listed = [f"ptr {to[0]}", f"i64 {to[1]}", f"ptr {source[0]}"]
        listed += [f"i64 {number}" for number in (*source[1:], *shape)]
        b.line(f"call void @{packing.declare(b.module, size)}({', '.join(listed)})")

    def place(self, k: int, size: int, begin: str) -> None:
        """Make the address of one operand, in the copied block, that of scratch memory."""
        before = self.number(f"mul i64 {begin}, {size}")
        start = self.number(f"ptrtoint ptr %scratch{k} to i64")
        self.set_word(k, self.number(f"sub i64 {start}, {before}"))
