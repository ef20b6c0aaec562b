"""Strided operands copied into contiguous scratch memory, by code that all kernels share.

A kernel with strided operands works through its iteration space in tiles: each strided operand's
part of a tile is packed, and the kernel's body, which knows contiguous operands only, runs on it.
A transposed operand is read along its own memory, in square blocks that are turned round in
registers; strides of two to four elements and reversed ones are picked by shuffles, other strides
one by one.

One function for each size of element, `fuser_pack_<bytes>(ptr to, i64 to_row, ptr from,
i64 from_row, i64 from_step, i64 rows, i64 columns)`; strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fuser.backends.cpu import shared_functions, spacing
from fuser.backends.cpu.body import Body, Features, Module, Value, mangled, vector_type
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.shared_functions import PACK
from fuser.backends.cpu.vector_memory import lane_mask

SIZES = (1, 2, 4, 8)
#: Columns of a tile where some operand is transposed; it has as many rows.
SIDE = 64
#: Elements of one operand in a tile, where some operand is transposed and where none is: what is
#: packed row by row is soon read again, and should not fill the first cache.
TILE, LINE = SIDE * SIDE, 512

#: Vectors of a block that is turned in registers, at most; every shuffle costs a quarter of a
#: millisecond to compile.
BLOCK = 8
#: Bytes of an element from which on rows that are no whole vector are turned in registers, too.
NARROW_BYTES = 4
#: Blocks further on that are asked for.
AHEAD = 2


def symbol(itemsize: int) -> str:
    """The function for elements of this many bytes."""
    return f"{PACK}{itemsize}"


def declare(module: Module, itemsize: int) -> str:
    """Declare the function for elements of this many bytes; return its symbol."""
    name = symbol(itemsize)
    module.declare(name, "void", ("ptr", "i64", "ptr", "i64", "i64", "i64", "i64"))
    return name


def module_text(itemsize: int, features: Features) -> str:
    """The function for elements of this many bytes."""
    module = Module(features)
    _pack(module, itemsize)
    return module.text()


shared_functions.register(PACK, lambda size, features: module_text(int(size), features))


class _Packer:
    """Writes one of the functions."""

    def __init__(self, module: Module, itemsize: int) -> None:
        self.b = Body(module)
        self.size = itemsize
        self.scalar = f"i{8 * itemsize}"
        self.lanes = max(2, min(16, module.features.vector_bytes // itemsize))
        self.side = min(self.lanes, BLOCK)

    # -- addresses and moves ----------------------------------------------------------------

    def at(self, base: str, *terms: tuple[str, str]) -> str:
        """An address: a base plus products of two 64-bit numbers."""
        place = base
        for left, right in terms:
            offset = self.number("mul", left, right)
            place = self.b.value(f"getelementptr i8, ptr {place}, i64 {offset}", "ptr", 1).text
        return place

    def number(self, operation: str, left: str, right: str) -> str:
        """Arithmetic on 64-bit numbers."""
        return self.b.value(f"{operation} i64 {left}, {right}", "i64", 1).text

    def load(self, place: str, lanes: int) -> Value:
        """Read elements that lie beside each other."""
        kind = vector_type(self.scalar, lanes)
        return self.b.value(f"load {kind}, ptr {place}, align 1", self.scalar, lanes)

    def store(self, value: Value, place: str) -> None:
        """Write elements beside each other."""
        self.b.line(f"store {value.typed}, ptr {place}, align 1")

    def branch(self, condition: str) -> str:
        """Branch on a comparison; begins the first block and returns the other's label."""
        yes, no = self.b.label("yes"), self.b.label("no")
        test = self.b.value(f"icmp {condition}", "i1", 1).text
        self.b.branch(test, yes, no)
        return no

    # -- transposed -------------------------------------------------------------------------

    def transposed(self) -> None:
        """Rows beside each other in memory: blocks of whole vectors, then what is left over.

        The last block ends with the last column: it may repeat some of the one before.
        """
        b, side, lanes = self.b, str(self.side), str(self.lanes)
        whole_rows = self.number("and", "%rows", str(-self.lanes))
        wide = b.value(f"icmp uge i64 %columns, {side}", "i1", 1).text
        columns = b.value(f"select i1 {wide}, i64 %columns, i64 0", "i64", 1).text
        padded = self.number("add", columns, str(self.side - 1))
        blocks, last = self.number("udiv", padded, side), self.number("sub", columns, side)
        across = begin_loop(b, "0", blocks)
        column = self.column(across.index, last)
        down = begin_loop(b, "0", self.number("udiv", "%rows", lanes))
        self.block(self.number("mul", down.index, lanes), column)
        down.end()
        across.end()
        if b.features.masked and self.size >= NARROW_BYTES:
            self.narrow_blocks(whole_rows, blocks, last)
            self.rectangle("0", columns, "%rows")
            return
        self.rectangle("0", columns, whole_rows)
        self.rectangle(whole_rows, "0", "%rows")

    def column(self, block: str, last: str) -> str:
        """Where a block of columns begins: at `last` at most."""
        place = Value(self.number("mul", block, str(self.side)), "i64", 1)
        return self.b.intrinsic("llvm.umin", place, Value(last, "i64", 1)).text

    def narrow_blocks(self, first: str, blocks: str, last: str) -> None:
        """Rows that are no whole vector of a column, as many at a time as a block has columns."""
        b, side = self.b, str(self.side)
        rest = self.number("sub", "%rows", first)
        padded = self.number("add", rest, str(self.side - 1))
        down = begin_loop(b, "0", self.number("udiv", padded, side))
        row = self.number("add", first, self.number("mul", down.index, side))
        count = self.number("sub", "%rows", row)
        mask = lane_mask(b, count, self.side)
        across = begin_loop(b, "0", blocks)
        self.narrow_block(row, self.column(across.index, last), count, mask)
        across.end()
        down.end()

    def narrow_block(self, row: str, column: str, count: str, mask: Value) -> None:
        """A square of which `count` rows are wanted."""
        b, size, side = self.b, str(self.size), self.side
        kind = vector_type(self.scalar, side)
        symbol = f"llvm.masked.load.{mangled(self.scalar, side)}.p0"
        b.module.declare(symbol, kind, ("ptr", "i32", mask.type, kind))
        corner, vectors = self.at("%from", (row, size), (column, "%step")), []
        for _ in range(side):
            given = f"ptr {corner}, i32 1, {mask.typed}, {kind} zeroinitializer"
            vectors.append(b.value(f"call {kind} @{symbol}({given})", self.scalar, side))
            corner = self.at(corner, ("1", "%step"))
        corner, done = self.at("%to", (row, "%to.row"), (column, size)), b.label("stored")
        for k, vector in enumerate(self.turned(vectors)):
            if k:
                more, wanted = b.label("row"), b.value(f"icmp ugt i64 {count}, {k}", "i1", 1)
                b.branch(wanted.text, more, done)
            self.store(vector, corner)
            corner = self.at(corner, ("1", "%to.row"))
        b.jump(done)

    def turned(self, vectors: list[Value]) -> list[Value]:
        """Perfect shuffles of vectors, log2 of their number times."""
        lanes, half = vectors[0].lanes, len(vectors) // 2
        low = [k // 2 + (k % 2) * lanes for k in range(lanes)]
        high = [place + lanes // 2 for place in low]
        for _ in range(len(vectors).bit_length() - 1):
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [
                spacing.shuffled(self.b, first, second, places)
                for first, second in pairs
                for places in (low, high)
            ]
        return vectors

    def block(self, row: str, column: str) -> None:
        """One block: turned, the vectors one after another hold the block's rows.

        What the memory's own rows
        further on hold is asked for meanwhile: between them lie pages that no prefetcher crosses.
        """
        b, size, lanes, count = self.b, str(self.size), self.lanes, self.side
        corner = self.at("%from", (row, size), (column, "%step"))
        ahead = self.at(corner, (str(AHEAD * count), "%step"))
        b.module.declare("llvm.prefetch.p0", "void", ("ptr", "i32", "i32", "i32"))
        vectors = []
        for k in range(count):
            if k:
                corner, ahead = self.at(corner, ("1", "%step")), self.at(ahead, ("1", "%step"))
            vectors.append(self.load(corner, lanes))
            b.line(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 2, i32 1)")
        corner = self.at("%to", (row, "%to.row"), (column, size))
        for vector in self.turned(vectors):
            for start in range(0, lanes, count):
                part = vector
                if count < lanes:
                    part = spacing.shuffled(b, vector, None, range(start, start + count))
                self.store(part, corner)
                corner = self.at(corner, ("1", "%to.row"))

    def rectangle(self, top: str, left: str, bottom: str) -> None:
        """One element at a time: rows [top, bottom) and columns from `left` on."""
        size = str(self.size)
        source = self.at("%from", (top, "%row"), (left, "%step"))
        target = self.at("%to", (top, "%to.row"), (left, size))
        rows, columns = self.number("sub", bottom, top), self.number("sub", "%columns", left)
        self.b.line(
            f"call void @{_rest_name(self.size)}(ptr {target}, i64 %to.row, ptr {source}, "
            f"i64 %row, i64 %step, i64 {rows}, i64 {columns})"
        )

    def one_by_one(self) -> None:
        """The whole matrix, one element at a time."""
        down = begin_loop(self.b, "0", "%rows")
        across = begin_loop(self.b, "0", "%columns")
        source = self.at("%from", (down.index, "%row"), (across.index, "%step"))
        target = self.at("%to", (down.index, "%to.row"), (across.index, str(self.size)))
        self.store(self.load(source, 1), target)
        across.end()
        down.end()

    # -- rows -------------------------------------------------------------------------------

    def picked(self, step: int) -> None:
        """Rows of elements at a known stride: the last vector ends with the row.

        It may repeat some elements. Rows shorter than a vector are left for later.
        """
        b, lanes, size = self.b, self.lanes, str(self.size)
        count = self.number("udiv", "%columns", str(lanes))
        short = self.branch(f"ne i64 {count}, 0")
        down = begin_loop(b, "0", "%rows")
        ends = self.number("sub", "%columns", str(lanes))
        padded = self.number("add", "%columns", str(lanes - 1))
        across = begin_loop(b, "0", self.number("udiv", padded, str(lanes)))
        along = self.number("mul", across.index, str(lanes))
        column = b.intrinsic("llvm.umin", Value(along, "i64", 1), Value(ends, "i64", 1)).text
        first = self.at("%from", (down.index, "%row"), (column, "%step"))
        found = spacing.pick_vector(b, self.scalar, first, step, lanes)
        self.store(found, self.at("%to", (down.index, "%to.row"), (column, size)))
        across.end()
        down.end()
        b.line("ret void")
        b.start(short)
        self.rectangle("0", "0", "%rows")


_ARGUMENTS = (
    "ptr %to, i64 %to.row, ptr %from, i64 %row, i64 %step, i64 %rows, i64 %columns"
)


def _rest_name(itemsize: int) -> str:
    """The function that copies one element at a time."""
    return f"rest.{itemsize}"


def _pack(module: Module, itemsize: int) -> None:
    """Append the function for one size of element."""
    packer = _Packer(module, itemsize)
    b = packer.b
    cases: list[tuple[str, Callable[[], None]]] = [
        (f"eq i64 %row, {itemsize}", packer.transposed)
    ]
    for step in spacing.STEPS if spacing.served(packer.lanes) else ():
        cases.append((f"eq i64 %step, {step * itemsize}", partial(packer.picked, step)))
    for condition, write in cases:
        otherwise = packer.branch(condition)
        write()
        b.line("ret void")
        b.start(otherwise)
    packer.rectangle("0", "0", "%rows")
    rest = _Packer(module, itemsize)
    rest.one_by_one()
    names = (f"void @{symbol(itemsize)}", f"internal void @{_rest_name(itemsize)}")
    for head, body in zip(names, (b, rest.b), strict=True):
        body.line("ret void")
        text = "\n".join(body.lines)
        module.functions.append(f"define {head}({_ARGUMENTS}) #0 {{\nentry:\n{text}\n}}")
