"""NumPy functions over positions in a grid: triangles of matrices, and coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import handles
from fuser.ir.graph import make_constant
from fuser.numpy_functions.array_functions import _array
from fuser.tracing import counting
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


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
