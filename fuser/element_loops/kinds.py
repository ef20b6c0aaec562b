"""Kinds of numbers in element loops, and what NumPy and Python give for two of them.

A kind is `pyint`, `pyfloat` or `pybool`, or the name of a dtype for a NumPy scalar. A variable may
hold one of several kinds, when a loop gives it another one than it had before: it has one
representation all the same, a dtype that holds each of them exactly.
"""

from __future__ import annotations

import numpy as np

from fuser.base.caches import memo
from fuser.base.records import record

PYTHON = {"pybool": "bool", "pyint": "int64", "pyfloat": "float64"}
#: Dtypes that element loops know.
DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
)
#: Complex dtypes of arrays, and those of their parts.
COMPLEX = {"complex64": "float32", "complex128": "float64"}
LEAST, MOST = -(2**63), 2**63 - 1
#: Python's integers from outside lie between these: sums and products of a few cannot overflow.
GIVEN = 2**40
#: An integer that changes by constants of at most `PACE` lies below `COUNTED`: to get beyond takes
#: 2**58 steps, which is nine years of a billion a second.
PACE, COUNTED = 16, 2**62
#: Bounds that integers of a loop are given, one after another, until an iteration keeps to them.
_LOWS, _HIGHS = (0, -1, -2 * GIVEN, LEAST), (2 * GIVEN, MOST)


class NotTypedError(Exception):
    """Why a loop has no types that are known before it runs."""


@record
class Type:
    """Which kinds a value may be of, and between which integers it lies, if it is one."""

    kinds: frozenset[str]
    low: int = LEAST
    high: int = MOST

    @property
    def dtype(self) -> str:
        """How it is represented."""
        return representation(self.kinds)

    @property
    def is_python(self) -> bool:
        """Whether it may be a Python number."""
        return not self.kinds.isdisjoint(PYTHON)

    @property
    def is_numpy(self) -> bool:
        """Whether it may be a NumPy scalar."""
        return not self.kinds <= PYTHON.keys()

    @property
    def is_either(self) -> bool:
        """Whether only the run tells which of both it is."""
        return self.is_python and self.is_numpy


def of(kind: str, low: int | None = None, high: int | None = None) -> Type:
    """The type of one kind."""
    least, most = limits(dtype_of(kind))
    low, high = least if low is None else low, most if high is None else high
    return Type(frozenset((kind,)), low, high)


def dtype_of(kind: str) -> str:
    """The dtype that holds values of a kind."""
    return PYTHON.get(kind, kind)


@memo(64)
def limits(dtype: str) -> tuple[int, int]:
    """The least and the largest integer of a dtype; those of int64 for floats."""
    if dtype == "bool":
        return 0, 1
    if dtype.startswith("float"):
        return LEAST, MOST
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


@memo(256)
def representation(kinds: frozenset[str]) -> str:
    """The dtype that holds values of several kinds exactly, or ends the run.

    Raises:
        NotTypedError: there is none.
    """
    scalars = kinds - PYTHON.keys()
    if len(scalars) > 1:
        raise NotTypedError(f"a number becomes {' and '.join(sorted(scalars))}")
    if scalars:
        (dtype,) = scalars
        wide = {"pyfloat": "f", "pyint": "iuf", "pybool": "biuf"}
        for kind in kinds & PYTHON.keys():
            if np.dtype(dtype).kind not in wide[kind]:
                raise NotTypedError(f"a number becomes {PYTHON[kind]} and {dtype}")
        return dtype
    return next(PYTHON[kind] for kind in ("pyfloat", "pyint", "pybool") if kind in kinds)


def join(one: Type, other: Type) -> Type:
    """The type of what is one or the other."""
    if one == other:
        return one
    kinds = one.kinds | other.kinds
    representation(kinds)
    return Type(kinds, min(one.low, other.low), max(one.high, other.high))


def widened(old: Type, new: Type) -> Type:
    """A type that grows from one look at a loop to the next, with bounds that end that."""
    if old == new:
        return new
    low, high = new.low, new.high
    if low < old.low:
        low = next((each for each in _LOWS if each <= low), low)
    if high > old.high:
        high = next((each for each in _HIGHS if each >= high), high)
    return Type(new.kinds, low, high)


_WEAK = {"pybool": False, "pyint": 0, "pyfloat": 0.0}


@memo(1024)
def promoted(left: str, right: str) -> tuple[str, bool]:
    """The dtype in which an operation on two kinds computes, and whether both are Python's."""
    if left in PYTHON and right in PYTHON:
        kinds = {left, right}
        return ("float64" if "pyfloat" in kinds else "int64" if "pyint" in kinds else "bool"), True
    if left in PYTHON or right in PYTHON:
        weak, strong = (left, right) if left in PYTHON else (right, left)
        if weak == "pybool":  # which NumPy takes for one of its own
            return np.result_type(strong, np.bool_).name, False
        return np.result_type(np.dtype(strong), _WEAK[weak]).name, False
    return np.result_type(left, right).name, False


def python_kind(dtype: str) -> str:
    """The kind of a Python number that a dtype holds."""
    return next(kind for kind, known in PYTHON.items() if known == dtype)
