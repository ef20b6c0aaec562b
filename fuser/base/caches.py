"""What is remembered for a whole process: four caches, memo tables with a limit, and their table.

A cache holds what is expensive to make. A memo table (`memo`) holds what a function that reads
nothing but its arguments gave for the last of them: forgetting changes nothing but time. Both are
in the table, so that `clear_caches` reaches everything, and whoever looks finds it in one file.

With them, digests of texts: kernels are named and kept by these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

try:  # `hashlib` gives the same function, and loads OpenSSL: 3 ms of the first `fuse`
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from fuser.base.records import record

Value = TypeVar("Value")
Function = TypeVar("Function", bound=Callable[[], Any])


@record
class Cache:
    """One cache.

    Attributes:
        name: what is remembered.
        place: the file that keeps it.
        key: what an entry is found by.
        limit: how much it holds, and what happens then.
        cleared: what empties it.
    """

    name: str
    place: str
    key: str
    limit: str
    cleared: str


#: The caches; CONTRIBUTING has them, too. Beside them there are one value for each process (a lock,
#: a loaded library) and tables that modules fill when they are imported.
CACHES = (
    Cache(
        "traces",
        "fuser/calls/fused_function.py",
        "a fused function, and the types, dtypes, ranks, patterns and guards of its arguments",
        "512 signatures of a function, more run in NumPy; 256 fast paths, then these start anew",
        "clear_caches(), and the function's end",
    ),
    Cache(
        "specs",
        "fuser/kernel_cache.py",
        "a graph's canonical text, mode, fastmath and errstate; kernels by argument spec in each",
        "4096 specs: the oldest goes, but those that `register_fusion` gave a key for",
        "clear_caches()",
    ),
    Cache(
        "machine code",
        "fuser/base/disk_cache.py",
        "the kernel's text, the processor, and versions of fuser and LLVM; on disk",
        "256 MiB and 4096 entries: the least recently used goes",
        "`fuser-bench cache clear`",
    ),
    Cache(
        "memory",
        "backends/cpu/machine/pool.py",
        "the size of a result",
        "an eighth of the memory, 2 GiB and 64 blocks at most: older ones go",
        "clear_caches()",
    ),
)

_clears: list[Callable[[], Any]] = []
_memos: list[_lru_cache_wrapper[Any]] = []


def clears(function: Function) -> Function:
    """Mark a function that empties a cache."""
    _clears.append(function)
    return function


def memo(limit: int) -> Callable[[Callable[..., Value]], _lru_cache_wrapper[Value]]:
    """Remember what a function gave for the last `limit` arguments.

    Args:
        limit: entries; the least recently used goes.
    """

    def make(function: Callable[..., Value]) -> _lru_cache_wrapper[Value]:
        made = lru_cache(maxsize=limit)(function)
        _memos.append(made)
        return made

    return make


def clear() -> None:
    """Empty the caches of this process and the memo tables."""
    for function in (*_clears, *(each.cache_clear for each in _memos)):
        function()


def digest(*parts: bytes) -> bytes:
    """The 32 bytes of the digest of what the parts are together."""
    return blake2b(b"".join(parts), digest_size=32).digest()
