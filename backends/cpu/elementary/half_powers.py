"""x^c for a constant c that is half of a small odd number: products and one square root.

x^(n + 1/2) = x^n sqrt(x), and its reciprocal for negative powers: at most three roundings, so at
most 2.5 ulp. Far from the ends of the range no step over- or underflows; other arguments go to the
C library.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value, constant_of
from fuser.backends.cpu.elementary.kit import far_by_library

GREATEST = 2.5
RANGE = {"float": 120.0, "double": 1000.0}
"""Powers whose exponents of two are below this are computed here."""


def half_of(b: Body, value: Value) -> float | None:
    """The exponent, if it is a constant that this method serves; it needs FMA."""
    number = constant_of(value)
    if number is None or abs(number) > GREATEST or abs(number) % 1 != 0.5 or not b.features.fma:
        return None
    return number


def half_power(b: Body, x: Value, y: Value, exponent: float) -> Value:
    """x^y for y = `exponent` in every lane."""
    whole = int(abs(exponent))
    result = b.intrinsic("llvm.sqrt", x)
    if whole == 1:
        result = b.op("fmul", x, result)
    elif whole == 2:  # the square as two values, multiplied with one rounding
        square = b.op("fmul", x, x)
        rest = b.fma(x, x, b.op("fneg", square))
        result = b.fma(square, result, b.op("fmul", rest, result))
    if exponent < 0:
        result = b.op("fdiv", b.fconst(x, 1.0), result)
    zero = b.compare("fcmp oeq", x, b.fconst(x, 0.0))
    at_zero = b.fconst(x, float("inf") if exponent < 0 else 0.0)
    result = b.select(zero, at_zero, result)
    limit = 2.0 ** int(RANGE[x.scalar] / max(abs(exponent), 2.0))
    symbol = "powf" if x.scalar == "float" else "pow"
    return far_by_library(b, symbol, result, x, y, limit, zero)
