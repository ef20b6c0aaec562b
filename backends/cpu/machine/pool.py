"""The output pool: memory of large results comes back when their array dies, for the next one.

Fresh memory costs page faults, several times the price of writing into memory that is mapped
already. The pool is a NumPy memory handler (NEP 49), so arrays own their data, resize and pickle
as ever. Its functions are native: NumPy may call them while the interpreter shuts down.

Blocks are multiples of 64 KiB, aligned to pages (2 MiB from 4 MiB on, where huge pages are asked
for): a processor takes a load for one of what has just been stored where their places in a page
are equal, and results that lay 64 to 256 bytes behind operands took up to 1.25 times as long. At
most `LIMIT` bytes and 64 blocks wait for reuse; older ones give way. Under pressure the pool
shrinks: blocks of 4 MiB and more that have waited while another came back are marked, so that the
kernel takes their pages (MADV_FREE) before anything of use; and where the system refuses memory,
be it to the pool or to NumPy for an array of its own, all waiting blocks are given back and it is
asked once more (a limit of address space may be set at any time, and nothing tells of it). In a
loop whose results are taken again at once nothing is marked: marking costs a tenth of computing
them.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from functools import cache
from typing import Any

import numpy as np

from fuser.backend import CompileError
from fuser.backends.cpu.machine import processors
from fuser.backends.cpu.machine.loader import load_forever
from fuser.backends.cpu.tuning import POOLED_BYTES as THRESHOLD
from fuser.base import config, forks

__all__ = ["THRESHOLD", "OutputPool", "empty", "numpy_api", "pool"]

#: A function that has all waiting blocks given back where it gets no memory, and asks once more.
_GIVING_WAY = """
define {0} ptr @{1}(ptr %context, {2}) {{
entry:
  {3}
  %first = call ptr {4}
  %none = icmp eq ptr %first, null
  br i1 %none, label %again, label %got
again:
  call void @pool_trim()
  %second = call ptr {4}
  ret ptr %second
got:
  ret ptr %first
}}
"""
#: What takes and changes memory in NumPy's handlers, with its parameters.
_ASKING = {
    "malloc": "i64 %size",
    "calloc": "i64 %count, i64 %size",
    "realloc": "ptr %old, i64 %size",
}
_TEXT = """\
@slots = internal global [64 x { ptr, i64 }] zeroinitializer
@held = global i64 0
@limit = global i64 0
@lock = global i32 0
@cursor = internal global i64 0
@reused = global i64 0
@numpys = global [3 x ptr] zeroinitializer

declare ptr @aligned_alloc(i64, i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)

define internal void @enter() {
entry:
  br label %try
try:
  %pair = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %ok = extractvalue { i32, i1 } %pair, 1
  br i1 %ok, label %done, label %try
done:
  ret void
}

define internal void @leave() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

define internal i64 @round(i64 %size) {
  %up = add i64 %size, 65535
  %whole = and i64 %up, -65536
  ret i64 %whole
}

define ptr @pool_malloc(ptr %context, i64 %size) {
entry:
  %want = call i64 @round(i64 %size)
  call void @enter()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %slot = getelementptr { ptr, i64 }, ptr @slots, i64 %i
  %p = load ptr, ptr %slot
  %place = getelementptr i8, ptr %slot, i64 8
  %noted = load i64, ptr %place
  %have = and i64 %noted, -2
  %full = icmp ne ptr %p, null
  %fits = icmp eq i64 %have, %want
  %hit = and i1 %full, %fits
  br i1 %hit, label %take, label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, 64
  br i1 %more, label %loop, label %miss
take:
  store ptr null, ptr %slot
  %h = load i64, ptr @held
  %h1 = sub i64 %h, %want
  store i64 %h1, ptr @held
  %r = load i64, ptr @reused
  %r1 = add i64 %r, 1
  store i64 %r1, ptr @reused
  call void @leave()
  ret ptr %p
miss:
  call void @leave()
  %fresh = call ptr @fresh(ptr %context, i64 %want)
  ret ptr %fresh
}

define internal ptr @obtain(i64 %want) {
entry:
  %big = icmp uge i64 %want, 4194304
  br i1 %big, label %huge, label %plain
plain:
  %a = call ptr @aligned_alloc(i64 4096, i64 %want)
  ret ptr %a
huge:
  %b = call ptr @aligned_alloc(i64 2097152, i64 %want)
  %got = icmp ne ptr %b, null
  br i1 %got, label %advise, label %none
advise:
  %ignored = call i32 @madvise(ptr %b, i64 %want, i32 14)
  ret ptr %b
none:
  ret ptr null
}

define internal ptr @evict() {
  %i = load i64, ptr @cursor
  %i1 = add i64 %i, 1
  %wrapped = and i64 %i1, 63
  store i64 %wrapped, ptr @cursor
  %slot = getelementptr { ptr, i64 }, ptr @slots, i64 %i
  %p = load ptr, ptr %slot
  %full = icmp ne ptr %p, null
  br i1 %full, label %drop, label %none
drop:
  %place = getelementptr i8, ptr %slot, i64 8
  %noted = load i64, ptr %place
  %size = and i64 %noted, -2
  store ptr null, ptr %slot
  %h = load i64, ptr @held
  %h1 = sub i64 %h, %size
  store i64 %h1, ptr @held
  call void @free(ptr %p)
  ret ptr %slot
none:
  ret ptr %slot
}

define internal void @lend(i64 %at) {
entry:
  %less = sub i64 %at, 1
  %last = and i64 %less, 63
  %slot = getelementptr { ptr, i64 }, ptr @slots, i64 %last
  %p = load ptr, ptr %slot
  %full = icmp ne ptr %p, null
  br i1 %full, label %look, label %done
look:
  %place = getelementptr i8, ptr %slot, i64 8
  %size = load i64, ptr %place
  %lent.bit = and i64 %size, 1
  %own = icmp eq i64 %lent.bit, 0
  %big = icmp uge i64 %size, 4194304
  %wanted = and i1 %own, %big
  br i1 %wanted, label %mark, label %done
mark:
  %ignored = call i32 @madvise(ptr %p, i64 %size, i32 8)
  %lent = or i64 %size, 1
  store i64 %lent, ptr %place
  br label %done
done:
  ret void
}

define void @pool_free(ptr %context, ptr %p, i64 %size) {
entry:
  %want = call i64 @round(i64 %size)
  %limit = load i64, ptr @limit
  %too.big = icmp ugt i64 %want, %limit
  br i1 %too.big, label %drop, label %keep
drop:
  call void @free(ptr %p)
  ret void
keep:
  call void @enter()
  %at = load i64, ptr @cursor
  call void @lend(i64 %at)
  br label %room
room:
  %slot = call ptr @evict()
  %h = load i64, ptr @held
  %h1 = add i64 %h, %want
  %over = icmp ugt i64 %h1, %limit
  br i1 %over, label %room, label %put
put:
  store i64 %h1, ptr @held
  %place = getelementptr i8, ptr %slot, i64 8
  store i64 %want, ptr %place
  store ptr %p, ptr %slot
  call void @leave()
  ret void
}

define void @pool_trim() {
entry:
  call void @enter()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %slot = call ptr @evict()
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, 64
  br i1 %more, label %loop, label %done
done:
  call void @leave()
  ret void
}
"""

_EXPORTS = (
    "pool_malloc", "pool_calloc", "pool_realloc", "pool_free", "pool_trim", "held", "limit",
    "lock", "reused", "numpys", *(f"numpy_{name}" for name in _ASKING),
)  # fmt: skip


def _text() -> str:
    """The native functions."""
    rounded = "%want = call i64 @round(i64 %size)"
    whole = "%all = mul i64 %count, %size\n  %want = call i64 @round(i64 %all)"
    asking = [
        ("internal", "fresh", "i64 %want", "", "@obtain(i64 %want)"),
        ("", "pool_calloc", _ASKING["calloc"], whole, "@calloc(i64 1, i64 %want)"),
        ("", "pool_realloc", _ASKING["realloc"], rounded, "@realloc(ptr %old, i64 %want)"),
    ]
    for place, (name, parameters) in enumerate(_ASKING.items()):
        setup = f"%place = getelementptr ptr, ptr @numpys, i64 {place}\n"
        setup += "  %function = load ptr, ptr %place"
        asked = f"%function(ptr %context, {parameters})"
        asking.append(("", f"numpy_{name}", parameters, setup, asked))
    return _TEXT + "".join(_GIVING_WAY.format(*each) for each in asking)


class _Allocator(ctypes.Structure):
    """PyDataMemAllocator of NumPy's C API."""

    _fields_ = [(n, ctypes.c_void_p) for n in ("ctx", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of NumPy's C API, version 1 (NEP 49)."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", _Allocator),
    ]


def default_limit() -> int:
    """Bytes that may wait for reuse: an eighth of the memory, at most 2 GiB.

    Where a control group allows this process less memory, an eighth of that.
    """
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 256 << 20
    return min(total // 8, (processors.memory_limit() or total) // 8, 2 << 30)


class OutputPool:
    """Allocates arrays whose memory returns here when they die."""

    def __init__(self) -> None:
        """Compile the native functions and make the handler."""
        self._places = load_forever(_text(), _EXPORTS, quick=True)
        self._word("limit").value = default_limit()
        names = ("malloc", "calloc", "realloc", "free")
        functions = [self._places[f"pool_{name}"] for name in names]
        self._handler = _Handler(b"fuser_pool", 1, _Allocator(None, *functions))
        self._name = ctypes.create_string_buffer(b"mem_handler")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self._capsule = new(
            ctypes.addressof(self._handler), ctypes.addressof(self._name), None
        )
        for owned in (self._handler, self._name, self._capsule):  # arrays may outlive us
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))
        self._set = _set_handler()
        self._have_numpy_ask_again()
        self._trim = ctypes.CFUNCTYPE(None)(self._places["pool_trim"])
        if hasattr(os, "register_at_fork"):  # another thread may have held the lock
            os.register_at_fork(after_in_child=self._unlock)

    def _have_numpy_ask_again(self) -> None:
        """Put functions that empty the pool and ask again before those of NumPy's own handler."""
        capsule = ctypes.cast(numpy_api()[306], ctypes.POINTER(ctypes.py_object))[0]
        address = _pointer_in(capsule, self._name.value)
        allocator = _Handler.from_address(address).allocator
        numpys = (ctypes.c_void_p * len(_ASKING)).from_address(self._places["numpys"])
        for place, name in enumerate(_ASKING):
            numpys[place] = getattr(allocator, name)
            setattr(allocator, name, self._places[f"numpy_{name}"])

    def _word(self, name: str) -> Any:
        """A counter in native memory."""
        return ctypes.c_int64.from_address(self._places[name])

    def _unlock(self) -> None:
        ctypes.c_int32.from_address(self._places["lock"]).value = 0

    def empty(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None = None,
    ) -> np.ndarray[Any, Any]:
        """An uninitialised array from the pool; C-ordered unless it has strides."""
        before = self._set(self._capsule)
        try:
            return np.ndarray(shape, dtype, strides=strides)
        finally:
            self._set(before)

    def native(self) -> dict[str, int]:
        """Addresses for native callers: the handler's capsule, and the functions themselves."""
        return {
            "capsule": id(self._capsule),
            "pool_malloc": self._places["pool_malloc"],
            "pool_free": self._places["pool_free"],
        }

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for reuse."""
        return int(self._word("held").value)

    @property
    def reused(self) -> int:
        """How often a block was given out again."""
        return int(self._word("reused").value)

    def limit(self, size_bytes: int) -> None:
        """Let at most this many bytes wait for reuse; 0 keeps none."""
        self._word("limit").value = max(0, size_bytes)
        if self.held_bytes > size_bytes:
            self.trim()

    def trim(self) -> None:
        """Give all waiting memory back to the system."""
        self._trim()


def numpy_api() -> Any:
    """The table of NumPy's C API."""
    module = importlib.import_module("numpy._core._multiarray_umath")
    return ctypes.cast(_pointer_in(module._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))


def _pointer_in(capsule: Any, name: bytes | None) -> Any:
    """The address that a capsule holds."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def _set_handler() -> Any:
    """PyDataMem_SetHandler from NumPy's C API table (slot 304)."""
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_api()[304])


_lock = forks.lock()


@cache
def _made() -> OutputPool | None:
    """The process's pool, or None where the platform has none, or lets no more code run."""
    supported = sys.platform == "linux" and sys.implementation.name == "cpython"
    try:
        return OutputPool() if supported else None
    except CompileError:
        return None


def pool() -> OutputPool | None:
    """The process's pool; None where there is none or it is switched off."""
    if not config.current().pool:
        return None
    if not _made.cache_info().currsize and forks.imports_here():
        return None  # others may hold the lock and wait for that import
    with _lock:
        return _made()


def release() -> int:
    """Give all waiting memory back, whether the pool is switched on or off; returns the bytes."""
    with _lock:
        made = _made() if _made.cache_info().currsize else None
    if made is None:
        return 0
    held = made.held_bytes
    made.trim()
    return held


def empty(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
) -> np.ndarray[Any, Any]:
    """An uninitialised array: from the pool when it is large; C-ordered unless it has strides."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    if size >= THRESHOLD and (found := pool()) is not None:
        return found.empty(shape, dtype, strides)
    return np.ndarray(shape, dtype, strides=strides)
