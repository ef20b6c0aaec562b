"""Load kernels where the free memory is single pages, gigabytes apart; a script for a test.

`python -m tests.backends.cpu.scattered_memory` in a process of its own: what it takes is never
given back. Code reaches its constants by 32-bit offsets, so a linker that asks for memory section
by section has to stop here (LLVM's older one ends the process).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable

import numpy as np

import fuser

GIGABYTE = 1 << 30
APART = 3 * GIGABYTE
BLOCKS = 40


def _calls() -> tuple[Callable[..., int | None], Callable[[int, int], int]]:
    """The C library's mmap and munmap: Python's own touch what they map."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library.mmap, library.munmap


def scatter() -> None:
    """Take every hole in the address space, then leave one page in each 3 GB below."""
    take, give = _calls()
    no_reserve = 0x4000

    def reserve(size: int) -> int | None:
        place = take(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve, -1, 0)
        return None if place in (None, ctypes.c_size_t(-1).value) else int(place)

    lowest = reserve(4 * GIGABYTE)
    assert lowest is not None
    size = 64 * GIGABYTE
    while size >= mmap.PAGESIZE:
        place = reserve(size)
        if place is None or place < lowest:
            if place is not None:
                give(place, size)
            size //= 2
    for _ in range(BLOCKS):
        place = reserve(APART)
        if place is not None:
            give(place + APART - 3 * mmap.PAGESIZE, mmap.PAGESIZE)


def main() -> None:
    """Ten kernels with constants and calls, each compared with NumPy."""
    x = np.linspace(0.1, 1.0, 37)
    warm = fuser.fuse(lambda a: np.exp(a) + 1.0)
    warm(x)
    scatter()
    for k in range(10):

        def formula(a: np.ndarray, b: np.ndarray, k: int = k) -> np.ndarray:
            return np.exp(a) * b + np.sin(a) * k + np.log(b)

        np.testing.assert_allclose(fuser.fuse(formula)(x, x), formula(x, x))
    print("loaded")


if __name__ == "__main__":
    main()
