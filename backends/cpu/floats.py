"""Operations on floats: choices, remainders, the C library's functions, our own vector forms."""

from __future__ import annotations

import math
from collections.abc import Callable

from fuser.backends.cpu.body import Body, Value, constant_of
from fuser.backends.cpu.elementary.table import ELEMENTARY
from fuser.ir.ops import TABLE

#: (body, dtype name of the operands, operands) -> result
Spelling = Callable[..., Value]


def function(name: str) -> Spelling:
    """An elementary function: our own vector form where there is one, else the C library."""

    def spell(b: Body, dtype: str, *operands: Value) -> Value:
        own = ELEMENTARY.get(name)
        if own is not None:
            return own(b, *operands)
        return libm(b, name, *operands)

    return spell


def libm(b: Body, name: str, *operands: Value) -> Value:
    """Call the C library once a lane."""
    suffix = "f" if operands[0].scalar == "float" else ""
    return b.lanewise(TABLE[name].library + suffix, operands[0].scalar, *operands)


def is_nan(b: Body, x: Value) -> Value:
    """Where a value is NaN."""
    return b.compare("fcmp uno", x, x)


def negated(b: Body, x: Value) -> Value:
    """The other truth."""
    return b.op("xor", x, b.constant_bits("i1", x.lanes, 1))


def extreme(side: str, unordered: str) -> Spelling:
    """maximum, minimum, fmax or fmin of floats.

    Of zeros NumPy takes the first in float16, and on x86 the second in float32 and float64 (there
    fmax and fmin take either, by the element's place in the array).

    Args:
        side: "gt" for the greater, "lt" for the less.
        unordered: "first" where NaN in the first operand gives NaN (a NaN in the second always
            loses the comparison), "second" where NaN in the second gives the first.
    """

    def spell(b: Body, dtype: str, x: Value, y: Value) -> Value:
        predicate = side.replace("t", "e") if dtype == "float16" else side
        nan = is_nan(b, x if unordered == "first" else y)
        better = b.op("or", b.compare(f"fcmp o{predicate}", x, y), nan)
        return b.select(better, x, y)

    return spell


def sign(b: Body, dtype: str, x: Value) -> Value:
    """-1, 0, 1, or NaN."""
    zero = b.fconst(x, 0.0)
    low = b.select(b.compare("fcmp olt", x, zero), b.fconst(x, -1.0), zero)
    high = b.select(b.compare("fcmp ogt", x, zero), b.fconst(x, 1.0), low)
    return b.select(is_nan(b, x), x, high)


def reciprocal(b: Body, dtype: str, x: Value) -> Value:
    """1 / x."""
    return b.op("fdiv", b.fconst(x, 1.0), x)


def rsqrt(b: Body, dtype: str, x: Value) -> Value:
    """1 / sqrt(x)."""
    return b.op("fdiv", b.fconst(x, 1.0), b.intrinsic("llvm.sqrt", x))


def sigmoid(b: Body, dtype: str, x: Value) -> Value:
    """1/(1+e) or e/(1+e) for e = exp(-|x|): no overflow on either side."""
    if "sigmoid" in ELEMENTARY:
        return ELEMENTARY["sigmoid"](b, x)
    e = function("exp")(b, dtype, b.op("fneg", b.intrinsic("llvm.fabs", x)))
    one = b.fconst(x, 1.0)
    top = b.select(b.compare("fcmp oge", x, b.fconst(x, 0.0)), one, e)
    quotient = b.op("fdiv", top, b.op("fadd", one, e))
    return b.select(is_nan(b, x), x, quotient)


def log_add(exp: str, log: str, of_two: float) -> Spelling:
    """logaddexp: max + log1p(exp(-|x - y|)), as NumPy's npy_logaddexp."""

    def spell(b: Body, dtype: str, x: Value, y: Value) -> Value:
        difference = b.op("fsub", x, y)
        larger = b.select(b.compare("fcmp ogt", difference, b.fconst(x, 0.0)), x, y)
        down = b.op("fneg", b.intrinsic("llvm.fabs", difference))
        tail = function("log1p")(b, dtype, function(exp)(b, dtype, down))
        if log == "log2":
            tail = b.op("fmul", tail, b.fconst(x, 1.0 / math.log(2.0)))
        total = b.op("fadd", larger, tail)
        total = b.select(is_nan(b, difference), difference, total)
        equal = b.op("fadd", x, b.fconst(x, of_two))
        return b.select(b.compare("fcmp oeq", x, y), equal, total)

    return spell


def scaled(factor: float) -> Spelling:
    """A product with a constant."""
    return lambda b, dtype, x: b.op("fmul", x, b.fconst(x, factor))


#: Divisors whose quotients do not overflow.
_POWERS = {2.0**k for k in range(11)}


def fmod(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """C's fmod: exact. Small quotients in the vector, others by the C library.

    Where |x/y| is below 2**21 (2**50 for doubles), q = trunc(x/y) is off by at most one, and
    x - q*y is a number of x's precision, so one FMA gives it exactly; adding or subtracting y
    once, also exact, corrects q. Source: Muller et al., Handbook of Floating-Point Arithmetic,
    second edition, section 4.4 (exact remainders by FMA).
    """
    if not b.features.fma:
        return libm(b, "fmod", x, y)
    single = x.scalar == "float"
    ax, ay = b.intrinsic("llvm.fabs", x), b.intrinsic("llvm.fabs", y)
    quotient = b.intrinsic("llvm.trunc", b.op("fdiv", ax, ay))
    rest = b.fma(b.op("fneg", quotient), ay, ax)
    zero = b.fconst(x, 0.0)
    rest = b.select(b.compare("fcmp olt", rest, zero), b.op("fadd", rest, ay), rest)
    rest = b.select(b.compare("fcmp oge", rest, ay), b.op("fsub", rest, ay), rest)
    rest = b.intrinsic("llvm.copysign", rest, x)
    small = b.compare("fcmp olt", quotient, b.fconst(x, 2.0**21 if single else 2.0**50))
    tiny = b.compare("fcmp olt", ay, b.fconst(x, 2.0**-100 if single else 2.0**-900))
    huge = b.compare("fcmp ogt", ay, b.fconst(x, 2.0**120 if single else 2.0**1000))
    ordinary = b.op("and", small, negated(b, b.op("or", tiny, huge)))
    name = "fmodf" if single else "fmod"
    return b.slow_lanes(negated(b, ordinary), rest, name, x, y)


def remainder(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """Python's remainder: the sign of the divisor; as NumPy's npy_divmod."""
    zero = b.fconst(x, 0.0)
    if b.features.fma and (known := constant_of(y)) in _POWERS:
        # The quotient is exact, and so is all but the last sum, which NumPy rounds likewise.
        # Only that of the least negative numbers is not: it is rounded up to zero.
        quotient = b.intrinsic("llvm.floor", b.op("fmul", x, b.fconst(x, 1.0 / known)))
        rest = b.fma(b.op("fneg", quotient), y, x)
        return b.select(b.compare("fcmp olt", rest, zero), b.op("fadd", rest, y), rest)
    mod = fmod(b, dtype, x, y)
    signs = b.op("xor", b.compare("fcmp olt", y, zero), b.compare("fcmp olt", mod, zero))
    fixed = b.select(signs, b.op("fadd", mod, y), mod)
    exact = b.intrinsic("llvm.copysign", zero, y)
    result = b.select(b.compare("fcmp oeq", mod, zero), exact, fixed)
    return b.select(b.compare("fcmp oeq", y, zero), mod, result)


def floor_divide(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """The floor of the exact quotient, corrected as NumPy's npy_floor_divide."""
    zero = b.fconst(x, 0.0)
    mod = fmod(b, dtype, x, y)
    div = b.op("fdiv", b.op("fsub", x, mod), y)
    signs = b.op("xor", b.compare("fcmp olt", y, zero), b.compare("fcmp olt", mod, zero))
    adjust = b.op("and", signs, b.compare("fcmp une", mod, zero))
    div = b.select(adjust, b.op("fsub", div, b.fconst(x, 1.0)), div)
    floor = b.intrinsic("llvm.floor", div)
    over = b.compare("fcmp ogt", b.op("fsub", div, floor), b.fconst(x, 0.5))
    floor = b.select(over, b.op("fadd", floor, b.fconst(x, 1.0)), floor)
    quotient = b.op("fdiv", x, y)
    nothing = b.intrinsic("llvm.copysign", zero, quotient)
    floor = b.select(b.compare("fcmp oeq", div, zero), nothing, floor)
    return b.select(b.compare("fcmp oeq", y, zero), quotient, floor)


def is_inf(b: Body, dtype: str, x: Value) -> Value:
    """Whether it is an infinity."""
    return b.compare("fcmp oeq", b.intrinsic("llvm.fabs", x), b.fconst(x, math.inf))


def is_finite(b: Body, dtype: str, x: Value) -> Value:
    """Whether it is a number."""
    return b.compare("fcmp olt", b.intrinsic("llvm.fabs", x), b.fconst(x, math.inf))


def signbit(b: Body, dtype: str, x: Value) -> Value:
    """Whether the sign is negative, of zeros and NaN too."""
    bits = b.as_integer(x)
    return b.compare("icmp slt", bits, b.iconst(x, 0))


def heaviside(b: Body, dtype: str, x: Value, h: Value) -> Value:
    """0 below zero, 1 above, `h` at zero."""
    zero = b.fconst(x, 0.0)
    side = b.select(b.compare("fcmp olt", x, zero), zero, b.fconst(x, 1.0))
    side = b.select(b.compare("fcmp oeq", x, zero), h, side)
    return b.select(is_nan(b, x), x, side)


def modf_fraction(b: Body, dtype: str, x: Value) -> Value:
    """What is behind the point, with the sign of the number."""
    whole = b.intrinsic("llvm.trunc", x)
    rest = b.op("fsub", x, whole)
    rest = b.select(is_inf(b, dtype, x), b.fconst(x, 0.0), rest)
    return b.select(is_nan(b, x), x, b.intrinsic("llvm.copysign", rest, x))


def ldexp(b: Body, dtype: str, x: Value, exponent: Value) -> Value:
    """x * 2**exponent, by the C library."""
    if exponent.scalar in ("i8", "i16"):
        exponent = b.cast("sext", exponent, "i32")
    if exponent.scalar == "i64":  # NumPy limits a long exponent to the range of int
        high, low = b.iconst(exponent, 2**31 - 1), b.iconst(exponent, -(2**31))
        exponent = b.select(b.compare("icmp sgt", exponent, high), high, exponent)
        exponent = b.select(b.compare("icmp slt", exponent, low), low, exponent)
        exponent = b.cast("trunc", exponent, "i32")
    symbol = "ldexpf" if x.scalar == "float" else "ldexp"
    return b.lanewise(symbol, x.scalar, x, exponent)
