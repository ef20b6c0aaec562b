"""The GPU backend on a GPU: skipped, with the reason, where CuPy or a device is missing.

`pytest tests/backends` on a machine with a GPU runs all of this; nothing has to be set.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.backends.gpu import reduction_plan
from fuser.backends.gpu.backend import GpuBackend
from fuser.base.errors import BackendError
from tests.backends.fusion_suite import FusionSuite
from tests.backends.gpu.all_programs import ALL, assert_means


class TestGPUFusion(FusionSuite):
    """The shared suite, on the current device."""

    backend = "gpu"

    @pytest.fixture(autouse=True)
    def _results_on_the_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The suite compares with NumPy's results, so those of fused functions are fetched."""
        fuse = fuser.fuse

        def fetching(*args: Any, **options: Any) -> Any:
            fused = fuse(*args, **options)

            def call(*operands: Any, **keywords: Any) -> Any:
                found = fused(*operands, **keywords)
                return tuple(map(_fetched, found)) if isinstance(found, tuple) else _fetched(found)

            return call

        monkeypatch.setattr(fuser, "fuse", fetching)

    # CuPy raises nothing for negative integer powers, so the fallback does not either.
    test_negative_integer_powers_raise = None


def _fetched(value: Any) -> Any:
    """A CuPy array as a NumPy array."""
    return value.get() if hasattr(value, "get") else value


@pytest.fixture
def cupy() -> Any:
    """CuPy with a device, or a skip with the backend's reason."""
    if reason := backend.available("gpu"):
        pytest.skip(reason)
    import cupy

    return cupy


def test_unavailable_says_what_is_missing() -> None:
    """Everywhere: None, or a sentence that names the missing part."""
    reason = GpuBackend().unavailable()
    if importlib.util.find_spec("cupy") is None:
        assert reason is not None
        assert "install cupy-cuda13x" in reason
    elif reason is not None:
        assert "CUDA device" in reason or "NVRTC" in reason or "cupy" in reason
    assert fuser.available_backends()["gpu"] == reason
    assert fuser.can_fuse_on_gpu() == (reason is None)


@pytest.mark.parametrize("name", ALL)
def test_programs_mean_what_numpy_means(cupy: Any, name: str) -> None:
    """Every layout, with arrays that have NumPy's strides on the device."""
    function, arguments = ALL[name]
    got = fuser.fuse(function, fallback="error")(*(_moved(cupy, a) for a in arguments))
    results = got if isinstance(got, tuple) else (got,)
    assert all(isinstance(result, cupy.ndarray) for result in results)
    fetched = tuple(map(cupy.asnumpy, results))
    assert_means(name, fetched if isinstance(got, tuple) else fetched[0])


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _batch_norm(x: Any) -> Any:
    x = x.reshape(8, -1, 4, x.shape[-1])
    return (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1)


#: name -> (function, shapes): whole rows and odd ones of each way to lay a nest over threads
WAYS: dict[str, tuple[Any, tuple[tuple[int, int], ...]]] = {
    "map": (lambda x: x * 2 + x[:1], ((64, 512), (65, 515))),
    "held by lanes": (_softmax, ((640, 96), (641, 67))),
    "held by a block": (_softmax, ((64, 4096), (65, 4099))),
    "tail": (_softmax, ((512, 36_864), (513, 36_867))),
    "long": (_softmax, ((1, 1 << 20), (2, (1 << 20) + 3))),
    "split": (lambda x: x.sum(), ((256, 4096), (257, 4099))),
    "columns": (lambda x: x.mean(0) + x.max(0), ((515, 512), (67, 515))),
    "split columns": (lambda x: x.sum(0), ((20_000, 64), (20_001, 67))),
    "axes apart": (_batch_norm, ((640, 32), (672, 33))),
    "tiles": (lambda x: x[:, :64] + x[:64, :64].T, ((64, 512), (64, 515))),
    "shared by a cluster": (_softmax, ((512, 36_864), (513, 36_867))),
    "copied ahead": (_softmax, ((2048, 4096), (2049, 4096))),
}
#: A device of fewer multiprocessors, as the double is, is busy with fewer elements.
FEW = 16


def _for_few(rows: int, columns: int) -> tuple[int, int]:
    """A shape that such a device lays over its threads as others do one of `WAYS`."""
    if columns >= 1 << 20:
        return 1, columns // FEW | columns & 1
    return max(rows // 64, min(rows, 2)) if columns >= 4096 else rows, columns


#: Those that are off by themselves -> the constant of `reduction_plan` that switches them on.
SWITCHED = {"shared by a cluster": "CLUSTERS", "copied ahead": "AHEAD"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", WAYS)
def test_calls_in_dirty_memory_have_the_same_bits(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    """Three of them, while what the pool hands out is full of NaN; near NumPy's values."""
    function, shapes = WAYS[name]
    if dtype == "bfloat16":  # NumPy knows the name once the package is loaded
        pytest.importorskip("ml_dtypes", reason="not installed: pip install ml_dtypes")
    fuser.clear_caches()  # no plan from before is used
    if name in SWITCHED:
        monkeypatch.setattr(reduction_plan, SWITCHED[name], True)
    few = cupy.cuda.Device().attributes["MultiProcessorCount"] < FEW
    near = {"bfloat16": 1e-1, "float16": 2e-2, "float32": 1e-4, "float64": 1e-11}[dtype]
    for shape in shapes:
        size = _for_few(*shape) if few else shape
        values = np.random.default_rng(9).normal(size=size).astype(dtype)
        x, fused, bits = cupy.asarray(values), fuser.fuse(function, fallback="error"), set()
        for _ in range(3):
            junk = [cupy.full(max(512, x.nbytes >> k), 0xFF, np.uint8) for k in (0, 1, 4, 8, 20)]
            del junk
            found = cupy.asnumpy(fused(x))
            bits.add(found.tobytes())
        assert len(bits) == 1
        wanted = function(values.astype(np.float64))
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=near, atol=near)


def _moved(cupy: Any, array: Any) -> Any:
    """The array on the device, with the same strides and the same memory around it."""
    base = array
    while getattr(base, "base", None) is not None and isinstance(base.base, np.ndarray):
        base = base.base
    if not isinstance(array, np.ndarray):
        return cupy.asarray(array)
    memory = cupy.asarray(np.ascontiguousarray(base)).view()
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    if not base.flags.c_contiguous:
        return cupy.asarray(array)
    return cupy.ndarray(array.shape, array.dtype, memory.data + offset, array.strides)


def test_an_output_may_be_an_input(cupy: Any) -> None:
    """In place, and into memory that overlaps otherwise."""
    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    x, y = cupy.arange(1001.0), cupy.ones(1001)
    assert fused(x, y, out=x) is x
    np.testing.assert_array_equal(cupy.asnumpy(x), np.arange(1001.0) * 2 + 1)
    fused(x, y, out=x[::-1])
    np.testing.assert_array_equal(cupy.asnumpy(x)[::-1], (np.arange(1001.0) * 2 + 1) * 2 + 1)


def test_work_goes_on_the_current_stream(cupy: Any) -> None:
    """A fused call is captured with what surrounds it: it neither waits nor allocates outside."""
    fused = fuser.fuse(lambda x: x * 2 + 1, fallback="error")
    x, out = cupy.ones(1000), cupy.empty(1000)
    fused(x, out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        fused(x, out=out)
        graph = stream.end_capture()
        x[...] = 5
        graph.launch(stream)
    stream.synchronize()
    assert (out == 11).all()


def test_memory_comes_from_the_pool(cupy: Any) -> None:
    """Outputs are CuPy's own, and their memory goes back to its pool."""
    fused = fuser.fuse(lambda x: x + 1, fallback="error")
    x = cupy.ones(1 << 20, np.float32)
    fused(x)
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    result = fused(x)
    assert pool.used_bytes() == before + result.nbytes
    del result
    assert pool.used_bytes() == before


def test_large_arrays_take_wide_indices(cupy: Any) -> None:
    """More than 2**31 elements, the last ones included."""
    length = 2**31 + 12_345
    if cupy.cuda.Device().mem_info[0] < 3 * length:
        pytest.skip("less than 7 GB of device memory is free")
    x = cupy.zeros(length, np.uint8)
    x[-3:] = 7
    out = fuser.fuse(lambda v: v + 1, fallback="error")(x)
    assert out[-4:].tolist() == [1, 8, 8, 8]
    assert int(out.max()) == 8


def test_calls_run_on_the_device_of_their_arrays(cupy: Any) -> None:
    """Whichever is current, known calls too; arrays of two devices are refused."""
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two CUDA devices")
    x, fused = cupy.ones(10), fuser.fuse(lambda v: v + 1, fallback="error")
    both = fuser.fuse(lambda v, w: v + w, fallback="error")
    for _ in range(3):
        with cupy.cuda.Device(1):
            found = fused(x)
            out = cupy.empty(10)
            assert fused(out, out=out) is out
        assert found.data.device_id == 0
        assert (found == 2).all()
    program = fuser.fuse(lambda v: np.sort(v * 2) + 1, fallback="allow")
    for _ in range(4):
        with cupy.cuda.Device(1):
            assert (program(x) == 3).all()
    with cupy.cuda.Device(1):
        other = cupy.ones(10)
        with pytest.raises(BackendError, match="on CUDA device 0, the current device is 1"):
            both(x, other)


def test_misaligned_arrays_are_an_error(cupy: Any) -> None:
    """CUDA would fault; the message says to copy."""
    raw = cupy.zeros(1001, np.uint8)
    x = cupy.ndarray((10,), np.float32, raw.data + 1)
    with pytest.raises(BackendError, match="aligned"):
        fuser.fuse(lambda v: v + 1, fallback="error")(x)


def test_ptx_is_shown(cupy: Any) -> None:
    """`source` gives CUDA C++ and PTX."""
    fused = fuser.fuse(lambda x: x * 2, fallback="error")
    x = cupy.ones(8, np.float32)
    assert "__global__" in next(iter(fused.source(x).values()))
    assert ".entry" in next(iter(fused.source(x, kind="ptx").values()))
