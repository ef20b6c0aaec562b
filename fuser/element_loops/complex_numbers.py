"""Complex numbers in element loops: two floats, by NumPy's formulas, one operation after another.

An array of them is an array of floats with one axis more (`Array.pairs`), of which only this
translation knows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from fuser.base.records import record
from fuser.element_loops import operators
from fuser.element_loops.code import Constant, Expression, Get, Operation
from fuser.element_loops.kinds import COMPLEX, PYTHON, NotTypedError
from fuser.element_loops.operators import Value


@record
class Complex:
    """A complex number while a loop is translated; one that the source spells has no dtype."""

    real: Value
    imag: Value
    dtype: str


Number: TypeAlias = Value | Complex


def literal(value: complex) -> Complex:
    """A number that the source spells."""
    return Complex(operators.constant(value.real), operators.constant(value.imag), "")


def made(dtype: str, real: Expression, imag: Expression) -> Complex:
    """A number of its parts."""
    return Complex(operators.scalar(real), operators.scalar(imag), dtype)


def of_slots(dtype: str, name: str) -> Complex:
    """What two variables hold."""
    part = COMPLEX[dtype]
    return made(dtype, *(Get(f"{name} {which}.{part}", part) for which in ("real", "imag")))


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


def _kinds(value: Number) -> list[Any]:
    """What NumPy promotes: dtypes, and numbers of Python's."""
    if isinstance(value, Complex):
        return [np.dtype(value.dtype) if value.dtype else 0j]
    weak = {"pybool": False, "pyint": 0, "pyfloat": 0.0}
    return [weak[kind] if kind in PYTHON else np.dtype(kind) for kind in value.type.kinds]


def _common(one: Number, other: Number) -> str:
    """The dtype in which an operation on two numbers computes.

    Raises:
        NotTypedError: Python computes it, or only the run tells.
    """
    pairs = list(product(_kinds(one), _kinds(other)))
    if not all(any(isinstance(part, np.dtype) for part in pair) for pair in pairs):
        raise NotTypedError("an operation on Python's complex numbers")
    found = {np.result_type(*pair).name for pair in pairs}
    if len(found) > 1 or not found <= COMPLEX.keys():
        raise NotTypedError(f"a number becomes {' and '.join(sorted(found))}")
    return found.pop()


def binary(name: str, left: Number, right: Number) -> Number:
    """What an operator of two numbers gives.

    Raises:
        NotTypedError: it has no form here.
    """
    if isinstance(left, Value) and isinstance(right, Value):
        return operators.binary(name, left, right)
    if name == "power" and isinstance(right, Value) and isinstance(right.code, Constant):
        if right.type.kinds == {"pyint"} and right.code.value == 2:
            return binary("multiply", left, left)
    if name not in _FORMS:
        raise NotTypedError(f"{name} of complex numbers")
    dtype = _common(left, right)
    return made(dtype, *_FORMS[name](COMPLEX[dtype], *parts(left, dtype), *parts(right, dtype)))


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


_FORMS = {
    **{name: _componentwise(name) for name in ("add", "subtract")}, "multiply": _multiply,
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
    dtype = _common(left, right)
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
    if not value.dtype:
        raise NotTypedError(f"{name} of a complex number of Python's")
    if name in ("real", "imag"):
        return value.real if name == "real" else value.imag
    if name == "absolute":
        dtype = COMPLEX[value.dtype]
        return operators.scalar(Operation("hypot", dtype, (value.real.code, value.imag.code)))
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
    name = {"abs": "absolute"}.get(name, name)
    return binary(name, *args) if len(args) == 2 else unary(name, args[0])


def truth(value: Number) -> Expression:
    """Whether a number is not zero."""
    if isinstance(value, Value):
        return operators.truth(value)
    return operators.either(operators.truth(value.real), operators.truth(value.imag))

