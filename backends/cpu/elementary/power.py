"""power.

Method: x^y = 2^(y log2 |x|). For double, log2 |x| is a sum of two values with a relative error
below 2^-63: log2 m = 2 log2(e) (s + s^3/3 + ...), s = (m - 1) / (m + 1), the first two terms in
double-double arithmetic (Dekker, Numerische Mathematik 18, 1971; Muller, Elementary Functions,
3rd edition, 2016, chapters 4 and 11). For float, double arithmetic is enough. Special cases are
those of C99, Annex F.9.4.4. The coefficients are our own fits (tools/elementary_fits.py).
"""

from __future__ import annotations

from fuser.backends.cpu.body import BITS, Body, Value, float_bits
from fuser.backends.cpu.elementary.exponential import TABLES as EXPONENTIAL
from fuser.backends.cpu.elementary.half_powers import half_of, half_power
from fuser.backends.cpu.elementary.kit import (
    absolute,
    add_const,
    at_least,
    at_most,
    decompose,
    format_of,
    mad,
    mad_const,
    mad_const_term,
    polynomial,
    power_of_two,
    quick_two_sum,
    round_scaled,
    scale,
    two_product,
    where_const,
)
from fuser.backends.cpu.elementary.whole_powers import whole_of, whole_power

FLOAT_LOG2 = (
    1.4426950409106436,
    -0.72134752083163,
    0.48089833264383863,
    -0.3606736534825983,
    0.2885404277627508,
    -0.240458415469857,
    0.20605686242049945,
    -0.18000371056142225,
    0.16050314234403415,
    -0.14920764694213548,
    0.1387916934068606,
    -0.10203957508411678,
    0.03798952709296437,
)
"""log2(1 + f) / f, for f from -1/4 to 1/2, to 36 bits."""
FLOAT_EXP2 = (
    0.6931471807050097,
    0.2402265106736513,
    0.055504103643916676,
    0.009618037995311397,
    0.0013333935985008658,
    0.000154668043838227,
    1.5196042448043696e-05,
)
"""(2^r - 1) / r, for |r| <= 1/2, to 34 bits."""
FIRST = (2.8853900817779268, 4.0710547481862066e-17)
"""2 log2(e), as two values."""
THIRD = (0.9617966939259756, 5.0577616648125907e-17)
"""A third of it."""
LOG2_TAIL = (
    0.5770780163555854,
    0.4121985831110822,
    0.3205988979901214,
    0.2623081871246373,
    0.22195325502602511,
    0.19235105348545758,
    0.16997090789272662,
    0.14771055023129415,
    0.17492084894733134,
)
"""((log2((1 + s) / (1 - s)) - FIRST s) / s^3 - THIRD) / s^2 in s^2, for |s| <= 1/5."""


def float_magnitude(b: Body, x: Value, y: Value) -> Value:
    """x^y for float32 x > 0, in double."""
    exponent, mantissa = decompose(b, x)
    f = b.cast("fpext", add_const(b, mantissa, -1.0), "double")
    log = mad(b, polynomial(b, f, FLOAT_LOG2), f, b.cast("fpext", exponent, "double"))
    # Infinities become finite, so that times log2 1 they give zero.
    y = at_most(b, at_least(b, y, -(2.0**100)), 2.0**100)
    power = b.op("fmul", b.cast("fpext", y, "double"), log)
    power = at_most(b, at_least(b, power, -300.0), 300.0)
    rounded = round_scaled(b, power, 1.0, format_of(power).bias)
    r = b.op("fsub", power, rounded.number)
    grown = mad_const_term(b, polynomial(b, r, FLOAT_EXP2), r, 1.0)
    return b.cast("fptrunc", b.op("fmul", grown, power_of_two(b, rounded.bits)), "float")


def double_log2(b: Body, x: Value) -> tuple[Value, Value]:
    """log2 x for x > 0 as a sum of two values, to about 63 bits."""
    exponent, m = decompose(b, x)
    # s = (m - 1) / (m + 1) as s + s_low; 1 / (m + 1) is (1 - s) / 2.
    above = add_const(b, m, 1.0)
    above_low = b.op("fsub", m, add_const(b, above, -1.0))
    below = add_const(b, m, -1.0)
    s = b.op("fdiv", below, above)
    minus_s = b.op("fneg", s)
    if b.features.fma:
        rest = b.fma(minus_s, above, below)
    else:
        product, error = two_product(b, s, above)
        rest = b.op("fsub", b.op("fsub", below, product), error)
    rest = mad(b, minus_s, above_low, rest)
    s_low = b.op("fmul", rest, mad_const_term(b, s, b.fconst(s, -0.5), 0.5))
    z, z_low = two_product(b, s, s)
    z_low = mad(b, b.op("fadd", s, s), s_low, z_low)
    cube, cube_low = two_product(b, s, z)
    cube_low = mad(b, s, z_low, mad(b, s_low, z, cube_low))
    tail = b.op("fmul", z, polynomial(b, z, LOG2_TAIL))
    third, third_low = quick_two_sum(b, b.fconst(x, THIRD[0]), tail)
    third_low = add_const(b, third_low, THIRD[1])
    later, later_low = two_product(b, cube, third)
    later_low = mad(b, cube, third_low, mad(b, cube_low, third, later_low))
    first, first_low = two_product(b, s, b.fconst(x, FIRST[0]))
    first_low = mad_const(b, s, FIRST[1], mad_const(b, s_low, FIRST[0], first_low))
    high, error = quick_two_sum(b, exponent, first)
    high, more = quick_two_sum(b, high, later)
    low = b.op("fadd", b.op("fadd", later_low, first_low), b.op("fadd", error, more))
    return high, low


def double_magnitude(b: Body, x: Value, y: Value) -> Value:
    """x^y for double x > 0."""
    high, low = double_log2(b, x)
    # Beyond 2^70 every power but that of 1 is zero or infinite; the products below stay finite.
    y = at_most(b, at_least(b, y, -(2.0**70)), 2.0**70)
    power, error = two_product(b, y, high)
    error = mad(b, y, low, error)
    limited = at_most(b, at_least(b, power, -1080.0), 1030.0)
    changed = b.compare("fcmp une", limited, power)
    error = where_const(b, changed, 0.0, error)
    rounded = round_scaled(b, limited, 1.0, 2 * format_of(x).bias)
    r = b.op("fadd", b.op("fsub", limited, rounded.number), error)
    grown = mad_const_term(b, polynomial(b, r, EXPONENTIAL["double"].exp2), r, 1.0)
    return scale(b, grown, rounded)


def parity(b: Body, y: Value) -> tuple[Value, Value]:
    """Whether y is an integer, and bits of which the lowest is set if it is an odd one."""
    digits = format_of(y).mantissa_bits
    size = at_most(b, absolute(b, y), 2.0 ** (digits + 1))
    magic = b.fconst(y, 2.0**digits)
    whole = b.compare("fcmp oge", size, magic)
    shifted = b.op("fadd", size, magic)
    equal = b.compare("fcmp oeq", b.op("fsub", shifted, magic), size)
    # From 2^digits on the number's own lowest bit counts ones; beyond twice that all are even.
    integral = b.op("or", whole, equal)
    bits = b.as_integer(b.select(whole, size, shifted))
    return integral, b.select(integral, bits, b.iconst(y, 0))


def power(b: Body, x: Value, y: Value) -> Value:
    """x^y."""
    if (half := half_of(b, y)) is not None:
        return half_power(b, x, y, half)
    if (whole := whole_of(b, y)) is not None:
        return whole_power(b, x, y, whole)
    size = absolute(b, x)
    magnitude = (float_magnitude if x.scalar == "float" else double_magnitude)(b, size, y)
    integral, low_bits = parity(b, y)
    zero, infinity = b.fconst(x, 0.0), b.fconst(x, float("inf"))
    negative = b.compare("fcmp olt", x, zero)
    not_integral = b.op("xor", integral, b.constant_bits("i1", x.lanes, 1))
    invalid = b.op("and", negative, not_integral)
    magnitude = where_const(b, invalid, float("nan"), magnitude)
    # A base of zero or infinity: zero or infinity by the sign of y, which is not zero here.
    bits = b.op("sub", b.as_integer(size), b.iconst(x, 1))
    last = b.iconst(x, float_bits(x.scalar, float("inf")) - 1)
    grows = b.op("xor", b.compare("fcmp oeq", x, zero), b.compare("fcmp ogt", y, zero))
    ends = where_const(
        b, b.compare("fcmp uno", x, y), float("nan"), b.select(grows, infinity, zero)
    )
    magnitude = b.select(b.compare("icmp ult", bits, last), magnitude, ends)
    width = BITS[x.scalar]
    sign = b.op("shl", low_bits, b.iconst(x, width - 1))
    sign = b.op("and", sign, b.as_integer(x))
    result = b.as_float(b.op("xor", sign, b.as_integer(magnitude)))
    one = b.fconst(x, 1.0)
    always = b.op("or", b.compare("fcmp oeq", y, zero), b.compare("fcmp oeq", x, one))
    return b.select(always, one, result)
