"""Functions around a section: one that packs strided operands, one that aligns streaming stores.

Both have a section's arguments and pass parts of its work on, so that they can stand around each
other: packing outside, alignment inside.
"""

from __future__ import annotations

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Body, Module
from fuser.base.records import record
from fuser.codegen import LoopNest
from fuser.ir.specs import TensorDesc

ARGUMENTS = "ptr %block, i64 %obegin, i64 %oend, i64 %ibegin, i64 %iend"
CACHE_LINE = 64


@record
class Block:
    """Where things lie in a nest's argument block, in words."""

    operands: tuple[TensorDesc, ...]
    rank: int
    scalars: int

    @staticmethod
    def of(nest: LoopNest) -> Block:
        """The block of a nest."""
        operands = tuple(nest.operands)
        return Block(operands, nest.rank, len(nest.scalars))

    def length(self, loop: int) -> int:
        """The word of an outer loop's length."""
        return len(self.operands) + loop

    def stride(self, operand: int, loop: int) -> int:
        """The word of an operand's stride."""
        return len(self.operands) + self.rank - 1 + operand * self.rank + loop

    @property
    def words(self) -> int:
        """How many words there are."""
        return self.stride(len(self.operands), 0) + self.scalars


class Wrapper:
    """What all wrappers write with."""

    def __init__(self, module: Module, nest: LoopNest, name: str, linkage: str) -> None:
        self.b = Body(module, "w")
        self.nest = nest
        self.block = Block.of(nest)
        self.head = f"define {linkage}i32 @{name}({ARGUMENTS}) #0 {{\nentry:"
        self.b.line("%status = alloca i32")
        self.b.line("store i32 0, ptr %status")

    def number(self, text: str) -> str:
        """Append an instruction with a 64-bit result."""
        return self.b.value(text, "i64", 1).text

    def word(self, place: int, kind: str = "i64") -> str:
        """Read one word of the block."""
        address = self.b.value(f"getelementptr i8, ptr %block, i64 {8 * place}", "ptr", 1).text
        return self.b.value(f"load {kind}, ptr {address}", kind, 1).text

    def set_word(self, place: int, value: str, kind: str = "i64") -> None:
        """Write one word of the block that is passed on."""
        address = self.b.value(f"getelementptr i8, ptr %copy, i64 {8 * place}", "ptr", 1).text
        self.b.line(f"store {kind} {value}, ptr {address}")

    def least(self, left: str, right: str) -> str:
        """The smaller of two unsigned numbers."""
        less = self.b.value(f"icmp ult i64 {left}, {right}", "i1", 1).text
        return self.number(f"select i1 {less}, i64 {left}, i64 {right}")

    def call(self, function: str, block: str, extent: tuple[str, str, str, str]) -> None:
        """Pass work on, and keep its status."""
        listed = ", ".join(f"i64 {place}" for place in extent)
        got = self.b.value(f"call i32 @{function}(ptr {block}, {listed})", "i32", 1).text
        seen = self.b.value("load i32, ptr %status", "i32", 1).text
        both = self.b.value(f"or i32 {seen}, {got}", "i32", 1).text
        self.b.line(f"store i32 {both}, ptr %status")

    def when(self, condition: str, stem: str) -> str:
        """Begin a block that runs only if an i1 holds; returns the label to begin after it."""
        yes, no = self.b.label(stem), self.b.label(f"past.{stem}")
        self.b.branch(condition, yes, no)
        return no

    def rejoin(self, label: str) -> None:
        """End a block that `when` began."""
        self.b.jump(label)

    def finish(self) -> str:
        """Return the status; the whole function."""
        result = self.b.value("load i32, ptr %status", "i32", 1).text
        self.b.line(f"ret i32 {result}")
        return "\n".join([self.head, *self.b.lines, "}"])


class Packing(Wrapper):
    """Copies strided operands into scratch memory, tile by tile, and runs `inner` on each."""

    def emit(self, inner: str) -> str:
        """The function; `inner` takes the same nest with these operands contiguous."""
        from fuser.backends.cpu import packing  # many kernels need none
        from fuser.backends.cpu.loops import begin_loop

        b, block = self.b, self.block
        loads = block.operands[: len(self.nest.loads)]
        self.packed = [k for k, desc in enumerate(loads) if desc.picked]
        self.sizes = {k: conversion.bytes_of(block.operands[k].dtype) for k in self.packed}
        b.line("%o.at = alloca i64")
        b.line(f"%copy = alloca [{block.words} x i64], align 16")
        for k in self.packed:
            b.line(f"%scratch{k} = alloca [{packing.TILE * self.sizes[k]} x i8], align 64")
        loop = begin_loop(b, "0", str(block.words))
        source, target = (
            b.value(f"getelementptr i64, ptr {array}, i64 {loop.index}", "ptr", 1).text
            for array in ("%block", "%copy")
        )
        b.line(f"store i64 {self.number(f'load i64, ptr {source}')}, ptr {target}")
        loop.end()
        count = self.number("sub i64 %iend, %ibegin")
        some = b.value(f"icmp ne i64 {count}, 0", "i1", 1).text
        nothing = self.when(some, "some")
        self.tiles(inner, *self.tile_shape(count))
        self.rejoin(nothing)
        return self.finish()

    def tile_shape(self, count: str) -> tuple[str, str]:
        """Columns and rows of a tile: square where some operand is transposed, else whole rows."""
        from fuser.backends.cpu import packing

        b, rank = self.b, self.block.rank
        self.steps = {k: self.word(self.block.stride(k, rank - 1)) for k in self.packed}
        self.row_steps = {k: self.word(self.block.stride(k, rank - 2)) for k in self.packed}
        turned = b.constant_bits("i1", 1, 0)
        for k in self.packed:
            one = b.value(f"icmp eq i64 {self.row_steps[k]}, {self.sizes[k]}", "i1", 1)
            turned = b.op("or", turned, one)
        limit, area = (
            self.number(f"select i1 {turned.text}, i64 {square}, i64 {packing.LINE}")
            for square in (packing.SIDE, packing.TILE)
        )
        width = self.least(count, limit)
        return width, self.number(f"udiv i64 {area}, {width}")

    def tiles(self, inner: str, width: str, most: str) -> None:
        """The loops over tiles."""
        from fuser.backends.cpu.loops import begin_loop

        b, block = self.b, self.block
        steps = {k: self.number(f"mul i64 {width}, {self.sizes[k]}") for k in self.packed}
        for k in self.packed:
            for outer in range(block.rank - 1):
                within = steps[k] if outer == block.rank - 2 else "0"
                self.set_word(block.stride(k, outer), within)
        columns = self.number("sub i64 %iend, %ibegin")
        more = self.number(f"add i64 {columns}, {width}")
        across = self.number(f"udiv i64 {self.number(f'sub i64 {more}, 1')}, {width}")
        b.line("store i64 %obegin, ptr %o.at")
        b.jump("rows")
        first = self.number("load i64, ptr %o.at")
        going = b.value(f"icmp ult i64 {first}, %oend", "i1", 1).text
        ended = self.when(going, "tile")
        left = self.number(f"sub i64 %oend, {first}")
        row, offsets = self.position(first)
        if block.rank > 2:
            length = self.word(block.length(block.rank - 2))
            left = self.least(left, self.number(f"sub i64 {length}, {row}"))
        rows = self.least(most, left)
        last = self.number(f"add i64 {first}, {rows}")
        loop = begin_loop(b, "0", across)
        begin = self.number(f"add i64 %ibegin, {self.number(f'mul i64 {loop.index}, {width}')}")
        wide = self.least(width, self.number(f"sub i64 %iend, {begin}"))
        for k in self.packed:
            self.pack(k, offsets[k], (row, begin), steps[k], (rows, wide))
        end = self.number(f"add i64 {begin}, {wide}")
        self.call(inner, "%copy", (first, last, begin, end))
        loop.end()
        b.line(f"store i64 {last}, ptr %o.at")
        b.jump("rows", ended)

    def position(self, first: str) -> tuple[str, dict[int, str]]:
        """The place along the loop before the innermost, and operands' offsets by outer ones."""
        places: list[str] = []
        rest = first
        for loop in range(self.block.rank - 2, 0, -1):
            length = self.word(self.block.length(loop))
            places.insert(0, self.number(f"urem i64 {rest}, {length}"))
            rest = self.number(f"udiv i64 {rest}, {length}")
        places.insert(0, rest)
        offsets = {}
        for k in self.packed:
            offset = "0"
            for loop, place in enumerate(places[: self.block.rank - 1]):
                stride = self.word(self.block.stride(k, loop))
                step = self.number(f"mul i64 {place}, {stride}")
                offset = self.number(f"add i64 {offset}, {step}")
            offsets[k] = offset
        return places[-1], offsets

    def pack(
        self, k: int, offset: str, place: tuple[str, str], step: str, shape: tuple[str, str]
    ) -> None:
        """Pack one operand's part of a tile; its address becomes that of scratch memory.

        `inner` computes addresses from its place in the whole nest, so the scratch memory's own
        place is taken off.
        """
        from fuser.backends.cpu import packing

        b = self.b
        base = self.word(k, "ptr")
        along = self.number(f"mul i64 {place[1]}, {self.steps[k]}")
        total = self.number(f"add i64 {offset}, {along}")
        source = b.value(f"getelementptr i8, ptr {base}, i64 {total}", "ptr", 1).text
        symbol = packing.declare(b.module, self.sizes[k])
        b.line(
            f"call void @{symbol}(ptr %scratch{k}, i64 {step}, ptr {source}, "
            f"i64 {self.row_steps[k]}, i64 {self.steps[k]}, i64 {shape[0]}, i64 {shape[1]})"
        )
        before = self.number(f"mul i64 {place[1]}, {self.sizes[k]}")
        above = self.number(f"mul i64 {place[0]}, {step}")
        before = self.number(f"add i64 {before}, {above}")
        start = self.number(f"ptrtoint ptr %scratch{k} to i64")
        self.set_word(k, self.number(f"sub i64 {start}, {before}"))


class Streaming(Wrapper):
    """Sends whole vectors whose destinations are aligned past the caches, the rest not.

    Rows that do not begin at a cache line begin with ordinary stores up to the next one; where
    several destinations are aligned differently, all stores are ordinary.
    """

    def emit(self, plain: str, past: str, lanes: int) -> str:
        """The function; `plain` and `past` do the work with ordinary and streaming stores."""
        b, block = self.b, self.block
        self.stores = range(len(self.nest.loads), len(block.operands))
        self.bases = {k: self.word(k, "ptr") for k in self.stores}
        count = self.number("sub i64 %iend, %ibegin")
        rest = self.number(f"urem i64 {count}, {lanes}")
        wrong = self.number(f"or i64 {self.misalignment()}, {rest}")
        ragged = b.value(f"icmp ne i64 {wrong}, 0", "i1", 1).text
        straight = self.when(ragged, "ragged")
        long = b.value(f"icmp uge i64 {count}, {tuning.STREAMED_VECTORS * lanes}", "i1", 1).text
        self.all_plain, begin, done = b.label("plain"), b.label("long"), b.label("done")
        b.branch(long, begin, self.all_plain)
        self.rows(plain, past, lanes)
        b.jump(done, straight)
        self.call(past, "%block", ("%obegin", "%oend", "%ibegin", "%iend"))
        b.jump(done, self.all_plain)
        self.call(plain, "%block", ("%obegin", "%oend", "%ibegin", "%iend"))
        b.jump(done)
        b.line("fence seq_cst")  # streaming stores are not ordered by themselves
        return self.finish()

    def size(self, k: int) -> int:
        """Bytes of one element of a destination."""
        return conversion.bytes_of(self.block.operands[k].dtype)

    def misalignment(self) -> str:
        """Bits that are set where some row of some destination begins within a cache line."""
        bits = "0"
        for k in self.stores:
            start = self.number(f"ptrtoint ptr {self.bases[k]} to i64")
            along = self.number(f"mul i64 %ibegin, {self.size(k)}")
            bits = self.number(f"or i64 {bits}, {self.number(f'add i64 {start}, {along}')}")
            for loop in range(self.block.rank - 1):
                bits = self.number(f"or i64 {bits}, {self.word(self.block.stride(k, loop))}")
        return self.number(f"and i64 {bits}, {CACHE_LINE - 1}")

    def rows(self, plain: str, past: str, lanes: int) -> None:
        """Row by row: a head, the aligned vectors, a tail."""
        from fuser.backends.cpu.loops import begin_loop

        b = self.b
        loop = begin_loop(b, "%obegin", "%oend")
        row, after = loop.index, self.number(f"add i64 {loop.index}, 1")
        heads = [self.head_of(k, row) for k in self.stores]
        wrong = "0"
        for head, rest in heads:
            other = self.number(f"xor i64 {head}, {heads[0][0]}")
            wrong = self.number(f"or i64 {wrong}, {self.number(f'or i64 {other}, {rest}')}")
        alike = b.value(f"icmp eq i64 {wrong}, 0", "i1", 1).text
        differing, joined = b.label("differing"), b.label("row.done")
        aligned = b.label("aligned")
        b.branch(alike, aligned, differing)
        begin = self.number(f"add i64 %ibegin, {heads[0][0]}")
        vectors = self.number(f"udiv i64 {self.number(f'sub i64 %iend, {begin}')}, {lanes}")
        end = self.number(f"add i64 {begin}, {self.number(f'mul i64 {vectors}, {lanes}')}")
        self.part(plain, row, after, "%ibegin", begin)
        self.call(past, "%block", (row, after, begin, end))
        self.part(plain, row, after, end, "%iend")
        b.jump(joined, differing)
        self.call(plain, "%block", (row, after, "%ibegin", "%iend"))
        b.jump(joined)
        loop.end()

    def part(self, function: str, row: str, after: str, begin: str, end: str) -> None:
        """Pass a part of a row on, unless it is empty."""
        some = self.b.value(f"icmp ne i64 {begin}, {end}", "i1", 1).text
        past = self.when(some, "part")
        self.call(function, "%block", (row, after, begin, end))
        self.rejoin(past)

    def head_of(self, k: int, row: str) -> tuple[str, str]:
        """Elements of a row before a cache line begins, and bytes that are no whole element."""
        size = self.size(k)
        start = self.number(f"ptrtoint ptr {self.bases[k]} to i64")
        place = self.number(f"add i64 {start}, {self.number(f'mul i64 %ibegin, {size}')}")
        rest = row
        for loop in range(self.block.rank - 2, -1, -1):
            at = rest
            if loop:
                length = self.word(self.block.length(loop))
                at = self.number(f"urem i64 {rest}, {length}")
                rest = self.number(f"udiv i64 {rest}, {length}")
            stride = self.word(self.block.stride(k, loop))
            place = self.number(f"add i64 {place}, {self.number(f'mul i64 {at}, {stride}')}")
        before = self.number(f"and i64 {self.number(f'sub i64 0, {place}')}, {CACHE_LINE - 1}")
        return self.number(f"udiv i64 {before}, {size}"), self.number(f"urem i64 {before}, {size}")
