"""A CUDA device played by the host: generated text is compiled by a C++ compiler and executed."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import CompileError, available, get_backend
from fuser.backends.gpu import geometry
from fuser.backends.gpu.arguments import Arguments, Function
from fuser.backends.gpu.backend import GpuBackend
from fuser.backends.gpu.device import CudaDevice
from fuser.backends.gpu.variants import Variant
from tests.requirements import find
from tests.settings import settings

HEADER = Path(__file__).with_name("host_cuda.h")
#: No optimisation: most of the time is the compiler's. Exact arithmetic, as on the device.
FLAGS = ("-std=c++17", "-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-unknown-pragmas",
         "-fsanitize=alignment")  # fmt: skip

_ENTRY = re.compile(
    r"^(\w+_\d+_((?:split_|held_|long_|tiles_)?(?:narrow|wide)))"
    r"\(const __grid_constant__ (\w+) a\)",
    re.MULTILINE,
)
#: What a kernel calls whose threads wait for each other.
_TOGETHER = re.compile(r"\b(?:combine_(?:row|column)|comes_last|fill_tile)\(")


#: Count races in shared memory: see host_races.h.
RACES = ("-fno-sanitize=alignment", "-fsanitize=thread")
#: No misaligned access, no overflow, no shift too far.
UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize=float-cast-overflow")
#: What the host's compiler makes of it when it is asked to do its best.
OPTIMISED = ("-O2",)
#: What a launch returns: see host_cuda.h.
FAULTS = {
    1: "cudaErrorMisalignedAddress",
    2: "cudaErrorIllegalAddress: shared memory beyond what the launch asked for",
    3: "a barrier that not all threads of a block reach",
    4: "cudaErrorInvalidConfiguration: too many threads",
    5: "cudaErrorInvalidClusterSize: a grid of blocks that are no whole clusters",
    6: "shared memory of a block of the cluster that has ended",
}


def host_unit(text: str, variant: Variant, races: bool = False) -> str:
    """A unit that the host's compiler takes: one variant of every kernel, and what runs it."""
    found = _ENTRY.findall(text)
    together = _TOGETHER.search(text) is not None
    macro = "RUN_TOGETHER" if together else "RUN_ON_HOST"
    runs = [
        f"{macro}({entry}, {arguments})"
        for entry, kind, arguments in found
        if kind == variant.name
    ]
    names = ["host_cuda.h", "host_threads.h", "host_races.h"]
    headers = map(HEADER.with_name, names[: 1 + together + (together and races)])
    return "\n".join([*(f'#include "{path}"' for path in headers), text, *runs, ""])


@cache
def _folder() -> Path:
    """Where libraries are written, for the life of the process."""
    holder = tempfile.TemporaryDirectory(prefix="fuser-host-")
    _kept.append(holder)
    return Path(holder.name)


_kept: list[Any] = []
#: Shared memory and stacks of all blocks of a cluster: see host_threads.h.
_MEMORY_BYTES = 8 * ((228 << 10) + 512 * (1 << 16))
_running = threading.Lock()


@cache
def _memory() -> Any:
    """What all launches use, one after another; pages that nobody touches cost nothing."""
    return np.empty(_MEMORY_BYTES, np.uint8)


def run_kernel(run: Any, grid: int, block: int, shared: int, address: int) -> None:
    """Run one launch to its end.

    Raises:
        RuntimeError: it did what a device refuses.
    """
    with _running:
        status = run(grid, block, shared, address, _memory().ctypes.data)
    if status:
        raise RuntimeError(FAULTS[status])


def host_kernel(library: Any, name: str) -> tuple[Any, int]:
    """A kernel of a loaded unit, and the bytes of its argument."""
    run = getattr(library, f"run_{name}")
    run.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p]
    return run, ctypes.c_uint.in_dll(library, f"size_{name}").value


def host_library(source: str, variant: Variant, checks: tuple[str, ...] = ()) -> Path:
    """Compile a unit for this process, unless it has been.

    Raises:
        CompileError: the compiler refused.
    """
    flags = (*FLAGS, *checks, *variant.defines)
    digest = hashlib.sha256(repr((source, flags)).encode()).hexdigest()[:16]
    library = _folder() / f"{digest}.so"
    if not library.exists():
        unit, compiler = library.with_suffix(".o"), str(find("cxx"))
        command = [compiler, *flags, "-pipe", "-x", "c++", "-", "-fPIC", "-c", "-o", unit]
        done = subprocess.run(command, input=source, text=True, capture_output=True)
        if done.returncode:
            raise CompileError("compile-failed", done.stderr)
        # Not with all that a C++ program needs: that is most of the time.
        asked = {"-fsanitize=undefined": "-lubsan", "-fsanitize=thread": "-lstdc++"}
        needed = ["-lm", "-lc", "-lgcc", *(asked[check] for check in checks if check in asked)]
        subprocess.run([compiler, "-shared", "-nostdlib", unit, *needed, "-o", library], check=True)
    return library


class HostDevice(CudaDevice):
    """Runs kernels one thread after another, in this process, on NumPy arrays.

    It pretends to hold two blocks, so that grids are small and threads loop.
    """

    def __init__(self, *checks: str) -> None:
        """Compile with more flags, such as `OPTIMISED`."""
        super().__init__()
        self.checks = checks
        self.multiprocessors = 1
        self.grids: list[int] = []
        self.units: list[Any] = []
        self.zeros = np.zeros(4096, np.uint32)

    def number(self) -> int:
        """The only one."""
        return 0

    def load(self, text: str, name: str, variant: Variant) -> Any:
        """Compile one variant and load it."""
        source = host_unit(text, variant, self.checks == RACES)
        self.units.append(ctypes.CDLL(str(host_library(source, variant, self.checks))))
        return self.units[-1]

    def races(self) -> int:
        """How often threads have met in shared memory without a barrier between them."""
        counts = [ctypes.c_int.in_dll(unit, "race_count").value for unit in self.units
                  if hasattr(unit, "race_count")]  # fmt: skip
        return sum(counts)

    def function(self, module: Any, name: str) -> Function:
        """A kernel, called as CuPy's functions are."""
        run, _ = host_kernel(module, name)

        def launch(
            grid: int, block: int, shared: int, stream: int, arguments: Arguments
        ) -> None:
            self.grids.append(grid)
            run_kernel(run, grid, block, shared, arguments.address)

        return launch

    def stream(self, number: int) -> int:
        """None."""
        return 0

    def is_capturing(self, stream: int) -> bool:
        """Never."""
        return False

    def resources(self) -> geometry.Resources:
        """One multiprocessor as large as an H200's."""
        return geometry.Resources(multiprocessors=self.multiprocessors, shared_bytes=227 << 10)

    def blocks_each(self, function: Any, block: int, shared: int) -> int:
        """Few blocks at once."""
        return 2

    def scratch(self, size_bytes: int, stream: int) -> tuple[int, Any]:
        """Memory that tells when it is read before it is written: all bits set are NaN."""
        memory = np.full(size_bytes + 256, 0xFF, np.uint8)
        return -(-memory.ctypes.data // 256) * 256, memory

    def counters(self, count: int, stream: int, number: int) -> int:
        """Zeros, if the launches before have left them so."""
        assert not self.zeros.any(), "a kernel has not put its counters back to 0"
        assert count <= self.zeros.size
        return int(self.zeros.ctypes.data)

    def scalar(self, value: np.generic) -> Any:
        """The array itself."""
        return np.asarray(value)

    def flag(self) -> Any:
        """A zero in memory."""
        cell = np.zeros(1, np.int32)
        return cell.ctypes.data, lambda: int(cell[0])


class Tampered(HostDevice):
    """Keeps the latest variant; may leave something out of texts, or put another in its place."""

    left_out = ("", "")

    def load(self, text: str, name: str, variant: Variant) -> Any:
        """Compile and load what is left."""
        own, instead = self.left_out
        assert own in text
        self.variant = variant
        return super().load(text.replace(own, instead) if own else text, name, variant)


class HostGpuBackend(GpuBackend):
    """The GPU backend on NumPy arrays."""

    def __init__(self, name: str, *checks: str) -> None:
        """Register it under `name`, which is part of what kernels are kept by."""
        super().__init__(HostDevice(*checks))
        self.name = name

    def unavailable(self) -> str | None:
        """None, or that there is no C++ compiler."""
        return None if find("cxx") else "no C++ compiler on the PATH: apt install g++"

    def owns(self, array: Any) -> bool:
        """Nothing of its own: tests choose it by name."""
        return False

    def address(self, array: Any) -> int:
        """The address of the first element."""
        return int(array.__array_interface__["data"][0])

    def addresses(self, arrays: Mapping[str, Any], device: int) -> dict[Any, int]:
        """Those of NumPy arrays."""
        return {name: self.address(array) for name, array in arrays.items()}

    @property
    def array_module(self) -> Any:
        """NumPy."""
        return np


@contextmanager
def on_device(name: str, device: HostDevice) -> Iterator[HostDevice]:
    """Have calls run on a backend with a device of its own; skip where it cannot run."""
    if reason := available(name):
        pytest.skip(reason)
    backend = get_backend(name)
    assert isinstance(backend, HostGpuBackend)
    backend._device = device
    with settings(backend=name):
        fuser.clear_caches()
        yield device
    fuser.clear_caches()
