"""Dataclasses to plain JSON values and back, by their annotations."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any, nullable: frozenset[str] = frozenset()) -> Any:
    """Turn dataclasses, mappings, sequences and NumPy scalars into JSON values, all the way down.

    Args:
        value: a dataclass, mapping, list, tuple, number, text or None.
        nullable: names of fields that become None where they are not finite.

    Returns:
        dicts, lists, numbers, text and None.

    Raises:
        TypeError: something else is inside.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value)]
        plain = {name: to_plain(getattr(value, name), nullable) for name in names}
        for name in nullable & plain.keys():
            if isinstance(plain[name], float) and not math.isfinite(plain[name]):
                plain[name] = None
        return plain
    if isinstance(value, Mapping):
        return {str(key): to_plain(each, nullable) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each, nullable) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"found {value!r} ({type(value).__name__}), expected a number, text or list")


def from_plain(kind: type[T], document: Mapping[str, Any]) -> T:
    """Build a dataclass from checked JSON; keys that it does not have are ignored."""
    hints = _hints(typing.cast(type, kind))
    known = {
        name: _decode(hint, document[name]) for name, hint in hints.items() if name in document
    }
    return kind(**known)


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The resolved annotations of one dataclass."""
    return typing.get_type_hints(kind)


def _decode(kind: Any, value: Any) -> Any:
    """Build the value of an annotation: dataclass, tuple, dict or scalar."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return from_plain(kind, value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType or origin is typing.Union:
        if value is None:
            return None
        return _decode(next(each for each in arguments if each is not type(None)), value)
    if origin is Sequence:
        if dataclasses.is_dataclass(arguments[0]):
            return tuple(_decode(arguments[0], each) for each in value)
        return tuple(value)
    if origin is Mapping:
        return {key: _decode(arguments[1], each) for key, each in value.items()}
    return value
