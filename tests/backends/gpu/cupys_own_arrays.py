"""CuPy's own arrays on memory of the host, beside the double's devices: run by a test of its own.

CuPy makes arrays over memory that somebody else owns without looking at it, and takes an allocator
that is a Python function; so its arrays, pointers and flags are the real ones here. So are the C
functions that make arrays, take memory and launch: of these the last calls a driver that is
compiled here, has one function, and hands the launch to the double. Kernels run on the host. Ends
with 77 where CuPy is not installed.
"""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))
import fuser
from fuser.backends.gpu.array_fields import array_fields
from fuser.backends.gpu.c_functions import FUNCTIONS, functions
from tests.backends.gpu import fake_cupy
from tests.backends.gpu.fake_arrays import pool, settle
from tests.requirements import find

_DRIVER = """\
typedef int (*launched)(void *, unsigned, unsigned, unsigned, void *, void **);
launched launch;
int launches;
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || extra) return 1;
  launches++;
  return launch ? launch(f, gx, bx, shared, stream, arguments) : 0;
}
int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_OF_THE_TEST"; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "said by it"; return 0; }
"""


def compiled_driver(folder: str) -> ctypes.CDLL:
    """A library that CuPy finds as CUDA's driver, as it is in the process already."""
    path = f"{folder}/libcuda.so.1"
    command = [str(find("cxx")), "-x", "c", "-", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
               "-o", path]  # fmt: skip
    subprocess.run(command, input=_DRIVER, text=True, check=True)
    return ctypes.CDLL(path, ctypes.RTLD_GLOBAL)


_folder = tempfile.TemporaryDirectory()
DRIVER = compiled_driver(_folder.name)
try:
    import cupy
    from cupy.cuda import MemoryPointer, UnownedMemory
except ImportError as error:
    print(f"not installed: pip install cupy-cuda13x ({error})")
    sys.exit(77)

X = np.random.default_rng(0).normal(size=(9, 40)).astype(np.float32)
#: (function, arguments) pairs.
CALLS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (lambda x, y: x * 2 + y, (X, X)),
    (lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), (X,)),
    (lambda x: x.var(-1).max(), (X,)),
    (lambda x, y: x + y, (X.T, X.T)),
    (lambda x, s: x * s, (X[:, ::2], 2.5)),
    (lambda x, n: x % n, (np.arange(-9, 9), 5)),
    (lambda x: x + 1, (X[:0],)),
    (lambda x: np.exp(x - x.max()), (X[0],)),
    (lambda x, y: x[:, None] - y, (X[0], X[1])),
)


def take(size: int) -> Any:
    """As CuPy's allocator."""
    memory = pool.take(size)
    return MemoryPointer(UnownedMemory(memory.ctypes.data, max(size, 1), memory, 0), 0)


def on_device(host: Any) -> Any:
    """A CuPy array of the values, in the order of their axes in memory."""
    if not isinstance(host, np.ndarray):
        return host
    pointer = take(host.nbytes)
    made = cupy.ndarray(host.shape, host.dtype, pointer, np.empty_like(host).strides)
    values(made)[...] = host
    return made


def values(array: Any) -> Any:
    """What a CuPy array holds, as NumPy's array of the same memory."""
    settle()
    interface = {
        "data": (array.data.ptr, False), "shape": array.shape, "strides": array.strides,
        "typestr": array.dtype.str, "version": 3,
    }  # fmt: skip
    return np.asarray(type("Seen", (), {"__array_interface__": interface})())


#: What is CuPy's own of the functions that the dispatcher calls.
REAL = ("alloc", "new", "launch")
_Launched = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p,
    ctypes.c_void_p,
)  # fmt: skip


def launching(double: Any, status: list[int]) -> Any:
    """What the driver calls: the double's launch, and an error's number where one is wanted."""

    def launch(
        handle: int, grid: int, block: int, shared: int, stream: int | None, arguments: int
    ) -> int:
        if not status[0]:
            double.cuda.driver.launchKernel(
                handle, grid, 1, 1, block, 1, 1, shared, stream or 0, arguments, 0
            )
        return status[0]

    return _Launched(launch)


def launches() -> int:
    """How often the driver has been called."""
    return ctypes.c_int.in_dll(DRIVER, "launches").value


def main() -> None:
    """Each call four times: by Python, prepared, and by the dispatcher."""
    own, alloc = cupy.ndarray, cupy.cuda.alloc
    listed = {FUNCTIONS[name][0]: sys.modules[FUNCTIONS[name][0]].__pyx_capi__ for name in REAL}
    assert functions() is not None, "CuPy's C functions are not as they were"
    cupy.cuda.set_allocator(take)
    cupy.cuda.driver.launchKernel(0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)  # it looks for its library
    with fake_cupy.installed() as double:
        for module, capsules in listed.items():
            sys.modules[module].__dict__["__pyx_capi__"] = capsules
        status = [0]
        launch = launching(double, status)
        address = ctypes.cast(launch, ctypes.c_void_p).value
        ctypes.c_void_p.in_dll(DRIVER, "launch").value = address
        double.ndarray, double.cuda.alloc = own, alloc
        double.cuda.MemoryPointer, double.cuda.UnownedMemory = MemoryPointer, UnownedMemory
        assert array_fields() is not None, "CuPy's arrays lie in memory in an unknown way"
        for function, arguments in CALLS:
            fused = fuser.fuse(function, fallback="error")
            given = [on_device(each) for each in arguments]
            wanted = function(*arguments)
            for call in range(4):
                before = launches()
                found = fused(*given)
                native = launches() - before
                assert type(found) is own
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                np.testing.assert_allclose(values(found), wanted, rtol=1e-5, atol=1e-6)
                assert fused._native is None or fused._native.hits == call
                if call and wanted.flags.c_contiguous and wanted.size:
                    assert native == len(fused.explain(*given).groups)
            assert fused._native is not None or not wanted.size, arguments
            for k, each in enumerate(given):  # the same memory, seen in another way
                if isinstance(each, own) and each.ndim == 2:
                    given[k] = each.T
            wanted = function(*[values(g) if isinstance(g, own) else g for g in given])
            np.testing.assert_allclose(values(fused(*given)), wanted, rtol=1e-5, atol=1e-6)
        refused(status)


def refused(status: list[int]) -> None:
    """A launch that the driver refuses is CuPy's error; its memory comes back."""
    fused = fuser.fuse(lambda x: x.var(-1).max(), fallback="error")
    x = on_device(X)
    for _ in range(3):
        wanted = values(fused(x))
    kept, status[0] = pool.used_bytes, 701
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="CUDA_ERROR_OF_THE_TEST: said by"):
        fused(x)
    assert pool.used_bytes == kept
    status[0] = 0
    np.testing.assert_array_equal(values(fused(x)), wanted)


if __name__ == "__main__":
    main()
