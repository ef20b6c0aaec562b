"""What a traced function depends on besides its arguments: globals, closures, attributes.

Scalars are guarded by value, arrays and functions by identity: a rebound global is noticed at
the next call.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_ABSENT = object()
_SCALARS = (int, float, complex, bool, str, bytes, type(None), np.generic)
_STABLE = frozenset(
    "numpy math cmath fuser cupy scipy builtins typing functools itertools operator".split()
)
_LIMIT = 400


@dataclass(frozen=True, slots=True)
class NameGuard:
    """One name that must keep its value (or identity).

    Attributes:
        scope: a namespace, or a closure's cell.
        name: the name, for messages too.
        expected: what was seen while tracing.
        by_value: compare values; else identity.
    """

    scope: Any
    name: str
    expected: Any
    by_value: bool

    def holds(self) -> bool:
        """Whether nothing has changed."""
        scope = self.scope
        if type(scope) is CellType:
            try:
                now = scope.cell_contents
            except ValueError:
                now = _ABSENT
        else:
            now = scope.get(self.name, _ABSENT)
        if now is self.expected:
            return not (self.by_value and type(now) in (list, dict))
        return self.by_value and _equal(now, self.expected)


def _equal(now: Any, expected: Any) -> bool:
    """Same type and value; NaN equals NaN, 0.0 is not -0.0."""
    if type(now) is not type(expected):
        return False
    if isinstance(now, (float, np.floating)):
        return repr(now) == repr(expected)
    try:
        return bool(now == expected)
    except Exception:  # noqa: BLE001 - a foreign __eq__ may raise anything: then not equal
        return False


def find_guards(function: Callable[..., Any], objects: Iterable[Any] = ()) -> list[NameGuard]:
    """Every name that a function, and the Python functions that it uses, may read.

    Args:
        function: a Python function or method.
        objects: further objects whose attributes the function may read (`self` …).
    """
    collector = _Collector()
    collector.callable(function)
    names = collector.names
    for thing in objects:
        collector.attributes(thing, names)
    return collector.guards


class _Collector:
    """Walks functions and the namespaces that they name."""

    def __init__(self) -> None:
        self.guards: list[NameGuard] = []
        self.names: set[str] = set()
        self._seen: set[int] = set()
        self._guarded: set[tuple[int, str]] = set()

    def callable(self, thing: Any) -> None:
        """Guard what a callable reads; other objects are left alone."""
        wrapped = getattr(thing, "__wrapped__", None)
        if isinstance(thing, MethodType):
            self.callable(thing.__func__)
            return
        if not isinstance(thing, FunctionType):
            if wrapped is not None:
                self.callable(wrapped)
            return
        if id(thing.__code__) in self._seen or len(self.guards) > _LIMIT:
            return
        self._seen.add(id(thing.__code__))
        names = _names(thing.__code__)
        self.names |= names
        for name in sorted(names):
            if name in thing.__globals__ and not hasattr(builtins, name):
                self.value(thing.__globals__, name, thing.__globals__[name], names)
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self.value(cell, name, content, names)
        for default in (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()):
            self.callable(default)

    def value(self, scope: Any, name: str, value: Any, names: set[str]) -> None:
        """Guard one name."""
        if (id(scope), name) in self._guarded or len(self.guards) > _LIMIT:
            return
        self._guarded.add((id(scope), name))
        if isinstance(value, ModuleType):
            if value.__name__.partition(".")[0] not in _STABLE:
                self.attributes(value, names)
            return
        if isinstance(value, _SCALARS):
            self.guards.append(NameGuard(scope, name, value, True))
        elif type(value) in (tuple, list, dict) and _simple(value):
            copy = dict(value) if type(value) is dict else type(value)(value)
            self.guards.append(NameGuard(scope, name, copy, True))
        else:
            self.guards.append(NameGuard(scope, name, value, False))
            self.callable(value)
            if not isinstance(value, (FunctionType, type, np.ndarray)):
                self.attributes(value, names)

    def attributes(self, thing: Any, names: set[str]) -> None:
        """Guard the attributes of an object that the code names, and follow its methods."""
        namespace = getattr(thing, "__dict__", None)
        if isinstance(namespace, Mapping):
            for name in sorted(names & set(namespace)):
                self.value(namespace, name, namespace[name], names)
        if isinstance(thing, ModuleType):
            return
        for name in sorted(names):
            method = getattr(type(thing), name, None)
            if isinstance(method, FunctionType):
                self.callable(method)


def _names(code: CodeType) -> set[str]:
    """Names that a code object and the ones nested in it look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _simple(value: Any, depth: int = 2) -> bool:
    """Whether a container is small and holds scalars only."""
    if isinstance(value, _SCALARS):
        return True
    if depth == 0 or len(value) > 64 if hasattr(value, "__len__") else True:
        return False
    parts = value.values() if type(value) is dict else value
    return type(value) in (tuple, list, dict) and all(_simple(part, depth - 1) for part in parts)
