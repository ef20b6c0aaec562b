"""Names that a trace has read and that hardly ever change: `np`, NumPy's functions, built-in ones.

Whoever replaces one (`np.exp = mine`, a global called `len`) is heard at the next call. Looking all
of them up again would cost more than many a call, so a namespace is asked first whether anything
in it was changed at all: where CPython numbers the changes of a dict (up to 3.12, PEP 509), that is
one comparison of two words.
"""

from __future__ import annotations

import builtins
import ctypes
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from fuser.base.packages import STABLE, root
from fuser.base.protocols import is_a
from fuser.capture.captures import ABSENT, NameGuard, names_of

#: What names are looked up in; a class shows its names as a view.
Space = dict[str, Any] | MappingProxyType[str, Any]
#: Where a dict keeps the number of its latest change.
_TAG_OFFSET = 24


class Unchanged:
    """Names of one namespace that must stand for what they stood for.

    Attributes:
        space: the namespace.
        names: pairs of a name and what it stood for; `ABSENT` where it was not there.
        tag: address of the number of the namespace's latest change; 0 where there is none.
    """

    __slots__ = ("_seen", "_word", "names", "space", "tag")
    asks = False

    def __init__(self, space: Space, names: Iterable[tuple[str, Any]]) -> None:
        """Hold on to them."""
        self.space = space
        self.names = tuple(names)
        self.tag = id(space) + _TAG_OFFSET if _NUMBERED and type(space) is dict else 0
        self._word = ctypes.c_uint64.from_address(self.tag) if self.tag else ctypes.c_uint64()
        self._seen = 0

    def look_up(self) -> None:
        """Nothing: several names are looked up here, or none."""

    def holds(self) -> bool:
        """Whether nothing has changed."""
        now = self._word.value
        if now == self._seen and now:
            return True
        for name, value in self.names:
            if self.space.get(name, ABSENT) is not value:
                return False
        self._seen = now
        return True


def _is_numbered() -> bool:
    """Whether this interpreter numbers the changes of dicts, where it is expected to."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 13):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or hasattr(sys, "getobjects"):
        return False
    tried: dict[str, Any] = {"a": 1}
    word = ctypes.c_uint64.from_address(id(tried) + _TAG_OFFSET)
    seen = [word.value]
    for change in (lambda: tried.update(a=2), lambda: tried.update(b=1), lambda: tried.pop("b")):
        change()
        seen.append(word.value)
    tried.get("a")
    return len(set(seen)) == len(seen) and word.value == seen[-1]


_NUMBERED = _is_numbered()


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
            if names[name] is ABSENT and space is not vars(builtins) and hasattr(builtins, name):
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
