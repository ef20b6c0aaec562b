"""Arrays that NumPy computes with while a function is traced, changed in place afterwards."""

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


def test_large_arrays_that_numpy_computes_with_make_the_function_numpy_s() -> None:
    """With the reason."""
    weights = np.zeros(200_000)
    with pytest.raises(fuser.FusionError, match="weights, an array of 1600000 bytes"):
        fuser.fuse(lambda x: x * np.exp(weights), fallback="error")(np.ones(200_000))


def test_arrays_that_cannot_change_are_constants() -> None:
    """However large."""
    weights = np.zeros(200_000)
    weights.flags.writeable = False
    fused = fuser.fuse(lambda x: x * np.exp(weights), fallback="error")
    assert fused(np.ones(200_000)).sum() == 200_000
