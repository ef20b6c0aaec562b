"""erf and erfc.

erf: a polynomial below 1; above, 1 - e^-g(|x|) with a minimax g = -log erfc: no division.
erfc: e^(-x^2) R(x) / (1 + 2x) for x >= 0, with R a minimax polynomial in (x - K) / (x + K)
(Shepherd and Laframboise, Mathematics of Computation 36, 1981, pp. 249-253) and x^2 as a sum of
two values. The coefficients are our own fits (tools/elementary_fits.py).
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value
from fuser.backends.cpu.elementary.exponential import LN2, LOG2_E
from fuser.backends.cpu.elementary.exponential import TABLES as EXPONENTIAL
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    absolute,
    add_const,
    at_most,
    copysign,
    fma_or_double,
    format_of,
    mad,
    mad_const,
    mad_const_term,
    polynomial,
    power_of_two,
    round_scaled,
    scale,
    two_product,
)
from fuser.base.records import record


@record
class Table:
    """What differs between float and double, for erf."""

    small: Coefficients
    """erf(x) / x - 1 in x^2, for |x| <= 1."""
    large: Coefficients
    """-log erfc x, for 1 <= x <= bound, relative to erf."""
    bound: float
    """Beyond it erf rounds to 1."""
    exp: Coefficients
    """(e^r - 1 - r) / r^2, good enough for a number below 0.16 that is taken from 1."""


TABLES = {
    "float": Table(
        small=(
            0.12837916612625122,
            -0.3761262595653534,
            0.11283578723669052,
            -0.02685335837304592,
            0.005187224131077528,
            -0.0007998853689059615,
            7.811882096575573e-05,
        ),
        large=(
            0.0025306956376880407,
            1.1179206371307373,
            0.6538431644439697,
            0.08905716240406036,
            -0.014913464896380901,
            0.001167331007309258,
        ),
        bound=4.0,
        exp=(0.499992311000824, 0.16669030487537384, 0.04189333692193031, 0.008120624348521233),
    ),
    "double": Table(
        small=(
            0.12837916709551256,
            -0.37612638903183343,
            0.11283791670936917,
            -0.02686617064194717,
            0.005223977596576515,
            -0.0008548325474155945,
            0.00012055280068759485,
            -1.4924455287211023e-05,
            1.644399477237313e-06,
            -1.6182570591781525e-07,
            1.3609522087578595e-08,
            -7.592409591969409e-10,
        ),
        large=(
            1.0057698955943227e-06,
            1.1283692262296898,
            0.6366654656987112,
            0.10264298034720756,
            -0.018874618135851628,
            -0.0005724206622782946,
            0.0020877227775636764,
            -0.000911888739496207,
            0.0002260941224012321,
            -2.5994000511371272e-05,
            -4.295305263002568e-06,
            2.8524336068975497e-06,
            -7.231676028689524e-07,
            1.1330590563608185e-07,
            -1.1404241712675372e-08,
            6.820590994231953e-10,
            -1.8547541082280947e-11,
        ),
        bound=5.94,
        exp=EXPONENTIAL["double"].exp,
    ),
}


@fma_or_double
def erf(b: Body, x: Value) -> Value:
    """The error function."""
    table = TABLES[x.scalar]
    size = absolute(b, x)
    limited = at_most(b, size, table.bound)
    power = b.op("fneg", polynomial(b, limited, table.large))
    rounded = round_scaled(b, power, LOG2_E, format_of(x).bias)
    r = mad_const(b, rounded.number, -LN2, power)
    square = b.op("fmul", r, r)
    mantissa = add_const(b, mad(b, polynomial(b, r, table.exp, square), square, r), 1.0)
    falling = b.op("fneg", power_of_two(b, rounded.bits))
    large = copysign(b, mad(b, falling, mantissa, b.fconst(x, 1.0)), x)
    small = mad(b, polynomial(b, b.op("fmul", x, x), table.small), x, x)
    return b.select(b.compare("fcmp olt", size, b.fconst(x, 1.0)), small, large)


@record
class Complement:
    """The polynomials of erfc for one precision of the result; all arithmetic is in double."""

    center: float
    ratio: Coefficients
    """(1 + 2a) e^(a^2) erfc a in (a - center) / (a + center), from 3/4 or 0 to the bound."""
    ratio_low: float
    """What rounding the first coefficient left off."""
    bound: float
    """Beyond it erfc rounds to 0 or 2."""
    exp: Coefficients
    near: Coefficients
    """erf(x) / x - 1 in x^2, for |x| <= 3/4; none where the other form is accurate enough."""


COMPLEMENTS = {
    "float": Complement(
        center=3.0,
        ratio=(
            1.2530080593073727,
            -0.13562114096004757,
            -0.04756241994565109,
            0.12964645182256165,
            -0.11927061594522771,
            0.06829574273276266,
            -0.023799530742968464,
            0.0025657293317618403,
            0.00200483791797575,
            -0.0007726980328657987,
            -0.0002662436967830425,
        ),
        ratio_low=0.0,
        bound=10.25,
        exp=(
            0.5000000067853932,
            0.16666663835270515,
            0.04166628593471958,
            0.008333677862384523,
            0.0013946040178358142,
            0.0001981141513068393,
        ),
        near=(),
    ),
    "double": Complement(
        center=4.0,
        ratio=(
            1.2329951186255526,
            -0.13962111684056233,
            0.015379652102622137,
            0.06809705425466574,
            -0.10103906603647135,
            0.0937328349995173,
            -0.06633036580773709,
            0.0371675155142108,
            -0.016197734118337706,
            0.0050319702342536115,
            -0.0007577728232972751,
            -0.00019925840202089938,
            0.00015061952855249282,
            -2.4392026696895924e-05,
            -1.1216037558958978e-05,
            5.690424563185741e-06,
            2.8417704931539736e-07,
            -7.931308006975038e-07,
            8.207574127467981e-08,
            7.892578977384708e-08,
            -1.848045511456331e-08,
        ),
        ratio_low=-5.1167166108437585e-17,
        bound=28.0,
        exp=EXPONENTIAL["double"].exp,
        near=(
            0.12837916709551128,
            -0.3761263890316892,
            0.11283791670435386,
            -0.02686617055981732,
            0.005223976844121915,
            -0.0008548283506411733,
            0.00012053798081259767,
            -1.4891095813391823e-05,
            1.5978204288754627e-06,
            -1.2465201467038446e-07,
        ),
    ),
}


def erfc(b: Body, x: Value) -> Value:
    """The complementary error function; float32 is computed in double, with short polynomials."""
    if x.scalar == "float":
        wide = complement(b, b.cast("fpext", x, "double"), COMPLEMENTS["float"])
        return b.cast("fptrunc", wide, "float")
    return complement(b, x, COMPLEMENTS["double"])


def complement(b: Body, x: Value, table: Complement) -> Value:
    """Erfc in double."""
    size = at_most(b, absolute(b, x), table.bound)
    grown = mad_const(b, size, 2.0, 1.0)
    # One division for both 1 / (1 + 2a) and (a - K) / (a + K).
    above = add_const(b, size, table.center)
    inverse = b.op("fdiv", b.fconst(x, 1.0), b.op("fmul", above, grown))
    place = b.op("fmul", b.op("fmul", add_const(b, size, -table.center), grown), inverse)
    part = b.op("fmul", above, inverse)
    # The last step apart: it is the one whose rounding counts.
    tail = mad_const_term(b, polynomial(b, place, table.ratio[1:]), place, table.ratio_low)
    ratio = b.op("fmul", add_const(b, tail, table.ratio[0]), part)
    squared, error = two_product(b, size, size)
    if table.near:
        # What `part` is off 1 / (1 + 2a), as a factor: it goes into the exponent with the error.
        product, product_low = two_product(b, part, grown)
        grown_low = b.op("fsub", b.op("fadd", size, size), add_const(b, grown, -1.0))
        off = b.op("fsub", add_const(b, product, -1.0), b.op("fneg", product_low))
        error = b.op("fadd", error, mad(b, grown_low, part, off))
    constants = EXPONENTIAL["double"]
    rounded = round_scaled(b, squared, -LOG2_E, 2 * format_of(x).bias)
    r = mad_const(b, rounded.number, -constants.ln2_high, b.op("fneg", squared))
    r = b.op("fsub", r, mad_const(b, rounded.number, constants.ln2_low, error))
    square = b.op("fmul", r, r)
    growth = mad(b, polynomial(b, r, table.exp, square), square, r)
    value = scale(b, mad(b, growth, ratio, ratio), rounded)
    negative = b.compare("fcmp olt", x, b.fconst(x, 0.0))
    value = b.select(negative, b.op("fsub", b.fconst(x, 2.0), value), value)
    if not table.near:
        return value
    # Near zero the quotient's rounding counts several times.
    near = mad(b, polynomial(b, b.op("fmul", x, x), table.near), x, x)
    near = b.op("fsub", b.fconst(x, 1.0), near)
    return b.select(b.compare("fcmp olt", size, b.fconst(x, 0.75)), near, value)
