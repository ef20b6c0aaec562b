"""What the elementary functions share: multiply-add, polynomials, scaling and decomposition.

Every helper appends a few vector instructions. Where AVX-512 has one instruction for a step
(scalef, getexp, getmant), it is used for whole registers; the plain form beside it gives the same
bits, so that a scalar tail agrees with the vector body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from fuser.backends.cpu.body import BITS, Body, Value, float_bits
from fuser.base.records import record

Function = Callable[..., Value]
Coefficients = Sequence[float]


@record
class Format:
    """The constants of one binary format of IEEE 754."""

    mantissa_bits: int
    bias: int
    least_normal: float

    @property
    def round_magic(self) -> float:
        """Adding this rounds to an integer and leaves it in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa_bits


FORMATS = {
    "float": Format(23, 127, 2.0**-126),
    "double": Format(52, 1023, 2.0**-1022),
}


def format_of(x: Value) -> Format:
    """The format of a value's lanes."""
    return FORMATS[x.scalar]


def in_double(function: Function) -> Function:
    """Compute float32 in double: the operands are widened and the result is rounded once."""

    @wraps(function)
    def widened(b: Body, *operands: Value) -> Value:
        if operands[0].scalar != "float":
            return function(b, *operands)
        wide = [b.cast("fpext", operand, "double") for operand in operands]
        return b.cast("fptrunc", function(b, *wide), "float")

    return widened


def fma_or_double(function: Function) -> Function:
    """Without FMA, compute float32 in double, where plain multiply-add is more than enough."""
    wide = in_double(function)

    @wraps(function)
    def chosen(b: Body, *operands: Value) -> Value:
        return (function if b.features.fma else wide)(b, *operands)

    return chosen


def mad(b: Body, x: Value, y: Value, z: Value) -> Value:
    """x*y + z: one FMA where the target has it, else a product and a sum."""
    if b.features.fma:
        return b.fma(x, y, z)
    return b.op("fadd", b.op("fmul", x, y), z)


def mad_const(b: Body, x: Value, y: float, z: Value | float) -> Value:
    """x*y + z with a constant factor and perhaps a constant term."""
    term = z if isinstance(z, Value) else b.fconst(x, z)
    return mad(b, x, b.fconst(x, y), term)


def mul_const(b: Body, x: Value, factor: float) -> Value:
    """X times a constant."""
    return b.op("fmul", x, b.fconst(x, factor))


def add_const(b: Body, x: Value, term: float) -> Value:
    """X plus a constant."""
    return b.op("fadd", x, b.fconst(x, term))


def horner(b: Body, x: Value, coefficients: Coefficients) -> Value:
    """A polynomial, lowest power first, in one chain."""
    total = b.fconst(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = mad_const_term(b, total, x, coefficient)
    return total


def mad_const_term(b: Body, x: Value, y: Value, term: float) -> Value:
    """x*y plus a constant."""
    return mad(b, x, y, b.fconst(x, term))


def polynomial(b: Body, x: Value, coefficients: Coefficients, square: Value | None = None) -> Value:
    """A polynomial, lowest power first; long ones in two interleaved chains (Estrin's first step).

    Two chains halve the latency for one more product, which pays where the out-of-order window
    holds only one iteration of a big kernel.
    """
    if len(coefficients) < 6:
        return horner(b, x, coefficients)
    squared = square if square is not None else b.op("fmul", x, x)
    even = horner(b, squared, coefficients[0::2])
    odd = horner(b, squared, coefficients[1::2])
    return mad(b, odd, x, even)


# -- comparisons and signs -------------------------------------------------------------------------


def at_least(b: Body, x: Value, bound: float) -> Value:
    """max(x, bound), with NaN kept: one maxps whose second operand is x."""
    limit = b.fconst(x, bound)
    return b.select(b.compare("fcmp ogt", limit, x), limit, x)


def at_most(b: Body, x: Value, bound: float) -> Value:
    """min(x, bound), with NaN kept: one minps whose second operand is x."""
    limit = b.fconst(x, bound)
    return b.select(b.compare("fcmp olt", limit, x), limit, x)


def absolute(b: Body, x: Value) -> Value:
    """|x|."""
    return b.intrinsic("llvm.fabs", x)


def copysign(b: Body, magnitude: Value, sign: Value) -> Value:
    """`magnitude` with the sign of `sign`."""
    return b.intrinsic("llvm.copysign", magnitude, sign)


def far_by_library(
    b: Body, symbol: str, result: Value, x: Value, y: Value, limit: float, zero: Value
) -> Value:
    """`result`, but the C library's function of x and y where x is far from 1, and no zero.

    Args:
        b: where it is written.
        symbol: the function.
        result: of other lanes.
        x: what is raised to a power.
        y: the power.
        limit: the greatest |x| that is near; its reciprocal is the least.
        zero: lanes in which x is zero.
    """
    size = absolute(b, x)
    far = b.op(
        "or",
        b.compare("fcmp olt", size, b.fconst(x, 1.0 / limit)),
        b.compare("fcmp ogt", size, b.fconst(x, limit)),
    )
    not_zero = b.op("xor", zero, b.constant_bits("i1", x.lanes, 1))
    return b.slow_lanes(b.op("and", far, not_zero), result, symbol, x, y)


def where_const(b: Body, condition: Value, constant: float, other: Value) -> Value:
    """The constant in lanes where `condition` holds, else `other`."""
    return b.select(condition, b.fconst(other, constant), other)


# -- error-free transformations --------------------------------------------------------------------


def quick_two_sum(b: Body, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y = s + e exactly, for |x| >= |y| or x = 0 (Dekker 1971)."""
    total = b.op("fadd", x, y)
    return total, b.op("fsub", y, b.op("fsub", total, x))


def two_sum(b: Body, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y = s + e exactly, for any order (Knuth, TAOCP 2, section 4.2.2)."""
    total = b.op("fadd", x, y)
    back = b.op("fsub", total, x)
    error_x = b.op("fsub", x, b.op("fsub", total, back))
    return total, b.op("fadd", error_x, b.op("fsub", y, back))


def split(b: Body, x: Value) -> tuple[Value, Value]:
    """X as a sum of two halves of its significand (Veltkamp 1968), for |x| < 2^995."""
    high = b.op("fmul", x, b.fconst(x, float((1 << (27 if x.scalar == "double" else 12)) + 1)))
    high = b.op("fsub", high, b.op("fsub", high, x))
    return high, b.op("fsub", x, high)


def two_product(b: Body, x: Value, y: Value) -> tuple[Value, Value]:
    """x*y = p + e exactly: by FMA, or by Dekker's product (1971) without it."""
    product = b.op("fmul", x, y)
    if b.features.fma:
        return product, b.fma(x, y, b.op("fneg", product))
    x_high, x_low = split(b, x)
    y_high, y_low = split(b, y)
    error = b.op("fsub", b.op("fmul", x_high, y_high), product)
    error = b.op("fadd", error, b.op("fmul", x_high, y_low))
    error = b.op("fadd", error, b.op("fmul", x_low, y_high))
    return product, b.op("fadd", error, b.op("fmul", x_low, y_low))


# -- AVX-512 instructions --------------------------------------------------------------------------


def whole_registers(b: Body, x: Value) -> bool:
    """Whether AVX-512 instructions serve this value: 16 bytes or more, by powers of two."""
    size = x.lanes * BITS[x.scalar]
    return b.features.masked and x.lanes > 1 and size >= 128 and size & (size - 1) == 0


def by_registers(b: Body, name: str, operands: Sequence[Value], immediates: Sequence[int]) -> Value:
    """Call `llvm.x86.avx512.mask.<name>` with a full mask, register by register.

    The operands come first, then the immediates, the value of lanes left out (undefined here), the
    mask, and for 64-byte registers the rounding mode 4: the current one.
    """
    first = operands[0]
    width = BITS[first.scalar]
    register_lanes = min(first.lanes, 512 // width)
    results = []
    for start in range(0, first.lanes, register_lanes):
        parts = [lanes_of(b, operand, start, register_lanes) for operand in operands]
        results.append(masked_call(b, name, parts, immediates))
    while len(results) > 1:
        pairs = zip(results[0::2], results[1::2], strict=True)
        results = [join(b, left, right) for left, right in pairs]
    return results[0]


def masked_call(b: Body, name: str, parts: Sequence[Value], immediates: Sequence[int]) -> Value:
    """One register's worth of `by_registers`."""
    first = parts[0]
    bits = first.lanes * BITS[first.scalar]
    letter = "s" if first.scalar == "float" else "d"
    symbol = f"llvm.x86.avx512.mask.{name}.p{letter}.{bits}"
    mask = f"i{max(first.lanes, 8)}"
    listed = [part.typed for part in parts] + [f"i32 {number}" for number in immediates]
    listed += [f"{first.type} zeroinitializer", f"{mask} -1"]
    kinds = [part.type for part in parts] + ["i32"] * len(immediates) + [first.type, mask]
    if bits == 512:
        listed.append("i32 4")
        kinds.append("i32")
    b.module.declare(symbol, first.type, tuple(kinds))
    text = f"call {first.type} @{symbol}({', '.join(listed)})"
    return b.value(text, first.scalar, first.lanes)


def lanes_of(b: Body, x: Value, start: int, count: int) -> Value:
    """The `count` lanes of `x` from `start` on."""
    if count == x.lanes:
        return x
    picked = ", ".join(f"i32 {start + k}" for k in range(count))
    text = f"shufflevector {x.typed}, {x.type} poison, <{count} x i32> <{picked}>"
    return b.value(text, x.scalar, count)


def join(b: Body, left: Value, right: Value) -> Value:
    """Two vectors of equal length, one after the other."""
    lanes = 2 * left.lanes
    picked = ", ".join(f"i32 {k}" for k in range(lanes))
    text = f"shufflevector {left.typed}, {right.typed}, <{lanes} x i32> <{picked}>"
    return b.value(text, left.scalar, lanes)


# -- powers of two ---------------------------------------------------------------------------------


@record
class Rounded:
    """An integer n held as a floating value and, plus `offset`, in the low bits of `bits`."""

    number: Value
    bits: Value


def round_scaled(b: Body, x: Value, factor: float, offset: int) -> Rounded:
    """n = round(x * factor), by adding a number so large that no fraction is left.

    Args:
        b: the body.
        x: any value with |x * factor| below 2^20 (float) or 2^50 (double).
        factor: see above; 1.0 costs no product.
        offset: is added to n in `bits`: the exponent's bias, for instance.
    """
    magic = format_of(x).round_magic + offset
    shifted = add_const(b, x, magic) if factor == 1.0 else mad_const(b, x, factor, magic)
    return Rounded(add_const(b, shifted, -magic), b.as_integer(shifted))


def power_of_two(b: Body, exponent_bits: Value) -> Value:
    """2^n from an integer that holds n + bias in its low bits; n within the normal range."""
    scalar = {32: "float", 64: "double"}[BITS[exponent_bits.scalar]]
    shift = b.iconst(exponent_bits, FORMATS[scalar].mantissa_bits)
    return b.as_float(b.op("shl", exponent_bits, shift))


def scale(b: Body, x: Value, rounded: Rounded) -> Value:
    """x * 2^n with one rounding, to infinity and into the subnormals; offset is twice the bias.

    2^n is applied as two factors, each normal; the first product is exact for x near 1.
    """
    if whole_registers(b, x):
        return by_registers(b, "scalef", (x, rounded.number), ())
    half = b.op("lshr", rounded.bits, b.iconst(x, 1))
    rest = b.op("sub", rounded.bits, half)
    return b.op("fmul", b.op("fmul", x, power_of_two(b, half)), power_of_two(b, rest))


def decompose(b: Body, x: Value) -> tuple[Value, Value]:
    """Split x > 0 into (e, m): x = 2^e m with m in [0.75, 1.5), subnormals included.

    With AVX-512, zero gives (-inf, 1), infinity (inf, 1), negative numbers and NaN a NaN; otherwise
    these give nothing useful, and `log_specials` mends the result.
    """
    if whole_registers(b, x):
        # Interval [0.75, 1.5) is 3; sign control 3: +1 for zeros and NaN for negative numbers.
        mantissa = by_registers(b, "getmant", (x,), (0b1111,))
        exponent = by_registers(b, "getexp", (x,), ())
        return b.op("fsub", exponent, by_registers(b, "getexp", (mantissa,), ())), mantissa
    kind = format_of(x)
    digits, bias = kind.mantissa_bits, kind.bias
    tiny = b.compare("fcmp olt", x, b.fconst(x, kind.least_normal))
    lifted = b.select(tiny, mul_const(b, x, 2.0 ** (digits + 1)), x)
    one, least = float_bits(x.scalar, 1.0), float_bits(x.scalar, 0.75)
    moved = b.op("add", b.as_integer(lifted), b.iconst(x, one - least))
    biased = b.op("lshr", moved, b.iconst(x, digits))
    counted = b.as_float(b.op("or", biased, b.iconst(x, float_bits(x.scalar, 2.0**digits))))
    zero_point = b.fconst(x, 2.0**digits + bias)
    low_point = b.fconst(x, 2.0**digits + bias + digits + 1)
    exponent = b.op("fsub", counted, b.select(tiny, low_point, zero_point))
    fraction = b.op("and", moved, b.iconst(x, (1 << digits) - 1))
    return exponent, b.as_float(b.op("add", fraction, b.iconst(x, least)))


def log_specials(b: Body, x: Value, result: Value) -> Value:
    """Mend a logarithm: -inf at zero, inf at inf, NaN below zero and at NaN."""
    if whole_registers(b, x):
        return result
    infinity = b.fconst(x, float("inf"))
    result = b.select(b.compare("fcmp olt", x, infinity), result, x)
    zero = b.fconst(x, 0.0)
    result = b.select(b.compare("fcmp oeq", x, zero), b.fconst(x, float("-inf")), result)
    return b.select(b.compare("fcmp olt", x, zero), b.fconst(x, float("nan")), result)
