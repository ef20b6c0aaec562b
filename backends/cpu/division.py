"""Quotients of many doubles by one divisor: one true division, then products that round alike.

With r = RN(1/b), once: q = RN(a r), e = RN(a - q b), RN(q + e r) is RN(a/b), one multiplication and
two FMAs for a vector (Markstein, Computation of elementary functions on the IBM RISC System/6000
processor, 1990; Cornea, Harrison and Tang, Scientific Computing on Itanium-based Systems, 2002;
Brisebarre, Muller and Raina, Accelerating correctly rounded floating-point division when the
divisor is known in advance, 2004). q is less than 3/2 ulp from a/b, and that suffices because r is
correctly rounded. Exponents must be such that r and q are normal numbers and that no bit of e, a
multiple of ulp(q) ulp(b), lies below the least subnormal number: b and |a| have a range each, and
zeros are right too. A vector with another dividend, or by another divisor, is divided truly.
One comparison tells that all dividends are in range; only where one is not, zeros are told apart.

AVX-512 divides 8 doubles in 16 cycles (an AMD EPYC in 9); this takes about 5. Measured: rows of 64
floats would be slower with it, 16 of which divide in 10 cycles (EPYC: 6), and so would be AVX2,
which divides 4 doubles in 8.
"""

from __future__ import annotations

from typing import NamedTuple

from fuser.backends.cpu.body import Body, Features, Value
from fuser.codegen import Instruction

_BIAS, _MANTISSA_BITS, _SIGN_BIT = 1023, 52, 1 << 63


def _bits(exponent: int) -> int:
    """The bits of a power of two."""
    return (exponent + _BIAS) << _MANTISSA_BITS


#: Bits of the least and largest b and |a|, the latter excluded: q is from 2^-1021 to 2^1021.
DIVISORS = (_bits(-400), _bits(400))
DIVIDENDS = (_bits(-620), _bits(620))
#: What the bits of dividends are counted from where the divisor is out of its range.
_NOWHERE = DIVIDENDS[0] + _SIGN_BIT
_SPAN = DIVIDENDS[1] - DIVIDENDS[0]


class Divisor(NamedTuple):
    """What is known of a divisor before the loop, in every lane."""

    b: Value
    reciprocal: Value
    lowest: Value
    """What the bits of |a| are counted from: none is in the range where b is not in its own."""


def is_served(features: Features) -> bool:
    """Whether a processor gains: with FMA, vectors of 8 doubles, and masks to compare into."""
    return features.fma and features.masked and features.vector_bytes >= 64


def is_shared(instruction: Instruction, levels: dict[int, int] | list[int]) -> bool:
    """Whether an instruction divides elements (levels 2, 3) by what is the same in their loop."""
    return (
        instruction.row.is_quotient
        and instruction.operand_dtype == "float64"
        and levels[instruction.operands[0]] >= 2
        and levels[instruction.operands[1]] < 2
    )


def lowest_of(b: Body, divisor: Value) -> Value:
    """What the bits of dividends are counted from, by divisors.

    Negative divisors are out of range: of 0.0 by them the sign would be wrong.

    Args:
        b: where to append.
        divisor: doubles, one or several.
    """
    bits = b.as_integer(divisor)
    least, most = DIVISORS
    above = b.op("sub", bits, b.iconst(bits, least))
    good = b.compare("icmp ult", above, b.iconst(bits, most - least))
    return b.select(good, b.iconst(bits, DIVIDENDS[0]), b.iconst(bits, _NOWHERE))


def prepare(b: Body, divisor: Value, lanes: int, reciprocal: Value | None = None) -> Divisor:
    """What is computed of one divisor before the loop.

    Args:
        b: where to append; its processor has FMA.
        divisor: a double, one lane, or as many as dividends have: each its own divisor.
        lanes: of the dividends.
        reciprocal: of the divisor, where it is known.
    """
    if reciprocal is None:
        reciprocal = b.op("fdiv", b.fconst(divisor, 1.0), divisor)
    known = (divisor, reciprocal, lowest_of(b, divisor))
    return Divisor(*(b.splat(each, lanes) for each in known))


def divide(b: Body, dividend: Value, by: Divisor) -> Value:
    """The quotients of one vector, each correctly rounded.

    The remainder is formed with its sign turned, so that -0.0 / b is -0.0.
    """
    quotient = b.op("fmul", dividend, by.reciprocal)
    excess = b.fma(quotient, by.b, b.op("fneg", dividend))
    rounded = b.fma(b.op("fneg", excess), by.reciprocal, quotient)
    size = b.as_integer(b.intrinsic("llvm.fabs", dividend))
    place = b.op("sub", size, by.lowest)
    outside = b.compare("icmp uge", place, b.iconst(place, _SPAN))
    rare, slow, join = b.label("outside"), b.label("divide"), b.label("divided")
    before, some = b.block, b.any(outside)
    b.branch(some.text, rare, join)
    zero = b.op("sub", by.lowest, b.iconst(by.lowest, DIVIDENDS[0]))  # or no |a| at all
    true_ones = b.any(b.op("and", outside, b.compare("icmp ne", size, zero)))
    b.branch(true_ones.text, slow, join)
    true = b.op("fdiv", dividend, by.b)
    b.jump(join)
    text = (
        f"phi {true.type} [ {rounded.text}, %{before} ], [ {rounded.text}, %{rare} ], "
        f"[ {true.text}, %{slow} ]"
    )
    return b.value(text, true.scalar, true.lanes)
