"""NumPy functions that are others by another name, or by another order of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import HANDLERS, handles
from fuser.numpy_functions.array_functions import _array, _refuse
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


def _same_as(function: Any) -> Callable[..., Any]:
    """A handler that calls another function with the same arguments."""

    def handler(tracing: Tracing, *args: Any, **kwargs: Any) -> Any:
        return tracing.apply_function(function, args, kwargs)

    return handler


def _turned(tracing: Tracing, x: Any, /) -> Any:
    """The last two axes exchanged."""
    return _array(tracing, x).mT


HANDLERS[np.linalg.tensordot] = _same_as(np.tensordot)
HANDLERS[np.matrix_transpose] = HANDLERS[np.linalg.matrix_transpose] = _turned


@handles(np.linalg.outer)
def _outer(tracing: Tracing, x1: Any, x2: Any, /) -> Any:
    """np.linalg.outer: of vectors alone."""
    left, right = _array(tracing, x1), _array(tracing, x2)
    if left.ndim != 1 or right.ndim != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return np.outer(left, right)


@handles(np.linalg.cross)
def _cross(tracing: Tracing, x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """np.linalg.cross."""
    return tracing.apply_function(np.cross, (x1, x2), {"axis": axis})


@handles(np.linalg.vecdot)
def _vecdot(tracing: Tracing, x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """np.linalg.vecdot."""
    sides: list[Any] = [_array(tracing, value) for value in (x1, x2)]
    if axis != -1:
        sides = [np.moveaxis(value, axis, -1) for value in sides]
    return np.vecdot(*sides)


@handles(np.linalg.vector_norm)
def _vector_norm(
    tracing: Tracing, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Any:
    """np.linalg.vector_norm: of all elements, or along an axis."""
    values = _array(tracing, x)
    if axis is not None and (isinstance(axis, tuple) or values.ndim < 1):
        raise Unsupported("unsupported-argument", "np.linalg.vector_norm", f"axis={axis!r}")
    norm = HANDLERS[np.linalg.norm]
    if axis is not None:
        return norm(tracing, values, axis=axis, keepdims=keepdims, ord=ord)
    found = norm(tracing, values.ravel(), axis=0, ord=ord)
    return found.reshape((1,) * values.ndim) if keepdims else found


@handles(np.linalg.matrix_norm)
def _matrix_norm(tracing: Tracing, x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """np.linalg.matrix_norm: Frobenius' norm."""
    return HANDLERS[np.linalg.norm](tracing, x, axis=(-2, -1), keepdims=keepdims, ord=ord)


@handles(np.astype)
def _astype(
    tracing: Tracing, x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None
) -> Any:
    """np.astype: of arrays alone."""
    _refuse("astype", device=device)
    array = _array(tracing, x)
    if array.generic:
        raise Unsupported("unsupported-argument", "np.astype", "a scalar")
    return array.astype(dtype, copy=copy)


@handles(np.unstack)
def _unstack(tracing: Tracing, x: Any, /, *, axis: Any = 0) -> Any:
    """np.unstack: the parts along an axis, each a view."""
    array: Any = _array(tracing, x)
    if array.ndim == 0:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(np.moveaxis(array, axis, 0))


@handles(np.rollaxis)
def _rollaxis(tracing: Tracing, a: Any, axis: Any, start: Any = 0) -> Any:
    """np.rollaxis: an axis moved before another."""
    x = _array(tracing, a)
    place, before = normal_axis(axis, x.ndim), int(start)
    before = before + x.ndim if before < 0 else before
    if not 0 <= before <= x.ndim:
        raise np.exceptions.AxisError("'start' arg requires -n <= start < n + 1")
    before -= place < before
    if place == before:
        return x[...]
    order = [each for each in range(x.ndim) if each != place]
    order.insert(before, place)
    return x.transpose(*order)


# -- by real parts --------------------------------------------------------------------------


@handles(np.angle)
def _angle(tracing: Tracing, z: Any, deg: Any = False) -> Any:
    """np.angle: of real numbers 0 or pi, by their sign."""
    x = _array(tracing, z)
    found: Any = np.arctan2(x.imag if x.dtype.kind == "c" else 0, x.real)
    return found * (180 / np.pi) if deg else found


@handles(np.isreal)
def _isreal(tracing: Tracing, x: Any) -> Any:
    """np.isreal: of real numbers true."""
    return np.imag(_array(tracing, x)) == 0


@handles(np.iscomplex)
def _iscomplex(tracing: Tracing, x: Any) -> Any:
    """np.iscomplex: of real numbers false."""
    array = _array(tracing, x)
    if array.dtype.kind == "c":
        return array.imag != 0
    none: Any = np.zeros_like(array, dtype=bool)
    made = tracing.wrap(tracing.own(none.node, none.dtype, "C"))
    return made[()] if not made.ndim else made


@handles(np.real_if_close)
def _real_if_close(tracing: Tracing, a: Any, tol: Any = 100) -> Any:
    """np.real_if_close of real numbers: the array itself."""
    x = _real(tracing, a, "real_if_close")
    return tracing.wrap(x.node) if x.generic else x


def _real(tracing: Tracing, value: Any, name: str) -> TracedArray:
    """An array of real numbers."""
    x = _array(tracing, value)
    if x.dtype.kind == "c":
        raise Unsupported("unsupported-argument", f"np.{name}", "complex numbers")
    return x
