"""Names of values in the user's terms."""

from __future__ import annotations

from fuser.ir.graph import Graph, Node


class NamedLine(str):
    """A source line of a part of a graph, with the name that the value has in the whole graph."""

    __slots__ = ("label",)
    label: str


def named_line(line: str, label: str) -> NamedLine:
    """A line that carries a name."""
    found = NamedLine(line)
    found.label = label
    return found


def labels_of(graph: Graph) -> dict[int, str]:
    """A name for each value by `id(node)`: its operation and the user's line.

    `exp#1 (model.py:12)` is the first exp of that line; an argument is called what the traced
    function calls it, and a function that NumPy runs by its name. Parts of a graph call values as
    the whole does.
    """
    names = argument_names(graph)
    counts: dict[tuple[str, str], int] = {}
    known = {line.label for line in graph.lines.values() if isinstance(line, NamedLine)}
    taken = frozenset(known)
    found = {}
    for node in graph.nodes:
        if node.op.is_input:
            found[id(node)] = names.get(node.text, node.text)
            continue
        title, whole = _title(node), graph.line_of(node)
        if isinstance(whole, NamedLine) and whole.label.startswith(f"{title}#"):
            if whole.label in known:
                known.discard(whole.label)
                found[id(node)] = whole.label
                continue
        line = short_line(whole)
        while True:
            count = counts[title, line] = counts.get((title, line), 0) + 1
            label = f"{title}#{count}" + (f" ({line})" if line else "")
            if label not in taken:
                break
        found[id(node)] = label
    return found


def argument_names(graph: Graph) -> dict[str, str]:
    """What the traced function calls each parameter, by its name in the graph."""
    return {p.name: name for p, name in zip(graph.parameters, graph.names, strict=False)}


def short_line(line: str) -> str:
    """`model.py:12` of `folder/model.py:12`."""
    return line.rpartition("/")[2]


#: What operations are called that stand for parts of complex numbers, by whether some bytes are
#: left out before.
_TITLES = {
    ("component", False): "real", ("component", True): "imag", ("from_components", True): "complex"
}  # fmt: skip


def _title(node: Node) -> str:
    """The operation's name, or the function's that NumPy runs."""
    if not node.op.is_opaque:
        return _TITLES.get((node.op.name, node.text != "0"), node.op.name)

    return str(node.payload.short_name)
