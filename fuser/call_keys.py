"""The key of a call: what one trace of a function may depend on without looking at values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser import trees


def signature(structure: Any, leaves: Sequence[Any], keep: list[Any]) -> Any:
    """The key of a call: dtypes and ranks of arrays, types of scalars, static values."""
    parts: list[Any] = []
    for leaf in leaves:
        kind = type(leaf)
        if kind is np.ndarray:
            parts.append((leaf.dtype, leaf.ndim))
        elif kind in (float, int, bool):
            parts.append(kind)
        elif isinstance(leaf, np.generic):
            parts.append(("scalar", leaf.dtype))
        elif hasattr(leaf, "dtype") and hasattr(leaf, "ndim") and not isinstance(leaf, type):
            parts.append((kind, leaf.dtype, leaf.ndim))
        else:
            parts.append(_static(leaf, keep))
    return (trees.spell(structure), tuple(parts))


def _static(leaf: Any, keep: list[Any]) -> Any:
    """A static value in a key: by value where it can be hashed, else by identity."""
    try:
        hash(leaf)
    except TypeError:
        keep.append(leaf)  # so that its id is not given to another object
        return ("object", id(leaf))
    return (type(leaf), leaf)


def leaf_names(function: Callable[..., Any], structure: Any) -> list[str]:
    """What a function's author calls each argument: `x`, `weights[0]`.

    Args:
        function: what is called.
        structure: of `(args, kwargs)`, see `trees.flatten`.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    known = () if code is None else code.co_varnames[: code.co_argcount]
    known = known[inspect.ismethod(function) :]
    args, kwargs = structure
    found: list[str] = []
    for place, part in enumerate(args):
        name = known[place] if place < len(known) else f"args[{place - len(known)}]"
        found += trees.names(part, name)
    return [*found, *trees.names(kwargs)]


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a function's parameters; none where they cannot be known."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()
