"""sin, cos and tan of huge doubles, as scalar helper functions of the module.

Method: x = m 2^e with an integer m; the product of m and those 192 bits of 2/pi that matter for e,
modulo 4, is the quadrant and the fraction, to 128 bits (Payne and Hanek, ACM SIGNUM Newsletter 18,
1983; Muller, Elementary Functions, 3rd edition, 2016, section 11.4). C libraries do the same, but
one in common use is 8 ulp off for the double that is closest to a multiple of pi/2.
"""

from __future__ import annotations

from itertools import pairwise

from fuser.backends.cpu.body import Body, Module, Value
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    absolute,
    add_const,
    horner,
    mad,
    mad_const,
    mad_const_term,
    mul_const,
    polynomial,
    quick_two_sum,
    two_product,
)

TWO_OVER_PI = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)
"""64 zero bits, then the first 1216 bits of 2/pi."""
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)


def helper(module: Module, name: str, tables: dict[str, Coefficients]) -> str:
    """Define `name` ("sin", "cos" or "tan") for finite |x| > 2^24, once a module.

    Args:
        module: where the function goes.
        name: which function.
        tables: the polynomials on |r| <= pi/4, by field name.

    Returns:
        The function's symbol.
    """
    symbol = f"huge.{name}"
    if symbol in module.helpers:
        return symbol
    words = ", ".join(f"i64 {word - (word >> 63 << 64)}" for word in TWO_OVER_PI)
    size = len(TWO_OVER_PI)
    module.helpers["huge.table"] = f"@huge.table = internal constant [{size} x i64] [{words}]"
    b = Body(module)
    x = Value("%x", "double", 1)
    quadrant, r, low = fraction_times_half_pi(b, *significand(b, x))
    if name == "cos":
        quadrant = b.op("add", quadrant, b.iconst(x, 1))
    odd = b.compare("icmp ne", b.op("and", quadrant, b.iconst(x, 1)), b.iconst(x, 0))
    square = b.op("fmul", r, r)
    cube = b.op("fmul", square, r)
    if name == "tan":
        low = mad(b, low, square, low)
        value = b.op("fadd", r, mad(b, polynomial(b, square, tables["tangent"]), cube, low))
        value = b.select(odd, b.op("fdiv", b.fconst(x, -1.0), value), value)
        value = signed(b, value, x)
    else:
        sine = b.op("fadd", r, mad(b, horner(b, square, tables["sine"]), cube, low))
        tail = mad_const_term(b, horner(b, square, tables["cosine"]), square, -0.5)
        shift = b.op("fmul", r, b.op("fneg", low))
        cosine = add_const(b, mad(b, tail, square, shift), 1.0)
        value = b.select(odd, cosine, sine)
        half_turn = b.op("shl", b.op("lshr", quadrant, b.iconst(x, 1)), b.iconst(x, 63))
        value = b.as_float(b.op("xor", b.as_integer(value), half_turn))
        if name == "sin":
            value = signed(b, value, x)
    finite = b.compare("fcmp olt", absolute(b, x), b.fconst(x, float("inf")))
    value = b.select(finite, value, b.fconst(x, float("nan")))
    # Rarely run, so compiled in the quickest way.
    head = f"define internal double @{symbol}(double %x) noinline optnone #0 {{\nentry:"
    module.helpers[symbol] = "\n".join([head, *b.lines, f"  ret {value.typed}", "}"])
    return symbol


def signed(b: Body, value: Value, x: Value) -> Value:
    """`value`, negated where x is negative."""
    sign = b.op("and", b.as_integer(x), b.iconst(x, 1 << 63))
    return b.as_float(b.op("xor", b.as_integer(value), sign))


def significand(b: Body, x: Value) -> tuple[Value, list[Value]]:
    """The integer m of |x| = m 2^e, and the three words of 2/pi that start with the weight 2."""
    bits = b.as_integer(x)
    field = b.op("and", b.op("lshr", bits, b.iconst(x, 52)), b.iconst(x, 0x7FF))
    m = b.op("and", bits, b.iconst(x, (1 << 52) - 1))
    m = b.op("or", m, b.iconst(x, 1 << 52))
    place = b.op("sub", field, b.iconst(x, 1075 - 62))
    # Infinity and NaN, whose result is replaced, must not read beyond the table.
    place = b.intrinsic("llvm.umin", place, b.iconst(x, 62 + 971))
    first = b.op("lshr", place, b.iconst(x, 6))
    shift = b.op("and", place, b.iconst(x, 63))
    words = []
    for k in range(4):
        index = b.op("add", first, b.iconst(x, k))
        pointer = b.fresh()
        b.line(f"{pointer} = getelementptr i64, ptr @huge.table, i64 {index.text}")
        words.append(b.value(f"load i64, ptr {pointer}, align 8", "i64", 1))
    pairs = pairwise(words)
    return m, [b.intrinsic("llvm.fshl", left, right, shift) for left, right in pairs]


def fraction_times_half_pi(b: Body, m: Value, words: list[Value]) -> tuple[Value, Value, Value]:
    """The quadrant of m times the words, and the rest times pi/2 as a sum of two values."""
    first, second, third = product(b, m, words)
    quadrant = b.op("lshr", first, b.iconst(first, 62))
    two = b.iconst(first, 2)
    upper = b.intrinsic("llvm.fshl", first, second, two)
    lower = b.intrinsic("llvm.fshl", second, third, two)
    # From one half on, the next quadrant and a negative rest; its size is the complement.
    negative = b.op("ashr", upper, b.iconst(upper, 63))
    quadrant = b.op("sub", quadrant, negative)
    upper, lower = b.op("xor", upper, negative), b.op("xor", lower, negative)
    # 53, 11 and 53 bits, each exact; the last two count where the first are zeros.
    high = b.cast("sitofp", b.op("and", upper, b.iconst(upper, -1 << 11)), "double")
    middle = b.cast("sitofp", b.op("and", upper, b.iconst(upper, (1 << 11) - 1)), "double")
    low = b.cast("sitofp", b.op("lshr", lower, b.iconst(lower, 11)), "double")
    middle, low = quick_two_sum(b, middle, mul_const(b, low, 2.0**-53))
    high, error = quick_two_sum(b, high, middle)
    low = b.op("fadd", error, low)
    is_negative = b.compare("icmp slt", negative, b.iconst(negative, 0))
    unit = b.select(is_negative, b.fconst(high, -(2.0**-64)), b.fconst(high, 2.0**-64))
    high, low = b.op("fmul", high, unit), b.op("fmul", low, unit)
    r, error = two_product(b, high, b.fconst(high, HALF_PI[0]))
    error = mad_const(b, high, HALF_PI[1], mad_const(b, low, HALF_PI[0], error))
    return quadrant, r, error


def product(b: Body, m: Value, words: list[Value]) -> tuple[Value, Value, Value]:
    """The lowest 192 bits of m times the three words, highest first."""

    def wide(text: str) -> str:
        return b.value(text, "i128", 1).text

    def narrow(text: str) -> Value:
        return b.value(f"trunc i128 {text} to i64", "i64", 1)

    factor = wide(f"zext i64 {m.text} to i128")
    last = wide(f"mul i128 {wide(f'zext i64 {words[2].text} to i128')}, {factor}")
    middle = wide(f"mul i128 {wide(f'zext i64 {words[1].text} to i128')}, {factor}")
    middle = wide(f"add i128 {middle}, {wide(f'lshr i128 {last}, 64')}")
    first = b.op("mul", words[0], m)
    first = b.op("add", first, narrow(wide(f"lshr i128 {middle}, 64")))
    return first, narrow(middle), narrow(last)
