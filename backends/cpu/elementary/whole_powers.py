"""x^c for a whole constant c: squarings and products, as the bits of c tell from the first on.

float32 is multiplied in double and rounded once. A double is a sum of two values, each product's
error found by an FMA (the compensated power of Graillat, IEEE Trans. Computers 58(7), 2009): what
is lost is the last rounding, and another one of the reciprocal for negative powers, so at most 0.6
and 1.6 ulp. Powers that come near the ends of double's range go to the C library.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value, constant_of
from fuser.backends.cpu.elementary.kit import far_by_library

GREATEST = 64
"""Six squarings and five products, at most: a third of what the logarithm and exponential take."""
RANGE = 900.0
"""Exponents of two of doubles: beyond, a product's error may be too small to be a normal number."""


def whole_of(b: Body, value: Value) -> int | None:
    """The exponent, if it is a constant that this method serves; it needs FMA."""
    number = constant_of(value)
    if number is None or number % 1 or not 2 <= abs(number) <= GREATEST or not b.features.fma:
        return None
    return int(number)


def whole_power(b: Body, x: Value, y: Value, exponent: int) -> Value:
    """x^y for y = `exponent` in every lane."""
    if x.scalar == "float":
        return _float_power(b, x, exponent)
    high, low = x, None
    for bit in f"{abs(exponent):b}"[1:]:
        high, low = _product(b, high, low, high, low)
        if bit == "1":
            high, low = _product(b, high, low, x, None)
    assert low is not None
    result = b.op("fadd", high, low)
    if exponent < 0:
        one = b.fconst(x, 1.0)
        result, high = b.op("fdiv", one, result), b.op("fdiv", one, high)
    zero = b.compare("fcmp oeq", x, b.fconst(x, 0.0))
    result = b.select(zero, high, result)  # whose sign the sum has lost
    limit = 2.0 ** (RANGE / abs(exponent))
    return far_by_library(b, "pow", result, x, y, limit, zero)


def _float_power(b: Body, x: Value, exponent: int) -> Value:
    """In double, where float32's powers of up to 64 have relative errors below 2^-49.

    What overflows there, or becomes zero, does so in float32.
    """
    wide = result = b.cast("fpext", x, "double")
    for bit in f"{abs(exponent):b}"[1:]:
        result = b.op("fmul", result, result)
        if bit == "1":
            result = b.op("fmul", result, wide)
    if exponent < 0:
        result = b.op("fdiv", b.fconst(result, 1.0), result)
    return b.cast("fptrunc", result, "float")


def _product(
    b: Body, high: Value, low: Value | None, by: Value, by_low: Value | None
) -> tuple[Value, Value]:
    """The product of two sums of two values each, to about twice the digits of one."""
    product = b.op("fmul", high, by)
    error = b.fma(high, by, b.op("fneg", product))
    if low is not None and by_low is not None:  # a square
        error = b.fma(b.op("fadd", high, high), low, error)
    elif low is not None:
        error = b.fma(low, by, error)
    return product, error
