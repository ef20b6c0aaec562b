"""A compiled GPU kernel: the loop nests of one group, and how to launch them."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fuser.backend import Kernel
from fuser.backends.gpu import geometry, nvrtc
from fuser.backends.gpu.emit import VARIANTS, entry_name, is_flagged
from fuser.codegen import LoopNest


@dataclass(frozen=True, slots=True)
class _Entry:
    """One loaded kernel of one device."""

    function: Any
    occupancy: geometry.Occupancy


@lru_cache(maxsize=256)
def _by_value(size: int) -> np.dtype[Any]:
    """A dtype of one element of `size` bytes: CuPy passes such an array by value."""
    return np.dtype((np.void, size))


class FusedKernelCUDA(Kernel):
    """Machine code for the loop nests of one group, loaded where it is first needed.

    All loop nests are one NVRTC unit. The variant with 64-bit indices is compiled when a call
    first needs it; it is the same kernel, and not counted again.
    """

    def __init__(self, name: str, text: str, nests: Sequence[LoopNest]) -> None:
        """Compile for the current device.

        Args:
            name: the stem of the kernels' names.
            text: CUDA C++.
            nests: its loop nests.

        Raises:
            CompileError: NVRTC refused.
        """
        self.name = name
        self._text = text
        self._nests = tuple(nests)
        self._flagged = tuple(map(is_flagged, nests))
        self._modules: dict[tuple[int, bool], Any] = {}
        self._entries: dict[tuple[int, int, bool], _Entry] = {}
        self._lock = threading.Lock()
        for section in range(len(nests)):
            self._entry(section, wide=False)

    def lay_out(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[bytes, Any]:
        """The launch plan: index width, grid, numbers to divide by, strides."""
        wide = geometry.needs_wide(lengths, strides)
        occupancy = self._entry(section, wide=wide).occupancy
        plan = geometry.plan(self._nests[section], lengths, strides, occupancy)
        return plan.words, plan

    def launch(self, section: int, block: Any, extent: Any) -> int:
        """Enqueue one loop nest on CuPy's current stream.

        Only a kernel that may note a value for which NumPy raises waits for its end.
        """
        plan: geometry.LaunchPlan = extent
        entry = self._entry(section, wide=plan.wide)
        flag = None
        if self._flagged[section]:
            import cupy

            flag = cupy.zeros(1, np.int32)
            block = struct.pack("=Q", flag.data.ptr) + block
        arguments = np.frombuffer(block, _by_value(len(block)))
        entry.function((plan.grid,), (geometry.BLOCK,), (arguments,))
        return 0 if flag is None else int(flag[0])

    def text(self, kind: str) -> str:
        """CUDA C++ ("source") or "ptx", also as "optimized"."""
        if kind == "source":
            return self._text
        if kind in ("ptx", "optimized"):
            return nvrtc.ptx(self._text, self.name, _capability())
        raise ValueError(f"the GPU backend has no {kind!r} text; use source or ptx")

    def _entry(self, section: int, *, wide: bool) -> _Entry:
        """The kernel of one section on the current device."""
        import cupy

        device = cupy.cuda.runtime.getDevice()
        found = self._entries.get((device, section, wide))
        if found is not None:
            return found
        with self._lock:
            module = self._modules.get((device, wide))
            if module is None:
                module = self._modules[(device, wide)] = self._load(wide=wide)
            function = module.get_function(entry_name(self.name, section, wide=wide))
            entry = _Entry(function, _occupancy(function))
            return self._entries.setdefault((device, section, wide), entry)

    def _load(self, *, wide: bool) -> Any:
        """Compile one variant for the current device and load it."""
        from cupy.cuda import function

        bits, *_ = VARIANTS["wide" if wide else "narrow"]
        code = nvrtc.compile_text(self._text, self.name, _capability(), bits)
        module = function.Module()
        module.load(code)
        return module


def _capability() -> str:
    """The current device's compute capability, such as "90"."""
    import cupy

    return str(cupy.cuda.Device().compute_capability)


def _occupancy(function: Any) -> geometry.Occupancy:
    """How many blocks of a kernel the current device runs at once."""
    import cupy

    each = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
        function.ptr, geometry.BLOCK, 0
    )
    return geometry.Occupancy(cupy.cuda.Device().attributes["MultiProcessorCount"], each)
