"""LLVM IR text under construction: typed values, one function body, and the module around it."""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple

import numpy as np

from fuser.base.caches import memo
from fuser.base.records import field, record

#: An attribute of functions of scalar code whose loops are unrolled.
UNROLLED = '"unrolled"'
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}


@record
class Features:
    """What the target processor can do, as far as the emitted text depends on it."""

    vector_bytes: int = 16
    fma: bool = False
    f16c: bool = False
    masked: bool = False
    """Masked loads and stores of 8- to 64-bit lanes are single instructions (AVX-512 VL and BW)."""
    gathers: bool = False
    """One instruction reads lanes of 32 and 64 bits at addresses sooner than loads lane by lane."""


BASELINE = Features()


class Value(NamedTuple):
    """One SSA value or constant: its text, its scalar LLVM type and its number of lanes."""

    text: str
    scalar: str
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type, for instance `<16 x float>`, or `float` for one lane."""
        return vector_type(self.scalar, self.lanes)

    @property
    def typed(self) -> str:
        """Type and text, as an operand list wants them."""
        return f"{vector_type(self.scalar, self.lanes)} {self.text}"


@cache
def vector_type(scalar: str, lanes: int) -> str:
    """Spell the LLVM type of `lanes` elements of `scalar`; one lane is the plain scalar."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def zero(scalar: str) -> str:
    """Spell the zero of a scalar type."""
    return "0.0" if scalar in ("float", "double") else "false" if scalar == "i1" else "0"


@cache
def mangled(scalar: str, lanes: int) -> str:
    """Spell a type the way intrinsic names do: `v16f32`, `f32`, `v8i64`."""
    short = {"half": "f16", "float": "f32", "double": "f64"}.get(scalar, scalar)
    return short if lanes == 1 else f"v{lanes}{short}"


@memo(4096)
def literal(scalar: str, bits: int) -> str:
    """Spell a constant from its exact bits, so that NaN payloads and -0.0 survive.

    Args:
        scalar: LLVM scalar type.
        bits: the value's bits as an unsigned integer.
    """
    if scalar == "double":
        return f"0x{bits:016X}"
    if scalar == "half":
        return f"0xH{bits:04X}"
    if scalar == "float":
        (value,) = struct.unpack("<f", struct.pack("<I", bits))
        if value != value:  # widen NaN by hand: struct may quiet it
            wide = ((bits >> 31) << 63) | (0x7FF << 52) | ((bits & 0x7FFFFF) << 29)
        else:
            (wide,) = struct.unpack("<Q", struct.pack("<d", value))
        return f"0x{wide:016X}"
    if scalar == "i1":
        return "true" if bits & 1 else "false"
    width = BITS[scalar]
    signed = bits - (1 << width) if bits >> (width - 1) else bits
    return str(signed)


def constant_of(value: Value) -> float | None:
    """The number that every lane of a float or double is known to be, or None."""
    if value.scalar not in ("float", "double"):
        return None
    digits = value.text.removeprefix(f"splat ({value.scalar} ").removesuffix(")")
    if not digits.startswith("0x"):
        return None
    (number,) = struct.unpack("<d", struct.pack("<Q", int(digits, 16)))
    return float(number)


def iota(lanes: int, scalar: str = "i64") -> Value:
    """0, 1, 2 …"""
    if lanes == 1:
        return Value("0", scalar, 1)
    return Value(f"<{', '.join(f'{scalar} {k}' for k in range(lanes))}>", scalar, lanes)


def float_bits(scalar: str, value: float) -> int:
    """Return the bits of `value` rounded once to the floating type `scalar`."""
    if scalar == "double":
        return int(np.float64(value).view(np.uint64))
    with np.errstate(over="ignore", under="ignore"):
        if scalar == "float":
            return int(np.float32(value).view(np.uint32))
        return int(np.float16(value).view(np.uint16))


@record(frozen=False)
class Module:
    """What function bodies share: declarations, helper functions, imported symbols."""

    features: Features
    declarations: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def declare(self, name: str, result: str, arguments: tuple[str, ...]) -> None:
        """Declare an external function or intrinsic once."""
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(arguments)})")

    @property
    def imports(self) -> list[str]:
        """External symbols that must be given an address before the code may run."""
        return sorted(name for name in self.declarations if not name.startswith("llvm."))

    def text(self) -> str:
        """Return the whole module as LLVM IR text; the same content always gives the same text."""
        attributes = (
            'attributes #0 = { nounwind "frame-pointer"="none" '
            '"prefer-vector-width"="512" "min-legal-vector-width"="512" }'
        )
        # Callers come first; helpers are kept in name order so that the text does not depend on
        # the order in which they were first wanted.
        parts = [
            *self.functions,
            *(self.helpers[name] for name in sorted(self.helpers)),
            *(self.declarations[name] for name in sorted(self.declarations)),
            attributes,
        ]
        if any("!nontemporal" in function for function in self.functions):
            parts.append("!0 = !{i32 1}")
        return "\n\n".join(parts) + "\n"


class Body:
    """One function's instructions. Every method appends text and returns the value it names."""

    def __init__(self, module: Module, prefix: str = "v") -> None:
        """Start an empty body whose values are called `%<prefix><n>`."""
        self.module = module
        self.features = module.features
        self.lines: list[str] = []
        self.block = "entry"
        self.flagged = False
        self.alike: dict[str, Value] = {}
        """What all lanes of vectors are, by the vectors' names."""
        self.spaced: dict[str, tuple[Value, str, bool]] = {}
        """Of vectors whose lanes rise by steps: the first lane, the step, and whether all do: the
        last ones may repeat one."""
        self._prefix = prefix
        self._count = 0

    # -- names, blocks, raw text ------------------------------------------------------------

    def fresh(self) -> str:
        """Return a new value name."""
        self._count += 1
        return f"%{self._prefix}{self._count}"

    def label(self, stem: str) -> str:
        """Return a new block name."""
        self._count += 1
        return f"{stem}.{self._prefix}{self._count}"

    def start(self, label: str) -> None:
        """Begin the block `label`; the block before it must have ended in a branch."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str, then: str = "") -> None:
        """End the block by going to another one; begin that, or `then`."""
        self.line(f"br label %{label}")
        self.start(then or label)

    def branch(
        self, condition: str, yes: str, no: str, then: str = "", rare: bool = False
    ) -> None:
        """End the block by a decision; begin the block where it holds, or `then`.

        `rare`: it hardly ever holds, so that what is done then stands past everything else.
        """
        weights = ', !prof !{!"branch_weights", i32 1, i32 4000}' if rare else ""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}{weights}")
        self.start(then or yes)

    def line(self, text: str) -> None:
        """Append one instruction that has no result."""
        self.lines.append(f"  {text}")

    def value(self, text: str, scalar: str, lanes: int) -> Value:
        """Append one instruction and name its result."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return Value(name, scalar, lanes)

    # -- constants --------------------------------------------------------------------------

    def constant_bits(self, scalar: str, lanes: int, bits: int) -> Value:
        """A constant given by its bits, in every lane."""
        text = literal(scalar, bits)
        return Value(text if lanes == 1 else f"splat ({scalar} {text})", scalar, lanes)

    def fconst(self, like: Value, value: float) -> Value:
        """A floating constant of the type of `like` (which must be floating)."""
        return self.constant_bits(like.scalar, like.lanes, float_bits(like.scalar, value))

    def number(self, like: Value, value: float) -> Value:
        """A constant of the type of `like`, whatever that is."""
        if like.scalar in ("float", "double"):
            return self.fconst(like, float(value))
        mask = (1 << BITS[like.scalar]) - 1
        return self.constant_bits(like.scalar, like.lanes, int(value) & mask)

    def iconst(self, like: Value, value: int) -> Value:
        """An integer constant as wide as an element of `like` (floating or integer)."""
        scalar = f"i{BITS[like.scalar]}"
        mask = (1 << BITS[scalar]) - 1
        return self.constant_bits(scalar, like.lanes, value & mask)

    # -- arithmetic -------------------------------------------------------------------------

    def op(self, name: str, *operands: Value) -> Value:
        """An instruction whose operands and result share a type: fadd, fneg, xor, lshr …"""
        first = operands[0]
        rest = ", ".join(operand.text for operand in operands)
        return self.value(f"{name} {first.type} {rest}", first.scalar, first.lanes)

    def compare(self, predicate: str, left: Value, right: Value) -> Value:
        """A comparison, `fcmp olt` or `icmp slt`; the result is i1 in every lane."""
        return self.value(f"{predicate} {left.type} {left.text}, {right.text}", "i1", left.lanes)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Lane by lane, `yes` where `condition`, else `no`."""
        text = f"select {condition.typed}, {yes.typed}, {no.typed}"
        return self.value(text, yes.scalar, yes.lanes)

    def cast(self, name: str, operand: Value, scalar: str) -> Value:
        """A conversion instruction: fptosi, sitofp, fpext, trunc, zext, bitcast …"""
        target = vector_type(scalar, operand.lanes)
        found = self.value(f"{name} {operand.typed} to {target}", scalar, operand.lanes)
        if (one := self.alike.get(operand.text)) is not None:
            self.alike[found.text] = self.cast(name, one, scalar)
        return found

    def as_integer(self, operand: Value) -> Value:
        """The bits of a floating value as an integer of the same width."""
        return self.cast("bitcast", operand, f"i{BITS[operand.scalar]}")

    def as_float(self, operand: Value) -> Value:
        """The floating value that has the bits of a 16-, 32- or 64-bit integer."""
        scalar = {16: "half", 32: "float", 64: "double"}[BITS[operand.scalar]]
        return self.cast("bitcast", operand, scalar)

    def intrinsic(self, name: str, *operands: Value, immediates: tuple[str, ...] = ()) -> Value:
        """A call of an LLVM intrinsic overloaded on its operands' type: `llvm.fabs` …"""
        first = operands[0]
        symbol = f"{name}.{mangled(first.scalar, first.lanes)}"
        if symbol not in self.module.declarations:
            types = tuple(operand.type for operand in operands)
            extra = tuple(text.split()[0] for text in immediates)
            self.module.declare(symbol, first.type, types + extra)
        listed = ", ".join([*[operand.typed for operand in operands], *immediates])
        return self.value(f"call {first.type} @{symbol}({listed})", first.scalar, first.lanes)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x*y + z with one rounding: one instruction with FMA, a slow exact library call without.

        Code that has a cheaper form for hosts without FMA asks `features.fma` first.
        """
        return self.intrinsic("llvm.fma", x, y, z)

    def any(self, mask: Value) -> Value:
        """Whether any lane of an i1 vector is set, as one i1."""
        if mask.lanes == 1:
            return mask
        symbol = f"llvm.vector.reduce.or.v{mask.lanes}i1"
        self.module.declare(symbol, "i1", (mask.type,))
        return self.value(f"call i1 @{symbol}({mask.typed})", "i1", 1)

    def splat(self, operand: Value, lanes: int) -> Value:
        """Repeat a scalar in every lane."""
        if lanes == 1 or operand.lanes == lanes:
            return operand
        vector = vector_type(operand.scalar, lanes)
        text = f"insertelement {vector} poison, {operand.typed}, i64 0"
        one = self.value(text, operand.scalar, lanes)
        zeros = f"<{lanes} x i32> zeroinitializer"
        text = f"shufflevector {one.typed}, {vector} poison, {zeros}"
        found = self.value(text, one.scalar, lanes)
        self.alike[found.text] = operand
        return found

    def same(self, operand: Value) -> Value | None:
        """What all lanes of a value are; None where that is not known."""
        if operand.lanes == 1:
            return operand
        if operand.text.startswith("splat ("):
            text = operand.text.removeprefix(f"splat ({operand.scalar} ").removesuffix(")")
            return Value(text, operand.scalar, 1)
        return self.alike.get(operand.text)

    def raise_flag(self, mask: Value) -> None:
        """Note that some element has a value for which NumPy raises or warns.

        The function around the body owns the stack slot `%flag`, of eight bytes, and returns it.
        """
        self.flagged = True
        seen = self.value("load i32, ptr %flag", "i32", 1)
        now = self.cast("zext", self.any(mask), "i32")
        self.line(f"store i32 {self.op('or', seen, now).text}, ptr %flag")

    # -- calls lane by lane -----------------------------------------------------------------

    def lanewise(
        self, symbol: str, result: str, *operands: Value, external: bool = True
    ) -> Value:
        """Call the scalar function `symbol` once a lane, through one shared loop.

        Args:
            symbol: an external symbol that takes scalars of the operands' types.
            result: the scalar type that it returns.
            operands: vectors with equal numbers of lanes.
            external: False when `symbol` is a helper function of the module.
        """
        lanes = operands[0].lanes
        if external:
            self.module.declare(symbol, result, tuple(operand.scalar for operand in operands))
        if lanes == 1:
            listed = ", ".join(operand.typed for operand in operands)
            return self.value(f"call {result} @{symbol}({listed})", result, 1)
        helper = lanewise_helper(self.module, symbol, result, operands, masked=False)
        listed = ", ".join(operand.typed for operand in operands)
        text = f"call {vector_type(result, lanes)} @{helper}({listed})"
        return self.value(text, result, lanes)

    def slow_lanes(self, mask: Value, fast: Value, symbol: str, *operands: Value) -> Value:
        """`fast`, but lanes set in `mask` get the scalar function `symbol` instead.

        Costs one branch for each vector while no lane is set.

        Args:
            mask: i1 lanes.
            fast: the value of the other lanes.
            symbol: an external scalar function, from the C library for instance.
            operands: its arguments, lane by lane.
        """
        self.module.declare(symbol, fast.scalar, tuple(operand.scalar for operand in operands))
        slow, join = self.label("slow"), self.label("join")
        before = self.block
        self.branch(self.any(mask).text, slow, join)
        if fast.lanes == 1:
            listed = ", ".join(operand.typed for operand in operands)
            patched = self.value(f"call {fast.scalar} @{symbol}({listed})", fast.scalar, 1)
        else:
            helper = lanewise_helper(self.module, symbol, fast.scalar, operands, masked=True)
            listed = ", ".join(operand.typed for operand in (mask, fast, *operands))
            patched = self.value(f"call {fast.type} @{helper}({listed})", fast.scalar, fast.lanes)
        self.jump(join)
        text = f"phi {fast.type} [ {fast.text}, %{before} ], [ {patched.text}, %{slow} ]"
        return self.value(text, fast.scalar, fast.lanes)


def lanewise_helper(
    module: Module, symbol: str, result: str, operands: tuple[Value, ...], *, masked: bool
) -> str:
    """Write, once a module, the loop that calls `symbol` for each lane; return its name.

    The masked form takes a mask and the value to keep in lanes that are not set.
    """
    lanes = operands[0].lanes
    kinds = ".".join(operand.scalar for operand in operands)
    name = f"{'patch' if masked else 'each'}.{symbol}.{kinds}.{lanes}"
    if name in module.helpers:
        return name
    vector = vector_type(result, lanes)
    arguments = [f"{operand.type} %a{k}" for k, operand in enumerate(operands)]
    if masked:
        arguments = [f"<{lanes} x i1> %mask", f"{vector} %fast", *arguments]
    first = "%fast" if masked else "poison"
    picked = [
        f"  %s{k} = extractelement {operand.type} %a{k}, i64 %i"
        for k, operand in enumerate(operands)
    ]
    scalars = ", ".join(f"{operand.scalar} %s{k}" for k, operand in enumerate(operands))
    if masked:
        turn = [
            f"  %set = extractelement <{lanes} x i1> %mask, i64 %i",
            "  br i1 %set, label %work, label %next",
            "work:",
        ]
        after = [f"  %out = phi {vector} [ %old, %loop ], [ %new, %work ]"]
    else:
        turn = ["  br label %work", "work:"]
        after = [f"  %out = phi {vector} [ %new, %work ]"]
    module.helpers[name] = "\n".join(
        [
            f"define internal {vector} @{name}({', '.join(arguments)}) noinline #0 {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %i1, %next ]",
            f"  %old = phi {vector} [ {first}, %entry ], [ %out, %next ]",
            *turn,
            *picked,
            f"  %r = call {result} @{symbol}({scalars})",
            f"  %new = insertelement {vector} %old, {result} %r, i64 %i",
            "  br label %next",
            "next:",
            *after,
            "  %i1 = add i64 %i, 1",
            f"  %more = icmp ult i64 %i1, {lanes}",
            "  br i1 %more, label %loop, label %done",
            "done:",
            f"  ret {vector} %out",
            "}",
        ]
    )
    return name
