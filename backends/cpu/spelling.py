"""How the CPU backend spells each row of the op table: LLVM IR text for one vector of elements.

Registers hold bool as i1, integers at their own width, float32 and float64 as such, and float16
as a float that is rounded to float16 after every operation (as NumPy computes).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import BITS, Body, Value
from fuser.backends.cpu.elementary.table import ELEMENTARY
from fuser.backends.cpu.integers import floor_division, gcd, integer_power, lcm, remainder
from fuser.errors import Unsupported

#: (body, dtype name of the operands, operands) -> result
Spelling = Callable[..., Value]

#: C library functions by row; the float form has the suffix f.
LIBM = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "cbrt": "cbrt", "hypot": "hypot", "erf": "erf", "erfc": "erfc", "lgamma": "lgamma",
    "power": "pow", "fmod": "fmod",
}  # fmt: skip


def function(name: str) -> Spelling:
    """An elementary function: our own vector form where there is one, else the C library."""

    def spell(b: Body, dtype: str, *operands: Value) -> Value:
        own = ELEMENTARY.get(name)
        if own is not None:
            return own(b, *operands)
        return libm(b, name, *operands)

    return spell


def libm(b: Body, name: str, *operands: Value) -> Value:
    """Call the C library once a lane."""
    suffix = "f" if operands[0].scalar == "float" else ""
    return b.lanewise(LIBM[name] + suffix, operands[0].scalar, *operands)


def plain(name: str) -> Spelling:
    """One instruction."""
    return lambda b, dtype, *operands: b.op(name, *operands)


def compare(predicate: str) -> Spelling:
    """One comparison."""
    return lambda b, dtype, x, y: b.compare(predicate, x, y)


def intrinsic(name: str) -> Spelling:
    """One intrinsic."""
    return lambda b, dtype, *operands: b.intrinsic(name, *operands)


def same(b: Body, dtype: str, x: Value) -> Value:
    """The operand itself."""
    return x


def always(answer: bool) -> Spelling:
    """A constant truth."""
    return lambda b, dtype, x: b.constant_bits("i1", x.lanes, int(answer))


def _is_nan(b: Body, x: Value) -> Value:
    return b.compare("fcmp uno", x, x)


def _truth(b: Body, x: Value) -> Value:
    """Whether a value is not zero; NaN is true."""
    if x.scalar == "i1":
        return x
    if x.scalar in ("float", "double"):
        return b.compare("fcmp une", x, b.fconst(x, 0.0))
    return b.compare("icmp ne", x, b.iconst(x, 0))


def _not(b: Body, x: Value) -> Value:
    return b.op("xor", x, b.constant_bits("i1", x.lanes, 1))


def logical(name: str) -> Spelling:
    """A logical connective on truths."""
    return lambda b, dtype, x, y: b.op(name, _truth(b, x), _truth(b, y))


def _logical_not(b: Body, dtype: str, x: Value) -> Value:
    return _not(b, _truth(b, x))


def _extreme(side: str, unordered: str) -> Spelling:
    """maximum, minimum, fmax or fmin of floats.

    Of zeros NumPy takes the first in float16, and on x86 the second in float32 and float64 (there
    fmax and fmin take either, by the element's place in the array).

    Args:
        side: "gt" for the greater, "lt" for the less.
        unordered: "first" where NaN in the first operand gives NaN (a NaN in the second always
            loses the comparison), "second" where NaN in the second gives the first.
    """

    def spell(b: Body, dtype: str, x: Value, y: Value) -> Value:
        predicate = side.replace("t", "e") if dtype == "float16" else side
        nan = _is_nan(b, x if unordered == "first" else y)
        better = b.op("or", b.compare(f"fcmp o{predicate}", x, y), nan)
        return b.select(better, x, y)

    return spell


def _choose(predicate: str) -> Spelling:
    """The integer for which a comparison holds."""
    return lambda b, dtype, x, y: b.select(b.compare(f"icmp {predicate}", x, y), x, y)


def _int_abs(b: Body, dtype: str, x: Value) -> Value:
    return b.select(b.compare("icmp slt", x, b.iconst(x, 0)), _int_negative(b, dtype, x), x)


def _int_negative(b: Body, dtype: str, x: Value) -> Value:
    return b.op("sub", b.iconst(x, 0), x)


def _int_sign(b: Body, dtype: str, x: Value) -> Value:
    zero, one = b.iconst(x, 0), b.iconst(x, 1)
    positive = b.select(b.compare("icmp ne", x, zero), one, zero)
    if dtype.startswith("u"):
        return positive
    return b.select(b.compare("icmp slt", x, zero), b.iconst(x, -1), positive)


def _float_sign(b: Body, dtype: str, x: Value) -> Value:
    zero = b.fconst(x, 0.0)
    low = b.select(b.compare("fcmp olt", x, zero), b.fconst(x, -1.0), zero)
    high = b.select(b.compare("fcmp ogt", x, zero), b.fconst(x, 1.0), low)
    return b.select(_is_nan(b, x), x, high)


def _square(name: str) -> Spelling:
    return lambda b, dtype, x: b.op(name, x, x)


def _float_reciprocal(b: Body, dtype: str, x: Value) -> Value:
    return b.op("fdiv", b.fconst(x, 1.0), x)


def _int_reciprocal(b: Body, dtype: str, x: Value) -> Value:
    """1 for 1, -1 for -1, else 0; of 0 what converting infinity gives (unspecified)."""
    one, zero = b.iconst(x, 1), b.iconst(x, 0)
    result = b.select(b.compare("icmp eq", x, one), one, zero)
    if dtype.startswith("i"):
        result = b.select(b.compare("icmp eq", x, b.iconst(x, -1)), b.iconst(x, -1), result)
    wide = np.dtype(dtype).itemsize >= 4 and dtype != "uint32"
    of_zero = b.iconst(x, 1 << (8 * np.dtype(dtype).itemsize - 1)) if wide else zero
    return b.select(b.compare("icmp eq", x, zero), of_zero, result)


def _rsqrt(b: Body, dtype: str, x: Value) -> Value:
    return b.op("fdiv", b.fconst(x, 1.0), b.intrinsic("llvm.sqrt", x))


def _sigmoid(b: Body, dtype: str, x: Value) -> Value:
    """1/(1+e) or e/(1+e) for e = exp(-|x|): no overflow on either side."""
    if "sigmoid" in ELEMENTARY:
        return ELEMENTARY["sigmoid"](b, x)
    e = function("exp")(b, dtype, b.op("fneg", b.intrinsic("llvm.fabs", x)))
    one = b.fconst(x, 1.0)
    top = b.select(b.compare("fcmp oge", x, b.fconst(x, 0.0)), one, e)
    quotient = b.op("fdiv", top, b.op("fadd", one, e))
    return b.select(_is_nan(b, x), x, quotient)


def _log_add(exp: str, log: str, of_two: float) -> Spelling:
    """logaddexp: max + log1p(exp(-|x - y|)), as NumPy's npy_logaddexp."""

    def spell(b: Body, dtype: str, x: Value, y: Value) -> Value:
        difference = b.op("fsub", x, y)
        larger = b.select(b.compare("fcmp ogt", difference, b.fconst(x, 0.0)), x, y)
        down = b.op("fneg", b.intrinsic("llvm.fabs", difference))
        tail = function("log1p")(b, dtype, function(exp)(b, dtype, down))
        if log == "log2":
            tail = b.op("fmul", tail, b.fconst(x, 1.0 / math.log(2.0)))
        total = b.op("fadd", larger, tail)
        total = b.select(_is_nan(b, difference), difference, total)
        equal = b.op("fadd", x, b.fconst(x, of_two))
        return b.select(b.compare("fcmp oeq", x, y), equal, total)

    return spell


def _scaled(factor: float) -> Spelling:
    return lambda b, dtype, x: b.op("fmul", x, b.fconst(x, factor))


def _fmod(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """C's fmod: exact. Small quotients in the vector, others by the C library.

    Where |x/y| is below 2**21 (2**50 for doubles), q = trunc(x/y) is off by at most one, and
    x - q*y is a number of x's precision, so one FMA gives it exactly; adding or subtracting y
    once, also exact, corrects q. Source: Muller et al., Handbook of Floating-Point Arithmetic,
    second edition, section 4.4 (exact remainders by FMA).
    """
    if not b.features.fma:
        return libm(b, "fmod", x, y)
    single = x.scalar == "float"
    ax, ay = b.intrinsic("llvm.fabs", x), b.intrinsic("llvm.fabs", y)
    quotient = b.intrinsic("llvm.trunc", b.op("fdiv", ax, ay))
    rest = b.fma(b.op("fneg", quotient), ay, ax)
    zero = b.fconst(x, 0.0)
    rest = b.select(b.compare("fcmp olt", rest, zero), b.op("fadd", rest, ay), rest)
    rest = b.select(b.compare("fcmp oge", rest, ay), b.op("fsub", rest, ay), rest)
    rest = b.intrinsic("llvm.copysign", rest, x)
    small = b.compare("fcmp olt", quotient, b.fconst(x, 2.0**21 if single else 2.0**50))
    tiny = b.compare("fcmp olt", ay, b.fconst(x, 2.0**-100 if single else 2.0**-900))
    huge = b.compare("fcmp ogt", ay, b.fconst(x, 2.0**120 if single else 2.0**1000))
    ordinary = b.op("and", small, _not(b, b.op("or", tiny, huge)))
    name = "fmodf" if single else "fmod"
    return b.slow_lanes(_not(b, ordinary), rest, name, x, y)


def _float_remainder(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """Python's remainder: the sign of the divisor; as NumPy's npy_divmod."""
    mod = _fmod(b, dtype, x, y)
    zero = b.fconst(x, 0.0)
    signs = b.op("xor", b.compare("fcmp olt", y, zero), b.compare("fcmp olt", mod, zero))
    fixed = b.select(signs, b.op("fadd", mod, y), mod)
    exact = b.intrinsic("llvm.copysign", zero, y)
    result = b.select(b.compare("fcmp oeq", mod, zero), exact, fixed)
    return b.select(b.compare("fcmp oeq", y, zero), mod, result)


def _float_floor_divide(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """The floor of the exact quotient, corrected as NumPy's npy_floor_divide."""
    zero = b.fconst(x, 0.0)
    mod = _fmod(b, dtype, x, y)
    div = b.op("fdiv", b.op("fsub", x, mod), y)
    signs = b.op("xor", b.compare("fcmp olt", y, zero), b.compare("fcmp olt", mod, zero))
    adjust = b.op("and", signs, b.compare("fcmp une", mod, zero))
    div = b.select(adjust, b.op("fsub", div, b.fconst(x, 1.0)), div)
    floor = b.intrinsic("llvm.floor", div)
    over = b.compare("fcmp ogt", b.op("fsub", div, floor), b.fconst(x, 0.5))
    floor = b.select(over, b.op("fadd", floor, b.fconst(x, 1.0)), floor)
    quotient = b.op("fdiv", x, y)
    nothing = b.intrinsic("llvm.copysign", zero, quotient)
    floor = b.select(b.compare("fcmp oeq", div, zero), nothing, floor)
    return b.select(b.compare("fcmp oeq", y, zero), quotient, floor)


def _shift(name: str) -> Spelling:
    """A shift whose count may be anything: too large gives 0, or -1 for negative >> numbers."""

    def spell(b: Body, dtype: str, x: Value, count: Value) -> Value:
        bits = BITS[x.scalar]
        fits = b.compare("icmp ult", count, b.iconst(x, bits))
        safe = b.select(fits, count, b.iconst(x, 0))
        if name == "ashr":
            return b.op("ashr", x, b.select(fits, count, b.iconst(x, bits - 1)))
        return b.select(fits, b.op(name, x, safe), b.iconst(x, 0))

    return spell


def _bit_count(b: Body, dtype: str, x: Value) -> Value:
    size = x if dtype.startswith("u") else _int_abs(b, dtype, x)
    ones = b.intrinsic("llvm.ctpop", size)
    return ones if ones.scalar == "i8" else b.cast("trunc", ones, "i8")


def _is_inf(b: Body, dtype: str, x: Value) -> Value:
    return b.compare("fcmp oeq", b.intrinsic("llvm.fabs", x), b.fconst(x, math.inf))


def _is_finite(b: Body, dtype: str, x: Value) -> Value:
    return b.compare("fcmp olt", b.intrinsic("llvm.fabs", x), b.fconst(x, math.inf))


def _signbit(b: Body, dtype: str, x: Value) -> Value:
    bits = b.as_integer(x)
    return b.compare("icmp slt", bits, b.iconst(x, 0))


def _heaviside(b: Body, dtype: str, x: Value, h: Value) -> Value:
    zero = b.fconst(x, 0.0)
    side = b.select(b.compare("fcmp olt", x, zero), zero, b.fconst(x, 1.0))
    side = b.select(b.compare("fcmp oeq", x, zero), h, side)
    return b.select(_is_nan(b, x), x, side)


def _modf_fraction(b: Body, dtype: str, x: Value) -> Value:
    whole = b.intrinsic("llvm.trunc", x)
    rest = b.op("fsub", x, whole)
    rest = b.select(_is_inf(b, dtype, x), b.fconst(x, 0.0), rest)
    return b.select(_is_nan(b, x), x, b.intrinsic("llvm.copysign", rest, x))


def _ldexp(b: Body, dtype: str, x: Value, exponent: Value) -> Value:
    if exponent.scalar in ("i8", "i16"):
        exponent = b.cast("sext", exponent, "i32")
    if exponent.scalar == "i64":  # NumPy limits a long exponent to the range of int
        high, low = b.iconst(exponent, 2**31 - 1), b.iconst(exponent, -(2**31))
        exponent = b.select(b.compare("icmp sgt", exponent, high), high, exponent)
        exponent = b.select(b.compare("icmp slt", exponent, low), low, exponent)
        exponent = b.cast("trunc", exponent, "i32")
    symbol = "ldexpf" if x.scalar == "float" else "ldexp"
    return b.lanewise(symbol, x.scalar, x, exponent)


def _where(b: Body, dtype: str, condition: Value, yes: Value, no: Value) -> Value:
    return b.select(condition, yes, no)


def _bool_less(b: Body, dtype: str, x: Value, y: Value) -> Value:
    return b.op("and", _not(b, x), y)


def _bool_less_equal(b: Body, dtype: str, x: Value, y: Value) -> Value:
    return b.op("or", _not(b, x), y)


def _flip(spell: Spelling) -> Spelling:
    return lambda b, dtype, x, y: spell(b, dtype, y, x)


def _bool_equal(b: Body, dtype: str, x: Value, y: Value) -> Value:
    return _not(b, b.op("xor", x, y))


def _cast_refused(b: Body, dtype: str, *operands: Value) -> Value:
    raise Unsupported("unsupported-op", "cast", "spelled by conversion.convert", "")


_FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh "
    "arcsinh arccosh arctanh cbrt hypot erf erfc lgamma"
)

#: row -> NumPy kind letter of the operands -> spelling
SPELLING: dict[str, dict[str, Spelling]] = {
    "add": {"b": plain("or"), "i": plain("add"), "u": plain("add"), "f": plain("fadd")},
    "subtract": {"i": plain("sub"), "u": plain("sub"), "f": plain("fsub")},
    "multiply": {"b": plain("and"), "i": plain("mul"), "u": plain("mul"), "f": plain("fmul")},
    "divide": {"f": plain("fdiv")},
    "floor_divide": {"i": floor_division, "u": floor_division, "f": _float_floor_divide},
    "remainder": {"i": remainder(floor=True), "u": remainder(floor=True), "f": _float_remainder},
    "fmod": {"i": remainder(floor=False), "u": remainder(floor=False), "f": _fmod},
    "power": {"i": integer_power, "u": integer_power, "f": function("power")},
    "negative": {"i": _int_negative, "u": _int_negative, "f": plain("fneg")},
    "positive": {"i": same, "u": same, "f": same},
    "absolute": {"b": same, "i": _int_abs, "u": same, "f": intrinsic("llvm.fabs")},
    "fabs": {"f": intrinsic("llvm.fabs")},
    "sign": {"i": _int_sign, "u": _int_sign, "f": _float_sign},
    "square": {"i": _square("mul"), "u": _square("mul"), "f": _square("fmul")},
    "reciprocal": {"i": _int_reciprocal, "u": _int_reciprocal, "f": _float_reciprocal},
    "sqrt": {"f": intrinsic("llvm.sqrt")},
    "rsqrt": {"f": _rsqrt},
    **{name: {"f": function(name)} for name in _FUNCTIONS.split()},
    "logaddexp": {"f": _log_add("exp", "log", math.log(2.0))},
    "logaddexp2": {"f": _log_add("exp2", "log2", 1.0)},
    "sigmoid": {"f": _sigmoid},
    "deg2rad": {"f": _scaled(math.pi / 180.0)},
    "rad2deg": {"f": _scaled(180.0 / math.pi)},
    "rint": {"f": intrinsic("llvm.rint")},
    "floor": {"b": same, "i": same, "u": same, "f": intrinsic("llvm.floor")},
    "ceil": {"b": same, "i": same, "u": same, "f": intrinsic("llvm.ceil")},
    "trunc": {"b": same, "i": same, "u": same, "f": intrinsic("llvm.trunc")},
    "equal": {"b": _bool_equal, "i": compare("icmp eq"), "u": compare("icmp eq"),
              "f": compare("fcmp oeq")},
    "not_equal": {"b": plain("xor"), "i": compare("icmp ne"), "u": compare("icmp ne"),
                  "f": compare("fcmp une")},
    "less": {"b": _bool_less, "i": compare("icmp slt"), "u": compare("icmp ult"),
             "f": compare("fcmp olt")},
    "less_equal": {"b": _bool_less_equal, "i": compare("icmp sle"), "u": compare("icmp ule"),
                   "f": compare("fcmp ole")},
    "greater": {"b": _flip(_bool_less), "i": compare("icmp sgt"), "u": compare("icmp ugt"),
                "f": compare("fcmp ogt")},
    "greater_equal": {"b": _flip(_bool_less_equal), "i": compare("icmp sge"),
                      "u": compare("icmp uge"), "f": compare("fcmp oge")},
    "logical_and": {kind: logical("and") for kind in "biuf"},
    "logical_or": {kind: logical("or") for kind in "biuf"},
    "logical_xor": {kind: logical("xor") for kind in "biuf"},
    "logical_not": dict.fromkeys("biuf", _logical_not),
    "bitwise_and": {kind: plain("and") for kind in "biu"},
    "bitwise_or": {kind: plain("or") for kind in "biu"},
    "bitwise_xor": {kind: plain("xor") for kind in "biu"},
    "invert": {"b": _logical_not, "i": lambda b, dtype, x: b.op("xor", x, b.iconst(x, -1)),
               "u": lambda b, dtype, x: b.op("xor", x, b.iconst(x, -1))},
    "left_shift": {"i": _shift("shl"), "u": _shift("shl")},
    "right_shift": {"i": _shift("ashr"), "u": _shift("lshr")},
    "bitwise_count": {"i": _bit_count, "u": _bit_count},
    "gcd": {"i": gcd, "u": gcd},
    "lcm": {"i": lcm, "u": lcm},
    "maximum": {"b": plain("or"), "i": _choose("sgt"), "u": _choose("ugt"),
                "f": _extreme("gt", "first")},
    "minimum": {"b": plain("and"), "i": _choose("slt"), "u": _choose("ult"),
                "f": _extreme("lt", "first")},
    "fmax": {"b": plain("or"), "i": _choose("sgt"), "u": _choose("ugt"),
             "f": _extreme("gt", "second")},
    "fmin": {"b": plain("and"), "i": _choose("slt"), "u": _choose("ult"),
             "f": _extreme("lt", "second")},
    "isnan": {**{k: always(False) for k in "biu"}, "f": lambda b, dtype, x: _is_nan(b, x)},
    "isinf": {**{k: always(False) for k in "biu"}, "f": _is_inf},
    "isfinite": {**{k: always(True) for k in "biu"}, "f": _is_finite},
    "signbit": {"f": _signbit},
    "copysign": {"f": intrinsic("llvm.copysign")},
    "nextafter": {"f": conversion.nextafter},
    "spacing": {"f": conversion.spacing},
    "heaviside": {"f": _heaviside},
    "ldexp": {"i": _ldexp},
    "frexp_mantissa": {"f": conversion.frexp_mantissa},
    "frexp_exponent": {"f": conversion.frexp_exponent},
    "modf_fraction": {"f": _modf_fraction},
    "modf_integral": {"f": intrinsic("llvm.trunc")},
    "where": dict.fromkeys("biuf", _where),
    "cast": dict.fromkeys("biuf", _cast_refused),
}  # fmt: skip

#: Rows whose result is a float16 number already when the operands are.
EXACT_IN_HALF = frozenset(
    "positive absolute fabs negative sign rint floor ceil trunc maximum minimum fmax fmin where "
    "copysign nextafter spacing heaviside frexp_mantissa modf_fraction modf_integral fmod".split()
)


def spell(b: Body, op: str, dtype: str, operands: list[Value]) -> Value:
    """The instructions of one operation.

    Args:
        b: where to append.
        op: a row of the op table.
        dtype: NumPy dtype name of the last operand.
        operands: their registers.

    Raises:
        Unsupported: this backend has no spelling.
    """
    found = SPELLING.get(op, {}).get(np.dtype(dtype).kind)
    if found is None:
        raise Unsupported("unsupported-op", op, f"the CPU backend has no {dtype} form", "")
    return found(b, dtype, *operands)
