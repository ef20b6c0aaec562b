"""Python's built-in functions as a traced function sees them.

A stand-in says by `__class__` what it stands for; `type` looks past that, and a stand-in has
attributes that arrays have not. A function that asks would go another way than it does with arrays.
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.tracing import late_lists
from fuser.tracing.late_numbers import LateNumber
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

_STAND_INS = (TracedArray, HostScalar)
#: Functions that keep what they gave: they must not keep what they gave of stand-ins.
REMEMBERING = type(functools.lru_cache(lambda: None))


def is_stand_in(value: Any) -> bool:
    """Whether a value is known only in a trace."""
    return issubclass(type(value), _STAND_INS)


def has_attribute(kind: type, name: str) -> bool:
    """Whether values of a class have an attribute; attributes of classes alone do not count."""
    return any(name in vars(each) for each in kind.__mro__)


class _Type:
    """`type` while tracing: what stands for an array is an array."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The class of a value, or a new class."""
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        value = args[0]
        kind: Any = value.__class__ if is_stand_in(value) else type(value)
        return self if kind is type else kind

    def __instancecheck__(self, value: Any) -> bool:
        """Whether a value is a class."""
        return isinstance(value, type)

    def __subclasscheck__(self, value: Any) -> bool:
        """Whether a class is one of classes."""
        return issubclass(value, type)

    def __mro_entries__(self, bases: Any) -> tuple[type]:
        """A class of classes is derived from `type` itself."""
        return (type,)

    def __getattr__(self, name: str) -> Any:
        """Everything else is that of `type`."""
        return getattr(type, name)

    def __getitem__(self, item: Any) -> Any:
        """As in annotations."""
        return types.GenericAlias(type, item)

    def __or__(self, other: Any) -> Any:
        """As in annotations."""
        return type | other

    def __ror__(self, other: Any) -> Any:
        """As in annotations."""
        return other | type

    def __eq__(self, other: object) -> bool:
        """Equal to `type`."""
        return other is self or other is type

    def __hash__(self) -> int:
        """That of `type`."""
        return hash(type)

    def __repr__(self) -> str:
        """That of `type`."""
        return repr(type)


def _len(value: Any, /) -> Any:
    """`len`, which of a traced array stays symbolic, as `x.shape[0]` does."""
    if late_lists.is_late(value):
        return value.length()
    return value.shape[0] if isinstance(value, TracedArray) and value.ndim else len(value)


def _of_list(function: Callable[..., Any], late: Callable[[Any], Any]) -> Callable[..., Any]:
    """`sum`, `max` or `min`; `late` is what it is of a list that a loop has appended to."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and late_lists.is_late(args[0]):
            return late(args[0])
        return function(*args, **kwargs)

    return call


def _hasattr(value: Any, name: str, /) -> bool:
    """`hasattr`: what stands in has the attributes of what it stands for."""
    if is_stand_in(value):
        return has_attribute(value.__class__, name)
    return hasattr(value, name)


def _getattr(value: Any, name: str, /, *default: Any) -> Any:
    """`getattr`, of the attributes that arrays and numbers have."""
    kind = value.__class__
    if is_stand_in(value) and not has_attribute(kind, name):
        if default:
            return default[0]
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    return getattr(value, name, *default)


def _id(value: Any, /) -> int:
    """`id`: a stand-in is another object than what it stands for."""
    if is_stand_in(value):
        raise Unsupported("not-traceable", "id()", "it asks which object an argument is (id, hash)")
    return id(value)


def _print(*args: Any, **kwargs: Any) -> None:
    """`print`, which a kernel would not do."""
    raise Unsupported("side-effect", "print()", "it prints")


def _float(*args: Any) -> Any:
    """`float`, called: of a value it is a number that later calls read anew.

    In the body of a loop, of which each iteration has another, it is in the place of that number.
    """
    value: Any = args[0] if len(args) == 1 else None
    if issubclass(type(value), TracedArray):
        tracing = value.tracing
        known = value.ndim or value.dtype.kind not in "biuf" or id(value.node) in tracing.reads
        if tracing.looking and not known:
            return LateNumber(tracing, value.astype(np.float64).node, "pyfloat")
        return value.as_number(float)
    if issubclass(type(value), HostScalar) and value.kind is not complex:
        return value if value.kind is float else value * 1.0
    return float(*args)


def _int(*args: Any, **kwargs: Any) -> Any:
    """`int`, called."""
    value: Any = args[0] if len(args) == 1 and not kwargs else None
    if issubclass(type(value), TracedArray):
        return value.as_number(int)
    if issubclass(type(value), HostScalar) and value.kind in (int, bool):
        return value if value.kind is int else value + 0
    return int(*args, **kwargs)


def without_memory(
    function: Callable[..., Any], ask: Callable[[Any, Any, Any], Any]
) -> Callable[..., Any]:
    """A function that keeps its results, called with numbers where stand-ins are given.

    Args:
        function: it.
        ask: calls it, given it and its arguments.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        plain = {name: _number(value) for name, value in kwargs.items()}
        return ask(function, tuple(map(_number, args)), plain)

    return call


def _number(value: Any) -> Any:
    """The number itself, from now on a guard of its trace."""
    return value._guarded() if type(value) is HostScalar else value


#: Those that a traced function finds in place of Python's, by name.
BUILTINS: dict[str, Any] = {
    "len": _len, "type": _Type(), "hasattr": _hasattr, "getattr": _getattr, "id": _id,
    "print": _print,
    "sum": _of_list(sum, lambda items: items.total()),
    "max": _of_list(max, lambda items: items.extreme(True)),
    "min": _of_list(min, lambda items: items.extreme(False)),
}  # fmt: skip
#: Classes that a function finds replaced where it does nothing with them but call them.
CALLED: dict[str, Any] = {"float": _float, "int": _int}


#: Python's own by what a trace has put in their place.
_PLAIN = {id(made): getattr(builtins, name) for name, made in (*BUILTINS.items(), *CALLED.items())}


def plain_builtin(value: Any) -> Any:
    """Python's own where a trace has put another in its place."""
    return _PLAIN.get(id(value), value)
