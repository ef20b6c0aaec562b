"""Operations on floats whose code depends on what is known of an operand."""

import numpy as np
import pytest

import fuser
from tests.backends.edge_cases import edge_values


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("divisor", [1, 2, 1024, 0.5, 3, -2])
def test_remainders_by_a_known_number_are_those_of_numpy(dtype: str, divisor: float) -> None:
    """Powers of two have a shorter form, which is as exact: specials, subnormals, signed zeros."""
    x = edge_values(dtype)
    x = np.concatenate([x, -x, np.arange(-2050, 2050).astype(dtype) / np.dtype(dtype).type(4)])
    with np.errstate(all="ignore"):
        expected = x % divisor
    found = fuser.fuse(lambda a: a % divisor)(x)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))
