"""One element of each row: read by a reduction, written by a choice.

`p[np.arange(n), labels]`, np.take_along_axis and np.put_along_axis of one place: what a loss reads
of computed rows, and what its gradient subtracts there, needs no array of them. An element is where
the position along the axis is the row's number. Numbers beyond the row end the call in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.dims import Dim
from fuser.ir.function_table import handles
from fuser.ir.graph import Node, make_constant
from fuser.ir.views import Index
from fuser.numpy_functions import gathers
from fuser.numpy_functions.array_functions import unless
from fuser.tracing import selections
from fuser.tracing.counting import counted
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


def taken(x: TracedArray, index: Any) -> TracedArray | None:
    """`x[np.arange(n), labels]` of rows that are computed; None for anything else."""
    labels = _labels(x, index)
    if labels is None or _is_memory(x.node):
        return None
    tracing = x.tracing
    found: Any = _chosen(x, _hit_of_labels(x, labels), 1, False)
    tracing.picked[id(found.node)] = (found.node, x.node, labels.node)
    return found  # type: ignore[no-any-return] # a traced array


def assign(x: TracedArray, index: Any, value: Any) -> bool:
    """`x[np.arange(n), labels] = value`; whether it could be."""
    labels = _labels(x, index)
    if labels is None or _is_memory(x.node) or type(value) in (list, tuple, np.ndarray):
        return False
    tracing = x.tracing
    given = tracing.operand(value)
    new = tracing.operand_node(given, x.dtype)
    if new.shape:
        if not tracing.same_lengths(new.shape, labels.dims):
            return False
        tracing.fits_into(labels.dims, new.shape)
        new = _along_rows(x, labels.node, new)
    x.assign(tracing.node("where", [_hit_of_labels(x, labels), new, x.node]))
    return True


def _labels(x: TracedArray, index: Any) -> TracedArray | None:
    """The numbers of an index that has one for each row of a matrix; None for any other index."""
    if x.generic or x.ndim != 2 or type(index) is not tuple or len(index) != 2:
        return None
    rows, labels = index
    if not (isinstance(rows, TracedArray) and isinstance(labels, TracedArray)):
        return None
    whole = rows.node.op.is_iota and labels.ndim == 1
    if not whole or labels.dtype.kind not in "iu" or labels.dtype == np.uint64:
        return None
    if x.dtype.kind not in "biuf":
        return None
    tracing = x.tracing
    others = [rows.dims[0], labels.dims[0]]
    if tracing.size(x.dims[1]) < 1 or not _alike(tracing, [x.dims[0]] * 2, others):
        return None
    tracing.hold_at_least(x.dims[1], 1)
    return labels


def _alike(tracing: Tracing, left: Sequence[Dim], right: Sequence[Dim]) -> bool:
    """Whether lengths that arguments tell are the same; this is held."""
    told = {name for dim in map(tracing.resolve, (*left, *right)) for name in dims.symbols(dim)}
    if not tracing.same_lengths(left, right) or not tracing.late.isdisjoint(told):
        return False
    tracing.hold_lengths(left, right)
    return True


def _is_memory(node: Node) -> bool:
    """Whether a value lies in memory anyway: NumPy then reads but one element of each row."""
    while node.op.structure and not node.op.joins and not node.op.is_update and node.args:
        node = node.args[0]
    return node.op.is_input or node.op.is_opaque


def _chosen(x: TracedArray, hit: Node, axis: int, keepdims: bool) -> Any:
    """The element of each row that is hit: the greatest, beside the least that there is."""
    kind = x.dtype.kind
    least = False if kind == "b" else -np.inf if kind == "f" else np.iinfo(x.dtype).min
    others = make_constant(least, x.dtype)
    chosen: Any = x.tracing.wrap(x.tracing.node("where", [hit, x.node, others]))
    return (np.any if kind == "b" else np.max)(chosen, axis=axis, keepdims=keepdims)


def _numbers(x: TracedArray, labels: TracedArray, axis: int, within: bool) -> Any:
    """Positions along an axis, counted from the front; beyond it NumPy raises.

    Args:
        x: the rows.
        labels: positions, which may count from the end.
        axis: of the rows.
        within: they are known to be positions.
    """
    number: Any = labels.astype(np.int64, copy=False)
    if within:
        return number
    count: Any = x._length(x.dims[axis])
    number = unless(number, np.any((number < -count) | (number >= count)))
    return np.where(number < 0, number + count, number)


def _hit_of_labels(x: TracedArray, labels: TracedArray) -> Node:
    """Whether the column is the row's number."""
    tracing = x.tracing
    longer = x.dims[1] - labels.dims[0]
    diagonal = labels.node.op.is_iota and tracing.size(longer) >= 0
    if diagonal:
        tracing.hold_at_least(longer, 0)
    number = _numbers(x, labels, 1, diagonal)
    column: Any = counted(tracing, x.dims[1])
    return (column[None, :] == number[:, None]).node  # type: ignore[no-any-return]


def _along_rows(x: TracedArray, labels: Node, value: Node) -> Node:
    """A number for each row as one for each element: of what was read there, of the rows."""
    tracing = x.tracing
    new: dict[int, Node] = {}
    waiting = [(value, False)]
    while waiting:
        node, ready = waiting.pop()
        if id(node) in new:
            continue
        _, rows, places = tracing.picked.get(id(node), (None, None, None))
        if rows is x.node and places is labels:
            new[id(node)] = rows
        elif not node.shape:
            new[id(node)] = node
        elif not _reads(tracing, x, labels, node):
            new[id(node)] = tracing.node("index", [node], Index((slice(None), None)))
        elif ready:
            operands = [new[id(arg)] for arg in node.args]
            new[id(node)] = tracing.node(node.op.name, operands, node.payload)
        else:
            waiting.append((node, True))
            waiting.extend((arg, False) for arg in node.args)
    return new[id(value)]


def _reads(tracing: Any, x: TracedArray, labels: Node, node: Node) -> bool:
    """Whether a number is computed, element by element, from what was read of these rows."""
    if not selections._elementwise(node):
        return False
    waiting, seen = [*node.args], set()
    while waiting:
        arg = waiting.pop()
        if id(arg) in seen:
            continue
        seen.add(id(arg))
        _, rows, places = tracing.picked.get(id(arg), (None, None, None))
        if rows is x.node and places is labels:
            return True
        if selections._elementwise(arg):
            waiting.extend(arg.args)
    return False


# -- along an axis ---------------------------------------------------------------------------


@handles(np.take_along_axis)
def _take(tracing: Tracing, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """np.take_along_axis; of one place of each row of what is computed, without storing it."""
    place = _place(tracing, arr, indices, axis)
    if place is None:
        return gathers.along_axis(arr, indices, axis)
    return _chosen(arr, _hit(arr, indices, place), place, True)


@handles(np.put_along_axis)
def _put(tracing: Tracing, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """np.put_along_axis at one place of each row, of one number or one for each row."""
    place = _place(tracing, arr, indices, axis)
    given = tracing.operand(values)
    fits = not isinstance(given, TracedArray) or not given.ndim or _one_each(arr, given, place)
    if place is None or not fits or type(values) in (list, tuple, np.ndarray):
        raise Unsupported("unsupported-function", "np.put_along_axis", "")
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
    if not _one_each(x, indices, place) or tracing.size(x.dims[place]) < 1:
        return None
    tracing.hold_at_least(x.dims[place], 1)
    return place


def _one_each(x: TracedArray, other: TracedArray, place: int | None) -> bool:
    """Whether an array has one element for each row of another one, whatever their lengths."""
    if place is None or x.ndim != other.ndim or x.tracing.resolve(other.dims[place]) != 1:
        return False
    beside = [axis for axis in range(x.ndim) if axis != place]
    return _alike(x.tracing, [x.dims[k] for k in beside], [other.dims[k] for k in beside])


def _hit(x: TracedArray, indices: TracedArray, place: int) -> Node:
    """Whether the position along the axis is the row's number."""
    number = _numbers(x, indices, place, _is_place(x, indices.node, place))
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
