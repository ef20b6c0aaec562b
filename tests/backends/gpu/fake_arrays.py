"""The double's arrays: NumPy arrays that nobody else sees, with what CuPy's have and no more."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.backends.gpu.laid_out import LaidOut, LaidOutPointer, lay_out, lay_out_pointer

#: The current device's number.
current = [0]
#: What tests change: whether work is being captured; whether anything but launches and the pool is
#: an error meanwhile.
state: dict[str, Any] = {"capturing": False, "strict": False}
#: Work that was enqueued and has not run yet: it runs when its results are looked at.
under_way: list[Callable[[], None]] = []


def settle() -> None:
    """Run what is under way, in its order."""
    while under_way:
        under_way.pop(0)()


def enqueue(work: Callable[[], None]) -> None:
    """Add work to the current stream, or to the graph that it becomes."""
    (state["captured"] if state["capturing"] else under_way).append(work)


class Pool:
    """Memory as CuPy's pool gives it: what was given back goes out again at once, the last first.

    New memory, and memory that comes again, is full of NaN; so is what lies behind a piece, and is
    found so when the piece comes back, unless something has written there.
    """

    def __init__(self) -> None:
        self.free: dict[int, list[Any]] = {}
        self.taken = self.used_bytes = 0
        self.written_beyond = 0

    def take(self, size_bytes: int) -> Any:
        """Memory as an array of bytes; it comes back when nothing refers to it any more."""
        size = max(512, -(-size_bytes // 512) * 512)
        waiting = self.free.setdefault(size, [])
        raw = waiting.pop() if waiting else _aligned(size)
        settle()  # what is under way may still use it
        raw[:] = 0xFF
        self.taken += 1
        self.used_bytes += size_bytes
        return np.asarray(_Lent(self, raw, size_bytes))


def _aligned(size: int) -> Any:
    """Memory that begins at a multiple of 512."""
    memory = np.empty(size + 512, np.uint8)
    begin = -memory.ctypes.data % 512
    return memory[begin : begin + size]


class _Lent:
    """Memory of the pool that is in use."""

    def __init__(self, pool: Pool, raw: Any, size_bytes: int) -> None:
        self._pool, self._raw, self._size_bytes = pool, raw, size_bytes
        self.__array_interface__ = raw.__array_interface__

    def __del__(self) -> None:
        if self._pool is not None:
            self._pool.used_bytes -= self._size_bytes
            self._pool.written_beyond += bool((self._raw[self._size_bytes :] != 0xFF).any())
            self._pool.free.setdefault(len(self._raw), []).append(self._raw)


pool = Pool()


def pooled(array: Any) -> Any:
    """A copy of an array in memory of the pool, in its own order."""
    strides = np.empty_like(array).strides
    made: Any = np.ndarray(array.shape, array.dtype, pool.take(array.nbytes), 0, strides)
    made[...] = array
    return made


def check(what: str) -> None:
    """Refuse what a CUDA graph cannot capture."""
    if state["strict"]:
        raise CUDARuntimeError(f"cudaErrorStreamCaptureUnsupported: {what}")


def unowned(ptr: int, size: int, owner: Any, device_id: int) -> Memory:
    """As cupy.cuda.UnownedMemory."""
    return Memory(ptr, device_id, np.empty(0, np.uint8))


class CUDARuntimeError(RuntimeError):
    """As cupy.cuda.runtime.CUDARuntimeError."""


class Memory(LaidOutPointer):  # type: ignore[misc]
    """Where an array begins, and on which device."""

    def __init__(self, ptr: int, device_id: int, owner: Any) -> None:
        self.ptr, self.device_id, self.owner = ptr, device_id, owner
        lay_out_pointer(self, ptr, device_id)
        self.mem = SimpleNamespace(size=owner.nbytes)

    def memset_async(self, value: int, size: int) -> None:
        """On the current stream."""
        owner = self.owner
        enqueue(lambda: owner.__setitem__(slice(0, size), value))

    def __add__(self, offset: int) -> Memory:
        return Memory(self.ptr + offset, self.device_id, self.owner)


#: What CuPy's arrays have (CuPy 14), beyond what is written out here.
_ATTRIBUTES = frozenset(
    "all any argmax argmin argpartition argsort astype byteswap choose clip compress conj "
    "conjugate copy cumprod cumsum diagonal dot dtype fill flatten imag item itemsize max mean "
    "min nbytes ndim nonzero partition prod ptp put ravel real repeat reshape round searchsorted "
    "shape size sort squeeze std strides sum swapaxes take tobytes tolist trace transpose var "
    "view".split()
)


#: What is known of an array whatever is under way.
_OF_THE_LAYOUT = frozenset("dtype itemsize nbytes ndim shape size strides".split())


#: What gives another view of the memory.
_VIEWS = frozenset("squeeze swapaxes transpose view".split())


class Flags:
    """As cupy.ndarray.flags: nothing says whether an array may be written into."""

    def __init__(self, host: Any) -> None:
        self.c_contiguous, self.f_contiguous = host.c_contiguous, host.f_contiguous
        self.owndata = host.owndata
        self.fnc, self.forc = host.fnc, host.forc


class ndarray(np.lib.mixins.NDArrayOperatorsMixin, LaidOut):  # type: ignore[misc] # noqa: N801
    """An array of the double: a NumPy array that nobody else sees."""

    __array_priority__ = 100

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None
    ) -> None:
        if memptr is None:
            length = shape if isinstance(shape, tuple) else (shape,)
            size = int(np.prod(length, dtype=np.int64)) * np.dtype(dtype).itemsize
            self._memory = np.ndarray(length, dtype, pool.take(size))
            return
        kind = np.dtype(dtype)
        steps = strides or np.empty(shape, kind).strides
        interface = {
            "data": (memptr.ptr, False), "shape": tuple(shape), "strides": steps,
            "typestr": kind.str, "version": 3,
        }  # fmt: skip
        holder = type("Holder", (), {"__array_interface__": interface})()
        holder.owner = memptr.owner
        self._elements = np.asarray(holder)
        self._point(memptr.device_id)

    @property
    def _memory(self) -> Any:
        """Its elements, with work under way."""
        return self._elements

    @_memory.setter
    def _memory(self, elements: Any) -> None:
        self._elements = elements
        self._point(current[0])

    def _point(self, device: int) -> None:
        """Say where the elements are."""
        own = self._elements
        self.data = Memory(own.ctypes.data, device, own)
        lay_out(self, own.dtype, own.shape, own.strides, self.data)

    @property
    def device_id(self) -> int:
        """Which device has it."""
        return int(self.data.device_id)

    @property
    def _host(self) -> Any:
        """Its elements, once what is under way is done."""
        settle()
        return self._memory

    @property
    def flags(self) -> Flags:
        """Of its memory's order."""
        return Flags(self._memory.flags)

    @property
    def base(self) -> Any:
        """The array that this one is a view of."""
        base = self._memory.base
        own = not isinstance(base, np.ndarray) or base.dtype == np.uint8
        return None if own else wrap(base)

    @property
    def T(self) -> Any:
        """The transpose."""
        return wrap(self._memory.T)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._memory.__array_interface__, "version": 3}

    def get(self) -> Any:
        """A copy in the host's memory."""
        check("a copy to the host")
        return self._host.copy()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(getattr(value, "__array_priority__", 0) > 100 for value in inputs):
            return NotImplemented
        out = options.get("out")
        found = getattr(ufunc, method)(*map(unwrap, inputs), **unwrap(options))
        return out[0] if isinstance(out, tuple) and len(out) == 1 else wrap(found)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return wrap(function(*unwrap(args), **unwrap(kwargs)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and not key:  # CuPy has no scalars: the same memory
            return wrap(self._memory.view())
        found = self._memory[unwrap(key)]
        if not isinstance(found, np.ndarray):  # one element: a view of no axes
            found = self._memory[(*(key if isinstance(key, tuple) else (key,)), ...)]
        return wrap(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[unwrap(key)] = unwrap(value)

    def __getattr__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            raise AttributeError(f"'ndarray' object has no attribute {name!r}")
        if name in _OF_THE_LAYOUT:
            return getattr(self._memory, name)
        if name == "fill":  # a kernel, or a memset
            memory = self._memory
            return lambda value: enqueue(lambda: memory.fill(value))
        if name in _VIEWS:
            return lambda *args, **kwargs: wrap(getattr(self._memory, name)(*args, **kwargs))
        found = getattr(self._host, name)
        if not callable(found):
            return found
        if name in ("tolist", "item"):
            return found

        def method(*args: Any, **kwargs: Any) -> Any:
            return wrap(found(*unwrap(args), **unwrap(kwargs)))

        return method

    def __len__(self) -> int:
        return len(self._memory)

    def __bool__(self) -> bool:
        check("a copy to the host")
        return bool(self._host)

    def __int__(self) -> int:
        check("a copy to the host")
        return int(self._host)

    def __float__(self) -> float:
        check("a copy to the host")
        return float(self._host)

    def __repr__(self) -> str:
        return repr(self._host)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'ndarray'")


ndarray.__module__ = "cupy"


def wrap(value: Any) -> Any:
    """NumPy arrays and scalars as the double's arrays: CuPy has no scalars of its own."""
    if isinstance(value, tuple):
        return tuple(map(wrap, value))
    if isinstance(value, list):
        return list(map(wrap, value))
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    array = ndarray.__new__(ndarray)
    host = np.asarray(value)
    array._memory = pooled(host) if host.flags.owndata else host
    return array


def unwrap(value: Any) -> Any:
    """The double's arrays as NumPy's; NumPy's own arrays are refused, as CuPy does."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (tuple, list)):
        return type(value)(map(unwrap, value))
    if isinstance(value, dict):
        return {key: unwrap(entry) for key, entry in value.items()}
    return value
