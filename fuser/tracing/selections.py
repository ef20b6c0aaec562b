"""Elements that a mask selects, written back or reduced: a choice for every element.

`y[m] *= 2` and `y[m] = f(x[m])` read a selection, whose length is known only when it is made, and
write it by the same mask. Where all between is elementwise, that is `where(m, f(x), y)`; and
`f(x[m]).sum()` is the sum of `f(x)` where `m` holds. A mask of one axis selects rows of an array of
several: `x[m].sum(axis=0)` is the sum of columns of `x` where `m` holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.host_expressions import scalar_symbols
from fuser.ir import dims
from fuser.ir.graph import Node, walk
from fuser.ir.opaque_calls import Operand
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray

_SELECTION: tuple[Any, ...] = ("numpy.ndarray.__getitem__", (Operand(0), Operand(1)), {})


def is_mask(index: object, target: TracedArray) -> bool:
    """Whether an index is a mask of a target's shape, which holds from now on."""
    if not isinstance(index, TracedArray) or index.dtype != np.dtype(bool):
        return False
    return _same_shape(target.tracing, index.node, target.node)


def _same_shape(tracing: Tracing, left: Node, right: Node, more: int = 0) -> bool:
    """Whether two nodes have one shape; lengths of 1 do not broadcast here.

    Args:
        tracing: the trace.
        left: a node.
        right: another one.
        more: axes that the second one has after those of the first.
    """
    beside = right.shape[: len(right.shape) - more]
    if not left.shape or not tracing.same_lengths(left.shape, beside):
        return False
    tracing.hold_lengths(left.shape, beside)
    return True


def whole(tracing: Tracing, mask: Node, value: Node) -> Node | None:
    """What elements would be without the selection by `mask`; None where that is not known.

    Args:
        tracing: the trace.
        mask: the mask that `value` is about to be written by.
        value: computed, element by element, from selections by this very mask.
    """
    return _whole(tracing, mask, value) if len(value.shape) == 1 else None


def _whole(tracing: Tracing, mask: Node, value: Node) -> Node | None:
    """As `whole`, of values of one axis, or of rows: these have the same axes after it."""
    new: dict[int, Node] = {}
    shape = tuple(map(tracing.resolve, value.shape))
    if isinstance(shape[0], int):
        return None
    length = set(dims.symbols(shape[0]))
    stack, seen = [value], set()
    while stack:
        node = stack.pop()
        if id(node) in seen or node.shape == ():
            continue
        seen.add(id(node))
        if (source := _source(tracing, mask, node)) is not None:
            length |= set(dims.symbols(node.shape[0]))
            new[id(node)] = source
            tracing.optional[id(node)] = node
            continue
        if not _elementwise(node) or tuple(map(tracing.resolve, node.shape)) != shape:
            return None
        stack.extend(node.args)
    return _rebuilt(tracing, value, new, length) if new else None


def spread(x: TracedArray) -> tuple[TracedArray, TracedArray] | None:
    """What elements would be without a selection, and the mask that selects, for each element.

    None for anything but values that are computed, element by element, from selections by one mask.
    """
    tracing = x.tracing
    stack, seen = [x.node], set()
    while stack:
        node = stack.pop()
        if id(node) in seen or len(node.shape) != x.ndim:
            continue
        seen.add(id(node))
        if node.op.is_opaque:
            mask = node.args[-1] if node.args else node
            if mask.dtype != np.dtype(bool) or _source(tracing, mask, node) is None:
                return None
            found = _whole(tracing, mask, x.node)
            if found is None:
                return None
            for _ in range(x.ndim - 1):  # rows
                mask = tracing.wrap(mask)[..., None].node
            return tracing.wrap(found), tracing.wrap(mask)
        if not _elementwise(node):
            return None
        stack.extend(node.args)
    return None


def _elementwise(node: Node) -> bool:
    """Whether a node computes each element from those of its operands, and never raises."""
    row = node.op
    return bool(node.args) and row.is_elementwise and node.dtype.kind not in row.raises


def _source(tracing: Tracing, mask: Node, node: Node) -> Node | None:
    """The array of which a node is a selection by `mask`."""
    call = node.payload
    if not node.op.is_opaque or (call.name, call.args, call.kwargs) != _SELECTION:
        return None
    if len(node.args) != 2 or node.args[1] is not mask:
        return None
    more = len(node.shape) - 1
    if more and len(mask.shape) > 1:
        return None  # of several axes together, beside others
    return node.args[0] if _same_shape(tracing, mask, node.args[0], more) else None


def _rebuilt(
    tracing: Tracing, value: Node, new: dict[int, Node], length: set[str]
) -> Node | None:
    """The same operations on whole arrays; None where a number tells how many are selected."""
    for node in walk([value], lambda node: id(node) in new or node.shape == ()):
        if id(node) in new:
            continue
        if node.shape == ():
            if any(_tells(part, length) for part in walk([node])):
                return None
            new[id(node)] = node
        else:
            operands = [new[id(arg)] for arg in node.args]
            new[id(node)] = tracing.node(node.op.name, operands, node.payload)
    return new[id(value)]


def _tells(node: Node, length: set[str]) -> bool:
    """Whether a node may depend on how many elements are selected."""
    if node.op.is_opaque:
        return any(length & set(dims.symbols(dim)) for dim in node.shape)
    return not node.op.is_input and not length.isdisjoint(node.payload.symbols)


def drop_unneeded(tracing: Tracing, nodes: list[Node], told: set[str]) -> None:
    """Forget selections that nothing reads any more: they cannot raise.

    Args:
        tracing: the trace.
        nodes: its results.
        told: lengths that results speak of beside these.
    """
    needed = {id(node): node for node in walk(nodes)}
    texts = [*tracing.value_guards, *(str(dim) for pair in tracing.guards for dim in pair)]
    told = told.union(*map(scalar_symbols, texts))
    for node in needed.values():
        told |= {name for dim in node.shape for name in dims.symbols(dim)}
        if node.op.is_scalar:
            told |= set(node.payload.symbols)
    for key, node in tracing.optional.items():
        if key not in needed and not told & set(dims.symbols(node.shape[0])):
            tracing.externs.pop(key, None)
