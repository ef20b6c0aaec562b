"""Jumps in the body of a loop, as its twin has them: `break`, `continue`, `return`.

A body has no jumps any more: what comes after `if done: break` stands in the other branch, and
`break` is a mark. `return u` leaves the loop, too; it stands behind the loop, where a flag says
that it was met:

    left = False
    for t in range(n):              # of: for t in range(n):
        if done:                    #         if done:
            left = True             #             return u
            break                   #         u = u + 1
        u = u + 1                   #     else:
    if left:                        #         u = -u
        return u
    u = -u

An `else` is what follows where no `break` was met, which is a flag as well.

What a function raises it raises in NumPy (`decisions`), so a trace need not know more than that it
raises. `if bad: raise …` in a loop, and `assert`, are a `break` where a flag says so, and behind
the loop stands what sends the call to NumPy. Nothing reads what the iteration had left.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fuser.base.errors import Unsupported
from fuser.base.syntax_trees import copied, free_names, located, tree_nodes
from fuser.capture.comprehensions import first_evaluated, put_in_place

#: How `raised` stands in the twin's syntax tree, before it is put into its code.
RAISED = "\0raised"
#: What stands for leaving a loop in a body that has no jumps any more, before its number.
_STOP = "\0stop"
LOOPS = (ast.For, ast.While)


def raised() -> Exception:
    """What a loop raises: that is for NumPy to do.

    Raises:
        Unsupported: always.
    """
    raise Unsupported("not-traceable", "raise", "a loop ends by an exception")


def put_raises_behind(function: ast.FunctionDef) -> None:
    """Have what loops raise behind them."""
    if not any(isinstance(node, (ast.Raise, ast.Assert)) for node in tree_nodes(function)):
        return
    function.body = _behind(function.body, free_names(function, "raised"))


def _behind(body: Sequence[ast.stmt], flags: Iterator[str]) -> list[ast.stmt]:
    """Statements with what loops in them raise behind these, inner ones first.

    Not in functions of their own, nor where an exception may be caught.

    Args:
        body: the statements.
        flags: names that the function has not.
    """
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, (ast.If, ast.With, *LOOPS)):
            node.body = _behind(node.body, flags)
        if isinstance(node, (ast.If, *LOOPS)):
            node.orelse = _behind(node.orelse, flags)
        found.append(node)
        if not isinstance(node, LOOPS) or node.orelse:
            continue
        flag = next(flags)
        changed = [_flagged(each, flag) for each in node.body]
        if all(one is other for one, other in zip(changed, node.body, strict=True)):
            continue
        node.body, node.flag = changed, flag  # type: ignore[union-attr]
        call = ast.Call(ast.Constant(RAISED), [], [])
        behind = ast.If(ast.Name(flag, ast.Load()), [ast.Raise(call)], [])
        begun = ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(False))
        found[-1:] = [located(begun, node), node, located(behind, node)]
    return found


def _flagged(node: ast.stmt, flag: str) -> ast.stmt:
    """A statement of a loop that ends this, and sets a flag, instead of raising."""
    if isinstance(node, ast.Assert) and __debug__:
        test: ast.expr = ast.UnaryOp(ast.Not(), node.test)
        node = ast.If(test, [ast.copy_location(ast.Raise(), node)], [])
        ast.copy_location(node, node.body[0])
    if not isinstance(node, ast.If):
        return node
    branches: list[list[ast.stmt]] = []
    for branch in (node.body, node.orelse):
        changed = [_flagged(each, flag) for each in branch]
        if branch and isinstance(branch[-1], ast.Raise):
            leave = ast.Break()
            leave.raises = True  # type: ignore[attr-defined]
            changed[-1:] = [ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(True)), leave]
        branches.append([located(each, branch[-1]) for each in changed])
    if branches == [node.body, node.orelse]:
        return node
    return located(ast.If(node.test, *branches), node)


def with_choices(body: Sequence[ast.stmt], free: Iterator[str]) -> list[ast.stmt]:
    """Statements in which `a if c else b` is a decision, where nothing is called before it.

    Args:
        body: the statements, which stay as they are.
        free: names that the function has not.
    """
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If):
            made = ast.If(node.test, with_choices(node.body, free), with_choices(node.orelse, free))
            found.append(ast.copy_location(made, node))
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)):
            found += _decided(node, free)
        else:
            found.append(node)
    return found


def _decided(
    node: ast.Assign | ast.AugAssign | ast.Expr, free: Iterator[str]
) -> list[ast.stmt]:
    """A statement, with decisions in front of it."""
    if not any(isinstance(part, ast.IfExp) for part in tree_nodes(node)):
        return [node]
    value = node.value
    if isinstance(value, ast.IfExp) and not isinstance(node, ast.Expr):
        ways = []
        for chosen in (value.body, value.orelse):
            way = copied(node)
            way.value = copied(chosen)
            ways.append(_decided(way, free))
        return [located(ast.If(value.test, *ways), node)]
    node = copied(node)
    choice = first_evaluated(node, lambda part: part if isinstance(part, ast.IfExp) else None)
    if choice is None:
        return [node]
    name = next(free)
    put_in_place(node, choice, ast.copy_location(ast.Name(name, ast.Load()), choice))
    before = located(ast.Assign([ast.Name(name, ast.Store())], choice), node)
    assert isinstance(before, ast.Assign)
    return [*_decided(before, free), *_decided(node, free)]


class Leaving:
    """Where the body of one loop is left.

    Attributes:
        flags: names that are true where it was left in one of these ways.
        read: for each way, what is read there; None for what stands behind the loop.
        raising: the ways that an exception goes: nothing reads what was left.
    """

    def __init__(self, number: int, orelse: Sequence[ast.stmt]) -> None:
        """Begin with a loop.

        Args:
            number: of the loop.
            orelse: what follows where it was not left.
        """
        self._number, self._orelse = number, list(orelse)
        self.flags: list[str] = []
        self.read: list[frozenset[str] | None] = []
        self.raising: set[int] = set()
        self._returns: list[tuple[str, ast.Return]] = []
        self._broken = ""

    def left(self, node: ast.Break | ast.Return) -> list[ast.stmt]:
        """The statements in place of a jump."""
        place = len(self.read)
        flag = ""
        if isinstance(node, ast.Return):
            flag = f"left {self._number} by {place}"
            self._returns.append((flag, node))
            found = tree_nodes(node)
            self.read.append(frozenset(n.id for n in found if isinstance(n, ast.Name)))
        elif hasattr(node, "raises"):
            self.raising.add(place)
            self.read.append(frozenset())
        else:
            if self._orelse:
                flag = self._broken = f"left {self._number}"
            self.read.append(None)
        made: list[ast.stmt] = []
        if flag:
            if flag not in self.flags:
                self.flags.append(flag)
            made.append(ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(True)))
        made.append(ast.Expr(ast.Constant(f"{_STOP}{place}")))
        return [located(each, node) for each in made]

    def after(self) -> list[ast.stmt]:
        """The statements behind the loop."""
        made: list[ast.stmt] = [
            located(ast.If(ast.Name(flag, ast.Load()), [node], []), node)
            for flag, node in self._returns
        ]
        if self._broken:
            went = ast.UnaryOp(ast.Not(), ast.Name(self._broken, ast.Load()))
            return [*made, located(ast.If(went, self._orelse, []), self._orelse[0])]
        return [*made, *self._orelse]


def without_jumps(body: Sequence[ast.stmt], leaving: Leaving) -> list[ast.stmt] | None:
    """A body without jumps: what comes after them is in the other branch.

    None where one stands elsewhere than at the end of an `if`.
    """
    if not any(map(_is_jump, nodes(body))):
        return list(body)
    for place, node in enumerate(body):
        if not any(map(_is_jump, nodes([node]))):
            continue
        if not isinstance(node, ast.If):
            return None
        rest = list(body[place + 1 :])
        branches: list[list[ast.stmt] | None] = []
        ended = True
        for branch in (node.body, node.orelse):
            last = branch[-1] if branch else None
            if isinstance(last, (ast.Break, ast.Continue, ast.Return)):
                found = without_jumps(branch[:-1], leaving)
                if found is not None and not isinstance(last, ast.Continue):
                    found = [*found, *leaving.left(last)]
            else:
                found = without_jumps([*branch, *rest], leaving)
                if rest and branches and not ended:
                    return None  # it would stand in both
                ended = False
            branches.append(found)
        if branches[0] is None or branches[1] is None:
            return None
        filled = branches[0] or [ast.copy_location(ast.Pass(), node)]
        made = ast.copy_location(ast.If(node.test, filled, branches[1]), node)
        return [*body[:place], made]
    return None


def _is_jump(node: ast.AST) -> bool:
    """Whether a statement leaves an iteration."""
    return isinstance(node, (ast.Break, ast.Continue, ast.Return))


def nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes of some statements, but for those in loops in them."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, LOOPS):
            waiting.extend(ast.iter_child_nodes(node))


def way_of(node: ast.AST) -> int | None:
    """By which way a statement leaves the loop, see `Leaving.read`; None where it does not."""
    value = node.value if isinstance(node, ast.Expr) else None
    text = value.value if isinstance(value, ast.Constant) else None
    if isinstance(text, str) and text.startswith(_STOP):
        return int(text.removeprefix(_STOP))
    return None
