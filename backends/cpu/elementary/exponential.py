"""exp, exp2, expm1, sigmoid and tanh.

Method: x = n ln2 + r with n an integer (Cody and Waite, Software Manual for the Elementary
Functions, 1980, chapter 6), e^r by a minimax polynomial (Muller, Elementary Functions, 3rd edition,
2016, chapters 3 and 11), then a scaling by 2^n. The upper part of ln2 ends in zero bits, so that
n times it is exact with and without FMA. The coefficients are our own fits
(tools/elementary_fits.py).
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    Rounded,
    absolute,
    add_const,
    at_least,
    at_most,
    copysign,
    fma_or_double,
    format_of,
    horner,
    mad,
    mad_const,
    mad_const_term,
    polynomial,
    power_of_two,
    round_scaled,
    scale,
)
from fuser.base.records import record

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453

TANH_FLOAT = (
    -0.33333316445350647,
    0.13332544267177582,
    -0.05384793505072594,
    0.021054109558463097,
    -0.006250062957406044,
)
"""(tanh x - x) / x^3 in x^2, for |x| <= 0.55."""


@record
class Table:
    """What differs between float and double."""

    ln2_high: float
    ln2_low: float
    exp: Coefficients
    """(e^r - 1 - r) / r^2 on |r| <= ln2/2, relative to e^r."""
    expm1: Coefficients
    """The same, relative to e^r - 1."""
    exp2: Coefficients
    """(2^r - 1) / r on |r| <= 1/2, relative to 2^r."""
    exp_range: tuple[float, float]
    """Below, e^x rounds to zero; above, it overflows."""
    exp2_range: tuple[float, float]
    tanh_bound: float
    """Beyond it tanh rounds to 1."""
    sigmoid_bound: float
    """Above it sigmoid rounds to 1."""
    expm1_bound: float
    """Below it e^x - 1 rounds to -1."""


TABLES = {
    "float": Table(
        ln2_high=0.693145751953125,
        ln2_low=1.428606765330187e-06,
        exp=(
            0.4999999403953552,
            0.16666516661643982,
            0.04166810214519501,
            0.00836916547268629,
            0.0013838023878633976,
        ),
        expm1=(
            0.4999999701976776,
            0.16666539013385773,
            0.04166775196790695,
            0.008367086760699749,
            0.0013837377773597836,
        ),
        exp2=(
            0.6931471824645996,
            0.24022594094276428,
            0.055503662675619125,
            0.009625443257391453,
            0.0013387916842475533,
            0.00013333397509995848,
        ),
        exp_range=(-104.0, 89.0),
        exp2_range=(-151.0, 129.0),
        tanh_bound=9.25,
        sigmoid_bound=24.0,
        expm1_bound=-18.0,
    ),
    "double": Table(
        ln2_high=0.6931471805598903,
        ln2_low=5.497923018708371e-14,
        exp=(
            0.5000000000000011,
            0.16666666666666435,
            0.04166666666652574,
            0.00833333333347559,
            0.0013888888944875407,
            0.0001984126955599339,
            2.4801491743286636e-05,
            2.7557535265235436e-06,
            2.763074775914431e-07,
            2.5018199790308838e-08,
        ),
        expm1=(
            0.5,
            0.16666666666666677,
            0.041666666666666685,
            0.008333333333321823,
            0.001388888888889361,
            0.00019841269885243973,
            2.4801587279544465e-05,
            2.755724526269337e-06,
            2.755732862165085e-07,
            2.5108647305153377e-08,
            2.0894337072522128e-09,
        ),
        exp2=(
            0.6931471805599453,
            0.24022650695910172,
            0.055504108664824574,
            0.009618129107577098,
            0.0013333558145568944,
            0.00015403530478814132,
            1.5252734735590012e-05,
            1.3215424501563667e-06,
            1.0177657372016315e-07,
            7.0756140961820596e-09,
            4.5190869022485075e-10,
        ),
        exp_range=(-746.0, 710.0),
        exp2_range=(-1076.0, 1025.0),
        tanh_bound=19.5,
        sigmoid_bound=50.0,
        expm1_bound=-40.0,
    ),
}


def reduced(b: Body, x: Value, offset: int, factor: float = 1.0) -> tuple[Rounded, Value]:
    """Write factor*x = n ln2 + factor*r; return n (plus `offset` in its bits) and r."""
    table = TABLES[x.scalar]
    rounded = round_scaled(b, x, factor * LOG2_E, offset)
    rest = mad_const(b, rounded.number, -table.ln2_high / factor, x)
    return rounded, mad_const(b, rounded.number, -table.ln2_low / factor, rest)


def exp_clamped(b: Body, x: Value) -> Value:
    """e^x for x within `exp_range`."""
    rounded, r = reduced(b, x, 2 * format_of(x).bias)
    square = b.op("fmul", r, r)
    tail = polynomial(b, r, TABLES[x.scalar].exp, square)
    return scale(b, add_const(b, mad(b, tail, square, r), 1.0), rounded)


@fma_or_double
def exp(b: Body, x: Value) -> Value:
    """e^x."""
    low, high = TABLES[x.scalar].exp_range
    return exp_clamped(b, at_most(b, at_least(b, x, low), high))


@fma_or_double
def exp2(b: Body, x: Value) -> Value:
    """2^x; exact for integers."""
    table = TABLES[x.scalar]
    low, high = table.exp2_range
    x = at_most(b, at_least(b, x, low), high)
    rounded = round_scaled(b, x, 1.0, 2 * format_of(x).bias)
    r = b.op("fsub", x, rounded.number)
    return scale(b, mad_const_term(b, polynomial(b, r, table.exp2), r, 1.0), rounded)


@fma_or_double
def sigmoid(b: Body, x: Value) -> Value:
    """1 / (1 + e^-x) as y = E / (1 + E) with E = e^x, which is small where the result is.

    Where E is small, y is formed again as 2^n (1 + (w - y (1 + w))) with E = 2^n (1 + w): the
    roundings of the sum and the quotient then count only y times.
    """
    table = TABLES[x.scalar]
    limited = at_most(b, at_least(b, x, table.exp_range[0]), table.sigmoid_bound)
    rounded, r = reduced(b, limited, 2 * format_of(x).bias)
    square = b.op("fmul", r, r)
    tail = polynomial(b, r, table.exp, square)
    growth = mad(b, tail, square, r)
    mantissa = add_const(b, growth, 1.0)
    grown = scale(b, mantissa, rounded)
    quotient = b.op("fdiv", grown, add_const(b, grown, 1.0))
    better = mad(b, b.op("fneg", quotient), mantissa, growth)
    better = scale(b, add_const(b, better, 1.0), rounded)
    small = b.compare("fcmp olt", grown, b.fconst(x, 0.35))
    return b.select(small, better, quotient)


@fma_or_double
def expm1(b: Body, x: Value) -> Value:
    """e^x - 1 as (2^n - 1) + 2^n (e^r - 1), halved so that 2^n stays finite at the upper end.

    The leading sum (2^n - 1) + 2^n r is exact near zero, so r is used there before its lower part
    n ln2_low is taken off.
    """
    table = TABLES[x.scalar]
    limited = at_most(b, at_least(b, x, table.expm1_bound), table.exp_range[1])
    rounded = round_scaled(b, limited, LOG2_E, format_of(x).bias - 1)
    upper = mad_const(b, rounded.number, -table.ln2_high, limited)
    r = mad_const(b, rounded.number, -table.ln2_low, upper)
    square = b.op("fmul", r, r)
    tail = b.op("fmul", polynomial(b, r, table.expm1, square), square)
    tail = mad_const(b, rounded.number, -table.ln2_low, tail)
    half_power = power_of_two(b, rounded.bits)
    lead = mad(b, half_power, upper, add_const(b, half_power, -0.5))
    grown = mad(b, half_power, tail, lead)
    result = b.op("fadd", grown, grown)
    # Keeps -0.0, and subnormals, which halving would round.
    tiny = b.compare("fcmp olt", absolute(b, x), b.fconst(x, 2.0**-60))
    return b.select(tiny, x, result)


@fma_or_double
def tanh(b: Body, x: Value) -> Value:
    """tanh |x| = 1 - 2 / (1 + e^2|x|), and below 0.55 a form that keeps its accuracy near zero.

    That form is a polynomial for float. For double it is a + (m - 2a - a m) / (m + 2) with a = |x|
    and m = e^2a - 1: there the quotient is only a small correction of a.
    """
    table = TABLES[x.scalar]
    size = absolute(b, x)
    limited = at_most(b, size, table.tanh_bound)
    rounded = round_scaled(b, limited, 2.0 * LOG2_E, format_of(x).bias)
    if b.features.fma:
        # n is small or e^2a is large: the error of ln2 as one number does not matter.
        r = mad_const(b, rounded.number, -LN2 / 2, limited)
    else:
        rest = mad_const(b, rounded.number, -table.ln2_high / 2, limited)
        r = mad_const(b, rounded.number, -table.ln2_low / 2, rest)
    power = power_of_two(b, rounded.bits)
    tail, square, twice = doubled_expm1(b, r)
    small = b.compare("fcmp olt", size, b.fconst(x, 0.55))
    if x.scalar == "float":
        growth = mad(b, tail, square, twice)
        quotient = b.op("fdiv", b.fconst(x, -2.0), mad(b, power, growth, add_const(b, power, 1.0)))
        square = b.op("fmul", x, x)
        below = horner(b, square, TANH_FLOAT)
        below = mad(b, below, b.op("fmul", square, size), size)
        return copysign(b, b.select(small, below, add_const(b, quotient, 1.0)), x)
    tail = b.op("fmul", tail, square)
    lead = mad(b, power, twice, add_const(b, power, -1.0))
    grown = mad(b, power, tail, lead)
    rest = mad(b, power, tail, b.op("fsub", lead, b.op("fadd", size, size)))
    correction = mad(b, b.op("fneg", size), grown, rest)
    numerator = b.select(small, correction, b.fconst(x, -2.0))
    quotient = b.op("fdiv", numerator, add_const(b, grown, 2.0))
    return copysign(b, b.op("fadd", b.select(small, size, b.fconst(x, 1.0)), quotient), x)


def doubled_expm1(b: Body, r: Value) -> tuple[Value, Value, Value]:
    """e^2r - 1 = t s + 2r for |2r| <= ln2/2, as (t, s, 2r); s is r^2."""
    coefficients = TABLES[r.scalar].exp if r.scalar == "float" else TABLES[r.scalar].expm1
    scaled = [value * 2.0 ** (power + 2) for power, value in enumerate(coefficients)]
    square = b.op("fmul", r, r)
    return polynomial(b, r, scaled, square), square, b.op("fadd", r, r)
