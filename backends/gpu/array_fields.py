"""Where CuPy's arrays keep what the dispatcher compares: dtype, lengths, strides, memory.

An array is a C struct in which these are a pointer, two C++ vectors of 8-byte words, and a pointer
to a `MemoryPointer`, which has the address and the device's number; a vector is two pointers, to
its begin and its end. CuPy promises no offsets. They are looked up in arrays over no memory at all,
which takes no device, and hold only if all arrays agree.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from fuser.backends.gpu import c_functions
from fuser.calls import native_call

#: Shapes, strides, dtypes and devices whose words are found nowhere else in an array.
_SAMPLES = (
    ((3, 5, 7), (2048, 160, 8), "float64", 71), ((2, 9), (96, 4), "float32", 0),
    ((6,), (40,), "int16", 5), ((), (), "int64", 1 << 20),
)  # fmt: skip
_BEGIN, _BYTES = 1 << 30, 1 << 20
_WORD, _NUMBER = ctypes.sizeof(ctypes.c_int64), ctypes.sizeof(ctypes.c_int32)
_ENDS = 2 * _WORD
#: Nothing is mapped below, so that no smaller number is an address.
_LOWEST = 1 << 16


@cache
def array_fields() -> Mapping[str, int] | None:
    """Bytes from an array's beginning to its fields, and what launches; None if unknown.

    `address` and `number` are fields of its `data`. With CuPy's functions there are those of
    `c_functions.functions`, and the class of arrays.
    """
    import cupy
    from cupy.cuda import MemoryPointer, UnownedMemory

    if not native_call.supported():
        return None
    arrays = []
    for k, (shape, strides, dtype, device) in enumerate(_SAMPLES):
        memory = MemoryPointer(UnownedMemory(_BEGIN, _BYTES, None, device), k * _WORD)
        arrays.append(cupy.ndarray(shape, np.dtype(dtype), memory, strides))
    found = {
        "dtype": _offset(arrays, lambda array, at: _word(id(array) + at) == id(array.dtype)),
        "lengths": _offset(arrays, lambda array, at: _vector(array, at) == array.shape, _ENDS),
        "strides": _offset(arrays, lambda array, at: _vector(array, at) == array.strides, _ENDS),
        "data": _offset(arrays, lambda array, at: _word(id(array) + at) == id(array.data)),
    }
    memories = [array.data for array in arrays]
    found |= {
        "address": _offset(memories, lambda memory, at: _word(id(memory) + at) == memory.ptr),
        "number": _offset(
            memories, lambda each, at: _number(id(each) + at) == each.device_id, _NUMBER, _NUMBER
        ),
    }
    known = {name: offset for name, offset in found.items() if offset is not None}
    if len(known) < len(found) or len(set(map(type, memories))) > 1:
        return None
    return known | {"array": id(cupy.ndarray)} | (c_functions.functions() or {})


def _offset(
    objects: list[Any], fits: Callable[[Any, int], bool], size: int = _WORD, step: int = _WORD
) -> int | None:
    """Where something of a size lies in all objects of a class, if that is one place."""
    begin, end = object.__basicsize__, type(objects[0]).__basicsize__ - size
    found = [at for at in range(begin, end + 1, step) if all(fits(each, at) for each in objects)]
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


def _number(address: int) -> int:
    """A C int of memory."""
    return ctypes.c_int32.from_address(address).value
