"""How the CPU backend spells each row of the op table: LLVM IR text for one vector of elements.

Registers hold bool as i1, integers at their own width, float32 and float64 as such, and float16
as a float that is rounded to float16 after every operation (as NumPy computes).
"""

from __future__ import annotations

import math

import numpy as np

from fuser.backends.cpu import conversion, floats
from fuser.backends.cpu.body import BITS, Body, Value
from fuser.backends.cpu.floats import Spelling
from fuser.backends.cpu.integers import (
    floor_division,
    gcd,
    integer_power,
    lcm,
    random_bits,
    remainder,
)
from fuser.base.errors import Unsupported
from fuser.ir.ops import TABLE


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


def _truth(b: Body, x: Value) -> Value:
    """Whether a value is not zero; NaN is true."""
    if x.scalar == "i1":
        return x
    if x.scalar in ("float", "double"):
        return b.compare("fcmp une", x, b.fconst(x, 0.0))
    return b.compare("icmp ne", x, b.iconst(x, 0))


def logical(name: str) -> Spelling:
    """A logical connective on truths."""
    return lambda b, dtype, x, y: b.op(name, _truth(b, x), _truth(b, y))


def _logical_not(b: Body, dtype: str, x: Value) -> Value:
    return floats.negated(b, _truth(b, x))


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


def _square(name: str) -> Spelling:
    return lambda b, dtype, x: b.op(name, x, x)


def _int_reciprocal(b: Body, dtype: str, x: Value) -> Value:
    """1 for 1, -1 for -1, else 0; of 0 what converting infinity gives (unspecified)."""
    one, zero = b.iconst(x, 1), b.iconst(x, 0)
    result = b.select(b.compare("icmp eq", x, one), one, zero)
    if dtype.startswith("i"):
        result = b.select(b.compare("icmp eq", x, b.iconst(x, -1)), b.iconst(x, -1), result)
    wide = np.dtype(dtype).itemsize >= 4 and dtype != "uint32"
    of_zero = b.iconst(x, 1 << (8 * np.dtype(dtype).itemsize - 1)) if wide else zero
    return b.select(b.compare("icmp eq", x, zero), of_zero, result)


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


def _where(b: Body, dtype: str, condition: Value, yes: Value, no: Value) -> Value:
    return b.select(condition, yes, no)


def _bool_less(b: Body, dtype: str, x: Value, y: Value) -> Value:
    return b.op("and", floats.negated(b, x), y)


def _bool_less_equal(b: Body, dtype: str, x: Value, y: Value) -> Value:
    return b.op("or", floats.negated(b, x), y)


def _flip(spell: Spelling) -> Spelling:
    return lambda b, dtype, x, y: spell(b, dtype, y, x)


def _bool_equal(b: Body, dtype: str, x: Value, y: Value) -> Value:
    return floats.negated(b, b.op("xor", x, y))


def _gather(b: Body, dtype: str, *operands: Value) -> Value:
    from fuser.backends.cpu.gathers import gather  # most kernels have none

    return gather(b, dtype, *operands)


def _cast_refused(b: Body, dtype: str, *operands: Value) -> Value:
    raise Unsupported("unsupported-op", "cast", "spelled by conversion.convert", "")


#: row -> NumPy kind letter of the operands -> spelling
SPELLING: dict[str, dict[str, Spelling]] = {
    **{name: {"f": floats.function(name)} for name, row in TABLE.items() if row.library},
    "add": {"b": plain("or"), "i": plain("add"), "u": plain("add"), "f": plain("fadd")},
    "subtract": {"i": plain("sub"), "u": plain("sub"), "f": plain("fsub")},
    "multiply": {"b": plain("and"), "i": plain("mul"), "u": plain("mul"), "f": plain("fmul")},
    "divide": {"f": plain("fdiv")},
    "floor_divide": {"i": floor_division, "u": floor_division, "f": floats.floor_divide},
    "remainder": {"i": remainder(floor=True), "u": remainder(floor=True), "f": floats.remainder},
    "fmod": {"i": remainder(floor=False), "u": remainder(floor=False), "f": floats.fmod},
    "power": {"i": integer_power, "u": integer_power, "f": floats.function("power")},
    "negative": {"i": _int_negative, "u": _int_negative, "f": plain("fneg")},
    "positive": {"i": same, "u": same, "f": same},
    "absolute": {"b": same, "i": _int_abs, "u": same, "f": intrinsic("llvm.fabs")},
    "fabs": {"f": intrinsic("llvm.fabs")},
    "sign": {"i": _int_sign, "u": _int_sign, "f": floats.sign},
    "square": {"i": _square("mul"), "u": _square("mul"), "f": _square("fmul")},
    "reciprocal": {"i": _int_reciprocal, "u": _int_reciprocal, "f": floats.reciprocal},
    "sqrt": {"f": intrinsic("llvm.sqrt")},
    "rsqrt": {"f": floats.rsqrt},
    "logaddexp": {"f": floats.log_add("exp", "log", math.log(2.0))},
    "logaddexp2": {"f": floats.log_add("exp2", "log2", 1.0)},
    "sigmoid": {"f": floats.sigmoid},
    "deg2rad": {"f": floats.scaled(math.pi / 180.0)},
    "rad2deg": {"f": floats.scaled(180.0 / math.pi)},
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
    "random_bits": {"u": random_bits},
    "maximum": {"b": plain("or"), "i": _choose("sgt"), "u": _choose("ugt"),
                "f": floats.extreme("gt", "first")},
    "minimum": {"b": plain("and"), "i": _choose("slt"), "u": _choose("ult"),
                "f": floats.extreme("lt", "first")},
    "fmax": {"b": plain("or"), "i": _choose("sgt"), "u": _choose("ugt"),
             "f": floats.extreme("gt", "second")},
    "fmin": {"b": plain("and"), "i": _choose("slt"), "u": _choose("ult"),
             "f": floats.extreme("lt", "second")},
    "isnan": {**{k: always(False) for k in "biu"}, "f": lambda b, dtype, x: floats.is_nan(b, x)},
    "isinf": {**{k: always(False) for k in "biu"}, "f": floats.is_inf},
    "isfinite": {**{k: always(True) for k in "biu"}, "f": floats.is_finite},
    "signbit": {"f": floats.signbit},
    "copysign": {"f": intrinsic("llvm.copysign")},
    "nextafter": {"f": conversion.nextafter},
    "spacing": {"f": conversion.spacing},
    "heaviside": {"f": floats.heaviside},
    "ldexp": {"i": floats.ldexp},
    "frexp_mantissa": {"f": conversion.frexp_mantissa},
    "frexp_exponent": {"f": conversion.frexp_exponent},
    "modf_fraction": {"f": floats.modf_fraction},
    "modf_integral": {"f": intrinsic("llvm.trunc")},
    "where": dict.fromkeys("biuf", _where),
    "gather": dict.fromkeys("biuf", _gather),
    "cast": dict.fromkeys("biuf", _cast_refused),
}  # fmt: skip

#: Code of a heavy row, whose function is inlined, in instructions of light ones.
HEAVY_CODE = 9
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
