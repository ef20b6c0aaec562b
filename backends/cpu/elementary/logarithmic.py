"""log, log2, log10 and log1p.

Method: x = 2^e (1 + f) with 1 + f in [0.75, 1.5), log(1 + f) = f + f^2 q(f) with a minimax q; no
division (Muller, Elementary Functions, 3rd edition, 2016, chapters 3 and 11). The coefficients are
our own fits (tools/elementary_fits.py).
"""

from __future__ import annotations

from fuser.backends.cpu.body import BITS, Body, Value, float_bits
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    add_const,
    copysign,
    decompose,
    fma_or_double,
    format_of,
    log_specials,
    mad,
    mad_const,
    mad_const_term,
    mul_const,
    polynomial,
    where_const,
)
from fuser.base.records import record


@record
class Base:
    """One base's constants for one format: log(1 + f) = f / ln(base) + f^2 q(f)."""

    unit_high: float
    """1 / ln(base); its upper part where it is not 1."""
    unit_low: float
    two_high: float
    """log 2; the upper part ends in zero bits, so that e times it is exact."""
    two_low: float
    tail: Coefficients


BASES = {
    ("e", "float"): Base(
        unit_high=1.0,
        unit_low=0.0,
        two_high=0.693145751953125,
        two_low=1.428606765330187e-06,
        tail=(
            -0.5,
            0.33333462476730347,
            -0.2500019371509552,
            0.1999041587114334,
            -0.1664237380027771,
            0.14474348723888397,
            -0.13212889432907104,
            0.10610098391771317,
            -0.046227145940065384,
        ),
    ),
    ("e", "double"): Base(
        unit_high=1.0,
        unit_low=0.0,
        two_high=0.693147180559663,
        two_low=2.8235290563031577e-13,
        tail=(
            -0.4999999999999997,
            0.3333333333333395,
            -0.25000000000019634,
            0.19999999999815893,
            -0.16666666662752333,
            0.14285714301411273,
            -0.12500000349794488,
            0.11111110794836546,
            -0.09999983758241283,
            0.09090889800170995,
            -0.08333732313223975,
            0.076934775316699,
            -0.07138410868077147,
            0.06642298324716468,
            -0.062493006272753907,
            0.060874594457717895,
            -0.059769186851835604,
            0.0507272444834466,
            -0.029332331255515612,
            0.008047100360868592,
        ),
    ),
    ("2", "float"): Base(
        unit_high=1.4426950216293335,
        unit_low=1.925963033500011e-08,
        two_high=1.0,
        two_low=0.0,
        tail=(
            -0.7213475108146667,
            0.4809003174304962,
            -0.36067816615104675,
            0.28839680552482605,
            -0.24004031717777252,
            0.20877228677272797,
            -0.19115892052650452,
            0.15450367331504822,
            -0.06774146854877472,
        ),
    ),
    ("2", "double"): Base(
        unit_high=1.4426950365304947,
        unit_low=4.3584687174185184e-09,
        two_high=1.0,
        two_low=0.0,
        tail=(
            -0.7213475204444812,
            0.48089834696299644,
            -0.36067376022255565,
            0.2885390081752832,
            -0.2404491734201085,
            0.2060992917554419,
            -0.18033688546626586,
            0.1602994465316568,
            -0.14426926175522764,
            0.1311537337901326,
            -0.1202303612893705,
            0.11099501725323507,
            -0.10298858021261398,
            0.0958158768593217,
            -0.0901047352659722,
            0.08779833579248003,
            -0.08646253868995718,
            0.07376515420630066,
            -0.04288809641387197,
            0.011822513796171132,
        ),
    ),
    ("10", "float"): Base(
        unit_high=0.4342944920063019,
        unit_low=-1.0103049952192578e-08,
        two_high=0.301025390625,
        two_low=4.605039066518657e-06,
        tail=(
            -0.21714724600315094,
            0.14476536214351654,
            -0.10857365280389786,
            0.0868171826004982,
            -0.0723055750131607,
            0.06291960924863815,
            -0.05713898688554764,
            0.04517460614442825,
            -0.019294241443276405,
        ),
    ),
    ("10", "double"): Base(
        unit_high=0.434294480830431,
        unit_low=1.0728208431540585e-09,
        two_high=0.30102999566383914,
        two_low=1.42050232272661e-13,
        tail=(
            -0.2171472409516258,
            0.14476482730108733,
            -0.10857362047589714,
            0.08685889637960771,
            -0.07238241363337937,
            0.06204206893912393,
            -0.05428681181024677,
            0.0482549395983357,
            -0.043429373222464845,
            0.03948127160679801,
            -0.03619310810419519,
            0.03341189199240126,
            -0.03099850486519922,
            0.028847018805416805,
            -0.027168894597800492,
            0.02648677690115955,
            -0.025894455308590594,
            0.0217360135553988,
            -0.012388611510090805,
            0.0033487238541479196,
        ),
    ),
}


def finished(b: Body, base: Base, exponent: Value, f: Value, extra: Value | None = None) -> Value:
    """e log 2 + log(1 + f) + extra, from the small terms to the large ones."""
    small = mad_const(b, exponent, base.two_low, log_tail(b, f, base))
    if extra is not None:
        small = b.op("fadd", small, extra)
    if base.unit_high == 1.0:
        lead = b.op("fadd", f, small)
    else:
        high, low = times_unit(b, f, base, small)
        lead = mad_const(b, high, base.unit_high, low)
    return mad_const(b, exponent, base.two_high, lead)


def times_unit(b: Body, f: Value, base: Base, small: Value) -> tuple[Value, Value]:
    """Write f / ln(base) + small as high * unit_high + low; without FMA that product is exact."""
    low = mad_const(b, f, base.unit_low, small)
    if b.features.fma:
        return f, low
    kept = b.op("and", b.as_integer(f), b.iconst(f, -1 << 27))
    high = b.as_float(kept)
    return high, mad_const(b, b.op("fsub", f, high), base.unit_high, low)


def log_tail(b: Body, f: Value, base: Base) -> Value:
    """f^2 q(f), the last step apart: it is the one whose rounding counts."""
    square = b.op("fmul", f, f)
    rest = polynomial(b, f, base.tail[1:], square)
    return b.op("fmul", mad_const_term(b, rest, f, base.tail[0]), square)


def logarithm(b: Body, x: Value, name: str) -> Value:
    """log x to a base of `BASES`."""
    exponent, mantissa = decompose(b, x)
    f = add_const(b, mantissa, -1.0)
    return log_specials(b, x, finished(b, BASES[name, x.scalar], exponent, f))


@fma_or_double
def log(b: Body, x: Value) -> Value:
    """Natural logarithm."""
    return logarithm(b, x, "e")


@fma_or_double
def log2(b: Body, x: Value) -> Value:
    """Logarithm to base 2; exact for powers of two."""
    exponent, mantissa = decompose(b, x)
    base = BASES["2", x.scalar]
    f = add_const(b, mantissa, -1.0)
    high, low = times_unit(b, f, base, log_tail(b, f, base))
    unit = b.fconst(x, base.unit_high)
    lead = b.op("fmul", high, unit)
    if b.features.fma:
        low = b.op("fadd", low, b.fma(high, unit, b.op("fneg", lead)))
    # The integer first: it may cancel most of the product, which has no error any more.
    return log_specials(b, x, b.op("fadd", b.op("fadd", exponent, lead), low))


@fma_or_double
def log10(b: Body, x: Value) -> Value:
    """Logarithm to base 10."""
    return logarithm(b, x, "10")


def log1p_core(b: Body, x: Value, big: Value, shift: int, low: Value | None = None) -> Value:
    """log(1 + x + low), plus shift ln2 in lanes that are `big`, for finite x > -1.

    e is taken from the rounded sum 1 + x, and f = 2^-e x + (2^-e - 1) from x itself: 2^-e times x
    is exact, and f is rounded once, so that nothing of x is lost.

    Args:
        b: the body.
        x: below 2^100 (float) or 2^1000 (double).
        big: which lanes were divided by a power of two; 1 + x need not be exact there.
        shift: see above.
        low: at most an ulp of x.
    """
    kind = format_of(x)
    digits, bias = kind.mantissa_bits, kind.bias
    total = b.as_integer(add_const(b, x, 1.0))
    one, least = float_bits(x.scalar, 1.0), float_bits(x.scalar, 0.75)
    moved = b.op("add", total, b.iconst(x, one - least))
    biased = b.op("lshr", moved, b.iconst(x, digits))
    counted = b.as_float(b.op("or", biased, b.iconst(x, float_bits(x.scalar, 2.0**digits))))
    zero_point = b.fconst(x, 2.0**digits + bias)
    high_point = b.fconst(x, 2.0**digits + bias - shift)
    exponent = b.op("fsub", counted, b.select(big, high_point, zero_point))
    field = b.op("and", moved, b.iconst(x, ((1 << (BITS[x.scalar] - 1 - digits)) - 1) << digits))
    shrunk = b.as_float(b.op("sub", b.iconst(x, 2 * bias << digits), field))
    f = mad(b, x, shrunk, add_const(b, shrunk, -1.0))
    extra = None if low is None else b.op("fmul", low, shrunk)
    return finished(b, BASES["e", x.scalar], exponent, f, extra)


LOWERING = {"float": (2.0**60, 32), "double": (2.0**500, 400)}
"""Above the first, a number is divided by two to the second, so that its square stays finite."""


def lowered(b: Body, x: Value) -> tuple[Value, Value]:
    """Which lanes are big, and x times the power of two that brings them down."""
    bound, shift = LOWERING[x.scalar]
    return b.compare("fcmp ogt", x, b.fconst(x, bound)), mul_const(b, x, 2.0**-shift)


@fma_or_double
def log1p(b: Body, x: Value) -> Value:
    """log(1 + x)."""
    big, brought = lowered(b, x)
    result = log1p_core(b, b.select(big, brought, x), big, LOWERING[x.scalar][1])
    result = copysign(b, result, x)
    result = b.select(b.compare("fcmp olt", x, b.fconst(x, float("inf"))), result, x)
    end = b.fconst(x, -1.0)
    result = where_const(b, b.compare("fcmp oeq", x, end), float("-inf"), result)
    return where_const(b, b.compare("fcmp olt", x, end), float("nan"), result)
