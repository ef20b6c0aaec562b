"""Loop nests as LLVM IR text with explicit vector bodies.

A section becomes one function `i32 @name.<k>(ptr block, i64 obegin, i64 oend, i64 ibegin,
i64 iend)`: outer iterations [obegin, oend), innermost elements [ibegin, iend). The block holds
8-byte words: operand addresses, lengths of the outer loops but the first, strides in bytes
(operand by operand, outermost first), then scalars.

The vector body stands in the text once. Whole vectors run on the arrays; what is left over is
copied to a scratch vector (the last element repeated, so that no lane holds garbage), goes
through the same body, and is copied back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import BITS, Body, Features, Module, Value, mangled, vector_type
from fuser.backends.cpu.emit_reduction import emit_reduction
from fuser.backends.cpu.spelling import EXACT_IN_HALF, spell
from fuser.codegen import Instruction, LoopNest
from fuser.ops import TABLE
from fuser.specs import CONTIGUOUS, INVARIANT, TensorDesc

#: Bodies of at most this many light operations take two native vectors at a time.
UNROLL_LIMIT = 24


def emit(
    nests: Sequence[LoopNest], name: str, features: Features, stream: bool = False
) -> str:
    """Spell loop nests as one module.

    Args:
        nests: what to spell.
        name: the stem of the functions' names.
        features: what the processor can do.
        stream: write results past the caches; destinations are then aligned to 64 bytes.

    Raises:
        Unsupported: an operation has no spelling.
    """
    module = Module(features)
    for place, nest in enumerate(nests):
        if nest.strategy != "map":
            emit_reduction(module, nest, f"{name}.{place}")
            continue
        _Section(module, nest, f"{name}.{place}", stream and streams(nest)).emit()
    return module.text()


def streams(nest: LoopNest) -> bool:
    """Whether a nest has a form that writes past the caches: one loop, whole vectors."""
    whole = all(desc.access == CONTIGUOUS for _, desc in nest.stores)
    return nest.rank == 1 and nest.strategy == "map" and whole


def lanes_of(nest: LoopNest, features: Features) -> int:
    """How many elements the body computes at a time."""
    native = max(1, features.vector_bytes // max(4, nest.itemsize) if nest.itemsize > 1 else 16)
    if nest.itemsize <= 2 and not any(t.dtype == "float16" for t in nest.loads):
        native = features.vector_bytes // max(1, nest.itemsize)
    strided = any(t.access not in (CONTIGUOUS, INVARIANT) for t in nest.loads)
    strided |= any(t.access != CONTIGUOUS for _, t in nest.stores)
    if strided:
        return min(native, 16)
    heavy = sum(4 if TABLE[i.op].heavy else 1 for i in nest.body)
    return native * 2 if heavy <= UNROLL_LIMIT else native


@dataclass
class _Section:
    """Emits one loop nest."""

    module: Module
    nest: LoopNest
    name: str
    stream: bool = False
    values: dict[int, Value] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)

    def emit(self) -> None:
        """Append the section's function to the module."""
        nest = self.nest
        self.lanes = lanes_of(nest, self.module.features)
        self.operands: list[TensorDesc] = [*nest.loads, *(desc for _, desc in nest.stores)]
        # Level 0 is computed once a call, level 1 once a row, level 2 once a vector.
        self.bodies = [Body(self.module, prefix) for prefix in "urv"]
        self.bodies[1].block, self.bodies[2].block = "row", "vec"
        self._header()
        self._leaves()
        self._set_levels()
        self._row_start()
        self._loads()
        for place, instruction in enumerate(nest.body):
            self._instruction(nest.value_count - len(nest.body) + place, instruction)
        self._stores()
        self._assemble()

    # -- arguments --------------------------------------------------------------------------

    def _word(self, body: Body, place: int, scalar: str, comment: str = "") -> str:
        """Load one word of the argument block."""
        address = body.fresh()
        body.line(f"{address} = getelementptr i8, ptr %block, i64 {8 * place}")
        return body.value(f"load {scalar}, ptr {address}", scalar, 1).text

    def _header(self) -> None:
        """Read addresses, lengths and strides."""
        top = self.bodies[0]
        count, rank = len(self.operands), self.nest.rank
        self.pointers = [self._word(top, k, "ptr") for k in range(count)]
        self.lengths = [self._word(top, count + d, "i64") for d in range(rank - 1)]
        first = count + rank - 1
        self.outer = [
            [self._word(top, first + k * rank + d, "i64") for d in range(rank - 1)]
            for k in range(count)
        ]
        self.inner = [
            self._word(top, first + k * rank + rank - 1, "i64")
            if desc.access not in (CONTIGUOUS, INVARIANT)
            else str(_itemsize(desc) if desc.access == CONTIGUOUS else 0)
            for k, desc in enumerate(self.operands)
        ]
        self.first_scalar = first + count * rank

    def _leaves(self) -> None:
        """Scalars and constants, one lane each."""
        nest, top = self.nest, self.bodies[0]
        number = len(nest.loads)
        for place, dtype in enumerate(nest.scalars):
            memory = conversion.MEMORY[dtype]
            address = top.fresh()
            top.line(
                f"{address} = getelementptr i8, ptr %block, i64 {8 * (self.first_scalar + place)}"
            )
            raw = top.value(f"load {memory}, ptr {address}", memory, 1)
            self.values[number] = conversion.from_memory(top, raw, dtype)
            self.levels[number] = 0
            number += 1
        for dtype, bits in nest.constants:
            self.values[number] = conversion.constant(dtype, bits)
            self.levels[number] = 0
            number += 1

    def _set_levels(self) -> None:
        """A value is as variable as its most variable operand."""
        nest = self.nest
        for k, desc in enumerate(nest.loads):
            self.levels[k] = 1 if desc.access == INVARIANT else 2
        first = nest.value_count - len(nest.body)
        for place, instruction in enumerate(nest.body):
            level = max((self.levels[k] for k in instruction.operands), default=0)
            self.levels[first + place] = level

    # -- rows -------------------------------------------------------------------------------

    def _row_start(self) -> None:
        """Each operand's address at the start of the row, and where its left-over begins."""
        row = self.bodies[1]
        rest = "%o"
        places: list[str] = []
        for d in range(self.nest.rank - 2, 0, -1):  # the first outer loop takes what is left
            length = self.lengths[d]
            places.insert(0, row.value(f"urem i64 {rest}, {length}", "i64", 1).text)
            rest = row.value(f"udiv i64 {rest}, {length}", "i64", 1).text
        if self.nest.rank > 1:
            places.insert(0, rest)
        done = row.value(f"mul i64 %vectors, {self.lanes}", "i64", 1).text
        for k in range(len(self.operands)):
            offset = row.value(f"mul i64 %ibegin, {self.inner[k]}", "i64", 1).text
            for d, place in enumerate(places):
                step = row.value(f"mul i64 {place}, {self.outer[k][d]}", "i64", 1).text
                offset = row.value(f"add i64 {offset}, {step}", "i64", 1).text
            row.line(f"%row{k} = getelementptr i8, ptr {self.pointers[k]}, i64 {offset}")
            past = row.value(f"mul i64 {done}, {self.inner[k]}", "i64", 1).text
            row.line(f"%tail{k} = getelementptr i8, ptr %row{k}, i64 {past}")

    # -- loads and stores -------------------------------------------------------------------

    def _loads(self) -> None:
        """Read every operand: once a row where it is invariant, else once a vector."""
        for k, desc in enumerate(self.nest.loads):
            memory = conversion.MEMORY[desc.dtype]
            if desc.access == INVARIANT:
                row = self.bodies[1]
                raw = row.value(f"load {memory}, ptr %row{k}, align 1", memory, 1)
                self.values[k] = conversion.from_memory(row, raw, desc.dtype)
                continue
            b = self.bodies[2]
            if desc.access == CONTIGUOUS:
                vector = vector_type(memory, self.lanes)
                raw = b.value(f"load {vector}, ptr %q{k}, align 1", memory, self.lanes)
            else:
                raw = self._gather(b, k, memory)
            self.values[k] = conversion.from_memory(b, raw, desc.dtype)

    def _gather(self, b: Body, k: int, memory: str) -> Value:
        """Read a strided operand lane by lane."""
        vector = vector_type(memory, self.lanes)
        gathered = "poison"
        address = f"%q{k}"
        for lane in range(self.lanes):
            one = b.value(f"load {memory}, ptr {address}, align 1", memory, 1)
            gathered = b.value(
                f"insertelement {vector} {gathered}, {one.typed}, i64 {lane}", memory, self.lanes
            ).text
            if lane + 1 < self.lanes:
                text = f"getelementptr i8, ptr {address}, i64 %st{k}"
                address = b.value(text, "ptr", 1).text
        return Value(gathered, memory, self.lanes)

    def _stores(self) -> None:
        """Write every destination."""
        b = self.bodies[2]
        for place, (number, desc) in enumerate(self.nest.stores):
            k = len(self.nest.loads) + place
            raw = conversion.to_memory(b, self._operand(number, 2), desc.dtype)
            if desc.access == CONTIGUOUS:
                past = "align 64, !nontemporal !0" if self.stream else "align 1"
                b.line(f"store {raw.typed}, ptr %q{k}, {past}")
                continue
            address = f"%q{k}"
            for lane in range(self.lanes):
                text = f"extractelement {raw.typed}, i64 {lane}"
                one = b.value(text, raw.scalar, 1)
                b.line(f"store {one.typed}, ptr {address}, align 1")
                if lane + 1 < self.lanes:
                    step = f"getelementptr i8, ptr {address}, i64 %st{k}"
                    address = b.value(step, "ptr", 1).text

    # -- computation ------------------------------------------------------------------------

    def _operand(self, number: int, level: int) -> Value:
        """A value as a given level wants it: constants and row values are repeated in lanes."""
        value = self.values[number]
        if level < 2 or self.levels[number] == 2:
            return value
        if not value.text.startswith("%"):  # a constant
            text = f"splat ({value.scalar} {value.text})" if self.lanes > 1 else value.text
            return Value(text, value.scalar, self.lanes)
        key = -1 - number
        if key not in self.values:
            self.values[key] = self.bodies[self.levels[number]].splat(value, self.lanes)
        return self.values[key]

    def _instruction(self, number: int, instruction: Instruction) -> None:
        """Spell one operation at its level."""
        level = self.levels[number]
        b = self.bodies[level]
        operands = [self._operand(k, level) for k in instruction.operands]
        if instruction.op == "cast":
            source = instruction.operand_dtype
            result = conversion.convert(b, operands[0], source, instruction.dtype)
        else:
            result = spell(b, instruction.op, instruction.operand_dtype, operands)
            if instruction.dtype == "float16" and instruction.op not in EXACT_IN_HALF:
                result = conversion.round_half(b, result)
        if self.nest.checked:
            self._check(b, instruction, operands, result)
        self.values[number] = result

    def _check(
        self, b: Body, instruction: Instruction, operands: list[Value], result: Value
    ) -> None:
        """Note what NumPy would warn of: a result that is not finite, a zero divisor."""
        if "float" in instruction.dtype:
            size = b.intrinsic("llvm.fabs", result)
            b.raise_flag(b.compare("fcmp ueq", size, b.fconst(size, float("inf"))))
        elif instruction.op in ("floor_divide", "remainder", "fmod"):
            divisor = operands[1]
            b.raise_flag(b.compare("icmp eq", divisor, b.iconst(divisor, 0)))

    # -- the whole function -----------------------------------------------------------------

    def _assemble(self) -> None:
        """Put the levels together with loops and the left-over elements."""
        top, middle, _ = self.bodies
        count = len(self.operands)
        moving = [k for k in range(count) if self.operands[k].access != INVARIANT]
        strided = [k for k in moving if self.operands[k].access != CONTIGUOUS]
        flagged = any(body.flagged for body in self.bodies)
        lines = [
            (f"define i32 @{self.name}(ptr %block, i64 %obegin, i64 %oend, "
            "i64 %ibegin, i64 %iend) #0 {"),
            "entry:",
            *(["  %flag = alloca i32", "  store i32 0, ptr %flag"] if flagged else []),
            *(f"  %scratch{k} = alloca {self._scratch(k)}, align 64" for k in moving),
            *top.lines,
            "  %n = sub i64 %iend, %ibegin",
            f"  %vectors = udiv i64 %n, {self.lanes}",
            f"  %rest = urem i64 %n, {self.lanes}",
            "  %last = sub i64 %rest, 1",
            *(self._mask() if self._masked(moving) else []),
            "  %some = icmp ult i64 %obegin, %oend",
            "  br i1 %some, label %row, label %done",
            "row:",
            f"  %o = phi i64 [ %obegin, %{top.block} ], [ %o1, %row.end ]",
            *middle.lines,
            "  %whole = icmp ne i64 %vectors, 0",
            "  br i1 %whole, label %vec, label %left",
            *self._vector_loop(moving, strided, middle.block),
            *self._left_over(moving),
            "row.end:",
            "  %o1 = add i64 %o, 1",
            "  %more.rows = icmp ult i64 %o1, %oend",
            "  br i1 %more.rows, label %row, label %done",
            "done:",
            *(["  fence seq_cst"] if self.stream else []),
            *(["  %status = load i32, ptr %flag"] if flagged else []),
            "  ret i32 %status" if flagged else "  ret i32 0",
            "}",
        ]
        self.module.functions.append("\n".join(lines))

    def _scratch(self, k: int) -> str:
        """The type of an operand's left-over vector."""
        return f"[{self.lanes} x {conversion.MEMORY[self.operands[k].dtype]}]"

    def _vector_loop(self, moving: list[int], strided: list[int], row_block: str) -> list[str]:
        """The loop over whole vectors, entered again once for what is left over."""
        inside = self.bodies[2]
        vec = inside.block
        lines = ["vec:"]
        lines.append(
            f"  %left.vectors = phi i64 [ %vectors, %{row_block} ], [ %left.next, %{vec} ], "
            "[ 1, %tail.run ]"
        )
        lines.append(
            f"  %phase = phi i1 [ false, %{row_block} ], [ %phase, %{vec} ], [ true, %tail.run ]"
        )
        for k in moving:
            lines.append(
                f"  %q{k} = phi ptr [ %row{k}, %{row_block} ], [ %qn{k}, %{vec} ], "
                f"[ %scratch{k}, %tail.run ]"
            )
        for k in strided:
            lines.append(
                f"  %st{k} = phi i64 [ {self.inner[k]}, %{row_block} ], [ %st{k}, %{vec} ], "
                f"[ {_itemsize(self.operands[k])}, %tail.run ]"
            )
        lines.extend(inside.lines)
        for k in moving:
            step = str(self.lanes * _itemsize(self.operands[k]))
            if k in strided:
                lines.append(f"  %step{k} = mul i64 %st{k}, {self.lanes}")
                step = f"%step{k}"
            lines.append(f"  %qn{k} = getelementptr i8, ptr %q{k}, i64 {step}")
        lines += [
            "  %left.next = sub i64 %left.vectors, 1",
            "  %more.vectors = icmp ne i64 %left.next, 0",
            "  br i1 %more.vectors, label %vec, label %vec.end",
            "vec.end:",
            "  br i1 %phase, label %tail.out, label %left",
        ]
        return lines

    def _left_over(self, moving: list[int]) -> list[str]:
        """Copy left-over elements in, and results out."""
        loads = [k for k in moving if k < len(self.nest.loads)]
        stores = [k for k in moving if k >= len(self.nest.loads)]
        lines = [
            "left:",
            "  %any.rest = icmp ne i64 %rest, 0",
            "  br i1 %any.rest, label %tail.in, label %row.end",
            "tail.in:",
        ]
        if self._masked(moving):
            return lines + self._masked_tail(loads, stores)
        lines += [
            "  br label %copy",
            "copy:",
            "  %j = phi i64 [ 0, %tail.in ], [ %j1, %copy ]",
            "  %inside = icmp ult i64 %j, %rest",
            "  %m = select i1 %inside, i64 %j, i64 %last",
        ]
        for k in loads:
            lines += self._copy(k, "%m", "%j", into=True)
        lines += [
            "  %j1 = add i64 %j, 1",
            f"  %more.in = icmp ult i64 %j1, {self.lanes}",
            "  br i1 %more.in, label %copy, label %tail.run",
            "tail.run:",
            "  br label %vec",
            "tail.out:",
            "  br label %out",
            "out:",
            "  %w = phi i64 [ 0, %tail.out ], [ %w.next, %out ]",
        ]
        for k in stores:
            lines += self._copy(k, "%w", "%w", into=False)
        lines += [
            "  %w.next = add i64 %w, 1",
            "  %more.out = icmp ult i64 %w.next, %rest",
            "  br i1 %more.out, label %out, label %row.end",
        ]
        return lines

    def _masked(self, moving: list[int]) -> bool:
        """Whether left-over elements move by masked instructions."""
        return self.module.features.masked and all(
            self.operands[k].access == CONTIGUOUS for k in moving
        )

    def _mask(self) -> list[str]:
        """The lanes that left-over elements fill."""
        lanes = self.lanes
        places = ", ".join(f"i32 {lane}" for lane in range(lanes))
        mask = vector_type("i32", lanes)
        return [
            "  %rest.int = trunc i64 %rest to i32",
            f"  %rest.one = insertelement {mask} poison, i32 %rest.int, i64 0",
            (f"  %rest.all = shufflevector {mask} %rest.one, {mask} poison, "
            f"<{lanes} x i32> zeroinitializer"),
            f"  %mask = icmp ult {mask} <{places}>, %rest.all",
        ]

    def _masked_tail(self, loads: list[int], stores: list[int]) -> list[str]:
        """Left-over elements through masked loads and stores; other lanes repeat the first."""
        lanes = self.lanes
        lines: list[str] = []
        for k in loads:
            memory = conversion.MEMORY[self.operands[k].dtype]
            vector = vector_type(memory, lanes)
            symbol = f"llvm.masked.load.{mangled(memory, lanes)}.p0"
            self.module.declare(symbol, vector, ("ptr", "i32", f"<{lanes} x i1>", vector))
            lines += [
                f"  %first{k} = load {memory}, ptr %tail{k}, align 1",
                f"  %one{k} = insertelement {vector} poison, {memory} %first{k}, i64 0",
                (f"  %all{k} = shufflevector {vector} %one{k}, {vector} poison, "
                f"<{lanes} x i32> zeroinitializer"),
                (f"  %tv{k} = call {vector} @{symbol}(ptr %tail{k}, i32 1, "
                f"<{lanes} x i1> %mask, {vector} %all{k})"),
                f"  store {vector} %tv{k}, ptr %scratch{k}, align 64",
            ]
        lines += ["  br label %tail.run", "tail.run:", "  br label %vec", "tail.out:"]
        for k in stores:
            memory = conversion.MEMORY[self.operands[k].dtype]
            vector = vector_type(memory, lanes)
            symbol = f"llvm.masked.store.{mangled(memory, lanes)}.p0"
            self.module.declare(symbol, "void", (vector, "ptr", "i32", f"<{lanes} x i1>"))
            lines += [
                f"  %tv{k} = load {vector}, ptr %scratch{k}, align 64",
                (f"  call void @{symbol}({vector} %tv{k}, ptr %tail{k}, i32 1, "
                f"<{lanes} x i1> %mask)"),
            ]
        return [*lines, "  br label %row.end"]

    def _copy(self, k: int, place: str, slot: str, *, into: bool) -> list[str]:
        """Move one element between an array and its scratch vector."""
        memory = conversion.MEMORY[self.operands[k].dtype]
        array = [
            f"  %ao{k} = mul i64 {place}, {self.inner[k]}",
            f"  %aa{k} = getelementptr i8, ptr %tail{k}, i64 %ao{k}",
            f"  %sa{k} = getelementptr {memory}, ptr %scratch{k}, i64 {slot}",
        ]
        source, target = (f"%aa{k}", f"%sa{k}") if into else (f"%sa{k}", f"%aa{k}")
        move = [
            f"  %e{k} = load {memory}, ptr {source}, align 1",
            f"  store {memory} %e{k}, ptr {target}, align 1",
        ]
        return array + move


def _itemsize(desc: TensorDesc) -> int:
    """Bytes of one element in memory."""
    return BITS[conversion.MEMORY[desc.dtype]] // 8
