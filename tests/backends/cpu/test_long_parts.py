"""Parts of long rows: what is not finite, where the sums of parts say nothing."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.backends.cpu import costs, reduction_forms

GENERATOR = np.random.default_rng(12)
LENGTH = 2 * 4096 + 300


@pytest.fixture(autouse=True)
def _small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every row is longer than the cache, parts have 1024 float32, threads are always used."""
    monkeypatch.setattr(reduction_forms, "ROW_CACHE_BYTES", 0)
    monkeypatch.setattr(reduction_forms, "PART", 1 << 10)
    monkeypatch.setattr(reduction_forms, "CUT", 1 << 8)
    monkeypatch.setattr(reduction_forms, "LONG_PART_BYTES", 1 << 12)
    monkeypatch.setattr(costs, "THREAD_NS", 1)
    fuser.clear_caches()
    yield
    fuser.clear_caches()


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _spread(x: Any) -> Any:
    """Several results, none an array of elements."""
    return x.var(-1, ddof=1), x.mean(-1), x.max(-1), np.ptp(x, -1)


def _attention(x: Any, y: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e * y).sum(-1) / e.sum(-1)


def _all(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


SPECIAL: dict[str, Any] = {
    "nan": [(5000, np.nan)],
    "inf": [(100, np.inf)],
    "both infinities": [(100, np.inf), (7000, -np.inf)],
    "a part of -inf": [(slice(1024, 2304), -np.inf)],
    "all but a part -inf": [(slice(0, 7000), -np.inf)],
    "nothing but -inf": [(slice(None), -np.inf)],
    "huge": [(slice(0, 4000), 3e38), (4000, -3e38)],
    "zeros": [(slice(None), 0.0)],
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_is_as_numpy_has_it(kind: str) -> None:
    """NaN, infinities, overflow: where a part's sum says nothing, the row is computed anew."""
    x = GENERATOR.standard_normal((2, LENGTH)).astype(np.float32)
    for where, value in SPECIAL[kind]:
        x[1, where] = value
    y = GENERATOR.random((2, LENGTH)).astype(np.float32)
    for function, args in (
        (_softmax, (x,)), (functional.log_softmax, (x,)), (_spread, (x,)),
        (functional.cross_entropy, (x, y)), (functional.correlation, (x, y)), (_attention, (x, y)),
    ):  # fmt: skip
        expected = function(*args)
        found = fuser.fuse(function, fallback="error")(*args)
        for a, b in zip(_all(found), _all(expected), strict=True):
            np.testing.assert_allclose(a, b, 3e-5, 1e-6, err_msg=f"{function.__name__}")
