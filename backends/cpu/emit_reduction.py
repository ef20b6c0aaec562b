"""Loop nests that reduce, as LLVM IR text with explicit vectors.

Row: the reduced loop is innermost in memory. Each row runs through its elements once for every
stage (a stage ends where a reduction's result is needed), with vectors of partial results that
are combined at the end of the row. Column: elements beside each other belong to different
results. Each vector of columns runs down the reduced axis once for every stage.

Floating-point sums of rows add blocks of vectors, and blocks to each other with the rounding
error kept (Knuth's TwoSum; Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM J. Sci.
Comput. 26(6), 2005), so that the error does not grow with the row's length.

The function's arguments are those of `emit`; words of the block are addresses, lengths of all
loops, strides of all loops operand by operand (the reduced loop last), then scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Body, Module, Value, mangled, vector_type
from fuser.backends.cpu.loops import Loop, begin_loop
from fuser.backends.cpu.spelling import EXACT_IN_HALF, spell
from fuser.codegen import Instruction, LoopNest
from fuser.ops import TABLE
from fuser.specs import CONTIGUOUS, INVARIANT, TensorDesc

#: Vectors that are added plainly before their sum is added with its rounding error.
BLOCK = 16
#: Bodies of at most this many light operations take two native vectors at a time.
UNROLL_LIMIT = 24
#: row -> the elementwise row that combines two partial results
COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


@dataclass
class _Accumulator:
    """The running value of one reduction in one loop."""

    number: int
    op: str
    dtype: str
    operand: int
    parts: list[Value] = field(default_factory=list)
    """One vector; for argmax and argmin values and places, for exact sums also the error."""


def emit_reduction(module: Module, nest: LoopNest, name: str) -> None:
    """Append the function of one reducing nest to a module."""
    _Reduction(module, nest, name).emit()


def lanes_of(nest: LoopNest, vector_bytes: int) -> int:
    """How many elements the body computes at a time."""
    wide = max(nest.itemsize, 4)
    if any(i.op.startswith("arg") for i in nest.body):
        wide = 8
    native = max(1, vector_bytes // wide)
    cost = sum(4 if TABLE[i.op].heavy else 1 for i in nest.body)
    return native * 2 if cost <= UNROLL_LIMIT else native


class _Reduction:
    """Emits one nest."""

    def __init__(self, module: Module, nest: LoopNest, name: str) -> None:
        self.module, self.nest, self.name = module, nest, name
        self.b = Body(module)
        self.lanes = lanes_of(nest, module.features.vector_bytes)
        self.operands: list[TensorDesc] = [*nest.loads, *(desc for _, desc in nest.stores)]
        self.column = nest.strategy == "column"
        self.values: dict[int, Value] = {}
        self.levels: dict[int, int] = {}
        self.stages: dict[int, int] = {}
        self.first = nest.value_count - len(nest.body)

    # -- what belongs where -----------------------------------------------------------------

    def _classify(self) -> None:
        """Levels (0 a call, 1 a result, 2 an element) and stages of all values."""
        for k, desc in enumerate(self.nest.loads):
            steady = desc.steady if self.column else desc.access == INVARIANT
            self.levels[k], self.stages[k] = (1 if steady else 2), 0
        for k in range(len(self.nest.loads), self.first):
            self.levels[k], self.stages[k] = 0, 0
        for place, instruction in enumerate(self.nest.body):
            number = self.first + place
            levels = [self.levels[k] for k in instruction.operands]
            stage = max((self.stages[k] for k in instruction.operands), default=0)
            if TABLE[instruction.op].reduction:
                self.levels[number], self.stages[number] = 1, stage + 1
            else:
                self.levels[number] = max(levels, default=0)
                self.stages[number] = stage

    def _is_reduction(self, number: int) -> bool:
        place = number - self.first
        return place >= 0 and TABLE[self.nest.body[place].op].reduction

    def _reductions_of(self, stage: int) -> list[_Accumulator]:
        """The reductions that the loop of a stage computes."""
        found = []
        for place, instruction in enumerate(self.nest.body):
            number = self.first + place
            if TABLE[instruction.op].reduction and self.stages[number] == stage + 1:
                operand = instruction.operands[0]
                found.append(
                    _Accumulator(number, instruction.op, instruction.operand_dtype, operand)
                )
        return found

    def _stores_of(self, stage: int) -> list[int]:
        """Places of the stores that the loop of a stage makes."""
        return [
            place
            for place, (number, _) in enumerate(self.nest.stores)
            if self._store_level(place) == 2 and self.stages[number] == stage
        ]

    def _store_level(self, place: int) -> int:
        """Whether a store writes every element (2) or every result (1)."""
        desc = self.nest.stores[place][1]
        steady = desc.steady if self.column else desc.access == INVARIANT
        return 1 if steady else 2

    # -- the function -----------------------------------------------------------------------

    def emit(self) -> None:
        """Write the function."""
        self._classify()
        b = self.b
        self._header()
        rows = begin_loop(b, "%obegin", "%oend")
        self._row(rows.index)
        rows.end()
        b.line("ret i32 %status" if b.flagged else "ret i32 0")
        lines = b.lines
        if b.flagged:
            lines = ["  %flag = alloca i32", "  store i32 0, ptr %flag", *lines]
            lines.insert(len(lines) - 1, "  %status = load i32, ptr %flag")
        head = (
            f"define i32 @{self.name}(ptr %block, i64 %obegin, i64 %oend, "
            "i64 %ibegin, i64 %iend) #0 {"
        )
        self.module.functions.append("\n".join([head, "entry:", *lines, "}"]))

    def _word(self, place: int, scalar: str) -> Value:
        """Load one word of the argument block."""
        b = self.b
        address = b.value(f"getelementptr i8, ptr %block, i64 {8 * place}", "ptr", 1)
        return b.value(f"load {scalar}, ptr {address.text}", scalar, 1)

    def _header(self) -> None:
        """Addresses, lengths, strides, scalars and constants."""
        count, rank = len(self.operands), self.nest.rank
        self.pointers = [self._word(k, "ptr").text for k in range(count)]
        self.lengths = [self._word(count + d, "i64").text for d in range(rank)]
        first = count + rank
        self.strides = [
            [self._word(first + k * rank + d, "i64").text for d in range(rank)]
            for k in range(count)
        ]
        number = len(self.nest.loads)
        for place, dtype in enumerate(self.nest.scalars):
            raw = self._word(first + count * rank + place, conversion.MEMORY[dtype])
            self.values[number] = conversion.from_memory(self.b, raw, dtype)
            number += 1
        for dtype, bits in self.nest.constants:
            self.values[number] = conversion.constant(dtype, bits)
            number += 1

    def _row(self, row: str) -> None:
        """One outer iteration: addresses, then the stages."""
        b, rank = self.b, self.nest.rank
        kept = rank - 2 if self.column else rank - 1  # loops that `row` counts
        places: list[str] = []
        rest = row
        for d in range(kept - 1, 0, -1):
            places.insert(0, b.value(f"urem i64 {rest}, {self.lengths[d]}", "i64", 1).text)
            rest = b.value(f"udiv i64 {rest}, {self.lengths[d]}", "i64", 1).text
        if kept:
            places.insert(0, rest)
        self.rows = []
        for k in range(len(self.operands)):
            offset = "0"
            for d, place in enumerate(places):
                step = b.value(f"mul i64 {place}, {self.strides[k][d]}", "i64", 1).text
                offset = b.value(f"add i64 {offset}, {step}", "i64", 1).text
            text = f"getelementptr i8, ptr {self.pointers[k]}, i64 {offset}"
            self.rows.append(b.value(text, "ptr", 1).text)
        if self.column:
            self._columns()
        else:
            self._stages_of_row()

    # -- row strategy -----------------------------------------------------------------------

    def _stages_of_row(self) -> None:
        """All stages over one row."""
        b, lanes = self.b, self.lanes
        saved = dict(self.values)
        for k in range(len(self.nest.loads)):
            if self.levels[k] == 1:
                self.values[k] = self._load_one(k, self.rows[k])
        length = self.lengths[-1]
        vectors = b.value(f"udiv i64 {length}, {lanes}", "i64", 1).text
        rest = b.value(f"urem i64 {length}, {lanes}", "i64", 1).text
        mask = self._mask(rest)
        self._results(0)
        for stage in range(self._last_stage() + 1):
            accumulators = self._reductions_of(stage)
            if accumulators or self._stores_of(stage):
                self._row_loop(stage, accumulators, vectors, rest, mask)
            for accumulator in accumulators:
                self.values[accumulator.number] = self._combine_lanes(accumulator)
            self._results(stage + 1)
        for place, (number, desc) in enumerate(self.nest.stores):
            if self._store_level(place) == 1:
                k = len(self.nest.loads) + place
                raw = conversion.to_memory(b, self.values[number], desc.dtype)
                b.line(f"store {raw.typed}, ptr {self.rows[k]}, align 1")
        self.values = saved

    def _last_stage(self) -> int:
        """The last stage with a loop."""
        reductions = [self.stages[n] - 1 for n in self.stages if self._is_reduction(n)]
        stores = [
            self.stages[number]
            for place, (number, _) in enumerate(self.nest.stores)
            if self._store_level(place) == 2
        ]
        return max([*reductions, *stores], default=0)

    def _row_loop(
        self, stage: int, accumulators: list[_Accumulator], vectors: str, rest: str, mask: Value
    ) -> None:
        """The loop of one stage: blocks of whole vectors, then what is left over."""
        b = self.b
        for accumulator in accumulators:
            accumulator.parts = self._start(accumulator)
        exact = [a for a in accumulators if a.op == "sum" and "float" in a.dtype]
        if exact:
            self._blocked(stage, accumulators, exact, vectors)
        else:
            loop = begin_loop(b, "0", vectors)
            self._carried(loop, accumulators, lambda: self._turn(stage, accumulators, loop.index))
        some = b.value(f"icmp ne i64 {rest}, 0", "i1", 1).text
        before, tail, join = b.block, b.label("tail"), b.label("join")
        b.line(f"br i1 {some}, label %{tail}, label %{join}")
        b.start(tail)
        old = [list(a.parts) for a in accumulators]
        self._turn(stage, accumulators, vectors, mask)
        after = b.block
        b.line(f"br label %{join}")
        b.start(join)
        for accumulator, parts in zip(accumulators, old, strict=True):
            accumulator.parts = [
                b.value(
                    f"phi {new.type} [ {was.text}, %{before} ], [ {new.text}, %{after} ]",
                    new.scalar,
                    new.lanes,
                )
                for was, new in zip(parts, accumulator.parts, strict=True)
            ]

    def _carried(
        self, loop: Loop, accumulators: list[_Accumulator], turn: Callable[[], None]
    ) -> None:
        """Run a loop whose accumulators pass from turn to turn."""
        for accumulator in accumulators:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        turn()
        loop.end([part for accumulator in accumulators for part in accumulator.parts])
        for accumulator, parts in zip(
            accumulators, _split(loop.results, accumulators), strict=True
        ):
            accumulator.parts = parts

    def _blocked(
        self,
        stage: int,
        accumulators: list[_Accumulator],
        exact: list[_Accumulator],
        vectors: str,
    ) -> None:
        """Sum blocks of vectors; add the blocks with their rounding errors."""
        b = self.b
        up = b.value(f"add i64 {vectors}, {BLOCK - 1}", "i64", 1).text
        blocks = b.value(f"udiv i64 {up}, {BLOCK}", "i64", 1).text
        outer = begin_loop(b, "0", blocks)
        highs = [outer.carry(a.parts[0]) for a in exact]
        lows = [outer.carry(self._zero(a)) for a in exact]
        others = [a for a in accumulators if a not in exact]
        for accumulator in others:
            accumulator.parts = [outer.carry(part) for part in accumulator.parts]
        begin = b.value(f"mul i64 {outer.index}, {BLOCK}", "i64", 1).text
        ahead = b.value(f"add i64 {begin}, {BLOCK}", "i64", 1).text
        more = b.value(f"icmp ult i64 {ahead}, {vectors}", "i1", 1).text
        end = b.value(f"select i1 {more}, i64 {ahead}, i64 {vectors}", "i64", 1).text
        for accumulator in exact:
            accumulator.parts = [self._zero(accumulator)]
        inner = begin_loop(b, begin, end)
        ordered = [*exact, *others]
        self._carried(inner, ordered, lambda: self._turn(stage, accumulators, inner.index))
        new_highs, new_lows = [], []
        for accumulator, high, low in zip(exact, highs, lows, strict=True):
            total, error = _two_sum(b, high, accumulator.parts[0])
            new_highs.append(total)
            new_lows.append(b.op("fadd", low, error))
        outer.end([*new_highs, *new_lows, *(part for a in others for part in a.parts)])
        for accumulator, high, low in zip(exact, outer.results, outer.results[len(exact) :],
                                          strict=False):  # fmt: skip
            accumulator.parts = [high, low]
        place = 2 * len(exact)
        for accumulator in others:
            width = len(accumulator.parts)
            accumulator.parts = outer.results[place : place + width]
            place += width

    # -- column strategy --------------------------------------------------------------------

    def _columns(self) -> None:
        """All columns of one outer iteration, a vector at a time."""
        b, lanes = self.b, self.lanes
        count = b.value("sub i64 %iend, %ibegin", "i64", 1).text
        vectors = b.value(f"udiv i64 {count}, {lanes}", "i64", 1).text
        rest = b.value(f"urem i64 {count}, {lanes}", "i64", 1).text
        mask = self._mask(rest)
        loop = begin_loop(b, "0", vectors)
        self._column_stages(loop.index, None)
        loop.end()
        some = b.value(f"icmp ne i64 {rest}, 0", "i1", 1).text
        tail, join = b.label("tail"), b.label("join")
        b.line(f"br i1 {some}, label %{tail}, label %{join}")
        b.start(tail)
        self._column_stages(vectors, mask)
        b.line(f"br label %{join}")
        b.start(join)

    def _column_stages(self, vector: str, mask: Value | None) -> None:
        """All stages down one vector of columns."""
        b = self.b
        saved = dict(self.values)
        done = b.value(f"mul i64 {vector}, {self.lanes}", "i64", 1).text
        column = b.value(f"add i64 {done}, %ibegin", "i64", 1).text
        self.tops = []
        for k in range(len(self.operands)):
            offset = b.value(f"mul i64 {column}, {self.strides[k][-2]}", "i64", 1).text
            text = f"getelementptr i8, ptr {self.rows[k]}, i64 {offset}"
            self.tops.append(b.value(text, "ptr", 1).text)
        for k in range(len(self.nest.loads)):
            if self.levels[k] == 1:
                self.values[k] = self._load(k, self.tops[k], mask, self.strides[k][-2])
        self._results(0)
        for stage in range(self._last_stage() + 1):
            accumulators = self._reductions_of(stage)
            if accumulators or self._stores_of(stage):
                for accumulator in accumulators:
                    accumulator.parts = self._start(accumulator)
                loop = begin_loop(b, "0", self.lengths[-1])
                down = partial(self._down, stage, accumulators, loop.index, mask)
                self._carried(loop, accumulators, down)
            for accumulator in accumulators:
                self.values[accumulator.number] = self._column_result(accumulator)
            self._results(stage + 1)
        for place, (number, _) in enumerate(self.nest.stores):
            if self._store_level(place) == 1:
                k = len(self.nest.loads) + place
                self._store(k, self._operand(number), self.tops[k], mask, self.strides[k][-2])
        self.values = saved

    def _down(
        self, stage: int, accumulators: list[_Accumulator], index: str, mask: Value | None
    ) -> None:
        """One step down the reduced axis."""
        b = self.b

        def address(k: int) -> str:
            offset = b.value(f"mul i64 {index}, {self.strides[k][-1]}", "i64", 1).text
            return b.value(f"getelementptr i8, ptr {self.tops[k]}, i64 {offset}", "ptr", 1).text

        places = b.splat(Value(index, "i64", 1), self.lanes)
        self._body(stage, accumulators, address, lambda k: self.strides[k][-2], mask, places)

    def _column_result(self, accumulator: _Accumulator) -> Value:
        """The finished vector of one reduction."""
        if accumulator.op.startswith("arg"):
            return accumulator.parts[1]
        return self._rounded(accumulator, accumulator.parts[0])

    # -- one vector of elements -------------------------------------------------------------

    def _turn(
        self,
        stage: int,
        accumulators: list[_Accumulator],
        vector: str,
        mask: Value | None = None,
    ) -> None:
        """One vector of a row."""
        b = self.b
        done = b.value(f"mul i64 {vector}, {self.lanes}", "i64", 1).text

        def address(k: int) -> str:
            offset = b.value(f"mul i64 {done}, {self._row_step(k)}", "i64", 1).text
            return b.value(f"getelementptr i8, ptr {self.rows[k]}, i64 {offset}", "ptr", 1).text

        places = Value("", "i64", self.lanes)
        if any(a.op.startswith("arg") for a in accumulators):
            base = b.splat(Value(done, "i64", 1), self.lanes)
            places = b.op("add", base, _iota(self.lanes))
        self._body(stage, accumulators, address, self._row_step, mask, places)

    def _row_step(self, k: int) -> str:
        """The stride between elements of a row, in bytes."""
        desc = self.operands[k]
        if desc.access == CONTIGUOUS:
            return str(np.dtype(desc.dtype).itemsize)
        return self.strides[k][-1]

    def _body(
        self,
        stage: int,
        accumulators: list[_Accumulator],
        address: Callable[[int], str],
        step: Callable[[int], str],
        mask: Value | None,
        places: Value,
    ) -> None:
        """Load, compute, accumulate and store one vector."""
        stores = self._stores_of(stage)
        wanted = [a.operand for a in accumulators]
        wanted += [self.nest.stores[place][0] for place in stores]
        kept = dict(self.values)
        for number in self._needed(wanted):
            if number < len(self.nest.loads):
                self.values[number] = self._load(number, address(number), mask, step(number))
            else:
                self._instruction(number, self.nest.body[number - self.first], 2)
        for accumulator in accumulators:
            self._accumulate(accumulator, self._operand(accumulator.operand), mask, places)
        for place in stores:
            k = len(self.nest.loads) + place
            value = self._operand(self.nest.stores[place][0])
            self._store(k, value, address(k), mask, step(k))
        self.values = kept

    def _needed(self, wanted: list[int]) -> list[int]:
        """Elements' values that others need, in order."""
        found: set[int] = set()
        stack = list(wanted)
        while stack:
            number = stack.pop()
            if self.levels[number] < 2 or number in found:
                continue
            found.add(number)
            if number >= self.first:
                stack.extend(self.nest.body[number - self.first].operands)
        return sorted(found)

    def _results(self, stage: int) -> None:
        """Values of a result's shape that a stage makes computable."""
        for place, instruction in enumerate(self.nest.body):
            number = self.first + place
            level = self.levels[number]
            plain = level < 2 and not TABLE[instruction.op].reduction
            if plain and self.stages[number] == stage and number not in self.values:
                self._instruction(number, instruction, level)

    def _operand(self, number: int, lanes: int = 0) -> Value:
        """A value in as many lanes as the vector has."""
        value, lanes = self.values[number], lanes or self.lanes
        if value.lanes == lanes:
            return value
        if not value.text.startswith("%"):
            text = f"splat ({value.scalar} {value.text})" if lanes > 1 else value.text
            return Value(text, value.scalar, lanes)
        return self.b.splat(value, lanes)

    def _instruction(self, number: int, instruction: Instruction, level: int) -> None:
        """Spell one operation."""
        b = self.b
        wide = level == 2 or (level == 1 and self.column)
        lanes = self.lanes if wide else 1
        operands = [self._operand(k, lanes) for k in instruction.operands]
        if instruction.op == "cast":
            source = instruction.operand_dtype
            result = conversion.convert(b, operands[0], source, instruction.dtype)
        else:
            result = spell(b, instruction.op, instruction.operand_dtype, operands)
            if instruction.dtype == "float16" and instruction.op not in EXACT_IN_HALF:
                result = conversion.round_half(b, result)
        self.values[number] = result

    # -- memory -----------------------------------------------------------------------------

    def _mask(self, rest: str) -> Value:
        """The lanes that left-over elements fill."""
        b, lanes = self.b, self.lanes
        if lanes == 1:
            return b.constant_bits("i1", 1, 1)
        all_rest = b.splat(Value(rest, "i64", 1), lanes)
        return b.compare("icmp ult", _iota(lanes), all_rest)

    def _load_one(self, k: int, address: str) -> Value:
        """One element as a scalar."""
        dtype = self.operands[k].dtype
        memory = conversion.MEMORY[dtype]
        raw = self.b.value(f"load {memory}, ptr {address}, align 1", memory, 1)
        return conversion.from_memory(self.b, raw, dtype)

    def _load(self, k: int, address: str, mask: Value | None, step: str) -> Value:
        """A vector of elements; lanes outside the mask repeat the first."""
        b, lanes, desc = self.b, self.lanes, self.operands[k]
        memory = conversion.MEMORY[desc.dtype]
        vector = vector_type(memory, lanes)
        if desc.access == INVARIANT or lanes == 1:
            return b.splat(self._load_one(k, address), lanes)
        if desc.access == CONTIGUOUS and mask is None:
            raw = b.value(f"load {vector}, ptr {address}, align 1", memory, lanes)
            return conversion.from_memory(b, raw, desc.dtype)
        first = b.value(f"load {memory}, ptr {address}, align 1", memory, 1)
        rest = b.splat(first, lanes)
        bits = f"<{lanes} x i1>"
        if desc.access == CONTIGUOUS:
            symbol = f"llvm.masked.load.{mangled(memory, lanes)}.p0"
            self.module.declare(symbol, vector, ("ptr", "i32", bits, vector))
            assert mask is not None
            text = f"call {vector} @{symbol}(ptr {address}, i32 1, {mask.typed}, {rest.typed})"
            return conversion.from_memory(b, b.value(text, memory, lanes), desc.dtype)
        pointers = self._addresses(address, step)
        symbol = f"llvm.masked.gather.{mangled(memory, lanes)}.v{lanes}p0"
        self.module.declare(symbol, vector, (f"<{lanes} x ptr>", "i32", bits, vector))
        chosen = mask or b.constant_bits("i1", lanes, 1)
        text = f"call {vector} @{symbol}({pointers.typed}, i32 1, {chosen.typed}, {rest.typed})"
        return conversion.from_memory(b, b.value(text, memory, lanes), desc.dtype)

    def _addresses(self, address: str, step: str) -> Value:
        """Addresses of elements that lie `step` bytes apart."""
        b, lanes = self.b, self.lanes
        steps = b.splat(Value(step, "i64", 1), lanes)
        offsets = b.op("mul", _iota(lanes), steps)
        text = f"getelementptr i8, ptr {address}, {offsets.typed}"
        return b.value(text, "ptr", lanes)

    def _store(self, k: int, value: Value, address: str, mask: Value | None, step: str) -> None:
        """Write a vector of elements, or the lanes in the mask."""
        b, lanes, desc = self.b, self.lanes, self.operands[k]
        raw = conversion.to_memory(b, value, desc.dtype)
        if (desc.access == CONTIGUOUS and mask is None) or lanes == 1:
            b.line(f"store {raw.typed}, ptr {address}, align 1")
            return
        bits = f"<{lanes} x i1>"
        chosen = mask or b.constant_bits("i1", lanes, 1)
        if desc.access == CONTIGUOUS:
            symbol = f"llvm.masked.store.{mangled(raw.scalar, lanes)}.p0"
            self.module.declare(symbol, "void", (raw.type, "ptr", "i32", bits))
            b.line(f"call void @{symbol}({raw.typed}, ptr {address}, i32 1, {chosen.typed})")
            return
        pointers = self._addresses(address, step)
        symbol = f"llvm.masked.scatter.{mangled(raw.scalar, lanes)}.v{lanes}p0"
        self.module.declare(symbol, "void", (raw.type, f"<{lanes} x ptr>", "i32", bits))
        b.line(f"call void @{symbol}({raw.typed}, {pointers.typed}, i32 1, {chosen.typed})")

    # -- accumulating -----------------------------------------------------------------------

    def _zero(self, accumulator: _Accumulator) -> Value:
        return self.b.constant_bits(conversion.REGISTER[accumulator.dtype], self.lanes, 0)

    def _start(self, accumulator: _Accumulator) -> list[Value]:
        """What a reduction starts from."""
        b, lanes = self.b, self.lanes
        scalar = conversion.REGISTER[accumulator.dtype]
        like = Value("", scalar, lanes)
        name = {"argmax": "max", "argmin": "min"}.get(accumulator.op, accumulator.op)
        if scalar in ("float", "double"):
            number = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[name]
            value = b.fconst(like, number)
        elif scalar == "i1":
            value = b.constant_bits(scalar, lanes, int(name == "min"))
        elif name in ("sum", "prod"):
            value = b.iconst(like, int(name == "prod"))
        else:
            limits = np.iinfo(accumulator.dtype)
            value = b.iconst(like, limits.min if name == "max" else limits.max)
        if accumulator.op.startswith("arg"):
            return [value, b.constant_bits("i64", lanes, (1 << 64) - 1)]
        return [value]

    def _accumulate(
        self, accumulator: _Accumulator, value: Value, mask: Value | None, places: Value
    ) -> None:
        """Take one vector in."""
        b = self.b
        if accumulator.op.startswith("arg"):
            if mask is not None and not self.column:
                places = b.select(mask, places, b.constant_bits("i64", self.lanes, (1 << 64) - 1))
            accumulator.parts = self._better(accumulator, accumulator.parts, [value, places])
            return
        if mask is not None and not self.column:
            value = b.select(mask, value, self._start(accumulator)[0])
        if len(accumulator.parts) == 2:
            total, error = _two_sum(b, accumulator.parts[0], value)
            accumulator.parts = [total, b.op("fadd", accumulator.parts[1], error)]
            return
        pair = [accumulator.parts[0], value]
        accumulator.parts = [spell(b, COMBINE[accumulator.op], accumulator.dtype, pair)]

    def _better(self, accumulator: _Accumulator, old: list[Value], new: list[Value]) -> list[Value]:
        """The extreme of two candidates (value, place); the first place wins ties, NaN all.

        A place of -1 is no candidate.
        """
        b = self.b
        (a, i), (v, j) = old, new
        none = b.constant_bits("i64", a.lanes, (1 << 64) - 1)
        valid, empty = b.compare("icmp ne", j, none), b.compare("icmp eq", i, none)
        earlier = b.compare("icmp slt", j, i)
        sign = "gt" if accumulator.op == "argmax" else "lt"
        if a.scalar in ("float", "double"):
            nan_a, nan_v = b.compare("fcmp uno", a, a), b.compare("fcmp uno", v, v)
            plain = b.op("xor", nan_a, b.constant_bits("i1", a.lanes, 1))
            more = b.op("and", plain, b.compare(f"fcmp u{sign}", v, a))
            tie = b.op("or", b.compare("fcmp oeq", v, a), b.op("and", nan_a, nan_v))
        else:
            signed = accumulator.dtype.startswith("i")
            more = b.compare(f"icmp {'s' if signed else 'u'}{sign}", v, a)
            tie = b.compare("icmp eq", v, a)
        take = b.op("or", more, b.op("and", tie, earlier))
        take = b.op("and", valid, b.op("or", empty, take))
        return [b.select(take, v, a), b.select(take, j, i)]

    def _combine_lanes(self, accumulator: _Accumulator) -> Value:
        """One result from the lanes of a row, by halves."""
        b = self.b
        parts = accumulator.parts
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low = [_half(b, part, 0, lanes) for part in parts]
            high = [_half(b, part, lanes, lanes) for part in parts]
            if accumulator.op.startswith("arg"):
                parts = self._better(accumulator, low, high)
            elif len(parts) == 2:
                total, error = _two_sum(b, low[0], high[0])
                rest = b.op("fadd", low[1], high[1])
                parts = [total, b.op("fadd", rest, error)]
            else:
                pair = [low[0], high[0]]
                parts = [spell(b, COMBINE[accumulator.op], accumulator.dtype, pair)]
        if accumulator.op.startswith("arg"):
            return parts[1]
        if len(parts) == 2:
            return self._rounded(accumulator, b.op("fadd", parts[0], parts[1]))
        return self._rounded(accumulator, parts[0])

    def _rounded(self, accumulator: _Accumulator, value: Value) -> Value:
        """float16 sums and products are rounded once, at the end, as NumPy's."""
        if accumulator.dtype == "float16" and accumulator.op in ("sum", "prod"):
            return conversion.round_half(self.b, value)
        return value


def _split(values: list[Value], accumulators: list[_Accumulator]) -> list[list[Value]]:
    """Deal a loop's results out to its accumulators."""
    dealt, place = [], 0
    for accumulator in accumulators:
        width = len(accumulator.parts)
        dealt.append(values[place : place + width])
        place += width
    return dealt


def _iota(lanes: int) -> Value:
    """0, 1, 2 …"""
    if lanes == 1:
        return Value("0", "i64", 1)
    return Value(f"<{', '.join(f'i64 {k}' for k in range(lanes))}>", "i64", lanes)


def _half(b: Body, value: Value, start: int, lanes: int) -> Value:
    """Lanes [start, start + lanes)."""
    if lanes == 1:
        return b.value(f"extractelement {value.typed}, i64 {start}", value.scalar, 1)
    places = ", ".join(f"i32 {start + k}" for k in range(lanes))
    text = f"shufflevector {value.typed}, {value.type} poison, <{lanes} x i32> <{places}>"
    return b.value(text, value.scalar, lanes)


def _two_sum(b: Body, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error, exactly; no error where the sum is not finite."""
    total = b.op("fadd", x, y)
    part = b.op("fsub", total, x)
    rest = b.op("fsub", total, part)
    error = b.op("fadd", b.op("fsub", x, rest), b.op("fsub", y, part))
    finite = b.compare("fcmp ord", error, error)
    return total, b.select(finite, error, b.fconst(x, 0.0))
