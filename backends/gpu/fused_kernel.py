"""A compiled GPU kernel: the loop nests of one group, and how to launch them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fuser.backend import Kernel
from fuser.backends.gpu import geometry, reduction_plan
from fuser.backends.gpu.arguments import Function, Prepared
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
        """Compile for the current device what calls will want whatever their lengths.

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
        for section, stages in enumerate(self._stages):
            if stages is None and not geometry.tile_slots(nests[section]):  # lengths tell
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
            nest = self._nests[section]
            wide = geometry.needs_wide(lengths, strides)
            found = geometry.across(nest, lengths, strides)
            variant = Variant(wide, tiles=found is not None)
            shared = 0 if found is None else geometry.tiles_bytes(nest)
            occupancy = geometry.Occupancy(
                self._device.resources().multiprocessors, occupy(variant, geometry.BLOCK, shared)
            )
            if found is None:
                plan = geometry.plan(nest, lengths, strides, occupancy)
            else:
                plan = geometry.plan_tiles(nest, lengths, strides, found, occupancy)
        else:
            resources = self._device.resources()
            plan = reduction_plan.plan(stages, lengths, strides, resources, occupy)
        return plan.words, plan

    def launch(self, section: int, block: Any, extent: Any) -> int:
        """Enqueue one loop nest on the current stream.

        Only a kernel that may note a value for which NumPy raises waits for its end.
        """
        flag = self.flag(section)
        words = [] if flag is None else [flag[0]]
        number = self._device.number()
        stream, keep = self._device.stream(number), None
        if self.reduces(section):
            scratch = counters = 0
            if extent.scratch_bytes:
                scratch, keep = self._device.scratch(extent.scratch_bytes, stream)
                counters = self._device.counters(extent.counters, stream, number)
            words += [scratch, counters, 0]
        self.prepare(section, 0, block, 0, extent).enqueue(stream, words, b"")
        del keep
        return 0 if flag is None else flag[1]()

    def flags(self, section: int) -> bool:
        """Whether a loop nest may note a value for which NumPy raises: it comes with a flag."""
        return self._flagged[section]

    def reduces(self, section: int) -> bool:
        """Whether arguments begin with scratch memory, counters and the launch's number."""
        return self._stages[section] is not None

    def flag(self, section: int) -> tuple[int, Callable[[], int]] | None:
        """Where a kernel notes a value for which NumPy raises, and what tells; None: it does not.

        Raises:
            BackendError: the work is being captured, and nobody could look.
        """
        if not self._flagged[section]:
            return None
        if self._device.is_capturing(self._device.stream(self._device.number())):
            raise BackendError(
                f"{self.name} may meet a value for which NumPy raises, so each call waits for "
                "its end: it cannot be captured in a CUDA graph. Use integer powers with "
                "unsigned exponents, or errstate=False."
            )
        return self._device.flag()

    def prepare(
        self, section: int, operands: int, rest: bytes, scalars: int, extent: Any
    ) -> Prepared:
        """A loop nest's launches, which only want addresses and scalars.

        Args:
            section: the loop nest.
            operands: how many addresses it takes.
            rest: what `lay_out` packed.
            scalars: how many scalars it takes.
            extent: the launch plan.
        """
        plan: geometry.LaunchPlan = extent
        heads = self._flagged[section] + 3 * self.reduces(section)
        sizes = (plan.grid, plan.block, plan.shared)
        function = self._function(section, plan.variant)
        return Prepared(function, sizes, heads, operands, rest, scalars, plan.phases)

    def text(self, kind: str) -> str:
        """CUDA C++ ("source") or "ptx", also as "optimized"."""
        if kind == "source":
            return self._text
        if kind in ("ptx", "optimized"):
            return self._device.ptx(self._text, self.name)
        raise ValueError(f"the GPU backend has no {kind!r} text; use source or ptx")

    def _function(self, section: int, variant: Variant) -> Function:
        """The kernel of one section on the current device; plans are made for one device."""
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
