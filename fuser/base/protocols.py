"""What is known of a foreign object without running its code: attributes are looked up on types.

An argument may be anything: a proxy that loads what it stands for when it is asked for an
attribute, a mock that has all of them, an object whose `__getattr__`, `__eq__` or `__class__`
raises. Asking it would change it, or fail where the function does not. Its type can be asked:
Python itself finds `__add__` and its like there.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import numpy as np

_mro = type.__dict__["__mro__"].__get__
_module = type.__dict__["__module__"].__get__
_namespace = type.__dict__["__dict__"].__get__
_size_of, _item_size_of, _dict_offset_of, _weak_offset_of = (
    type.__dict__[name].__get__
    for name in "__basicsize__ __itemsize__ __dictoffset__ __weakrefoffset__".split()
)
_POINTER_BYTES = struct.calcsize("P")
_SCALARS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))
#: How Python itself keeps the namespaces of objects, modules and classes.
_OWN_NAMESPACES = (GetSetDescriptorType, MemberDescriptorType)


def lie_as_known() -> bool:
    """Whether objects lie in memory as in a usual CPython: of 64 bits, no debug build, with a GIL.

    `sysconfig` would say it too, and take milliseconds.
    """
    release = not (hasattr(sys, "getobjects") or "free-threading" in sys.version)
    return sys.implementation.name == "cpython" and _POINTER_BYTES == 8 and release


def module_of(kind: type) -> str:
    """The name of the module that a class says it is of; "" where it says something else.

    Args:
        kind: a class; neither a property of its own nor its metaclass is asked.
    """
    try:
        found = _module(kind)
    except AttributeError:  # deleted
        return ""
    return found if type(found) is str else ""


def type_has(value: Any, name: str) -> bool:
    """Whether the type of a value has an attribute; no code of the value's runs.

    Args:
        value: anything.
        name: of the attribute.
    """
    return _found(value, name) is not None


def on_type(value: Any, name: str) -> Any:
    """What the type of a value has by a name, as it is: nothing is bound; None where it has none.

    Args:
        value: anything.
        name: of the attribute.
    """
    found = _found(value, name)
    return None if found is None else found[0]


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """An attribute that the type of a value has; the default where it has none, or this fails.

    Args:
        value: anything.
        name: of the attribute, `__array_interface__` for instance.
        default: what is given instead.
    """
    if not type_has(value, name):
        return default
    try:
        return getattr(value, name, default)
    except Exception:  # noqa: BLE001 - a foreign property may raise anything
        return default


def has(value: Any, name: str) -> bool:
    """Whether an object gives something for an attribute that its type has.

    Args:
        value: anything.
        name: of the attribute.
    """
    return attribute(value, name) is not None


def is_a(value: Any, kinds: Any) -> bool:
    """Whether a value is of one of some types: `isinstance` would believe its `__class__`.

    Args:
        value: anything.
        kinds: a type, or a tuple of types.
    """
    return issubclass(type(value), kinds)


def is_scalar(value: Any) -> bool:
    """Whether a value is a number or a text, and no more: of a class of Python's or NumPy's own.

    One of a user's class may have attributes and methods beside its value.

    Args:
        value: anything.
    """
    kind = type(value)
    return id(kind) in _SCALARS or (issubclass(kind, np.generic) and module_of(kind) == "numpy")


def mro_of(value: Any) -> tuple[type, ...]:
    """The classes of an object, its own first; compare them by identity.

    Args:
        value: anything.
    """
    found: tuple[type, ...] = _mro(type(value)) or ()  # None: C code has not made the class ready
    return found


def namespace_of(value: Any) -> Any:
    """The `__dict__` that Python itself keeps for an object; None where there is none.

    Args:
        value: anything.
    """
    found = _found(value, "__dict__")
    if found is None or type(found[0]) not in _OWN_NAMESPACES:
        return None
    return found[0].__get__(value, type(value))


def slots_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where an object keeps attributes outside of a namespace, and what is there.

    Args:
        value: anything.
    """
    for kind in mro_of(value):
        for place in _namespace(kind).values():
            if type(place) is MemberDescriptorType:
                try:
                    held = place.__get__(value)
                except AttributeError:  # nothing in it
                    continue
                yield place, held


def has_own_hash(value: Any) -> bool:
    """Whether the type of a value says how it is hashed: by what it holds, so it is a value.

    Args:
        value: anything.
    """
    found = _found(value, "__hash__")
    return found is not None and found[0] is not object.__hash__ and found[0] is not None


def state_of(value: Any) -> dict[str, Any] | None:
    """All that an object holds, by name; None where it may hold more than Python itself shows.

    Args:
        value: anything; none of its own code runs.
    """
    kind = type(value)
    own = namespace_of(value)
    held = dict(own) if type(own) is dict else {}
    slots = 0
    for above in mro_of(value):
        for name, place in _namespace(above).items():
            if type(place) is MemberDescriptorType:
                slots += 1
                try:
                    held[name] = place.__get__(value, kind)
                except AttributeError:  # nothing in it
                    continue
    words = slots + (_dict_offset_of(kind) > 0) + (_weak_offset_of(kind) > 0)
    shown = object.__basicsize__ + words * _POINTER_BYTES
    return held if _size_of(kind) == shown and not _item_size_of(kind) else None


def is_array(value: Any) -> bool:
    """Whether a value says where its elements lie, as arrays do, and what they are.

    Args:
        value: anything.
    """
    if not (has(value, "__array_interface__") or has(value, "__cuda_array_interface__")):
        return False
    try:  # its type says that it is an array, so it may be asked
        return hasattr(value, "dtype") and hasattr(value, "ndim")
    except Exception:  # noqa: BLE001 - a foreign property may raise anything
        return False


def _found(value: Any, name: str) -> tuple[Any] | None:
    """What the namespace of a type, or of one above it, holds by a name, in a tuple."""
    for kind in mro_of(value):
        space = _namespace(kind)
        if name in space:
            return (space[name],)
    return None
