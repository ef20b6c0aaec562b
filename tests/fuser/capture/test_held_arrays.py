"""Arrays that NumPy computes with while a function is traced, changed in place afterwards."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fuser

X = np.arange(1.0, 4.0)
TABLE = np.ones(3)
TABLES = {"first": [np.ones(3)]}


@dataclass
class Pair:
    """Two arrays."""

    first: Any
    second: Any


class Scaled:
    """An object with an array."""

    def __init__(self) -> None:
        """Of ones."""
        self.w = np.ones(3)

    def __call__(self, x: Any) -> Any:
        """By a number that the array gives."""
        return x * (self.w + 1).sum()


SCALED = Scaled()
#: Functions of an array, and the array behind each that changes.
HELD: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "global": (lambda x: x * np.exp(TABLE), TABLE),
    "alone": (lambda x: np.exp(TABLE), TABLE),
    "decides": (lambda x: x * 2 if TABLE.sum() > 5 else x, TABLE),
    "a number": (lambda x: x * float(TABLE[0]), TABLE),
    "in a list": (lambda x: x * np.exp(TABLES["first"][0]), TABLES["first"][0]),
    "attribute": (SCALED, SCALED.w),
}


@pytest.mark.parametrize("name", HELD)
def test_what_is_computed_of_held_arrays_follows_them(name: str) -> None:
    """As often as they change."""
    function, array = HELD[name]
    before = array.copy()
    fused = fuser.fuse(function, fallback="allow")
    try:
        for value in (*range(12), 3):
            array[:] = value
            for _ in range(2):
                np.testing.assert_allclose(fused(X), function(X), rtol=1e-13)
    finally:
        array[:] = before


def test_attributes_of_arguments_that_numpy_computes_with_are_followed() -> None:
    """Where no array is an argument."""
    fused = fuser.fuse(lambda pair: np.exp(pair.first) * pair.second, fallback="allow")
    pair = Pair(np.zeros(3), np.ones(3))
    for value in range(4):
        pair.first[:] = value
        np.testing.assert_allclose(fused(pair), np.full(3, np.exp(value)), rtol=1e-13)


def test_arrays_that_kernels_read_are_not_compared() -> None:
    """They may be large, and change at each call."""
    weights = np.zeros(200_000)
    fused = fuser.fuse(lambda x: x * weights + weights[::-1], fallback="error")
    x = np.ones(200_000)
    fused(x)
    before = fuser.stats()["specs"]
    for value in range(12):
        weights[:] = value
        assert fused(x)[0] == 2 * value
    assert fuser.stats()["specs"] == before


def test_large_arrays_that_numpy_computes_with_are_read_by_kernels() -> None:
    """And followed."""
    weights = np.zeros(200_000)
    fused = fuser.fuse(lambda x: x * weights + np.exp(weights), fallback="error")
    for value in (0.0, 1.0, 2.0, 0.0):
        weights[:] = value
        np.testing.assert_allclose(fused(np.ones(200_000)), value + np.exp(value), rtol=1e-14)


def test_large_arrays_past_all_stand_ins_make_the_function_numpy_s() -> None:
    """With the reason."""

    class Table:
        weights = np.zeros(200_000)

    with pytest.raises(fuser.FusionError, match="weights, an array of 1600000 bytes"):
        fuser.fuse(lambda x: x * np.exp(Table.weights), fallback="error")(np.ones(200_000))


REFUSED = {
    "masked": np.ma.array(np.ones(3), mask=[True, False, False]),
    "objects": np.array([1.0, 2.0, 3.0], dtype=object),
    "a memoryview": memoryview(np.ones(3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_makes_the_function_numpy_s(name: str) -> None:
    """Whatever is done with it."""
    held = REFUSED[name]
    fused = fuser.fuse(lambda x: x * float(held[1]), fallback="allow")
    for value in (1.0, 2.0, 3.0):
        held[1] = value
        np.testing.assert_array_equal(fused(X), X * value)
    assert fused.fallbacks


@pytest.mark.parametrize("dtype", ["f2", "g", ">f8", "U3", "M8[D]", "f8,i4"])
def test_arrays_that_kernels_do_not_know_are_followed(dtype: str) -> None:
    """Small ones are compared."""
    held = np.zeros(3, dtype)
    fused = fuser.fuse(lambda x: x * len(str(held[1])), fallback="allow")
    for value in (0, 100, 3):
        held[1] = (value, value) if held.dtype.fields else value
        np.testing.assert_array_equal(fused(X), X * len(str(held[1])))


def test_shapes_that_change_in_place_are_followed() -> None:
    """Also where the bytes are the same."""
    held = np.ones((2, 3))
    fused = fuser.fuse(lambda x: x * 2 if held.shape[0] == sum(held[:, 0]) else x * len(held))
    for shape in ((2, 3), (3, 2), (6, 1)):
        held.shape = shape
        np.testing.assert_array_equal(fused(X), X * (2 if shape[0] == shape[0] else 0))


#: How an array is reached that no container of Python's shows.
HIDDEN: dict[str, Callable[[np.ndarray], Callable[[Any], Any]]] = {
    "a weak reference": lambda w, r=weakref.ref: (lambda seen: lambda x: x * np.exp(-seen()))(r(w)),
    "a bound method": lambda w: (lambda total: lambda x: x * total())(w.sum),
    "an iterator": lambda w: (lambda flat: lambda x: x * flat[1])(w.flat),
    "an object of NumPy's": lambda w: (lambda p: lambda x: x * p(2.0))(np.poly1d(w)),
}


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("size", [3, 20_000])
def test_hidden_arrays_are_followed(name: str, size: int) -> None:
    """Or NumPy runs the function."""
    held = np.ones(size)
    function = HIDDEN[name](held)
    fused = fuser.fuse(function, fallback="allow")
    x = np.ones(size)
    for value in (1.0, 2.0, 3.0):
        held[:] = value
        if "NumPy" in name:
            function.__closure__[0].cell_contents.coeffs[:] = value  # type: ignore[attr-defined]
        for _ in range(2):
            with np.errstate(over="ignore", invalid="ignore"):
                np.testing.assert_allclose(fused(x), function(x), rtol=1e-13)


def test_arrays_that_cannot_change_are_constants() -> None:
    """However large."""
    weights = np.zeros(200_000)
    weights.flags.writeable = False
    fused = fuser.fuse(lambda x: x * np.exp(weights), fallback="error")
    assert fused(np.ones(200_000)).sum() == 200_000
