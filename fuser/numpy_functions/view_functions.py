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
