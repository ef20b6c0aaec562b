"""NVRTC through its C interface, from the PyPI package: compiles text where there is no CuPy."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuser.backends.gpu.variants import Variant


@cache
def _library(path: str) -> Any:
    """Load the library."""
    for needed in Path(path).parent.glob("libnvrtc-builtins.so.*"):  # 13.0 looks for it elsewhere
        ctypes.CDLL(str(needed))
    return ctypes.CDLL(path)


def compile_with_nvrtc(path: str, text: str, options: tuple[str, ...]) -> tuple[int, str]:
    """Compile a unit to machine code; in a third of the time with QUICK_CODE.

    What text is accepted, and what it is warned of, stays the same. NVRTC stays quick once it was
    told to be, so it is told in a process of its own, which imports nothing else.

    Args:
        path: of the library.
        text: CUDA C++.
        options: flags, the architecture among them.

    Returns:
        Bytes of machine code, 0 where it failed, and the log.
    """
    if not os.environ.get("QUICK_CODE"):
        code, log = machine_code(path, text, options)
        return len(code), log
    command = [sys.executable, "-I", __file__, path, *options, "--Ofast-compile=max"]
    done = subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.PIPE)
    size, _, log = done.stdout.partition("\n")
    return int(size), log


def machine_code(path: str, text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Likewise; the machine code itself, empty where it failed."""
    return _compiled(path, text, options, "CUBIN")


def assembly_text(
    path: str, text: str, capability: str = "90", variant: Variant | None = None
) -> str:
    """A unit as PTX, with the flags of a variant, by default that which most calls run.

    Args:
        path: of the library.
        text: CUDA C++.
        capability: of the virtual machine.
        variant: what to compile.
    """
    from fuser.backends.gpu.nvrtc import flags
    from fuser.backends.gpu.variants import NARROW

    options = (*flags(variant or NARROW), f"--gpu-architecture=compute_{capability}")
    code, log = _compiled(path, text, options, "PTX")
    assert code, log
    return code.rstrip(b"\0").decode()


def _compiled(path: str, text: str, options: tuple[str, ...], form: str) -> tuple[bytes, str]:
    """A unit as "CUBIN" or "PTX", empty where it failed, and the log."""
    library = _library(path)
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"unit.cu", 0, None, None)
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = library.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(max(1, size.value))
    library.nvrtcGetProgramLog(program, log)
    code = ctypes.create_string_buffer(0)
    if not failed:
        getattr(library, f"nvrtcGet{form}Size")(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{form}")(program, code)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw, log.value.decode()


if __name__ == "__main__":
    code, log = machine_code(sys.argv[1], sys.stdin.read(), tuple(sys.argv[2:]))
    print(len(code), log, sep="\n", end="")
