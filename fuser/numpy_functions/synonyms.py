"""NumPy functions that are others by another name, or by another order of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import HANDLERS, handles
from fuser.numpy_functions.array_functions import _array, _refuse
from fuser.tracing.trace_state import Tracing


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


# -- by real parts --------------------------------------------------------------------------
