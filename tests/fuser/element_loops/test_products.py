"""Products of slices in loops over single elements: `@`, `np.dot`, and sums of products."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fuser


def _products(x: Any, y: Any) -> Any:
    result = np.zeros_like(x)
    for i in range(x.shape[0]):
        result[i] = np.dot(x[: i + 1], y[: i + 1]) + x[i:] @ y[i:]
    return result


def _sums(x: Any, y: Any) -> Any:
    result = np.zeros_like(x)
    for i in range(x.shape[0] - 1):
        result[i] = np.sum(x[i : i + 2] * y[i : i + 2]) - x[i] * y[i]
    return result


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("length", [1, 2, 7, 33, 100, 257])
def test_products_are_as_near_as_those_of_any_order(length: int, dtype: str) -> None:
    """Each is within the bound of a sum whose products are rounded, in whatever order."""
    generator = np.random.default_rng(length)
    x, y = (generator.normal(size=length).astype(dtype) for _ in range(2))
    got = fuser.fuse(_products, fallback="error")(x, y)
    terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)]
    roundings = (length + 2) * float(np.finfo(dtype).eps)
    for i, found in enumerate(got):
        both = [*terms[: i + 1], *terms[i:]]
        assert abs(Fraction(float(found)) - sum(both)) <= roundings * sum(map(abs, both))


def test_special_values_are_numpys() -> None:
    """NaN, infinities, and zero times infinity."""
    x = np.array([1.0, np.inf, 2.0, np.nan, 0.0, 3.0])
    y = np.array([1.0, 1.0, 0.0, 1.0, np.inf, -1.0])
    with np.errstate(all="ignore"):
        for each in (slice(0, 3), slice(1, 5), slice(3, 6), slice(4, 6)):
            expected = _products(x[each], y[each])
            np.testing.assert_array_equal(fuser.fuse(_products)(x[each], y[each]), expected)


def test_products_of_sums_are_rounded() -> None:
    """`np.sum(x * y)` adds what NumPy adds: of two elements there is one order."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 400))
    np.testing.assert_array_equal(fuser.fuse(_sums, fallback="error")(x, y), _sums(x, y))
