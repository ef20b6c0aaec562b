"""Totals: reductions over all results of a nest's own reductions, in the same nest.

A loss is a reduction of each row, then a mean over the rows. The mean's loops are those that the
row's reduction keeps, so one nest can do both: each result is taken into a total as soon as it is
there, and need not be stored for that. Totals of elements are totals of each row's.

Sums across rows (gradients of weights beside those of rows) are another kind: one for each element
of a row. A nest has totals of one kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fuser.ir.attributes import dtype_name
from fuser.ir.dims import Dim, Shape
from fuser.ir.graph import Node
from fuser.ir.views import Broadcast, Chain
from fuser.scheduling.loop_nests import Nearest, Space, fit, is_leaf


def is_total(node: Node) -> bool:
    """Whether a node reduces all axes of its operand, in a way that partial results combine.

    Sums of float16 are rounded once, at the end: parts of them would be rounded too.
    """
    if not node.op.reduction or node.op.places:
        return False
    (arg,) = node.args
    half = dtype_name(node.dtype) == "float16" and node.op.accumulates
    whole = node.payload.axes == tuple(range(len(arg.shape)))
    return whole and arg.dtype == node.dtype and not half


def operand_chain(node: Node, space: Space) -> Chain | None:
    """How the operand of a total is met in the loops of another reduction; None if it is not."""
    return fit(node.args[0].shape, space) if is_total(node) else None


def widen(shape: Shape) -> Chain:
    """The views that repeat a single value in loops of a shape."""
    return (Broadcast(shape),)


def are_totals(
    values: Iterable[Node],
    shape: Shape,
    stored: Mapping[int, Any],
    nearest: Mapping[int, Nearest],
) -> bool:
    """Whether values follow from nothing but totals of arrays of a shape, in one stage.

    Args:
        values: what a unit stores.
        shape: of its loops.
        stored: by `id`, values that are read and not computed.
        nearest: the reductions that each value needs.
    """
    stack, seen = list(values), set()
    first = {id(node) for node in stack}
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not _is_single(node.shape) or node.op.joins:
            return False
        if (id(node) in stored and id(node) not in first) or not node.args:
            continue
        if node.op.reduction:
            (arg,) = node.args
            if not is_total(node) or arg.shape != shape:
                return False
            if id(arg) not in stored and nearest[id(arg)][0]:
                return False
            continue
        stack.extend(node.args)
    return True


def can_hold(space: Space, shape: Shape) -> bool:
    """Whether a nest that reduces may also make totals of arrays of a shape.

    Its results are rows of memory, as a rule: columns are computed by tiles, and their results
    are a small part of what is read.
    """
    whole, axes = space
    inner = bool(axes) and len(axes) < len(whole) and len(whole) - 1 in axes
    if all(whole[axis] == 1 for axis in axes):
        return False  # of a row's one element it is not seen whether it is a result
    return inner and fit(shape, space) is not None


def are_across(
    values: Iterable[Node],
    space: Space,
    stored: Mapping[int, Any],
    nearest: Mapping[int, Nearest],
) -> bool:
    """Whether values follow from nothing but sums over all axes but the last, in one stage.

    Args:
        values: what a unit stores.
        space: its loops.
        stored: by `id`, values that are read and not computed.
        nearest: the reductions that each value needs.
    """
    whole, axes = space
    if axes != tuple(range(len(whole) - 1)) or not axes:
        return False
    stack, seen = list(values), set()
    first = {id(node) for node in stack}
    while stack:
        node = stack.pop()
        if id(node) in seen or is_leaf(node):
            continue
        seen.add(id(node))
        if node.op.joins or node.shape == whole or fit(node.shape, space) is None:
            return False
        if (id(node) in stored and id(node) not in first) or not node.args:
            continue
        if node.op.reduction:
            if across_chain(node, (whole, (len(whole) - 1,))) is None:
                return False
            if id(node.args[0]) not in stored and nearest[id(node.args[0])][0]:
                return False
            continue
        stack.extend(node.args)
    return True


def across_chain(node: Node, space: Space) -> Chain | None:
    """How the operand of a sum across rows is met in the rows' loops; None if it is no such."""
    whole, axes = space
    kept = tuple(axis for axis in range(len(whole)) if axis not in axes)
    (arg,) = node.args
    ours = node.op.adds and node.payload.axes == kept
    plain = arg.shape == whole and arg.dtype == node.dtype and dtype_name(node.dtype) != "float16"
    return () if ours and plain else None


def can_hold_across(space: Space, other: Space) -> bool:
    """Whether a nest that reduces rows may also sum across them, in the other loops' stead."""
    whole, axes = space
    rows = axes == (len(whole) - 1,) and len(whole) > 1 and whole[-1] != 1
    return other[0] == whole and rows


def widen_across(shape: Shape, space: Space) -> Chain:
    """The views that repeat what is computed across rows in the rows' loops."""
    whole, axes = space
    found = fit(shape, (whole, tuple(axis for axis in range(len(whole)) if axis not in axes)))
    assert found is not None
    return found


def _is_single(shape: tuple[Dim, ...]) -> bool:
    """Whether a shape has one element whatever the lengths."""
    return all(dim == 1 for dim in shape)
