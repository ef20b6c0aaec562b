"""NumPy functions that change what they are given: a choice for each element, or a new value.

Where NumPy runs such a function between kernels, it runs on a copy, which is the array's new value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import handles
from fuser.tracing.counting import counted
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


def _number(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a value is one number that arrays of a dtype hold as it is."""
    kind = value.kind if type(value) is HostScalar else type(value)
    return (dtype.kind == "f" and kind in (bool, int, float)) or (dtype.kind, kind) == ("b", bool)


def _replace(target: TracedArray, mask: TracedArray, value: Any) -> None:
    """Where a mask of the array's shape holds, a value of one element or of that shape."""
    tracing = target.tracing
    new = tracing.operand_node(value, target.dtype)
    target.assign(tracing.node("where", [mask.node, new, target.node]))


def _is_mask(target: Any, mask: Any) -> bool:
    """Whether both are traced arrays of one shape, and the latter holds truth values."""
    from fuser.tracing.selections import is_mask  # few functions need it

    traced = isinstance(target, TracedArray) and not target.generic
    return traced and is_mask(mask, target)


@handles(np.putmask)
def _putmask(tracing: Tracing, a: Any, mask: Any, values: Any) -> None:
    """np.putmask of one number, or of an array of the same shape and dtype."""
    fits = _is_mask(a, mask)
    if fits and not _number(values, a.dtype):
        fits = isinstance(values, TracedArray) and values.dtype == a.dtype
        shape = [*map(tracing.resolve, values.dims)] if fits else []
        fits = fits and (not shape or shape == [*map(tracing.resolve, a.dims)])
    if not fits:
        raise Unsupported(
            "unsupported-argument", "np.putmask",
            "fewer values than elements, so that they are repeated",
        )
    _replace(a, mask, values)


@handles(np.place)
def _place(tracing: Tracing, arr: Any, mask: Any, vals: Any) -> None:
    """np.place of one number."""
    value = vals[0] if type(vals) in (list, tuple) and len(vals) == 1 else vals
    if not _is_mask(arr, mask) or not _number(value, arr.dtype):
        raise Unsupported(
            "unsupported-argument", "np.place",
            "fewer values than elements, so that they are repeated",
        )
    _replace(arr, mask, value)


@handles(np.fill_diagonal)
def _fill_diagonal(tracing: Tracing, a: Any, val: Any, wrap: bool = False) -> None:
    """np.fill_diagonal of a matrix, with one number or a vector as long as the diagonal."""
    if not isinstance(a, TracedArray) or a.ndim != 2 or wrap:
        raise Unsupported(
            "unsupported-argument", "np.fill_diagonal",
            "an array that does not have two axes, or wrap=True",
        )
    value = tracing.operand(val)
    if isinstance(value, TracedArray) and value.ndim:
        short = min(a.dims, key=tracing.size)
        if value.ndim > 1 or tracing.size(value.dims[0]) != tracing.size(short):
            raise Unsupported("unsupported-argument", "np.fill_diagonal", "values repeated")
        if tracing.size(a.dims[0]) != tracing.size(a.dims[1]):
            raise Unsupported(
                "unsupported-argument", "np.fill_diagonal", "a matrix that is not square"
            )
        tracing.hold_lengths(a.dims, value.dims * 2)
    rows, columns = (counted(tracing, dim) for dim in a.dims)
    mask: Any = rows[:, None] == columns[None, :]
    _replace(a, mask, value)
