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
    head = f"define internal double @{symbol}(double %x) noinline #0 {{\nentry:"
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

    def wide(text: str) -> Value:
        return b.value(text, "i128", 1)

    factor = wide(f"zext i64 {m.text} to i128")
    last = wide(f"zext i64 {words[2].text} to i128")
    last = wide(f"mul i128 {last.text}, {factor.text}")
    middle = wide(f"zext i64 {words[1].text} to i128")
    middle = wide(f"mul i128 {middle.text}, {factor.text}")
    carried = wide(f"lshr i128 {last.text}, 64")
    middle = wide(f"add i128 {middle.text}, {carried.text}")
    top = wide(f"mul i128 {wide(f'zext i64 {words[0].text} to i128').text}, {factor.text}")
    top = wide(f"shl i128 {top.text}, 64")
    # 128 bits of the product modulo 4: two for the quadrant, then the fraction.
    product = wide(f"add i128 {top.text}, {middle.text}")
    quadrant = wide(f"lshr i128 {product.text}, 126")
    third = b.value(f"trunc i128 {last.text} to i64", "i64", 1)
    third = wide(f"zext i64 {b.op('lshr', third, b.iconst(third, 62)).text} to i128")
    fraction = wide(f"shl i128 {product.text}, 2")
    fraction = wide(f"or i128 {fraction.text}, {third.text}")
    # From one half on, the next quadrant and a negative rest.
    negative = wide(f"ashr i128 {fraction.text}, 127")
    positive = wide(f"xor i128 {fraction.text}, {negative.text}")
    zeros = b.intrinsic("llvm.ctlz", positive, immediates=("i1 false",))
    scaled = wide(f"shl i128 {positive.text}, {zeros.text}")
    quadrant = wide(f"sub i128 {quadrant.text}, {negative.text}")
    turn = b.value(f"trunc i128 {quadrant.text} to i64", "i64", 1)
    high = to_double(b, wide(f"lshr i128 {scaled.text}, 75"))
    below = wide(f"lshr i128 {wide(f'shl i128 {scaled.text}, 53').text}, 75")
    low = mul_const(b, to_double(b, below), 2.0**-53)
    exponent = b.value(f"trunc i128 {zeros.text} to i64", "i64", 1)
    exponent = b.op("sub", b.iconst(exponent, 1023 - 53), exponent)
    unit = b.op("shl", exponent, b.iconst(exponent, 52))
    flipped = b.value(f"trunc i128 {negative.text} to i64", "i64", 1)
    unit = b.op("or", unit, b.op("shl", flipped, b.iconst(flipped, 63)))
    scale = b.as_float(unit)
    high, low = b.op("fmul", high, scale), b.op("fmul", low, scale)
    r, error = two_product(b, high, b.fconst(high, HALF_PI[0]))
    error = mad_const(b, high, HALF_PI[1], mad_const(b, low, HALF_PI[0], error))
    return turn, r, error


def to_double(b: Body, integer: Value) -> Value:
    """An integer below 2^53 as a double."""
    narrow = b.value(f"trunc i128 {integer.text} to i64", "i64", 1)
    return b.cast("sitofp", narrow, "double")
