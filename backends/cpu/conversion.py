"""Conversions between dtypes, float16 rounding, and work on the bits of floats."""

from __future__ import annotations

import numpy as np

from fuser.backends.cpu.body import BITS, Body, Value, float_bits, literal
from fuser.ir.ops import HALF_NEXTAFTER_GIVES_FIRST

#: NumPy dtype name -> the scalar LLVM type that a register holds it in.
REGISTER = {
    "bool": "i1",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": "float",
    "float32": "float",
    "float64": "double",
}
#: NumPy dtype name -> the scalar LLVM type that memory holds it in.
MEMORY = {**REGISTER, "bool": "i8", "float16": "i16"}


def bytes_of(dtype: str) -> int:
    """How many bytes of memory one element has."""
    return BITS[MEMORY[dtype]] // 8


def convert(b: Body, x: Value, source: str, target: str) -> Value:
    """Convert a register from one NumPy dtype to another, as NumPy's casts do.

    Floats out of an integer's range give an unspecified value, as in C and in NumPy.
    """
    if source == target:
        return x
    if target == "bool":
        return _to_bool(b, x)
    if source == "bool":
        if "int" in target:
            return b.cast("zext", x, REGISTER[target])
        ends = [b.constant_bits(REGISTER[target], x.lanes, float_bits(REGISTER[target], value))
                for value in (1.0, 0.0)]  # fmt: skip
        return b.select(x, *ends)
    if "float" in source:
        return _from_float(b, x, source, target)
    return _from_integer(b, x, source, target)


def _to_bool(b: Body, x: Value) -> Value:
    """Not zero; NaN is true."""
    if x.scalar in ("float", "double"):
        return b.compare("fcmp une", x, b.fconst(x, 0.0))
    return b.compare("icmp ne", x, b.iconst(x, 0))


def _from_integer(b: Body, x: Value, source: str, target: str) -> Value:
    """Integers to integers (wrapping) or floats (rounded once)."""
    unsigned = source.startswith("u")
    if "int" in target:
        before, after = BITS[x.scalar], BITS[REGISTER[target]]
        if before == after:
            return x
        if before > after:
            return b.cast("trunc", x, REGISTER[target])
        return b.cast("zext" if unsigned else "sext", x, REGISTER[target])
    name = "uitofp" if unsigned else "sitofp"
    if target == "float16":  # NumPy converts through float32 below 32 bits, float64 from there
        return round_half(b, b.cast(name, x, "float" if BITS[x.scalar] <= 16 else "double"))
    return b.cast(name, x, REGISTER[target])


def _from_float(b: Body, x: Value, source: str, target: str) -> Value:
    """Floats to floats, or to integers towards zero."""
    if target == "float16":
        return round_half(b, x)
    if "float" in target:
        if x.scalar == REGISTER[target]:
            return x
        return b.cast("fpext" if x.scalar == "float" else "fptrunc", x, REGISTER[target])
    bits = BITS[REGISTER[target]]
    if target == "uint64":
        return _to_uint64(b, x)
    # C converts narrow integers through int; out of range that wraps where the hardware wraps.
    wide = "i64" if bits == 64 or target == "uint32" else "i32"
    whole = _frozen(b, b.cast("fptosi", x, wide))
    return whole if wide == REGISTER[target] else b.cast("trunc", whole, REGISTER[target])


def _to_uint64(b: Body, x: Value) -> Value:
    """By way of int64, as compilers for x86-64 do it: negative numbers wrap."""
    limit = b.fconst(x, 2.0**63)
    high = b.compare("fcmp oge", x, limit)
    near = b.select(high, b.op("fsub", x, limit), x)
    whole = _frozen(b, b.cast("fptosi", near, "i64"))
    return b.select(high, b.op("xor", whole, b.iconst(whole, 1 << 63)), whole)


def _frozen(b: Body, x: Value) -> Value:
    """An out-of-range conversion is poison in LLVM: make it some fixed value instead."""
    return b.value(f"freeze {x.typed}", x.scalar, x.lanes)


def from_memory(b: Body, raw: Value, dtype: str) -> Value:
    """From the type in memory to the type in registers."""
    if dtype == "bool":
        return b.compare("icmp ne", raw, b.iconst(raw, 0))
    return load_half(b, raw) if dtype == "float16" else raw


def to_memory(b: Body, value: Value, dtype: str) -> Value:
    """From the type in registers to the type in memory."""
    if dtype == "bool":
        return b.cast("zext", value, "i8")
    return store_half(b, value) if dtype == "float16" else value


def constant(dtype: str, bits: int) -> Value:
    """A constant of one lane in its register type."""
    if dtype == "float16":
        wide = np.uint16(bits).view(np.float16)
        return Value(literal("float", float_bits("float", float(wide))), "float", 1)
    return Value(literal(REGISTER[dtype], bits), REGISTER[dtype], 1)


# -- float16 --------------------------------------------------------------------------------


def load_half(b: Body, bits: Value) -> Value:
    """float16 bits (i16) to a float register; exact."""
    if b.features.f16c:
        return b.cast("fpext", b.as_float(bits), "float")
    wide = b.cast("zext", bits, "i32")
    sign = b.op("shl", b.op("and", wide, b.iconst(wide, 0x8000)), b.iconst(wide, 16))
    rest = b.op("shl", b.op("and", wide, b.iconst(wide, 0x7FFF)), b.iconst(wide, 13))
    # Scaling by 2**112 moves the exponent's bias and normalises subnormals.
    scaled = b.op("fmul", b.as_float(rest), b.fconst(Value("", "float", bits.lanes), 2.0**112))
    special = b.compare("icmp uge", rest, b.iconst(wide, 0x7C00 << 13))
    inf_nan = b.op("or", rest, b.iconst(wide, 0x7F800000))
    body = b.select(special, inf_nan, b.as_integer(scaled))
    return b.as_float(b.op("or", body, sign))


def store_half(b: Body, x: Value) -> Value:
    """A float or double register to float16 bits (i16), rounded to nearest even."""
    x = to_odd_float(b, x)
    if b.features.f16c:
        half = b.cast("fptrunc", x, "half")
        return b.as_integer(half)
    return _soft_half(b, x)


def round_half(b: Body, x: Value) -> Value:
    """A float or double register rounded to a float16 number, kept in a float register."""
    return load_half(b, store_half(b, x))


def to_odd_float(b: Body, x: Value) -> Value:
    """double to float rounded to odd, so that rounding again to float16 is exact.

    Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms
    using rounding to odd", IEEE Transactions on Computers 57(4), 2008.
    """
    if x.scalar == "float":
        return x
    near = b.cast("fptrunc", x, "float")
    back = b.cast("fpext", near, "double")
    bits = b.as_integer(near)
    size, wanted = b.intrinsic("llvm.fabs", back), b.intrinsic("llvm.fabs", x)
    up = b.cast("zext", b.compare("fcmp ogt", size, wanted), "i32")
    down = b.op("sub", bits, up)  # towards zero
    inexact = b.compare("fcmp one", size, wanted)
    odd = b.op("or", down, b.iconst(bits, 1))
    finite = b.compare("fcmp olt", wanted, b.fconst(x, float("inf")))
    use = b.op("and", inexact, finite)
    return b.as_float(b.select(use, odd, bits))


def _soft_half(b: Body, x: Value) -> Value:
    """float to float16 bits with integer arithmetic and one float addition.

    Numbers that are subnormal in float16 are rounded by adding a constant whose last place is
    float16's smallest step; others by adding half a step, and one less on ties to odd.
    """
    bits = b.as_integer(x)
    size = b.op("and", bits, b.iconst(bits, 0x7FFFFFFF))
    sign = b.op("lshr", b.op("xor", bits, size), b.iconst(bits, 16))
    magic = b.fconst(x, 0.5)
    small = b.op("sub", b.as_integer(b.op("fadd", b.as_float(size), magic)), b.as_integer(magic))
    odd = b.op("and", b.op("lshr", size, b.iconst(bits, 13)), b.iconst(bits, 1))
    bias = b.iconst(bits, ((15 - 127) << 23) + 0xFFF)
    normal = b.op("lshr", b.op("add", b.op("add", size, bias), odd), b.iconst(bits, 13))
    is_small = b.compare("icmp ult", size, b.iconst(bits, 113 << 23))
    finite = b.select(is_small, small, normal)
    too_large = b.compare("icmp uge", size, b.iconst(bits, 143 << 23))
    is_nan = b.compare("icmp ugt", size, b.iconst(bits, 0x7F800000))
    special = b.select(is_nan, b.iconst(bits, 0x7E00), b.iconst(bits, 0x7C00))
    result = b.op("or", b.select(too_large, special, finite), sign)
    return b.cast("trunc", result, "i16")


# -- bits -----------------------------------------------------------------------------------


def nextafter(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """The next number from x towards y in x's own precision; of equals what this NumPy gives."""
    half = dtype == "float16"
    if half:
        step = _next_bits(b, store_half(b, x), b.compare("fcmp ogt", y, x))
        moved = load_half(b, step)
        smallest = b.fconst(x, 2.0**-24)
    else:
        moved = b.as_float(_next_bits(b, b.as_integer(x), b.compare("fcmp ogt", y, x)))
        smallest = b.as_float(b.iconst(x, 1))
    zero = b.fconst(x, 0.0)
    from_zero = b.intrinsic("llvm.copysign", smallest, y)
    moved = b.select(b.compare("fcmp oeq", x, zero), from_zero, moved)
    equal = x if half and HALF_NEXTAFTER_GIVES_FIRST else y
    moved = b.select(b.compare("fcmp oeq", x, y), equal, moved)
    return b.select(b.compare("fcmp uno", x, y), b.op("fadd", x, y), moved)


def _next_bits(b: Body, bits: Value, up: Value) -> Value:
    """Bits one step up or down; away from zero the bits grow."""
    negative = b.compare("icmp slt", bits, b.iconst(bits, 0))
    grow = b.op("xor", up, negative)
    one, back = b.iconst(bits, 1), b.iconst(bits, -1)
    return b.op("add", bits, b.select(grow, one, back))


def spacing(b: Body, dtype: str, x: Value) -> Value:
    """The distance to the next number, as NumPy's.

    That is upwards in float16, so never negative; else away from zero, with x's sign; but
    positive for both zeros.
    """
    if dtype == "float16":
        bits = store_half(b, x)
        negative = b.compare("icmp slt", bits, b.iconst(bits, 0))
        step = b.select(negative, b.iconst(bits, -1), b.iconst(bits, 1))
        other = load_half(b, b.op("add", bits, step))
        smallest = b.fconst(x, 2.0**-24)
    else:
        bits = b.as_integer(x)
        other = b.as_float(b.op("add", bits, b.iconst(bits, 1)))
        smallest = b.as_float(b.iconst(x, 1))
    distance = b.op("fsub", other, x)
    distance = b.select(b.compare("fcmp oeq", x, b.fconst(x, 0.0)), smallest, distance)
    infinite = b.compare("fcmp oeq", b.intrinsic("llvm.fabs", x), b.fconst(x, float("inf")))
    distance = b.select(infinite, b.fconst(x, float("nan")), distance)
    return b.select(b.compare("fcmp uno", x, x), x, distance)


def _scaled_parts(b: Body, x: Value) -> tuple[Value, Value, Value]:
    """Bits of |x| made normal, the exponent that this added, and where x is special or zero."""
    tiny = b.fconst(x, 2.0**-126 if x.scalar == "float" else 2.0**-1022)
    up = 2.0**64
    small = b.compare("fcmp olt", b.intrinsic("llvm.fabs", x), tiny)
    scaled = b.select(small, b.op("fmul", x, b.fconst(x, up)), x)
    size = b.intrinsic("llvm.fabs", x)
    ordinary = b.op(
        "and",
        b.compare("fcmp olt", size, b.fconst(x, float("inf"))),
        b.compare("fcmp ogt", size, b.fconst(x, 0.0)),
    )
    added = b.select(small, b.iconst(x, 64), b.iconst(x, 0))
    return b.as_integer(scaled), added, ordinary


def frexp_mantissa(b: Body, dtype: str, x: Value) -> Value:
    """The fraction in [0.5, 1) with x's sign; special values and zero are themselves."""
    bits, _, ordinary = _scaled_parts(b, x)
    single = x.scalar == "float"
    keep = 0x807FFFFF if single else 0x800FFFFFFFFFFFFF
    half = 0x3F000000 if single else 0x3FE0000000000000
    parts = b.op("or", b.op("and", bits, b.iconst(x, keep)), b.iconst(x, half))
    return b.select(ordinary, b.as_float(parts), x)


def frexp_exponent(b: Body, dtype: str, x: Value) -> Value:
    """The power of two that belongs to the fraction, as int32; 0 for special values."""
    bits, added, ordinary = _scaled_parts(b, x)
    single = x.scalar == "float"
    place, mask, bias = (23, 0xFF, 126) if single else (52, 0x7FF, 1022)
    field = b.op("and", b.op("lshr", bits, b.iconst(x, place)), b.iconst(x, mask))
    power = b.op("sub", b.op("sub", field, b.iconst(x, bias)), added)
    power = b.select(ordinary, power, b.iconst(x, 0))
    return power if single else b.cast("trunc", power, "i32")
