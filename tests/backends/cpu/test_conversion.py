"""Floats become integers."""

from typing import Any

import numpy as np
import pytest

import fuser

#: What is given, and what x86-64's compilers, and so NumPy there, make of it.
WHOLE: dict[float, int] = {
    0.0: 0, -0.5: 0, 5.75: 5, -1.0: 2**64 - 1, -3.75: 2**64 - 3, -(2.0**62): 2**64 - 2**62,
    2.0**63: 2**63, 2.0**63 + 2**40: 2**63 + 2**40, 2.0**64 - 2**40: 2**64 - 2**40,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 5, 100])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_negative_numbers_wrap_in_uint64(dtype: str, count: int, step: int) -> None:
    """Vectors and what remains of them, from all layouts; those above int64 stay as they are."""
    given = [np.float32(x) for x in WHOLE] if dtype == "float32" else list(WHOLE)
    values = [int(x) % 2**64 for x in given]
    assert dtype == "float32" or values == list(WHOLE.values())
    x = np.resize(np.array(given, dtype), count * abs(step))[::step]
    wanted = np.resize(np.array(values, np.uint64), count * abs(step))[::step]

    def function(x: Any) -> Any:
        return (x * 1).astype(np.uint64)

    np.testing.assert_array_equal(fuser.fuse(function, fallback="error")(x), wanted)
