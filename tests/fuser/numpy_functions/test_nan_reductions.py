"""Reductions that leave NaN out, and averages: fused, and equal to NumPy in every respect."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

CHANCE = np.random.default_rng(2)
X = CHANCE.integers(-5, 6, (6, 4)).astype(np.float32)
Y = CHANCE.integers(-5, 6, (6, 4)).astype(np.float64)
NUMBERS = np.arange(-3, 9, dtype=np.int16)
HOLES = np.where(CHANCE.random((6, 4)) < 0.3, np.nan, X).astype(np.float32)
HOLES[2] = np.nan
HOLES[3] = [np.inf, -np.inf, np.nan, -0.0]

FUSED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "nansum": (
        lambda x: (np.nansum(x), np.nansum(x, 0), np.nansum(x, 1, keepdims=True)),
        (HOLES,),
    ),
    "nansum dtype": (lambda x: np.nansum(x, axis=-1, dtype=np.float64), (HOLES,)),
    "nanprod": (lambda x: (np.nanprod(x[:2], 1), np.nanprod(x[2], 0)), (HOLES,)),
    "nanmax": (
        lambda x: (np.nanmax(x), np.nanmax(x, 1), np.nanmin(x, 0), np.nanmin(x, 1, keepdims=True)),
        (HOLES,),
    ),
    "nanmean": (
        lambda x: (np.nanmean(x), np.nanmean(x, 0), np.nanmean(x, 1, keepdims=True)),
        (HOLES[[0, 1, 2, 4]],),
    ),
    "nanmean where": (lambda x: np.nanmean(x, axis=1, where=x != 2), (HOLES[[0, 1, 2, 4]],)),
    "nanvar": (
        lambda x: (np.nanvar(x, 1), np.nanvar(x, 0, ddof=1), np.nanstd(x, 1, keepdims=True)),
        (HOLES[[0, 1, 2, 4]].astype(np.float64),),
    ),
    "nanvar whole": (lambda x: (np.nanvar(x), np.nanstd(x)), (HOLES[[0, 1, 2, 4]].astype("f8"),)),
    "nan of integers": (
        lambda n: (np.nansum(n), np.nanmax(n), np.nanmean(n), np.nanstd(n), np.nanprod(n % 3)),
        (NUMBERS,),
    ),
    "average": (lambda x: (np.average(x), np.average(x, 0), np.average(x, 1, keepdims=True)), (Y,)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of slices without numbers
@pytest.mark.parametrize("mode", ["fused", "fallback"])
@pytest.mark.parametrize("name", FUSED)
def test_they_are_fused_and_right(name: str, mode: str) -> None:
    """No fallback, in any mode."""
    function, args = FUSED[name]
    assert_same(function, *args, mode=mode)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["nansum", "nanmean"])
def test_they_take_arrays_of_every_order(name: str) -> None:
    """Fortran order, strides and negative strides: the same values and the same memory order."""
    function, args = FUSED[name]
    for turn in (np.asfortranarray, lambda a: a[::-1], lambda a: np.repeat(a, 2, 0)[::2]):
        assert_same(function, *[turn(a) for a in args])


def test_averages_of_no_columns_divide_by_zero() -> None:
    """In NumPy, and here at the first call and at later ones."""
    fused = fuser.fuse(lambda x: np.average(x, axis=0))
    for columns in (0, 3, 0, 1):
        assert_same(fused, np.ones((4, columns)))
