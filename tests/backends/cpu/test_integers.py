"""Integer division is exact though vectors divide in floating point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser

Array = np.ndarray[Any, np.dtype[Any]]

DIVIDING = (np.floor_divide, np.remainder, np.fmod, np.gcd, np.lcm)


def dividends_and_divisors(dtype: str) -> tuple[Array, Array]:
    """All pairs of 8-bit numbers; of longer ones multiples of the divisor and their neighbours.

    Those are the quotients that rounding would spoil first, most of all for large dividends.
    """
    limits = np.iinfo(dtype)
    random = np.random.default_rng(0)
    if limits.bits == 8:
        values = np.arange(limits.min, limits.max + 1).astype(dtype)
        left, right = np.meshgrid(values, values)
        return left.ravel(), right.ravel()
    sizes = 2 ** random.uniform(0, limits.bits - 1, 100_000)
    divisors = (sizes * random.choice([-1, 1], sizes.size)).astype("int64").astype(dtype)
    largest = random.integers(limits.max // 2, limits.max, sizes.size, dtype, endpoint=True)
    multiples = largest - largest % np.where(divisors == 0, 1, divisors)
    left = np.concatenate([multiples, multiples - 1, multiples + 1, 0 - multiples, largest])
    return left.astype(dtype), np.tile(divisors, 5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("ufunc", DIVIDING, ids=lambda ufunc: ufunc.__name__)
def test_division_is_exact(ufunc: np.ufunc, dtype: str) -> None:
    """Every bit of NumPy's result."""
    operands = dividends_and_divisors(dtype)
    with np.errstate(all="ignore"):
        wanted = ufunc(*operands)
    got = fuser.fuse(ufunc, fallback="error")(*operands)
    np.testing.assert_array_equal(got, wanted, strict=True)
