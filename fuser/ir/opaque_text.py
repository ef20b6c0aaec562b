"""Arguments of calls that do not fuse, as the text of a graph: what `externs` reads back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fuser.base.host_expressions import rename_scalars


def spell(value: Any, operand: Callable[[Any], str | None]) -> str | None:
    """Write an argument; None where it has no text.

    Args:
        value: the argument.
        operand: gives the text of arrays and traced numbers, None for anything else.
    """
    known = operand(value)
    if known is not None:
        return known
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int):
        return "..." if value is Ellipsis else repr(value)
    if kind is str:
        return None if "host(" in value else repr(value)
    if kind is float:
        return repr(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and _is_dtype(value)):
        name = np.dtype(value).name
        return f"dtype({name!r})" if _round_trips(np.dtype(value)) else None
    if kind is slice:
        parts = [spell(bound, operand) for bound in (value.start, value.stop, value.step)]
        return None if None in parts else f"slice({', '.join(map(str, parts))})"
    if kind in (tuple, list):
        parts = [spell(part, operand) for part in value]
        if None in parts:
            return None
        inner = ", ".join(map(str, parts))
        return f"[{inner}]" if kind is list else f"({inner}{',' if len(parts) == 1 else ''})"
    if kind is dict and all(type(key) is str for key in value):
        pairs = [(key, spell(part, operand)) for key, part in value.items()]
        if any(part is None for _, part in pairs):
            return None
        return f"dict({', '.join(f'{key}={part}' for key, part in pairs)})"
    return None


def _is_dtype(kind: type) -> bool:
    """Whether a type names a dtype."""
    return kind in (bool, int, float, complex) or issubclass(kind, np.generic)


def _round_trips(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is known by its name alone."""
    try:
        return re.fullmatch(r"\w+", dtype.name) is not None and np.dtype(dtype.name) == dtype
    except TypeError:
        return False


def named_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this dtype can pass between calls of NumPy functions."""
    return dtype.kind in "biufc" and dtype.isnative and _round_trips(dtype)


def rename(text: str, names: Mapping[str, Any]) -> str:
    """Replace symbols in the numbers of a call."""
    return respell(text, lambda number: rename_scalars(number, names))


def respell(text: str, change: Callable[[str], str]) -> str:
    """Replace the numbers of a call, each by what a function makes of its text."""
    return re.sub(_HOST, lambda found: f"host({change(found[1])!r})", text)


_HOST = r"host\('([^']*)'\)"
