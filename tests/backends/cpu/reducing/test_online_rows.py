"""Rows longer than the cache: read once for all reductions, once more for what is stored."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.backends.cpu import tuning
from fuser.backends.cpu.scheduling import choose_reduction, extents
from tests.backends.cpu.on_threads import same_parts
from tests.results import parts_of

GENERATOR = np.random.default_rng(11)

pytestmark = pytest.mark.usefixtures("small_cache")
Function = Callable[..., Any]
LENGTH = 2 * 4096 + 300


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every row is longer than the cache, parts have 1024 float32, threads are always used."""
    monkeypatch.setattr(choose_reduction, "ROW_CACHE_BYTES", 0)
    monkeypatch.setattr(tuning, "PART", 1 << 10)
    monkeypatch.setattr(tuning, "CUT", 1 << 8)
    monkeypatch.setattr(tuning, "LONG_PART_BYTES", 1 << 12)
    monkeypatch.setattr(tuning, "THREAD_NS", 1)
    fuser.clear_caches()
    yield
    fuser.clear_caches()


def softmax(x: Any) -> Any:
    """What is read twice or three times, and stored."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def spread(x: Any) -> Any:
    """Several results, none an array of elements."""
    return x.var(-1, ddof=1), x.mean(-1), x.max(-1), np.ptp(x, -1)


def attention(x: Any, y: Any) -> Any:
    """A quotient of sums: nothing of a row is stored."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e * y).sum(-1) / e.sum(-1)


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
        (softmax, (x,)), (functional.log_softmax, (x,)), (spread, (x,)),
        (functional.cross_entropy, (x, y)), (functional.correlation, (x, y)), (attention, (x, y)),
    ):  # fmt: skip
        expected = function(*args)
        found = fuser.fuse(function, fallback="error")(*args)
        for a, b in zip(parts_of(found), parts_of(expected), strict=True):
            np.testing.assert_allclose(a, b, 3e-5, 1e-6, err_msg=f"{function.__name__}")
