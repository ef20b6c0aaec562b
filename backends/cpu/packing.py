"""Strided operands copied into contiguous scratch memory, by code that all kernels share.

A kernel with strided operands works through its iteration space in tiles: each strided operand's
part of a tile is packed, and the kernel's body, which knows contiguous operands only, runs on it.
A transposed operand is read along its own memory, in square blocks that are turned round in
registers; every other and reversed elements are picked by shuffles; other strides one by one.

One function for each size of element, `fuser_pack_<bytes>(ptr to, i64 to_row, ptr from,
i64 from_row, i64 from_step, i64 rows, i64 columns)`; strides are in bytes. They are compiled once
a process, when the first kernel that calls them is loaded.
"""

from __future__ import annotations

import threading
from functools import cache

from fuser.backends.cpu.body import Body, Features, Module, Value, vector_type
from fuser.backends.cpu.loops import begin_loop

PREFIX = "fuser_pack_"
SIZES = (1, 2, 4, 8)
#: Columns of a tile where some operand is transposed; it has as many rows.
SIDE = 64
#: Elements of one operand in a tile, where some operand is transposed and where none is: what is
#: packed row by row is soon read again, and should not fill the first cache.
TILE, LINE = SIDE * SIDE, 512


def symbol(itemsize: int) -> str:
    """The function for elements of this many bytes."""
    return f"{PREFIX}{itemsize}"


def declare(module: Module, itemsize: int) -> str:
    """Declare the function for elements of this many bytes; return its symbol."""
    name = symbol(itemsize)
    module.declare(name, "void", ("ptr", "i64", "ptr", "i64", "i64", "i64", "i64"))
    return name


def module_text(features: Features) -> str:
    """The functions for every size of element."""
    module = Module(features)
    for itemsize in SIZES:
        module.functions.append(_pack(module, itemsize))
    return module.text()


_lock = threading.Lock()


@cache
def _addresses() -> dict[str, int]:
    """Compile and load the functions for this processor."""
    from fuser.backends.cpu.native import load_forever
    from fuser.backends.cpu.target import host_features

    return load_forever(module_text(host_features()), tuple(symbol(size) for size in SIZES))


def address_of(name: str) -> int | None:
    """The address of one of the functions; None for other symbols."""
    if not name.startswith(PREFIX):
        return None
    with _lock:
        return _addresses().get(name)


class _Packer:
    """Writes one of the functions."""

    def __init__(self, module: Module, itemsize: int) -> None:
        self.b = Body(module)
        self.size = itemsize
        self.scalar = f"i{8 * itemsize}"
        self.lanes = max(2, min(16, module.features.vector_bytes // itemsize))

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

    def pick(self, left: Value, right: Value | None, lanes: list[int]) -> Value:
        """Lanes of one vector or of two."""
        other = right.text if right is not None else "poison"
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {left.typed}, {left.type} {other}, <{len(lanes)} x i32> <{mask}>"
        return self.b.value(text, self.scalar, len(lanes))

    def least(self, left: str, right: str) -> str:
        """The smaller of two unsigned numbers."""
        less = self.b.value(f"icmp ult i64 {left}, {right}", "i1", 1).text
        return self.b.value(f"select i1 {less}, i64 {left}, i64 {right}", "i64", 1).text

    def branch(self, condition: str) -> str:
        """Branch on a comparison; begins the first block and returns the other's label."""
        yes, no = self.b.label("yes"), self.b.label("no")
        test = self.b.value(f"icmp {condition}", "i1", 1).text
        self.b.line(f"br i1 {test}, label %{yes}, label %{no}")
        self.b.start(yes)
        return no

    # -- transposed -------------------------------------------------------------------------

    def transposed(self) -> None:
        """Rows beside each other in memory: square blocks, then what is left over."""
        b, lanes = self.b, str(self.lanes)
        whole_rows = self.number("and", "%rows", str(-self.lanes))
        whole_columns = self.number("and", "%columns", str(-self.lanes))
        across = begin_loop(b, "0", self.number("udiv", "%columns", lanes))
        column = self.number("mul", across.index, lanes)
        down = begin_loop(b, "0", self.number("udiv", "%rows", lanes))
        self.block(self.number("mul", down.index, lanes), column)
        down.end()
        across.end()
        self.rectangle("0", whole_rows, whole_columns, "%columns")
        self.rectangle(whole_rows, "%rows", "0", "%columns")

    def block(self, row: str, column: str) -> None:
        """One square block: perfect shuffles of the vectors, log2 of their number times."""
        size, lanes = str(self.size), self.lanes
        corner = self.at("%from", (row, size), (column, "%step"))
        vectors = [self.load(corner, lanes)]
        for _ in range(lanes - 1):
            corner = self.at(corner, ("1", "%step"))
            vectors.append(self.load(corner, lanes))
        half = lanes // 2
        low = [k // 2 + (k % 2) * lanes for k in range(lanes)]
        high = [place + half for place in low]
        for _ in range(lanes.bit_length() - 1):
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [
                self.pick(first, second, places)
                for first, second in pairs
                for places in (low, high)
            ]
        corner = self.at("%to", (row, "%to.row"), (column, size))
        for vector in vectors:
            self.store(vector, corner)
            corner = self.at(corner, ("1", "%to.row"))

    def rectangle(self, top: str, bottom: str, left: str, right: str) -> None:
        """One element at a time."""
        size = str(self.size)
        down = begin_loop(self.b, top, bottom)
        across = begin_loop(self.b, left, right)
        source = self.at("%from", (down.index, "%row"), (across.index, "%step"))
        target = self.at("%to", (down.index, "%to.row"), (across.index, size))
        self.store(self.load(source, 1), target)
        across.end()
        down.end()

    # -- rows -------------------------------------------------------------------------------

    def every_other(self) -> None:
        """Rows of every other element: both halves of what two vectors hold, less the gaps.

        Vectors begin at a cache line of the source, where that is an element. They also hold
        the gap after their last element, which may lie beyond the array after the last of all.
        """
        lanes, size = self.lanes, str(self.size)
        down = begin_loop(self.b, "0", "%rows")
        source, target = self.row_of(down.index)
        start = self.b.value(f"ptrtoint ptr {source} to i64", "i64", 1).text
        before = self.number("and", self.number("sub", "0", start), "63")
        head = self.least(self.number("udiv", before, str(2 * self.size)), "%columns")
        left = self.number("sub", "%columns", head)
        whole = self.number("sub", left, self.least(left, "1"))
        count = self.number("udiv", whole, str(lanes))
        self.one_by_one(source, target, "0", head)
        across = begin_loop(self.b, "0", count)
        column = self.number("add", head, self.number("mul", across.index, str(lanes)))
        first = self.at(source, (column, "%step"))
        pair = [self.load(self.at(first, (str(k * lanes), size)), lanes) for k in range(2)]
        found = self.pick(pair[0], pair[1], list(range(0, 2 * lanes, 2)))
        self.store(found, self.at(target, (column, size)))
        across.end()
        done = self.number("add", head, self.number("mul", count, str(lanes)))
        self.one_by_one(source, target, done, "%columns")
        down.end()

    def backwards(self) -> None:
        """Rows of elements that lie beside each other, the last first."""
        lanes, size = self.lanes, str(self.size)
        count = self.number("udiv", "%columns", str(lanes))
        down = begin_loop(self.b, "0", "%rows")
        source, target = self.row_of(down.index)
        across = begin_loop(self.b, "0", count)
        column = self.number("mul", across.index, str(lanes))
        last = self.at(source, (self.number("add", column, str(lanes - 1)), "%step"))
        found = self.pick(self.load(last, lanes), None, list(range(lanes - 1, -1, -1)))
        self.store(found, self.at(target, (column, size)))
        across.end()
        self.one_by_one(source, target, self.number("mul", count, str(lanes)), "%columns")
        down.end()

    def row_of(self, row: str) -> tuple[str, str]:
        """Where a row begins, in the array and in scratch memory."""
        return self.at("%from", (row, "%row")), self.at("%to", (row, "%to.row"))

    def one_by_one(self, source: str, target: str, left: str, right: str) -> None:
        """Columns of one row."""
        across = begin_loop(self.b, left, right)
        element = self.load(self.at(source, (across.index, "%step")), 1)
        self.store(element, self.at(target, (across.index, str(self.size))))
        across.end()


def _pack(module: Module, itemsize: int) -> str:
    """The function for one size of element."""
    packer = _Packer(module, itemsize)
    b = packer.b
    cases = (
        (f"eq i64 %row, {itemsize}", packer.transposed),
        (f"eq i64 %step, {2 * itemsize}", packer.every_other),
        (f"eq i64 %step, {-itemsize}", packer.backwards),
    )
    for condition, write in cases:
        otherwise = packer.branch(condition)
        write()
        b.line("ret void")
        b.start(otherwise)
    packer.rectangle("0", "%rows", "0", "%columns")
    b.line("ret void")
    head = (
        f"define void @{symbol(itemsize)}(ptr %to, i64 %to.row, ptr %from, i64 %row, i64 %step, "
        "i64 %rows, i64 %columns) #0 {\nentry:"
    )
    return "\n".join([head, *b.lines, "}"])
