"""The GPU backend's whole way, from `fuse` to the launch, over a double of CuPy.

The host compiles and executes the kernels; the shared suite and the tests for devices run on it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.base import disk_cache
from fuser.base.errors import BackendError, FusionError
from tests.backends.gpu import fake_cupy
from tests.backends.gpu.all_programs import ALL
from tests.backends.gpu.host import UNDEFINED
from tests.backends.gpu.test_gpu_device import TestGPUFusion as _OnDevice
from tests.backends.gpu.test_gpu_device import (
    test_an_output_may_be_an_input as test_an_output_may_be_an_input,
)
from tests.backends.gpu.test_gpu_device import (
    test_calls_run_on_the_device_of_their_arrays as test_calls_run_on_the_device_of_their_arrays,
)
from tests.backends.gpu.test_gpu_device import (
    test_misaligned_arrays_are_an_error as test_misaligned_arrays_are_an_error,
)
from tests.backends.gpu.test_gpu_device import (
    test_programs_mean_what_numpy_means as _programs_mean_what_numpy_means,
)
from tests.settings import settings

cupy = fake_cupy.for_a_file()


class TestGPUFusionOnTheHost(_OnDevice):
    """The shared suite."""

    test_constant_operands_are_like_any_other = None  # the core's rules, tested on the CPU


@pytest.mark.parametrize("name", ALL)
def test_programs_mean_what_numpy_means(
    cupy: Any, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As on a device; the sanitizer of undefined behaviour is silent."""
    fuser.clear_caches()
    monkeypatch.setattr(fake_cupy, "checks", UNDEFINED)
    _programs_mean_what_numpy_means(cupy, name)
    assert "runtime error" not in capfd.readouterr().err


def test_the_backend_is_there(cupy: Any) -> None:
    """By its own checks."""
    assert fuser.available_backends()["gpu"] is None
    assert fuser.can_fuse_on_gpu()


def test_arrays_choose_the_backend(cupy: Any) -> None:
    """The double's arrays go to the GPU backend, and its results are its own arrays."""
    fused = fuser.fuse(lambda x: np.exp(x) * 2, fallback="error")
    found = fused(cupy.asarray(np.linspace(0, 1, 100)))
    assert type(found) is cupy.ndarray
    np.testing.assert_allclose(found.get(), np.exp(np.linspace(0, 1, 100)) * 2, rtol=1e-15)
    assert type(fused(np.ones(3))) is np.ndarray


def test_mixed_arguments_are_an_error(cupy: Any) -> None:
    """Host and device arrays in one call."""
    with pytest.raises((FusionError, BackendError, TypeError), match="device"):
        fuser.fuse(lambda x, y: x + y, fallback="error")(cupy.ones(3), np.ones(3))


def test_nothing_is_launched_for_nothing(cupy: Any) -> None:
    """An empty call returns an empty array of the device."""
    found = fuser.fuse(lambda x: x + 1, fallback="error")(cupy.ones((0, 5)))
    assert type(found) is cupy.ndarray
    assert found.shape == (0, 5)


def test_captured_arrays_are_hidden_inputs(cupy: Any) -> None:
    """An array of the device that a function reaches, on either side of an operator."""
    weights = cupy.asarray(np.arange(5.0))
    fused = fuser.fuse(lambda x: np.add(weights * x, x * weights) - weights, fallback="error")
    x = np.linspace(1, 2, 5)
    np.testing.assert_array_equal(
        fused(cupy.asarray(x)).get(), np.arange(5.0) * x + x * np.arange(5.0) - np.arange(5.0)
    )
    weights[2] = 7.0
    assert float(fused(cupy.asarray(x)).get()[2]) == 14 * x[2] - 7


def test_captured_arrays_are_followed(cupy: Any) -> None:
    """However they are used, and what is computed of them alone."""
    weights = cupy.asarray(np.ones((3, 3)))
    held = {"w": [weights]}
    functions: list[tuple[Any, Any]] = [
        (lambda x: x * weights.T + np.exp(weights), lambda value: 2 * value + np.exp(value)),
        (lambda x: x * np.exp(weights).sum(), lambda value: 18 * np.exp(value)),
        (lambda x: x * (held["w"][0] * 2)[1], lambda value: 4 * value),
    ]
    for function, wanted in functions:
        fused = fuser.fuse(function, fallback="error")
        for value in (1.0, 2.0, 3.0):
            weights[...] = value
            found = fused(cupy.asarray(np.full((3, 3), 2.0))).get()
            np.testing.assert_allclose(found, np.full((3, 3), wanted(value)), rtol=1e-14)


def test_a_fallback_runs_on_the_device(cupy: Any) -> None:
    """Operation by operation, with the double's arrays; rows that no ufunc is among them."""
    x = cupy.asarray(np.linspace(0.1, 1, 10))
    for function in (lambda v: np.exp(v) + v.sum(), lambda v: fuser.functional.erf(v) * 2):
        found = fuser.fuse(function, mode="fallback")(x)
        assert type(found) is cupy.ndarray
        np.testing.assert_allclose(found.get(), fuser.fuse(function)(x.get()), rtol=1e-14)


class _Tensor:
    """An array of another library: DLPack is all that it has."""

    def __init__(self, array: Any, kind: int) -> None:
        self.array, self.kind = array, kind

    def __dlpack__(self, **_: Any) -> Any:
        return self.array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0


def test_arrays_of_other_libraries_are_taken_by_dlpack(cupy: Any) -> None:
    """Those on a CUDA device, without a copy; results are CuPy's."""
    fused = fuser.fuse(lambda x: x * 2, fallback="error")
    x = cupy.asarray(np.arange(4.0))
    for kind in (2, 13):  # of a device's memory, and of memory that CUDA moves
        found = fused(_Tensor(x, kind))
        assert type(found) is cupy.ndarray
        np.testing.assert_array_equal(found.get(), x.get() * 2)
    host = _Tensor(x, 1)
    assert backend.adopted(host) is host


class _Numba:
    """An array with CUDA's array interface alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.array.data.ptr, False), "version": 3}


def test_arrays_with_cudas_interface_alone_are_taken(cupy: Any) -> None:
    """As numba's: without a copy, read and written."""
    fused = fuser.fuse(lambda x: x * 2, fallback="error")
    x = cupy.asarray(np.arange(4.0))
    for _ in range(3):
        found = fused(_Numba(x))
        assert type(found) is cupy.ndarray
        np.testing.assert_array_equal(found.get(), np.arange(4.0) * 2)

    def doubled(x: Any) -> None:
        x *= 2

    fuser.fuse(doubled, fallback="error")(_Numba(x))
    np.testing.assert_array_equal(x.get(), np.arange(4.0) * 2)


def test_known_calls_take_the_short_way(cupy: Any) -> None:
    """A second call with the same shapes is looked up at once, and launches what it must."""
    fused = fuser.fuse(lambda x, s: (x * s).sum(axis=1) + 1, fallback="error")
    x = cupy.asarray(np.arange(12.0).reshape(3, 4))
    fused(x, 2.0)
    before = fuser.stats()["launches"]
    found = fused(x, 3.0)
    np.testing.assert_array_equal(found.get(), x.get().sum(axis=1) * 3 + 1)
    assert fuser.stats()["launches"] == before + 1
    assert fused._ready
    with cupy.cuda.Device(1):
        found = fused(x, 3.0)
    assert found.device_id == 0
    np.testing.assert_array_equal(found.get(), x.get().sum(axis=1) * 3 + 1)


def test_a_known_call_waits_for_nothing_and_takes_memory_from_the_pool_alone(cupy: Any) -> None:
    """What a CUDA graph may capture: launches and CuPy's arrays; every other call is an error."""
    functions = (
        lambda x, y: x * 2 + y,
        lambda x, y: np.exp(x - x.max(axis=1, keepdims=True)) * y,
        lambda x, y: (x * y).sum(),
        lambda x, y: fuser.functional.dropout(x + y, 0.5, seed=3).mean(axis=0),
    )
    x = cupy.asarray(np.linspace(0, 1, 35 * 41).reshape(35, 41).astype(np.float32))
    want = []
    for function in functions:
        fused = fuser.fuse(function, fallback="error")
        fused(x, x)
        want.append((fused, fused(x, x)))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        found = [fused(x, x) for fused, _ in want]
        stream.end_capture().launch(stream)
    for one, (_, other) in zip(found, want, strict=True):
        np.testing.assert_array_equal(one.get(), other.get())


def test_what_has_to_wait_cannot_be_captured(cupy: Any) -> None:
    """Integer powers may raise, so a call looks at a flag when it is done: said beforehand."""
    fused = fuser.fuse(lambda x: x**x, fallback="error")
    x = cupy.asarray(np.arange(5))
    fused(x)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(BackendError, match="cannot be captured"):
            fused(x)
        stream.end_capture()


def test_launches_take_few_steps_of_python(cupy: Any) -> None:
    """Calls of Python functions on the way of a known call, the launch itself among them."""
    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    x = cupy.ones(100)
    fused(x, x)
    fused(x, x)
    calls: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "fuser" in frame.f_globals.get("__name__", "").split("."):
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        fused(x, x)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 13, calls


def test_integers_move_what_kernels_read_and_write(cupy: Any) -> None:
    """Indices and bounds that are arguments: one specialisation for each class."""
    def read(x: Any, k: int) -> Any:
        return x[k] * 2, x[:, k] + 1, x[:k].sum(axis=0), x[k : k + 2] - x[0]

    def written(x: Any, k: int) -> Any:
        x[k] = x[k - 1] * 2
        x[:, k] += 1
        return x * 1

    given = np.arange(30.0).reshape(6, 5)
    for function in (read, written):
        fused = fuser.fuse(function, fallback="error")
        for k in (1, 3, 2, -2, -3, 0, 4, 2):
            mine, theirs = given.copy(), cupy.asarray(given.copy())
            wanted, found = function(mine, k), fused(theirs, k)
            parts = zip(wanted, found, strict=True) if function is read else [(wanted, found)]
            for one, other in parts:
                np.testing.assert_allclose(other.get(), one, rtol=1e-15)
            np.testing.assert_array_equal(theirs.get(), mine)
        (entry,) = fused._signatures.values()
        assert len(entry.found) <= 4


def test_machine_code_is_kept_between_processes(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By text, version, architecture and flags; what fails a check is compiled again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(disk_cache, "folder", lambda: str(tmp_path / "objects"))
    compiled: list[Any] = []
    nvrtc = cupy.cuda.nvrtc
    plain = nvrtc.compileProgram

    def counted(program: Any, options: Any) -> None:
        compiled.append(options)
        plain(program, options)

    monkeypatch.setattr(nvrtc, "compileProgram", counted)
    with settings(disk_cache=True):
        x = cupy.asarray(np.arange(40.0).reshape(5, 8))
        first = 0
        for _ in range(3):
            fuser.clear_caches()  # as in a new process
            found = fuser.fuse(lambda x: (x * 3 - 1).sum(axis=1), fallback="error")(x)
            np.testing.assert_array_equal(found.get(), (x.get() * 3 - 1).sum(axis=1))
            first = first or len(compiled)
            assert len(compiled) == first > 0
        for entry in (tmp_path / "objects").iterdir():
            entry.write_bytes(entry.read_bytes()[:-1] + b"?")
        fuser.clear_caches()
        with pytest.warns(disk_cache.CacheWarning, match="damaged"):
            fuser.fuse(lambda x: (x * 3 - 1).sum(axis=1), fallback="error")(x)
        assert len(compiled) == 2 * first
        with cupy.cuda.Device(1):  # another architecture
            fuser.fuse(lambda x: (x * 3 - 1).sum(axis=1), fallback="error")(x.copy())
        assert len(compiled) > 2 * first
