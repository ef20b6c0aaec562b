"""sinh and cosh.

Method: |x| = n ln2 + r as for exp, then with s = 2^(n-1) and t = 2^(-n-1)
    sinh |x| = (s - t) cosh r + (s + t) sinh r,    cosh x = (s + t) cosh r + (s - t) sinh r,
which needs neither a division nor a second exponential, and is accurate near zero, where s = t
(addition theorems; Muller, Elementary Functions, 3rd edition, 2016, chapter 11). The coefficients
are our own fits (tools/elementary_fits.py).
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value, float_bits
from fuser.backends.cpu.elementary.exponential import LOG2_E
from fuser.backends.cpu.elementary.exponential import TABLES as EXPONENTIAL
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    absolute,
    at_most,
    copysign,
    fma_or_double,
    format_of,
    horner,
    mad,
    mad_const,
    mul_const,
    power_of_two,
    round_scaled,
)
from fuser.base.records import record


@record
class Table:
    """What differs between float and double."""

    sine: Coefficients
    """(sinh r - r) / r^3 in r^2, for |r| <= ln2/2."""
    cosine: Coefficients
    """(cosh r - 1) / r^2 in r^2."""
    bound: float
    """Beyond it the results are infinite."""
    tiny: float
    """Below it sinh x rounds to x."""


TABLES = {
    "float": Table(
        sine=(0.1666654348373413, 0.008366553112864494),
        cosine=(0.5, 0.041666459292173386, 0.0013935437891632318),
        bound=90.0,
        tiny=2.0**-13,
    ),
    "double": Table(
        sine=(
            0.16666666666666677,
            0.008333333333321376,
            0.00019841269886801614,
            2.7557243525352473e-06,
            2.5109273927746622e-08,
        ),
        cosine=(
            0.5,
            0.041666666666666685,
            0.0013888888888873283,
            2.4801587349192745e-05,
            2.755725183923694e-07,
            2.0921759924087717e-09,
        ),
        bound=711.0,
        tiny=2.0**-28,
    ),
}


@record
class Parts:
    """The pieces of both functions; the powers are a quarter of s and t, so that none overflows."""

    rising: Value
    """s / 4"""
    falling: Value
    """t / 4"""
    total: Value
    """(s + t) / 4"""
    difference: Value
    """(s - t) / 4"""
    upper: Value
    """r before its lower part is taken off."""
    sine_tail: Value
    """sinh r - upper."""
    cosine_tail: Value
    """cosh r - 1."""


def parts(b: Body, x: Value) -> Parts:
    """Reduce |x| and evaluate the two polynomials."""
    table, constants, bias = TABLES[x.scalar], EXPONENTIAL[x.scalar], format_of(x).bias
    size = at_most(b, absolute(b, x), table.bound)
    rounded = round_scaled(b, size, LOG2_E, bias - 3)
    upper = mad_const(b, rounded.number, -constants.ln2_high, size)
    low = mul_const(b, rounded.number, -constants.ln2_low)
    r = b.op("fadd", upper, low)
    square = b.op("fmul", r, r)
    sine_tail = mad(b, horner(b, square, table.sine), b.op("fmul", square, r), low)
    cosine_tail = b.op("fmul", horner(b, square, table.cosine), square)
    # 2^-n goes to zero where its exponent would leave the normal range: it is negligible there.
    magic = float_bits(x.scalar, format_of(x).round_magic)
    mirrored = b.op("sub", b.iconst(x, magic + 2 * (bias - 3)), rounded.bits)
    falling = b.intrinsic("llvm.smax", mirrored, b.iconst(x, 0))
    s, t = power_of_two(b, rounded.bits), power_of_two(b, falling)
    return Parts(s, t, b.op("fadd", s, t), b.op("fsub", s, t), upper, sine_tail, cosine_tail)


@fma_or_double
def sinh(b: Body, x: Value) -> Value:
    """Hyperbolic sine."""
    p = parts(b, x)
    small = mad(b, p.total, p.sine_tail, b.op("fmul", p.difference, p.cosine_tail))
    result = b.op("fadd", mad(b, p.total, p.upper, p.difference), small)
    result = copysign(b, mul_const(b, result, 4.0), x)
    tiny = b.compare("fcmp olt", absolute(b, x), b.fconst(x, TABLES[x.scalar].tiny))
    return b.select(tiny, x, result)


@fma_or_double
def cosh(b: Body, x: Value) -> Value:
    """Hyperbolic cosine."""
    p = parts(b, x)
    small = mad(b, p.difference, p.sine_tail, mad(b, p.total, p.cosine_tail, p.falling))
    small = mad(b, p.difference, p.upper, small)
    return mul_const(b, b.op("fadd", p.rising, small), 4.0)
