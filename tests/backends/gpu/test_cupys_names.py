"""What the backend takes from CuPy: the double has all of it, and so have CuPy 13 and CuPy 14.

The table is of CuPy 13.6 and 14.2, which agree in it. Where CuPy is installed, with or without a
device, it is held against the one that is there.
"""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from fuser.backends.gpu import backend
from fuser.ir import opaque_calls
from tests.backends.gpu import fake_cupy

#: path below `cupy` -> its parameters, where CuPy's documentation of it begins with them
USED: dict[str, str | None] = {
    "ndarray": "shape, dtype=float, memptr=None, strides=None, order='C'",
    "asarray": None,
    "asnumpy": None,
    "zeros": None,
    "from_dlpack": "array, *, device=None, copy=None",
    "get_array_module": None,
    "cuda.Device": "device=None",
    "cuda.alloc": "size",
    "cuda.get_current_stream": "int device_id=-1",
    "cuda.Event.done": "",
    "cuda.Event.record": "stream=None",
    "cuda.Event.synchronize": "",
    "cuda.function.Module": "",
    "cuda.function.Module.load": "bytes cubin",
    "cuda.function.Module.get_function": "name",
    "cuda.runtime.getDevice": "",
    "cuda.runtime.getDeviceCount": "",
    "cuda.runtime.streamIsCapturing": "intptr_t stream",
    "cuda.runtime.memGetInfo": "",
    "cuda.runtime.CUDARuntimeError": None,
    "cuda.driver.ctxGetCurrent": "",
    "cuda.driver.launchKernel": "intptr_t f, unsigned int grid_dim_x, unsigned int grid_dim_y, "
    "unsigned int grid_dim_z, unsigned int block_dim_x, unsigned int block_dim_y, "
    "unsigned int block_dim_z, unsigned int shared_mem_bytes, intptr_t stream, "
    "intptr_t kernel_params, intptr_t extra",
    "cuda.driver.funcSetAttribute": "intptr_t f, int attribute, int value",
    "cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor":
        "intptr_t func, int blockSize, size_t dynamicSMemSize",
    "cuda.nvrtc.NVRTCError": None,
    "cuda.nvrtc.getVersion": "",
    "cuda.nvrtc.getSupportedArchs": "",
    "cuda.nvrtc.createProgram": "src, name, headers, include_names",
    "cuda.nvrtc.compileProgram": "intptr_t prog, options",
    "cuda.nvrtc.getCUBIN": "intptr_t prog",
    "cuda.nvrtc.getPTX": "intptr_t prog",
    "cuda.nvrtc.getProgramLog": "intptr_t prog",
    "cuda.nvrtc.destroyProgram": "intptr_t prog",
}  # fmt: skip
#: Of these the double has what it needs in other classes of its own.
_OF_MEMORY = {"memset_async": "int value, size_t size, stream=None", "ptr": None, "device_id": None,
              "mem": None}  # fmt: skip


def test_the_double_has_what_is_used() -> None:
    """Under the same paths."""
    if reason := fake_cupy.reason_to_skip():
        pytest.skip(reason)
    with fake_cupy.installed() as cupy:
        for path in USED:
            reduce(getattr, path.split("."), cupy)
        memory = cupy.cuda.alloc(16)
        assert all(hasattr(memory, name) for name in _OF_MEMORY)


def test_nothing_else_is_taken_from_cupy() -> None:
    """Names after `cupy.` in the backend's text are those of the table."""
    text = "".join(path.read_text() for path in Path(backend.__file__).parent.glob("*.py"))
    plain = re.sub(r'""".*?"""|#[^\n]*|\bfuser\.[\w.]+', "", text, flags=re.DOTALL)
    found = set(re.findall(r"\bcupy\.((?:[a-zA-Z_]+\.?)+)", plain))
    parts = re.findall(r"\b((?:runtime|driver|nvrtc)\.[a-zA-Z]+)", plain)
    found |= {f"cuda.{name}" for name in parts}
    known = {path for path in found if any(each.startswith(path) for each in USED)}
    ours = {"cuda.nvrtc.flags", "cuda.nvrtc.compile_text", "cuda.nvrtc.ptx", "cuda"}
    ours |= {"_core.core", "cuda.memory"}  # of their C functions the signatures are compared
    assert found - known <= ours, sorted(found - known)


def _installed() -> Any:
    """CuPy itself, or a skip."""
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            found = version(name)
        except PackageNotFoundError:
            continue
        if found.split(".")[0] in ("13", "14"):
            return import_module("cupy")
    pytest.skip("not installed: pip install cupy-cuda13x")


def test_cupy_has_what_is_used() -> None:
    """With these parameters; a device is not needed for that."""
    cupy = _installed()
    for path, wanted in USED.items():
        _same(path, reduce(getattr, path.split("."), cupy), wanted)
    for name, wanted in _OF_MEMORY.items():
        _same(name, getattr(cupy.cuda.MemoryPointer, name), wanted)
    for name, drawing in opaque_calls.DRAWN.items():  # the same arguments, whoever draws
        assert getattr(cupy.random, name).__module__.startswith("cupy.random")
        assert hasattr(cupy.random.RandomState, drawing)
    assert cupy.exp.name == "cupy_exp"
    assert type(cupy.exp).__module__ == "cupy._core._kernel"


def _same(path: str, own: Any, wanted: str | None) -> None:
    """Whether the documentation of a name begins with these parameters."""
    if wanted is None:
        return
    told = re.search(r"\(([^)]*(?:\('C'\))?[^)]*)\)", (own.__doc__ or "").strip().split("\n")[0])
    assert told is not None, path
    found = re.sub(r"\b(?:unicode|str) |^self(?:, |$)", "", told[1])
    assert found == wanted, path


def test_without_a_device_the_backend_says_so() -> None:
    """CuPy's own error, in a sentence; it raises nothing."""
    cupy = _installed()
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    reason = backend.GpuBackend().unavailable()
    if count == 0:
        assert reason is not None
        assert reason.startswith("no CUDA device")
