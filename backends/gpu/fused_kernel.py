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
from fuser.backends.gpu import geometry
from fuser.backends.gpu.device import CudaDevice, Function
from fuser.backends.gpu.emit import VARIANTS, entry_name, is_flagged
from fuser.codegen import LoopNest


@dataclass(frozen=True, slots=True)
class _Entry:
    """One loaded kernel of one device."""

    function: Function
    occupancy: geometry.Occupancy


@lru_cache(maxsize=256)
def _by_value(size: int) -> np.dtype[Any]:
    """A dtype of one element of `size` bytes: CuPy passes such an array by value."""
    return np.dtype((np.void, size))


class FusedKernelCUDA(Kernel):
    """Machine code for the loop nests of one group, loaded on a device when first needed there.

    All loop nests are one NVRTC unit. The variant with 64-bit indices is compiled when a call
    first needs it; it is the same kernel, and not counted again.
    """

    def __init__(
        self, name: str, text: str, nests: Sequence[LoopNest], device: CudaDevice
    ) -> None:
        """Compile for the current device.

        Args:
            name: the stem of the kernels' names.
            text: CUDA C++.
            nests: its loop nests.
            device: what compiles, loads and launches.

        Raises:
            CompileError: the compiler refused.
        """
        self.name = name
        self._text = text
        self._nests = tuple(nests)
        self._device = device
        self._flagged = tuple(map(is_flagged, nests))
        self._modules: dict[tuple[int, bool], Any] = {}
        self._entries: dict[tuple[int, int, bool], _Entry] = {}
        self._lock = threading.Lock()
        for section in range(len(nests)):
            self._entry(section, wide=False)

    def lay_out(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[bytes, geometry.LaunchPlan]:
        """The launch plan: index width, grid, numbers to divide by, strides."""
        wide = geometry.needs_wide(lengths, strides)
        occupancy = self._entry(section, wide=wide).occupancy
        plan = geometry.plan(self._nests[section], lengths, strides, occupancy)
        return plan.words, plan

    def launch(self, section: int, block: Any, extent: Any) -> int:
        """Enqueue one loop nest on the current stream.

        Only a kernel that may note a value for which NumPy raises waits for its end.
        """
        entry = self._entry(section, wide=extent.wide)
        if not self._flagged[section]:
            self._enqueue(entry, extent, block)
            return 0
        address, read = self._device.flag()
        self._enqueue(entry, extent, struct.pack("=Q", address) + block)
        return read()

    def _enqueue(self, entry: _Entry, plan: geometry.LaunchPlan, block: bytes) -> None:
        """Hand the kernel its one argument, a structure by value."""
        arguments = np.frombuffer(block, _by_value(len(block)))
        entry.function((plan.grid,), (geometry.BLOCK,), (arguments,))

    def text(self, kind: str) -> str:
        """CUDA C++ ("source") or "ptx", also as "optimized"."""
        if kind == "source":
            return self._text
        if kind in ("ptx", "optimized"):
            return self._device.ptx(self._text, self.name)
        raise ValueError(f"the GPU backend has no {kind!r} text; use source or ptx")

    def _entry(self, section: int, *, wide: bool) -> _Entry:
        """The kernel of one section on the current device."""
        number = self._device.number()
        found = self._entries.get((number, section, wide))
        if found is not None:
            return found
        with self._lock:
            module = self._modules.get((number, wide))
            if module is None:
                bits, *_ = VARIANTS["wide" if wide else "narrow"]
                module = self._device.load(self._text, self.name, bits)
                self._modules[(number, wide)] = module
            function = self._device.function(module, entry_name(self.name, section, wide=wide))
            entry = _Entry(function, self._device.occupancy(function))
            return self._entries.setdefault((number, section, wide), entry)
