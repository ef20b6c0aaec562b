"""Whether the processor's own counters can be read here, without which no traffic is measured."""

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
SYSCALLS = {"x86_64": 298, "aarch64": 241}
"""The number of perf_event_open: Linux, arch/x86/entry/syscalls/syscall_64.tbl and asm-generic."""
ATTRIBUTE_BYTES = 112
HARDWARE = 0
CACHE_MISSES = 3
DISABLED_USER_ONLY = 0b1 | 1 << 5 | 1 << 6  # disabled, exclude_kernel, exclude_hv


def unavailable() -> str | None:
    """Return why misses of the last cache cannot be counted, or None where they can."""
    if not sys.platform.startswith("linux"):
        return "perf events are Linux's"
    number = SYSCALLS.get(platform.machine())
    if number is None:
        return f"perf events on {platform.machine()} are not known here"
    # struct perf_event_attr (man 2 perf_event_open): type, size, config, …, flags at byte 40
    attribute = bytearray(ATTRIBUTE_BYTES)
    struct.pack_into("=IIQ", attribute, 0, HARDWARE, ATTRIBUTE_BYTES, CACHE_MISSES)
    struct.pack_into("=Q", attribute, 40, DISABLED_USER_ONLY)
    library = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * ATTRIBUTE_BYTES).from_buffer(attribute)
    descriptor = library.syscall(number, buffer, 0, -1, -1, 0)
    if descriptor < 0:
        return f"perf_event_open: {os.strerror(ctypes.get_errno())}{_advice()}"
    os.close(descriptor)
    return None


def _advice() -> str:
    try:
        level = int(PARANOID.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ": this kernel or container has no perf events"
    if level > 2:
        return f": kernel.perf_event_paranoid is {level}; sysctl kernel.perf_event_paranoid=1"
    return ": virtual machines and containers often hide the counters"
