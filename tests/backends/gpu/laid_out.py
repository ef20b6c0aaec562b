"""Types whose objects keep their fields in memory as CuPy's arrays and pointers do.

Native code reads CuPy's arrays by offsets; so that it runs without CuPy, the double's arrays are of
this type: dtype, lengths, strides, and a pointer to what has the address and the device's number. A
vector is where its words begin, where they end, and where their room ends.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from fuser.calls import native_call

_BASETYPE = 1 << 10
_LENGTHS, _STRIDES, _DTYPE, _DATA, _SIZE = 24, 48, 80, 88, 104
_NUMBER, _ADDRESS, _POINTER_SIZE = 16, 24, 40


def _make(name: bytes, size: int) -> type:
    """A heap type with room behind the object's head.

    Source: CPython, PyType_FromSpec.
    """
    slots = (native_call._Slot * 1)(native_call._Slot(0, None))
    spec = native_call._Spec(name, size, 0, 1 << 18 | _BASETYPE, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    made: type = make(ctypes.addressof(spec))
    _keep.extend([slots, spec])
    return made


_keep: list[Any] = []
_known = native_call.supported()
LaidOut: Any = _make(b"cupy._core.core._ndarray_base", _SIZE) if _known else object
LaidOutPointer: Any = _make(b"cupy.cuda.memory._Pointer", _POINTER_SIZE) if _known else object


class _Words:
    """Memory as NumPy may look at it."""

    def __init__(self, address: int, count: int, kind: str = "<i8") -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": (count,), "typestr": kind, "version": 3,
        }  # fmt: skip


def lay_out_pointer(pointer: Any, address: int, device: int) -> None:
    """Write a pointer's fields."""
    if LaidOutPointer is not object:
        np.asarray(_Words(id(pointer) + _ADDRESS, 1))[0] = address
        np.asarray(_Words(id(pointer) + _NUMBER, 1, "<i4"))[0] = device


def lay_out(
    array: Any, dtype: Any, lengths: tuple[int, ...], strides: tuple[int, ...], pointer: Any
) -> None:
    """Write an array's fields; the words of the vectors live as long as the array.

    By NumPy alone, and without arrays among the attributes: programs that make arrays are watched
    for what they call and what they read.
    """
    if LaidOut is object:
        return
    words = [np.array((*each, 0), np.int64).tobytes() for each in (lengths, strides)]
    for at, vector in zip((_LENGTHS, _STRIDES), words, strict=True):
        begin = id(vector) + bytes.__basicsize__ - 1
        ends = begin + 8 * len(lengths)
        np.asarray(_Words(id(array) + at, 3))[:] = begin, ends, ends
    np.asarray(_Words(id(array) + _DTYPE, 2))[:] = id(dtype), id(pointer)
    array._words = words, dtype
