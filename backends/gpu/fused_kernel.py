"""A compiled GPU kernel: the loop nests of one group, and how to launch them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from fuser.backend import Kernel
from fuser.backends.gpu import geometry, reduction_plan
from fuser.backends.gpu.arguments import Arguments, Function, Prepared
from fuser.backends.gpu.device import CudaDevice
from fuser.backends.gpu.section import is_flagged
from fuser.backends.gpu.stages import Stages
from fuser.backends.gpu.variants import Variant
from fuser.base import forks
from fuser.base.errors import BackendError
from fuser.codegen import LoopNest


class FusedKernelCUDA(Kernel):
    """Machine code for the loop nests of one group, loaded on a device when first needed there.

    All loop nests are one NVRTC unit. Variants (64-bit indices, several blocks a row) are
    compiled when a call first needs them; they are the same kernel, and not counted again.
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
        self._stages = [None if nest.strategy == "map" else Stages(nest) for nest in nests]
        self._device = device
        self._flagged = tuple(map(is_flagged, nests))
        self._modules: dict[tuple[int, Variant], Any] = {}
        self._functions: dict[tuple[int, int, Variant], Function] = {}
        self._lock = forks.lock()
        for section in range(len(nests)):
            self._function(section, Variant())

    def lay_out(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[bytes, geometry.LaunchPlan]:
        """The launch plan: variant, grid, numbers to divide by, strides."""
        stages = self._stages[section]

        def occupy(variant: Variant, block: int, shared: int) -> int:
            function = self._function(section, variant)
            return self._device.blocks_each(function, block, shared)

        if stages is None:
            wide = geometry.needs_wide(lengths, strides)
            occupancy = geometry.Occupancy(
                self._device.resources().multiprocessors,
                occupy(Variant(wide), geometry.BLOCK, 0),
            )
            plan = geometry.plan(self._nests[section], lengths, strides, occupancy)
        else:
            resources = self._device.resources()
            plan = reduction_plan.plan(stages, lengths, strides, resources, occupy)
        return plan.words, plan

    def launch(self, section: int, block: Any, extent: Any) -> int:
        """Enqueue one loop nest on the current stream.

        Only a kernel that may note a value for which NumPy raises waits for its end.
        """
        plan: geometry.LaunchPlan = extent
        function = self._planned(section, plan)
        prefix, read = b"", None
        if self._flagged[section]:
            if self._device.is_capturing():
                raise BackendError(
                    f"{self.name} may meet a value for which NumPy raises, so each call waits for "
                    "its end: it cannot be captured in a CUDA graph. Use integer powers with "
                    "unsigned exponents, or errstate=False."
                )
            address, read = self._device.flag()
            prefix = struct.pack("=Q", address)
        if self._stages[section] is None:
            self._enqueue(function, plan, prefix + block)
        else:
            scratch, keep = 0, None
            if plan.scratch_bytes:
                scratch, keep = self._device.scratch(plan.scratch_bytes)
            for phase in range(plan.phases):
                words = struct.pack("=QQ", scratch, phase)
                self._enqueue(function, plan, prefix + words + block)
            del keep  # the pool gives it to later work of the same stream alone
        return read() if read else 0

    def _enqueue(self, function: Function, plan: geometry.LaunchPlan, block: bytes) -> None:
        """Hand the kernel its one argument, a structure by value."""
        stream = self._device.stream(self._device.number())
        function(plan.grid, plan.block, plan.shared, stream, Arguments(block))

    def prepare(
        self, section: int, pointers: int, rest: bytes, scalars: int, extent: Any
    ) -> Prepared | None:
        """A launch that only wants addresses and scalars; None for one of several steps.

        Args:
            section: the loop nest.
            pointers: how many addresses it takes.
            rest: what `lay_out` packed.
            scalars: how many scalars it takes.
            extent: the launch plan.
        """
        plan: geometry.LaunchPlan = extent
        if self._flagged[section] or plan.scratch_bytes or plan.phases != 1:
            return None
        prefix = b"" if self._stages[section] is None else struct.pack("=QQ", 0, 0)
        function = self._planned(section, plan)
        sizes = (plan.grid, plan.block, plan.shared)
        return Prepared(function, sizes, prefix, pointers, rest, scalars)

    def text(self, kind: str) -> str:
        """CUDA C++ ("source") or "ptx", also as "optimized"."""
        if kind == "source":
            return self._text
        if kind in ("ptx", "optimized"):
            return self._device.ptx(self._text, self.name)
        raise ValueError(f"the GPU backend has no {kind!r} text; use source or ptx")

    def _planned(self, section: int, plan: geometry.LaunchPlan) -> Function:
        """The kernel of a plan, which may have been made on another device than the current one."""
        function = self._function(section, plan.variant)
        if plan.shared > getattr(function, "allowed", plan.shared):
            self._device.blocks_each(function, plan.block, plan.shared)
        return function

    def _function(self, section: int, variant: Variant) -> Function:
        """The kernel of one section on the current device."""
        number = self._device.number()
        found = self._functions.get((number, section, variant))
        if found is not None:
            return found
        with self._lock:
            module = self._modules.get((number, variant))
            if module is None:
                module = self._device.load(self._text, self.name, variant)
                self._modules[(number, variant)] = module
            function = self._device.function(module, variant.entry(self.name, section))
            return self._functions.setdefault((number, section, variant), function)
