"""Nested tuples, lists and dicts of arguments or results, flattened and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fuser.records import record


@record
class Leaf:
    """The place of one value in a flattened tree."""

    index: int


def flatten(tree: Any) -> tuple[Any, list[Any]]:
    """Return the structure, with a `Leaf` at each value, and the values in order.

    Tuples (named ones too), lists and dicts nest; everything else is a value. Dicts keep their
    own order.
    """
    leaves: list[Any] = []

    def visit(value: Any) -> Any:
        kind = type(value)
        if kind is tuple or kind is list:
            return kind(visit(part) for part in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(visit(part) for part in value))
        if kind is dict:
            return {key: visit(part) for key, part in value.items()}
        leaves.append(value)
        return Leaf(len(leaves) - 1)

    return visit(tree), leaves


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """Put values back into their structure."""
    kind = type(structure)
    if kind is Leaf:
        return leaves[structure.index]
    if kind is tuple or kind is list:
        return kind(unflatten(part, leaves) for part in structure)
    if isinstance(structure, tuple):
        return kind(*(unflatten(part, leaves) for part in structure))
    return {key: unflatten(part, leaves) for key, part in structure.items()}


def spell(structure: Any) -> Any:
    """A hashable form of a structure, for keys."""
    kind = type(structure)
    if kind is Leaf:
        return structure.index
    if kind is dict:
        return ("dict", *((key, spell(part)) for key, part in structure.items()))
    return (kind.__name__, *(spell(part) for part in structure))


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
