"""Rows longer than the cache: read once for all reductions, once more for what is stored."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.backends.cpu.scheduling import extents
from tests.backends.cpu.long_rows import (  # noqa: F401 - a fixture is found by its name
    LENGTH,
    attention,
    small_cache,
    softmax,
    spread,
)
from tests.backends.cpu.on_threads import same_parts
from tests.results import parts_of

GENERATOR = np.random.default_rng(11)

pytestmark = pytest.mark.usefixtures("small_cache")


Function = Callable[..., Any]
ONE: dict[str, Function] = {
    "softmax": softmax, "log_softmax": functional.log_softmax, "logsumexp": functional.logsumexp,
    "layer_norm": functional.layer_norm, "standardise": functional.standardise, "spread": spread,
}  # fmt: skip
TWO: dict[str, Function] = {
    "correlation": functional.correlation, "cross_entropy": functional.cross_entropy,
    "layer_norm_backward": functional.layer_norm_backward, "attention": attention,
}  # fmt: skip
CASES = [*((name, f, 1) for name, f in ONE.items()), *((name, f, 2) for name, f in TWO.items())]


def _error(found: Any, expected: Any) -> float:
    """The largest error in terms of the largest value."""
    return max(
        float(np.max(np.abs(np.float64(a) - b)) / np.max(np.abs(b)))
        for a, b in zip(parts_of(found), parts_of(expected), strict=True)
    )


def _data(dtype: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Rows of several kinds: at random, far from 0, and rising from one end to the other."""
    x = GENERATOR.standard_normal(shape)
    if kind == "far":
        x = x + 300
    if kind == "rising":
        x = x * 0.1 + np.linspace(-30, 30, shape[-1])
    return x.astype(dtype)


@pytest.mark.parametrize(("name", "function", "arity"), CASES, ids=[c[0] for c in CASES])
def test_parts_give_what_the_whole_gives(name: str, function: Function, arity: int) -> None:
    """About NumPy's error or less; the same bits on one thread and on three."""
    fused = fuser.fuse(function, fallback="error")
    for dtype in (np.float32, np.float64):
        for kind in ("random", "far", "rising"):
            args = [_data(dtype, (3, LENGTH), kind) for _ in range(arity)]
            wide = [np.asarray(a, np.longdouble) for a in args]
            found = same_parts(fused, *args)
            expected = function(*wide)
            theirs = _error(function(*args), expected)
            limit = 2 * theirs + 2 * np.finfo(dtype).eps
            assert _error(found, expected) <= limit, (dtype, kind)


def test_a_form_of_its_own_for_long_rows() -> None:
    """Items: each part once, and once more where elements are stored; odd layouts too."""
    x = GENERATOR.standard_normal((2, LENGTH)).astype(np.float32)
    out = np.empty((2, LENGTH + 16), np.float32)[:, 3:-13]  # no vector is aligned
    expected = softmax(x)
    fused = fuser.fuse(softmax, fallback="error")
    np.testing.assert_allclose(fused(x, out=out), expected, 1e-6)
    np.testing.assert_allclose(fused(x[:, ::-1]), expected[:, ::-1], 1e-6)
    np.testing.assert_allclose(fused(np.tile(x, 2)[:, ::2]), softmax(np.tile(x, 2)[:, ::2]), 1e-6)
    again = x.copy()
    np.testing.assert_allclose(fused(again, out=again), expected, 1e-6)


def test_results_go_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large results are streamed where vectors are aligned, with the same bits."""
    x = GENERATOR.standard_normal((1, LENGTH)).astype(np.float32)
    plain = fuser.fuse(functional.layer_norm)(x)
    monkeypatch.setattr(extents, "stream_bytes", lambda: 0)
    fuser.clear_caches()
    fused = fuser.fuse(functional.layer_norm)
    room = np.empty(LENGTH + 32, np.float32)
    start = -room.ctypes.data % 64 // 4
    for shift in (0, 1):
        out = room[start + shift : start + shift + LENGTH].reshape(1, -1)
        np.testing.assert_array_equal(fused(x, out=out), plain)
