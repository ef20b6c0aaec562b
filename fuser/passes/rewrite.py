"""The rewrite engine: applies rule tables to a graph, bottom up, and says what it did."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.base.errors import ShapeError
from fuser.base.records import record
from fuser.ir import infer
from fuser.ir.graph import Graph, Node, intern, make, walk
from fuser.passes.rules import BOUNDED, EXACT, FAST, Rule, Table


@record
class Applied:
    """One use of a rule: its equation, and the user's line."""

    table: str
    equation: str
    line: str


def rewrite(graph: Graph, fastmath: bool = False) -> tuple[Graph, tuple[Applied, ...]]:
    """Apply EXACT and BOUNDED rules, and FAST ones where asked for.

    Equal values are one node already (interning), and what no output needs is not visited, so
    common subexpressions and dead code need no rule.

    Returns:
        The new graph, and the rules applied in order.
    """
    tables = (EXACT, BOUNDED, FAST) if fastmath else (EXACT, BOUNDED)
    by_op = _by_op(tables)
    new: dict[int, Node] = {}
    lines: dict[int, str] = {}
    applied: list[Applied] = []
    for node in graph.nodes:
        args = tuple(new[id(arg)] for arg in node.args)
        current = node if args == node.args else _again(node, args, graph)
        line = graph.line_of(node)
        for _ in range(8):  # a result may be rewritten again, a few times
            found = _apply_one(current, by_op, graph)
            if found is None:
                break
            current, table, rule = found
            applied.append(Applied(table.name, rule.equation, line))
        new[id(node)] = current
        if line:
            lines.setdefault(id(current), line)
            for inner in current.args:
                lines.setdefault(id(inner), line)
    outputs = [new[id(node)] for node in graph.outputs]
    changed = graph.with_outputs(outputs, lines)
    return changed, tuple(applied)


def _again(node: Node, args: tuple[Node, ...], graph: Graph) -> Node:
    """The same operation on new operands."""
    if all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(args, node.args, strict=True)):
        return intern(node.op, args, node.shape, node.dtype, node.payload)
    try:
        return make(node.op.name, *args, payload=node.payload, equal=graph.equal)
    except ShapeError:  # equal lengths of other texts: a rewrite changes no shape
        return intern(node.op, args, node.shape, node.dtype, node.payload)


def _by_op(tables: Sequence[Table]) -> dict[str, list[tuple[Table, Rule]]]:
    """Rules by the row that they start from."""
    found: dict[str, list[tuple[Table, Rule]]] = {}
    for table in tables:
        for rule in table.rules:
            for op in rule.ops:
                found.setdefault(op, []).append((table, rule))
    return found


def _apply_one(
    node: Node, by_op: dict[str, list[tuple[Table, Rule]]], graph: Graph
) -> tuple[Node, Table, Rule] | None:
    """The first rule that changes a node; none is about complex numbers or bfloat16."""
    if any(part.dtype.kind in "cV" for part in (node, *node.args)):
        return None
    for table, rule in by_op.get(node.op.name, ()):
        result = rule.apply(node, graph.equal)
        if result is not None and result is not node:
            return result, table, rule
    return None


def verify(graph: Graph) -> None:
    """Check that every node is what its operands make it; for FUSER_CHECK=1.

    Raises:
        FuserError: a pass built an inconsistent node.
    """
    for node in walk(graph.outputs):
        if node.args:
            shapes = [arg.shape for arg in node.args]
            dtypes = [arg.dtype for arg in node.args]
            infer.result_dtype(node.op, dtypes, node.payload)
            infer.result_shape(node.op, shapes, node.payload, graph.equal)
