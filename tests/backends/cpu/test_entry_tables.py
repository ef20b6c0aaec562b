"""Tables for exact layouts: which names and overlaps are settled, and which need Python."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import captures, fused_function
from fuser.backends.cpu import entry, entry_tables

pytestmark = pytest.mark.skipif(
    not fused_function._NATIVE, reason="this interpreter has no native entry"
)
X = np.linspace(-1, 1, 24).reshape(4, 6)


@pytest.fixture(autouse=True)
def _dispatcher() -> None:
    """The dispatcher is there from the first call on."""
    entry.load()


def test_names_are_settled_by_objects_that_cannot_change() -> None:
    """A number, a tuple of numbers; a list is compared by Python."""
    scope: dict[str, Any] = {"number": 2.5, "pair": (1, 2.0), "names": ["a"], "thing": object()}
    guards = [captures.NameGuard(scope, n, scope[n], n != "thing") for n in scope]
    keep: list[Any] = []
    for guard in guards:
        if guard.name == "names":
            with pytest.raises(entry_tables.NotServed):
                entry_tables.describe_names([guard], keep)
        else:
            assert entry_tables.describe_names([guard], keep)
    absent = captures.NameGuard(scope, "absent", captures.ABSENT, False)
    assert entry_tables.describe_names([absent], keep)[0][-1] == 0
    with pytest.raises(entry_tables.NotServed):
        entry_tables.describe_names([absent] * (entry_tables.MOST_GUARDS + 1), keep)


def test_a_list_that_changes_is_noticed() -> None:
    """Its object stays the same, so its calls stay with Python."""
    weights = [1.0, 2.0]
    function = fuser.fuse(lambda x: x * weights[0] + weights[1])
    for first in (1.0, 3.0, -2.0):
        weights[0] = first
        for _ in range(2):
            assert np.array_equal(function(X), X * first + 2.0)
    assert function._native is None or function._native.hits == 0


def test_attributes_of_an_instance_are_looked_at() -> None:
    """A method of a class: each instance, and a changed attribute."""

    class Scaler:
        """Has a fused method."""

        def __init__(self, factor: float) -> None:
            self.factor = factor

        @fuser.fuse
        def scaled(self, x: Any) -> Any:
            """Scale."""
            return x * self.factor

    one, other = Scaler(2.0), Scaler(3.0)
    for factor in (2.0, 4.0):
        one.factor = factor
        for _ in range(3):
            assert np.array_equal(one.scaled(X), X * factor)
            assert np.array_equal(other.scaled(X), X * 3.0)
    assert Scaler.scaled._native.hits >= 4


@pytest.mark.parametrize("layout", ["C", "F", "columns"])
def test_out_may_overlap_the_inputs_in_every_way(layout: str) -> None:
    """The same array, a part of it, a shifted view: the result is as if it did not."""
    def plain(a: Any, b: Any) -> Any:
        return a * 2 + b.sum(axis=1, keepdims=True)

    def simple(a: Any, b: Any) -> Any:
        return a * 2 - b

    memory = np.arange(200.0).reshape(10, 20)
    for plainly in (plain, simple):
        function = fuser.fuse(plainly)
        for _ in range(4):
            for shift in (0, 1, 5):
                held = memory.copy(order="F" if layout == "F" else "C")
                step = 2 if layout == "columns" else 1
                a, b = held[:4, : 12 : step], held[4:8, : 12 : step]
                out = held[shift : shift + 4, : 12 : step]
                wanted = plainly(a.copy(), b.copy())
                assert function(a, b, out=out) is out
                assert np.array_equal(out, wanted)


def test_expressions_of_scalars_stay_with_python() -> None:
    """And are right."""
    function = fuser.fuse(lambda x, s: x * (1 - s))
    for s in (0.25, 0.5, 3.0):
        for _ in range(2):
            assert np.array_equal(function(X, s), X * (1 - s))
