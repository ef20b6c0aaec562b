"""Comprehensions, written out or as loops.

A comprehension is code of its own, which a loop's body cannot show a trace. Where what it goes over
stands in the source, as names and constants or as a `range` of constants, its elements do, too:
`sum(np.roll(u, k) for k in (-1, 1))` is `sum((np.roll(u, -1), np.roll(u, 1)))`. Others become loops
that append to lists: `c = np.array([x[j].mean() for j in range(k)])` is

    listed = []
    for j in range(k):
        listed.append(x[j].mean())
    c = np.array(listed)

Only the twin of a function has them so, which traces run; what a call computes is the same.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fuser.base.errors import Unsupported
from fuser.base.syntax_trees import Rewriter, copied, free_names, located, tree_nodes

#: Functions that take all of a generator, whatever is in it.
_TAKING_ALL = ("sum", "max", "min", "list", "tuple")
#: Elements that are written out for one comprehension.
_MOST = 32
#: How `checked` stands in the twin's syntax tree, before it is put into its code.
CHECKED = "\0checked"
#: What conditions may be made of: then they are known.
_KNOWN = (
    ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.Compare, ast.BoolOp, ast.expr_context,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
#: Functions that may be called after a comprehension that they stand before.
_QUIET = (
    "abs array asarray concatenate empty exp eye float full int len linspace log max mean min norm "
    "ones sqrt stack std sum var vstack zeros"
).split()
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp)
#: What makes names, or code, of its own.
_SCOPES = (
    *_COMPREHENSIONS, ast.SetComp, ast.DictComp, ast.Lambda, ast.NamedExpr, ast.Await, ast.Yield,
    ast.YieldFrom,
)  # fmt: skip
_Names = Mapping[str, ast.expr]


def written_out(function: ast.FunctionDef) -> bool:
    """Write out the comprehensions in a function's loops; whether there were any."""
    if not any(isinstance(node, _COMPREHENSIONS) for node in tree_nodes(function)):
        return False
    expanding = Expanding()
    expanding.visit(function)
    looping = _Looping(function)
    looping.block(function.body, False)
    return expanding.changed or looping.changed


def checked(found: Any, values: Any) -> Any:
    """The elements of a comprehension over `range`, if that is Python's.

    Raises:
        Unsupported: it is a function of the user's.
    """
    if found is not builtins.range:
        raise Unsupported("unsupported-function", "range", "a name that is not Python's")
    return values


class Expanding(Rewriter, ast.NodeTransformer):
    """Writes out comprehensions in the bodies of loops.

    Attributes:
        changed: whether there was one.
    """

    def __init__(self) -> None:
        self.changed = False
        self._depth = 0

    def visit(self, node: ast.AST) -> Any:
        """Change what stands in a loop."""
        loop = isinstance(node, (ast.For, ast.While))
        self._depth += loop
        try:
            return super().visit(node)
        finally:
            self._depth -= loop

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """A list of its elements."""
        self.generic_visit(node)
        return self._written(node, ast.List) or node

    def visit_Call(self, node: ast.Call) -> Any:
        """A tuple of a generator's elements, where the function takes all of them."""
        self.generic_visit(node)
        taking = isinstance(node.func, ast.Name) and node.func.id in _TAKING_ALL
        if taking and node.args and isinstance(node.args[0], ast.GeneratorExp):
            node.args[0] = self._written(node.args[0], ast.Tuple) or node.args[0]
        return node

    def _written(
        self, node: ast.ListComp | ast.GeneratorExp, kind: type[ast.List | ast.Tuple]
    ) -> ast.expr | None:
        """The elements as they stand; None where the source does not tell them."""
        inside = [node.elt, *(test for each in node.generators for test in each.ifs)]
        if not self._depth or any(isinstance(part, _SCOPES) for part in tree_nodes(*inside)):
            return None
        if any(each.is_async for each in node.generators):
            return None
        found: list[ast.expr] = []
        try:
            for names in _each(node.generators, {}):
                found.append(_put_in(node.elt, names))
                if len(found) > _MOST:
                    return None
        except _NotKnownError:
            return None
        self.changed = True
        made: ast.expr = kind(found, ast.Load())
        for each in node.generators:
            if isinstance(each.iter, ast.Call):
                made = ast.Call(ast.Constant(CHECKED), [each.iter.func, made], [])
        return located(made, node)


class _Looping:
    """Has comprehensions in the bodies of loops be loops in front of their statements.

    Attributes:
        changed: whether there was one.
    """

    def __init__(self, function: ast.FunctionDef) -> None:
        self._free = free_names(function, "listed")
        self.changed = False

    def block(self, body: list[ast.stmt], inside: bool) -> None:
        """Change statements; `inside`: of a loop."""
        found: list[ast.stmt] = []
        for node in body:
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)):
                found += self._before(node, inside)
            if isinstance(node, (ast.For, ast.While, ast.If)):
                self.block(node.body, inside or not isinstance(node, ast.If))
                self.block(node.orelse, inside)
            found.append(node)
        body[:] = found

    def _before(self, node: ast.stmt, inside: bool) -> list[ast.stmt]:
        """Loops for the comprehensions in a statement, if nothing is called before them."""
        found: list[ast.stmt] = []
        while (comprehension := first_evaluated(node, _is_comprehension)) is not None:
            listed = inside or isinstance(comprehension, ast.ListComp)
            made = self._loop(comprehension) if listed else None
            if made is None:
                break
            name, loops = made
            found += loops
            put_in_place(node, comprehension, ast.copy_location(name, comprehension))
            self.changed = True
        return found

    def _loop(
        self, node: ast.ListComp | ast.GeneratorExp
    ) -> tuple[ast.expr, list[ast.stmt]] | None:
        """The list that a loop appends to, and the loop; None where a comprehension is none."""
        first, *rest = node.generators
        targets = [n for n in tree_nodes(first.target) if not isinstance(n, ast.Tuple)]
        inside = tree_nodes(node.elt)
        scopes = tuple(each for each in _SCOPES if each not in _COMPREHENSIONS)
        plain = all(isinstance(n, ast.Name) for n in targets)
        if rest or first.ifs or first.is_async or not plain:
            return None
        if any(isinstance(part, (*scopes, ast.Starred)) for part in inside):
            return None
        own: dict[str, ast.expr] = {n.id: ast.Name(next(self._free), ast.Load()) for n in targets}  # type: ignore[attr-defined]
        listed = next(self._free)
        append = ast.Attribute(ast.Name(listed, ast.Load()), "append", ast.Load())
        body: list[ast.stmt] = [ast.Expr(ast.Call(append, [_put_in(node.elt, own)], []))]
        target = copied(first.target)
        for part in tree_nodes(target):
            if isinstance(part, ast.Name):
                part.id = own[part.id].id  # type: ignore[attr-defined]
        loop = ast.For(target, first.iter, body, [])
        calls = [part.func for part in inside if isinstance(part, ast.Call)]
        asked = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
        decides = any(isinstance(part, (ast.IfExp, ast.BoolOp)) for part in inside)
        loop.asks = not asked.isdisjoint(("float", "int", "item"))  # type: ignore[attr-defined]
        loop.few = not decides and not loop.asks  # type: ignore[attr-defined]
        begin = ast.Assign([ast.Name(listed, ast.Store())], ast.List([], ast.Load()))
        made = [located(begin, node), located(loop, node)]
        self.block(body, True)
        return ast.Name(listed, ast.Load()), made


def _is_comprehension(node: ast.AST) -> Any:
    """The list comprehension that a node is, or the generator whose elements it takes all."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id in _TAKING_ALL and isinstance(node.args[0], ast.GeneratorExp):
            return node.args[0]
    return node if isinstance(node, ast.ListComp) else None


def first_evaluated(statement: ast.stmt, found_in: Callable[[ast.AST], Any]) -> Any:
    """A part of a statement before which nothing is called, and that is evaluated in any case.

    Args:
        statement: it.
        found_in: the part that a node is, or leads to; None for others.
    """
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if (found := found_in(node)) is not None:
            return found
        if isinstance(node, (*_SCOPES, ast.IfExp, ast.BoolOp)):
            return None
        if isinstance(node, ast.Call):
            around = any(found_in(part) is not None for part in tree_nodes(node))
            quiet = getattr(node.func, "attr", getattr(node.func, "id", "")) in _QUIET
            if not around and (not quiet or any(key.arg == "out" for key in node.keywords)):
                return None
        parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Assign):
            parts = [node.value]
        waiting += reversed(parts)
    return None


def put_in_place(statement: ast.stmt, old: ast.expr, new: ast.expr) -> None:
    """Put an expression in the place of another one."""
    for node in tree_nodes(statement):
        for name, value in ast.iter_fields(node):
            if value is old:
                setattr(node, name, new)
            elif isinstance(value, list):
                value[:] = [new if each is old else each for each in value]


class _NotKnownError(Exception):
    """The source does not tell what a comprehension goes over, or leaves out."""


def _each(generators: list[ast.comprehension], names: _Names) -> Iterator[_Names]:
    """Yield what names stand for, for each element."""
    if not generators:
        yield names
        return
    first, *rest = generators
    for value in _values(_put_in(first.iter, names)):
        inner = {**names, **_bound(first.target, value)}
        if all(_truth(_put_in(test, inner)) for test in first.ifs):
            yield from _each(rest, inner)


def _values(over: ast.expr) -> list[ast.expr]:
    """What a comprehension goes over, one by one."""
    if isinstance(over, (ast.Tuple, ast.List)):
        return over.elts
    plain = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and not over.keywords
    if not plain or over.func.id != "range":  # type: ignore[attr-defined]
        raise _NotKnownError
    numbers = [_number(arg) for arg in over.args]  # type: ignore[attr-defined]
    if not 1 <= len(numbers) <= 3 or 0 in numbers[2:] or len(range(*numbers)) > _MOST:
        raise _NotKnownError
    return [ast.Constant(number) for number in range(*numbers)]


def _number(arg: ast.expr) -> int:
    """An integer that the source tells."""
    found = _known(arg)
    if type(found) is not int or abs(found) > 1 << 31:
        raise _NotKnownError
    return found


def _bound(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    """What the names of a target stand for: names and constants, which it is no work to repeat."""
    if isinstance(target, ast.Tuple):
        if not isinstance(value, (ast.Tuple, ast.List)) or len(value.elts) != len(target.elts):
            raise _NotKnownError
        found: dict[str, ast.expr] = {}
        for one, part in zip(target.elts, value.elts, strict=True):
            found |= _bound(one, part)
        return found
    leaves = (ast.Name, ast.Constant, ast.Tuple, ast.UnaryOp)
    parts = [p for p in tree_nodes(value) if isinstance(p, ast.expr)]
    signs = [p for p in parts if isinstance(p, ast.UnaryOp)]
    plain = all(isinstance(part, leaves) for part in parts)
    plain = plain and all(isinstance(sign.operand, ast.Constant) for sign in signs)
    if not isinstance(target, ast.Name) or not plain:
        raise _NotKnownError
    return {target.id: value}


def _put_in(node: ast.expr, names: _Names) -> ast.expr:
    """A copy of an expression with names replaced."""
    return _Replacing(names).visit(copied(node)) if names else copied(node)


class _Replacing(Rewriter, ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, names: _Names) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> Any:
        """What the name stands for."""
        found = self._names.get(node.id)
        return node if found is None else ast.copy_location(copied(found), node)


def _truth(test: ast.expr) -> bool:
    """Whether a condition that the source decides is true."""
    return bool(_known(test))


def _known(node: ast.expr) -> Any:
    """The value of an expression of constants."""
    if not all(isinstance(part, _KNOWN) for part in ast.walk(node)):
        raise _NotKnownError
    try:
        return eval(compile(ast.fix_missing_locations(ast.Expression(copied(node))), "", "eval"))
    except Exception as error:
        raise _NotKnownError from error
