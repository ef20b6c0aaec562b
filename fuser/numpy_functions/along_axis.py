"""np.take_along_axis and np.put_along_axis at one place of each row, of rows that are computed.

As in `row_places`, the element is where the position along the axis is the row's number: losses of
tokens, and ones at the place of the largest, need no array of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.function_table import handles
from fuser.ir.graph import Node, make_constant
from fuser.numpy_functions import gathers
from fuser.numpy_functions.array_functions import unless
from fuser.numpy_functions.element_of_each_row import _is_memory
from fuser.tracing.counting import counted
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


@handles(np.take_along_axis)
def _take(tracing: Tracing, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """np.take_along_axis; of one place of each row of what is computed, without storing it."""
    place = _place(tracing, arr, indices, axis)
    if place is None:
        return gathers.along_axis(arr, indices, axis)
    kind = arr.dtype.kind
    least = False if kind == "b" else -np.inf if kind == "f" else np.iinfo(arr.dtype).min
    others = make_constant(least, arr.dtype)
    chosen: Any = tracing.wrap(tracing.node("where", [_hit(arr, indices, place), arr.node, others]))
    reduce = np.any if kind == "b" else np.max
    return reduce(chosen, axis=place, keepdims=True)


@handles(np.put_along_axis)
def _put(tracing: Tracing, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """np.put_along_axis at one place of each row, of one number or one for each row."""
    place = _place(tracing, arr, indices, axis)
    given = tracing.operand(values)
    fits = not isinstance(given, TracedArray) or not given.ndim or _alike(arr, given, place)
    if place is None or not fits or type(values) in (list, tuple, np.ndarray):
        raise Unsupported("unsupported-function", "np.put_along_axis", "no fused form")
    new = tracing.operand_node(given, arr.dtype)
    arr.assign(tracing.node("where", [_hit(arr, indices, place), new, arr.node]))


def _place(tracing: Tracing, x: Any, indices: Any, axis: Any) -> int | None:
    """The axis along which there is one index for each row; None for anything else."""
    if not isinstance(x, TracedArray) or not isinstance(indices, TracedArray):
        return None
    if x.generic or x.dtype.kind not in "biuf" or type(axis) is not int or _is_memory(x.node):
        return None
    if indices.dtype.kind not in "iu" or indices.dtype == np.uint64 or x.ndim < 1:
        return None
    if not -x.ndim <= axis < x.ndim:
        return None
    place = normal_axis(axis, x.ndim)
    if not _alike(x, indices, place) or tracing.size(x.dims[place]) < 1:
        return None
    tracing.hold_at_least(x.dims[place], 1)
    return place


def _alike(x: TracedArray, other: TracedArray, place: int | None) -> bool:
    """Whether an array has one element for each row of another one, whatever their lengths."""
    if place is None or x.ndim != other.ndim:
        return False
    tracing = x.tracing
    pairs = [(tracing.resolve(a), tracing.resolve(b))
             for a, b in zip(x.dims, other.dims, strict=True)]  # fmt: skip
    if pairs.pop(place)[1] != 1:
        return False
    if any(tracing.size(a) != tracing.size(b) for a, b in pairs):
        return False
    late = [name for pair in pairs for dim in pair for name in dims.symbols(dim)]
    if not tracing.late.isdisjoint(late):
        return False
    for one, two in pairs:
        if one != two:
            tracing._hold(one, two)
    return True


def _hit(x: TracedArray, indices: TracedArray, place: int) -> Node:
    """Whether the position along the axis is the row's number, which may count from the end."""
    count: Any = x._length(x.dims[place])
    number: Any = indices.astype(np.int64, copy=False)
    if not _is_place(x, indices.node, place):
        number = unless(number, np.any((number < -count) | (number >= count)))
        number = np.where(number < 0, number + count, number)
    along: list[Any] = [None] * x.ndim
    along[place] = slice(None)
    column: Any = counted(x.tracing, x.dims[place])[tuple(along)]
    return (column == number).node  # type: ignore[no-any-return]


def _is_place(x: TracedArray, node: Node, place: int) -> bool:
    """Whether a number is the place of an extreme along an axis of the same length."""
    while node.op.is_view or node.op.converts:
        node = node.args[0]
    if not node.op.places or node.args[0].shape == ():
        return False
    rows, axes = node.args[0].shape, node.payload.axes
    resolve = x.tracing.resolve
    return axes == (place,) and len(rows) == x.ndim and resolve(rows[place]) == resolve(
        x.dims[place]
    )
