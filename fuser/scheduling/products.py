"""What loops over pairs would compute for each pair: costly values of one side are stored first.

`(unit(a)[:, None] * unit(b)).sum(-1)` has a loop for each of a's rows and, within, for each of b's:
what belongs to a row of b is computed anew for every row of a. Nothing that such loops read is as
large as they are, so the work counts and not the bytes; a value of one side is small beside it.
"""

from __future__ import annotations

from collections.abc import Collection

from fuser.ir.costs import is_costly
from fuser.ir.dims import Shape
from fuser.ir.graph import Graph, Node


def costly_sides(graph: Graph) -> list[Node]:
    """Values, or views of them, with costly operations that loops over pairs would repeat.

    A value that is constant along the innermost axis is not among them: it is computed before the
    innermost loop. Cosine distances of 1024 x 1025 rows of 16 take 1.3 ms with two quotients for
    each pair, 0.4 without.

    Args:
        graph: rewritten and decomposed.
    """
    only_reduced = _only_reduced(graph)
    whole: set[int] = set()
    costly: dict[int, bool] = {}
    found: dict[int, Node] = {}
    for node in graph.nodes:
        if _has_own_elements(node, whole):
            whole.add(id(node))
        below = any(costly[id(arg)] for arg in node.args)
        costs = is_costly(node.op)
        costly[id(node)] = (costs or below) and not node.op.reduction
        if id(node) in whole or id(node) not in only_reduced:
            continue
        for arg in node.args:
            if costly[id(arg)] and repeats_rows(arg.shape, node.shape):
                found[id(arg)] = arg
                costly[id(arg)] = False
        if not costs and not any(costly[id(arg)] for arg in node.args):
            costly[id(node)] = False
    return list(found.values())


def repeats_rows(small: Shape, large: Shape) -> bool:
    """Whether broadcasting repeats whole rows, not elements within a row."""
    if not small or small[-1] == 1:
        return False
    lead = len(large) - len(small)
    if lead < 0:
        return False
    if any(length != 1 for length in large[:lead]):
        return True
    return any(one == 1 != other for one, other in zip(small, large[lead:], strict=True))


def _only_reduced(graph: Graph) -> set[int]:
    """By `id`, values that nothing but reductions needs, perhaps after other operations."""
    users: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for arg in node.args:
            users.setdefault(id(arg), []).append(node)
    outputs = {id(node) for node in graph.outputs}
    found: set[int] = set()
    for node in reversed(graph.nodes):
        by = users.get(id(node), [])
        inside = all(user.op.reduction or id(user) in found for user in by)
        if by and inside and id(node) not in outputs and not node.op.joins:
            found.add(id(node))
    return found


def _has_own_elements(node: Node, whole: Collection[int]) -> bool:
    """Whether a value reads something as large as itself, so that its bytes count."""
    if node.op.is_input or node.op.reduction or node.op.joins:
        return True
    if node.op.structure and not node.op.repeats:
        return any(id(arg) in whole for arg in node.args)
    return any(id(arg) in whole and arg.shape == node.shape for arg in node.args)
