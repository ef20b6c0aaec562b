"""The current CUDA device, as far as kernels need one: compile, load, launch.

Everything that talks to CuPy about kernels is here, so that a test can execute the same launches
on the host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.backends.gpu import nvrtc
from fuser.backends.gpu.arguments import Arguments, Function
from fuser.backends.gpu.geometry import Resources
from fuser.backends.gpu.variants import Variant
from fuser.base import forks
from fuser.base.caches import memo

#: Shared memory that every kernel may have without asking.
_SHARED_FREE = 48 * 1024
#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the CUDA driver API.
_MAX_DYNAMIC_SHARED = 8


class _Zeros(threading.local):
    """A thread's counters, by device and stream: how many, where, and what keeps them."""

    def __init__(self) -> None:
        """None yet."""
        self.kept: dict[tuple[int, int], tuple[int, int, Any]] = {}


class CudaDevice:
    """CUDA through CuPy: its current device, stream and memory pool."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self._captured: list[Any] = []
        self._zeros = _Zeros()
        self._adopted: list[tuple[Any, Sequence[Any]]] = []
        self._current: Callable[[], int] | None = None
        self._current_stream: Callable[[int], Any] | None = None

    def number(self) -> int:
        """Which device is current."""
        if self._current is None:
            from cupy.cuda import runtime

            self._current = runtime.getDevice
        return self._current()

    def stream(self, number: int) -> int:
        """CuPy's current stream on the current device, whose number is given."""
        if self._current_stream is None:
            import cupy

            self._current_stream = cupy.cuda.get_current_stream
        found: int = self._current_stream(number).ptr
        return found

    def is_capturing(self, stream: int) -> bool:
        """Whether a stream's work becomes a CUDA graph; that of the default stream cannot."""
        from cupy.cuda import runtime

        return stream != 0 and bool(runtime.streamIsCapturing(stream))

    def calls(self) -> dict[str, Any]:
        """What a generated line calls, by the names that it has for them."""
        import cupy
        from cupy.cuda import driver, runtime

        return {
            "current": runtime.getDevice, "stream_of": cupy.cuda.get_current_stream,
            "alloc": cupy.cuda.alloc, "is_capturing": runtime.streamIsCapturing,
            "captured": self._captured.append, "launch": driver.launchKernel,
            "again": in_new_context,
        }  # fmt: skip

    def capability(self) -> str:
        """The current device's compute capability, such as "90"."""
        import cupy

        return str(cupy.cuda.Device().compute_capability)

    def resources(self) -> Resources:
        """What the current device has."""
        return _resources(self.number())

    def load(self, text: str, name: str, variant: Variant) -> Any:
        """Compile one variant of a unit for the current device and load it.

        Raises:
            CompileError: NVRTC refused.
        """
        from cupy.cuda import function

        code = nvrtc.compile_text(text, name, self.capability(), variant)
        module = function.Module()
        _in_context(module.load, code)
        return module

    def function(self, module: Any, name: str) -> Function:
        """A kernel of a loaded unit; called, it is enqueued."""
        return CudaFunction(_in_context(module.get_function, name))

    def blocks_each(self, function: Any, block: int, shared: int) -> int:
        """How many blocks of a kernel a multiprocessor runs at once; lets it have the memory."""
        from cupy.cuda import driver

        if shared > function.allowed:  # never less than another plan has been promised
            _in_context(driver.funcSetAttribute, function.handle, _MAX_DYNAMIC_SHARED, shared)
            function.allowed = shared
        ask = driver.occupancyMaxActiveBlocksPerMultiprocessor
        return int(_in_context(ask, function.handle, block, shared))

    def flag(self) -> tuple[int, Callable[[], int]]:
        """A zero in the device's memory: its address, and how to read it once kernels are done."""
        import cupy

        cell = cupy.zeros(1, np.int32)
        return int(cell.data.ptr), lambda: int(cell[0])

    def scratch(self, size_bytes: int, stream: int) -> tuple[int, Any]:
        """Memory from CuPy's pool: its address, and what keeps it until the launches are made.

        The pool gives it to later work of the same stream alone. A graph that is being captured
        will run again, so its memory is kept until `forget_captured`.
        """
        import cupy

        memory = cupy.cuda.alloc(size_bytes)
        if self.is_capturing(stream):
            self._captured.append(memory)
        return int(memory.ptr), memory

    def counters(self, count: int, stream: int, number: int) -> int:
        """The address of zeros, in which a launch counts its blocks; kernels leave zeros behind.

        Kernels of one stream and thread run one after another, and take the same ones. (A thread's
        own default stream has the number of any other's.) A graph that is captured has its own, and
        zeroes them itself.
        """
        capturing = self.is_capturing(stream)
        found = self._zeros.kept.get((number, stream))
        if found is not None and found[0] >= count and not capturing:
            return found[1]
        import cupy

        known = max(count, 1024)
        memory = cupy.cuda.alloc(4 * known)
        memory.memset_async(0, 4 * known)
        if capturing:
            self._captured.append(memory)
        else:
            self._zeros.kept[number, stream] = known, int(memory.ptr), memory
        return int(memory.ptr)

    def forget_captured(self) -> int:
        """Give back what captured graphs work in, which must not run again; bytes of it."""
        size = sum(int(memory.mem.size) for memory in self._captured)
        self._captured.clear()
        return size

    def hold(self, arrays: Sequence[Any], stream: int | None = None) -> None:
        """Keep arrays whose memory is another library's until what is enqueued has run.

        That library may use the memory for something else as soon as nobody holds it, on a stream
        that knows nothing of this one. What is done is let go when others come.
        In a CUDA graph that is captured they are the caller's to keep, as all other arrays.
        """
        from cupy.cuda import Event

        if self.is_capturing(self.stream(self.number()) if stream is None else stream):
            return  # an event of a graph tells nothing outside of it
        with _adopting:
            while self._adopted and (
                self._adopted[0][0].done or len(self._adopted) >= _MOST_ADOPTED
            ):
                event, _ = self._adopted.pop(0)
                event.synchronize()
            event = Event(disable_timing=True)
            event.record()
            self._adopted.append((event, arrays))

    def scalar(self, value: np.generic) -> Any:
        """An array of no axes on the device, of the value's bits, which a kernel writes.

        A copy from the host's memory would wait, and could not be captured in a CUDA graph.
        """
        import cupy

        size = value.dtype.itemsize
        word = np.dtype(f"u{min(size, 8)}")
        cells = cupy.ndarray((size // word.itemsize,), word)
        for place, bits in enumerate(np.frombuffer(value.tobytes(), word).tolist()):
            cells[place : place + 1].fill(bits)
        return cells.view(value.dtype)[0]

    def ptx(self, text: str, name: str) -> str:
        """A unit as text of NVIDIA's virtual machine."""
        return nvrtc.ptx(text, name, self.capability())


class CudaFunction:
    """A kernel that is called through the driver's own function.

    Attributes:
        handle: the driver's.
        allowed: bytes of shared memory that a launch may ask for.
    """

    __slots__ = ("_kept", "_launch", "allowed", "handle")

    def __init__(self, found: Any) -> None:
        """Take CuPy's function, which keeps the loaded unit."""
        from cupy.cuda import driver

        self._kept, self._launch, self.handle = found, driver.launchKernel, int(found.ptr)
        self.allowed = _SHARED_FREE

    def __call__(
        self, grid: int, block: int, shared: int, stream: int, arguments: Arguments
    ) -> None:
        """Enqueue it on a stream."""
        at = arguments.list_address
        _in_context(
            self._launch, self.handle, grid, 1, 1, block, 1, 1, shared, stream, at, 0
        )


def _in_context(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the driver; a thread that has done nothing with CUDA yet gets its context first."""
    try:
        return function(*arguments)
    except RuntimeError:
        return in_new_context(function, *arguments)


def in_new_context(function: Callable[..., Any], *arguments: Any) -> Any:
    """While an error of the driver is handled: call again with a context, or raise the error."""
    from cupy.cuda import driver, runtime

    if driver.ctxGetCurrent():
        raise
    runtime.memGetInfo()  # as CuPy itself makes one
    return function(*arguments)


#: Calls whose adopted arrays are kept at most: beyond, the oldest is waited for.
_MOST_ADOPTED = 64
_adopting = forks.lock()


@memo(64)
def _resources(number: int) -> Resources:
    """What a device has."""
    import cupy

    device = cupy.cuda.Device(number)
    found, clusters = device.attributes, int(device.compute_capability) >= 90
    return Resources(
        found["MultiProcessorCount"], found["MaxSharedMemoryPerBlockOptin"], clusters
    )
