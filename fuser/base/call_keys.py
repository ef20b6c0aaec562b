"""The key of a call: what one trace of a function may depend on without looking at values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.base import trees
from fuser.base.constant_keys import Same, constant_key
from fuser.base.protocols import is_array


def signature(structure: Any, leaves: Sequence[Any]) -> Any:
    """The key of a call: dtypes and ranks of arrays, types of scalars, static values."""
    parts: list[Any] = []
    for leaf in leaves:
        kind = type(leaf)
        if kind is np.ndarray:
            parts.append((leaf.dtype, leaf.ndim))
        elif kind is float or kind is int or kind is bool:
            parts.append(kind)
        elif issubclass(kind, np.generic):
            parts.append(("scalar", leaf.dtype))
        elif is_array(leaf):
            parts.append((Same(kind), constant_key(leaf.dtype), constant_key(leaf.ndim)))
        else:
            parts.append(constant_key(leaf))
    return (trees.spell(structure), tuple(parts))


def leaf_names(function: Callable[..., Any], structure: Any) -> list[str]:
    """What a function's author calls each argument: `x`, `weights[0]`.

    Args:
        function: what is called.
        structure: of `(args, kwargs)`, see `trees.flatten`.
    """
    args, kwargs = structure
    found: list[str] = []
    for part, name in zip(args, _positions(function, len(args)), strict=True):
        found += trees.names(part, name)
    return [*found, *trees.names(kwargs)]


def changed_argument(
    function: Callable[..., Any], structure: Any, given: Any, leaves: Sequence[Any]
) -> str | None:
    """Which list or dict among the arguments holds other things than when the call began.

    Args:
        function: what was called.
        structure: of `(args, kwargs)`, see `trees.flatten`.
        given: the arguments that it got, and may have changed.
        leaves: what they held.
    """
    args, kwargs = structure
    names = [*_positions(function, len(args)), *kwargs]
    parts = zip([*args, *kwargs.values()], [*given[0], *given[1].values()], names, strict=True)
    found = (trees.changed_part(one, other, leaves, name) for one, other, name in parts)
    return next((name for name in found if name is not None), None)


def _positions(function: Callable[..., Any], count: int) -> list[str]:
    """Names of positional arguments."""
    if (told := getattr(function, "__argument_names__", None)) is not None:
        return list(told[:count])
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    known = () if code is None else code.co_varnames[: code.co_argcount]
    known = known[inspect.ismethod(function) :][:count]
    return [*known, *(f"args[{place}]" for place in range(count - len(known)))]


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a function's parameters; none where they cannot be known."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()
