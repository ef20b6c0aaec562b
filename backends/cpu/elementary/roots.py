"""cbrt and hypot.

cbrt: y^(-1/3) from a minimax polynomial, one step of the series of (1 - h)^(-1/3), and one Newton
step for the root itself, all without division (Muller, Elementary Functions, 3rd edition, 2016,
section 3.9; Kahan, Computing a real cube root, 1991). hypot: the operands are scaled by a power of
two, so that neither overflow nor underflow of the squares counts.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value, float_bits
from fuser.backends.cpu.elementary.kit import (
    absolute,
    at_least,
    copysign,
    decompose,
    fma_or_double,
    format_of,
    horner,
    mad,
    mad_const,
    mad_const_term,
    mul_const,
    power_of_two,
    round_scaled,
    where_const,
)

INVERSE_ROOT = {
    "float": (
        1.8549262285232544,
        -1.6288012266159058,
        1.0674059391021729,
        -0.33997127413749695,
        0.04076007381081581,
    ),
    "double": (
        1.9757995677604128,
        -2.2047054610507617,
        2.0055839273661094,
        -1.0112089731232123,
        0.2575484252273782,
        -0.025839447516602727,
    ),
}
"""y^(-1/3) on [3/8, 3], to 7 and 8 bits."""
SERIES = {"float": (1 / 3, 2 / 9), "double": (1 / 3, 2 / 9, 14 / 81)}
"""(1 - h)^(-1/3) = 1 + h/3 + 2 h^2/9 + ..."""


@fma_or_double
def cbrt(b: Body, x: Value) -> Value:
    """Cube root."""
    exponent, mantissa = decompose(b, absolute(b, x))
    third = round_scaled(b, exponent, 1 / 3, format_of(x).bias)
    rest = mad_const(b, third.number, -3.0, exponent)
    y = b.op("fmul", mantissa, power_of_two(b, round_scaled(b, rest, 1.0, format_of(x).bias).bits))
    r = horner(b, y, INVERSE_ROOT[x.scalar])
    cube = b.op("fmul", b.op("fmul", r, r), y)
    h = mad_const_term(b, b.op("fneg", cube), r, 1.0)
    r = mad(b, b.op("fmul", horner(b, h, SERIES[x.scalar]), h), r, r)
    square = b.op("fmul", r, r)
    root = b.op("fmul", y, square)
    error = mad(b, b.op("fneg", b.op("fmul", root, root)), root, y)
    root = mad(b, error, mul_const(b, square, 1 / 3), root)
    result = copysign(b, b.op("fmul", root, power_of_two(b, third.bits)), x)
    # Zero, infinity and NaN are their own roots: one unsigned comparison of the bits.
    bits = b.op("sub", b.as_integer(absolute(b, x)), b.iconst(x, 1))
    ordinary = b.compare("icmp ult", bits, b.iconst(x, float_bits(x.scalar, float("inf")) - 1))
    return b.select(ordinary, result, x)


@fma_or_double
def hypot(b: Body, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2); infinite if either is, even beside NaN."""
    x, y = absolute(b, x), absolute(b, y)
    kind = format_of(x)
    greater = b.compare("fcmp ogt", x, y)
    high, low = b.select(greater, x, y), b.select(greater, y, x)
    infinity = float_bits(x.scalar, float("inf"))
    # 2^e, the power of two below the greater one, and 2 / 2^e; both normal for finite operands.
    field = b.op("and", b.as_integer(at_least(b, high, kind.least_normal)), b.iconst(x, infinity))
    down = b.as_float(b.op("sub", b.iconst(x, infinity), field))
    high, low = b.op("fmul", high, down), b.op("fmul", low, down)
    root = b.intrinsic("llvm.sqrt", mad(b, low, low, b.op("fmul", high, high)))
    result = b.op("fmul", mul_const(b, root, 0.5), b.as_float(field))
    limit = b.fconst(x, float("inf"))
    infinite = b.op("or", b.compare("fcmp oeq", x, limit), b.compare("fcmp oeq", y, limit))
    return where_const(b, infinite, float("inf"), result)
