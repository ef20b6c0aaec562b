"""Names of values in the user's terms."""

from __future__ import annotations

from fuser.graph import Graph


def labels_of(graph: Graph) -> dict[int, str]:
    """A name for each value by `id(node)`: its operation, its place and the user's line.

    `exp#3 (model.py:12)`; an argument is called what the traced function calls it.
    """
    names = {p.name: name for p, name in zip(graph.parameters, graph.names, strict=False)}
    found = {}
    for place, node in enumerate(graph.nodes):
        if node.op.name == "input":
            found[id(node)] = names.get(node.payload, node.payload)
            continue
        line = graph.line_of(node).rpartition("/")[2]
        found[id(node)] = f"{node.op.name}#{place}" + (f" ({line})" if line else "")
    return found
