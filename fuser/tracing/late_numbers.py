"""Python numbers that a loop or a call leaves: known only when that has run.

One is read where something hangs on it: a length, a decision, arithmetic of integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.ir.graph import Node, make_scalar
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: Kinds of such numbers, as element loops name them.
KINDS = {"pyint": int, "pyfloat": float, "pybool": bool}
#: Integers up to this one are the same as floats.
_EXACT = 1 << 53
#: Integers below this one are added and subtracted in loops that decide whether they are.
_COUNT = 1 << 31


_UFUNCS = {
    operator.add: "add", operator.sub: "subtract", operator.mul: "multiply",
    operator.truediv: "divide",
}  # fmt: skip


def _asked(name: str) -> Callable[..., Any]:
    """An operator of the number, where it is read."""

    def ask(self: Any, *args: Any) -> Any:
        return getattr(read(self), name)(*map(read, args))

    return ask


def _forth(function: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: _arithmetic(function, self, other)


def _back(function: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: _arithmetic(function, other, self)


def _operators() -> dict[str, Any]:
    """Python's operators of the number, by name."""
    names = (
        "truediv rtruediv floordiv rfloordiv mod rmod pow rpow lshift "
        "rshift rlshift rrshift and rand or ror xor rxor pos abs invert lt le gt ge eq ne bool "
        "int float index complex hash round floor ceil trunc format divmod rdivmod array_function"
    )
    found = {f"__{name}__": _asked(f"__{name}__") for name in names.split()}
    for name in ("add", "sub", "mul"):
        function = getattr(operator, name)
        found |= {f"__{name}__": _forth(function), f"__r{name}__": _back(function)}
    return found


class LateNumber:
    """In the place of a Python number that a loop or a call leaves.

    It can be returned, or enter a loop. A float can be added, subtracted, multiplied and divided by
    what is not zero, and meet arrays and NumPy's scalars where NumPy computes with it as with a
    scalar of its own: where these are as wide as a Python float. For all else it is read.
    """

    __slots__ = ("kind", "node", "tracing")
    locals().update(_operators())  # set later, each would have the class's own looked up again

    def __init__(self, tracing: Any, node: Node, kind: str) -> None:
        """Keep the value without axes that holds it, and its kind."""
        self.tracing, self.node, self.kind = tracing, node, kind

    #: It has no axes, as NumPy's scalars.
    generic = True

    @property
    def dtype(self) -> np.dtype[Any]:
        """What holds it."""
        return self.node.dtype

    def __getattr__(self, name: str) -> Any:
        """Of the number, where it is read."""
        return getattr(read(self), name)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Of the number, where it is read."""
        return np.asarray(read(self), *args, **kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Trace a ufunc."""
        return self.tracing.apply_ufunc(ufunc, method, inputs, options)

    def __neg__(self) -> Any:
        """The negative."""
        return _arithmetic(operator.mul, self, -1.0)

    def __truediv__(self, other: Any) -> Any:
        """The quotient: by a number that is not zero Python raises nothing."""
        known = type(other) in (int, float) and other != 0
        if known or isinstance(other, (TracedArray, np.ndarray, np.generic)):
            return _arithmetic(operator.truediv, self, other)
        return _asked("__truediv__")(self, other)


def read(value: Any) -> Any:
    """The number in whose place one of these is; other values are themselves."""
    return value.tracing.read(value.node) if type(value) is LateNumber else value


def is_float(value: Any) -> bool:
    """Whether a value is a Python float: a number, or in the place of one."""
    late = type(value) is LateNumber and value.kind == "pyfloat"
    return late or type(value) is float or (type(value) is HostScalar and value.kind is float)


def float_node(value: Any) -> Node:
    """The node of a Python float, or of an integer that is one exactly."""
    if type(value) is LateNumber:
        return value.node
    return make_scalar(value.text if type(value) is HostScalar else repr(value), "float64")


def is_count(value: Any) -> bool:
    """Whether a value is a small Python integer, or in the place of one.

    A loop that adds or subtracts numbers below 2**31 does not leave the integers of 64 bits.
    """
    late = type(value) is LateNumber and value.kind == "pyint"
    return late or (type(value) is int and abs(value) < _COUNT)


def count_node(value: Any) -> Node:
    """The node of such an integer."""
    return value.node if type(value) is LateNumber else make_scalar(repr(value), "int64")


#: Kinds of numbers that loops carry as values: whether one is such, and its node.
LATE: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any], Node]]] = {
    "pyfloat": (is_float, float_node), "pyint": (is_count, count_node),
}  # fmt: skip


def as_operands(ufunc: np.ufunc, inputs: Sequence[Any]) -> list[Any]:
    """Operands of a ufunc: a float in whose place one is as an array without axes.

    Where NumPy would not compute as with a scalar of float64, the number is read.
    """
    late = [value for value in inputs if type(value) is LateNumber]
    alike = all(_is_alike(value.dtype) for value in inputs if hasattr(type(value), "dtype"))
    if not (alike and all(map(is_float, late))) or ufunc is np.power:
        return [read(value) for value in inputs]
    return [
        value.tracing.wrap(value.node, True) if type(value) is LateNumber else value
        for value in inputs
    ]


def _is_alike(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy computes alike with a Python float and with its own beside such an array."""
    return np.result_type(dtype, 0.0) == np.result_type(dtype, np.float64)


def _arithmetic(function: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """A sum, a difference or a product: of Python floats it is one, and no such one raises."""
    late = one if type(one) is LateNumber else other
    if isinstance(one, (TracedArray, np.ndarray, np.generic)) or isinstance(
        other, (TracedArray, np.ndarray, np.generic)
    ):
        ufunc = getattr(np, _UFUNCS[function])
        return late.tracing.apply_ufunc(ufunc, "__call__", (one, other), {})
    parts = as_arrays(one, other)
    counts = late.kind == "pyint"
    steps = function in (operator.add, operator.sub) and int in (type(one), type(other))
    steps = steps and is_count(one) and is_count(other) and late.tracing.looking
    if parts is None or (counts and not steps):
        return function(read(one), read(other))
    return LateNumber(late.tracing, function(*parts).node, "pyint" if counts else "pyfloat")


def as_arrays(one: Any, other: Any) -> list[Any] | None:
    """Two numbers of which a loop tells one, as arrays without axes: floats, or counts.

    None where one is neither, and where an integer is not the same as a float.
    """
    late = one if type(one) is LateNumber else other
    if late.kind not in LATE:
        return None
    alike, node_of = LATE[late.kind]
    for each in (one, other):
        known = type(each) is int and abs(each) <= _EXACT
        if late.kind == "pyfloat" and type(each) is HostScalar:  # Python makes a float of it, too
            known = each.kind is int
        if not (alike(each) or known):
            return None
    return [late.tracing.wrap(node_of(each), True) for each in (one, other)]
