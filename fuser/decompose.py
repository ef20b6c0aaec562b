"""Composite operations become primitives that every backend spells.

The rows of the op table are primitives today; composite functions (softmax, gelu …) are written
with NumPy functions in `functional.py`, so tracing decomposes them. What stays here is the place
where a backend-independent row is replaced by others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fuser.graph import Graph, Node, rebuild
from fuser.graph import intern as intern_node

#: row -> what replaces it.
DECOMPOSITIONS: Mapping[str, Callable[[Node], Node]] = {}


def decompose(graph: Graph) -> Graph:
    """Replace composite rows; the same graph where there are none."""
    if not any(node.op.name in DECOMPOSITIONS for node in graph.nodes):
        return graph

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        new = intern_node(node.op, args, node.shape, node.dtype, node.payload)
        found = DECOMPOSITIONS.get(node.op.name)
        return new if found is None else found(new)

    return graph.with_outputs(rebuild(graph.outputs, change))
