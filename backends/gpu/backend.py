"""The GPU backend: CuPy arrays, CUDA C++ text, machine code through NVRTC."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import Backend, PlainCall, PythonCall, ServedCall, get_backend
from fuser.base.errors import BackendError
from fuser.base.packages import loaded
from fuser.codegen import LoopNest
from fuser.ir.ops import Op
from fuser.scheduling.capabilities import Capabilities

if TYPE_CHECKING:
    from fuser.backends.gpu.device import CudaDevice
    from fuser.backends.gpu.fused_kernel import FusedKernelCUDA


#: What a block holds of a row in registers and shared memory, and what stays in the second cache
#: of 40 to 60 MB: of an A100, an H100 and their successors.
_BLOCK_BYTES, _CACHE_BYTES = 288 << 10, 32 << 20


class GpuBackend(Backend):
    """Runs fused kernels on the current CUDA device, through CuPy."""

    name = "gpu"
    capabilities = Capabilities(complex_values=True, stores_last=True)

    def __init__(self, device: CudaDevice | None = None) -> None:
        """Launch through a given device; through CuPy's current one by default."""
        self._device = device
        self._make: Callable[[tuple[int, ...], Any], Any] | None = None

    @property
    def device(self) -> CudaDevice:
        """What compiles, loads and launches."""
        if self._device is None:
            from fuser.backends.gpu.device import CudaDevice

            self._device = CudaDevice()
        return self._device

    @property
    def extra_dtypes(self) -> frozenset[np.dtype[Any]]:
        """Complex numbers; bfloat16 where ml_dtypes has been imported, as for CuPy itself."""
        found: set[np.dtype[Any]] = {np.dtype(np.complex64), np.dtype(np.complex128)}
        if (halves := loaded("ml_dtypes")) is not None:
            found.add(np.dtype(halves.bfloat16))
        return frozenset(found)

    def install(self, function: Any, call: ServedCall | PythonCall | PlainCall) -> bool:
        """Have the host's dispatcher compare the arguments of what a Python function serves."""
        return isinstance(call, PythonCall) and get_backend("cpu").install(function, call)

    @property
    def device_fields(self) -> Mapping[str, int] | None:
        """As CuPy lays its arrays out."""
        from fuser.backends.gpu.array_fields import array_fields

        return array_fields()

    def unavailable(self) -> str | None:
        """None, or that CuPy, a device or NVRTC is missing."""
        try:
            import cupy
        except ImportError as error:
            return f"cupy cannot be imported ({error}); install cupy-cuda13x"
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return f"no CUDA device: {error}"
        if not count:
            return "no CUDA device: the driver reports none"
        try:
            cupy.cuda.nvrtc.getVersion()
        except (ImportError, OSError, RuntimeError) as error:
            return f"NVRTC cannot be loaded ({error}); install nvidia-cuda-nvrtc"
        return None

    def owns(self, array: Any) -> bool:
        """CuPy arrays."""
        cupy = loaded("cupy")
        return cupy is not None and isinstance(array, cupy.ndarray)

    def supports(self, op: str, dtype: str) -> bool:
        """Whether the spelling table has a form; reductions are spelled as they combine."""
        from fuser.backends.gpu.spelling import form
        from fuser.ir.ops import TABLE

        if op in TABLE and TABLE[op].reduction:
            return dtype in TABLE[op].dtypes()
        return form(op, dtype) is not None

    def emit(self, nests: Sequence[LoopNest], name: str) -> str:
        """CUDA C++ text; needs neither CuPy nor a device."""
        from fuser.backends.gpu.emit import emit

        return emit(nests, name)

    def compile(self, text: str, nests: Sequence[LoopNest], name: str) -> FusedKernelCUDA:
        """Machine code, loaded on the current device."""
        from fuser.backends.gpu.fused_kernel import FusedKernelCUDA

        return FusedKernelCUDA(name, text, nests, self.device)

    def pack(self, pointers: Sequence[int], rest: bytes) -> bytes:
        """8-byte words throughout."""
        return struct.pack(f"={len(pointers)}q", *pointers) + rest

    def address(self, array: Any) -> int:
        """The address of the first element.

        Raises:
            BackendError: the array is on another device than the current one, or misaligned.
        """
        memory = array.data
        device = self.device.number()
        if memory.device_id != device:
            raise BackendError(
                f"an array is on CUDA device {memory.device_id}, the current device is {device}. "
                f"Run under `with cupy.cuda.Device({memory.device_id}):`, or move the array."
            )
        pointer = int(memory.ptr)
        if pointer % array.dtype.itemsize:
            raise BackendError(
                f"an array of {array.dtype} starts at {pointer:#x}, which is not a multiple of "
                f"{array.dtype.itemsize}; CUDA needs aligned elements. Make a copy of it."
            )
        return pointer

    def addresses(self, arrays: dict[str, Any], device: int) -> dict[Any, int]:
        """The addresses of arrays that a call has, by name.

        Args:
            arrays: by buffer name; arrays take the places of NumPy's scalars.
            device: the current device's number.

        Raises:
            BackendError: as `address`.
        """
        found: dict[Any, int] = {}
        for name, array in arrays.items():
            if isinstance(array, np.generic):
                arrays[name] = array = self.scalar(array)
            memory = array.data
            pointer = found[name] = memory.ptr
            if memory.device_id != device or pointer % array.itemsize:
                self.address(array)  # says what is wrong
        return found

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new array: CuPy's type itself, which is what its `empty` calls."""
        if self._make is None:
            self._make = self.array_module.ndarray
        return self._make(shape, dtype)

    def device_number(self) -> int:
        """CuPy's current device."""
        return self.device.number()

    def scalar(self, value: np.generic) -> Any:
        """Written by a kernel: nothing waits, and a CUDA graph can have it."""
        return self.device.scalar(value)

    def elsewhere(self, leaves: Sequence[Any]) -> AbstractContextManager[Any] | None:
        """CuPy's other device, where all arrays are there."""
        numbers = {leaf.data.device_id for leaf in leaves if self.owns(leaf)}
        if len(numbers) != 1 or numbers == {self.device.number()}:
            return None
        found: AbstractContextManager[Any] = self.array_module.cuda.Device(numbers.pop())
        return found

    def adopter(self, array: Any) -> Callable[[Any], Any]:
        """CuPy's own, whose current stream waits for the other library's."""
        cupy = self.array_module
        found: Callable[[Any], Any]
        found = cupy.from_dlpack if hasattr(array, "__dlpack__") else cupy.asarray
        return found

    def hold(self, arrays: Sequence[Any]) -> None:
        """Until CuPy's current stream has done what is enqueued now."""
        self.device.hold(arrays)

    def release_memory(self) -> int:
        """Give back what captured CUDA graphs work in: they must not run again."""
        return 0 if self._device is None else self._device.forget_captured()

    def keeps_rows(self, rows: int, row_bytes: int) -> bool:
        """In registers and shared memory of a block; or all of them in the second cache."""
        return row_bytes <= _BLOCK_BYTES or rows * row_bytes <= _CACHE_BYTES

    def sequence(self, launch: Any) -> Any:
        """All loop nests of a bound launch, prepared."""
        from fuser.backends.gpu.sequence import make

        return make(launch)

    def meaning(self, op: Op) -> Callable[..., Any]:
        """CuPy's function, or NumPy's on copies where CuPy has none."""
        from fuser.backends.gpu.meaning import meaning

        return meaning(op, self.array_module)

    @property
    def array_module(self) -> Any:
        """CuPy."""
        import cupy

        return cupy
