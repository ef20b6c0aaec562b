"""Whether every view of a graph lies within what it looks at, for the lengths of a call.

Graphs that were traced say so by their guards. A graph's text may come from anywhere, and kernels
check no bounds: so each combination of lengths is looked at once, before kernels are bound to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuser.ir import dims
from fuser.ir.graph import Graph, Node
from fuser.ir.views import View


def outside(graph: Graph, sizes: Mapping[str, int]) -> str:
    """What does not fit, in words; "" where all does.

    Args:
        graph: the graph, whose guards hold.
        sizes: lengths by symbol.
    """
    for node in graph.nodes:
        if not _fits(node, sizes):
            operands = " and ".join(arg.type for arg in node.args)
            return f"{node.op.name}{{{node.text}}} of {operands} for {dict(sizes)}"
    return ""


def _fits(node: Node, sizes: Mapping[str, int]) -> bool:
    """Whether the elements of a node are elements of its operands."""
    if not (isinstance(node.payload, View) or node.op.is_update or node.op.is_iota):
        return True  # its shape follows from those of its operands
    shape = _lengths(node.shape, sizes)
    operands = [_lengths(arg.shape, sizes) for arg in node.args]
    if any(length < 0 for length in shape):
        return False
    if node.op.is_update:
        return bool(node.payload.fits(*operands, sizes))
    return node.op.is_iota or bool(node.payload.fits(operands[0], shape, sizes))


def _lengths(shape: Sequence[dims.Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape's lengths."""
    return tuple(dims.evaluate(dim, sizes) for dim in shape)
