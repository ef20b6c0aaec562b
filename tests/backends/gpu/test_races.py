"""Threads of a block meet in memory with barriers between them, blocks with fences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fuser
from fuser.backend import available, get_backend, register_backend
from fuser.backends.gpu.variants import Variant
from fuser.base import config
from tests.backends.gpu.all_programs import ALL
from tests.backends.gpu.host import RACES, HostDevice, HostGpuBackend
from tests.backends.gpu.programs import numbers

#: What a planted fault leaves out, and the program that shows it: readers ahead of writers, and
#: writers behind them, in shared memory; what blocks write for the last of them to read.
LEFT_OUT: dict[str, tuple[str, str, str]] = {
    "a row's room is still read": (
        "__syncthreads();  // the room may still be read", "", "rows in turn"
    ),
    "a row's room is not written yet": (
        "__syncthreads();\n    s = room[threadIdx.x & (warps - 1)];",
        "s = room[threadIdx.x & (warps - 1)];", "rows in turn",
    ),
    "tiles are still read": ("__syncthreads();  // the tiles may still be read", "", "tiles"),
    "no fence after writing": ("__threadfence();\n        last", "last", "total"),
    "no fence before reading": ("count - 1;\n        __threadfence();", "count - 1;", "total"),
    "read as if nobody wrote": ("return alone ? __ldg", "return true ? __ldg", "in place"),
}


class _Broken(HostDevice):
    """Leaves something out."""

    left_out = ("", "")

    def load(self, text: str, name: str, variant: Variant) -> Any:
        """Load the text without it."""
        own, instead = self.left_out
        assert own in text
        return super().load(text.replace(own, instead), name, variant)


def _make(name: str, device: HostDevice) -> HostGpuBackend:
    made = HostGpuBackend(name, *RACES)
    made._device = device
    return made


register_backend("gpu-races", lambda: HostGpuBackend("gpu-races", *RACES))
register_backend("gpu-broken", lambda: _make("gpu-broken", _Broken(*RACES)))


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
    "first-place", "tiles", "tiles-of-batches",
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_races(on: Any, name: str) -> None:
    """Every strategy."""
    device = on("gpu-races").device
    function, arguments = ALL[name]
    fuser.fuse(function, fallback="error")(*arguments)
    assert device.units
    assert device.races() == 0


def _rows_in_turn() -> None:
    x = numbers(6, 2000)
    fuser.fuse(lambda x: x / x.sum(axis=1, keepdims=True), fallback="error")(x)


def _in_place() -> None:
    x = numbers(6, 2000)
    fuser.fuse(lambda x: x / x.sum(axis=1, keepdims=True), fallback="error")(x, out=x)


def _program(name: str) -> Any:
    function, arguments = ALL[name]
    return lambda: fuser.fuse(function, fallback="error")(*arguments)


SHOWN = {
    "rows in turn": _rows_in_turn, "in place": _in_place, "total": _program("total"),
    "tiles": _program("tiles"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(on: Any, name: str) -> None:
    """A barrier between threads of a block, a fence between blocks, a path of reading."""
    backend = on("gpu-broken")
    own, instead, shown = LEFT_OUT[name]
    for found in (True,) if shown in PROGRAMS else (False, True):  # these are right: see above
        device = backend._device = _Broken(*RACES)
        device.left_out = (own, instead) if found else (own, own)
        fuser.clear_caches()
        SHOWN[shown]()
        assert device.units
        assert (device.races() > 0) is found
