"""Python scalars on their way to a kernel: NumPy's ranges, NumPy's rounding."""

import numpy as np
import pytest

import fuser


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_integers_are_checked_against_the_dtype_they_meet(dtype: str) -> None:
    """At the ends of its range and beyond: NumPy's values and NumPy's errors."""
    function = fuser.fuse(lambda x, s: x + s)
    x = np.arange(4).astype(dtype)
    values = [1, 0, 127, 128, -128, -129, 255, 256, -1, 1 << 31, (1 << 31) - 1, -(1 << 31),
              (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), 1 << 63, 1 << 64]  # fmt: skip
    for value in (*values, *values, True):
        try:
            wanted = x + value
        except OverflowError:
            with pytest.raises(OverflowError):
                function(x, value)
            continue
        for _ in range(2):
            found = function(x, value)
            assert found.dtype == wanted.dtype
            assert np.array_equal(found, wanted), value
    assert function._native.hits > 4


def test_floats_are_rounded_as_numpy_rounds_them() -> None:
    """To float32: large ones become infinite, small ones subnormal or zero."""
    function = fuser.fuse(lambda x, s: x + s)
    x = np.zeros(3, np.float32)
    for value in (0.1, -0.0, 1e40, -1e40, 1e-46, 1e-40, float("nan"), 16777217.0):
        with np.errstate(all="ignore"):
            wanted = x + value
        for _ in range(3):
            assert np.array_equal(function(x, value), wanted, equal_nan=True)
