"""What the processes that measure are started with, and when one of them is at rest."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

PAUSE_S, LONGEST_PAUSE_S = 0.003, 0.2
"""How long a process whose turn is over has at least and at most until its threads are asleep.

Idle threads of libgomp, which numba, torch and loops in C have, spin for 8 to 20 ms: on two cores
one would be gone for whoever is next."""
QUIET: Mapping[str, str] = {"OPENBLAS_THREAD_TIMEOUT": "20"}
"""Idle threads of OpenBLAS would spin for 2^26 cycles, far beyond the pause, on others' time."""


def child_environment() -> dict[str, str]:
    """Return a child's environment: it finds what this process finds on its path.

    Machine code kept from earlier runs is not used, unless FUSER_CACHE says so: first calls are
    cold ones.
    """
    path = os.pathsep.join(dict.fromkeys(each or str(Path.cwd()) for each in sys.path))
    return {"FUSER_CACHE": "off", **QUIET, **os.environ, "PYTHONPATH": path}


def settle(pid: int) -> None:
    """Wait until no thread of a process runs any more."""
    ends_s = time.monotonic() + LONGEST_PAUSE_S
    time.sleep(PAUSE_S)
    while runs(pid) and time.monotonic() < ends_s:
        time.sleep(PAUSE_S / 3)


def runs(pid: int, root: Path = Path("/proc")) -> bool:
    """Return whether a thread of a process runs, or wants to; False where nobody says.

    Clocks of another process would not do: they are brought up to date every few milliseconds.
    """
    for place in (root / str(pid) / "task").glob("*/stat"):
        try:
            text = place.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            continue
        if text.rpartition(")")[2].split()[0] == "R":  # its name may hold brackets
            return True
    return False
