"""Names that a function reads, as places where the dispatcher looks for the same object again."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from fuser.backends.cpu.machine import layout
from fuser.capture import captures

#: Names that are looked up in every call; beyond, calls are left to Python.
MOST_GUARDS = 64
_IMMUTABLE = (int, float, complex, bool, str, bytes, type(None), np.generic)


class NotServed(Exception):  # noqa: N818 - a signal: Python keeps serving such calls
    """The dispatcher cannot serve a call."""


def describe_names(guards: Sequence[captures.NameGuard], keep: list[Any]) -> list[list[int]]:
    """Names that the function reads, as pairs of a place and the object that must be there.

    Raises:
        NotServed: a value may change without its object changing, or there are too many names.
    """
    if len(guards) > MOST_GUARDS:
        raise NotServed
    rows = []
    for guard in guards:
        kind, scope, name = _scope(guard)
        expected = _now(guard, kind, scope)
        if not guard.holds():
            raise NotServed  # it changes just now
        keep.extend([guard, scope, name, expected])
        absent = expected is captures.ABSENT
        rows.append(
            layout.words(
                "GUARD", kind=kind, scope=id(scope), name=0 if name is None else id(name),
                expected=0 if absent else id(expected),
            )
        )  # fmt: skip
    return rows


def _scope(guard: captures.NameGuard) -> tuple[int, Any, Any]:
    """How a name is looked up, where, and by which object."""
    scope = guard.scope
    if type(scope) is CellType:
        return layout.IN_CELL, scope, None
    if type(scope) is captures.Slots and type(scope.thing) is FunctionType:
        return layout.IN_OBJECT, scope.thing, guard.name
    if type(scope) is MappingProxyType:
        place = ctypes.c_void_p.from_address(id(scope) + 16).value
        behind = {id(part): part for part in _referents(scope)}
        if place not in behind:
            raise NotServed
        scope = behind[place]
    if type(scope) is not dict:
        raise NotServed
    return layout.IN_DICT, scope, guard.name


def _referents(scope: Any) -> list[Any]:
    """What an object refers to."""
    import gc

    return gc.get_referents(scope)


def _now(guard: captures.NameGuard, kind: int, scope: Any) -> Any:
    """The object that a name stands for, where its identity settles its value.

    Raises:
        NotServed: it can be changed in place.
    """
    if kind == layout.IN_CELL:
        now = scope.cell_contents
    elif kind == layout.IN_OBJECT:
        now = getattr(scope, guard.name)
    else:
        now = scope.get(guard.name, captures.ABSENT)
    if guard.by_value and not _immutable(now):
        raise NotServed
    return now


def _immutable(value: Any) -> bool:
    """Whether an object always has the value that it has now."""
    if type(value) is tuple:
        return all(_immutable(part) for part in value)
    return isinstance(value, _IMMUTABLE)
