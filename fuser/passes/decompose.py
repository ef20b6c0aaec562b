"""Composite operations become primitives that every backend spells.

Composite functions (softmax, gelu …) are written with NumPy functions in `functional.py`, so
tracing decomposes them. What stays here are rows that NumPy itself computes in another way for
some operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fuser.ir.graph import Graph, Node, constant_value, make, make_constant, rebuild
from fuser.ir.graph import intern as intern_node
from fuser.ir.ops import op
from fuser.passes.rewrite import Applied


def _scalar_power(node: Node) -> Node:
    """x**0.5 is the square root where the exponent is one number for the whole array.

    So NumPy's power loops have it in float32 and float64 (-inf gives NaN, -0.0 itself), but not
    where exponents are an array of their own (inf, 0.0).
    """
    x, exponent = node.args
    if exponent.shape or node.dtype.name not in ("float32", "float64"):
        return node
    if exponent.op.is_constant and constant_value(exponent) != 0.5:
        return node
    # The lengths of x may be spelled in another way than those of the node, which guards equate.
    root = intern_node(op("sqrt"), (x,), node.shape, node.dtype)
    if exponent.op.is_constant:
        return root
    half = make("equal", exponent, make_constant(0.5, node.dtype))
    return intern_node(op("where"), (half, root, node), node.shape, node.dtype)


#: row -> (its equation, what replaces it).
DECOMPOSITIONS: Mapping[str, tuple[str, Callable[[Node], Node]]] = {
    "power": ("x ** s -> sqrt(x) where s is 0.5", _scalar_power),
}


def decompose(graph: Graph) -> tuple[Graph, tuple[Applied, ...]]:
    """Replace composite rows; the same graph where there are none.

    Returns:
        The graph, and what was replaced, in order.
    """
    if not any(node.op.name in DECOMPOSITIONS for node in graph.nodes):
        return graph, ()
    applied: list[Applied] = []
    lines: dict[int, str] = {}

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        new = intern_node(node.op, args, node.shape, node.dtype, node.payload)
        equation, replace = DECOMPOSITIONS.get(node.op.name, ("", None))
        if replace is None:
            return new
        found = replace(new)
        if found is not new:
            applied.append(Applied("DECOMPOSED", equation, graph.line_of(node)))
        return found

    def noted(node: Node, args: tuple[Node, ...]) -> Node:
        made = change(node, args)
        for part in (made, *made.args):
            lines.setdefault(id(part), graph.line_of(node))
        return made

    return graph.with_outputs(rebuild(graph.outputs, noted), lines), tuple(applied)
