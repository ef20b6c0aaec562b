"""sin, cos and tan of huge numbers, one by one, in functions that all kernels share.

Method: x = m 2^e with an integer m; the product of m and those 192 bits of 2/pi that matter for e,
modulo 4, is the quadrant and the fraction, to 128 bits (Payne and Hanek, ACM SIGNUM Newsletter 18,
1983; Muller, Elementary Functions, 3rd edition, 2016, section 11.4). C libraries do the same, but
one in common use is 8 ulp off for the double that is closest to a multiple of pi/2. Floats are
computed in double, and rounded once.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Features, Module, Value
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
from fuser.backends.cpu.shared_functions import HUGE

TWO_OVER_PI = (
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
"""The first 1216 bits of 2/pi."""
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
#: Bits of 2/pi that matter for one exponent, zeros before them, and words of 64 bits of them all.
_BITS, _ZEROS, _WORDS = 192, 64, 21


def patched(b: Body, x: Value, fast: Value, bound: float, name: str) -> Value:
    """`fast`, but in lanes with |x| above the bound the function by as many digits as it takes.

    Args:
        b: where to append.
        x: the arguments, float or double.
        fast: the value of the other lanes.
        bound: see above, 2^16 or more.
        name: "sin", "cos" or "tan".
    """
    beyond = b.compare("fcmp ogt", absolute(b, x), b.fconst(x, bound))
    return b.slow_lanes(beyond, fast, f"{HUGE}{name}_{x.scalar}", x)


def module_text(symbol: str, features: Features, tables: dict[str, Coefficients]) -> str:
    """The shared function of finite |x| >= 2^16; NaN of others, or anything that is of no use.

    Args:
        symbol: which function, of which type: "sin_float".
        features: what the processor can do.
        tables: the polynomials on |r| <= pi/4, by field name.
    """
    name, scalar = symbol.split("_")
    module = Module(features)
    whole = 0
    for word in TWO_OVER_PI:
        whole = whole << 64 | word
    words = [whole >> 64 * k & ((1 << 64) - 1) for k in range(_WORDS)]
    listed = ", ".join(f"i64 {word - (word >> 63 << 64)}" for word in words)
    module.helpers["huge.table"] = f"@huge.table = internal constant [{_WORDS} x i64] [{listed}]"
    b = Body(module)
    x = Value("%x", scalar, 1)
    result = _function(b, x if scalar == "double" else b.cast("fpext", x, "double"), name, tables)
    if scalar != "double":
        result = b.cast("fptrunc", result, scalar)
    head = f"define {scalar} @{HUGE}{symbol}({x.typed}) #0 {{\nentry:"
    module.functions.append("\n".join([head, *b.lines, f"  ret {result.typed}", "}"]))
    return module.text()


def _function(b: Body, x: Value, name: str, tables: dict[str, Coefficients]) -> Value:
    """The function of a double."""
    quadrant, r, low = fraction_times_half_pi(b, x)
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
    return b.select(finite, value, b.fconst(x, float("nan")))


def signed(b: Body, value: Value, x: Value) -> Value:
    """`value`, negated where x is negative."""
    sign = b.op("and", b.as_integer(x), b.iconst(x, 1 << 63))
    return b.as_float(b.op("xor", b.as_integer(value), sign))


def fraction_times_half_pi(b: Body, x: Value) -> tuple[Value, Value, Value]:
    """The quadrant of |x|, and what is left of it as a sum of two values."""
    bits = b.as_integer(x)
    field = b.op("and", b.op("lshr", bits, b.iconst(x, 52)), b.iconst(x, 0x7FF))
    m = b.op("and", bits, b.iconst(x, (1 << 52) - 1))
    m = b.op("or", m, b.iconst(x, 1 << 52))
    # Counted from the last bit: the highest has the weight 2 in the product. Infinity, NaN and
    # small numbers, whose results are replaced, must not read beyond the table.
    most = 64 * len(TWO_OVER_PI) + _ZEROS - _BITS
    behind = b.op("sub", b.iconst(x, most + 1075 - 62), field)
    behind = b.intrinsic("llvm.umin", behind, b.iconst(x, most))
    byte = b.op("lshr", behind, b.iconst(x, 3))
    at = b.value(f"getelementptr i8, ptr @huge.table, {byte.typed}", "ptr", 1).text
    window = b.value(f"load i256, ptr {at}, align 1", "i256", 1)
    shift = b.cast("zext", b.op("and", behind, b.iconst(x, 7)), "i256")
    window = b.value(f"lshr {window.typed}, {shift.text}", "i256", 1)
    window = b.value(f"trunc {window.typed} to i192", "i192", 1)
    whole = b.value(f"mul {window.typed}, {b.cast('zext', m, 'i192').text}", "i192", 1)
    quadrant, upper, lower = (
        b.cast("trunc", b.value(f"lshr {whole.typed}, {down}", "i192", 1), "i64")
        for down in (190, 126, 62)
    )
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
