"""Generated reductions: how exact they are, and that strategies agree; executed by the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.backend import register_backend
from fuser.backends.gpu import reduction_plan
from fuser.backends.gpu.geometry import Resources
from fuser.base import config
from tests.backends.gpu.host import HostDevice, HostGpuBackend
from tests.backends.gpu.units import program_texts
from tests.softmax import softmax

register_backend("gpu-reductions", lambda: HostGpuBackend("gpu-reductions"))
RANDOM = np.random.default_rng(7)


@pytest.fixture
def strategies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The strategies of all launches of a test, on a host-executed device."""
    if reason := backend.available("gpu-reductions"):
        pytest.skip(reason)
    fuser.clear_caches()
    before = config.change(backend="gpu-reductions")
    found: list[str] = []
    plan = reduction_plan.plan

    def recorded(*arguments: Any) -> Any:
        made = plan(*arguments)
        found.append(made.strategy)
        return made

    monkeypatch.setattr(reduction_plan, "plan", recorded)
    yield found
    config.restore(before)


def test_every_strategy_is_met(
    strategies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One compiled kernel each for rows and columns; lengths choose, results agree with NumPy."""
    monkeypatch.setattr(HostDevice, "resources", lambda self: Resources(8, 227 << 10))
    rows = fuser.fuse(lambda x: x.sum(axis=1), fallback="error")
    columns = fuser.fuse(lambda x: x.sum(axis=0), fallback="error")
    before = fuser.n_compiled_kernels()
    for shape in ((700, 3), (60, 1500), (2, 9001), (2, 40)):
        x = RANDOM.normal(size=shape)
        np.testing.assert_allclose(rows(x), x.sum(axis=1), rtol=1e-12)
    apart = fuser.fuse(lambda x: x.sum(axis=(0, 2)), fallback="error")
    for shape in ((50, 2, 900), (5, 300, 31)):
        x = RANDOM.normal(size=shape)
        np.testing.assert_allclose(apart(x), x.sum(axis=(0, 2)), rtol=1e-12, atol=1e-12)
        assert strategies[-1] == ("split" if shape[1] == 2 else "lanes")
    for shape in ((5, 4001), (9001, 2), (2, 5), (64, 64)):
        x = RANDOM.normal(size=shape)
        np.testing.assert_allclose(columns(x), x.sum(axis=0), rtol=1e-12, atol=1e-12)
    assert fuser.n_compiled_kernels() == before + 3
    assert set(strategies) == {"lanes", "block", "split", "columns", "split columns"}


@pytest.mark.parametrize("shared_bytes", [0, 1 << 10, 5 << 10, 227 << 10])
def test_rows_may_be_kept_in_part(
    strategies: list[str], shared_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What shared memory has no room for is read again; the result has the same bits."""
    few = Resources(multiprocessors=1, shared_bytes=max(shared_bytes, 256))
    monkeypatch.setattr(HostDevice, "resources", lambda self: few)
    x = np.linspace(-3, 3, 3 * 2100, dtype=np.float32).reshape(3, 2100)
    np.testing.assert_allclose(
        fuser.fuse(softmax, fallback="error")(x), softmax(x.astype("f8")), rtol=2e-6
    )
    assert strategies == ["block"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_are_at_least_as_exact_as_numpys(
    strategies: list[str], dtype: str, axis: int
) -> None:
    """Over an ensemble with cancellation: the mean error against extended precision."""
    rows = fuser.fuse(lambda x: x.sum(axis=axis), fallback="error")
    x = (RANDOM.normal(size=(40, 3000)) * 10 ** RANDOM.uniform(-3, 3, (40, 3000))).astype(dtype)
    x = x if axis else np.ascontiguousarray(x.T)
    exact = x.astype(np.longdouble).sum(axis=axis)
    ours, numpys = (np.abs(found - exact).mean() for found in (rows(x), x.sum(axis=axis)))
    assert ours <= numpys
    assert ours <= 2 * np.abs(exact).mean() * np.finfo(dtype).eps


def test_sums_of_infinities_and_nan(strategies: list[str]) -> None:
    """What additions lose is no number there, and is left out."""
    x = np.ones((6, 40), np.float32)
    x[0, 3] = np.inf
    x[1, 5:7] = np.inf, -np.inf
    x[2, 8] = np.nan
    x[3] = 3e38
    x[4] = -0.0
    with np.errstate(all="ignore"):
        want = x.sum(axis=1)
    found = fuser.fuse(lambda v: v.sum(axis=1), fallback="error")(x)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


def test_the_first_place_wins_and_nan_before_all(strategies: list[str]) -> None:
    """In every lane and block, for repeated extremes and several NaN."""
    places = fuser.fuse(lambda x: (x.argmax(axis=-1), x.argmin(axis=-1)), fallback="error")
    for length in (1, 3, 700, 20_001):
        for kind in ("equal", "nan", "ends"):
            x = np.zeros((2, length), np.float32)
            if kind == "nan":
                x[:, length // 3 :: 7] = np.nan
            elif kind == "ends":
                x[:, -1], x[:, 0] = 5, -5
            for found, want in zip(places(x), (x.argmax(-1), x.argmin(-1)), strict=True):
                np.testing.assert_array_equal(found, want)


def test_results_are_the_same_in_every_run(strategies: list[str]) -> None:
    """Several blocks leave their states in memory, and all are merged in one order."""
    total = fuser.fuse(lambda x: x.sum(), fallback="error")
    x = RANDOM.normal(size=50_001).astype(np.float32)
    assert len({total(x).tobytes() for _ in range(3)}) == 1
    assert strategies[-1] == "split"


def test_normalisations_may_be_done_in_place(strategies: list[str]) -> None:
    """`out=` the argument itself: read through plain loads before it is written."""
    fused = fuser.fuse(softmax, fallback="error")
    x = RANDOM.normal(size=(5, 3000)).astype(np.float32)
    want = softmax(x.astype("f8"))
    assert fused(x, out=x) is x
    np.testing.assert_allclose(x, want, rtol=2e-6)


def test_exceptions_are_noticed_in_reductions(strategies: list[str]) -> None:
    """`errstate=True`: an overflowing sum sends the call to NumPy."""
    fused = fuser.fuse(lambda x: (x * 2).sum(axis=1), errstate=True)
    x = np.ones((4, 100), np.float32)
    with np.errstate(all="raise"):
        fused(x)
        x[2, 50:] = 1e38
        with pytest.raises(FloatingPointError):
            fused(x)


def test_text_keeps_rows_and_shuffles() -> None:
    """One read of memory, shared memory between the passes, shuffles at their ends."""
    (text,) = program_texts()["softmax"]
    assert "__shfl_xor_sync" in text
    assert "a.kept" in text
    assert "struct __align__(8) State0_1" in text
    assert "#include" not in text
