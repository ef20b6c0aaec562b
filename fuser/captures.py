"""What a traced function depends on besides its arguments: globals, closures, attributes.

Scalars are guarded by value, arrays and functions by identity: a rebound global is noticed at
the next call.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from types import (
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from fuser.errors import Unsupported
from fuser.records import record

#: Stands for a name that is not there.
ABSENT = object()
_SCALARS = (int, float, complex, bool, str, bytes, type(None), np.generic)
_CONTAINERS = (tuple, list, dict, set)
_STABLE = frozenset(
    "numpy math cmath fuser cupy scipy builtins typing functools itertools operator".split()
)
_MAKERS = frozenset(
    "__init__ __new__ __post_init__ __init_subclass__ __del__ __repr__ __str__ __format__ "
    "__reduce__ __reduce_ex__ __getstate__ __setstate__ __replace__".split()
)
_LIMIT = 1000


@record
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
                now = ABSENT
        else:
            now = scope.get(self.name, ABSENT)
        return same_value(now, self.expected) if self.by_value else now is self.expected


class Slots:
    """The attributes of an object without a namespace of its own."""

    def __init__(self, thing: Any) -> None:
        """Look at `thing`."""
        self.thing = thing

    def get(self, name: str, default: Any) -> Any:
        """As a namespace's."""
        return getattr(self.thing, name, default)


def _snapshot(value: Any) -> Any:
    """A container with copies of the containers in it; what they hold is not copied."""
    if type(value) is dict:
        return {key: _snapshot(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_snapshot(part) for part in value)
    return set(value) if type(value) is set else value


def same_value(now: Any, expected: Any) -> bool:
    """Same type and value; NaN equals NaN, 0.0 is not -0.0. Arrays and objects by identity."""
    if type(now) is not type(expected):
        return False
    if type(now) in (list, tuple):
        return len(now) == len(expected) and all(map(same_value, now, expected))
    if type(now) is dict:
        return list(now) == list(expected) and all(map(same_value, now.values(), expected.values()))
    if now is expected:
        return True
    if not isinstance(now, _SCALARS) and type(now) not in (set, frozenset):
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
    return look_around(function, objects)[0]


def look_around(
    function: Callable[..., Any], objects: Iterable[Any] = ()
) -> tuple[list[NameGuard], list[Any]]:
    """What `find_guards` finds, and the objects that were met."""
    collector = _Collector()
    collector.callable(function)
    for thing in objects:
        collector.contents(thing)
    collector.settle()
    return collector.guards, collector.objects


class _Collector:
    """Walks functions and the namespaces that they name."""

    def __init__(self) -> None:
        self.guards: list[NameGuard] = []
        self.names: set[str] = set()
        self._seen: set[int] = set()
        self.objects: list[Any] = []
        self._guarded: set[tuple[int, str]] = set()

    def callable(self, thing: Any) -> None:
        """Guard what a callable reads; other objects are left alone."""
        wrapped = getattr(thing, "__wrapped__", None)
        if isinstance(thing, MethodType):
            self.callable(thing.__func__)
            self.contents(thing.__self__)
            return
        if isinstance(thing, property):
            self.callable(thing.fget)
            return
        if not isinstance(thing, FunctionType):  # classmethod and staticmethod among others
            if wrapped is not None and not isinstance(thing, type):
                self.callable(wrapped)
            return
        if id(thing.__code__) in self._seen:
            return
        self._seen.add(id(thing.__code__))
        names = _names(thing.__code__)
        self.names |= names
        for name in sorted(names):
            if name in thing.__globals__ and not hasattr(builtins, name):
                self.value(thing.__globals__, name, thing.__globals__[name])
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self.value(cell, name, content)
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(thing, name):
                self.value(Slots(thing), name, getattr(thing, name), thing)

    def settle(self) -> None:
        """Look at objects again until the methods found there name nothing new."""
        before = -1
        while before != len(self.names) + len(self.objects):
            before = len(self.names) + len(self.objects)
            for thing in list(self.objects):
                self.attributes(thing)

    def value(self, scope: Any, name: str, value: Any, owner: Any = None) -> None:
        """Guard one name; `owner` stands for a scope that is made anew at each look."""
        key = (id(scope if owner is None else owner), name)
        if key in self._guarded:
            return
        self._guarded.add(key)
        if isinstance(value, ModuleType):
            if value.__name__.partition(".")[0] not in _STABLE:
                self.objects.append(value)
            return
        if isinstance(value, _SCALARS):
            self._add(NameGuard(scope, name, value, True))
        elif type(value) in _CONTAINERS:
            self._add(NameGuard(scope, name, _snapshot(value), True))
            for part in _leaves(value):
                self.contents(part)
        else:
            self._add(NameGuard(scope, name, value, False))
            self.contents(value)

    def contents(self, value: Any) -> None:
        """Guard what an object leads to: a function's names, an object's attributes."""
        if isinstance(value, (*_SCALARS, np.ndarray)) or id(value) in self._seen:
            return
        self.callable(value)
        if not isinstance(value, FunctionType):
            self._seen.add(id(value))
            self.objects.append(value)

    def attributes(self, thing: Any) -> None:
        """Guard the attributes of an object that the code names, and follow its methods."""
        names = set(self.names)
        kind = thing if isinstance(thing, type) else type(thing)
        if kind is not ModuleType and kind.__module__.partition(".")[0] in _STABLE:
            return
        namespace = getattr(thing, "__dict__", None)
        own = namespace if isinstance(namespace, Mapping) and kind is not thing else None
        for name in sorted(names & set(own or ())):
            self.value(own, name, own[name])  # type: ignore[index] # it is in there
        if isinstance(thing, ModuleType):
            return
        names |= {n for cls in kind.__mro__[:-1] for n in vars(cls) if _operator(vars(cls)[n], n)}
        for name in sorted(names - set(own or ())):
            holder = next((cls for cls in kind.__mro__ if name in vars(cls)), None)
            if holder is None or holder.__module__.partition(".")[0] in _STABLE:
                continue
            found = vars(holder)[name]
            if isinstance(found, MemberDescriptorType) and kind is not thing:
                self.value(Slots(thing), name, getattr(thing, name, ABSENT), thing)
                continue
            self.value(vars(holder), name, found, holder)
            if own is not None:
                self._absent(own, name, own)
            for cls in kind.__mro__[: kind.__mro__.index(holder)]:
                self._absent(vars(cls), name, cls)

    def _absent(self, scope: Any, name: str, owner: Any) -> None:
        """Guard that a name is not there, where it would hide another."""
        if (id(owner), name) not in self._guarded:
            self._guarded.add((id(owner), name))
            self._add(NameGuard(scope, name, ABSENT, False))

    def _add(self, guard: NameGuard) -> None:
        """Add a guard.

        Raises:
            Unsupported: there are too many; a change would go unnoticed without one of them.
        """
        if len(self.guards) >= _LIMIT:
            raise Unsupported("not-traceable", guard.name, f"more than {_LIMIT} names in use")
        self.guards.append(guard)


def _names(code: CodeType) -> set[str]:
    """Names that a code object and the ones nested in it look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            found.add(constant)  # getattr(thing, "name")
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _operator(member: Any, name: str) -> bool:
    """Whether a member of a class is a method that operators call."""
    return name.startswith("__") and name not in _MAKERS and isinstance(member, FunctionType)


def _leaves(value: Any) -> Iterable[Any]:
    """What a container holds, in containers in it too."""
    stack, seen = [value], set()
    while stack:
        part = stack.pop()
        if type(part) not in _CONTAINERS:
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            stack.extend(part.values() if type(part) is dict else part)
