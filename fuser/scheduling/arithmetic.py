"""How much a graph computes: element operations, counted from the graph."""

from __future__ import annotations

from collections.abc import Mapping

from fuser.ir import dims
from fuser.ir.graph import Graph


def count(graph: Graph, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Count the operations on elements that a graph asks for.

    Args:
        graph: composites already decomposed.
        sizes: lengths by symbol.

    Returns:
        Simple operations (each processor instruction or few: + - * / min max compare select), and
        elementary functions (exp, log, sin, power and the like). A reduction counts one operation
        for each element that it reads; conversions, copies and views count nothing.
    """
    simple, elementary = 0, 0
    for node in graph.nodes:
        if node.op.structure or node.op.converts:
            continue
        source = node.args[0] if node.op.reduction else node
        elements = dims.evaluate(dims.product(source.shape), sizes)
        if node.op.heavy:
            elementary += elements
        else:
            simple += elements
    return simple, elementary
