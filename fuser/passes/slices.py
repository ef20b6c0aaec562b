"""Some of the elements of a value along one axis; of a join, those of the operands that hold them.

A join (`concatenate`, `interleave`) need not be stored to take a part of it where it is known, for
every length that the guards admit, which of its operands the part lies in.
"""

from __future__ import annotations

from fuser.ir import dims
from fuser.ir.dims import Dim, Shape
from fuser.ir.graph import Node, intern
from fuser.ir.ops import op
from fuser.ir.views import Broadcast, Part
from fuser.passes import length_facts


def cut(
    node: Node, axis: int, span: tuple[Dim, Dim, int], known: length_facts.Bounds, length: Dim,
    looks_through: bool = True,
) -> Node:  # fmt: skip
    """The elements at start, start + step, … below stop along one axis.

    Args:
        node: the value.
        axis: of it.
        span: start, stop and step; start <= stop <= the axis's length.
        known: lower bounds of lengths.
        length: how many they are, as it is to be spelled.
        looks_through: whether a part of a join is one of its operands, where that is known.
    """
    start, stop, step = span
    if (start, stop, step) == (0, length_facts.simplify(node.shape[axis], known), 1):
        return node
    within = node.op.joins and looks_through
    found = part_of_join(node, axis, span, known, length) if within else None
    if found is not None:
        return found
    if node.op.repeats:
        (value,) = node.args
        own = axis - len(node.shape) + len(value.shape)
        if own < 0 or value.shape[own] == 1:
            return repeated(value, _with(node, axis, length))
    return intern(op("part"), (node,), _with(node, axis, length), node.dtype, Part(axis, *span))


def repeated(value: Node, shape: Shape) -> Node:
    """A value that is broadcast to a shape."""
    if value.shape == shape:
        return value
    return intern(op("broadcast_to"), (value,), shape, value.dtype, Broadcast(shape))


def part_of_join(
    node: Node, axis: int, span: tuple[Dim, Dim, int], known: length_facts.Bounds, length: Dim
) -> Node | None:
    """Part of a join as parts of its operands; None where it is not known which."""
    if node.payload.axis != axis:
        parts = tuple(cut(part, axis, span, known, length) for part in node.args)
        return intern(node.op, parts, _with(node, axis, length), node.dtype, node.payload)
    if node.op.interleaves:
        return _of_interleaved(node, axis, span, known, length)
    return _of_joined(node, axis, span, known, length)


def edges(joined: Node, known: length_facts.Bounds) -> list[Dim]:
    """Where the parts of a concatenation start, and its end."""
    axis = joined.payload.axis
    found: list[Dim] = [0]
    for part in joined.args:
        found.append(length_facts.simplify(found[-1] + part.shape[axis], known))
    found[-1] = length_facts.simplify(joined.shape[axis], known)
    return found


def _of_joined(
    node: Node, axis: int, span: tuple[Dim, Dim, int], known: length_facts.Bounds, length: Dim
) -> Node | None:
    """Part of a concatenation along its own axis; with a step only where one operand holds it."""
    start, stop, step = span

    def before(left: Dim, right: Dim) -> bool:
        return length_facts.at_most(left, right, known)

    ends = edges(node, known)
    parts = []
    for part, low, high in zip(node.args, ends[:-1], ends[1:], strict=True):
        if before(high, start) or before(stop, low):
            continue
        first = start if before(low, start) else low
        last = stop if before(stop, high) else high
        sure = first is start or before(start, low)
        if not sure or not (last is stop or before(high, stop)):
            return None
        if first == start and last == stop:
            return cut(part, axis, (first - low, last - low, step), known, length)
        if step != 1 or not before(first, last):  # it may lie before what the operand holds
            return None
        parts.append(cut(part, axis, (first - low, last - low, 1), known, last - first))
    if not parts:
        return None
    return intern(node.op, tuple(parts), _with(node, axis, length), node.dtype, node.payload)


def _of_interleaved(
    node: Node, axis: int, span: tuple[Dim, Dim, int], known: length_facts.Bounds, length: Dim
) -> Node | None:
    """Part of an interleaving along its own axis, where one operand holds all of it."""
    start, stop, step = span
    ways = len(node.args)
    if not isinstance(start, int) or (step != ways and stop - start != 1):
        return None
    first = start // ways
    last = length_facts.simplify(first + dims.steps(start, stop, step), known)
    return cut(node.args[start % ways], axis, (first, last, 1), known, length)


def _with(node: Node, axis: int, length: Dim) -> tuple[Dim, ...]:
    """A value's shape with another length along an axis."""
    return (*node.shape[:axis], length, *node.shape[axis + 1 :])
