"""What is asked of foreign objects: their types, and never their own code."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fuser.base import protocols


class Hostile:
    """An object that refuses every question, and notes it."""

    asked: list[str] = []  # noqa: RUF012 - of all of them

    def __getattribute__(self, name: str) -> Any:
        Hostile.asked.append(name)
        raise KeyError(name)

    @property
    def given(self) -> Any:
        """A property that cannot be read."""
        raise AssertionError

    __array_interface__ = given


def test_types_are_asked_and_not_objects() -> None:
    """Whether there is an attribute, what kind a value is, and its namespace."""
    value = Hostile()
    Hostile.asked.clear()
    assert not protocols.type_has(value, "__dlpack_device__")
    assert protocols.attribute(value, "__dlpack_device__") is None
    assert protocols.is_a(value, Hostile)
    assert not protocols.is_a(value, (int, np.ndarray))
    assert protocols.namespace_of(value) == {}
    assert not protocols.has_own_hash(value)
    assert Hostile.asked == []
    assert protocols.attribute(value, "__array_interface__", 5) == 5, "it was asked, and raised"
    assert not protocols.is_array(value)


@pytest.mark.parametrize(
    ("value", "known"),
    [(np.zeros(2), True), (np.float32(1), True), (SimpleNamespace(dtype=1, ndim=1), False),
     (np.float32, False), ([1.0], False)],
)  # fmt: skip
def test_what_is_an_array(value: Any, known: bool) -> None:
    """What has a dtype, and says where its elements lie."""
    assert protocols.is_array(value) is known


class Slotted:
    """One attribute in a slot, one unset, others in a namespace."""

    __slots__ = ("__dict__", "first", "second")

    def __init__(self) -> None:
        self.first, self.third = 1, 3


class Text(str):
    """It holds more than Python shows."""

    def __hash__(self) -> int:
        return 1


def test_all_that_an_object_holds() -> None:
    """Slots and namespace; nothing is said of objects that hold more."""
    assert protocols.state_of(Slotted()) == {"first": 1, "third": 3}
    assert protocols.state_of(Text("a")) is None
    assert protocols.has_own_hash(Text("a"))
    assert not protocols.has_own_hash(Slotted())
    assert not protocols.has_own_hash([1]), "a list has none at all"
