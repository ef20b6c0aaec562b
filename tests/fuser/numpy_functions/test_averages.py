"""Means, variances and deviations with NumPy's options, beside NumPy's own results."""

import warnings
from collections.abc import Callable
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


HOLES = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, np.nan], [4.0, 5.0, np.nan]])
OF_NOTHING: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: x.mean(axis=0).sum() + np.mean(x, 1), "var": lambda x: x.var(ddof=2) + 1,
    "std": lambda x: np.std(x, axis=0, ddof=1.5), "masked": lambda x: np.mean(x, where=x > 4),
    "masked var": lambda x: np.var(x, axis=1, where=x > 1, ddof=1),
    "selected": lambda x: x[x > 4].mean(), "nanmean": lambda x: np.nanmean(x, axis=1) * 2,
    "nanmax": lambda x: np.nanmax(x, axis=1), "nanmin": lambda x: np.nanmin(x, axis=0),
    "nanvar": lambda x: np.nanvar(x, axis=1, ddof=1), "nanstd": lambda x: np.nanstd(x, axis=0),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_NOTHING)
def test_means_of_nothing_warn(name: str) -> None:
    """What NumPy warns of too few elements with, and where, whichever calls came before."""
    function = OF_NOTHING[name]
    fused = fuser.fuse(function, fallback="error")
    arrays = [X[0], HOLES, np.ones((3, 0)), np.ones((0, 3)), HOLES[1:2], HOLES[::2], X[1]]
    for x in arrays if "max" not in name and "min" not in name else [X[0], HOLES, X[1], HOLES[1:]]:
        (expected, told), (found, said) = _warned(function, x), _warned(fused, x)
        np.testing.assert_allclose(found, expected, 1e-12)
        assert said == told
    assert not fused.fallbacks


def _warned(function: Callable[[Any], Any], x: Any) -> tuple[Any, list[tuple[str, str, int]]]:
    """A result, and the warnings but those of floating-point numbers."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = function(x)
    texts = [(str(each.message), each.filename, each.lineno) for each in told]
    return found, [each for each in texts if "encountered in" not in each[0]]


def test_a_decision_about_nothing_refuses_that_call_alone() -> None:
    """The first call decides by a mean of nothing: NumPy warns, and later calls are fused."""
    fused = fuser.fuse(lambda x: x * 2 if np.nanmean(x) > -9 else x, fallback="allow")
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        fused(HOLES[1])
    assert not fused.fallbacks
    before = fuser.stats().get("fallbacks", 0)
    assert np.array_equal(fused(X[0]), X[0] * 2)
    assert fuser.stats().get("fallbacks", 0) == before
