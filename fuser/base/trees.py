"""Nested tuples, lists and dicts of arguments or results, flattened and put together again.

With the keys of values that are no arrays: what one trace may take for the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import BuiltinMethodType, MethodType, MethodWrapperType
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.base.protocols import has_own_hash, is_a, namespace_of, state_of, type_has
from fuser.base.records import record

#: Types whose own comparison is right: equal values are the same value.
_COMPARED = frozenset(
    map(id, (str, bytes, int, bool, type(None), range, BuiltinMethodType, MethodWrapperType))
)
#: Types whose values are told apart to the last bit by their text: 0j from -0j.
_SPELLED = frozenset(map(id, (float, complex)))
#: Values in each other that are looked at; those in them count by identity.
_DEPTH = 4


class Same:
    """An object in a key: equal to itself alone, whatever its own `__eq__` says."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Keep `value`, so that no other object gets its identity."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other.value is self.value

    def __hash__(self) -> int:
        return object.__hash__(self.value)


def constant_key(value: Any, depth: int = _DEPTH) -> Any:
    """A value in a key: numbers and text by what they are, other objects by identity.

    An object whose class has a hash of its own is a value: of the same class, and all that it
    holds the same, another one is as good. Its `__eq__` is not asked: `-0.0 == 0.0 == False`.

    Args:
        value: anything; none of its own code runs.
        depth: how many values in each other are looked at.
    """
    kind = type(value)
    if id(kind) in _COMPARED or issubclass(kind, np.dtype):
        return (kind, value)
    if id(kind) in _SPELLED:
        return (kind, repr(value))
    if depth == 0:
        return Same(value)
    if kind is MethodType:
        return (kind, Same(value.__func__), Same(value.__self__))
    if kind is slice:
        return (kind, *(constant_key(each, depth - 1) for each in _bounds(value)))
    if kind is tuple or kind is frozenset:
        return (kind, *(constant_key(each, depth - 1) for each in value))
    held = state_of(value) if has_own_hash(value) else None
    if held is None:
        return Same(value)
    parts = ((constant_key(name), constant_key(part, depth - 1)) for name, part in held.items())
    return (Same(kind), *parts)


def stands_for_others(value: Any) -> bool:
    """Whether other objects, which hold the same, have the key of this one.

    Args:
        value: anything.
    """
    key = constant_key(value)
    return type(key) is tuple and type(key[0]) is Same


def _bounds(part: slice) -> tuple[Any, Any, Any]:
    """What a slice is made of."""
    return part.start, part.stop, part.step


#: Containers in each other, at most: as many as an array of NumPy's has axes.
DEEPEST = 64
#: Values and containers in one tree, at most: a trace has a stand-in for each.
MOST = 10_000


@record
class Leaf:
    """The place of one value in a flattened tree."""

    index: int


def flatten(tree: Any) -> tuple[Any, list[Any]]:
    """Return the structure, with a `Leaf` at each value, and the values in order.

    Tuples (named ones too), lists and dicts nest; everything else is a value. Dicts keep their
    own order.

    Raises:
        Unsupported: they nest too deep, one holds itself, or there are too many.
    """
    leaves: list[Any] = []
    return _flatten(tree, 0, leaves, [MOST]), leaves


def shallow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """As `flatten`, of a call's arguments with each container as one value."""
    leaves = [*args, *kwargs.values()]
    named = zip(kwargs, range(len(args), len(leaves)), strict=True)
    return (
        (tuple(map(Leaf, range(len(args)))), {name: Leaf(place) for name, place in named}),
        leaves,
    )


def _flatten(value: Any, depth: int, leaves: list[Any], left: list[int]) -> Any:
    """As `flatten`, of what stands at a depth; `left`: how many more values there may be."""
    left[0] -= 1
    kind = type(value)
    if kind is tuple or kind is list or kind is dict or _is_named(value):
        if depth == DEEPEST:
            found = f"a {kind.__name__} in more than {DEEPEST} others, or one that holds itself"
            raise Unsupported("unsupported-array", "argument", found, "")
        if len(value) > left[0]:
            found = f"more than {MOST:,} values in lists, tuples or dicts"
            raise Unsupported("unsupported-array", "argument", found, "")
        if kind is dict:
            return {k: _flatten(part, depth + 1, leaves, left) for k, part in value.items()}
        return _like(value, [_flatten(part, depth + 1, leaves, left) for part in _parts(value)])
    leaves.append(value)
    return Leaf(len(leaves) - 1)


def _is_named(value: Any) -> bool:
    """Whether a value is a named tuple and nothing more."""
    named = is_a(value, tuple) and type_has(value, "_fields")
    return named and not namespace_of(value)


def _parts(value: Any) -> Any:
    """What a list or a tuple holds, whatever its class says of that."""
    return value if type(value) is list else tuple.__iter__(value)


def _like(value: Any, parts: list[Any]) -> Any:
    """A list or a tuple of the class of another one, which is not asked how to make it."""
    return parts if type(value) is list else tuple.__new__(type(value), parts)


#: Where a container is in a tree: an index or a key for each container around it.
Path = tuple[Any, ...]


def changeable(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The lists and dicts in a tree that `flatten` takes, outer ones first, and where they are."""
    kind = type(tree)
    if kind is list or kind is dict:
        yield path, tree
    if kind is tuple or kind is list or kind is dict or _is_named(tree):
        for key, part in tree.items() if kind is dict else enumerate(_parts(tree)):
            yield from changeable(part, (*path, key))


def put(tree: Any, path: Path, part: Any) -> Any:
    """The tree with another part at a place; tuples on the way there are made anew."""
    if not path:
        return part
    key, *rest = path
    if type(tree) is list or type(tree) is dict:
        tree[key] = put(tree[key], tuple(rest), part)
        return tree
    parts = [*_parts(tree)]
    parts[key] = put(parts[key], tuple(rest), part)
    return _like(tree, parts)


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """Put values back into their structure."""
    kind = type(structure)
    if kind is Leaf:
        return leaves[structure.index]
    if kind is dict:
        return {key: unflatten(part, leaves) for key, part in structure.items()}
    return _like(structure, [unflatten(part, leaves) for part in _parts(structure)])


def classes(structure: Any) -> Iterator[type]:
    """The classes of named tuples in a structure."""
    if type(structure) is not Leaf:
        if _is_named(structure):
            yield type(structure)
        for part in structure.values() if type(structure) is dict else _parts(structure):
            yield from classes(part)


def spell(structure: Any) -> Any:
    """A hashable form of a structure, for keys."""
    kind = type(structure)
    if kind is Leaf:
        return structure.index
    if kind is dict:
        return (dict, *((constant_key(key), spell(part)) for key, part in structure.items()))
    return (Same(kind), *(spell(part) for part in _parts(structure)))


def changed_part(structure: Any, tree: Any, leaves: Sequence[Any], name: str = "") -> str | None:
    """Which list or dict no longer holds what `unflatten` put into it; None where all do.

    Args:
        structure: how the leaves nest.
        tree: what `unflatten` made, and a function may have changed.
        leaves: what it was made of.
        name: of the whole, see `names`.
    """
    if type(structure) is Leaf:
        return None if tree is leaves[structure.index] else name
    if type(structure) is not type(tree) or len(structure) != len(tree):
        return name
    if type(structure) is dict:
        if list(structure) != list(tree):
            return name
        pairs = [(structure[key], tree[key], f"{name}[{key!r}]") for key in structure]
    else:
        both = zip(structure, tree, strict=True)
        pairs = [(one, other, f"{name}[{place}]") for place, (one, other) in enumerate(both)]
    found = (changed_part(one, other, leaves, part) for one, other, part in pairs)
    return next((part for part in found if part is not None), None)


def names(structure: Any, prefix: str = "") -> Iterator[str]:
    """A readable name for each leaf, in order: `args[0].weights`."""
    kind = type(structure)
    if kind is Leaf:
        yield prefix
    elif kind is dict:
        for key, part in structure.items():
            yield from names(part, f"{prefix}.{key}" if prefix else str(key))
    else:
        for place, part in enumerate(structure):
            yield from names(part, f"{prefix}[{place}]")
