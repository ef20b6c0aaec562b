"""A double of CuPy over NumPy, for tests: kernels that are loaded are compiled and run by the host.

The whole way of a call then runs without a device: dispatch, launch plans, NVRTC's flags, modules,
packed arguments, the fallback. It refuses what CuPy refuses: NumPy arrays among its own, and
conversion to NumPy arrays by accident. It says nothing about speed, and nothing about CUDA.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.backend import CompileError
from fuser.backends.gpu import device
from fuser.backends.gpu.arguments import Arguments
from fuser.backends.gpu.variants import Variant
from tests.backends.gpu.fake_arrays import (
    CUDARuntimeError,
    Memory,
    check,
    current,
    ndarray,
    state,
    unwrap,
    wrap,
)
from tests.backends.gpu.host import host_library, host_unit
from tests.requirements import find

#: What the double says it is: two devices of compute capability 9.0.
ATTRIBUTES = {"MultiProcessorCount": 1, "MaxSharedMemoryPerBlockOptin": 227 << 10}
DEVICES = 2
class NVRTCError(RuntimeError):
    """As cupy.cuda.nvrtc.NVRTCError."""


class Device:
    """As cupy.cuda.Device."""

    def __init__(self, number: int | None = None) -> None:
        self.id = current[0] if number is None else number
        self.compute_capability = "90"
        self.attributes = dict(ATTRIBUTES)
        self.mem_info = (0, 0)

    def __enter__(self) -> Device:
        self._before, current[0] = current[0], self.id
        return self

    def __exit__(self, *_: Any) -> None:
        current[0] = self._before


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
                      int(said["HELD_ROWS"]), said["HELD_TAIL"] == "1")  # fmt: skip
    try:
        program.code = str(host_library(host_unit(program.text, variant), variant)).encode()
    except CompileError as error:
        program.log = str(error)
        raise NVRTCError("NVRTC_ERROR_COMPILATION (6)") from None


class Function:
    """As cupy.cuda.function.Function."""

    def __init__(self, library: Any, name: str) -> None:
        self.run = getattr(library, f"run_{name}")
        self.run.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p]
        self.ptr = id(self)
        self.launches: list[tuple[int, int, int]] = []
        _functions[self.ptr] = self



def _launch_kernel(
    handle: int, grid: int, grid_y: int, grid_z: int, block: int, block_y: int, block_z: int,
    shared: int, stream: int, arguments: int, extra: int,
) -> None:  # fmt: skip
    """As cupy.cuda.driver.launchKernel: run it now."""
    if not state["context"]:
        raise CUDARuntimeError("CUDA_ERROR_INVALID_CONTEXT")
    found = _functions[handle]
    if _allowed.get(handle, 48 << 10) < shared or (grid_y, grid_z, block_y, block_z) != (1,) * 4:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    found.launches.append((grid, block, shared))
    address = ctypes.c_void_p.from_address(arguments).value
    if state["capturing"]:  # the driver copies arguments
        copy = ctypes.create_string_buffer(ctypes.string_at(address, _sizes[arguments]))
        state.setdefault("captured", []).append((found, grid, block, copy))
    _launcher[0](found, grid, block, address)


#: Bytes of each block of arguments, by where the driver is told of it.
_sizes: dict[int, int] = {}


def _noted(self: Arguments, block: bytes) -> None:
    """Keep a block's size, which the driver knows from the kernel."""
    _make_arguments(self, block)
    _sizes[self.list_address] = len(block)


_make_arguments = Arguments.__init__

#: What runs a kernel; a test of what a call costs puts another one here.
_launcher: list[Callable[..., None]] = [
    lambda found, grid, block, address: found.run(grid, block, address)
]


_functions: dict[int, Function] = {}
_allowed: dict[int, int] = {}


class Module:
    """As cupy.cuda.function.Module."""

    def load(self, code: bytes) -> None:
        """The `code` is a library's path."""
        self.library = ctypes.CDLL(code.decode())

    def get_function(self, name: str) -> Function:
        """A kernel by name."""
        return Function(self.library, name)


def _alloc(size_bytes: int) -> Memory:
    """As cupy.cuda.alloc; what is read before it is written is NaN."""
    memory = np.full(size_bytes + 16, 0xFF, np.uint8)
    return Memory(-(-memory.ctypes.data // 16) * 16, current[0], memory)


class _Stream:
    """The current stream: work is done at once."""

    ptr = 0

    def __init__(self, device: int = -1) -> None:
        self.device_id = device

    def is_capturing(self) -> bool:
        return bool(state["capturing"])

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing is under way."""

    def begin_capture(self) -> None:
        """Launches are kept from now on."""
        state.update(capturing=True, strict=True, captured=[])

    def end_capture(self) -> _Graph:
        """What was launched meanwhile."""
        state.update(capturing=False, strict=False)
        return _Graph(state["captured"])

    def synchronize(self) -> None:
        """Nothing is under way."""
        check("synchronize")


class _Graph:
    """As cupy.cuda.Graph, while the blocks of its launches are as they were."""

    def __init__(self, launches: list[Any]) -> None:
        self._launches = launches

    def launch(self, stream: Any = None) -> None:
        """Run them again."""
        for launch in self._launches:
            found, grid, block, copy = launch
            _launcher[0](found, grid, block, ctypes.addressof(copy))


class Event:
    """As cupy.cuda.Event: when the host was there."""

    def record(self) -> None:
        """Note the time."""
        self.at_s = time.perf_counter()

    def synchronize(self) -> None:
        """Nothing is under way."""
        check("synchronize")


def _module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(contents)
    return made


#: What looks at addresses, shapes and strides alone.
_HOST_ONLY = frozenset("may_share_memory broadcast_to shape result_type".split())


def _array_function(name: str) -> Callable[..., Any]:
    """A NumPy function on the double's arrays."""
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(np, name)
    if isinstance(found, type) or not callable(found):
        return found  # type: ignore[no-any-return] # a dtype or a constant

    def function(*args: Any, **kwargs: Any) -> Any:
        if name not in _HOST_ONLY:
            check(name)
        return wrap(found(*unwrap(args), **unwrap(kwargs)))

    return function


def _asarray(value: Any, *args: Any, **kwargs: Any) -> Any:
    """As cupy.asarray: NumPy arrays are copied to the device."""
    if isinstance(value, ndarray) and not args and not kwargs:
        return value
    check("a copy to the device")
    host = value._host if isinstance(value, ndarray) else np.array(value)
    return wrap(np.asarray(host, *args, **kwargs))


def _from_dlpack(value: Any) -> Any:
    """As cupy.from_dlpack: the memory is shared."""
    return value.__dlpack__()


def _modules() -> dict[str, ModuleType]:
    """Everything that can be imported."""
    runtime = _module(
        "cupy.cuda.runtime", getDevice=lambda: current[0], getDeviceCount=lambda: DEVICES,
        CUDARuntimeError=CUDARuntimeError, deviceSynchronize=lambda: check("synchronize"),
        memGetInfo=lambda: state.update(context=1),
    )  # fmt: skip
    nvrtc = _module(
        "cupy.cuda.nvrtc", NVRTCError=NVRTCError, getVersion=lambda: (13, 0),
        getSupportedArchs=lambda: [75, 80, 90, 100],
        createProgram=lambda text, name, headers, names: _Program(text), compileProgram=_compile,
        getCUBIN=lambda program: program.code, getPTX=lambda program: b".entry",
        getProgramLog=lambda program: program.log, destroyProgram=lambda program: None,
    )  # fmt: skip
    driver = _module(
        "cupy.cuda.driver",
        occupancyMaxActiveBlocksPerMultiprocessor=lambda function, block, shared: 2,
        launchKernel=_launch_kernel, ctxGetCurrent=lambda: state["context"],
        funcSetAttribute=lambda function, attribute, value: _allowed.update({function: value}),
    )
    function = _module("cupy.cuda.function", Module=Module, Function=Function)
    cuda = _module(
        "cupy.cuda", runtime=runtime, nvrtc=nvrtc, driver=driver, function=function, Device=Device,
        alloc=_alloc, get_current_stream=_Stream, Event=Event,
        Stream=lambda **_: _Stream(), set_allocator=lambda allocator: None,
        get_elapsed_time=lambda first, last: 1e3 * (last.at_s - first.at_s),
    )  # fmt: skip
    cupy = _module(
        "cupy", cuda=cuda, ndarray=ndarray, asarray=_asarray, array=_asarray,
        asnumpy=lambda value: value.get() if isinstance(value, ndarray) else np.asarray(value),
        from_dlpack=_from_dlpack, __getattr__=_array_function, __version__="double",
    )  # fmt: skip
    return {part.__name__: part for part in (cupy, cuda, runtime, nvrtc, driver, function)}


@contextmanager
def installed() -> Iterator[ModuleType]:
    """Let `import cupy` find the double."""
    before = {name: found for name, found in sys.modules.items() if name.split(".")[0] == "cupy"}
    made = _modules()
    for name in before:
        del sys.modules[name]
    sys.modules.update(made)
    _forget()
    Arguments.__init__ = _noted  # type: ignore[method-assign]
    try:
        yield made["cupy"]
    finally:
        Arguments.__init__ = _make_arguments  # type: ignore[method-assign]
        for name in made:
            sys.modules.pop(name, None)
        sys.modules.update(before)
        _forget()


def _forget() -> None:
    """Ask again which backends there are; no kernel of one CuPy is for another."""
    device._resources.cache_clear()
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
        with installed() as double:
            yield double

    return cupy
