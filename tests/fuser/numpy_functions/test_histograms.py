"""np.histogram of equally wide bins: NumPy's counts and edges, and what NumPy does itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser

rng = np.random.default_rng(3)
VALUES = {
    "uniform": rng.random(5000),
    "normal": rng.standard_normal(777),
    "alike": np.ones(9),
    "one": np.array([2.5]),
    "on the edges": np.arange(101.0) / 10,
    "more on the edges": np.round(rng.random(3000) * 1000) / 1000,
    "two axes": rng.random((20, 30)),
    "strided": rng.random((40, 30))[::2, 1:].T,
    "large": rng.random(70_000) * 1e30,
    "signed zeros": np.array([-0.0, 0.0, 0.0, -0.0]),
}


def _histogram(x: Any, bins: int) -> Any:
    return np.histogram(x, bins)


def _of_ten(x: Any) -> Any:
    return np.histogram(x + 1)[0] / x.size


def _weighted(x: Any, weights: Any, bins: int) -> Any:
    return np.histogram(x, bins, weights=weights)[0]


def _faults(function: Any, *args: Any) -> str:
    with pytest.raises(Exception) as caught:
        function(*args)
    return repr(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VALUES)
def test_counts_and_edges(name: str, dtype: str) -> None:
    """Bit for bit, by one compilation for all numbers of bins; weights up to rounding."""
    x = VALUES[name].astype(dtype)
    counted = fuser.fuse(_histogram, fallback="error")
    weighted = fuser.fuse(_weighted, fallback="error")
    weights = rng.random(x.shape).astype(dtype)
    for bins in (1, 2, 7, 10, 100, 1000):
        for wanted, found in zip(np.histogram(x, bins), counted(x, bins), strict=True):
            assert (wanted.dtype, wanted.tobytes()) == (found.dtype, found.tobytes())
        wanted, found = _weighted(x, weights, bins), weighted(x, weights, bins)
        assert wanted.dtype == found.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-12 if dtype == "float64" else 1e-5)
    assert len(counted.explain(x, 7).guards) < 8
    assert "decision" not in str(counted.explain(x, 7))  # nor a step outside of kernels
    fused = fuser.fuse(_of_ten, fallback="error")
    assert _of_ten(x).tobytes() == fused(x).tobytes()


@pytest.mark.parametrize("bins", [3, 0, -1])
@pytest.mark.parametrize(
    "x", [[1.0, np.nan], [1.0, np.inf], [-np.inf, 1.0], [1.0, np.nextafter(1.0, 2.0)]]
)
def test_what_numpy_refuses(x: list[float], bins: int) -> None:
    """NumPy raises, also after a call that it does not refuse."""
    fused = fuser.fuse(_histogram, fallback="allow")
    fused(np.array([1.0, 2.0]), 3)
    given = np.array(x)
    assert _faults(fused, given, bins) == _faults(_histogram, given, bins)


FORMS: dict[str, Callable[[Any], Any]] = {
    "integers": lambda x: np.histogram(x.astype(int), 4)[0],
    "a range": lambda x: np.histogram(x, 4, (0.2, 0.7))[0],
    "densities": lambda x: np.histogram(x, 4, density=True)[0],
    "edges": lambda x: np.histogram(x, [0.0, 0.5, 1.0])[0],
    "a rule": lambda x: np.histogram(x, "sqrt")[0],
    "none": lambda x: np.histogram(x[:0], 4)[0],
    "integer weights": lambda x: np.histogram(x, 4, weights=np.arange(x.size))[0],
    "short weights": lambda x: np.histogram(x, 4, weights=x[:1])[0],
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms(form: str) -> None:
    """NumPy runs them."""
    x, function = rng.random(50), FORMS[form]
    fused = fuser.fuse(function, fallback="allow")
    if form == "short weights":
        assert _faults(fused, x) == _faults(function, x)
    else:
        assert np.array_equal(function(x), fused(x))
