"""Keys of calls: what one trace may depend on."""

from typing import Any

import numpy as np

from fuser.base import trees
from fuser.base.call_keys import signature, takes_keyword


def key(*args: Any) -> Any:
    """The key of positional arguments."""
    structure, leaves = trees.flatten(args)
    return signature(structure, leaves)


def test_lengths_and_numbers_are_not_in_a_key() -> None:
    """Dtypes, ranks and types are; text and None are taken by value."""
    assert key(np.ones(3), 1.5) == key(np.ones(8), 2.5)
    assert key(np.ones(3), 1.5) != key(np.ones(3), 1)
    assert key(np.ones(3)) != key(np.ones((3, 1))) != key(np.ones((3, 1), np.float32))
    assert key("K") != key("C")
    assert key([1.0], 2.0) != key([1.0, 2.0])


def test_names_of_parameters() -> None:
    """None where they cannot be known."""
    assert takes_keyword(lambda x, out: x, "out")
    assert takes_keyword(lambda x, **options: x, "out")
    assert not takes_keyword(lambda x, *out: x, "in")
    assert not takes_keyword(type, "out")


def test_values_that_cannot_be_hashed_are_keys_by_identity() -> None:
    """A buffer's hash raises another error than a list's."""
    buffer = memoryview(bytearray(8))
    structure, leaves = trees.flatten((buffer, {1, 2}))
    one = signature(structure, leaves)
    assert one == signature(structure, leaves)
    assert one != signature(structure, [memoryview(bytearray(8)), leaves[1]])


def test_keys_of_dicts_count_with_their_types() -> None:
    """1 and True are one key of a dict, and not the same argument."""
    assert key({1: 2.0}) == key({1: 3.0}) != key({True: 2.0})
