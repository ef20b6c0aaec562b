"""A reduction of joined arrays is that of their parts, combined; and joins that repeat elements.

`np.abs(np.diff(x, prepend=0)).sum()` reduces a join of one element and all others. Each part is
reduced where it is computed, so that the join is never stored; what is combined is as small as the
result.
"""

from __future__ import annotations

from collections.abc import Callable

from fuser.ir.attributes import Axis, dtype_name
from fuser.ir.dims import Dim, Shape
from fuser.ir.graph import Node, constant_value, intern, make, make_constant
from fuser.ir.ops import op
from fuser.ir.views import Index

IsOne = Callable[[Dim], bool]


def reduced(node: Node, joined: Node, is_one: IsOne) -> Node | None:
    """A reduction of a join, part by part; None where the join is better one array.

    Where a row is joined that one result is reduced from, and results lie along leading axes, nests
    hand the rows to each other (`fuser.scheduling.row_tiles`): these store nothing either.

    Args:
        node: the reduction.
        joined: its operand.
        is_one: whether guards say that a length is 1.
    """
    axes = node.payload.axes
    axis, row = joined.payload.axis, node.op
    if axes == (axis,) and (layers := _layers(node, joined, is_one)) is not None:
        return layers
    across = any(join in axes for join in _join_axes(joined))
    if not across:
        return _of(node, joined, axes, node.shape) if not row.places or len(axes) == 1 else None
    in_rows = len(axes) < len(joined.shape) and max(_kept(joined, axes)) < min(axes)
    coarse = dtype_name(node.dtype) == "float16" and row.accumulates  # of results rounded twice
    if row.places or in_rows or coarse:
        return None
    return _of(node, joined, axes, node.shape)


def _kept(value: Node, axes: tuple[int, ...]) -> list[int]:
    """The axes that are not reduced."""
    return [axis for axis in range(len(value.shape)) if axis not in axes]


def _join_axes(value: Node) -> set[int]:
    """The axes along which a value is joined, and its parts again."""
    if not value.op.joins:
        return set()
    return {value.payload.axis}.union(*map(_join_axes, value.args))


def _of(node: Node, value: Node, axes: tuple[int, ...], shape: Shape) -> Node:
    """The reduction `node` of another value; of a join, what its parts give."""
    if not value.op.joins:
        return intern(node.op, (value,), shape, node.dtype, node.payload)
    axis = value.payload.axis
    if axis in axes:
        zeros = [node.op.adds and _is_zero(part) for part in value.args]
        added = [part for part, zero in zip(value.args, zeros, strict=True) if not zero]
        return _combined(
            node, [_of(node, part, axes, shape) for part in added or value.args[:1]], shape
        )
    place = axis - sum(each < axis for each in axes)
    found = [
        _of(node, part, axes, (*shape[:place], part.shape[axis], *shape[place + 1 :]))
        for part in value.args
    ]
    return intern(value.op, tuple(found), shape, node.dtype, Axis(place))


def _is_zero(part: Node) -> bool:
    """Whether all elements are a constant 0, which no sum needs: those of nothing are 0 too."""
    while part.op.is_view and part.args[0].shape == ():
        (part,) = part.args
    return part.op.is_constant and constant_value(part) == 0


def _combined(node: Node, results: list[Node], shape: Shape) -> Node:
    """The results of parts as one."""
    row = op(node.op.combine)
    found = results[0]
    for result in results[1:]:
        found = intern(row, (found, result), shape, node.dtype)
    return found


def _layers(node: Node, joined: Node, is_one: IsOne) -> Node | None:
    """What single layers along the reduced axis are combined to; None where there are others."""
    axis = joined.payload.axis
    if node.op.places or dtype_name(node.dtype) == "float16":
        return None
    if not all(is_one(part.shape[axis]) for part in joined.args):
        return None
    layers = [layer(part, axis) for part in joined.args]
    found = _combined(node, layers, node.shape)
    if not node.op.adds or node.dtype.kind != "f":
        return found
    zero = make_constant(0.0, node.dtype)  # NumPy's sums start with it: two -0.0 give 0.0
    return intern(op("add"), (found, zero), node.shape, node.dtype)


def is_layer(value: Node, axis: int) -> bool:
    """Whether an index has put an axis of length 1 into a value."""
    return value.op.indexes and _put_there(value, axis) is not None


def _put_there(value: Node, axis: int) -> int | None:
    """Which entry of an index has put an axis there; None where it is the value's own."""
    entries = value.payload.parts
    seen = [k for k, entry in enumerate(entries) if type(entry) is not int]
    return seen[axis] if axis < len(seen) and entries[seen[axis]] is None else None


def layer(value: Node, axis: int) -> Node:
    """A value without an axis of length 1; where an index has put it there, what that shows."""
    if value.op.indexes and (place := _put_there(value, axis)) is not None:
        entries = list(value.payload.parts)
        del entries[place]
        plain = all(entry == slice(None) for entry in entries)
        (source,) = value.args
        return source if plain else make("index", source, payload=Index(tuple(entries)))
    return make("index", value, payload=Index((*[slice(None)] * axis, 0)))


def interleaved(node: Node, joined: Node) -> Node | None:
    """A reshape that merges the axis of joined layers into the one before, as an interleaving.

    `np.repeat(x, 2)` joins x and x along a new axis, so that they take turns.
    """
    if not node.op.reshapes or not joined.op.concatenates:
        return None
    axis, ways = joined.payload.axis, len(joined.args)
    if axis == 0 or any(part.shape[axis] != 1 for part in joined.args):
        return None
    before = joined.shape[axis - 1]
    if node.shape != (*joined.shape[: axis - 1], before * ways, *joined.shape[axis + 1 :]):
        return None
    layers = tuple(layer(part, axis) for part in joined.args)
    return intern(op("interleave"), layers, node.shape, node.dtype, Axis(axis - 1))
