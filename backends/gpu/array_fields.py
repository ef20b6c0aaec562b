"""Where CuPy's arrays keep dtype, lengths and strides, for the dispatcher that compares arguments.

An array is a C struct in which these are a pointer and two C++ vectors of 8-byte words; a vector is
two pointers, to its begin and its end. CuPy promises no offsets. They are looked up in arrays over
no memory at all, which takes no device, and hold only if all arrays agree.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from fuser.calls import native_call

#: Shapes, strides and dtypes whose words are found nowhere else in an array.
_SAMPLES = (
    ((3, 5, 7), (2048, 160, 8), "float64"), ((2, 9), (96, 4), "float32"), ((6,), (40,), "int16"),
    ((), (), "int64"),
)  # fmt: skip
_WORD = ctypes.sizeof(ctypes.c_int64)
#: Nothing is mapped below, so that no smaller number is an address.
_LOWEST = 1 << 16


@cache
def array_fields() -> Mapping[str, int] | None:
    """Bytes from an array's beginning to `dtype`, `lengths` and `strides`; None if unknown."""
    import cupy
    from cupy.cuda import MemoryPointer, UnownedMemory

    if not native_call.supported():
        return None
    memory = MemoryPointer(UnownedMemory(1 << 30, 1 << 20, None, 0), 0)
    arrays = [
        cupy.ndarray(shape, np.dtype(dtype), memory, strides) for shape, strides, dtype in _SAMPLES
    ]
    found = {
        "dtype": _offset(arrays, lambda array, at: _word(id(array) + at) == id(array.dtype)),
        "lengths": _offset(arrays, lambda array, at: _vector(array, at) == array.shape),
        "strides": _offset(arrays, lambda array, at: _vector(array, at) == array.strides),
    }
    known = {name: offset for name, offset in found.items() if offset is not None}
    return known if len(known) == len(found) else None


def _offset(arrays: list[Any], fits: Callable[[Any, int], bool]) -> int | None:
    """Where something lies in all arrays, if that is one place."""
    begin, end = object.__basicsize__, type(arrays[0]).__basicsize__ - _WORD
    found = [at for at in range(begin, end, _WORD) if all(fits(array, at) for array in arrays)]
    return found[0] if len(found) == 1 else None


def _vector(array: Any, at: int) -> tuple[int, ...] | None:
    """The words of a vector at a place in an array; None where there is none of its rank.

    A pointer in an object is to living memory: what lies between two of them, as far apart as the
    vector's words take, may be read.
    """
    begin, end = _word(id(array) + at), _word(id(array) + at + _WORD)
    if end - begin != _WORD * array.ndim or (array.ndim and (begin < _LOWEST or begin % _WORD)):
        return None
    return tuple(_word(begin + _WORD * axis) for axis in range(array.ndim))


def _word(address: int) -> int:
    """A word of memory."""
    return ctypes.c_int64.from_address(address).value
