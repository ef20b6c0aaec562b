"""The current CUDA device, as far as kernels need one: compile, load, launch.

Everything that talks to CuPy about kernels is here, so that a test can execute the same launches
on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.backends.gpu import nvrtc
from fuser.backends.gpu.geometry import BLOCK, Occupancy

#: (grid, block, arguments) -> None
Function = Callable[[tuple[int], tuple[int], tuple[Any]], None]


class CudaDevice:
    """CUDA through CuPy: its current device, stream and memory pool."""

    def number(self) -> int:
        """Which device is current."""
        import cupy

        return int(cupy.cuda.runtime.getDevice())

    def capability(self) -> str:
        """The current device's compute capability, such as "90"."""
        import cupy

        return str(cupy.cuda.Device().compute_capability)

    def load(self, text: str, name: str, index_bits: int) -> Any:
        """Compile one variant of a unit for the current device and load it.

        Raises:
            CompileError: NVRTC refused.
        """
        from cupy.cuda import function

        module = function.Module()
        module.load(nvrtc.compile_text(text, name, self.capability(), index_bits))
        return module

    def function(self, module: Any, name: str) -> Function:
        """A kernel of a loaded unit; called, it is enqueued on CuPy's current stream."""
        found: Function = module.get_function(name)
        return found

    def occupancy(self, function: Any) -> Occupancy:
        """How many blocks of a kernel the current device runs at once."""
        import cupy

        driver = cupy.cuda.driver
        each = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, BLOCK, 0)
        return Occupancy(cupy.cuda.Device().attributes["MultiProcessorCount"], each)

    def flag(self) -> tuple[int, Callable[[], int]]:
        """A zero in the device's memory: its address, and how to read it once kernels are done."""
        import cupy

        cell = cupy.zeros(1, np.int32)
        return int(cell.data.ptr), lambda: int(cell[0])

    def ptx(self, text: str, name: str) -> str:
        """A unit as text of NVIDIA's virtual machine."""
        return nvrtc.ptx(text, name, self.capability())
