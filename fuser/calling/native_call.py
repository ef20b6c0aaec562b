"""The base type of fused functions: an object that the interpreter can call through a pointer.

The type has a vectorcall slot. While the pointer in it is null, calls go to the Python method
`__call__`; a backend that has a native entry stores its address, and calls then start in native
code, which comes back to Python for whatever it does not know. Where the interpreter is not a
CPython with the layout expected here, the type is a plain Python class.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fuser.records import record

_VECTORCALL_OFFSET, _CONTEXT_OFFSET, _BASIC_SIZE = 16, 24, 32
_TP_FLAGS_OFFSET = 168
_HAVE_VECTORCALL = 1 << 11
_DEFAULT, _BASETYPE = 1 << 18, 1 << 10
_TP_CALL, _TP_MEMBERS = 50, 72
_PY_SSIZE_T, _READONLY = 19, 1

#: Changes whenever a setting does: native entries compare it and go back to Python.
MODE_WORD = ctypes.c_int64(1)


def bump_mode() -> None:
    """Send every native entry back to Python once, to look at the settings again."""
    MODE_WORD.value += 1


class Standing:
    """What stands as long as settings, and names that a function reads, are as they are now."""

    def __init__(self, names: Sequence[Any]) -> None:
        """Hold on to the guards of names."""
        self._mode = MODE_WORD.value
        self._names = names

    def holds(self) -> bool:
        """Whether settings and names are as they were."""
        if self._mode != MODE_WORD.value:
            return False
        return not self._names or all(guard.holds() for guard in self._names)


def supported() -> bool:
    """Whether this interpreter has the object layout that native entries rely on."""
    known = (3, 11) <= sys.version_info[:2] <= (3, 14)
    gil = "free-threading" not in sys.version  # `sysconfig` would know, at the cost of milliseconds
    wide = ctypes.sizeof(ctypes.c_void_p) == 8 and sys.byteorder == "little"
    release = not hasattr(sys, "getobjects")
    return bool(sys.implementation.name == "cpython" and known and gil and wide and release)


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
    ctypes.c_void_p.from_address(id(function) + _CONTEXT_OFFSET).value = context
    ctypes.c_void_p.from_address(id(function) + _VECTORCALL_OFFSET).value = entry


@record
class ServedCall:
    """A call that has been served, as a pattern for those that a backend may serve natively.

    Attributes:
        specialisation: what it ran.
        launch: how it ran.
        arrays: array arguments by parameter name, and `o0`, `o1` …, the arrays of `out=`, or the
            parts of arguments that kernels write results into.
        sizes: lengths by symbol.
        leaves: its arguments: positional ones, then keywords in their order but `out`.
        names: its keywords in their order, `out` too where it is the function's own.
        out: the array, or the tuple of arrays, of `out=`, or None.
        structure: how positional arguments and keywords nest, see `trees.flatten`.
        direct: outputs that kernels write into arguments.
    """

    specialisation: Any
    launch: Any
    arrays: Mapping[str, Any]
    sizes: dict[str, int]
    leaves: Sequence[Any]
    names: tuple[str, ...]
    out: Any
    structure: Any
    direct: frozenset[int] = frozenset()
