"""NumPy functions that give views: index arithmetic, nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.ir import dims
from fuser.ir.function_table import handles
from fuser.ir.views import Broadcast
from fuser.numpy_functions.array_functions import _array, _sequence
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_scalars import HostScalar


@handles(np.transpose)
def _transpose(tracing: Tracing, a: Any, axes: Any = None) -> Any:
    """np.transpose."""
    return _array(tracing, a).transpose(axes)


@handles(np.swapaxes)
def _swapaxes(tracing: Tracing, a: Any, axis1: Any, axis2: Any) -> Any:
    """np.swapaxes."""
    return _array(tracing, a).swapaxes(axis1, axis2)


@handles(np.squeeze)
def _squeeze(tracing: Tracing, a: Any, axis: Any = None) -> Any:
    """np.squeeze."""
    return _array(tracing, a).squeeze(axis)


@handles(np.reshape)
def _reshape(
    tracing: Tracing, a: Any, shape: Any = None, order: str = "C", copy: Any = None
) -> Any:
    """np.reshape."""
    return _array(tracing, a).reshape(shape, order=order, copy=copy)


@handles(np.ravel)
def _ravel(tracing: Tracing, a: Any, order: str = "C") -> Any:
    """np.ravel."""
    return _array(tracing, a).ravel(order)


@handles(np.broadcast_to)
def _broadcast_to(tracing: Tracing, array: Any, shape: Any, subok: bool = False) -> Any:
    """np.broadcast_to."""
    x = _array(tracing, array)
    wanted: list[dims.Dim] = []
    for entry in _sequence(shape):
        if isinstance(entry, HostScalar):
            from fuser.tracing.indices import length_of

            wanted.append(length_of(entry))
        else:
            wanted.append(int(entry))
    if not tracing.fits_into(wanted, x.dims):
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    return x._view(Broadcast(tuple(wanted)))


@handles(np.broadcast_arrays)
def _broadcast_arrays(tracing: Tracing, *args: Any, subok: bool = False) -> Any:
    """np.broadcast_arrays."""
    arrays = [_array(tracing, a) for a in args]
    shape = tracing.broadcast("broadcast_arrays", [a.dims for a in arrays])
    return tuple(a if a.dims == shape else a._view(Broadcast(shape)) for a in arrays)
