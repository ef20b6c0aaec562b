"""NumPy functions of diagonals, triangles of matrices, and coordinates of grids.

A diagonal is a view of memory; triangles and coordinates are computed from positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import handles
from fuser.ir.graph import make_constant
from fuser.ir.views import Broadcast, Diagonal, Part
from fuser.numpy_functions.array_functions import _array
from fuser.tracing import counting
from fuser.tracing.counting import counted
from fuser.tracing.indices import integer, normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


def diagonal(
    x: TracedArray, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, writable: bool = False
) -> TracedArray:
    """A diagonal of two axes as the last axis: a view, which np.einsum's alone is written into.

    Which of the two axes is the shorter one holds for the trace.
    """
    if x.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = normal_axis(axis1, x.ndim), normal_axis(axis2, x.ndim)
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    order = [first, second, *(axis for axis in range(x.ndim) if axis not in (first, second))]
    seen: TracedArray = x.transpose(*order)
    by = integer(offset)
    if by:
        seen = seen[(slice(None), slice(by, None)) if by > 0 else (slice(-by, None),)]
    return _square(seen)._view(Diagonal(writable))  # type: ignore[no-any-return]


def _square(x: TracedArray) -> TracedArray:
    """An array cut so that its first two axes are of one length."""
    tracing = x.tracing
    rows, columns = map(tracing.resolve, x.dims[:2])
    if rows == columns:
        return x
    sizes = tracing.size(rows), tracing.size(columns)
    if sizes[0] == sizes[1]:
        tracing._hold(rows, columns)
        return x
    axis = int(sizes[0] < sizes[1])  # the longer one
    short, long = (rows, columns) if axis else (columns, rows)
    if not (isinstance(short, int) and isinstance(long, int)):
        tracing.guard_value(f"({short}) < ({long})", True)
    return x._view(Part(axis, 0, short))  # type: ignore[no-any-return]


@handles(np.diagonal)
def _diagonal(
    tracing: Tracing, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1
) -> Any:
    """np.diagonal."""
    return diagonal(_array(tracing, a), offset, axis1, axis2)


@handles(np.trace)
def _trace(
    tracing: Tracing, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """np.trace: the sum of a diagonal."""
    seen: Any = diagonal(_array(tracing, a), offset, axis1, axis2)
    return np.sum(seen, axis=-1, dtype=dtype, out=out)


@handles(np.diag)
def _diag(tracing: Tracing, v: Any, k: Any = 0) -> Any:
    """np.diag: the diagonal of a matrix, or a matrix with this diagonal."""
    x = _array(tracing, v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    return _matrix_of(x, integer(k))


@handles(np.diagflat)
def _diagflat(tracing: Tracing, v: Any, k: Any = 0) -> Any:
    """np.diagflat: a matrix with these values, flattened, on a diagonal."""
    return _matrix_of(_array(tracing, v).ravel(), integer(k))


def _matrix_of(x: TracedArray, k: int) -> Any:
    """Zeros but for one diagonal: each row has one value, seen where the column fits.

    Rows hold the values, so that a row's loop reads one of them.
    """
    tracing = x.tracing
    if x.dtype.kind not in "biuf":
        raise Unsupported("unsupported-dtype", "np.diag", f"dtype {x.dtype}")
    values: Any = x
    if k:
        zeros = Broadcast((abs(k),))
        beside = tracing.node("broadcast_to", [tracing.operand_node(0, x.dtype)], zeros)
        parts = [x, tracing.wrap(beside)]
        values = np.concatenate(parts if k > 0 else parts[::-1])
    place: Any = counted(tracing, x.dims[0] + abs(k))
    zero = tracing.wrap(tracing.operand_node(0, x.dtype))
    return np.where(place[:, None] + k == place[None, :], values[:, None], zero)


def _triangle(tracing: Tracing, m: Any, k: Any, name: str) -> Any:
    """A matrix, whether its places are at or below a diagonal, and nothing of its dtype."""
    x = _array(tracing, m)
    if x.ndim < 1 or type(k) is not int:
        raise Unsupported(
            "unsupported-argument", f"np.{name}",
            "a single number, or a k= that is no Python integer",
        )
    rows, columns = x.shape[-2:] if x.ndim > 1 else x.shape * 2
    row, column = counting.indices(tracing, (rows, columns), sparse=True)
    return x, row >= column - k, tracing.wrap(make_constant(0, x.dtype))


@handles(np.tril)
def _tril(tracing: Tracing, m: Any, k: Any = 0) -> Any:
    """np.tril: what is at or below a diagonal."""
    x, below, nothing = _triangle(tracing, m, k, "tril")
    return np.where(below, x, nothing)


@handles(np.triu)
def _triu(tracing: Tracing, m: Any, k: Any = 0) -> Any:
    """np.triu: what is at or above a diagonal."""
    x, below, nothing = _triangle(tracing, m, k - 1, "triu")
    return np.where(below, nothing, x)


@handles(np.meshgrid)
def _meshgrid(
    tracing: Tracing, *xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy"
) -> Any:
    """np.meshgrid: every axis's coordinates, along all the others too unless `sparse`."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    found: list[Any] = []
    for place, value in enumerate(xi):
        around: list[Any] = [None] * len(xi)
        swapped = indexing == "xy" and len(xi) > 1 and place < 2
        around[1 - place if swapped else place] = slice(None)
        flat: TracedArray = _array(tracing, value)
        found.append((flat if flat.ndim == 1 else flat.ravel())[tuple(around)])
    if not sparse:
        found = list(np.broadcast_arrays(*found))
    if copy:
        found = [tracing.wrap(tracing.own(part.node, part.dtype, "C")) for part in found]
    return tuple(found)
