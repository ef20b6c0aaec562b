"""fuser/base/syntax_trees.py: nodes of syntax trees, and copies of them."""

import ast

import pytest

from fuser.base import syntax_trees

TEXT = '''
import os.path as path
@wraps(f)
def g(a: int, /, b, *c, d=1, **e) -> str:
    global h, i
    for x, y in [*a, {1: 2, **b}]:
        u[x:y, ..., None] += (-x if x < 1 <= y and not z else lambda v=1: v @ 2)
    else:
        return f"{a!r:>{b}} {'text'}" if a is b else 1j
    with a as (k, l), b: pass
    try: del p.q, r
    except (A, B) as error: raise C from error
    match a:
        case {"x": [1, *_], **rest} | D(s, t=None): yield from {w for w in x if w}
'''


def test_all_nodes_are_found_but_operators_and_contexts() -> None:
    """They are those of `ast.walk`, in its order."""
    tree = ast.parse(TEXT)
    leaves = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    for root in (tree, *tree.body):
        found = syntax_trees.tree_nodes(root)
        expected = [node for node in ast.walk(root) if not isinstance(node, leaves)]
        assert [*map(id, found)] == [*map(id, expected)]
    each = [node for root in tree.body for node in syntax_trees.tree_nodes(root)]
    assert syntax_trees.tree_nodes(*tree.body) == each


def test_a_copy_is_the_same_source_and_shares_nothing_that_changes() -> None:
    """Lines and columns are the same, too."""
    tree = ast.parse(TEXT)
    made = syntax_trees.copied(tree)
    assert ast.dump(made, include_attributes=True) == ast.dump(tree, include_attributes=True)
    mine, theirs = ({*map(id, syntax_trees.tree_nodes(each))} for each in (made, tree))
    assert mine.isdisjoint(theirs)
    before = ast.dump(tree)
    made.body[1].body[1].body.clear()  # type: ignore[attr-defined]
    assert ast.dump(tree) == before


@pytest.mark.parametrize("depth", [1, 20_000])
def test_no_depth_is_too_much(depth: int) -> None:
    """A chain of operations is walked, not recursed into."""
    tree: ast.expr = ast.Name("a", ast.Load())
    for _ in range(depth):
        tree = ast.BinOp(tree, ast.Add(), ast.Constant(1))
    made = syntax_trees.copied(tree)
    assert len(syntax_trees.tree_nodes(made)) == 2 * depth + 1
