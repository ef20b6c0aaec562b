"""NumPy functions that give views: index arithmetic, nothing is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.ir import dims
from fuser.ir.function_table import HANDLERS, handles
from fuser.ir.views import Broadcast
from fuser.numpy_functions.array_functions import _array, _sequence
from fuser.tracing.indices import normal_axis
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


@handles(np.moveaxis)
def _moveaxis(tracing: Tracing, a: Any, source: Any, destination: Any) -> Any:
    """np.moveaxis."""
    x = _array(tracing, a)
    sources = [normal_axis(axis, x.ndim) for axis in _sequence(source)]
    targets = [normal_axis(axis, x.ndim) for axis in _sequence(destination)]
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return x.transpose(*order)


@handles(np.expand_dims)
def expand_dims(tracing: Tracing, a: Any, axis: Any) -> Any:
    """np.expand_dims."""
    x = _array(tracing, a)
    rank = x.ndim + len(_sequence(axis))
    places = {normal_axis(entry, rank) for entry in _sequence(axis)}
    if len(places) != len(_sequence(axis)):
        raise ValueError("repeated axis")
    return x[tuple(None if place in places else slice(None) for place in range(rank))]


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


@handles(np.flip)
def _flip(tracing: Tracing, m: Any, axis: Any = None) -> Any:
    """np.flip."""
    x = _array(tracing, m)
    axes = range(x.ndim) if axis is None else [normal_axis(a, x.ndim) for a in _sequence(axis)]
    return x[tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.ndim))]


@handles(np.flipud)
def _flipud(tracing: Tracing, m: Any) -> Any:
    """np.flipud."""
    return _flip(tracing, m, 0)


@handles(np.fliplr)
def _fliplr(tracing: Tracing, m: Any) -> Any:
    """np.fliplr."""
    return _flip(tracing, m, 1)


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


def _at_least(rank: int) -> Callable[..., Any]:
    """np.atleast_1d and np.atleast_2d."""

    def handler(tracing: Tracing, *arys: Any) -> Any:
        found = []
        for value in arys:
            x = _array(tracing, value)
            missing = rank - x.ndim
            found.append(x[(None,) * missing] if missing > 0 else x)
        return found[0] if len(found) == 1 else tuple(found)

    return handler


HANDLERS[np.atleast_1d] = _at_least(1)
HANDLERS[np.atleast_2d] = _at_least(2)


@handles(np.atleast_3d)
def _atleast_3d(tracing: Tracing, *arys: Any) -> Any:
    """np.atleast_3d: a row lies along the middle axis, a matrix along the first two."""
    around = ((None,) * 3, (None, slice(None), None), (..., None))
    arrays = [_array(tracing, value) for value in arys]
    found = [x if x.ndim > 2 else x[around[x.ndim]] for x in arrays]
    return found[0] if len(found) == 1 else tuple(found)
