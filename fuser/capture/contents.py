"""What containers hold, compared and put back: the built-in ones, their subclasses, and others.

Methods of the built-in classes look and restore: a subclass may have changed its own.
"""

from __future__ import annotations

from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from types import MappingProxyType
from typing import Any

from fuser.base import budget
from fuser.base.errors import Unsupported
from fuser.base.protocols import is_a, mro_of
from fuser.base.records import record

#: Containers that are compared by what they hold, whichever they are.
CONTAINERS = (tuple, list, dict, set)
_OTHERS = (list, dict, set, deque, bytearray, array, MappingProxyType)
#: Python classes that hold what they hold in one attribute, and its name.
WRAPPING: dict[type, str] = {UserDict: "data", UserList: "data", ChainMap: "maps"}
_WRAPPING = {id(kind): name for kind, name in WRAPPING.items()}


@record
class Contents:
    """What one container of another kind holds; it must stay this very container.

    Attributes:
        thing: the container.
        parts: as `parts_of` gives them, with copies of the containers in it.
    """

    thing: Any
    parts: Any


def is_other(value: Any) -> bool:
    """Whether a value is a container beside the four built-in ones that may change in place."""
    if is_a(value, tuple) and type(value) is not tuple:
        return any(type(part) in CONTAINERS or is_other(part) for part in tuple.__iter__(value))
    if is_a(value, _OTHERS):
        return type(value) not in CONTAINERS
    return _wrapped(value) is not None


def parts_of(value: Any) -> Any:
    """What a container holds, as one of `CONTAINERS`, or as bytes."""
    if (inner := _wrapped(value)) is not None:
        return parts_of(inner)
    if is_a(value, (bytearray, array)):
        return bytes(value)
    if is_a(value, dict):
        items = OrderedDict.items if is_a(value, OrderedDict) else dict.items
        return value if type(value) is dict else dict(items(value))
    if is_a(value, MappingProxyType):
        return dict(value)
    if is_a(value, set):
        return value if type(value) is set else set(set.__iter__(value))
    if is_a(value, frozenset):
        return set(frozenset.__iter__(value))
    if is_a(value, deque):
        return list(deque.__iter__(value))
    if is_a(value, tuple):
        return value if type(value) is tuple else tuple(tuple.__iter__(value))
    return value if type(value) is list else list(list.__iter__(value))


def _wrapped(value: Any) -> Any:
    """The container that holds what a container of a Python class holds; None for others."""
    for kind in mro_of(value):  # isinstance is slow for such classes
        if (name := _WRAPPING.get(id(kind))) is not None:
            found = vars(value).get(name)
            return found if type(found) in (list, dict) else None
    return None


def spend_on(value: Any) -> None:
    """Draw on a first call's budget for a look at what a container holds.

    Later calls look at it, too.

    Raises:
        Unsupported: there is more than is looked at.
    """
    waiting, seen = [value], set[int]()
    while waiting:
        parts = parts_of(waiting.pop())
        budget.spend("values", len(parts) if type(parts) is not bytes else 1)
        held = parts.values() if type(parts) is dict else parts
        for part in held if type(parts) is not bytes else ():
            if id(part) not in seen and (type(part) in CONTAINERS or is_other(part)):
                seen.add(id(part))
                waiting.append(part)


def snapshot(value: Any, name: str, identity: bool = False) -> Any:
    """A container with copies of the containers in it; what they hold is not copied.

    Args:
        value: any value.
        name: what it is called, for the message.
        identity: lists, dicts and sets must stay these very ones.

    Raises:
        Unsupported: it holds itself, or too many in each other.
    """
    try:
        return _copy(value, identity)
    except RecursionError:
        raise Unsupported("not-traceable", name, "a container that holds itself", "") from None


def _copy(value: Any, identity: bool) -> Any:
    """One container."""
    if type(value) not in CONTAINERS:
        return Contents(value, _copy(parts_of(value), False)) if is_other(value) else value
    if type(value) is dict:
        copied: Any = {key: _copy(part, identity) for key, part in value.items()}
    elif type(value) is set:
        copied = set(value)
    else:
        copied = type(value)(_copy(part, identity) for part in value)
    return Contents(value, copied) if identity and type(value) is not tuple else copied


def same_parts(now: Any, before: Any) -> bool:
    """Whether a container holds the very objects that it held; both as `parts_of` gives them."""
    if len(now) != len(before):
        return False
    if type(now) is bytes:
        return bool(now == before)
    if type(now) is set:
        return {id(part) for part in now} == {id(part) for part in before}
    if type(now) is dict:
        now, before = _pairs(now), _pairs(before)
    return all(one is other for one, other in zip(now, before, strict=True))


def _pairs(value: dict[Any, Any]) -> list[Any]:
    """Keys and then values."""
    return [*value, *value.values()]


def put_back(thing: Any, before: Any) -> None:
    """Have a container hold again what it held."""
    if (inner := _wrapped(thing)) is not None:
        thing = inner
    if is_a(thing, OrderedDict):
        OrderedDict.clear(thing)
        for key, value in before.items():
            OrderedDict.__setitem__(thing, key, value)
    elif is_a(thing, dict):
        dict.clear(thing)
        dict.update(thing, before)
    elif is_a(thing, set):
        set.clear(thing)
        set.update(thing, before)
    elif is_a(thing, deque):
        deque.clear(thing)
        deque.extend(thing, before)
    elif is_a(thing, bytearray):
        thing[:] = before
    elif is_a(thing, array):
        del thing[:]
        thing.frombytes(before)
    elif is_a(thing, list):
        list.__setitem__(thing, slice(None), before)
