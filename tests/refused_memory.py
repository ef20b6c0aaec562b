"""Programs whose system refuses executable memory or has little address space, run apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: `refuse(how)`: from then on, this process gets no executable memory; False where the kernel
#: cannot do that. MDWE is 65, PR_SET_NO_NEW_PRIVS 38, PR_SET_SECCOMP 22 with a filter (2): the
#: system calls mprotect and mmap, where their third argument has PROT_EXEC (4), give EACCES.
PRELUDE = """
import ctypes, os, resource, struct, sys

MPROTECT, MMAP = {"x86_64": (10, 9), "aarch64": (226, 222)}[os.uname().machine]

def refuse(how):
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    if how == "mdwe":
        return prctl(65, 1, 0, 0, 0) == 0
    calls = {"mprotect": [MPROTECT], "mmap": [MMAP, MPROTECT]}[how]
    rules = [(0x20, 0, 0, 0)]
    for number in calls:
        rules += [(0x15, 0, 4, number), (0x20, 0, 0, 32), (0x45, 0, 1, 4), (0x06, 0, 0, 0x0005000D),
                  (0x06, 0, 0, 0x7FFF0000)]
    rules.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("H6xQ", len(rules), ctypes.addressof(code)))
    return prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.addressof(program), 0, 0) == 0
"""


def run(program: str, cache: Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a program after the prelude, with a cache folder of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
    environment.pop("FUSER_CHECK", None)
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        capture_output=True, text=True, timeout=timeout_s, env=environment, check=False,
    )  # fmt: skip
