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


@pytest.mark.parametrize("value", [0, 7, -(2**40), 2**200])
def test_what_numbers_and_exceptions_hold_is_compared_natively(value: int) -> None:
    """A number's namespace lies behind its digits; another one, or other arguments, are noticed."""

    class Number(int):
        k: float

    number, error = Number(value), ValueError(3.0)
    number.k = 2.0
    fused = fuser.fuse(lambda x: x * number.k + error.args[0], fallback="error")
    spaces = [captures.NameGuard(captures.Kinds(number), "__dict__", id(vars(number)), True),
              captures.NameGuard(captures.Slots(error), "args", error.args, True)]  # fmt: skip
    rows, asked = names.describe_names(spaces, [])
    assert (len(rows), asked) == (len(spaces), [])
    for k, args in ((2.0, (3.0,)), (5.0, (3.0,)), (5.0, (4.0,))):
        number.k, error.args = k, args
        for _ in range(3):
            np.testing.assert_array_equal(fused(X), X * k + args[0])
    number.__dict__ = {"k": 7.0}
    np.testing.assert_array_equal(fused(X), X * 7.0 + 4.0)


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
