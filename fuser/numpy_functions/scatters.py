"""Elements written at places that arrays say: np.bincount, np.add.at, `x[i] = value`, histograms.

Kernels compute the indices, check them and write one element after another, in C order of the
indices, as NumPy does of one index of one axis. Of several, or of more axes, NumPy's order follows
their memory: those are NumPy's, but for sums and extremes of integers, which have no order. So are
writes into arguments, which NumPy does in place. Kernels write into a copy: an index beyond its
axis ends the call in NumPy before anything that others see is written, and NumPy raises its
IndexError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.attributes import Places
from fuser.ir.dims import Dim
from fuser.ir.function_table import handles
from fuser.ir.graph import Node, make_constant
from fuser.ir.views import Broadcast
from fuser.numpy_functions import gathers
from fuser.numpy_functions.array_functions import _array as array_of
from fuser.tracing.admitted_dtypes import has_scatters
from fuser.tracing.indices import length_of
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: Ufuncs whose `at` is a scatter, and its row.
_ROWS = {
    "add": "scatter_add", "subtract": "scatter_add", "multiply": "scatter_multiply",
    "maximum": "scatter_maximum", "minimum": "scatter_minimum",
}  # fmt: skip


@handles(np.bincount)
def _bincount(tracing: Tracing, x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """np.bincount of a length that is told: NumPy runs calls whose result is longer."""
    length = _length(minlength)
    index = array_of(tracing, x)
    numbers = gathers.integers(tracing, index)
    if not has_scatters() or length is None or numbers is None or numbers.ndim != 1:
        raise Unsupported("unsupported-argument", "np.bincount", NO_LENGTH)
    value: Any = make_constant(1, np.int64)
    if weights is not None and numbers.shape[0] != 0:  # of no numbers NumPy counts integers
        given = array_of(tracing, weights)
        same = given.ndim == 1 and given.dtype.kind in "biuf"
        if not (same and tracing.fits_into(numbers.dims, given.dims)):
            raise Unsupported("unsupported-argument", "np.bincount", "weights of another kind")
        value = tracing.cast(given.node, np.float64)
    places = tracing.cast(numbers.node, np.int64)
    negative = tracing.node("less", [places, make_constant(0, np.int64)])
    places = tracing.node("where", [negative, make_constant(BEYOND, np.int64), places])
    zeros = _wide(tracing, make_constant(0, value.dtype), (length,))
    value = _wide(tracing, value, numbers.dims)
    return tracing.wrap(tracing.node("scatter_add", [places, value, zeros], Places((-1,))))


#: An index beyond every axis.
BEYOND = (1 << 63) - 1
NO_LENGTH = "indices that are no array of integers, or no minlength=, which tells the length"


def _length(minlength: Any) -> Dim | None:
    """A length that is told by the code or by an argument; None for any other."""
    if isinstance(minlength, HostScalar):
        return length_of(minlength) if minlength.kind is int else None
    return minlength if type(minlength) is int and minlength > 0 else None


def at(tracing: Tracing, ufunc: np.ufunc, target: Any, index: Any, value: Any = None) -> None:
    """`ufunc.at(target, index, value)`.

    Raises:
        Unsupported: NumPy has another ufunc, or computes in another dtype than the array's.
    """
    name = f"np.{ufunc.__name__}.at"
    row = _ROWS.get(ufunc.__name__)
    if row is None or value is None or not gathers.is_table(target):
        raise Unsupported("unsupported-function", name, "no fused form")
    given = tracing.operand(np.asarray(value)[()] if type(value) in (bool, int, float) else value)
    if isinstance(given, HostScalar):
        raise Unsupported("unsupported-argument", name, "a number that is an argument")
    dtype = target.dtype
    if set(ufunc.resolve_dtypes((dtype, given.dtype, None))) != {dtype}:
        raise Unsupported("unsupported-dtype", name, f"{given.dtype} into {dtype}")
    node = tracing.operand_node(given, dtype)
    if ufunc is np.subtract:
        node = tracing.node("negative", [node])
    if not _write(target, index, tracing.wrap(node), row):
        raise Unsupported("unsupported-argument", name, "an index of another kind")


def put(target: TracedArray, index: Any, value: Any) -> bool:
    """`target[index] = value`, of arrays of integers; whether it could be."""
    if isinstance(value, (list, tuple)) or not gathers.is_table(target):
        return False
    tracing = target.tracing
    given = tracing.operand(value)
    node = tracing.operand_node(given, target.dtype)
    return _write(target, index, tracing.wrap(node), "scatter")


def _write(target: TracedArray, index: Any, value: TracedArray, row: str) -> bool:
    """Write into an array at places that arrays say; whether it could be."""
    given = target.storage.argument is not None  # a copy of all of it would be written back
    found = gathers.indexed(target, index) if has_scatters() and not given else None
    if found is None:
        return False
    seen, arrays, axes = found
    free = target.dtype.kind != "f" and row != "scatter"  # NumPy's order follows memory elsewhere
    if not free and (len(arrays) > 1 or arrays[0].ndim > 1):
        return False
    places = Places(tuple(-1 - k for k in axes))
    if len(axes) < seen.ndim:
        (array,), (axis,) = arrays, axes
        array, places = gathers.beside(seen, array, axis, axis)
        arrays = [array]
    tracing = target.tracing
    shapes = places.shapes([*(array.dims for array in arrays), seen.dims])
    shape = tracing.broadcast("indexing", shapes)
    if not shape or not tracing.fits_into(shape, value.dims):
        return False
    numbers = [tracing.cast(array.node, np.int64) for array in arrays]
    written = _wide(tracing, value.node, shape)
    seen.assign(tracing.node(row, [*numbers, written, seen.node], places))
    return True


def _wide(tracing: Tracing, node: Node, shape: Sequence[Dim]) -> Node:
    """A value repeated along the axes that it lacks."""
    if node.shape == tuple(shape):
        return node
    return tracing.node("broadcast_to", [node], Broadcast(tuple(shape)))
