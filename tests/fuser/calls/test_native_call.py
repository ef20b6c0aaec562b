"""The base type of fused functions behaves as an ordinary class in every other way."""

import copy
import pickle
import sys
import weakref

import numpy as np
import pytest

import fuser
from fuser.calls import native_call


@fuser.fuse
def doubled(x: np.ndarray) -> np.ndarray:
    """Twice x."""
    return x * 2


class Scaler:
    """Has a fused method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @fuser.fuse
    def scaled(self, x: np.ndarray) -> np.ndarray:
        """Scale x."""
        return x * self.factor


def test_known_interpreters_are_supported() -> None:
    """CPython 3.11 to 3.14 with the GIL."""
    if sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 14):
        assert native_call.supported() or not getattr(sys, "_is_gil_enabled", lambda: True)()


def test_name_documentation_and_signature_are_kept() -> None:
    """functools.wraps' attributes, and inspect's signature."""
    import inspect

    assert doubled.__name__ == "doubled"
    assert doubled.__doc__ == "Twice x."
    assert list(inspect.signature(doubled).parameters) == ["x"]


def test_it_is_a_method_in_a_class() -> None:
    """Bound to each instance; a changed attribute is noticed."""
    scaler = Scaler(3.0)
    x = np.arange(4.0)
    assert scaler.scaled(x).tolist() == [0, 3, 6, 9]
    scaler.factor = 5.0
    assert scaler.scaled(x).tolist() == [0, 5, 10, 15]
    assert Scaler(2.0).scaled(x).tolist() == [0, 2, 4, 6]


def test_it_pickles_by_reference_and_takes_weak_references() -> None:
    """As a function does."""
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.copy(doubled) is doubled
    assert weakref.ref(doubled)() is doubled


def test_all_ways_to_call_it_agree() -> None:
    """Directly, through __call__, with keywords, with unpacked arguments, through map."""
    x = np.arange(5.0)
    expected = (x * 2).tolist()
    for _ in range(3):
        assert doubled(x).tolist() == expected
        assert doubled.__call__(x).tolist() == expected
        assert doubled(x=x).tolist() == expected
        unpacked = {"x": x}
        assert doubled(*[x]).tolist() == doubled(**unpacked).tolist() == expected
        assert next(map(doubled, [x])).tolist() == expected


def test_an_object_without_init_cannot_be_called_but_does_not_crash() -> None:
    """Its entry is null, so Python's own method answers."""
    empty = fuser.FusedFunction.__new__(fuser.FusedFunction)
    with pytest.raises(AttributeError):
        empty(np.ones(3))


def test_a_bound_method_is_one() -> None:
    """With its function, its instance, its attributes; equal to another look at it."""
    scaler = Scaler(3.0)
    assert scaler.scaled.__self__ is scaler
    assert scaler.scaled.__func__ is Scaler.scaled
    assert scaler.scaled == scaler.scaled
    assert scaler.scaled.__name__ == "scaled"
    assert scaler.scaled.mode == "fused"
