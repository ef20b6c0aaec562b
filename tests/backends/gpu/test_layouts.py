"""Generated CUDA text on every layout, executed by the host, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.backend import register_backend
from fuser.backends.gpu import geometry
from fuser.base import config
from tests.backends.gpu.all_programs import ALL, assert_means
from tests.backends.gpu.host import HostGpuBackend

for _name in ("gpu-layouts", "gpu-wide"):
    register_backend(_name, lambda _name=_name: HostGpuBackend(_name))


@pytest.fixture
def on() -> Iterator[Any]:
    """Switch to a backend, or skip with its reason."""
    before = config.current()

    def switch(name: str) -> HostGpuBackend:
        if reason := backend.available(name):
            pytest.skip(reason)
        config.change(backend=name)
        found = backend.get_backend(name)
        assert isinstance(found, HostGpuBackend)
        return found

    yield switch
    config.restore(before)


def check(name: str) -> None:
    """Run a program fused, and compare with NumPy."""
    function, arguments = ALL[name]
    got = fuser.fuse(function, fallback="error")(*arguments)
    want = function(*arguments)
    assert_means(name, got)
    want = function(*arguments)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for one, other in pairs:
        assert np.asarray(one).strides == np.asarray(other).strides


@pytest.mark.parametrize("name", ALL)
def test_wide_indices_give_the_same(
    on: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 64-bit variant, which real calls need only beyond 2**31."""
    on("gpu-wide")
    monkeypatch.setattr(geometry, "SMALL", 1)
    check(name)


def test_grids_are_bounded_and_threads_loop(on: Any) -> None:
    """More work than threads: each takes several steps, and nothing is left out."""
    host = on("gpu-layouts")
    x = np.arange(300_001, dtype=np.float32)
    grids = host.device.grids
    grids.clear()
    np.testing.assert_array_equal(fuser.fuse(lambda v: v + 1, fallback="error")(x), x + 1)
    assert grids == [2 * geometry.WAVES]


def test_one_compilation_serves_every_size(on: Any) -> None:
    """Lengths, alignment and scalars are run-time data."""
    on("gpu-layouts")
    fused = fuser.fuse(lambda x, y, s: x * s - y, fallback="error")
    base = np.linspace(0, 1, 4000, dtype=np.float32)
    before = fuser.n_compiled_kernels()
    for length in range(1, 60):
        for start in (0, 1, 2, 3):
            x, y = base[start : start + length], base[2000 - start :][:length]
            np.testing.assert_array_equal(fused(x, y, 0.5 * length), x * (0.5 * length) - y)
    assert fuser.n_compiled_kernels() == before + 1


def test_an_output_may_be_an_input(on: Any) -> None:
    """`out=` an argument, read where it is written: through plain loads."""
    on("gpu-layouts")
    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    x, y = np.arange(1001.0), np.ones(1001)
    want = x * 2 + y
    assert fused(x, y, out=x) is x
    np.testing.assert_array_equal(x, want)


def test_exceptions_are_noticed(on: Any) -> None:
    """`errstate=True`: a flag in memory, set by any thread, sends the call to NumPy."""
    on("gpu-layouts")
    fused = fuser.fuse(lambda x: 1 / x, errstate=True)
    x = np.ones(100_000, np.float32)
    with np.errstate(all="raise"):
        fused(x)
        x[77_777] = 0
        with pytest.raises(FloatingPointError):
            fused(x)


def test_nothing_is_launched_for_nothing(on: Any) -> None:
    """An empty call returns an empty array."""
    host = on("gpu-layouts")
    grids = host.device.grids
    grids.clear()
    empty = np.ones((0, 5), np.float32)
    assert fuser.fuse(lambda x: x + 1, fallback="error")(empty).shape == (0, 5)
    assert not grids
