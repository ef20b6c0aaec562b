"""What a function changes outside of itself while it is traced: noticed, and undone.

A trace runs the function on stand-ins. What it stores in an object, a global name or a list would
hold stand-ins from then on, and a fused call would not store it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CellType, ModuleType
from typing import Any

from fuser.captures import ABSENT, NameGuard, Slots


class Surroundings:
    """Namespaces, closures and containers that a function may reach, as they are now."""

    def __init__(self, guards: Iterable[NameGuard], objects: Iterable[Any]) -> None:
        """Look at what code names.

        Args:
            guards: the names, see `captures.find_guards`.
            objects: whose attributes it may read or set.
        """
        self._names: list[tuple[Any, str, Any]] = []
        self._containers: list[tuple[Any, Any, str]] = []
        self._seen: set[int] = set()
        for guard in guards:
            value = _value(guard.scope, guard.name)
            self._names.append((guard.scope, guard.name, value))
            self._keep(value, guard.name)
        for thing in objects:
            space = getattr(thing, "__dict__", None)
            if type(space) is dict and type(thing) is not ModuleType:
                self._keep(space, type(thing).__name__, deep=False)
            elif type(thing) in (list, dict, set):
                self._keep(thing, "an argument")

    def _keep(self, value: Any, name: str, deep: bool = True) -> None:
        """Note what a container holds, and those in it."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if type(each) not in (list, dict, set, tuple) or id(each) in self._seen:
                continue
            self._seen.add(id(each))
            if type(each) is not tuple:
                self._containers.append((each, each.copy(), name))
            if deep and type(each) is not set:
                waiting += each.values() if type(each) is dict else each

    def undo(self) -> str:
        """Put everything back; what was changed, or nothing."""
        changed = ""
        for scope, name, before in self._names:
            if _value(scope, name) is not before:
                changed = changed or name
                _restore(scope, name, before)
        for container, before, name in self._containers:
            if not _same(container, before):
                changed = changed or _changed_part(container, before, name)
                if type(container) is list:
                    container[:] = before
                else:
                    container.clear()
                    container.update(before)
        return changed


def _value(scope: Any, name: str) -> Any:
    """What a name stands for now."""
    if type(scope) is not CellType:
        return scope.get(name, ABSENT)
    try:
        return scope.cell_contents
    except ValueError:
        return ABSENT


def _restore(scope: Any, name: str, value: Any) -> None:
    """Give a name its value again."""
    if type(scope) is CellType:
        if value is ABSENT:
            del scope.cell_contents
        else:
            scope.cell_contents = value
    elif type(scope) is Slots:
        if value is ABSENT:
            delattr(scope.thing, name)
        else:
            setattr(scope.thing, name, value)
    elif type(scope) is dict:
        if value is ABSENT:
            scope.pop(name, None)
        else:
            scope[name] = value


def _same(now: Any, before: Any) -> bool:
    """Whether a container holds the very objects that it held."""
    if len(now) != len(before):
        return False
    if type(now) is set:
        return bool(now == before)
    if type(now) is dict:
        return all(key in now and now[key] is value for key, value in before.items())
    return all(one is other for one, other in zip(now, before, strict=True))


def _changed_part(now: Any, before: Any, name: str) -> str:
    """What is told of a change: an attribute, where it is one."""
    if type(now) is dict:
        for key in {**before, **now}:
            if now.get(key, ABSENT) is not before.get(key, ABSENT):
                return f"{key} of {name}"
    return name
