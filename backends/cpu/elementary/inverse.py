"""arctan, arctan2, arcsin and arccos.

Method: the argument is brought to 1/2 at most by (a - 1) / (a + 1) or -1 / a, with one division
for all three cases; arcsin and arccos above 1/2 go through sqrt((1 - a) / 2) (Cody and Waite,
Software Manual for the Elementary Functions, 1980, chapters 10 and 11). Signs, zeros and infinities
of arctan2 are those of C99, Annex F.9.1.4. The coefficients are our own fits
(tools/elementary_fits.py).
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    absolute,
    copysign,
    fma_or_double,
    mad,
    mad_const,
    mul_const,
    polynomial,
    quick_two_sum,
)
from fuser.base.records import record

HIGH_BOUND = 2.5
"""From here on the reciprocal is taken."""


@record
class Table:
    """What differs between float and double."""

    half_pi: float
    half_pi_low: float
    """pi/2 is the sum of these two, to twice the precision."""
    arctan: Coefficients
    """(arctan t - t) / t^3 in t^2, for |t| <= 1/2."""
    arcsin: Coefficients
    """(arcsin s - s) / s^3 in s^2, for |s| <= 1/2."""
    suffix: str
    sum_bound: float
    """Two numbers above it may have an infinite sum."""


TABLES = {
    "float": Table(
        half_pi=1.5707963705062866,
        half_pi_low=-4.371138828673793e-08,
        arctan=(
            -0.3333323299884796,
            0.19994167983531952,
            -0.1417427808046341,
            0.10156505554914474,
            -0.051268331706523895,
        ),
        arcsin=(
            0.16666752099990845,
            0.074953094124794,
            0.04546914994716644,
            0.024184787645936012,
            0.04215826466679573,
        ),
        suffix="f",
        sum_bound=2.0**125,
    ),
    "double": Table(
        half_pi=1.5707963267948966,
        half_pi_low=6.123233995736766e-17,
        arctan=(
            -0.3333333333333298,
            0.19999999999903018,
            -0.14285714276373254,
            0.11111110658959343,
            -0.09090896225499966,
            0.07692073584747289,
            -0.06663807059830511,
            0.058582737224178824,
            -0.051218897292948005,
            0.04186169072414734,
            -0.027429435231912748,
            0.010112906686927133,
        ),
        arcsin=(
            0.1666666666666541,
            0.07500000000336723,
            0.044642856828484304,
            0.030381959132276013,
            0.022371758137603063,
            0.017359703713569805,
            0.013885243861801127,
            0.012169166816003985,
            0.006528132434249078,
            0.019527919803898078,
            -0.016223824551536727,
            0.03191204365197669,
        ),
        suffix="",
        sum_bound=2.0**1021,
    ),
}


def first_quadrant(b: Body, up: Value, across: Value) -> Value:
    """arctan(up / across) for two values >= 0, not both zero or infinite."""
    table = TABLES[up.scalar]
    # The argument is left alone up to 1/2; a - 1 is exact above.
    low = b.compare("fcmp olt", b.op("fadd", up, up), across)
    middle = b.compare("fcmp olt", up, mul_const(b, across, HIGH_BOUND))
    numerator = b.select(middle, b.op("fsub", up, across), b.op("fneg", across))
    numerator = b.select(low, up, numerator)
    denominator = b.select(middle, b.op("fadd", up, across), up)
    denominator = b.select(low, across, denominator)
    base = b.select(middle, b.fconst(up, table.half_pi / 2), b.fconst(up, table.half_pi))
    base = b.select(low, b.fconst(up, 0.0), base)
    t = b.op("fdiv", numerator, denominator)
    square = b.op("fmul", t, t)
    tail = polynomial(b, square, table.arctan)
    # pi/4 and pi/2 have the same ratio of lower to upper part.
    small = mul_const(b, base, table.half_pi_low / table.half_pi)
    small = mad(b, tail, b.op("fmul", square, t), small)
    return b.op("fadd", b.op("fadd", base, t), small)


@fma_or_double
def arctan(b: Body, x: Value) -> Value:
    """Arc tangent."""
    return copysign(b, first_quadrant(b, absolute(b, x), b.fconst(x, 1.0)), x)


@fma_or_double
def arctan2(b: Body, y: Value, x: Value) -> Value:
    """The angle of the point (x, y)."""
    table = TABLES[x.scalar]
    up, across = absolute(b, y), absolute(b, x)
    zero = b.fconst(x, 0.0)
    # 0/0 becomes 0/1: the angle is then 0 or pi by the sign of x.
    both_zero = b.compare("fcmp oeq", b.op("fadd", up, across), zero)
    angle = first_quadrant(b, up, b.select(both_zero, b.fconst(x, 1.0), across))
    left = b.op("fsub", angle, b.fconst(x, 2 * table.half_pi_low))
    left = b.op("fsub", b.fconst(x, 2 * table.half_pi), left)
    is_left = b.compare("icmp slt", b.as_integer(x), b.iconst(x, 0))
    value = copysign(b, b.select(is_left, left, angle), y)
    lesser = b.select(b.compare("fcmp olt", up, across), up, across)
    huge = b.compare("fcmp ogt", lesser, b.fconst(x, table.sum_bound))
    return b.slow_lanes(huge, value, "atan2" + table.suffix, y, x)


def arcsine_part(b: Body, x: Value) -> tuple[Value, Value, Value]:
    """Whether |x| > 1/2; s = |x|, or sqrt((1 - |x|) / 2) there; and arcsin s - s."""
    size = absolute(b, x)
    big = b.compare("fcmp ogt", size, b.fconst(x, 0.5))
    square = b.select(big, mad_const(b, size, -0.5, 0.5), b.op("fmul", size, size))
    root = b.select(big, b.intrinsic("llvm.sqrt", square), size)
    tail = polynomial(b, square, TABLES[x.scalar].arcsin)
    return big, root, b.op("fmul", tail, b.op("fmul", square, root))


@fma_or_double
def arcsin(b: Body, x: Value) -> Value:
    """Arc sine."""
    table = TABLES[x.scalar]
    big, root, tail = arcsine_part(b, x)
    angle = b.op("fadd", root, tail)
    # The root is taken from pi/2 without error, then the small terms from that.
    twice = b.op("fadd", root, root)
    far, error = quick_two_sum(b, b.fconst(x, table.half_pi), b.op("fneg", twice))
    small = b.op("fsub", mad_const(b, tail, 2.0, -table.half_pi_low), error)
    far = b.op("fsub", far, small)
    return copysign(b, b.select(big, far, angle), x)


@fma_or_double
def arccos(b: Body, x: Value) -> Value:
    """Arc cosine."""
    table = TABLES[x.scalar]
    big, root, tail = arcsine_part(b, x)
    angle = b.op("fadd", root, tail)
    # pi/2 - arcsin x near zero; 2 arcsin s near 1; pi - 2 arcsin s near -1.
    signed = copysign(b, angle, x)
    near = b.op("fsub", signed, b.fconst(x, table.half_pi_low))
    near = b.op("fsub", b.fconst(x, table.half_pi), near)
    twice = b.op("fadd", angle, angle)
    left = b.op("fsub", twice, b.fconst(x, 2 * table.half_pi_low))
    left = b.op("fsub", b.fconst(x, 2 * table.half_pi), left)
    far = b.select(b.compare("fcmp olt", x, b.fconst(x, 0.0)), left, twice)
    return b.select(big, far, near)
