"""Complex numbers in element loops: two floats, by NumPy's formulas, one operation after another.

An array of them is an array of floats with one axis more (`Array.pairs`), of which only this
translation knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from fuser.base.records import record
from fuser.element_loops import operators
from fuser.element_loops.code import Constant, Expression, Operation
from fuser.element_loops.kinds import COMPLEX, PYTHON, NotTypedError, Type
from fuser.element_loops.operators import FALSE, TRUE, Value

#: From this version on Python computes with a real and a complex number by other rules.
_OTHER_RULES = (3, 14)


@record
class Complex:
    """A complex number while a loop is translated; of Python's where its parts are."""

    real: Value
    imag: Value
    dtype: str


Number: TypeAlias = Value | Complex


def literal(value: complex) -> Complex:
    """A number that the source spells."""
    return Complex(
        operators.constant(value.real), operators.constant(value.imag), "complex128"
    )


def of_parts(real: Value, imag: Value) -> Complex:
    """`complex(x, y)`."""
    real, imag = operators.number("float", real), operators.number("float", imag)
    return Complex(real, imag, "complex128")


def made(dtype: str, real: Expression, imag: Expression, numpy: Expression = TRUE) -> Complex:
    """A number of its parts; `numpy`: whether it is a NumPy scalar."""
    found = {"pyfloat"} if numpy != TRUE else set()
    found |= {COMPLEX[dtype]} if numpy != FALSE else set()
    kinds = Type(frozenset(found))
    return Complex(Value(real, kinds, numpy), Value(imag, kinds, numpy), dtype)


def may_be_pair(found: Type) -> bool:
    """Whether an integer computes as the complex number that it is equal to, where it meets one.

    So do those whose products a float holds.
    """
    return found.kinds == {"pyint"} and max(-found.low, found.high) < 2**26


def parts(value: Number, dtype: str) -> tuple[Expression, Expression]:
    """The real and the imaginary part of a number that NumPy converts to a complex dtype."""
    part = COMPLEX[dtype]
    if isinstance(value, Complex):
        real, imag = (operators.convert(each.code, part) for each in (value.real, value.imag))
        return real, imag
    code = value.code
    if value.type.is_python:  # which is a complex number of Python's first
        code = operators.convert(code, "float64")
    return operators.convert(code, part), Constant(part, 0.0)


def _numpy(value: Number) -> Expression:
    """Whether a number is a NumPy scalar."""
    return value.real.numpy if isinstance(value, Complex) else value.numpy


def _kinds(value: Number) -> list[Any]:
    """What NumPy promotes: dtypes, and numbers of Python's."""
    if isinstance(value, Complex):
        found = [0j] if value.real.type.is_python else []
        return [*found, np.dtype(value.dtype)] if value.real.type.is_numpy else found
    weak = {"pybool": False, "pyint": 0, "pyfloat": 0.0}
    return [weak[kind] if kind in PYTHON else np.dtype(kind) for kind in value.type.kinds]


def _common(one: Number, other: Number) -> tuple[str, Expression]:
    """The dtype in which an operation on two numbers computes, and whether NumPy does.

    Raises:
        NotTypedError: only the run tells, or Python has another rule.
    """
    numpy = operators.either(_numpy(one), _numpy(other))
    pairs = list(product(_kinds(one), _kinds(other)))
    found = {np.result_type(*pair).name for pair in pairs
             if any(isinstance(part, np.dtype) for part in pair)}  # fmt: skip
    found = found if numpy == TRUE else found | {"complex128"}
    if len(found) > 1 or not found <= COMPLEX.keys():
        raise NotTypedError(f"a number becomes {' and '.join(sorted(found))}")
    if numpy != TRUE and sys.version_info >= _OTHER_RULES:
        raise NotTypedError("an operation on Python's complex numbers, by the rules of 3.14")
    return found.pop(), numpy


def binary(name: str, left: Number, right: Number) -> Number:
    """What an operator of two numbers gives.

    Raises:
        NotTypedError: it has no form here.
    """
    if isinstance(left, Value) and isinstance(right, Value):
        return operators.binary(name, left, right)
    if name == "power" and isinstance(right, Value) and isinstance(right.code, Constant):
        if right.type.kinds == {"pyint"} and right.code.value == 2:
            return _square(left)
    if name not in _FORMS:
        raise NotTypedError(f"{name} of complex numbers")
    dtype, numpy = _common(left, right)
    if name == "divide":
        if numpy not in (TRUE, FALSE):
            raise NotTypedError("a quotient of Python's or NumPy's, which the run tells")
        name = name if numpy == TRUE else "python divide"
    operands = *parts(left, dtype), *parts(right, dtype)
    return made(dtype, *_FORMS[name](COMPLEX[dtype], *operands), numpy)


def _square(value: Number) -> Number:
    """`z ** 2`: Python multiplies the square by 1, which has other zeros."""
    found = binary("multiply", value, value)
    if not isinstance(found, Complex) or (numpy := _numpy(found)) == TRUE:
        return found
    dtype = COMPLEX[found.dtype]
    real, imag = found.real.code, found.imag.code
    zero = Constant(dtype, 0.0)
    # The real part stays: it is no negative zero.
    once = Operation("add", dtype, (imag, Operation("multiply", dtype, (zero, real))))
    if numpy != FALSE:
        once = Operation("select", dtype, (numpy, imag, once))
    return made(found.dtype, real, once, numpy)


def _componentwise(name: str) -> Callable[..., tuple[Expression, Expression]]:
    """A sum or a difference."""

    def form(
        dtype: str, a: Expression, b: Expression, c: Expression, d: Expression
    ) -> tuple[Expression, Expression]:
        return Operation(name, dtype, (a, c)), Operation(name, dtype, (b, d))

    return form


def _multiply(
    dtype: str, a: Expression, b: Expression, c: Expression, d: Expression
) -> tuple[Expression, Expression]:
    """A product, of four."""

    def both(x: Expression, y: Expression) -> Expression:
        return Operation("multiply", dtype, (x, y))

    real = Operation("subtract", dtype, (both(a, c), both(b, d)))
    return real, Operation("add", dtype, (both(a, d), both(b, c)))


def _divided(by_inverse: bool) -> Callable[..., tuple[Expression, Expression]]:
    """A quotient, by Smith's formula: NumPy multiplies by an inverse, Python refuses a zero."""

    def form(
        dtype: str, a: Expression, b: Expression, c: Expression, d: Expression
    ) -> tuple[Expression, Expression]:
        def of(name: str, *args: Expression) -> Expression:
            return Operation(name, dtype, args)

        larger = Operation(
            "greater_equal", "bool", (of("absolute", c), of("absolute", d))
        )
        large, small = of("select", larger, c, d), of("select", larger, d, c)
        divide = "divide" if by_inverse else "checked_divide"
        ratio = of(divide, small, large)
        scale = of("add", large, of("multiply", small, ratio))
        one, other = of("select", larger, a, b), of("select", larger, b, a)
        real = of("add", one, of("multiply", other, ratio))
        imag = of(
            "select", larger, of("subtract", b, of("multiply", a, ratio)),
            of("subtract", of("multiply", b, ratio), a),
        )  # fmt: skip
        if not by_inverse:
            return of("divide", real, scale), of("divide", imag, scale)
        inverse = of("divide", Constant(dtype, 1.0), scale)
        zero = Operation("equal", "bool", (of("absolute", large), Constant(dtype, 0.0)))
        found = [
            of("select", zero, of("divide", each, of("absolute", c)), of("multiply", part, inverse))
            for each, part in ((a, real), (b, imag))
        ]
        return found[0], found[1]

    return form


_FORMS = {
    **{name: _componentwise(name) for name in ("add", "subtract")}, "multiply": _multiply,
    "divide": _divided(True), "python divide": _divided(False),
}  # fmt: skip


def compare(name: str, left: Number, right: Number) -> Value:
    """Whether two numbers are the same, or are not.

    Raises:
        NotTypedError: it is another comparison.
    """
    if isinstance(left, Value) and isinstance(right, Value):
        return operators.compare(name, left, right)
    if name not in ("equal", "not_equal"):
        raise NotTypedError(f"{name} of complex numbers")
    dtype, _ = _common(left, right)
    pairs = zip(parts(left, dtype), parts(right, dtype), strict=True)
    one, other = (Operation(name, "bool", pair) for pair in pairs)
    join = operators.both if name == "equal" else operators.either
    return operators.scalar(join(one, other))


def unary(name: str, value: Number) -> Number:
    """What `-z`, `+z`, `abs(z)`, `z.real` and the like give.

    Raises:
        NotTypedError: it has no form here.
    """
    if isinstance(value, Value):
        return operators.unary(name, value)
    if name in ("real", "imag"):
        return value.real if name == "real" else value.imag
    if name == "absolute":
        dtype = COMPLEX[value.dtype]
        size = Operation("hypot", dtype, (value.real.code, value.imag.code))
        return Value(size, value.real.type, value.real.numpy)
    if name == "exp":
        dtype = COMPLEX[value.dtype]
        size = Operation("exp", dtype, (value.real.code,))
        turns = (Operation(each, dtype, (value.imag.code,)) for each in ("cos", "sin"))
        return made(value.dtype, *(Operation("multiply", dtype, (size, turn)) for turn in turns))
    if name in ("conjugate", "conj"):
        return Complex(value.real, operators.unary("negative", value.imag), value.dtype)
    if name in ("negative", "positive"):
        real, imag = (operators.unary(name, each) for each in (value.real, value.imag))
        return Complex(real, imag, value.dtype)
    raise NotTypedError(f"{name} of a complex number")


def numpy_function(name: str, args: tuple[Number, ...]) -> Number:
    """What a ufunc of NumPy's gives.

    Raises:
        NotTypedError: it has no form here.
    """
    real = [arg for arg in args if isinstance(arg, Value)]
    if len(real) == len(args):
        return operators.numpy_function(name, real)
    if name == "square":
        return binary("multiply", args[0], args[0])
    name = {"abs": "absolute", "true_divide": "divide"}.get(name, name)
    args = tuple(arg if isinstance(arg, Value) else made(arg.dtype, arg.real.code, arg.imag.code)
                 for arg in args)  # fmt: skip
    return binary(name, *args) if len(args) == 2 else unary(name, args[0])


def truth(value: Number) -> Expression:
    """Whether a number is not zero."""
    if isinstance(value, Value):
        return operators.truth(value)
    return operators.either(operators.truth(value.real), operators.truth(value.imag))

