"""Python's syntax trees: all nodes of them, copies, and new parts.

Of large functions they are found faster than by `ast`.

The source of a function with loops is looked at some hundred times before it is traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import count
from typing import Any, TypeVar

from fuser.base.caches import memo

#: Fields that hold names, or how something is computed or used: nodes that have no parts.
_LEAVES = ("ctx", "op", "ops", "id", "attr", "kind", "type_comment")
_Node = TypeVar("_Node", bound=ast.AST)


@memo(256)
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of nodes of a class that may hold other nodes."""
    fields = () if issubclass(kind, ast.Constant) else kind._fields
    return tuple(name for name in fields if name not in _LEAVES)


def tree_nodes(*roots: ast.AST) -> list[ast.AST]:
    """All nodes of syntax trees, but for operators and contexts, in the order of `ast.walk`."""
    found: list[ast.AST] = []
    for root in roots:
        tree = [root]
        for node in tree:  # which grows
            kind: Any = node.__class__
            for name in _fields(kind):
                value = getattr(node, name, None)
                if value.__class__ is list:
                    tree += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST):
                    tree.append(value)
        found += tree
    return found


def copied(root: _Node) -> _Node:
    """A copy of a syntax tree, whose operators and contexts are the same ones."""
    nodes = tree_nodes(root)
    made = {id(node): node.__class__.__new__(node.__class__) for node in nodes}

    def renewed(value: Any) -> Any:
        if value.__class__ is list:
            return [made.get(id(each), each) for each in value]
        return made.get(id(value), value)

    for node in nodes:
        made[id(node)].__dict__.update((k, renewed(v)) for k, v in node.__dict__.items())
    return made[id(root)]  # type: ignore[return-value]


def located(made: _Node, node: ast.AST) -> _Node:
    """A new tree on the line of a node, but for those parts that have a line."""
    for part in tree_nodes(made):
        if not hasattr(part, "lineno"):
            ast.copy_location(part, node)
    return made


def free_names(function: ast.AST, stem: str) -> Iterator[str]:
    """Yield names that begin so, and that a function has not."""
    known = {node.id for node in tree_nodes(function) if isinstance(node, ast.Name)}
    return (name for name in (f"{stem}_{k}" for k in count()) if name not in known)


class Rewriter(ast.NodeTransformer):
    """Rewrites syntax trees, but for constants: `ast` asks for their types, which traces watch.

    Classes name its base beside it: by that a linter knows what visits nodes.
    """

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Leave a constant as it is."""
        return node
