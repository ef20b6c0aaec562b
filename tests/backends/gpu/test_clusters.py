"""Rows that clusters of blocks share: on the host, and compiled for devices that have clusters.

No device has run them, so they are off: `reduction_plan.CLUSTERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import register_backend
from fuser.backends.gpu import nvrtc, reduction_plan
from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.geometry import Resources
from fuser.backends.gpu.stages import Stages
from fuser.backends.gpu.variants import Variant
from tests.backends.gpu.host import HostGpuBackend, Tampered, on_device
from tests.backends.gpu.nvrtc import compile_with_nvrtc
from tests.backends.gpu.units import nests_of
from tests.requirements import require
from tests.results import parts_of
from tests.softmax import softmax


class _Clustered(Tampered):
    """A device that has clusters."""

    def resources(self) -> Resources:
        """Few multiprocessors, so that rows are many enough."""
        return Resources(multiprocessors=1, shared_bytes=227 << 10, clusters=True)


register_backend("gpu-clusters", lambda: HostGpuBackend("gpu-clusters"))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Where clusters are on."""
    monkeypatch.setattr(reduction_plan, "CLUSTERS", True)
    with on_device("gpu-clusters", _Clustered()) as device:
        yield device


def _rows(rows: int, columns: int) -> Any:
    return np.random.default_rng(columns).normal(size=(rows, columns)).astype(np.float32)


#: name -> (function, columns): what is stored for each element, and for each row
FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "odd rows": (softmax, 20_483),
    "both": (lambda x: (x - x.mean(axis=1, keepdims=True), x.argmax(axis=1)), 20_480),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_numpys(device: Any, name: str) -> None:
    """Two blocks hold a row each has half of; several rows in turn, one launch."""
    function, columns = FUNCTIONS[name]
    x = _rows(9, columns)
    fused = fuser.fuse(function, fallback="error")
    found, wanted = fused(x), function(x.astype(np.float64))
    for one, want in zip(parts_of(found), parts_of(wanted), strict=True):
        np.testing.assert_allclose(one, want, rtol=2e-5, atol=1e-6)
    assert device.variant.cluster == 2
    assert len(device.grids) == 1
    for one, again in zip(parts_of(found), parts_of(fused(x)), strict=True):
        np.testing.assert_array_equal(one, again)


#: What is left out of the text, and what stands there instead.
LEFT_OUT = {
    "a block is read before it has written": (
        "*room = s;\n    cluster_meet();", "*room = s;\n    __syncthreads();"
    ),
    "a block writes, or ends, before it is read": (
        "cluster_meet();  // the room may still be read", ""
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(device: Any, name: str) -> None:
    """A wrong result, or what a device punishes."""
    device.left_out = LEFT_OUT[name]
    x = _rows(2, 20_480)
    found: Any = None
    with suppress(RuntimeError):
        found = fuser.fuse(softmax, fallback="error")(x)
    wanted = softmax(x.astype(np.float64))
    assert found is None or not np.allclose(found, wanted, rtol=2e-5, atol=1e-6)


def _plan(columns: int, rows: int = 4096, clusters: bool = True) -> Any:
    (nest,) = nests_of(softmax, np.ones((4, 32), np.float32))
    resources = Resources(132, 227 << 10, clusters)
    steps = [[4 * columns, 4]] * 2
    return nest, reduction_plan.plan(
        Stages(nest), (rows, columns), steps, resources, lambda *_: 2
    )


def test_they_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they are switched on; and where a device has none, or a row is held by one block."""
    assert _plan(65_536)[1].strategy == "block"
    monkeypatch.setattr(reduction_plan, "CLUSTERS", True)
    assert _plan(65_536, clusters=False)[1].strategy == "block"
    assert _plan(16_384)[1].strategy == "block"
    assert _plan(1 << 26, rows=1)[1].strategy == "long"
    for columns, cluster in ((20_000, 2), (65_536, 4), (131_072, 8)):
        _, plan = _plan(columns)
        assert (plan.strategy, plan.variant.cluster, plan.phases) == ("cluster", cluster, 1)
        assert plan.grid % cluster == 0


@pytest.mark.parametrize("number", ["90", "120"])
def test_kernels_compile(number: str) -> None:
    """Where there are clusters, without warnings."""
    path = require("nvrtc")
    nest = _plan(65_536)[0]
    variant = Variant(held=8, cluster=4)
    options = (*nvrtc.flags(variant), f"--gpu-architecture=sm_{number}")
    size, log = compile_with_nvrtc(path, emit([nest], "cluster"), options)
    assert size, log
    assert "warning" not in log, log
