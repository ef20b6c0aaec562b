"""Which names may be read from a place in a function's source on, with what they hold there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from fuser.base.syntax_trees import tree_nodes


def live_after(function: ast.FunctionDef) -> dict[int, frozenset[str]]:
    """Names that may be read after each statement of a function, by the statement's identity."""
    found: dict[int, frozenset[str]] = {}
    _live(function.body, frozenset(), frozenset(), frozenset(), found, {})
    return found


def live_before(body: Sequence[ast.stmt], after: Iterable[str] = ()) -> frozenset[str]:
    """Names that may be read from the beginning of statements on.

    Args:
        body: the statements.
        after: what may be read after them.
    """
    return _live(body, frozenset(after), frozenset(), frozenset(), {}, {})


def _live(
    body: Sequence[ast.stmt], after: frozenset[str], ends: frozenset[str], again: frozenset[str],
    found: dict[int, frozenset[str]], own: dict[int, frozenset[str]],
) -> frozenset[str]:
    """Names that may be read from the beginning of statements on.

    What an iteration reads is what its body reads itself and what may be read after it: so each
    body is looked at once for the former, however deep loops are nested, and once for all.

    Args:
        body: the statements.
        after: what may be read after them.
        ends: what may be read after the loop around them, where one is.
        again: what may be read in its next iteration.
        found: takes what may be read after each.
        own: by a loop's identity, what its body reads itself before it has set it.
    """
    nothing = frozenset[str]()
    live = after
    for node in reversed(body):
        found[id(node)] = live
        if isinstance(node, ast.If):
            ways = [_live(way, live, ends, again, found, own) for way in (node.body, node.orelse)]
            live = read_in(node.test) | ways[0] | ways[1]
        elif isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            after_loop = live
            first = _live(node.orelse, after_loop, ends, again, found, own)
            if id(node) not in own:
                own[id(node)] = _live(node.body, nothing, nothing, nothing, {}, own)
            if isinstance(node, ast.While):
                first |= read_in(node.test) | own[id(node)]
            else:
                first |= own[id(node)] - stored_in(node.target)
            if node.orelse:  # a `break` goes past it
                first |= after_loop
            _live(node.body, first, after_loop, first, found, own)
            live = first if isinstance(node, ast.While) else first | read_in(node.iter)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Pass)):
            live = (live - stored_in(node)) | read_in(node)
        elif isinstance(node, (ast.Return, ast.Raise)):
            live = read_in(node)
        elif isinstance(node, ast.Break):
            live = ends
        elif isinstance(node, ast.Continue):
            live = again
        else:  # nothing is known to be set by it, and all that it names may be read
            live = live | read_in(node) | ends | again
            for part in tree_nodes(node):
                if isinstance(part, ast.stmt):
                    found.setdefault(id(part), live)
                    found[id(part)] |= live
    return live


def read_in(node: ast.AST) -> frozenset[str]:
    """Names that may be read in a part of the source."""
    found: set[str] = set()
    for part in tree_nodes(node):
        if isinstance(part, ast.Name):
            if isinstance(part.ctx, ast.Load):
                found.add(part.id)
        elif isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
            found.add(part.target.id)
    return frozenset(found)


def stored_in(node: ast.AST) -> frozenset[str]:
    """Names that a plain statement surely sets."""
    return frozenset(part.id for part in tree_nodes(node)
                     if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))  # fmt: skip
