"""CuPy: the formula on the GPU, one kernel an operation; what `cupy.fuse` and we make of it."""

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from fuser.suites.checks.verify import flatten
from fuser.suites.formula import Rebuilding, in_module
from fuser.suites.runners import Runner, RunnerKind, first_line, refusals
from fuser.suites.sampling import seconds_of
from fuser.suites.workload import Arguments

COPIED_BYTES, COPIES = 256 << 20, 10
"""Far beyond a device's caches; samples of a copy."""


class CupyRunner(Runner):
    """Runs the workload's own function on CuPy; each call waits until the device is done."""

    name = "cupy"
    needs = MappingProxyType({"cupy": "cupy-cuda13x"})
    starts = True
    typical_first_call_s = 1.0
    description = "the formula on cupy, one kernel an operation; synchronised in each call"

    def unavailable(self) -> str | None:
        """Return what to install, or that there is no device."""
        if (reason := super().unavailable()) is not None:
            return reason
        import cupy

        try:
            count = int(cupy.cuda.runtime.getDeviceCount())
        except Exception as error:  # noqa: BLE001  (drivers fail in many ways; each is the reason)
            return f"no CUDA device: {first_line(error)}"
        return None if count else "no CUDA device"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the function on CuPy; its call ends when the results are there."""
        import cupy

        copied = Rebuilding(swap=in_module(cupy)).copy(function, lambda same: same)
        on_device = self.compiled(copied)
        wait = cupy.cuda.get_current_stream().synchronize

        def call(*given: Any) -> Any:
            result = on_device(*given)
            wait()
            return result

        with refusals(self.name, AttributeError, TypeError, NotImplementedError):
            call(*self.accept(arguments))
        return call

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as this runner calls it."""
        return function

    def accept(self, arguments: Arguments) -> Arguments:
        """Return copies on the device; numbers stay Python's."""
        import cupy

        given = tuple(
            cupy.array(each) if isinstance(each, np.ndarray) else each for each in arguments
        )
        cupy.cuda.get_current_stream().synchronize()
        return given

    def fetch(self, result: Any) -> Any:
        """Return copies of the results on the host."""
        import cupy

        return tuple(cupy.asnumpy(each) for each in flatten(result))


class CupyFuseRunner(CupyRunner):
    """CuPy's own fuser."""

    name = "cupy_fuse"
    description = "cupy.fuse of the formula; synchronised in each call"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the fused function."""
        import cupy

        fused: Callable[..., Any] = cupy.fuse()(function)
        return fused


class CupyFusedRunner(CupyRunner):
    """Our fuser on CuPy's arrays."""

    name = "cupy_fused"
    kind: ClassVar[RunnerKind] = "fused"
    own_arrays = True
    description = "the fuser on CuPy's arrays; synchronised in each call"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the fused function, with nothing cached from earlier ones."""
        import fuser

        fuser.clear_caches()
        fused: Callable[..., Any] = fuser.fuse(function, fallback="allow")
        return fused

    def ceilings(self, process: int) -> Iterator[dict[str, Any]]:
        """Yield the speed of a copy on the device."""
        import cupy

        source = cupy.ones(COPIED_BYTES // 4, np.float32)
        target, wait = cupy.empty_like(source), cupy.cuda.get_current_stream().synchronize

        def copy() -> None:
            cupy.copyto(target, source)
            wait()

        copy()
        moved = 2 * COPIED_BYTES
        yield {
            "name": "copy", "bytes_moved": moved, "working_set_bytes": moved, "threads": 1,
            "process": process, "seconds": seconds_of(copy, (), COPIES, 0.001), "by": "cupy",
        }
