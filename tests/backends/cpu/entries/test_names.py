"""Names are settled by objects that cannot change; others are compared by Python."""

from types import CellType
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import names
from fuser.capture import captures

X = np.linspace(-1, 1, 24).reshape(4, 6)


def test_names_are_settled_by_objects_that_cannot_change() -> None:
    """A number, a tuple of numbers; a list is compared by Python."""
    scope: dict[str, Any] = {"number": 2.5, "pair": (1, 2.0), "names": ["a"], "thing": object()}
    guards = [captures.NameGuard(scope, n, scope[n], n != "thing") for n in scope]
    keep: list[Any] = []
    for guard in guards:
        rows, asked = names.describe_names([guard], keep)
        assert (len(rows), len(asked)) == ((0, 1) if guard.name == "names" else (1, 0))
    absent = captures.NameGuard(scope, "absent", captures.ABSENT, False)
    assert names.describe_names([absent], keep)[0][0][-1] == 0
    assert len(names.describe_names([absent] * (names.MOST_GUARDS + 1), keep)[1]) == 1


def test_what_is_not_there_yet() -> None:
    """An empty cell is compared natively; a slot with nothing in it by Python."""

    class Slotted:
        __slots__ = ("value",)

    cell = CellType()
    guard = captures.NameGuard(cell, "cell", captures.ABSENT, False)
    assert names.describe_names([guard], [])[0][0][-1] == 0
    slot = captures.NameGuard(captures.Slots(Slotted()), "value", captures.ABSENT, False)
    assert names.describe_names([slot], [])[1] == [slot]


def test_what_a_class_has_is_one_comparison_until_the_class_changes() -> None:
    """The native entry skips its rows by the number of its latest change, or compares them."""

    class Above:
        power = 2

    class Model(Above):
        scale = 3.0

        def bias(self) -> float:
            return 1.0

    model, other = Model(), Above()
    function = fuser.fuse(lambda x: x**model.power * model.scale + model.bias() + other.power)
    plain = function.__wrapped__
    changes: list[Any] = [
        lambda: setattr(Model, "unused", 1), lambda: setattr(Above, "power", 3),
        lambda: setattr(Model, "power", 2), lambda: delattr(Model, "power"),
        lambda: setattr(Model, "bias", lambda self: 5.0),
        lambda: setattr(Model, "scale", property(lambda self: -1.0)),
        lambda: setattr(Model, "__getattribute__", lambda self, name: 2 if name != "bias" else abs),
    ]  # fmt: skip
    for change in changes[:-1]:
        for _ in range(3):
            assert np.array_equal(function(X), plain(X))
        hits = function._native.hits
        change()
        for _ in range(3):
            assert np.array_equal(function(X), plain(X))
        assert function._native.hits >= hits + (3 if change is changes[0] else 1)
    changes[-1]()
    with pytest.raises(TypeError):
        function(X)


def test_a_list_that_changes_is_noticed() -> None:
    """Its object stays the same, so Python looks at what it holds before a kernel runs."""
    weights = [1.0, 2.0]
    function = fuser.fuse(lambda x: x * weights[0] + weights[1])
    for first in (1.0, 3.0, -2.0):
        weights[0] = first
        for _ in range(2):
            assert np.array_equal(function(X), X * first + 2.0)
    assert function._native.hits
