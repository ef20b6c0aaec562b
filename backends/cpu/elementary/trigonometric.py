"""sin, cos and tan.

Method: r = x - n pi/2 with pi in parts (Cody and Waite, Software Manual for the Elementary
Functions, 1980, chapter 8; Muller, Elementary Functions, 3rd edition, 2016, chapter 11), then
minimax polynomials in r^2. With FMA every product is exact; without it the parts
are short, so that n times each is. Beyond a bound `huge` reduces with as many digits of pi as it
takes. The coefficients are our own (tools/elementary_fits.py).
"""

from __future__ import annotations

from fuser.backends.cpu import shared_functions
from fuser.backends.cpu.body import BITS, Body, Features, Value
from fuser.backends.cpu.elementary import huge
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    absolute,
    fma_or_double,
    horner,
    mad,
    mad_const,
    mad_const_term,
    mul_const,
    polynomial,
    quick_two_sum,
    round_scaled,
    two_product,
    two_sum,
)
from fuser.base.records import record

INVERSE_PI = 0.3183098861837907


@record
class Table:
    """What differs between float and double."""

    pi_parts: tuple[float, ...]
    """All positive, so that a zero keeps its sign."""
    bound: float
    """Above it the slow block serves."""
    sine: Coefficients
    """(sin r - r) / r^3 in r^2, for |r| <= pi/4."""
    cosine: Coefficients
    """(cos r - 1 + r^2/2) / r^4 in r^2, for |r| <= pi/4."""
    tangent: Coefficients
    """(tan r - r) / r^3 in r^2, for |r| <= pi/4."""


TABLES = {
    "float": Table(
        pi_parts=(3.141592502593994, 1.5099578831723193e-07, 1.0780605906948477e-14),
        bound=120000.0,
        sine=(-0.16666655242443085, 0.008332187309861183, -0.0001951791055034846),
        cosine=(0.04166664555668831, -0.0013887309469282627, 2.44323346123565e-05),
        tangent=(
            0.33333349227905273,
            0.1333267241716385,
            0.05405942350625992,
            0.021283050999045372,
            0.010836511850357056,
            8.593228267272934e-05,
            0.004379095043987036,
        ),
    ),
    "double": Table(
        pi_parts=(3.141592653589793, 1.224646799147353e-16, 2.165713347843828e-32),
        bound=2.0**30,
        sine=(
            -0.1666666666666663,
            0.008333333333321842,
            -0.00019841269829375403,
            2.7557313549965065e-06,
            -2.505073696717334e-08,
            1.5895622679905546e-10,
        ),
        cosine=(
            0.041666666666666595,
            -0.0013888888888873307,
            2.480158728896495e-05,
            -2.755731420289444e-07,
            2.0875703100191724e-09,
            -1.1358614282021955e-11,
        ),
        tangent=(
            0.3333333333333276,
            0.1333333333341709,
            0.05396825392549881,
            0.021869489636828245,
            0.008863218774255392,
            0.0035922925850507335,
            0.001454736711893735,
            0.0005951540841158022,
            0.0002221164091685909,
            0.00013706844722924914,
            -2.715222858924104e-05,
            9.015737068488506e-05,
            -4.5257784700376065e-05,
            2.0955107822810852e-05,
        ),
    ),
}

SHORT_PI = (
    3.1415926534682512,
    1.2154201012607932e-10,
    4.044532497422333e-21,
    1.69568553207378e-31,
)
"""Parts of 33 bits: their products with integers below 2^20 are exact in double."""
SHORT_BOUND = 1.6e6
"""Where products with `SHORT_PI` stop being exact."""


def bound_of(b: Body, x: Value) -> float:
    """The greatest |x| that the vector code reduces."""
    return TABLES[x.scalar].bound if b.features.fma else SHORT_BOUND


def reduced(b: Body, x: Value, count: Value) -> tuple[Value, Value]:
    """X - count pi/2 as an unevaluated sum of two values."""
    if b.features.fma:
        first, second, third = (-part / 2 for part in TABLES[x.scalar].pi_parts)
        upper = mad_const(b, count, first, x)
        product, error = two_product(b, count, b.fconst(x, second))
        r, low = two_sum(b, upper, product)
        return r, mad_const(b, count, third, b.op("fadd", low, error))
    first, second, third, fourth = (part / 2 for part in SHORT_PI)
    upper = b.op("fsub", x, mul_const(b, count, first))
    r, error = two_sum(b, upper, mul_const(b, count, -second))
    rest = mad_const(b, count, third, mul_const(b, count, fourth))
    return quick_two_sum(b, r, b.op("fsub", error, rest))


def reduced_once(b: Body, x: Value, count: Value) -> Value:
    """X - count pi/2 as one value."""
    if b.features.fma:
        for part in TABLES[x.scalar].pi_parts:
            x = mad_const(b, count, -part / 2, x)
        return x
    return reduced(b, x, count)[0]


def is_odd(b: Body, integer: Value, like: Value) -> Value:
    """Whether the integer's lowest bit is set; the shortest form for each kind of mask."""
    if b.features.masked:
        kept = b.op("and", integer, b.iconst(like, 1))
        return b.compare("icmp ne", kept, b.iconst(like, 0))
    moved = b.op("shl", integer, b.iconst(like, BITS[like.scalar] - 1))
    return b.compare("icmp slt", moved, b.iconst(like, 0))


def cosine_tail(b: Body, square: Value, coefficients: Coefficients) -> Value:
    """(cos r - 1) / r^2."""
    return mad_const_term(b, horner(b, square, coefficients), square, -0.5)


def patched(b: Body, x: Value, fast: Value, name: str) -> Value:
    """`fast`, or where |x| is beyond the bound, what `huge` finds."""
    return huge.patched(b, x, fast, bound_of(b, x), name)


def huge_module_text(name: str, features: Features) -> str:
    """The module of the shared function for huge arguments of "sin", "cos" or "tan"."""
    table = TABLES["double"]
    fields = {"sine": table.sine, "cosine": table.cosine, "tangent": table.tangent}
    return huge.module_text(name, features, fields)


shared_functions.register(shared_functions.HUGE, huge_module_text)


def sine_or_cosine(b: Body, x: Value, name: str) -> Value:
    """Both functions' polynomials on |r| <= pi/4, the quadrant to choose and to sign.

    The quadrant's lowest bit swaps them and its second is the sign. For cosine one is added to it.
    """
    table = TABLES[x.scalar]
    cosine = name == "cos"
    size = absolute(b, x)
    rounded = round_scaled(b, size, 2.0 * INVERSE_PI, 1 if cosine else 0)
    r = reduced_once(b, size, rounded.number)
    square = b.op("fmul", r, r)
    sine = mad(b, horner(b, square, table.sine), b.op("fmul", square, r), r)
    other = mad_const_term(b, cosine_tail(b, square, table.cosine), square, 1.0)
    value = b.select(is_odd(b, rounded.bits, x), other, sine)
    width = BITS[x.scalar]
    sign = b.op("shl", rounded.bits, b.iconst(x, width - 2))
    if not cosine:
        sign = b.op("xor", sign, b.as_integer(x))
    sign = b.op("and", sign, b.iconst(x, 1 << (width - 1)))
    signed = b.as_float(b.op("xor", sign, b.as_integer(value)))
    return patched(b, x, signed, name)


@fma_or_double
def sin(b: Body, x: Value) -> Value:
    """Sine, from |x| so that -0.0 stays."""
    return sine_or_cosine(b, x, "sin")


@fma_or_double
def cos(b: Body, x: Value) -> Value:
    """Cosine."""
    return sine_or_cosine(b, x, "cos")


@fma_or_double
def tan(b: Body, x: Value) -> Value:
    """Tangent: tan r, or -1 / tan r in odd quadrants, with r as a sum of two values."""
    size = absolute(b, x)
    rounded = round_scaled(b, size, 2.0 * INVERSE_PI, 0)
    r, low = reduced(b, size, rounded.number)
    square = b.op("fmul", r, r)
    cube = b.op("fmul", square, r)
    low = mad(b, low, square, low)  # times the derivative, 1 + tan^2 r
    tail = mad(b, polynomial(b, square, TABLES[x.scalar].tangent), cube, low)
    value = b.op("fadd", r, tail)
    inverse = b.op("fdiv", b.fconst(x, 1.0), value)
    value = b.select(is_odd(b, rounded.bits, x), inverse, value)
    width = BITS[x.scalar]
    sign = b.op("shl", rounded.bits, b.iconst(x, width - 1))
    sign = b.op("xor", sign, b.op("and", b.as_integer(x), b.iconst(x, 1 << (width - 1))))
    return patched(b, x, b.as_float(b.op("xor", sign, b.as_integer(value))), "tan")
