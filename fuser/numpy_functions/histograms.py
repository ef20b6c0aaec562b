"""np.histogram of equally wide bins: kernels find each value's bin, and count.

NumPy cuts the values into parts, and looks for values outside of the bins in each; between an
array's extremes there are none. What else is done to a value is the same: its bin is NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.function_table import handles
from fuser.numpy_functions.array_functions import _array
from fuser.numpy_functions.gathers import BEYOND
from fuser.tracing.admitted_dtypes import has_scatters
from fuser.tracing.counting import counted
from fuser.tracing.indices import length_of
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_scalars import HostScalar

_FLOATS = ("float32", "float64")


@handles(np.histogram)
def _histogram(
    tracing: Tracing, a: Any, bins: Any = 10, range: Any = None, density: Any = None,
    weights: Any = None,
) -> Any:  # fmt: skip
    """np.histogram of a number of bins between the extremes of an array of floats."""
    is_number = type(bins) is int or (isinstance(bins, HostScalar) and bins.kind is int)
    if range is not None or density or not is_number or not has_scatters():
        raise _other("bins that are no number of them, range=, or density=")
    values: Any = _array(tracing, a)
    if values.dtype.name not in _FLOATS:
        raise _other(f"values of {values.dtype}")
    weight: Any = None if weights is None else _weights(tracing, values, weights)
    size = tracing.resolve(dims.product(values.dims))
    if bins < 1 or tracing.size(size) < 1:
        raise _other("no bins, or no values")
    tracing.hold_at_least(size, 1)
    values, kind = values.ravel(), values.dtype.type
    low, high = values.min(), values.max()
    alike = low == high
    first = np.where(alike, low - kind(0.5), low)
    last = np.where(alike, high + kind(0.5), high)
    count = bins + 1
    along: Any = counted(tracing, count if type(count) is int else length_of(count))
    line = along.astype(kind) * ((last - first) / bins) + first  # as np.linspace has it
    edges: Any = np.where(along == bins, last, line)
    fine = np.isfinite(low) & np.isfinite(high) & np.all(edges[:-1] < edges[1:])
    place: Any = ((values - first) / (last - first) * bins).astype(np.int64)
    place = np.where(place == bins, place - 1, place)
    place = np.where(fine, place, BEYOND)  # which no axis has: NumPy runs the call, and raises
    place = np.where(values < edges[place], place - 1, place)
    beyond = (values >= edges[place + 1]) & (place != bins - 1)
    counts: Any = np.bincount(np.where(beyond, place + 1, place), weight, bins)
    if weight is not None:
        counts = counts.astype(weight.dtype, copy=False)
    return counts, edges


def _weights(tracing: Tracing, values: Any, weights: Any) -> Any:
    """What each value counts, in a row.

    Raises:
        Unsupported: it is of another kind, or not one number for each value.
    """
    given: Any = _array(tracing, weights)
    sizes = [[tracing.size(dim) for dim in each.dims] for each in (values, given)]
    if given.dtype.name not in _FLOATS or sizes[0] != sizes[1]:
        raise _other("weights of another kind")
    for one, other in zip(values.dims, given.dims, strict=True):
        tracing.unify(one, other, lambda: "np.histogram")
    return given.ravel()


def _other(found: str) -> Unsupported:
    """The reason that NumPy does it."""
    return Unsupported("unsupported-argument", "np.histogram", found)
