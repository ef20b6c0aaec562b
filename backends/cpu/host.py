"""What LLVM says of this processor, remembered between processes.

LLVM's library is large, and a process whose machine code is all in the disk cache needs nothing
else of it. So what it said is kept beside the code, under a name that depends on all that the
answer depends on: the processor as the system describes it, the system's release, and the very
file of the library. Where any of that is not known, or anything differs, LLVM is asked again.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import NamedTuple

from fuser.backends.cpu import disk_cache
from fuser.digest import sha256

PROCESSORS = "/proc/cpuinfo"
#: What identifies a processor; the rest varies between its cores or by the minute.
_IDENTITY = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
)  # fmt: skip
#: The first processor's lines are within this many bytes.
_FIRST_BYTES = 8192


class Host(NamedTuple):
    """Versions, and the processor in LLVM's words: its name, and `+feature,-feature…`."""

    llvmlite: str
    llvm: str
    triple: str
    cpu: str
    features: str

    @property
    def has(self) -> frozenset[str]:
        """The features that it has."""
        parts = self.features.split(",")
        return frozenset(part[1:] for part in parts if part.startswith("+"))


def asked() -> Host:
    """What LLVM says now.

    Raises:
        ImportError: llvmlite, or its library, is missing.
    """
    import llvmlite
    import llvmlite.binding as llvm

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
        ImportError: llvmlite is missing.
    """
    if "llvmlite.binding" in sys.modules:
        return asked()
    key = _key()
    kept = disk_cache.read(key, ".host") if key else None
    fields = kept.decode().split("\n") if kept else []
    if len(fields) == len(Host._fields):
        return Host(*fields)
    found = asked()
    if key:
        disk_cache.write(key, "\n".join(found).encode(), ".host")
    return found


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
    if len(identity) < 6:  # as many as any processor has
        return None
    system = os.uname()
    parts = [
        "1", llvmlite.__version__, folder, f"{library.st_size} {library.st_mtime_ns}",
        system.sysname, system.release, system.version, system.machine, *identity,
    ]  # fmt: skip
    return str(sha256("\n".join(parts).encode()).hexdigest())
