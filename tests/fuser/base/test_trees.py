"""Nested arguments and results."""

from collections import namedtuple
from typing import Any

import pytest

from fuser.base.errors import Unsupported
from fuser.base.trees import DEEPEST, MOST, changeable, flatten, names, put, spell, unflatten

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


class Checked(Pair):
    """A named tuple whose constructor and iterator refuse."""

    def __new__(cls, left: object, right: object) -> "Checked":
        """Take numbers alone."""
        assert type(left) is int
        return super().__new__(cls, left, right)

    def __iter__(self) -> Any:
        raise KeyError


def test_classes_of_tuples_are_not_asked() -> None:
    """What is put together again is of the class, and was not made by it."""
    structure, leaves = flatten(Checked(1, 2))
    assert leaves == [1, 2]
    again = unflatten(structure, leaves)
    assert type(again) is Checked
    assert (again[0], again[1]) == (1, 2)
    assert spell(structure) != spell(flatten(Pair(1, 2))[0])


def nested(count: int) -> Any:
    """Lists in each other."""
    value: Any = 1
    for _ in range(count):
        value = [value]
    return value


def doubled(value: Any) -> Any:
    """A list that holds a value 2 ** 40 times."""
    for _ in range(40):
        value = [value, value]
    return value


def test_what_is_too_deep_or_too_much_has_a_reason() -> None:
    """Also where a list holds itself."""
    itself: list[Any] = []
    itself.append(itself)
    flatten(nested(DEEPEST))
    for tree in (nested(DEEPEST + 1), nested(50_000), itself, doubled(1), doubled([]), [1] * MOST):
        with pytest.raises(Unsupported, match="only plain arrays"):
            flatten(tree)


def test_lists_and_dicts_are_found_and_put() -> None:
    """Outer ones first; tuples on the way to a place are made anew."""
    inner: dict[str, int] = {"b": 1}
    tree: Any = (1, [2, (inner, 3)])
    assert list(changeable(tree)) == [((1,), tree[1]), ((1, 1, 0), inner)]
    made = put(tree, (1, 1, 0), [4])
    assert made == (1, [2, ([4], 3)])
    assert made[1] is tree[1]
