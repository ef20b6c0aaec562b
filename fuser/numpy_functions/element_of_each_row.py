"""One element of each row, `p[np.arange(n), labels]`: read by a reduction, written by a choice.

What a loss reads of computed rows, and what its gradient subtracts there, needs no array of them:
an element is where the column is the row's number. Numbers beyond the row end the call in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.ir import dims
from fuser.ir.graph import Node, make_constant
from fuser.ir.views import Index
from fuser.numpy_functions.array_functions import unless
from fuser.tracing import selections
from fuser.tracing.counting import counted
from fuser.tracing.traced_array import TracedArray


def taken(x: TracedArray, index: Any) -> TracedArray | None:
    """`x[np.arange(n), labels]` of rows that are computed; None for anything else."""
    labels = _labels(x, index)
    if labels is None or _is_memory(x.node):
        return None
    tracing = x.tracing
    hit = _hit(x, labels)
    kind = x.dtype.kind
    least = False if kind == "b" else -np.inf if kind == "f" else np.iinfo(x.dtype).min
    others = make_constant(least, x.dtype)
    chosen: Any = tracing.wrap(tracing.node("where", [hit, x.node, others]))
    found: Any = np.any(chosen, axis=1) if kind == "b" else np.max(chosen, axis=1)
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
    x.assign(tracing.node("where", [_hit(x, labels), new, x.node]))
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
    lengths = [*map(tracing.resolve, (x.dims[0], rows.dims[0], labels.dims[0]))]
    if len({*map(tracing.size, lengths)}) > 1 or tracing.size(x.dims[1]) < 1:
        return None
    if any(not tracing.late.isdisjoint(dims.symbols(dim)) for dim in lengths):
        return None
    for other in lengths[1:]:
        if tracing.resolve(lengths[0]) != tracing.resolve(other):
            tracing._hold(tracing.resolve(lengths[0]), tracing.resolve(other))
    tracing.hold_at_least(x.dims[1], 1)
    return labels


def _is_memory(node: Node) -> bool:
    """Whether a value lies in memory anyway: NumPy then reads but one element of each row."""
    while node.op.structure and not node.op.joins and not node.op.is_update and node.args:
        node = node.args[0]
    return node.op.is_input or node.op.is_opaque


def _hit(x: TracedArray, labels: TracedArray) -> Node:
    """Whether the column is the row's number, which may count from the end."""
    tracing = x.tracing
    count: Any = x._length(x.dims[1])
    number: Any = labels.astype(np.int64, copy=False)
    longer = x.dims[1] - labels.dims[0]
    if labels.node.op.is_iota and tracing.size(longer) >= 0:  # a diagonal
        tracing.hold_at_least(longer, 0)
    else:
        number = unless(number, np.any((number < -count) | (number >= count)))
        number = np.where(number < 0, number + count, number)
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
