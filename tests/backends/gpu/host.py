"""A CUDA device played by the host: generated text is compiled by a C++ compiler and executed."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuser.backend import CompileError
from fuser.backends.gpu import geometry
from fuser.backends.gpu.backend import GpuBackend
from fuser.backends.gpu.device import CudaDevice, Function
from tests.requirements import find

HEADER = Path(__file__).with_name("host_cuda.h")
#: No optimisation: most of the time is the compiler's. Exact arithmetic, as on the device.
FLAGS = ("-std=c++17", "-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-unknown-pragmas")
#: Undefined behaviour ends the process, but for conversions out of range, which CUDA defines.
CHECKS = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")

_ENTRY = re.compile(r"^(\w+_(\d+)_(narrow|wide))\(const __grid_constant__ (\w+) a\)", re.MULTILINE)


@cache
def _folder() -> Path:
    """Where libraries are written, for the life of the process."""
    holder = tempfile.TemporaryDirectory(prefix="fuser-host-")
    _kept.append(holder)
    return Path(holder.name)


_kept: list[Any] = []


class HostDevice(CudaDevice):
    """Runs kernels one thread after another, in this process, on NumPy arrays.

    It pretends to hold two blocks, so that grids are small and threads loop.
    """

    def __init__(self, *checks: str) -> None:
        """Compile with more flags, such as `CHECKS`."""
        self.checks = checks
        self.grids: list[int] = []

    def number(self) -> int:
        """The only one."""
        return 0

    def load(self, text: str, name: str, index_bits: int) -> Any:
        """Compile one variant and load it."""
        wanted = "narrow" if index_bits == 32 else "wide"
        runs = [
            f"RUN_ON_HOST({entry}, {arguments})"
            for entry, _, variant, arguments in _ENTRY.findall(text)
            if variant == wanted
        ]
        source = "\n".join([f'#include "{HEADER}"', text, *runs, ""])
        flags = (*FLAGS, *self.checks, f"-DINDEX_BITS={index_bits}")
        digest = hashlib.sha256(repr((source, flags)).encode()).hexdigest()[:16]
        library = _folder() / f"{digest}.so"
        if not library.exists():
            command = [str(find("cxx")), *flags, "-x", "c++", "-", "-shared", "-fPIC", "-o"]
            done = subprocess.run(
                [*command, str(library)], input=source, text=True, capture_output=True
            )
            if done.returncode:
                raise CompileError("compile-failed", done.stderr)
        return ctypes.CDLL(str(library))

    def function(self, module: Any, name: str) -> Function:
        """A kernel, called as CuPy's functions are."""
        run = getattr(module, f"run_{name}")
        run.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p]

        def launch(grid: tuple[int], block: tuple[int], arguments: tuple[Any]) -> None:
            self.grids.append(*grid)
            run(*grid, *block, arguments[0].ctypes.data)

        return launch

    def occupancy(self, function: Any) -> geometry.Occupancy:
        """Few blocks at once."""
        return geometry.Occupancy(multiprocessors=1, blocks_each=2)

    def flag(self) -> Any:
        """A zero in memory."""
        cell = np.zeros(1, np.int32)
        return cell.ctypes.data, lambda: int(cell[0])


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

    @property
    def array_module(self) -> Any:
        """NumPy."""
        return np
