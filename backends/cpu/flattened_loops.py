"""Nests whose innermost loop is too short for a vector: several rows are computed as one.

Three colours, four coordinates, a handful of channels: operands whose rows lie directly behind one
another are met as they are; each other one (a row for all, a number a row, reversed or picked
elements) is copied into scratch memory by a table of offsets, which is made once a call, some rows
at a time; what is the same as in the tile before is not copied again. The body then runs on one
long row. Where the two innermost loops are short together (groups of channels, a matrix for each
point), both are a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Body, Module
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.wrappers import Wrapper
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT


def can_be_flattened(
    nest: LoopNest, loops: int, lengths: Sequence[int], strides: Sequence[Sequence[int]]
) -> bool:
    """Whether results of so many innermost loops are dense, and a tile has room for some.

    Args:
        nest: the loops.
        loops: how many, the last ones, are one row.
        lengths: of the loops.
        strides: of loads, then of stores, in bytes.
    """
    row = math.prod(lengths[-loops:])
    most = tuning.FLATTENED_TILE // (tuning.FLATTENED_ROWS if loops > 1 else 1)
    if nest.rank <= loops or not 0 < row <= most:
        return False
    if any(desc.counted for desc in nest.loads):  # no memory to copy from
        return False
    for (_, desc), steps in zip(nest.stores, strides[len(nest.loads) :], strict=True):
        sizes = [math.prod(lengths[k:]) for k in range(len(lengths) - loops, len(lengths))]
        dense = [size * conversion.bytes_of(desc.dtype) for size in sizes]
        if desc.access != CONTIGUOUS or [*steps[-loops - 1 : -1]] != dense:
            return False
    return True


def flat(nest: LoopNest) -> LoopNest:
    """The nest that runs on one long row."""
    loads = tuple(changed(desc, access=CONTIGUOUS) for desc in nest.loads)
    return changed(nest, rank=1, loads=loads)


class FlattenedLoops(Wrapper):
    """A nest's function; `inner` does the work of the flat nest."""

    def emit(self, inner: str, depth: int) -> str:
        """The function; a row is that of so many innermost loops."""
        b, block = self.b, self.block
        self.rows_loop = block.rank - 1 - depth
        count = len(block.operands)
        scalars = block.words - block.stride(count, 0)
        b.line("%o.at = alloca i64")
        b.line(f"%copy = alloca [{2 * count + scalars} x i64], align 16")
        self.sizes = [conversion.bytes_of(desc.dtype) for desc in block.operands]
        for k in range(len(self.nest.loads)):
            b.line(f"%scratch{k} = alloca [{tuning.FLATTENED_TILE * self.sizes[k]} x i8], align 64")
            b.line(f"%table{k} = alloca [{tuning.FLATTENED_TILE} x i64], align 64")
            b.line(f"%source{k} = alloca ptr")
            b.line(f"%filled{k} = alloca i64")
            b.line(f"store i64 0, ptr %filled{k}")
        self.count = self.number("sub i64 %iend, %ibegin")
        some = b.value(f"icmp ne i64 {self.count}, 0", "i1", 1).text
        nothing = self.when(some, "some")
        self.most = self.number(f"udiv i64 {tuning.FLATTENED_TILE}, {self.count}")
        self.middle = self.word(block.length(block.rank - 2)) if depth > 1 else "1"
        self.across = self.number(f"udiv i64 {self.count}, {self.middle}")
        for place in range(scalars):
            self.set_word(2 * count + place, self.word(block.stride(count, 0) + place))
        self.bases = [self.word(k, "ptr") for k in range(count)]
        self.steps = [self.step(k) for k in range(count)]
        self.row_steps = [self.word(block.stride(k, self.rows_loop)) for k in range(count)]
        self.middle_steps = [self.word(block.stride(k, block.rank - 2)) for k in range(count)]
        self.kinds = [self.prepare(k) for k in range(len(self.nest.loads))]
        self.tiles(inner)
        self.rejoin(nothing)
        return self.finish()

    def step(self, k: int) -> str:
        """Bytes from one element of a row to the next."""
        access = self.block.operands[k].access
        if access == CONTIGUOUS:
            return str(self.sizes[k])
        return "0" if access == INVARIANT else self.word(self.block.stride(k, self.block.rank - 1))

    def prepare(self, k: int) -> str:
        """Whether a load is met as it is (i1); the table of one that is not."""
        b = self.b
        wanted = [(self.row_steps[k], self.count), (self.steps[k], "1")]
        if self.rows_loop < self.block.rank - 2:
            wanted.append((self.middle_steps[k], self.across))
        dense = b.constant_bits("i1", 1, 1)
        for step, elements in wanted:
            size = self.number(f"mul i64 {elements}, {self.sizes[k]}")
            dense = b.op("and", dense, b.value(f"icmp eq i64 {step}, {size}", "i1", 1))
        apart = b.value(f"xor i1 {dense.text}, true", "i1", 1).text
        past = self.when(apart, "apart")
        b.line(
            f"call void @{_table(b.module)}(ptr %table{k}, i64 {self.row_steps[k]}, "
            f"i64 {self.middle_steps[k]}, i64 {self.steps[k]}, i64 {self.most}, "
            f"i64 {self.middle}, i64 {self.across})"
        )
        self.rejoin(past)
        return dense.text

    def place(self, k: int, offset: str) -> str:
        """The address of an operand's first element of a tile."""
        along = self.number(f"mul i64 %ibegin, {self.steps[k]}")
        total = self.number(f"add i64 {offset}, {along}")
        return self.b.value(f"getelementptr i8, ptr {self.bases[k]}, i64 {total}", "ptr", 1).text

    def copy(self, k: int, start: str, elements: str) -> None:
        """Fill an operand's scratch memory by its table."""
        name = _gather(self.b.module, self.sizes[k])
        listed = f"ptr %scratch{k}, ptr {start}, ptr %table{k}, i64 {elements}"
        self.b.line(f"call void @{name}({listed})")

    def tiles(self, inner: str) -> None:
        """The loop over tiles of some rows."""
        b = self.b
        b.line("store i64 %obegin, ptr %o.at")
        b.jump("rows")
        first = self.number("load i64, ptr %o.at")
        going = b.value(f"icmp ult i64 {first}, %oend", "i1", 1).text
        ended = self.when(going, "tile")
        rows = self.least(self.most, self.number(f"sub i64 %oend, {first}"))
        places = self.places(first)
        if self.rows_loop:
            length = self.word(self.block.length(self.rows_loop))
            rows = self.least(rows, self.number(f"sub i64 {length}, {places[-1]}"))
        elements = self.number(f"mul i64 {rows}, {self.count}")
        for k in range(len(self.block.operands)):
            self.meet(k, places, elements)
        self.call(inner, "%copy", ("0", "1", "0", elements))
        b.line(f"store i64 {self.number(f'add i64 {first}, {rows}')}, ptr %o.at")
        b.jump("rows", ended)

    def meet(self, k: int, places: list[str], elements: str) -> None:
        """Set an operand's address for a tile; copy its elements where that is needed."""
        offset = "0"
        for loop, place in enumerate(places):
            stride = self.word(self.block.stride(k, loop))
            moved = self.number(f"mul i64 {place}, {stride}")
            offset = self.number(f"add i64 {offset}, {moved}")
        address = self.place(k, offset)
        if k < len(self.kinds):
            dense = self.kinds[k]
            self.fill(k, address, elements)
            text = f"select i1 {dense}, ptr {address}, ptr %scratch{k}"
            address = self.b.value(text, "ptr", 1).text
        self.set_word(k, address, "ptr")

    def fill(self, k: int, address: str, elements: str) -> None:
        """Copy an operand's elements, unless it is met as it is, or they are there already."""
        b = self.b
        source = b.value(f"load ptr, ptr %source{k}", "ptr", 1).text
        filled = self.number(f"load i64, ptr %filled{k}")
        other = b.value(f"icmp ne ptr {address}, {source}", "i1", 1)
        more = b.value(f"icmp ugt i64 {elements}, {filled}", "i1", 1)
        apart = b.value(f"xor i1 {self.kinds[k]}, true", "i1", 1)
        past = self.when(b.op("and", apart, b.op("or", other, more)).text, "again")
        same = b.value(f"icmp eq i64 {self.row_steps[k]}, 0", "i1", 1).text
        whole = self.number(f"mul i64 {self.most}, {self.count}")
        wanted = self.number(f"select i1 {same}, i64 {whole}, i64 {elements}")
        self.copy(k, address, wanted)
        b.line(f"store ptr {address}, ptr %source{k}")
        b.line(f"store i64 {wanted}, ptr %filled{k}")
        self.rejoin(past)

    def places(self, first: str) -> list[str]:
        """Where a row lies along each loop outside."""
        found: list[str] = []
        rest = first
        for loop in range(self.rows_loop, 0, -1):
            length = self.word(self.block.length(loop))
            found.insert(0, self.number(f"urem i64 {rest}, {length}"))
            rest = self.number(f"udiv i64 {rest}, {length}")
        return [rest, *found]


def _table(module: Module) -> str:
    """The function that makes a table of offsets, once a module; its name."""
    name = "short.table"
    if name not in module.helpers:
        b = Body(module)
        down = begin_loop(b, "0", "%rows")
        start = b.value(f"mul i64 {down.index}, %row", "i64", 1).text
        row = b.value(f"mul i64 {down.index}, %middles", "i64", 1).text
        between = begin_loop(b, "0", "%middles")
        moved = b.value(f"mul i64 {between.index}, %middle", "i64", 1).text
        moved = b.value(f"add i64 {start}, {moved}", "i64", 1).text
        at = b.value(f"add i64 {row}, {between.index}", "i64", 1).text
        at = b.value(f"mul i64 {at}, %columns", "i64", 1).text
        across = begin_loop(b, "0", "%columns")
        along = b.value(f"mul i64 {across.index}, %step", "i64", 1).text
        offset = b.value(f"add i64 {moved}, {along}", "i64", 1).text
        number = b.value(f"add i64 {at}, {across.index}", "i64", 1).text
        place = b.value(f"getelementptr i64, ptr %to, i64 {number}", "ptr", 1).text
        b.line(f"store i64 {offset}, ptr {place}")
        across.end()
        between.end()
        down.end()
        head = "ptr %to, i64 %row, i64 %middle, i64 %step, i64 %rows, i64 %middles, i64 %columns"
        module.helpers[name] = _function(name, head, b)
    return name


def _gather(module: Module, size: int) -> str:
    """The function that copies elements of a size by a table, once a module; its name."""
    name = f"short.gather.{size}"
    if name not in module.helpers:
        b = Body(module)
        turns = b.value(f"udiv i64 %count, {tuning.FLATTENED_COPIED}", "i64", 1).text
        whole = b.value(f"mul i64 {turns}, {tuning.FLATTENED_COPIED}", "i64", 1).text
        loop = begin_loop(b, "0", turns)
        first = b.value(f"mul i64 {loop.index}, {tuning.FLATTENED_COPIED}", "i64", 1).text
        for lane in range(tuning.FLATTENED_COPIED):
            _move(b, size, b.value(f"add i64 {first}, {lane}", "i64", 1).text)
        loop.end()
        rest = begin_loop(b, whole, "%count")
        _move(b, size, rest.index)
        rest.end()
        module.helpers[name] = _function(name, "ptr %to, ptr %from, ptr %table, i64 %count", b)
    return name


def _move(b: Body, size: int, number: str) -> None:
    """Copy one element."""
    kind = f"i{8 * size}"
    entry = b.value(f"getelementptr i64, ptr %table, i64 {number}", "ptr", 1).text
    offset = b.value(f"load i64, ptr {entry}", "i64", 1).text
    source = b.value(f"getelementptr i8, ptr %from, i64 {offset}", "ptr", 1).text
    element = b.value(f"load {kind}, ptr {source}, align 1", kind, 1).text
    target = b.value(f"getelementptr {kind}, ptr %to, i64 {number}", "ptr", 1).text
    b.line(f"store {kind} {element}, ptr {target}, align 1")


def _function(name: str, arguments: str, b: Body) -> str:
    """The text of a helper."""
    b.line("ret void")
    body = "\n".join(b.lines)
    return f"define internal void @{name}({arguments}) #0 {{\nentry:\n{body}\n}}"


def emit_flattened(module: Module, nest: LoopNest, name: str, *, deep: bool) -> str:
    """Append a nest's function in this form; returns the name of the one to emit for `flat`."""
    inner = f"{name}.flat"
    module.functions.append(FlattenedLoops(module, nest, name, "").emit(inner, 2 if deep else 1))
    return inner

