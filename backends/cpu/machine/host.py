"""What LLVM says of this processor, remembered between processes.

LLVM's library is large, and a process whose machine code is all in the disk cache needs nothing
else of it. So what it said is kept beside the code, under a name that depends on all that the
answer depends on: the processor as the system describes it and as its own instruction CPUID does,
or the words that Linux gives a process on aarch64 (under an emulator the two differ), the system's
release, and the very file of the library. Where any of that is not known, or anything differs, LLVM
is asked again.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from fuser.backends.cpu.machine import arena
from fuser.backends.cpu.machine.object_file import PAGE
from fuser.base import disk_cache, forks
from fuser.base.caches import digest
from fuser.base.records import record

PROCESSORS = "/proc/cpuinfo"
#: What identifies a processor; the rest varies between its cores or by the minute.
_IDENTITY = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
)  # fmt: skip
#: The first processor's lines are within this many bytes.
_FIRST_BYTES = 8192


@record
class Host:
    """Versions, and the processor in LLVM's words: its name, and `+feature,-feature…`."""

    llvmlite: str
    llvm: str
    triple: str
    cpu: str
    features: str

    @property
    def text(self) -> str:
        """One of these a line."""
        return "\n".join((self.llvmlite, self.llvm, self.triple, self.cpu, self.features))

    @property
    def has(self) -> frozenset[str]:
        """The features of the processor, by LLVM's names."""
        parts = self.features.split(",")
        return frozenset(part[1:] for part in parts if part.startswith("+"))


def _compiler_at_rest() -> Callable[[], None] | None:
    """Wait for LLVM's lock, which llvmlite holds during each call; returns what gives it back.

    A forked child could not go on with what another thread left halfway.
    """
    ffi = sys.modules.get("llvmlite.binding.ffi")
    turn = getattr(getattr(ffi, "lib", None), "_lock", None)
    if turn is None:
        return None
    turn.__enter__()
    return lambda: turn.__exit__(None, None, None)


forks.wait_for(_compiler_at_rest)


def library() -> Any:
    """LLVM, as llvmlite has it.

    Raises:
        CompileError: there is no room to load it.
        ImportError, OSError: llvmlite, or its library, is missing or cannot be loaded.
    """
    if "llvmlite.binding" not in sys.modules:
        arena.require_room(arena.LIBRARY_BYTES)
    import llvmlite.binding as llvm

    return llvm


def missing(error: Exception) -> str:
    """In words, why LLVM cannot be loaded."""
    if isinstance(error, ImportError):
        return f"llvmlite cannot be imported ({error}); install llvmlite"
    return f"llvmlite's library cannot be loaded ({error})"


def asked() -> Host:
    """What LLVM says now.

    Raises:
        CompileError, ImportError, OSError: as `library`.
    """
    llvm = library()
    import llvmlite

    return Host(
        llvmlite.__version__,
        str(llvm.llvm_version_info),
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )


@cache
def host() -> Host:
    """What LLVM says of this processor: now, or in an earlier process if it is not loaded yet.

    Raises:
        CompileError, ImportError, OSError: as `library`.
    """
    if "llvmlite.binding" in sys.modules:
        return asked()
    key = _key()
    kept = disk_cache.read(key, ".host") if key else None
    fields = kept.decode().split("\n") if kept else []
    if len(fields) == len(Host.__match_args__):
        return Host(*fields)
    found = asked()
    if key:
        disk_cache.write(key, found.text.encode(), ".host")
    return found


#: `void f(unsigned leaf, unsigned part, unsigned words[4])`: push rbx; mov r8, rdx; mov eax, edi;
#: mov ecx, esi; cpuid; mov [r8], eax; mov [r8+4], ebx; mov [r8+8], ecx; mov [r8+12], edx; pop rbx;
#: ret. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID.
_CODE = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
#: Leaves and parts of them that list features, and which of their four words: the others say which
#: core this is.
_LEAVES = (
    (0, 0, (0, 1, 2, 3)), (1, 0, (0, 2, 3)), (7, 0, (1, 2, 3)), (7, 1, (0, 1, 2, 3)),
    (0xD, 1, (0,)), (0x14, 0, (1,)), (0x19, 0, (1,)), (0x24, 0, (1,)),
    (0x80000001, 0, (2, 3)),
)  # fmt: skip
#: AT_HWCAP and AT_HWCAP2 of aarch64: its features. Source: Linux, "ARM64 ELF hwcaps".
_HARDWARE = (16, 26)


def cpuid() -> tuple[int, ...] | None:
    """What the processor, or what emulates it, says of its features; None where it says nothing."""
    memory = arena.arena()
    if memory is None:
        return None
    if os.uname().machine == "aarch64":
        return _hardware()
    try:
        block = memory.take(PAGE)
        block.fill(_CODE + bytes(PAGE - len(_CODE)), PAGE)
    except OSError:
        return None
    words = (ctypes.c_uint32 * 4)()
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(block.address)
    ask(0, 0, ctypes.addressof(words))
    last = words[0]
    found: list[int] = []
    for leaf, part, wanted in _LEAVES:
        if leaf <= last or leaf >= 0x80000000:  # beyond the last one are other leaves' words
            ask(leaf, part, ctypes.addressof(words))
            found += [leaf, part, *(words[k] for k in wanted)]
    return tuple(found)


def _hardware() -> tuple[int, ...] | None:
    """The words that Linux hands to each process; a system that has none of them says nothing."""
    ask = getattr(ctypes.CDLL(None), "getauxval", None)
    if ask is None:
        return None
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    found = tuple(int(ask(kind)) for kind in _HARDWARE)
    return found if any(found) else None


def _key() -> str | None:
    """The name of what is remembered; None where something that it depends on is not known."""
    import llvmlite

    folder = os.path.dirname(llvmlite.__file__)
    try:
        library = os.stat(os.path.join(folder, "binding", "libllvmlite.so"))
        with open(PROCESSORS, "rb", buffering=0) as file:
            text = file.read(_FIRST_BYTES).decode("ascii", "replace")
    except OSError:
        return None
    first = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    known = {name.strip(): value for name, value in first.items()}
    identity = [known[name] for name in _IDENTITY if name in known]
    words = cpuid()
    if words is None or len(identity) < 6:  # as many as any processor has
        return None
    system = os.uname()
    parts = [
        "2", llvmlite.__version__, folder, f"{library.st_size} {library.st_mtime_ns}",
        system.sysname, system.release, system.version, system.machine, *identity, str(words),
    ]  # fmt: skip
    return digest("\n".join(parts).encode()).hex()
