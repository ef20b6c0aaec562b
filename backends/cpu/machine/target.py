"""The processor that code is made for: features, target machine, symbol addresses."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

from fuser.backends.cpu.body import Features
from fuser.backends.cpu.machine.host import host
from fuser.base import forks

#: What every processor of aarch64 has.
NEON = Features(vector_bytes=16, fma=True, f16c=True)
_X86_64, _AARCH64 = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
#: Processors for code that is looked at or measured: (name, system, Features).
KNOWN_TARGETS = {
    "baseline": ("x86-64", _X86_64, Features()),
    "avx2": ("haswell", _X86_64, Features(vector_bytes=32, fma=True, f16c=True)),
    "avx512": (
        "skylake-avx512", _X86_64, Features(vector_bytes=64, fma=True, f16c=True, masked=True)
    ),
    "neon": ("neoverse-n1", _AARCH64, NEON),
}  # fmt: skip

CODE_MODEL, RELOCATION = "small", "pic"


@cache
def environment() -> bytes:
    """What machine code for this processor depends on besides its text."""
    return "\n".join((host().text, CODE_MODEL, RELOCATION)).encode()


_initialised = False
_lock = forks.lock()


def initialise() -> None:
    """Prepare LLVM for this processor, once a process."""
    global _initialised
    import llvmlite.binding as llvm

    with _lock:
        if not _initialised:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            _initialised = True


@cache
def host_features() -> Features:
    """What this processor can do."""
    known = host()
    if known.triple.startswith(("aarch64", "arm64")):
        return NEON
    if not known.triple.startswith("x86_64"):
        return Features(fma=True)
    wide = {"avx512vl", "avx512bw", "avx512dq"} <= known.has
    size = 64 if wide else 32 if "avx2" in known.has else 16
    gathers = wide and not known.cpu.startswith("znver") and _gathers_at_once()
    return Features(size, "fma" in known.has, "f16c" in known.has, wide, gathers)


def _gathers_at_once() -> bool:
    """Whether no patch of a processor has it read lane by lane, with a wait after each."""
    try:
        with open("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling") as told:
            return told.read().strip() == "Not affected"
    except OSError:
        return False


_machines = threading.local()


def target_machine(quick: bool = False) -> Any:
    """This thread's target machine for this processor; a quick one compiles to slower code."""
    name = "quick" if quick else "host"
    found = getattr(_machines, name, None)
    if found is None:
        import llvmlite.binding as llvm

        initialise()
        target = llvm.Target.from_default_triple()
        found = target.create_target_machine(
            cpu=host().cpu,
            features=host().features,
            opt=0 if quick else 2,
            jit=True,
            # With the large model constants are spilled and loaded again, often across cache
            # lines; with the small one they are operands in memory.
            codemodel=CODE_MODEL,
            reloc=RELOCATION,
        )
        setattr(_machines, name, found)
    return found


def cross_machine(name: str) -> Any:
    """A target machine for one of `KNOWN_TARGETS`; its code is looked at, not run."""
    import llvmlite.binding as llvm

    initialise()
    cpu, triple, _ = KNOWN_TARGETS[name]
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, opt=2, jit=True, codemodel=CODE_MODEL, reloc=RELOCATION
    )


@cache
def _libraries() -> tuple[Any, ...]:
    """The process's own symbols, then the mathematics library."""
    found: list[Any] = [ctypes.CDLL(None)] if hasattr(ctypes, "CDLL") else []
    if _needs_libm():
        from ctypes.util import find_library  # which loads a good part of the standard library

        name = find_library("m")
        if name:
            found.append(ctypes.CDLL(name))
    return tuple(found)


def _needs_libm() -> bool:
    """Whether the process's own symbols lack the mathematics library."""
    return not hasattr(ctypes.CDLL(None), "cbrtf")


@cache
def address_of(symbol: str) -> int | None:
    """The address of a C library function, or None where this machine lacks it."""
    for library in _libraries():
        found = getattr(library, symbol, None)
        if found is not None:
            return ctypes.cast(found, ctypes.c_void_p).value
    return None


@cache
def stream_bytes() -> int:
    """Calls that touch more than this write past the caches: the last cache's size."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as size:
            return int(size.read().strip().rstrip("K")) << 10
    except (OSError, ValueError):
        return 32 << 20
