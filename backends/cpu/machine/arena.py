"""Memory for machine code: large pieces of address space, given out page by page.

A mapping for each kernel would soon be as many as a process may have. Here a piece is reserved
once; pages become writable while code is written to them and executable afterwards, never both,
so that neighbouring kernels are one mapping again. The memory is private to the process: a forked
child has a copy of its own and writes where it likes.

A page is given out again only after the `Block` that held it is gone; nothing is ever unmapped.

Some systems refuse to make memory executable (PR_SET_MDWE, seccomp, SELinux), and some processes
have little address space (RLIMIT_AS). LLVM ends the process where it meets either, so both are
tried here first: `refusal` and `require_room`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from errno import ENOMEM
from functools import cache
from typing import Any

from fuser.backend import CompileError
from fuser.backends.cpu.machine.object_file import MACHINES, PAGE
from fuser.base import forks

#: Address space that is reserved at once, where so many times as much is left; else only what is
#: wanted is.
RESERVED_BYTES, _PLENTY = 32 << 20, 8
#: Address space that LLVM's library takes when it is loaded, and that compiling a kernel takes, at
#: most: 180 MB and 20 MB were seen.
LIBRARY_BYTES, COMPILE_BYTES = 256 << 20, 64 << 20

_NONE, _READ, _WRITE, _EXECUTE = 0, 1, 2, 4
_PRIVATE, _ANONYMOUS, _NO_RESERVE = 0x02, 0x20, 0x4000
_FAILED = ctypes.c_void_p(-1).value


def supported() -> bool:
    """Whether this is a platform whose memory and object files are known here."""
    known = sys.platform == "linux" and os.uname().machine in MACHINES and sys.maxsize > 1 << 32
    if not known or os.sysconf("SC_PAGESIZE") != PAGE:
        return False
    return _sees_writes() or _clear_cache() is not None


def _sees_writes() -> bool:
    """Whether the processor runs what was just written; others keep what was there before."""
    return os.uname().machine == "x86_64"


@cache
def _clear_cache() -> Any:
    """What has a processor forget code that was there before; None where it is not to be had."""
    try:
        found = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
    except (OSError, AttributeError):
        return None
    found.restype, found.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p]
    return found


@cache
def _system() -> Any:
    """The C library, with the types of what is called."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = pointer
    library.mmap.argtypes = [pointer, size, integer, integer, integer, ctypes.c_long]
    library.mprotect.argtypes = [pointer, size, integer]
    library.munmap.argtypes = [pointer, size]
    return library


def refusal() -> str | None:
    """Why the system lets no code run that this process makes; None where it does."""
    if sys.platform != "linux":
        return None
    try:
        address = _mapped(PAGE)
        try:
            _protect(address, PAGE, _READ | _WRITE)
            _protect(address, PAGE, _READ | _EXECUTE)
        finally:
            _unmap(address, PAGE)
    except OSError as error:
        return told(error)
    return None


def told(error: OSError) -> str:
    """In words, what it means that memory for machine code was refused."""
    if error.errno == ENOMEM:
        return f"there is no memory for machine code ({error.strerror}); see ulimit -v"
    return (
        f"the system refuses executable memory ({error.strerror}), which compiled kernels need: "
        "PR_SET_MDWE, a seccomp filter or SELinux forbids it to this process"
    )


def require_room(size_bytes: int) -> None:
    """Check that so much address space is left: LLVM would end the process where it is not.

    Raises:
        CompileError: it is not.
    """
    if sys.platform != "linux":
        return
    try:
        _unmap(_mapped(size_bytes), size_bytes)
    except OSError:
        raise CompileError(
            "backend-unavailable",
            f"less than {size_bytes >> 20} MiB of address space are left to compile in; "
            "see ulimit -v",
        ) from None


def _unmap(address: int, size_bytes: int) -> None:
    """Give a piece of address space back."""
    _system().munmap(address, size_bytes)


def _mapped(size_bytes: int) -> int:
    """The address of a new piece of address space.

    Raises:
        OSError: there is none.
    """
    flags = _PRIVATE | _ANONYMOUS | _NO_RESERVE
    address = _system().mmap(None, size_bytes, _NONE, flags, -1, 0)
    if address in (None, _FAILED):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(address)


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
        if not _sees_writes():
            _clear_cache()(self.address, self.address + self.size_bytes)
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
        self._taking = False
        self._holes: list[tuple[int, int]] = []  # (address, bytes), sorted, none touch
        self.returned: deque[tuple[int, int]] = deque()

    def take(self, size_bytes: int) -> Block:
        """Pages for this many bytes.

        Raises:
            OSError: the system gives no more.
        """
        wanted = -(-size_bytes // PAGE) * PAGE
        if self._taking and forks.held_here(self._lock):  # a signal handler, or a finaliser
            return Block(self, _mapped(wanted), wanted)
        with self._lock:
            self._taking = True
            try:
                address = self._taken(wanted)
            finally:
                self._taking = False
        return Block(self, address, wanted)

    def _taken(self, wanted: int) -> int:
        """The address of whole pages that are free."""
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
        return address

    def _reserve(self, wanted: int) -> tuple[int, int]:
        """A new piece of address space."""
        size = max(wanted, self._reserved_bytes)
        try:
            _unmap(_mapped(_PLENTY * size), _PLENTY * size)
        except OSError:  # others need what is left
            size = wanted
        return _mapped(size), size

    def _give_back(self, address: int, size: int) -> int:
        """Add a hole, joined with those beside it; returns its number."""
        holes = self._holes
        k = sum(hole < (address, 0) for hole in holes)
        if k < len(holes) and address + size == holes[k][0]:
            size += holes.pop(k)[1]
        if k and sum(holes[k - 1]) == address:
            k -= 1
            address, before = holes.pop(k)
            size += before
        holes.insert(k, (address, size))
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
