"""Names that a trace has read and that hardly ever change: `np`, NumPy's functions, built-in ones.

Whoever replaces one (`np.exp = mine`, a global called `len`) is heard at the next call. Looking all
of them up again would cost more than many a call, so a namespace is asked first whether anything
in it was changed at all: where CPython numbers the changes of a dict (up to 3.12, PEP 509), that is
one comparison of two words. So it is with classes, whose changes all of its versions number.
"""

from __future__ import annotations

import builtins
import ctypes
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from fuser.base.packages import STABLE, root
from fuser.base.protocols import is_a, lie_as_known
from fuser.capture.captures import ABSENT, NameGuard, names_of
from fuser.capture.contents import CONTAINERS, Contents

#: What names are looked up in; a class shows its names as a view.
Space = dict[str, Any] | MappingProxyType[str, Any]
#: Where a dict keeps the number of its latest change.
_TAG_OFFSET = 24
#: Where a class keeps the number of its latest change: `tp_version_tag`, and nothing behind it.
_VERSION_OFFSET = 384
#: Names of a class whose change is not counted: CPython 3.14 keeps them beside what it counts.
_UNCOUNTED = ("__name__", "__qualname__")
#: What a guard by value may hold that changes in place.
_CHANGING = (*CONTAINERS, Contents)


class Numbered:
    """Guards that hold as long as a number says that nothing was changed.

    Attributes:
        tag: address of the number of the latest change; 0 where there is none.
    """

    __slots__ = ("_seen", "_word", "tag")
    asks = False

    def __init__(self, tag: int) -> None:
        """Look at the number there."""
        self.tag = tag
        self._word = ctypes.c_uint64.from_address(tag) if tag else ctypes.c_uint64()
        self._seen = 0

    def look_up(self) -> None:
        """Nothing: several names are looked up here, or none."""

    def holds(self) -> bool:
        """Whether nothing has changed."""
        now = self._word.value
        if now == self._seen and now:
            return True
        if not self.same():
            return False
        self._seen = now
        return True

    def same(self) -> bool:
        """Whether everything is as it was, looked up."""
        raise NotImplementedError


class Unchanged(Numbered):
    """Names of one namespace that must stand for what they stood for.

    Attributes:
        space: the namespace.
        names: pairs of a name and what it stood for; `ABSENT` where it was not there.
    """

    __slots__ = ("names", "space")

    def __init__(self, space: Space, names: Iterable[tuple[str, Any]]) -> None:
        """Hold on to them."""
        super().__init__(id(space) + _TAG_OFFSET if _NUMBERED and type(space) is dict else 0)
        self.space = space
        self.names = tuple(names)

    def same(self) -> bool:
        """Whether the names stand for the same."""
        return all(self.space.get(name, ABSENT) is value for name, value in self.names)


class OfClass(Numbered):
    """Guards of what one class has, or has not, and inherits from.

    Attributes:
        owner: the class.
        guards: they are looked at where the class, or one above it, was changed.
    """

    __slots__ = ("guards", "owner")

    def __init__(self, owner: type, guards: Iterable[NameGuard]) -> None:
        """Hold on to them."""
        super().__init__(id(owner) + _VERSION_OFFSET)
        self.owner = owner
        self.guards = tuple(guards)

    def same(self) -> bool:
        """Whether they all hold."""
        return all(guard.holds() for guard in self.guards)


def by_class(guards: Iterable[Any]) -> list[Any]:
    """Guards, those of a class as one, where this interpreter numbers changes of classes.

    Contents of lists and dicts may change while a class does not.
    """
    found: list[Any] = []
    classes: dict[int, tuple[type, list[NameGuard]]] = {}
    for guard in guards:
        counted = _VERSIONED and type(guard) is NameGuard and guard.name not in _UNCOUNTED
        owner = guard.owner if counted else None
        if owner is None or (guard.by_value and type(guard.expected) in _CHANGING):
            found.append(guard)
        else:
            classes.setdefault(id(owner), (owner, []))[1].append(guard)
    return [*found, *(OfClass(owner, held) for owner, held in classes.values())]


def _is_numbered() -> bool:
    """Whether this interpreter numbers the changes of dicts, where it is expected to."""
    if not lie_as_known() or sys.version_info >= (3, 13):
        return False
    tried: dict[str, Any] = {"a": 1}
    word = ctypes.c_uint64.from_address(id(tried) + _TAG_OFFSET)
    seen = [word.value]
    for change in (lambda: tried.update(a=2), lambda: tried.update(b=1), lambda: tried.pop("b")):
        change()
        seen.append(word.value)
    tried.get("a")
    return len(set(seen)) == len(seen) and word.value == seen[-1]


def _is_versioned() -> bool:
    """Whether it numbers the changes of classes, and of those above them."""
    if not lie_as_known():
        return False
    above = type("above", (), {"a": 1})
    tried = type("tried", (above,), {})
    word = ctypes.c_uint64.from_address(id(tried) + _VERSION_OFFSET)
    seen, look = list[int](), operator.attrgetter("a")
    changes: list[Callable[[], None]] = [
        lambda: None, lambda: setattr(tried, "b", 1), lambda: setattr(above, "a", 2),
        lambda: delattr(tried, "b"), lambda: setattr(tried, "__bases__", (above, _Other)),
    ]  # fmt: skip
    for change in changes:
        change()
        if seen and word.value in seen:
            return False
        look(tried)
        seen.append(word.value)
    look(tried())
    return len(set(seen)) == len(seen) and 0 < word.value == seen[-1] < 1 << 32


class _Other:
    """To be inherited from."""


_NUMBERED, _VERSIONED = _is_numbered(), _is_versioned()


class ReadNames:
    """What one trace has read from namespaces that it was not given."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._found: dict[int, tuple[Space, dict[str, Any]]] = {}

    def note(self, space: Space, name: str) -> None:
        """Note that a name was looked up; where it is not there, it is the built-in one."""
        names = self._found.setdefault(id(space), (space, {}))[1]
        if name not in names:
            names[name] = space.get(name, ABSENT)
            if names[name] is ABSENT and space is not vars(builtins):
                self.note(vars(builtins), name)

    def guards(self, known: Iterable[NameGuard], codes: Iterable[Any]) -> list[Unchanged]:
        """Guards of names that no other guard covers.

        Args:
            known: other guards.
            codes: the code that ran: of modules that were read as they are, it may read any name.
        """
        covered = {(id(guard.scope), guard.name) for guard in known}
        used = set[str]().union(*map(names_of, codes))
        seen: set[int] = set()
        waiting: list[Any] = [v for _, names in self._found.values() for v in names.values()]
        while waiting:
            module = waiting.pop()
            if not is_a(module, ModuleType) or id(module) in seen:
                continue
            seen.add(id(module))
            if root(module.__name__) in STABLE:
                for name in sorted(used & vars(module).keys()):
                    self.note(vars(module), name)
                    waiting.append(vars(module)[name])
        return [
            Unchanged(space, left.items())
            for space, names in self._found.values()
            if (left := _without(names, {name for place, name in covered if place == id(space)}))
        ]


def _without(names: Mapping[str, Any], covered: set[str]) -> dict[str, Any]:
    """Names but for some."""
    return {name: value for name, value in names.items() if name not in covered}
