"""The key of a call: what one trace of a function may depend on without looking at values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base import trees
from fuser.base.packages import LAZY, root
from fuser.base.protocols import is_array, module_of
from fuser.base.trees import Same, constant_key


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


def takes_keyword(function: Callable[..., Any], name: str) -> bool:
    """Whether a function takes a keyword of this name itself; no, where that cannot be known."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in known or any(each.kind is each.VAR_KEYWORD for each in known.values())


#: Combinations of shapes and strides that one function remembers exactly.
READY_LIMIT = 256


def exact_key(args: tuple[Any, ...]) -> Any:
    """Dtypes, shapes and strides of arrays, types of numbers; None for other objects."""
    parts: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            parts.append((arg.dtype, arg.shape, arg.strides))
        elif kind is float or kind is int or kind is bool:
            parts.append(kind)
        elif is_cupy(kind):
            parts.append((kind, arg.data.device_id, arg.dtype, arg.shape, arg.strides))
        elif issubclass(kind, np.ndarray):
            parts.append((kind, arg.dtype, arg.shape, arg.strides))
        elif issubclass(kind, np.generic):
            parts.append((kind, arg.dtype))
        elif kind is complex or kind is str or arg is None:
            parts.append((kind, repr(arg)))
        else:
            return None
    return tuple(parts)


#: Parts of a tuple, list or dict that a refusal is known by; of longer ones the first.
_FEW = 8


def refusal_key(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], exactly: bool = False
) -> Any:
    """What calls are known by that end in the plain function.

    A call that is taken for another one's like is NumPy's, so it need not tell all calls apart:
    arrays are known by class, dtype and rank, numbers by class, objects by identity, long
    containers by their length and first part.

    Args:
        args: of the call.
        kwargs: likewise.
        exactly: tell arrays of other shapes and strides apart.
    """
    named = [(name, _refusal_part(kwargs[name], exactly)) for name in kwargs]
    return (_refusal_part(args, exactly), *named)


def _refusal_part(value: Any, exactly: bool, depth: int = 4) -> Any:
    """The part of one argument."""
    kind = type(value)
    if issubclass(kind, np.ndarray):
        layout = (value.shape, value.strides) if exactly else value.ndim
        return (id(kind), value.dtype, layout)
    if kind is float or kind is int or kind is bool or issubclass(kind, np.generic):
        return kind
    if (kind is tuple or kind is list or kind is dict) and depth:
        parts = value.values() if kind is dict else value
        if len(value) > _FEW and depth < 4:
            parts = (next(iter(parts)),)
        return (kind, len(value), *[_refusal_part(part, exactly, depth - 1) for part in parts])
    if LAZY.get(module_of(kind)) == kind.__name__:
        return (id(kind), value.dtype, value.ndim)
    return (id(kind), id(value))


def is_cupy(kind: type[Any]) -> bool:
    """Whether arrays of a type are CuPy's."""
    return root(module_of(kind)) == "cupy" and kind.__name__ == "ndarray"
