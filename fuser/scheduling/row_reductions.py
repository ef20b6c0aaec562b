"""Reductions of all that a nest computes, taken from those of its rows where there are some.

`d - d.mean(0) - d.mean(1)[:, None] + d.mean()` reduces distances three times. They are stored, as
columns need all of them; sums of rows are made while the rows are still near, and the sum of all is
that of these, so that the array is read once more, not twice.

Forces and the energy of bodies both need all distances. Forces need them row by row, so the energy
is summed by rows, too: then what lies between stays in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping

from fuser.ir.attributes import Axes, dtype_name
from fuser.ir.dims import Shape
from fuser.ir.graph import Graph, Node, intern, rebuild
from fuser.ir.ops import Op
from fuser.scheduling.inlining import bits
from fuser.scheduling.loop_nests import nearest_reductions


def reuse(graph: Graph) -> Graph:
    """Take reductions over more axes from those over the last ones; the same graph where none is.

    Args:
        graph: rewritten, joins moved.
    """
    rows: dict[tuple[int, str], Node] = {}
    behind: dict[int, bool] = {}
    for node in graph.nodes:
        behind[id(node)] = _reduces_elsewhere(node, behind)
        if _is_shared(node.op) and behind[id(node.args[0])] and _keeps_first(node):
            known = rows.get((id(node.args[0]), node.op.name))
            if known is None or len(known.shape) < len(node.shape):
                rows[id(node.args[0]), node.op.name] = node
    for node, kept in _beside_rows(graph):
        (arg,) = node.args
        axes = Axes(tuple(range(kept, len(arg.shape))))
        first = intern(node.op, (arg,), arg.shape[:kept], node.dtype, axes)
        rows.setdefault((id(arg), node.op.name), first)
    if not rows:
        return graph
    lines: dict[int, str] = {}

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        found = intern(node.op, args, node.shape, node.dtype, node.payload)
        first = rows.get((id(node.args[0]), node.op.name)) if node.args else None
        if first is not None and _holds(node, first):
            part = intern(node.op, args, first.shape, first.dtype, first.payload)
            lines.setdefault(id(part), graph.line_of(first) or graph.line_of(node))
            rest = Axes(tuple(axis for axis in node.payload.axes if axis < len(first.shape)))
            found = intern(node.op, (part,), node.shape, node.dtype, rest)
        if line := graph.line_of(node):
            lines.setdefault(id(found), line)
        return found

    outputs = rebuild(graph.outputs, change)
    if all(new is old for new, old in zip(outputs, graph.outputs, strict=True)):
        return graph
    return graph.with_outputs(outputs, lines)


def _beside_rows(graph: Graph) -> list[tuple[Node, int]]:
    """Reductions of all that need what others need by rows, and how many axes count these."""
    found = [node for node in graph.nodes if _takes_all(node) and _is_exact(node)]
    roots: dict[int, tuple[int, Node]] = {}
    for node in found:
        for root in nearest_reductions(node.args[0], {})[0]:
            if len(root.shape) > 1:
                roots.setdefault(id(root), (len(roots), root))
    if not roots:
        return []
    spaces = [(root.args[0].shape, root.payload) for _, root in roots.values()]
    needs: dict[int, int] = {}
    rows: dict[int, Shape] = {}
    across = 0
    for node in graph.nodes:
        below = 0
        for arg in node.args:
            below |= needs[id(arg)]
        needs[id(node)] = below
        if not node.op.reduction:
            continue
        needs[id(node)] = 1 << roots[id(node)][0] if id(node) in roots else 0
        if _takes_all(node):
            continue
        shape, axes = node.args[0].shape, node.payload.axes
        for bit in bits(below):
            if spaces[bit] != (shape, node.payload):  # else they are reduced together
                rows[bit] = min(rows.get(bit, shape), shape[: min(axes)], key=len)
                across |= (0 in axes) << bit
    return [(node, len(kept)) for node in found
            if (kept := _rows_of(node.args[0].shape, needs[id(node.args[0])], rows, across))]


def _rows_of(shape: Shape, needed: int, rows: Mapping[int, Shape], across: int) -> Shape:
    """The leading axes that count rows in all loops that need the same; none where some do not."""
    if not needed or needed & across or any(bit not in rows for bit in bits(needed)):
        return ()
    kept = min((rows[bit] for bit in bits(needed)), key=len)
    return kept if shape[: len(kept)] == kept and len(kept) < len(shape) else ()


def _is_shared(row: Op) -> bool:
    """Whether results of rows are made to serve a reduction over more axes."""
    return row.adds or row.is_extreme


def _takes_all(node: Node) -> bool:
    """Whether a reduction is over all of several axes, and may be taken in parts."""
    if not _is_shared(node.op):
        return False
    rank = len(node.args[0].shape)
    return rank > 1 and len(node.payload.axes) == rank


def _is_exact(node: Node) -> bool:
    """Whether parts of a reduction are not rounded by themselves."""
    return dtype_name(node.dtype) != "float16"


def _reduces_elsewhere(node: Node, behind: Mapping[int, bool]) -> bool:
    """Whether an element of a value takes a reduction, in other loops than over its elements."""
    if node.op.reduction:
        return True
    if node.op.joins or node.op.repeats:
        return False
    views = node.op.structure
    return any(behind[id(arg)] and (views or arg.shape == node.shape) for arg in node.args)


def _keeps_first(node: Node) -> bool:
    """Whether a reduction is over the last axes, and others are left."""
    rank, axes = len(node.args[0].shape), node.payload.axes
    return len(axes) < rank and axes == tuple(range(rank - len(axes), rank))


def _holds(node: Node, first: Node) -> bool:
    """Whether a reduction is also over axes that another one keeps, and over all of its own."""
    own, axes = first.payload.axes, node.payload.axes
    return len(own) < len(axes) and set(own) < set(axes) and _is_exact(node)
