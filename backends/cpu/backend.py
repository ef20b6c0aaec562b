"""The CPU backend: NumPy arrays, LLVM IR text, machine code through llvmlite."""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import (
    Backend,
    CompileError,
    NestChoice,
    PlainCall,
    PythonCall,
    ServedCall,
)
from fuser.backends.cpu.tuning import POOLED_BYTES
from fuser.base import forks
from fuser.codegen import LoopNest
from fuser.ir.layouts import ordered_strides
from fuser.ir.ops import Op, admits
from fuser.scheduling.capabilities import Capabilities

if TYPE_CHECKING:
    from fuser.backends.cpu.body import Features
    from fuser.backends.cpu.fused_kernel import FusedKernelCPU
    from fuser.element_loops.code import Code

#: What every first call imports.
FIRST_CALL = (
    "machine.host", "machine.target", "machine.arrays", "emit", "fused_kernel", "sequence",
    "scheduling.map_templates", "vector_loop",
)  # fmt: skip


#: Calls of the plain function's after which the dispatcher is loaded for them alone.
OFTEN = 64
COMPLEX = frozenset(map(np.dtype, ("complex64", "complex128")))


class CpuBackend(Backend):
    """Runs fused kernels on this processor."""

    name = "cpu"
    capabilities = Capabilities(
        row_tiles=True, scans=True, scatters=True, repeats=True,
        stores_last=True, each_stores_last=True, element_loops=True,
    )  # fmt: skip

    def __init__(self, features: Features | None = None) -> None:
        """Emit for given features; for those of this processor by default."""
        self._features = features

    @property
    def features(self) -> Features:
        """What emitted code may use."""
        if self._features is None:
            from fuser.backends.cpu.machine.target import host_features

            self._features = host_features()
        return self._features

    @property
    def extra_dtypes(self) -> frozenset[np.dtype[Any]]:
        """Complex numbers, whose parts are values of their own."""
        return COMPLEX

    def admits(self, row: Op, dtype: np.dtype[Any]) -> bool:
        """Rows of complex numbers are those that can be spelled by their parts."""
        from fuser.passes import complex_parts

        if dtype.kind == "c" and not row.structure:
            return row.name in complex_parts.ROWS
        return admits(row, dtype)

    @property
    def threads(self) -> int:
        """The team's, where the platform has one."""
        from fuser.backends.cpu.machine import workers

        return workers.thread_count() if workers.supported() else 1

    def load(self) -> None:
        """The modules that spell kernels and run them; llvmlite is not among them."""
        for module in FIRST_CALL:
            importlib.import_module(f"fuser.backends.cpu.{module}")

    def unavailable(self) -> str | None:
        """None, or that llvmlite is missing or the system lets no code run that is made here."""
        from fuser.backends.cpu.machine import arena
        from fuser.backends.cpu.machine.host import host, missing

        try:
            host()
        except CompileError as error:
            return str(error)
        except (ImportError, OSError) as error:
            return missing(error)
        return arena.refusal()

    def owns(self, array: Any) -> bool:
        """NumPy arrays and scalars."""
        return isinstance(array, (np.ndarray, np.generic))

    def supports(self, op: str, dtype: str) -> bool:
        """Whether the spelling table has a form."""
        from fuser.backends.cpu.spelling import SPELLING

        return np.dtype(dtype).kind in SPELLING.get(op, {})

    def emit(self, nests: Sequence[LoopNest], name: str) -> str:
        """LLVM IR text."""
        from fuser.backends.cpu.emit import emit

        return emit(nests, name, self.features)

    def compile(self, text: str, nests: Sequence[LoopNest], name: str) -> FusedKernelCPU:
        """What compiles and loads machine code when it is asked for."""
        from fuser.backends.cpu.fused_kernel import FusedKernelCPU

        return FusedKernelCPU(name, text, nests, self.features)

    def pack(self, pointers: Sequence[int], rest: bytes) -> bytes:
        """8-byte words throughout."""
        return struct.pack(f"={len(pointers)}q", *pointers) + rest

    @forks.cached_property
    def address(self) -> Callable[[Any], int]:
        """The address of an array's first element."""
        from fuser.backends.cpu.machine.arrays import address_function

        return address_function()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A new C-ordered array; large ones come from the output pool."""
        size = dtype.itemsize
        for length in shape:
            size *= length
        if size < POOLED_BYTES:
            return np.empty(shape, dtype)
        from fuser.backends.cpu.machine import pool

        return pool.empty(shape, dtype)

    def empty_in_order(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: Sequence[int]
    ) -> Any:
        """A new array that owns its memory, as NumPy's results do."""
        from fuser.backends.cpu.machine import pool

        return pool.empty(shape, dtype, ordered_strides(shape, order, dtype.itemsize))

    def element_kernel(self, code: Code) -> Any:
        """One scalar kernel."""
        from fuser.backends.cpu.element_kernels import ElementKernel

        return ElementKernel(code)

    def release_memory(self) -> int:
        """Empty the output pool."""
        pool = sys.modules.get("fuser.backends.cpu.machine.pool")
        release = getattr(pool, "release", None)  # a signal may come while it is imported
        return 0 if release is None else int(release())

    def choices(self, bind: Callable[[], Any]) -> list[NestChoice]:
        """Nests that run by row blocks have the schedules of their blocks, and are left out."""
        from fuser.backends.cpu.fused_kernel import Trial, bound_in
        from fuser.backends.cpu.scheduling.schedules import same_bits

        trial = Trial([])
        bound_in(trial, bind)
        return [
            NestChoice(
                f"{met.kernel}.{met.section}", met.chosen, met.used, tuple(met.legal),
                tuple(each for each in met.legal if same_bits(met.nest, each, met.chosen)), met,
            )
            for met in trial.met
        ]  # fmt: skip

    def bound_by(self, bind: Callable[[], Any], choice: NestChoice, schedule: Any) -> Any:
        """As the base class has it."""
        from fuser.backends.cpu.fused_kernel import Trial, bound_in

        met = choice.nest
        return bound_in(Trial([], ((met.kernel, met.section), schedule)), bind)

    def keep(self, choice: NestChoice, schedule: Any) -> None:
        """In a file beside machine code, see `scheduling.kept`."""
        from fuser.backends.cpu.scheduling import kept

        usual = schedule == choice.chosen
        kept.keep(choice.nest.nest, choice.nest.lengths, None if usual else schedule)

    def sequence(self, launch: Any) -> Any:
        """One native call for all loop nests."""
        from fuser.backends.cpu.sequence import make

        return make(launch)

    def install(self, function: Any, call: ServedCall | PythonCall | PlainCall) -> bool:
        """Have such calls begin at the native dispatcher.

        It is loaded when something is called for the second time, and for the plain function when
        that is called often: a process that calls each function once never needs it.
        """
        if "fuser.backends.cpu.entries.entry" not in sys.modules:
            if isinstance(call, PlainCall) and call.seen < OFTEN:
                return False
            if isinstance(call, ServedCall) and call.launch.sequence is not None:
                if not call.specialisation.repeated:
                    call.specialisation.repeated = True
                    return True
        from fuser.backends.cpu.entries.entry import install

        return install(function, call)

    def batch(self, functions: Sequence[Any], specs: Sequence[Any]) -> Any:
        """By rows that stay in the cache; once the dispatcher is loaded, which gathers them."""
        if "fuser.backends.cpu.entries.entry" not in sys.modules:
            return None
        from fuser.backends.cpu.entries.batches import Batch

        try:
            return Batch(functions, specs)
        except CompileError:
            return None

    @property
    def array_module(self) -> Any:
        """NumPy."""
        return np
