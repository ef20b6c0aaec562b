"""Reductions of all that a nest computes, taken from those of its rows where there are some.

`d - d.mean(0) - d.mean(1)[:, None] + d.mean()` reduces distances three times. They are stored, as
columns need all of them; sums of rows are made while the rows are still near, and the sum of all is
that of these, so that the array is read once more, not twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from fuser import infer
from fuser.graph import Graph, Node, intern, rebuild

REDUCTIONS = ("sum", "max", "min")


def reuse(graph: Graph) -> Graph:
    """Take reductions over more axes from those over the last ones; the same graph where none is.

    Args:
        graph: rewritten, joins moved.
    """
    rows: dict[tuple[int, str], Node] = {}
    behind: dict[int, bool] = {}
    for node in graph.nodes:
        behind[id(node)] = _reduces_elsewhere(node, behind)
        if node.op.name in REDUCTIONS and behind[id(node.args[0])] and _keeps_first(node):
            known = rows.get((id(node.args[0]), node.op.name))
            if known is None or len(known.shape) < len(node.shape):
                rows[id(node.args[0]), node.op.name] = node
    if not rows:
        return graph
    lines: dict[int, str] = {}

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        found = intern(node.op, args, node.shape, node.dtype, node.payload)
        first = rows.get((id(node.args[0]), node.op.name)) if node.args else None
        if first is not None and _holds(node, first):
            part = intern(node.op, args, first.shape, first.dtype, first.payload)
            rest = [axis for axis in infer.parse_axes(node.payload) if axis < len(first.shape)]
            payload = ", ".join(map(str, rest))
            found = intern(node.op, (part,), node.shape, node.dtype, payload)
        if line := graph.line_of(node):
            lines.setdefault(id(found), line)
        return found

    outputs = rebuild(graph.outputs, change)
    if all(new is old for new, old in zip(outputs, graph.outputs, strict=True)):
        return graph
    return graph.with_outputs(outputs, lines)


def _reduces_elsewhere(node: Node, behind: Mapping[int, bool]) -> bool:
    """Whether an element of a value takes a reduction, in other loops than over its elements."""
    if node.op.reduction:
        return True
    if node.op.joins or node.op.name == "broadcast_to":
        return False
    views = node.op.structure
    return any(behind[id(arg)] and (views or arg.shape == node.shape) for arg in node.args)


def _keeps_first(node: Node) -> bool:
    """Whether a reduction is over the last axes, and others are left."""
    rank, axes = len(node.args[0].shape), infer.parse_axes(node.payload)
    return len(axes) < rank and axes == tuple(range(rank - len(axes), rank))


def _holds(node: Node, first: Node) -> bool:
    """Whether a reduction is also over axes that another one keeps, and over all of its own."""
    own, axes = infer.parse_axes(first.payload), infer.parse_axes(node.payload)
    return len(own) < len(axes) and set(own) < set(axes) and node.dtype.name != "float16"
