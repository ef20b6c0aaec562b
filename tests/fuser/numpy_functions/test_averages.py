"""Means, variances and deviations with NumPy's options, beside NumPy's own results."""

from typing import Any

import numpy as np
import pytest

import fuser

X = np.random.default_rng(5).normal(size=(4, 6, 5)) * 3 + 1
MASK = X > -1

OPTIONS: list[dict[str, Any]] = [
    {}, {"axis": -1}, {"axis": (0, 2), "keepdims": True}, {"axis": 1, "dtype": np.float64},
    {"axis": (0, 1), "where": MASK}, {"where": MASK[0, 0], "keepdims": True},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a mask may choose too few
@pytest.mark.parametrize("dtype", ["?", "i2", "f2", "f4", "f8"])
def test_options(dtype: str) -> None:
    """Axis, keepdims, dtype and where for all three; ddof for two."""
    x = X.astype(dtype)
    tolerance = 2e-3 if dtype == "f2" else 2e-6
    for options in OPTIONS:
        cases: list[tuple[Any, dict[str, Any]]] = [(np.mean, options), (np.var, options)]
        cases += [(np.std, {**options, "ddof": 1}), (np.var, {**options, "correction": 2})]
        for function, given in cases:
            expected = function(x, **given)
            found = fuser.fuse(lambda x, f=function, g=given: f(x, **g), fallback="error")(x)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, tolerance, tolerance)
