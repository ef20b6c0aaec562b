"""Nested arguments and results."""

from collections import namedtuple

import pytest

from fuser.calling.trees import flatten, names, spell, unflatten

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    "tree",
    [1, (), [], {}, (1, [2, (3,)], {"a": 4, "b": [5]}), Pair(1, Pair([2], {"k": 3})), [None, "a"]],
)
def test_there_and_back(tree: object) -> None:
    """Structure, types and order survive."""
    structure, leaves = flatten(tree)
    again = unflatten(structure, leaves)
    assert again == tree
    assert type(again) is type(tree)
    hash(spell(structure))
    assert len(list(names(structure))) == len(leaves)


def test_different_structures_have_different_spellings() -> None:
    """A list is not a tuple, and keys count."""
    trees = [(1, 2), [1, 2], ((1, 2),), (1, (2,)), {"a": 1, "b": 2}, {"a": 1, "c": 2}, Pair(1, 2)]
    assert len({spell(flatten(tree)[0]) for tree in trees}) == len(trees)
