"""Values in keys: to the last bit, by what they hold, or by identity."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fuser.base.trees import constant_key, stands_for_others


@dataclass(frozen=True)
class Settings:
    """A value: it has a hash of its own."""

    scale: Any
    hidden: Any = None


class Equal:
    """It says that all of its kind are equal."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        raise KeyError("hash")


SAME: list[tuple[Any, Any]] = [
    ("".join(["a", "b"]), "ab"), (0j, 0j), (slice(0, 5), slice(0, 5)), (range(3), range(3)),
    (np.dtype("f4"), np.dtype(np.float32)), ([1].append, None), (Settings(1.0), Settings(1.0)),
    (Equal(2.0), Equal(2.0)), (frozenset("a"), frozenset("a")), (Settings.__repr__, None),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same(one: Any, other: Any) -> None:
    """Equal keys with equal hashes; a value always has its own."""
    other = one if other is None else other
    assert constant_key(one) == constant_key(other)
    assert hash(constant_key(one)) == hash(constant_key(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [(0j, -0j), (1, True), (Settings(1), Settings(True)), (Settings(0.0), Settings(-0.0)),
     (Equal(1.0), Equal(2.0)), ([], []), (object(), object()), (slice(0), slice(0.0)),
     (Settings(1, []), Settings(1, []))],
)  # fmt: skip
def test_not_the_same(one: Any, other: Any) -> None:
    """Whatever `==` says: types and signs count, and what may change goes by identity."""
    assert constant_key(one) != constant_key(other)


def test_values_in_values_end_somewhere() -> None:
    """A chain of values, and one that holds itself."""
    chain = Settings(None)
    for _ in range(3000):
        chain = Settings(chain)
    object.__setattr__(chain, "hidden", chain)
    assert constant_key(chain) == constant_key(chain)


def test_methods_of_one_object_are_the_same() -> None:
    """They are made anew whenever they are looked up."""
    one, other = Equal(1.0), Equal(1.0)
    assert constant_key(one.__init__) == constant_key(one.__init__)
    assert constant_key(one.__init__) != constant_key(other.__init__)


def test_what_stands_for_others() -> None:
    """Objects that are values, but not numbers, text and objects by identity."""
    assert stands_for_others(Settings(1))
    assert not any(map(stands_for_others, (1, "a", object(), [], slice(1))))
