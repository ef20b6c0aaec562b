"""Threads of a block never meet in shared memory without a barrier between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import available, get_backend, register_backend
from fuser.backends.gpu.variants import Variant
from fuser.base import config
from tests.backends.gpu.all_programs import ALL
from tests.backends.gpu.host import RACES, HostDevice, HostGpuBackend
from tests.backends.gpu.programs import numbers

#: A reader ahead of others, and a writer behind them.
BARRIERS = (
    "__syncthreads();  // the room may still be read",
    "__syncthreads();\n    s = room[threadIdx.x & (warps - 1)];",
)


class _Broken(HostDevice):
    """Leaves a barrier out."""

    barrier = ""

    def load(self, text: str, name: str, variant: Variant) -> Any:
        """Load the text without it."""
        without = self.barrier.replace("__syncthreads();", "", 1)
        assert not self.barrier or self.barrier in text
        return super().load(text.replace(self.barrier, without), name, variant)


def _make(name: str, device: HostDevice) -> HostGpuBackend:
    made = HostGpuBackend(name, *RACES)
    made._device = device
    return made


register_backend("gpu-races", lambda: HostGpuBackend("gpu-races", *RACES))
for _place in range(len(BARRIERS)):
    register_backend(f"gpu-broken-{_place}",
                     lambda n=_place: _make(f"gpu-broken-{n}", _Broken(*RACES)))  # fmt: skip


@pytest.fixture
def on() -> Iterator[Any]:
    """Switch to a backend, or skip with its reason."""
    before = config.current()

    def switch(name: str) -> Any:
        if reason := available(name):
            pytest.skip(reason)
        config.change(backend=name)
        return get_backend(name)

    yield switch
    config.restore(before)


PROGRAMS = (
    "row-sums", "short-rows", "long-rows", "total", "column-sums", "tall-columns", "softmax",
    "softmax-long", "softmax-one-row", "softmax-held", "softmax-held-block", "softmax-tail",
    "softmax-parts", "layer-norm-parts", "column-norm-tall", "several", "several-held",
    "first-place",
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_races(on: Any, name: str) -> None:
    """Every strategy."""
    device = on("gpu-races").device
    function, arguments = ALL[name]
    fuser.fuse(function, fallback="error")(*arguments)
    assert device.units
    assert device.races() == 0


@pytest.mark.parametrize("place", range(len(BARRIERS)))
def test_a_missing_barrier_is_found(on: Any, place: int) -> None:
    """Of the two that bring a row's warps together, several rows in turn."""
    device = on(f"gpu-broken-{place}").device
    device.barrier = BARRIERS[place]
    x = numbers(6, 2000)
    fuser.fuse(lambda x: x / x.sum(axis=1, keepdims=True), fallback="error")(x)
    assert device.races() > 0
    assert np.isfinite(x).all()
