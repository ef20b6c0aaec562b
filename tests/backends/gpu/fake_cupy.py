"""A double of CuPy over NumPy, for tests: kernels that are loaded are compiled and run by the host.

The whole way of a call then runs without a device: dispatch, launch plans, NVRTC's flags, modules,
packed arguments, the fallback. It refuses what CuPy refuses: NumPy arrays among its own, and
conversion to NumPy arrays by accident. It says nothing about speed, and nothing about CUDA.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.special as scipy_special

import fuser
from fuser import backend
from fuser.backend import CompileError
from fuser.backends.gpu import array_fields, c_functions, device
from fuser.backends.gpu.variants import Variant
from fuser.ir.philox import random_bits
from tests.backends.gpu.capsules import capsules
from tests.backends.gpu.fake_arrays import (
    CUDARuntimeError,
    Memory,
    check,
    current,
    enqueue,
    ndarray,
    pool,
    settle,
    state,
    under_way,
    unowned,
    unwrap,
    wrap,
)
from tests.backends.gpu.host import host_kernel, host_library, host_unit, run_kernel
from tests.requirements import find

#: What the double says it is: two devices, of which the second is older and has less.
DEVICES = (
    ("90", {"MultiProcessorCount": 1, "MaxSharedMemoryPerBlockOptin": 227 << 10}),
    ("75", {"MultiProcessorCount": 2, "MaxSharedMemoryPerBlockOptin": 64 << 10}),
)
#: Of each thread, the devices that it has a context of.
_contexts = threading.local()


def _need_context() -> None:
    """Refuse the driver's functions in a thread that has done nothing with the device yet."""
    if not getattr(_contexts, f"device{current[0]}", False):
        raise CUDADriverError("CUDA_ERROR_INVALID_CONTEXT: invalid device context")


def _have_context(_: Any = None) -> None:
    """As CuPy's own first use of a device in a thread."""
    setattr(_contexts, f"device{current[0]}", True)


class CUDADriverError(RuntimeError):
    """As cupy.cuda.driver.CUDADriverError."""


class NVRTCError(RuntimeError):
    """As cupy.cuda.nvrtc.NVRTCError."""


class Device:
    """As cupy.cuda.Device."""

    def __init__(self, number: int | None = None) -> None:
        self.id = current[0] if number is None else number
        self.compute_capability, attributes = DEVICES[self.id]
        self.attributes = dict(attributes)
        self.mem_info = (0, 0)

    def __enter__(self) -> Device:
        self._before, current[0] = current[0], self.id
        return self

    def __exit__(self, *_: Any) -> None:
        current[0] = self._before


#: More flags for the host's compiler.
checks: tuple[str, ...] = ()


class _Program:
    """A unit on its way through the compiler."""

    def __init__(self, text: str) -> None:
        self.text, self.log, self.options, self.code = text, "", (), b""


def _compile(program: Any, options: tuple[str, ...]) -> None:
    """As cupy.cuda.nvrtc.compileProgram: the flags must be those that results rest on."""
    for flag in ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"):
        if flag not in options:
            raise NVRTCError(f"{flag} is missing")
    said = dict(option[2:].split("=") for option in options if option.startswith("-D"))
    variant = Variant(said["INDEX_BITS"] == "64", said["SPLIT_ROWS"] == "1",
                      int(said["HELD_ROWS"]), said["HELD_TAIL"] == "1",
                      said["ODD_ROWS"] == "1", said["TILES"] == "1", int(said["CLUSTER"]),
                      said["AHEAD"] == "1")  # fmt: skip
    try:
        program.code = str(host_library(host_unit(program.text, variant), variant, checks)).encode()
    except CompileError as error:
        program.log = str(error)
        raise NVRTCError("NVRTC_ERROR_COMPILATION (6)") from None


class Function:
    """As cupy.cuda.function.Function."""

    def __init__(self, library: Any, name: str) -> None:
        _need_context()
        self.run, self.size_bytes = host_kernel(library, name)
        self.ptr = id(self)
        self.device, self.allowed = current[0], 48 << 10
        self.launches: list[tuple[int, int, int]] = []
        _functions[self.ptr] = self


_functions: dict[int, Function] = {}


def _known(handle: int) -> Function:
    """A function of the current device."""
    _need_context()
    found = _functions[handle]
    if found.device != current[0]:
        raise CUDADriverError("CUDA_ERROR_INVALID_HANDLE: a function of another device")
    return found


def _launch_kernel(
    handle: int, grid: int, grid_y: int, grid_z: int, block: int, block_y: int, block_z: int,
    shared: int, stream: int, arguments: int, extra: int,
) -> None:  # fmt: skip
    """As cupy.cuda.driver.launchKernel: it copies the arguments, and the kernel runs later."""
    found = _known(handle)
    if found.allowed < shared or (grid_y, grid_z, block_y, block_z) != (1,) * 4 or not grid:
        raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
    found.launches.append((grid, block, shared))
    address = ctypes.c_void_p.from_address(arguments).value
    copy = ctypes.create_string_buffer(ctypes.string_at(address, found.size_bytes))
    enqueue(lambda: run_kernel(found.run, grid, block, shared, ctypes.addressof(copy)))


def _set_attribute(handle: int, attribute: int, value: int) -> None:
    """As cupy.cuda.driver.funcSetAttribute, of a kernel's most shared memory."""
    found = _known(handle)
    if attribute != 8 or value > DEVICES[found.device][1]["MaxSharedMemoryPerBlockOptin"]:
        raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
    found.allowed = value


def _blocks_each(handle: int, block: int, shared: int) -> int:
    """As cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor: 0 where none has room."""
    return 2 if shared <= _known(handle).allowed else 0


class Module:
    """As cupy.cuda.function.Module."""

    def load(self, code: bytes) -> None:
        """The `code` is a library's path."""
        _need_context()
        self.library = ctypes.CDLL(code.decode())

    def get_function(self, name: str) -> Function:
        """A kernel by name."""
        return Function(self.library, name)


class _MemoryPool:
    """As cupy.cuda.MemoryPool: how much of it is in use."""

    @staticmethod
    def used_bytes() -> int:
        return int(pool.used_bytes)


def _alloc(size_bytes: int) -> Memory:
    """As cupy.cuda.alloc."""
    memory = pool.take(size_bytes)
    return Memory(memory.ctypes.data, current[0], memory)


class _Stream:
    """A stream: work waits until somebody looks; all streams are one."""

    def __init__(self, device: int = -1, ptr: int = 0) -> None:
        self.device_id, self.ptr = device, ptr

    def is_capturing(self) -> bool:
        return bool(state["capturing"])

    def __enter__(self) -> _Stream:
        self._before, _stream[0] = _stream[0], self
        return self

    def __exit__(self, *_: Any) -> None:
        _stream[0] = self._before

    def begin_capture(self) -> None:
        """Launches are kept from now on."""
        state.update(capturing=True, strict=True, captured=[])

    def end_capture(self) -> _Graph:
        """What was launched meanwhile."""
        state.update(capturing=False, strict=False)
        return _Graph(state["captured"])

    def synchronize(self) -> None:
        """Wait for what is under way."""
        check("synchronize")
        settle()


_stream = [_Stream()]


class _Graph:
    """As cupy.cuda.Graph: the launches, with the arguments that they had."""

    def __init__(self, launches: list[Callable[[], None]]) -> None:
        self._launches = launches

    def launch(self, stream: Any = None) -> None:
        """Enqueue them again."""
        under_way.extend(self._launches)


class Event:
    """As cupy.cuda.Event: when the host was there."""

    def __init__(self, **_: Any) -> None:
        self._left, self._of_graph = list(under_way), False

    def record(self, stream: Any = None) -> None:
        """Note the time, and what is under way; of a graph that is captured it is a node."""
        self._of_graph = bool(state["capturing"])
        self.at_s, self._left = time.perf_counter(), list(under_way)

    @property
    def done(self) -> bool:
        """Whether what was under way when it was recorded has run."""
        left = any(work is other for work in self._left for other in under_way)
        return not (self._of_graph or left)

    def synchronize(self) -> None:
        """Wait for what is under way."""
        if self._of_graph:
            raise CUDARuntimeError("cudaErrorCapturedEvent")
        check("synchronize")
        settle()


def _synchronize() -> None:
    check("synchronize")
    settle()


def _module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(contents)
    return made


#: What looks at addresses, shapes and strides alone.
_HOST_ONLY = frozenset("may_share_memory broadcast_to shape result_type".split())


class ufunc:  # noqa: N801 - CuPy's name
    """As cupy._core._kernel.ufunc: it asks an operand that CuPy does not know what to do."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self._function, self.__doc__ = name, function, function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute, or let an operand do it."""
        for value in args:
            asks = getattr(value, "__cupy_override_elementwise_kernel__", None)
            if asks is not None:
                found = asks(self, *args, **kwargs)
                if found is not NotImplemented:
                    return found
                raise TypeError(f"Unsupported type {value.__class__}")
        found = self._function(*unwrap(args), **unwrap(kwargs))
        return kwargs["out"] if kwargs.get("out") is not None else wrap(found)

    def __repr__(self) -> str:
        return f"<ufunc {self.name!r}>"


ufunc.__module__ = "cupy._core._kernel"
#: The double's machine code is a file of this process.
_PROCESS = int.from_bytes(os.urandom(6), "little")
#: What CuPy has of NumPy's names that are neither functions nor its own.
_PLAIN = frozenset(
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128 pi e inf nan newaxis dtype".split()
)


def _functions_of(module: Any, prefix: str = "cupy") -> dict[str, Any]:
    """A module's functions as CuPy has them, each an object that stays."""
    found: dict[str, Any] = {}
    made: dict[Any, ufunc] = {}  # some have several names
    for name in dir(module):
        own = getattr(module, name)
        if name in _PLAIN:
            found[name] = own
        elif isinstance(own, np.ufunc):
            kernel = ufunc(f"{prefix}_{own.__name__}", own)
            found[name] = made.setdefault(own, kernel)
        elif callable(own) and not isinstance(own, type) and not name.startswith("_"):
            found[name] = _array_function(name, own)
    return found


def _array_function(name: str, own: Any) -> Callable[..., Any]:
    """A NumPy function on the double's arrays; a method of them does it for what is none."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is not ndarray and hasattr(type(args[0]), "tracing"):
            return getattr(args[0], name)(*args[1:], **kwargs)
        if name not in _HOST_ONLY:
            check(name)
        return wrap(own(*unwrap(args), **unwrap(kwargs)))

    function.__name__, function.__module__ = name, "cupy._core.core"
    return function


class _RandomState:
    """As cupy.random.RandomState: numbers of a stream, and how many of it are drawn."""

    def __init__(self, seed: int = 0) -> None:
        self._seed, self._at = seed, 0

    def random_sample(self, size: Any = None, dtype: Any = float) -> Any:
        shape = () if size is None else size if isinstance(size, tuple) else (size,)
        count = int(np.prod(shape, dtype=int))
        self._at += count
        places = np.arange(self._at - count, self._at, dtype=np.uint64)
        found = random_bits(places, np.full(count, self._seed, np.uint64)) / 2.0**32
        return wrap(found.reshape(shape).astype(dtype))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = float) -> Any:
        found = scipy_special.ndtri(self.random_sample(size)._host) * scale + loc
        return wrap(np.asarray(found, dtype))

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        begin, end = (0, low) if high is None else (low, high)
        found = np.floor(self.random_sample(size)._host * (end - begin)) + begin
        return wrap(np.asarray(found, dtype))

    def rand(self, *size: int, dtype: Any = float) -> Any:
        return self.random_sample(size, dtype)


def _random() -> ModuleType:
    """As cupy.random: functions of one generator."""
    made = _module("cupy.random", RandomState=_RandomState)
    states = [_RandomState(1)]

    def drawing(name: str) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return getattr(states[0], name)(*args, **kwargs)

        function.__name__, function.__module__ = name, "cupy.random._sample"
        return function

    for name in ("random_sample", "normal", "randint", "rand"):
        setattr(made, name, drawing(name))
    made.random = made.random_sample

    def seed(number: int) -> None:
        states[0] = _RandomState(number)

    made.seed = seed
    return made


def _asarray(value: Any, *args: Any, **kwargs: Any) -> Any:
    """As cupy.asarray: NumPy arrays are copied to the device."""
    if isinstance(value, ndarray) and not args and not kwargs:
        return value
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None and not isinstance(value, ndarray):
        return wrap(value.array._host[...])  # the memory is shared
    check("a copy to the device")
    host = value._host if isinstance(value, ndarray) else np.array(value)
    return wrap(np.asarray(host, *args, **kwargs))


def _from_dlpack(value: Any) -> Any:
    """As cupy.from_dlpack: the memory is shared."""
    return value.__dlpack__()


def modules() -> dict[str, ModuleType]:
    """Everything that can be imported."""
    runtime = _module(
        "cupy.cuda.runtime", getDevice=lambda: current[0], getDeviceCount=lambda: len(DEVICES),
        CUDARuntimeError=CUDARuntimeError, deviceSynchronize=_synchronize,
        memGetInfo=_have_context, streamIsCapturing=lambda stream: bool(state["capturing"]),
    )  # fmt: skip
    nvrtc = _module(
        "cupy.cuda.nvrtc", NVRTCError=NVRTCError, getVersion=lambda: (13, _PROCESS),
        getSupportedArchs=lambda: [75, 80, 90, 100],
        createProgram=lambda text, name, headers, names: _Program(text), compileProgram=_compile,
        getCUBIN=lambda program: program.code, getPTX=lambda program: b".entry",
        getProgramLog=lambda program: program.log, destroyProgram=lambda program: None,
    )  # fmt: skip
    driver = _module(
        "cupy.cuda.driver",
        occupancyMaxActiveBlocksPerMultiprocessor=_blocks_each, launchKernel=_launch_kernel,
        ctxGetCurrent=lambda: int(getattr(_contexts, f"device{current[0]}", False)),
        funcSetAttribute=_set_attribute, CUDADriverError=CUDADriverError,
    )
    function = _module("cupy.cuda.function", Module=Module, Function=Function)
    cuda = _module(
        "cupy.cuda", runtime=runtime, nvrtc=nvrtc, driver=driver, function=function, Device=Device,
        alloc=_alloc, get_current_stream=lambda device=-1: _stream[0],
        Event=Event, Stream=lambda **_: _Stream(ptr=len(_functions) + 1),
        set_allocator=lambda allocator: None,
        UnownedMemory=unowned, MemoryPointer=lambda memory, offset: memory + offset,
        get_elapsed_time=lambda first, last: 1e3 * (last.at_s - first.at_s),
    )  # fmt: skip
    linalg = _module("cupy.linalg", **_functions_of(np.linalg))
    special = _module(
        "cupyx.scipy.special", **_functions_of(scipy_special, "cupyx_scipy_special"),
    )  # fmt: skip
    random = _random()
    contents = _functions_of(np) | {
        "cuda": cuda, "linalg": linalg, "random": random, "ndarray": ndarray,
        "get_default_memory_pool": lambda: _MemoryPool,
        "asarray": _asarray, "array": _asarray, "from_dlpack": _from_dlpack,
        "asnumpy": lambda value: value.get() if isinstance(value, ndarray) else np.asarray(value),
        "get_array_module": lambda *arrays: cupy if any(type(a) is ndarray for a in arrays) else np,
    }
    cupy = _module("cupy", **contents, __version__="double")
    scipy = _module("cupyx.scipy", special=special)
    cupyx = _module("cupyx", scipy=scipy)
    every = (cupy, cuda, runtime, nvrtc, driver, function, linalg, random, cupyx, scipy, special)
    return {part.__name__: part for part in every} | _extensions(cuda)


def _extensions(cuda: Any) -> dict[str, ModuleType]:
    """CuPy's extension modules, as far as they list C functions: those call the double's."""
    listed = capsules({
        "current": lambda: cuda.runtime.getDevice(),
        "stream": lambda: cuda.get_current_stream().ptr,
        "capturing": lambda stream: cuda.runtime.streamIsCapturing(stream),
        "alloc": lambda size: cuda.alloc(size),
        "new": lambda kind, shape, dtype: kind(shape, dtype),
        "context": _have_context,
        "launch": lambda *given: cuda.driver.launchKernel(*given),
    })  # fmt: skip
    return {name: _module(name, __pyx_capi__=functions) for name, functions in listed.items()}


@contextmanager
def installed() -> Iterator[ModuleType]:
    """Let `import cupy` find the double."""
    made = modules()
    with put_back():
        sys.modules.update(made)
        yield made["cupy"]


@contextmanager
def put_back() -> Iterator[None]:
    """Have no CuPy imported, and afterwards what was imported before."""
    before = _imported()
    _replace({})
    try:
        yield
    finally:
        _replace(before)


def _imported() -> dict[str, ModuleType]:
    """CuPy's modules, by name."""
    return {name: found for name, found in sys.modules.items()
            if name.split(".")[0] in ("cupy", "cupyx", "cupy_backends")}  # fmt: skip


def _replace(those: dict[str, ModuleType]) -> None:
    """Have just those of CuPy's modules."""
    for name in _imported():
        del sys.modules[name]
    sys.modules.update(those)
    _forget()


def _forget() -> None:
    """Ask again which backends there are; no kernel of one CuPy is for another."""
    device._resources.cache_clear()
    c_functions.functions.cache_clear()
    array_fields.array_fields.cache_clear()
    under_way.clear()
    backend._missing.pop("gpu", None)
    backend._instances.pop("gpu", None)
    fuser.clear_caches()


def reason_to_skip() -> str | None:
    """The double needs a C++ compiler."""
    return None if find("cxx") else "no C++ compiler on the PATH: apt install g++"


def for_a_file() -> Any:
    """A fixture for a file of tests: the double is installed for as long as they run."""

    @pytest.fixture(scope="module", autouse=True)
    def cupy() -> Iterator[Any]:
        if reason := reason_to_skip():
            pytest.skip(reason)
        before = pool.written_beyond
        with installed() as double:
            yield double
        assert pool.written_beyond == before, "something was written beyond an array's end"

    return cupy
