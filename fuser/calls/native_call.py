"""The base type of fused functions: an object that the interpreter can call through a pointer.

The type has a vectorcall slot. While the pointer in it is null, calls go to the Python method
`__call__`; a backend that has a native entry stores its address, and calls then start in native
code, which comes back to Python for whatever it does not know. Where the interpreter is not a
CPython with the layout expected here, the type is a plain Python class.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from fuser.base.protocols import lie_as_known

_VECTORCALL_OFFSET, CONTEXT_OFFSET, _BASIC_SIZE = 16, 24, 32
_TP_FLAGS_OFFSET = 168
_HAVE_VECTORCALL = 1 << 11
_DEFAULT, _BASETYPE = 1 << 18, 1 << 10
_TP_CALL, _TP_MEMBERS = 50, 72
_PY_SSIZE_T, _READONLY = 19, 1


def supported() -> bool:
    """Whether this interpreter has the object layout that native entries rely on."""
    known = (3, 11) <= sys.version_info[:2] <= (3, 14)
    return known and sys.byteorder == "little" and lie_as_known()


class _Slot(ctypes.Structure):
    """PyType_Slot."""

    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    """PyType_Spec."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


class _Member(ctypes.Structure):
    """PyMemberDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_keep: list[Any] = []


def _make_base() -> type:
    """A heap type with room for the entry's address and its context.

    Source: CPython, "Type Objects", tp_vectorcall_offset; PEP 590.
    """
    member = (_Member * 2)(
        _Member(b"__vectorcalloffset__", _PY_SSIZE_T, _VECTORCALL_OFFSET, _READONLY, None),
        _Member(None, 0, 0, 0, None),
    )
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
    slots = (_Slot * 3)(
        _Slot(_TP_MEMBERS, ctypes.addressof(member)), _Slot(_TP_CALL, call), _Slot(0, None)
    )
    flags = _DEFAULT | _BASETYPE | _HAVE_VECTORCALL
    spec = _Spec(b"fuser.NativelyCallable", _BASIC_SIZE, 0, flags, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    base: type = make(ctypes.addressof(spec))
    _keep.extend([member, slots, spec])
    return base


class _Plain:
    """Where native entries are not supported: an ordinary class."""


NativelyCallable: type = _make_base() if supported() else _Plain


def enable_vectorcall(cls: type) -> bool:
    """Let the interpreter look at the entry's address before `__call__`.

    A Python class with a `__call__` of its own loses the flag that its base has; here both lead
    to the same result, so it is set again.

    Returns:
        False where the layout is not as expected; then calls always start in Python.
    """
    if NativelyCallable is _Plain:
        return False
    word = ctypes.c_ulong.from_address(id(cls) + _TP_FLAGS_OFFSET)
    if word.value != cls.__flags__ or cls.__basicsize__ < _BASIC_SIZE:
        return False
    word.value |= _HAVE_VECTORCALL
    return bool(cls.__flags__ & _HAVE_VECTORCALL)


def set_entry(function: Any, entry: int, context: int) -> None:
    """Store a native entry's address and context in a callable object.

    Args:
        function: an instance of a class for which `enable_vectorcall` gave True.
        entry: address of a vectorcall function; 0 for none.
        context: address that the entry finds at offset 24 of the object.
    """
    ctypes.c_void_p.from_address(id(function) + CONTEXT_OFFSET).value = context
    ctypes.c_void_p.from_address(id(function) + _VECTORCALL_OFFSET).value = entry
