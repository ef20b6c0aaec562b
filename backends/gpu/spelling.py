"""How the GPU backend spells each row of the op table: C++ expressions of one element.

An expression is a template: {x}, {y} and {z} are the operands' names, {T} the operands' type in
registers, {U} the unsigned type that integer arithmetic wraps in, {S} the bits of an integer, {f}
the suffix of C's functions for the operand's type, {R} and {r} type and suffix of the result.

Elementary functions are CUDA's own. Where the largest error that the CUDA C++ Programming Guide
states ("Mathematical Functions", maximum ulp error) exceeds the row's, float32 is computed in
double precision, and float64 by a helper of ours.
"""

from __future__ import annotations

import math

import numpy as np

from fuser.backends.gpu.cxx import PARTS, REGISTER, itemsize, real, wrapping
from fuser.base.errors import Unsupported
from fuser.ir.ops import TABLE, Op, admits


def _ints(both: str = "", *, i: str = "", u: str = "") -> dict[str, str]:
    """One form for signed and unsigned integers, or one for each."""
    return {"i": i or both, "u": u or both}


def _wrap(sign: str) -> dict[str, str]:
    """Arithmetic that wraps around."""
    return _ints(f"({{T}})(({{U}}){{x}} {sign} ({{U}}){{y}})")


def _compare(sign: str) -> dict[str, str]:
    """A comparison that C++ has."""
    return dict.fromkeys("biuf", f"{{x}} {sign} {{y}}")


def _extreme(sign: str, nan: str) -> dict[str, str]:
    """The greater or the less of two floats; of zeros the first in float16, else the second.

    Args:
        sign: ">" or "<".
        nan: the operand whose being NaN makes the first the result.
    """
    form = f"{{x}} {sign} {{y}} || {{{nan}}} != {{{nan}}} ? {{x}} : {{y}}"
    return {"f": form, "float16": form.replace(f" {sign} ", f" {sign}= ", 1)}


def _complex(rows: str) -> dict[str, str]:
    """Rows that a function of ours computes on complex numbers."""
    arguments = {"add", "subtract", "multiply", "divide", "power"}
    return {
        row: f"complex_{row}{{f}}({'{x}, {y}' if row in arguments else '{x}'})"
        for row in rows.split()
    }


#: Rows whose float function is not accurate enough for float32, only for float16.
_IN_DOUBLE = frozenset(
    "power tan arctan2 hypot sinh arcsinh arccosh arctanh lgamma".split()
)


def _of_library(row: Op) -> dict[str, str]:
    """The function of the C library that computes a row."""
    operands = ("{x}", "{y}")[: row.arity]
    forms = {"f": f"{row.library}{{f}}({', '.join(operands)})"}
    if row.name in _IN_DOUBLE:
        wide = ", ".join(f"(double){operand}" for operand in operands)
        forms["float32"] = f"(float){row.library}({wide})"
    return forms


_MAGNITUDE = "({x} < 0 ? ({U})0 - ({U}){x} : ({U}){x})"
_MAGNITUDE_Y = _MAGNITUDE.replace("{x}", "{y}")

#: row -> NumPy kind letter, or dtype name, of the last operand -> template
SPELLING: dict[str, dict[str, str]] = {
    **{name: _of_library(row) for name, row in TABLE.items() if row.library},
    "add": {"b": "{x} || {y}", **_wrap("+"), "f": "{x} + {y}"},
    "subtract": {**_wrap("-"), "f": "{x} - {y}"},
    "multiply": {"b": "{x} && {y}", **_wrap("*"), "f": "{x} * {y}"},
    "divide": {"f": "{x} / {y}"},
    "floor_divide": {
        **_ints(i="floor_division<{T}, {U}>({x}, {y})", u="{y} == 0 ? ({T})0 : ({T})({x} / {y})"),
        "f": "floored_quotient{f}({x}, {y})",
    },
    "remainder": {
        **_ints(i="floor_remainder<{T}>({x}, {y})", u="{y} == 0 ? ({T})0 : ({T})({x} % {y})"),
        "f": "floored_remainder{f}({x}, {y})",
    },
    "fmod": {
        **_ints(
            i="{y} == 0 || {y} == -1 ? ({T})0 : ({T})({x} % {y})",
            u="{y} == 0 ? ({T})0 : ({T})({x} % {y})",
        ),
        "f": "fmod{f}({x}, {y})",
    },
    "power": {**_ints("({T})power_by_squaring<{U}>({x}, {y})"), **_of_library(TABLE["power"])},
    "negative": {**_ints("({T})(({U})0 - ({U}){x})"), "f": "-{x}"},
    "positive": {**_ints("{x}"), "f": "{x}"},
    "absolute": {"b": "{x}", **_ints(i=f"({{T}}){_MAGNITUDE}", u="{x}"), "f": "fabs{f}({x})"},
    "fabs": {"f": "fabs{f}({x})"},
    "sign": {
        **_ints(i="({T})(({x} > 0) - ({x} < 0))", u="({T})({x} != 0)"),
        "f": "{x} != {x} ? {x} : ({T})(({x} > 0) - ({x} < 0))",
    },
    "square": {**_ints("({T})(({U}){x} * ({U}){x})"), "f": "{x} * {x}"},
    "reciprocal": {
        **_ints(
            i="{x} == 1 || {x} == -1 ? {x} : {x} == 0 ? {zeroth} : ({T})0",
            u="{x} == 1 ? {x} : {x} == 0 ? {zeroth} : ({T})0",
        ),
        "f": "1 / {x}",
    },
    "sqrt": {"f": "sqrt{f}({x})"},
    "rsqrt": {"f": "1 / sqrt{f}({x})"},
    "logaddexp": {"f": "log_add{f}({x}, {y})"},
    "logaddexp2": {"f": "log2_add{f}({x}, {y})"},
    "sigmoid": {"f": "logistic{f}({x})"},
    "arcsinh": {**_of_library(TABLE["arcsinh"]), "float64": "area_sine({x})"},
    "arccosh": {**_of_library(TABLE["arccosh"]), "float64": "area_cosine({x})"},
    "deg2rad": {"f": "{x} * {radian}"},
    "rad2deg": {"f": "{x} * {degree}"},
    "erfc": {"f": "erfcf({x})", "float32": "(float)error_complement_single({x})",
             "float64": "error_complement({x})"},
    "rint": {"f": "rint{f}({x})"},
    **{
        name: {"b": "{x}", **_ints("{x}"), "f": f"{name}{{f}}({{x}})"}
        for name in ("floor", "ceil", "trunc")
    },
    "equal": _compare("=="),
    "not_equal": _compare("!="),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "logical_and": dict.fromkeys("biuf", "{x} != 0 && {y} != 0"),
    "logical_or": dict.fromkeys("biuf", "{x} != 0 || {y} != 0"),
    "logical_xor": dict.fromkeys("biuf", "({x} != 0) != ({y} != 0)"),
    "logical_not": dict.fromkeys("biuf", "!({x} != 0)"),
    "bitwise_and": {"b": "{x} && {y}", **_ints("({T})({x} & {y})")},
    "bitwise_or": {"b": "{x} || {y}", **_ints("({T})({x} | {y})")},
    "bitwise_xor": {"b": "{x} != {y}", **_ints("({T})({x} ^ {y})")},
    "invert": {"b": "!{x}", **_ints("({T})~{x}")},
    "left_shift": _ints("({U}){y} < {S}u ? ({T})(({U}){x} << {y}) : ({T})0"),
    "right_shift": _ints(
        i="({U}){y} < {S}u ? ({T})({x} >> {y}) : ({T})({x} < 0 ? -1 : 0)",
        u="({U}){y} < {S}u ? ({T})({x} >> {y}) : ({T})0",
    ),
    "bitwise_count": _ints(i=f"(unsigned char){{popc}}({_MAGNITUDE})",
                           u="(unsigned char){popc}({x})"),
    "gcd": _ints(i=f"({{T}})common_divisor<{{U}}>({_MAGNITUDE}, {_MAGNITUDE_Y})",
                 u="({T})common_divisor<{U}>({x}, {y})"),
    "lcm": _ints(i=f"({{T}})common_multiple<{{U}}>({_MAGNITUDE}, {_MAGNITUDE_Y})",
                 u="({T})common_multiple<{U}>({x}, {y})"),
    "random_bits": {"u": "philox_word({x}, {y})"},
    "maximum": {"b": "{x} || {y}", **_ints("{x} > {y} ? {x} : {y}"),
                **_extreme(">", "x")},
    "minimum": {"b": "{x} && {y}", **_ints("{x} < {y} ? {x} : {y}"),
                **_extreme("<", "x")},
    "fmax": {"b": "{x} || {y}", **_ints("{x} > {y} ? {x} : {y}"),
             **_extreme(">", "y")},
    "fmin": {"b": "{x} && {y}", **_ints("{x} < {y} ? {x} : {y}"),
             **_extreme("<", "y")},
    "isnan": {**dict.fromkeys("biu", "false"), "f": "{x} != {x}"},
    "isinf": {**dict.fromkeys("biu", "false"), "f": "fabs{f}({x}) == {inf}"},
    "isfinite": {**dict.fromkeys("biu", "true"), "f": "fabs{f}({x}) < {inf}"},
    "signbit": {"f": "__float_as_int({x}) < 0", "float64": "__double_as_longlong({x}) < 0"},
    "copysign": {"f": "copysign{f}({x}, {y})"},
    "nextafter": {"f": "towards{f}({x}, {y})", "float16": "half_towards({x}, {y})"},
    "spacing": {"f": "distance{f}({x})", "float16": "half_distance({x})"},
    "heaviside": {"f": "{x} != {x} ? {x} : {x} == 0 ? {y} : ({T})({x} > 0)"},
    "ldexp": {
        "i": "ldexp{r}({x}, {y})",
        "int64": "ldexp{r}({x}, (int)({y} < -2147483647 ? -2147483647 : "
        "{y} > 2147483647 ? 2147483647 : {y}))",
    },
    "frexp_mantissa": {"f": "mantissa{f}({x})"},
    "frexp_exponent": {"f": "exponent{f}({x})"},
    "modf_fraction": {"f": "fraction{f}({x})"},
    "modf_integral": {"f": "trunc{f}({x})"},
    "where": dict.fromkeys("biuf", "{x} ? {y} : {z}"),
    "cast": dict.fromkeys("biuf", "{x}"),  # spelled by cxx.convert
    "join_complex": {"float32": "make_float2({x}, {y})", "float64": "make_double2({x}, {y})"},
}  # fmt: skip

#: row -> template for complex operands.
COMPLEX: dict[str, str] = {
    **_complex("add subtract multiply divide reciprocal power exp log sqrt sin cos"),
    "negative": "{make}(-{x}.x, -{x}.y)",
    "positive": "{x}",
    "conjugate": "{make}({x}.x, -{x}.y)",
    "real": "{x}.x",
    "imag": "{x}.y",
    "absolute": "(float)hypot((double){x}.x, (double){x}.y)",
    "square": "complex_multiply{f}({x}, {x})",
    "equal": "{x}.x == {y}.x && {x}.y == {y}.y",
    "not_equal": "{x}.x != {y}.x || {x}.y != {y}.y",
    "isnan": "{x}.x != {x}.x || {x}.y != {x}.y",
    "isinf": "fabs{f}({x}.x) == {inf} || fabs{f}({x}.y) == {inf}",
    "isfinite": "fabs{f}({x}.x) < {inf} && fabs{f}({x}.y) < {inf}",
    "where": "{x} ? {y} : {z}",
    "cast": "{x}",
}

#: Rows whose result is a float16 number already when the operands are.
EXACT_IN_HALF = frozenset(
    "positive absolute fabs negative sign rint floor ceil trunc maximum minimum fmax fmin where "
    "copysign nextafter spacing heaviside frexp_mantissa modf_fraction modf_integral fmod".split()
)

#: row -> two float16 elements in a word, computed at once: each as in float and rounded once, since
#: that has more than twice the digits (Figueroa, "When is double rounding innocuous?", 1995).
PAIRS = {
    "add": "pair_add({x}, {y})",
    "subtract": "pair_sub({x}, {y})",
    "multiply": "pair_mul({x}, {y})",
    "square": "pair_mul({x}, {x})",
    "negative": "{x} ^ 0x80008000u",
    "absolute": "{x} & 0x7fff7fffu",
    "fabs": "{x} & 0x7fff7fffu",
    "positive": "{x}",
}


def form(op: str, dtype: str) -> str | None:
    """The template of a row for a dtype of its last operand, or None where there is none."""
    forms = SPELLING.get(op, {})
    if dtype in PARTS:
        wide = {"absolute": "hypot({x}.x, {x}.y)"} if dtype == "complex128" else {}
        return wide.get(op) or COMPLEX.get(op)
    if dtype == "bfloat16":
        known = op in TABLE and admits(TABLE[op], np.dtype(dtype))
        return forms.get("bfloat16") or forms.get("f") if known else None
    return forms.get(dtype) or forms.get(np.dtype(dtype).kind)


def spell(op: str, dtype: str, result: str, operands: list[str]) -> str:
    """The expression of one operation.

    Args:
        op: a row of the op table.
        dtype: NumPy dtype name of the last operand.
        result: NumPy dtype name of the result.
        operands: names of their registers.

    Raises:
        Unsupported: this backend has no spelling.
    """
    template = form(op, dtype)
    if template is None:
        raise Unsupported("unsupported-op", op, f"the GPU backend has no {dtype} form", "")
    words = dict(zip("xyz", operands, strict=False))
    kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
    register = REGISTER[dtype]
    words.update(T=register, R=REGISTER[result], r=_suffix(result))
    if kind in "iu":
        wide = itemsize(dtype) == 8
        words.update(U=wrapping(dtype), S=str(8 * itemsize(dtype)), zeroth=_zeroth(dtype))
        words["popc"] = "__popcll" if wide else "__popc"
    if kind == "f":
        words.update(f=_suffix(dtype), inf=real(math.inf, register))
        words.update(radian=_rounded(math.pi / 180, dtype), degree=_rounded(180 / math.pi, dtype))
    if kind == "c":
        part = PARTS[dtype]
        words.update(f=_suffix(part), inf=real(math.inf, REGISTER[part]), make=f"make_{register}")
    return template.format(**words)


def _suffix(dtype: str) -> str:
    """`f` where C's functions are those for float."""
    return "f" if REGISTER[dtype] == "float" else ""


def _rounded(value: float, dtype: str) -> str:
    """A literal rounded to the register's type."""
    register = REGISTER[dtype]
    return real(float(np.float32(value)) if register == "float" else value, register)


def _zeroth(dtype: str) -> str:
    """1 / 0 as an integer: what converting infinity gives with NumPy (C leaves it open)."""
    size = itemsize(dtype)
    if size < 4 or dtype == "uint32":
        return f"({REGISTER[dtype]})0"
    return f"({REGISTER[dtype]})0x{1 << (8 * size - 1):x}{'ULL' if size == 8 else 'u'}"
