"""CuPy's own arrays on memory of the host, beside the double's driver: run by a test of its own.

CuPy makes arrays over memory that somebody else owns without looking at it, and takes an allocator
that is a Python function; so its arrays, pointers and flags are the real ones here. Kernels run on
the host. Ends with 77 where CuPy is not installed.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))
import fuser
from fuser.backends.gpu.array_fields import array_fields
from tests.backends.gpu import fake_cupy
from tests.backends.gpu.fake_arrays import pool, settle

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


def main() -> None:
    """Each call three times: by Python, prepared, and by the dispatcher."""
    own, alloc = cupy.ndarray, cupy.cuda.alloc
    cupy.cuda.set_allocator(take)
    with fake_cupy.installed() as double:
        double.ndarray, double.cuda.alloc = own, alloc
        double.cuda.MemoryPointer, double.cuda.UnownedMemory = MemoryPointer, UnownedMemory
        assert array_fields() is not None, "CuPy's arrays lie in memory in an unknown way"
        for function, arguments in CALLS:
            fused = fuser.fuse(function, fallback="error")
            given = [on_device(each) for each in arguments]
            wanted = function(*arguments)
            for call in range(4):
                found = fused(*given)
                assert type(found) is own
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                np.testing.assert_allclose(values(found), wanted, rtol=1e-5, atol=1e-6)
                assert fused._native is None or fused._native.hits == call
            assert fused._native is not None or not wanted.size, arguments
            for k, each in enumerate(given):  # the same memory, seen in another way
                if isinstance(each, own) and each.ndim == 2:
                    given[k] = each.T
            wanted = function(*[values(g) if isinstance(g, own) else g for g in given])
            np.testing.assert_allclose(values(fused(*given)), wanted, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    main()
