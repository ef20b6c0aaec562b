"""Keys of values that are no arrays: what one trace may take for the same."""

from __future__ import annotations

from types import BuiltinMethodType, MethodType, MethodWrapperType
from typing import Any

import numpy as np

from fuser.base.protocols import has_own_hash, state_of

#: Types whose own comparison is right: equal values are the same value.
_COMPARED = frozenset(
    map(id, (str, bytes, int, bool, type(None), range, BuiltinMethodType, MethodWrapperType))
)
#: Types whose values are told apart to the last bit by their text: 0j from -0j.
_SPELLED = frozenset(map(id, (float, complex)))
#: Values in each other that are looked at; those in them count by identity.
_DEPTH = 4


class Same:
    """An object in a key: equal to itself alone, whatever its own `__eq__` says."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Keep `value`, so that no other object gets its identity."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other.value is self.value

    def __hash__(self) -> int:
        return object.__hash__(self.value)


def constant_key(value: Any, depth: int = _DEPTH) -> Any:
    """A value in a key: numbers and text by what they are, other objects by identity.

    An object whose class has a hash of its own is a value: of the same class, and all that it
    holds the same, another one is as good. Its `__eq__` is not asked: `-0.0 == 0.0 == False`.

    Args:
        value: anything; none of its own code runs.
        depth: how many values in each other are looked at.
    """
    kind = type(value)
    if id(kind) in _COMPARED or issubclass(kind, np.dtype):
        return (kind, value)
    if id(kind) in _SPELLED:
        return (kind, repr(value))
    if depth == 0:
        return Same(value)
    if kind is MethodType:
        return (kind, Same(value.__func__), Same(value.__self__))
    if kind is slice:
        return (kind, *(constant_key(each, depth - 1) for each in _bounds(value)))
    if kind is tuple or kind is frozenset:
        return (kind, *(constant_key(each, depth - 1) for each in value))
    held = state_of(value) if has_own_hash(value) else None
    if held is None:
        return Same(value)
    parts = ((constant_key(name), constant_key(part, depth - 1)) for name, part in held.items())
    return (Same(kind), *parts)


def stands_for_others(value: Any) -> bool:
    """Whether other objects, which hold the same, have the key of this one.

    Args:
        value: anything.
    """
    key = constant_key(value)
    return type(key) is tuple and type(key[0]) is Same


def _bounds(part: slice) -> tuple[Any, Any, Any]:
    """What a slice is made of."""
    return part.start, part.stop, part.step
