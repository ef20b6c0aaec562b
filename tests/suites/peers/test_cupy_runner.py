"""The runners on CuPy, with NumPy standing in for it: what is called, and in which order."""

import sys
import types
from typing import Any

import numpy as np
import pytest

from fuser.suites.peers import cupy_runner
from fuser.suites.peers.cupy_runner import CupyFusedRunner, CupyFuseRunner, CupyRunner
from fuser.suites.registry import workloads
from fuser.suites.runners import specs

CALLS: list[str] = []


class Stream:
    """The current stream."""

    def synchronize(self) -> None:
        """Note that somebody waited."""
        CALLS.append("wait")


def _fuse() -> Any:
    CALLS.append("fuse")
    return lambda function: function


@pytest.fixture
def _cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module cupy that is NumPy."""
    fake: Any = types.ModuleType("cupy")
    for name in ("array", "tanh", "exp", "maximum", "ones", "empty_like", "copyto"):
        setattr(fake, name, getattr(np, name))
    fake.asnumpy = np.asarray
    fake.fuse = _fuse
    runtime = types.SimpleNamespace(getDeviceCount=lambda: 0)
    fake.cuda = types.SimpleNamespace(get_current_stream=Stream, runtime=runtime)
    fake.__spec__ = types.SimpleNamespace(name="cupy")
    monkeypatch.setitem(sys.modules, "cupy", fake)
    CALLS.clear()


@pytest.mark.usefixtures("_cupy")
def test_a_call_waits_for_the_device() -> None:
    """Also after the arguments are copied; results come back as NumPy's arrays."""
    runner = CupyRunner()
    runner.start()
    workload = workloads()["gelu_bias"]
    arguments = workload.inputs(2048, "float32", 0)
    call = runner.prepare(workload.function, arguments)
    given = runner.accept(arguments)
    CALLS.clear()
    (found,) = runner.fetch(call(*given))
    assert CALLS == ["wait"]
    assert np.array_equal(found, workload.function(*arguments))


@pytest.mark.usefixtures("_cupy")
def test_cupys_fuser_gets_the_function() -> None:
    """`cupy.fuse()` is applied to the function on cupy."""
    CupyFuseRunner().prepare(workloads()["silu_mul"].function, (np.ones(3), np.ones(3)))
    assert "fuse" in CALLS


@pytest.mark.usefixtures("_cupy")
def test_our_fuser_gets_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits as CuPy's own do; beside it a copy in the device's memory is timed."""
    workload, runner = workloads()["gelu_bias"], CupyFusedRunner()
    arguments = workload.inputs(2048, "float32", 0)
    call = runner.prepare(workload.function, arguments)
    CALLS.clear()
    (found,) = runner.fetch(call(*arguments))
    assert CALLS == ["wait"]
    np.testing.assert_allclose(found, workload.function(*arguments), rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(cupy_runner, "COPIED_BYTES", 1 << 12)
    (copied,) = runner.ceilings(process=2)
    assert (copied["by"], copied["bytes_moved"], copied["process"]) == ("cupy", 1 << 13, 2)
    assert len(copied["seconds"]) == cupy_runner.COPIES


@pytest.mark.usefixtures("_cupy")
def test_no_device_is_a_reason() -> None:
    """A machine without a GPU lists the runner with it."""
    assert CupyRunner().unavailable() == "no CUDA device"


def test_all_are_known_by_name() -> None:
    """As every other peer."""
    assert {"cupy", "cupy_fuse", "cupy_fused", "jax_cuda"} <= specs().keys()
