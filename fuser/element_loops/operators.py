"""Operators and functions of numbers in element loops: their kinds, bounds and operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from fuser.base.records import changed, record
from fuser.element_loops import kinds
from fuser.element_loops.code import Constant, Expression, Operation
from fuser.element_loops.kinds import LEAST, MOST, NotTypedError, Type

TRUE, FALSE = Constant("bool", True), Constant("bool", False)


@record
class Value:
    """A number while a loop is translated.

    Attributes:
        code: what gives it.
        type: which kinds it may be of.
        numpy: whether it is a NumPy scalar; an expression where only the run tells.
    """

    code: Expression
    type: Type
    numpy: Expression


def constant(value: int | float | bool) -> Value:
    """A Python number.

    Raises:
        NotTypedError: it is an integer beyond 64 bits.
    """
    kind = "py" + type(value).__name__
    if kind not in kinds.PYTHON:
        raise NotTypedError(f"a constant is a {type(value).__name__}")
    if kind == "pyint" and not LEAST <= value <= MOST:
        raise NotTypedError("an integer has more than 64 bits")
    bounds = (int(value), int(value)) if kind != "pyfloat" else (None, None)
    return Value(Constant(kinds.PYTHON[kind], value), kinds.of(kind, *bounds), FALSE)


def python(code: Expression, low: int | None = None, high: int | None = None) -> Value:
    """A Python number that an expression gives."""
    return Value(code, kinds.of(kinds.python_kind(code.dtype), low, high), FALSE)


def scalar(code: Expression) -> Value:
    """A NumPy scalar that an expression gives."""
    return Value(code, kinds.of(code.dtype), TRUE)


# -- conversions ----------------------------------------------------------------------------------


def exactly(value: Value, dtype: str) -> Expression:
    """A value in a representation that has to hold it exactly: else the run ends."""
    old = value.type.dtype
    if old == dtype:
        return value.code
    checked = True
    if old == "bool":
        checked = False
    elif dtype.startswith("float") and not old.startswith("float"):
        most = 2**53 if dtype == "float64" else 2**24
        checked = not (-most <= value.type.low and value.type.high <= most)
    elif old.startswith("float"):
        checked = not (old == "float32" and dtype == "float64")
    else:
        low, high = kinds.limits(dtype)
        checked = not (low <= value.type.low and value.type.high <= high)
    return convert(value.code, dtype, "checked_convert" if checked else "convert")


def convert(code: Expression, dtype: str, name: str = "convert") -> Expression:
    """An expression in another dtype."""
    if code.dtype == dtype:
        return code
    if isinstance(code, Constant) and dtype == "float64" and code.dtype == "int64":
        if abs(code.value) <= 2**53:
            return Constant(dtype, float(code.value))
    return Operation(name, dtype, (code,))


def computed_as(value: Value, dtype: str) -> Expression:
    """An operand of an operation that computes in a dtype: NumPy's and Python's conversion.

    A Python integer has to fit, or NumPy raises.
    """
    weak = "pyint" in value.type.kinds and not dtype.startswith("float")
    return exactly(value, dtype) if weak else convert(value.code, dtype)


def truth(value: Value) -> Expression:
    """Whether a number is not zero."""
    if value.type.dtype == "bool":
        return value.code
    if isinstance(value.code, Constant):
        return TRUE if value.code.value else FALSE
    return Operation("nonzero", "bool", (value.code,))


def either(one: Expression, other: Expression) -> Expression:
    """Whether one of two conditions holds, or both."""
    if TRUE in (one, other):
        return TRUE
    if one in (FALSE, other):
        return other
    return one if other == FALSE else Operation("bitwise_or", "bool", (one, other))


def both(one: Expression, other: Expression) -> Expression:
    """Whether two conditions hold."""
    if FALSE in (one, other):
        return FALSE
    if one in (TRUE, other):
        return other
    return one if other == TRUE else Operation("bitwise_and", "bool", (one, other))


def negated(code: Expression) -> Expression:
    """Whether a condition does not hold."""
    if isinstance(code, Constant):
        return FALSE if code.value else TRUE
    return Operation("logical_not", "bool", (code,))


# -- operators of two numbers ---------------------------------------------------------------------


@record
class _Pair:
    """What an operator does to two kinds."""

    compute: str
    result: str
    checked: bool


def binary(name: str, left: Value, right: Value) -> Value:
    """What `left <operator> right` gives.

    Args:
        name: the operator: `add`, `floor_divide`, `left_shift` …
        left: an operand.
        right: another.

    Raises:
        NotTypedError: it depends on more than the kinds that are known.
    """
    pairs = [_pair(name, *pair) for pair in product(left.type.kinds, right.type.kinds)]
    computes = {pair.compute for pair in pairs}
    if len(computes) > 1:
        raise NotTypedError(f"{name} of numbers that become {' and '.join(sorted(computes))}")
    compute = computes.pop()
    checked = any(pair.checked for pair in pairs)
    found = frozenset(pair.result for pair in pairs)
    if name == "power":
        code = _power(left, right, compute, checked)
    else:
        args = computed_as(left, compute), computed_as(right, compute)
        code = _FORMS[name](compute, checked, args, (left.type, right.type))
    low, high = _bounds(name, left.type, right.type)
    least, most = kinds.limits(code.dtype)
    if low < least or high > most or code.dtype.startswith("float"):
        low, high = least, most
    elif isinstance(code, Operation) and code.name in _UNCHECKED:
        code = changed(code, name=_UNCHECKED[code.name])
    return Value(code, Type(found, low, high), _tag(found, left, right))


def _tag(found: frozenset[str], left: Value, right: Value) -> Expression:
    """Whether a result is a NumPy scalar."""
    if found <= kinds.PYTHON.keys():
        return FALSE
    return TRUE if found.isdisjoint(kinds.PYTHON) else either(left.numpy, right.numpy)


_UNCHECKED = {
    "checked_add": "exact_add", "checked_subtract": "exact_subtract",
    "checked_multiply": "exact_multiply",
}  # fmt: skip
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")


def _pair(name: str, left: str, right: str) -> _Pair:
    """What an operator does to two kinds.

    Raises:
        NotTypedError: it has no form here.
    """
    dtype, plain = kinds.promoted(left, right)
    if dtype not in kinds.DTYPES:
        raise NotTypedError(f"{name} of {left} and {right} gives {dtype}")
    integers = dtype.startswith(("int", "uint"))
    if name in _BITS:
        if dtype.startswith("float"):
            raise NotTypedError(f"{name} of {left} and {right}")
        return _Pair(dtype, kinds.python_kind(dtype) if plain else dtype, False)
    if dtype == "bool":
        if not plain:
            raise NotTypedError(f"{name} of NumPy's truth values")
        dtype, integers = "int64", True
    if name in ("left_shift", "right_shift") and not integers:
        raise NotTypedError(f"{name} of {left} and {right}")
    if name == "divide" and integers:
        dtype = "float64"
    result = kinds.python_kind(dtype) if plain else dtype
    return _Pair(dtype, result, plain)


def _arithmetic(name: str) -> Callable[..., Expression]:
    """`+`, `-` and `*`: Python's integers may not overflow."""

    def form(dtype: str, checked: bool, args: Any, types: Any) -> Expression:
        if checked and dtype == "int64":
            return Operation(f"checked_{name}", dtype, args)
        return Operation(name, dtype, args)

    return form


def _divide(dtype: str, checked: bool, args: Any, types: Sequence[Type]) -> Expression:
    """`/`: Python refuses a zero, and divides integers beyond 53 bits by another rule."""
    if not checked:
        return Operation("divide", dtype, args)
    if not isinstance(args[1], Constant) or args[1].value == 0:
        name = "checked_divide"
    else:
        name = "divide"
    whole = [t for t in types if not t.kinds.isdisjoint(("pyint",))]
    if len(whole) == 2 and any(t.low < -(2**53) or t.high > 2**53 for t in whole):
        args = tuple(_small(arg) for arg in args)
    return Operation(name, dtype, args)


def _small(code: Expression) -> Expression:
    """A converted Python integer, which a float holds exactly."""
    if isinstance(code, Operation) and code.name == "convert":
        return changed(code, name="checked_convert")
    return code


def _floored(name: str) -> Callable[..., Expression]:
    """`//` and `%`: Python refuses a zero, NumPy gives 0 of integers."""

    def form(dtype: str, checked: bool, args: Any, types: Any) -> Expression:
        divisor = args[1]
        safe = isinstance(divisor, Constant) and divisor.value > 0
        return Operation(f"checked_{name}" if checked and not safe else name, dtype, args)

    return form


def _bitwise(name: str) -> Callable[..., Expression]:
    """`&`, `|` and `^`."""
    return lambda dtype, checked, args, types: Operation(name, dtype, args)


def _shift(name: str) -> Callable[..., Expression]:
    """`<<` and `>>`."""

    def form(dtype: str, checked: bool, args: Any, types: Sequence[Type]) -> Expression:
        surely = name == "right_shift" and types[1].low >= 0
        return Operation(f"checked_{name}" if checked and not surely else name, dtype, args)

    return form


_FORMS: dict[str, Callable[..., Expression]] = {
    **{name: _arithmetic(name) for name in ("add", "subtract", "multiply")},
    **{name: _bitwise(name) for name in _BITS},
    **{name: _floored(name) for name in ("floor_divide", "remainder")},
    **{name: _shift(name) for name in ("left_shift", "right_shift")},
    "divide": _divide,
}


def _power(left: Value, right: Value, compute: str, checked: bool) -> Expression:
    """`**`: of integers by products, of floats as the elementary function."""
    base, exponent = computed_as(left, compute), right.code
    whole = "pyint" in right.type.kinds or not right.type.dtype.startswith("float")
    square = isinstance(exponent, Constant) and whole and exponent.value == 2
    name, other = ("multiply", base) if square else ("power", computed_as(right, compute))
    return Operation(f"checked_{name}" if checked else name, compute, (base, other))


def _bounds(name: str, left: Type, right: Type) -> tuple[int, int]:
    """Between which integers a result lies, whatever its dtype holds."""
    ends = (left.low, left.high), (right.low, right.high)
    if name == "add":
        return left.low + right.low, left.high + right.high
    if name == "subtract":
        return left.low - right.high, left.high - right.low
    if name == "multiply":
        found = [one * other for one, other in product(*ends)]
        return min(found), max(found)
    if name == "remainder" and right.low > 0:
        return 0, right.high - 1
    if name == "floor_divide" and right.low > 0:
        found = [one // other for one, other in product(*ends)]
        return min(found), max(found)
    if name == "bitwise_and" and (left.low >= 0 or right.low >= 0):
        return 0, min(t.high for t in (left, right) if t.low >= 0)
    if name in ("bitwise_or", "bitwise_xor") and left.low >= 0 and right.low >= 0:
        return 0, (1 << max(left.high.bit_length(), right.high.bit_length())) - 1
    if name == "right_shift" and left.low >= 0:
        return 0, left.high
    return LEAST - 1, MOST + 1


# -- comparisons ----------------------------------------------------------------------------------


#: Dtypes that int64 holds.
_INTEGERS = frozenset("int8 int16 int32 int64 uint8 uint16 uint32".split())


def compare(name: str, left: Value, right: Value) -> Value:
    """What a comparison gives.

    Raises:
        NotTypedError: NumPy has a rule for the two kinds that is not ours.
    """
    pairs = {kinds.promoted(*pair) for pair in product(left.type.kinds, right.type.kinds)}
    dtypes = {dtype for dtype, _ in pairs}
    if dtypes <= _INTEGERS:
        dtypes = {"int64"}  # which holds all of them: Python compares integers whatever their size
    if len(dtypes) > 1 or not dtypes <= kinds.DTYPES:
        raise NotTypedError(f"a comparison of numbers that become {' and '.join(sorted(dtypes))}")
    dtype = dtypes.pop()
    types = left.type.dtype, right.type.dtype
    if dtype == "float64" and {"int64", "uint64"} <= set(types):
        raise NotTypedError("a comparison of int64 and uint64")
    if dtype == "bool":
        dtype = "uint8"
    if dtype == "uint8":
        args: tuple[Expression, ...] = convert(left.code, dtype), convert(right.code, dtype)
    elif any(plain for _, plain in pairs) and dtype == "float64":
        args = exactly(left, dtype), exactly(right, dtype)
    else:
        args = computed_as(left, dtype), computed_as(right, dtype)
    found = {"pybool" if plain else "bool" for _, plain in pairs}
    kind = frozenset(found)
    return Value(Operation(name, "bool", args), Type(kind, 0, 1), _tag(kind, left, right))


# -- operators of one number ----------------------------------------------------------------------


def unary(name: str, value: Value) -> Value:
    """What `-x`, `+x`, `~x` or `abs(x)` gives.

    Raises:
        NotTypedError: it depends on more than the kinds that are known.
    """
    found = value.type.kinds
    if "bool" in found and name != "invert":
        if name != "absolute":
            raise NotTypedError(f"{name} of a truth value of NumPy's")
    if "pybool" in found:
        if len(found) > 1 or name == "invert":
            raise NotTypedError(f"{name} of a truth value")
        value = python(convert(value.code, "int64"), 0, 1)
        found = value.type.kinds
    dtype = value.type.dtype
    if len({kinds.dtype_of(kind) for kind in found}) > 1 and name != "positive":
        raise NotTypedError(f"{name} of a number that becomes {' and '.join(sorted(found))}")
    low, high = value.type.low, value.type.high
    if name == "positive":
        return value
    if name == "invert":
        if dtype.startswith("float"):
            raise NotTypedError("~ of a float")
        code: Expression = Operation("invert", dtype, (value.code,))
        bounds = (~high, ~low) if dtype.startswith("int") else kinds.limits(dtype)
        return Value(code, Type(found, *bounds), value.numpy)
    if name == "absolute" and (dtype.startswith("uint") or low >= 0) and dtype[0] != "f":
        return value
    checked = "pyint" in found and low == LEAST
    if isinstance(value.code, Constant) and name == "negative" and not checked:
        if value.type.is_python and dtype in ("int64", "float64"):
            return constant(-value.code.value)
    code = Operation(f"checked_{name}" if checked else name, dtype, (value.code,))
    bounds = (-high, -low) if name == "negative" else (0, max(-low, high))
    least, most = kinds.limits(dtype)
    if dtype.startswith("float") or bounds[0] < least or bounds[1] > most:
        bounds = kinds.limits(dtype)
    return Value(code, Type(found, *bounds), value.numpy)


# -- functions ------------------------------------------------------------------------------------

#: NumPy's functions of one number whose result is a float.
FLOAT_UFUNCS = frozenset(
    "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh cbrt".split()
)
#: And those whose result has the dtype of the operand.
ROUNDING = frozenset("floor ceil trunc rint".split())
TESTS = frozenset("isnan isinf isfinite".split())
BINARY_UFUNCS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide",
    "true_divide": "divide", "floor_divide": "floor_divide", "remainder": "remainder",
    "mod": "remainder", **dict(zip(_BITS, _BITS, strict=True)),
    "left_shift": "left_shift", "right_shift": "right_shift",
}  # fmt: skip
#: Functions of `math`, by the names of the operations.
MATH = {
    "sqrt": "sqrt", "exp": "exp", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "fabs": "fabs",
    "atan2": "arctan2", "hypot": "hypot", "pow": "power", "copysign": "copysign",
    "erf": "erf", "erfc": "erfc", "cbrt": "cbrt", "exp2": "exp2",
}  # fmt: skip


def math_function(name: str, args: Sequence[Value]) -> Value:
    """What a function of `math` gives.

    Raises:
        NotTypedError: it has no form here.
    """
    if name in ("floor", "ceil", "trunc") and len(args) == 1:
        if not args[0].type.dtype.startswith("float"):
            raise NotTypedError(f"math.{name} of an integer")
        wide = convert(args[0].code, "float64")
        return python(Operation("truncated", "int64", (Operation(name, "float64", (wide,)),)))
    if name in ("isnan", "isinf", "isfinite") and len(args) == 1:
        return python(Operation(name, "bool", (convert(args[0].code, "float64"),)))
    count = 2 if name in ("atan2", "hypot", "pow", "copysign") else 1
    if name not in MATH or len(args) != count:
        raise NotTypedError(f"math.{name} of {len(args)} numbers")
    wide_args = tuple(convert(arg.code, "float64") for arg in args)
    return python(Operation(f"checked_{MATH[name]}", "float64", wide_args))


def numpy_function(name: str, args: Sequence[Value]) -> Value:
    """What a ufunc of NumPy's gives for numbers.

    Raises:
        NotTypedError: it has no form here.
    """
    if name in kinds.DTYPES and len(args) == 1:
        return scalar(cast(args[0], name))
    args = [as_numpy(arg) for arg in args] if all(a.type.is_python for a in args) else list(args)
    if any(arg.type.is_either for arg in args):
        raise NotTypedError(f"np.{name} of a number that becomes one of NumPy's")
    name = {"abs": "absolute", "round": "rint", "around": "rint"}.get(name, name)
    if name == "where" and len(args) == 3:
        dtype = _common(args[1:])
        return scalar(Operation("select", dtype, (
            truth(args[0]), computed_as(args[1], dtype), computed_as(args[2], dtype)
        )))  # fmt: skip
    if len(args) == 1:
        (arg,) = args
        dtype = arg.type.dtype
        if name in FLOAT_UFUNCS:
            result = np.result_type(getattr(np, name)(np.ones((), dtype)).dtype).name
            if result not in kinds.DTYPES:
                raise NotTypedError(f"np.{name} of {dtype}")
            return scalar(Operation(name, result, (convert(arg.code, result),)))
        if name in ROUNDING and dtype.startswith("float"):
            return scalar(Operation(name, dtype, (arg.code,)))
        if name in TESTS and dtype.startswith("float"):
            return scalar(Operation(name, "bool", (arg.code,)))
        if name in ("absolute", "fabs", "negative", "square", "sign"):
            if name == "square":
                return binary("multiply", arg, arg)
            if name == "fabs" and dtype.startswith("float"):
                name = "absolute"
            if name in ("absolute", "negative"):
                return unary(name, arg)
            if name == "sign" and dtype.startswith("float"):
                return scalar(Operation("sign", dtype, (arg.code,)))
    if len(args) == 2:
        if name in BINARY_UFUNCS:
            return binary(BINARY_UFUNCS[name], *args)
        if name == "power":
            return binary("power", *args)
        dtype = _common(args)
        pair = tuple(computed_as(arg, dtype) for arg in args)
        if name in ("maximum", "minimum", "fmax", "fmin"):
            return scalar(Operation(name, dtype, pair))
        if name in ("hypot", "arctan2", "copysign") and dtype.startswith("float"):
            return scalar(Operation(name, dtype, pair))
    raise NotTypedError(f"np.{name} has no form for single numbers")


def _common(args: Sequence[Value]) -> str:
    """The dtype in which a function of two numbers computes."""
    found = {kinds.promoted(*pair)[0] for pair in product(*(arg.type.kinds for arg in args))}
    if len(found) > 1 or not found <= kinds.DTYPES:
        raise NotTypedError(f"a function of numbers that become {' and '.join(sorted(found))}")
    return found.pop()


def as_numpy(value: Value) -> Value:
    """A Python number as the NumPy scalar that a ufunc takes it for."""
    if not value.type.is_python:
        return value
    found = frozenset(kinds.dtype_of(kind) for kind in value.type.kinds)
    return Value(value.code, Type(found, value.type.low, value.type.high), TRUE)


def cast(value: Value, dtype: str, wraps: bool = False) -> Expression:
    """`np.float32(x)` and the like, and what an element of an array becomes of a number.

    Integers have to fit, or the plain function decides; elements of arrays wrap.
    """
    old = value.type.dtype
    if dtype == "bool":
        return truth(value)
    if dtype.startswith(("int", "uint")):
        if old.startswith("float"):
            whole = Operation("truncated", "int64", (convert(value.code, "float64"),))
            return convert(whole, dtype, "checked_convert")
        if not wraps:
            return exactly(value, dtype)
    return convert(value.code, dtype)


def number(name: str, value: Value) -> Value:
    """`int(x)`, `float(x)`, `bool(x)` and `round(x)`."""
    old = value.type.dtype
    if name == "round":
        if not old.startswith("float"):
            raise NotTypedError("round of an integer")
        value = changed(value, code=Operation("rint", old, (value.code,)))
    if name == "bool":
        return python(truth(value))
    if name == "float":
        return python(convert(value.code, "float64"))
    if old.startswith("float"):
        return python(Operation("truncated", "int64", (convert(value.code, "float64"),)))
    bounds = (value.type.low, value.type.high) if old != "uint64" else (None, None)
    return python(convert(value.code, "int64", "checked_convert"), *bounds)
