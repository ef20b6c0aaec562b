"""Names that a function reads, as places where the dispatcher looks for the same object again."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import partial
from types import CellType, FunctionType, MappingProxyType, MemberDescriptorType
from typing import Any

from fuser.backends.cpu.machine import layout
from fuser.capture import captures
from fuser.capture.contents import Contents
from fuser.capture.permitted import told
from fuser.capture.read_names import OfClass, Unchanged

#: Names that the dispatcher looks up; further ones are looked up by Python.
MOST_GUARDS = 256
#: The number of no change: what has none is looked up at each call.
_NO_NUMBER = -1

#: How attributes are looked up where no code of the user's runs.
_ASKING_NOBODY = tuple(
    kind.__getattribute__ for kind in (object, partial, BaseException)
)


class NotServed(Exception):  # noqa: N818 - a signal: Python keeps serving such calls
    """The dispatcher cannot serve a call."""


Guard = captures.NameGuard | Unchanged | OfClass


def describe_names(guards: Sequence[Guard], keep: list[Any]) -> tuple[list[list[int]], list[Guard]]:
    """Names that the function reads, as pairs of a place and the object that must be there.

    Returns:
        Those, and the guards that Python has to look at: a value may change without its object
        changing, or there are too many names.
    """
    rows: list[list[int]] = []
    asked: list[Guard] = []
    for guard in guards:
        try:
            if len(rows) >= MOST_GUARDS:
                raise NotServed
            if isinstance(guard, captures.NameGuard):
                rows.append(_describe(guard, keep))
            else:
                rows += _describe_numbered(guard, keep)
        except NotServed:
            asked.append(guard)
    return rows, asked


def _describe(guard: captures.NameGuard, keep: list[Any]) -> list[int]:
    """One name.

    Raises:
        NotServed: Python has to look at it.
    """
    if (word := _word(guard)) is not None:
        keep.append(guard)
        return word
    kind, scope, name = _scope(guard)
    expected = _now(guard, kind, scope)
    if not guard.holds():
        raise NotServed  # it changes just now
    keep.extend([guard, scope, name, expected])
    absent = expected is captures.ABSENT
    return layout.words(
        "GUARD", kind=kind, scope=id(scope), name=0 if name is None else id(name),
        expected=0 if absent else id(expected),
    )  # fmt: skip


def _describe_space(guard: Unchanged) -> list[list[int]]:
    """Names of a namespace.

    Raises:
        NotServed: one stands for something else just now.
    """
    if not guard.same():
        raise NotServed
    space = guard.space
    return _rows(_behind(space) if isinstance(space, MappingProxyType) else space, guard.names)


def _describe_numbered(guard: Unchanged | OfClass, keep: list[Any]) -> list[list[int]]:
    """Rows that are looked at where something has changed since the last time.

    Raises:
        NotServed: Python has to look at some of it.
    """
    if isinstance(guard, OfClass):
        names = [row for each in guard.guards for row in _describe_part(each, keep)]
    else:
        names = _describe_space(guard)
    keep.append(guard)
    if not guard.tag:
        return names
    rows = len(names) + 1
    tag = ctypes.c_uint64.from_address(guard.tag).value or _NO_NUMBER
    first = layout.words(
        "GUARD", kind=layout.SKIPPING, scope=guard.tag, name=rows + 1, expected=tag
    )
    last = layout.words("GUARD", kind=layout.NOTING, scope=guard.tag, name=rows, expected=0)
    return [first, *names, last]


def _describe_part(guard: captures.NameGuard, keep: list[Any]) -> list[list[int]]:
    """One name of a class, or which of many it has.

    Raises:
        NotServed: Python has to look at it.
    """
    scope = guard.scope
    if type(scope) is not captures.Keys or scope.some is None:
        return [_describe(guard, keep)]
    space = _behind(scope.space)
    held = [(name, space.get(name, captures.ABSENT)) for name in scope.some]
    keep += held
    return _rows(space, held)


def _rows(space: dict[str, Any], held: Iterable[tuple[str, Any]]) -> list[list[int]]:
    """What names of a dict stand for."""
    return [
        layout.words(
            "GUARD", kind=layout.IN_DICT, scope=id(space), name=id(name),
            expected=0 if value is captures.ABSENT else id(value),
        )
        for name, value in held
    ]  # fmt: skip


#: Where a function keeps its code, and an object its class, and its namespace (before itself).
_CODE_OFFSET, _CLASS_OFFSET, _DICT_OFFSET = 48, 8, -24
#: Where an object has the number of its items, negative for a negative integer.
_ITEMS_OFFSET = 16
_MANAGED_DICT = 1 << 4


def _word(guard: captures.NameGuard) -> list[int] | None:
    """A guard of a function's code, an object's class or namespace, as a word; None for others."""
    scope = guard.scope
    if type(scope) is captures.Kinds and guard.name == "__class__":
        place = id(scope.thing) + _CLASS_OFFSET
    elif type(scope) is captures.Kinds and guard.name == "__dict__":
        offset = told(type(scope.thing), "__dictoffset__")
        if offset < 0:
            managed = told(type(scope.thing), "__flags__") & _MANAGED_DICT
            offset = _DICT_OFFSET if managed else offset + _size(scope.thing)
        place = id(scope.thing) + offset
    elif type(scope) is captures.Slots and guard.name == "__code__":
        place = id(scope.thing) + _CODE_OFFSET
        if type(scope.thing) is not FunctionType:
            return None
    else:
        return None
    expected = guard.expected if guard.name == "__dict__" else id(guard.expected)
    if ctypes.c_void_p.from_address(place).value != expected:
        return None
    return layout.words("GUARD", kind=layout.WORD, scope=place, name=0, expected=expected)


def _size(thing: Any) -> int:
    """Bytes of an object with its namespace behind its items, as such are before Python 3.12."""
    items: int = ctypes.c_ssize_t.from_address(id(thing) + _ITEMS_OFFSET).value
    size: int = told(type(thing), "__basicsize__") + abs(items) * told(type(thing), "__itemsize__")
    return size + -size % ctypes.sizeof(ctypes.c_void_p)


def _scope(guard: captures.NameGuard) -> tuple[int, Any, Any]:
    """How a name is looked up, where, and by which object."""
    scope = guard.scope
    if type(scope) is CellType:
        return layout.IN_CELL, scope, None
    if type(scope) is captures.Kinds and guard.name == "__bases__":
        kinds = type(scope.thing).__mro__[:-2]  # but type and object
        if any("__getattribute__" in vars(kind) for kind in kinds):
            raise NotServed  # code of the user's
        return layout.IN_OBJECT, scope.thing, guard.name
    if type(scope) is captures.Slots and _is_slot(scope.thing, guard.name):
        return layout.IN_OBJECT, scope.thing, guard.name
    if type(scope) is MappingProxyType:
        scope = _behind(scope)
    if type(scope) is not dict:
        raise NotServed
    return layout.IN_DICT, scope, guard.name


def _behind(space: MappingProxyType[str, Any]) -> dict[str, Any]:
    """The dict that a class shows.

    Raises:
        NotServed: it is not where it is expected.
    """
    place = ctypes.c_void_p.from_address(id(space) + 16).value or 0
    found = {id(part): part for part in _referents(space)}.get(place)
    if type(found) is not dict:
        raise NotServed
    return found


def _is_slot(thing: Any, name: str) -> bool:
    """Whether looking at an attribute runs no code of the user's."""
    if type(thing) is FunctionType:
        return True
    kind: Any = type(thing)
    if kind.__getattribute__ not in _ASKING_NOBODY or hasattr(kind, "__getattr__"):
        return False
    held = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
    return type(held) is MemberDescriptorType or held is vars(BaseException)["args"]


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
        try:
            now = scope.cell_contents
        except ValueError:  # nothing in it
            now = captures.ABSENT
    elif kind == layout.IN_OBJECT:
        now = getattr(scope, guard.name, captures.ABSENT)
        if now is captures.ABSENT:
            raise NotServed
    else:
        now = scope.get(guard.name, captures.ABSENT)
    if guard.by_value and not _is_settled(guard.expected):
        raise NotServed
    return now


def _is_settled(known: Any) -> bool:
    """Whether an object itself settles what a guard knows of it: a copy may have changed since."""
    if type(known) is tuple:
        return all(map(_is_settled, known))
    return type(known) not in (list, dict, set, Contents)
