"""Memory for machine code: large pieces of address space, given out page by page.

A mapping for each kernel would soon be as many as a process may have. Here a piece is reserved
once; pages become writable while code is written to them and executable afterwards, never both,
so that neighbouring kernels are one mapping again. The memory is private to the process: a forked
child has a copy of its own and writes where it likes.

A page is given out again only after the `Block` that held it is gone; nothing is ever unmapped.
"""

from __future__ import annotations

import ctypes
import os
import sys
from bisect import bisect_left, insort
from collections import deque
from functools import cache
from typing import Any

from fuser import forks
from fuser.backends.cpu.machine.object_file import PAGE

#: Address space that is reserved at once.
RESERVED_BYTES = 32 << 20

_NONE, _READ, _WRITE, _EXECUTE = 0, 1, 2, 4
_PRIVATE, _ANONYMOUS, _NO_RESERVE = 0x02, 0x20, 0x4000
_FAILED = ctypes.c_void_p(-1).value


def supported() -> bool:
    """Whether this is a platform whose memory and object files are known here."""
    known = sys.platform == "linux" and os.uname().machine == "x86_64"
    return known and sys.maxsize > 1 << 32 and os.sysconf("SC_PAGESIZE") == PAGE


@cache
def _system() -> Any:
    """The C library, with the types of what is called."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = pointer
    library.mmap.argtypes = [pointer, size, integer, integer, integer, ctypes.c_long]
    library.mprotect.argtypes = [pointer, size, integer]
    return library


class Block:
    """Pages that hold one file's code; they are free again when this object is gone."""

    def __init__(self, arena: Arena, address: int, size_bytes: int) -> None:
        """Own pages of an arena."""
        self._arena, self.address, self.size_bytes = arena, address, size_bytes

    def fill(self, content: bytes | bytearray, fixed_bytes: int) -> None:
        """Write the whole block once, before anybody runs it.

        Args:
            content: of the block.
            fixed_bytes: how much of it, whole pages, is executable and no longer writable.

        Raises:
            OSError: the system does not allow it.
        """
        _protect(self.address, self.size_bytes, _READ | _WRITE)
        ctypes.memmove(self.address, bytes(content), min(len(content), self.size_bytes))
        _protect(self.address, fixed_bytes, _READ | _EXECUTE)

    def __del__(self) -> None:
        """Hand the pages back; without a lock, for this may happen anywhere."""
        self._arena.returned.append((self.address, self.size_bytes))


def _protect(address: int, size_bytes: int, allowed: int) -> None:
    """Set what may be done with pages."""
    if _system().mprotect(address, size_bytes, allowed):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Arena:
    """All memory for code, in reserved pieces of address space."""

    def __init__(self, reserved_bytes: int = RESERVED_BYTES) -> None:
        """Nothing is reserved until something is wanted."""
        self._reserved_bytes = reserved_bytes
        self._lock = forks.lock()
        self._holes: list[tuple[int, int]] = []  # (address, bytes), sorted, none touch
        self.returned: deque[tuple[int, int]] = deque()

    def take(self, size_bytes: int) -> Block:
        """Pages for this many bytes.

        Raises:
            OSError: the system gives no more.
        """
        wanted = -(-size_bytes // PAGE) * PAGE
        with self._lock:
            while self.returned:
                self._give_back(*self.returned.popleft())
            number = next((k for k, hole in enumerate(self._holes) if hole[1] >= wanted), None)
            if number is None:
                number = self._give_back(*self._reserve(wanted))
            address, size = self._holes[number]
            if size == wanted:
                del self._holes[number]
            else:
                self._holes[number] = address + wanted, size - wanted
        return Block(self, address, wanted)

    def _reserve(self, wanted: int) -> tuple[int, int]:
        """A new piece of address space."""
        size = max(wanted, self._reserved_bytes)
        flags = _PRIVATE | _ANONYMOUS | _NO_RESERVE
        address = _system().mmap(None, size, _NONE, flags, -1, 0)
        if address in (None, _FAILED):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(address), size

    def _give_back(self, address: int, size: int) -> int:
        """Add a hole, joined with those beside it; returns its number."""
        holes = self._holes
        k = bisect_left(holes, (address, 0))
        if k < len(holes) and address + size == holes[k][0]:
            size += holes.pop(k)[1]
        if k and sum(holes[k - 1]) == address:
            k -= 1
            address, before = holes.pop(k)
            size += before
        insort(holes, (address, size))
        return k

    @property
    def free_bytes(self) -> int:
        """Reserved, and held by no block."""
        with self._lock:
            held = [size for _, size in (*self._holes, *self.returned)]
        return sum(held)


@cache
def arena() -> Arena | None:
    """The process's memory for code; None where the platform is not known."""
    return Arena() if supported() else None
