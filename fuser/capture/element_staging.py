"""Which statements of a function may be loops over elements, as its source shows.

A group is a loop and the statements after it in the same block, as far as these, too, only compute
with numbers and elements. In a function's twin (`staging`) each group is asked first whether it
runs as one element loop; if not, its statements run, and the loops among them are looked at alone.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from fuser.base.records import record
from fuser.base.syntax_trees import copied, tree_nodes
from fuser.capture.liveness import live_before, read_in, stored_in
from fuser.tracing.traced_array import TracedArray

#: What statements and expressions of an element loop are made of.
_ADMITTED = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Break,
    ast.Continue, ast.Pass, ast.Return, ast.Assert, ast.Raise,
    ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.Constant, ast.BinOp,
    ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.keyword,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
#: What has names of its own, within a function.
_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
#: Functions of numbers that may stand before a loop.
_OF_NUMBERS = frozenset("sqrt exp log sin cos tan abs float int min max len".split())
#: Names of the results of a group that returns.
RETURNED = "return"


@record(slots=False, eq=False)
class ElementSource:
    """What the source says of one group.

    Attributes:
        body: its statements.
        assigned: names that it assigns to.
        needed: names whose values from before it may be read, in it or afterwards.
        wanted: those of `assigned` that are read afterwards.
        returns: whether the function ends with it.
        alone: whether nothing else looks at its loops.
        elements: whether it may name an element of an array.
        own: names of arrays that the function makes before it and gives no other name.
        lists: names of lists that it appends to, of which the function makes no other use than
            their length and arrays of them.
        where: `file:line`.
    """

    body: tuple[ast.stmt, ...]
    assigned: frozenset[str]
    needed: frozenset[str]
    wanted: tuple[str, ...]
    returns: bool
    alone: bool
    elements: bool
    own: frozenset[str]
    lists: frozenset[str]
    where: str


def is_admitted(node: ast.stmt) -> bool:
    """Whether a statement may be part of an element loop."""
    parts = tree_nodes(node)
    if not all(isinstance(part, _ADMITTED) for part in parts):
        return False
    return not any(_is_loose(part) for part in parts)


def _is_loose(node: ast.AST) -> bool:
    """Whether a part of a statement shows that it is none."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, (bool, int, float, complex, str))
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return True
    return isinstance(node, ast.keyword) and node.arg is None


def has_loop(node: ast.stmt) -> bool:
    """Whether a statement is a loop."""
    return isinstance(node, (ast.For, ast.While))


def returns(node: ast.AST) -> bool:
    """Whether a `return` stands in a statement."""
    return any(isinstance(part, ast.Return) for part in tree_nodes(node))


def grouped(body: Sequence[ast.stmt], last: bool) -> list[list[ast.stmt]]:
    """The statements of a block in groups; those that are no group stand alone.

    Args:
        body: the block.
        last: it is a function's own, so that the function ends where it ends.
    """
    found: list[list[ast.stmt]] = []
    place = 0
    while place < len(body):
        first = _first_loop(body, place)
        if first is None:
            found.append([body[place]])
            place += 1
            continue
        end = first
        while end < len(body) and is_admitted(body[end]):
            end += 1
        if not (last and end == len(body)):
            while any(map(returns, body[place:end])):
                end -= 1
        if end <= first:
            found += [[each] for each in body[place : first + 1]]
            end = first + 1
        else:
            lists = appended(body[place:end])
            if lists:  # what makes an array of one comes after the group
                used = (k for k in range(first + 1, end) if _other_uses(body[k : k + 1], lists))
                end = next(used, end)
            while end > first + 1 and not _counts(body[end - 1]):
                end -= 1
            found.append(list(body[place:end]))
        place = end
    return found


def _first_loop(body: Sequence[ast.stmt], place: int) -> int | None:
    """The loop of a group that begins at a statement: itself, or after assignments to elements."""
    if not has_loop(body[place]) and not _sets_element(body[place]):
        return None
    while place < len(body) and is_admitted(body[place]):
        if has_loop(body[place]):
            return place
        if not _is_simple(body[place]):
            return None
        place += 1
    return None


def _is_simple(node: ast.stmt) -> bool:
    """Whether a statement assigns numbers or elements, and calls nothing but functions of them."""
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    calls = [part.func for part in tree_nodes(node) if isinstance(part, ast.Call)]
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}
    return names <= _OF_NUMBERS


def _sets_element(node: ast.stmt) -> bool:
    """Whether a statement assigns to one element of an array."""
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    slices = [target.slice for target in targets if isinstance(target, ast.Subscript)]
    parts = tree_nodes(*slices)
    return len(slices) == len(targets) and not any(isinstance(p, ast.Slice) for p in parts)


def _counts(node: ast.stmt) -> bool:
    """Whether a statement belongs to a group that it ends: one that does something."""
    return not isinstance(node, (ast.Pass, ast.Expr))


def is_group(body: Sequence[ast.stmt]) -> bool:
    """Whether statements that stand together are a group.

    What goes over a range and names no element computes with whole arrays, or with numbers alone:
    a trace meets it as a loop of array operations (`loops`).
    """
    if not any(map(has_loop, body)) or not all(map(is_admitted, body)):
        return False
    return may_hold_group(body)


def may_hold_group(body: Sequence[ast.stmt]) -> bool:
    """Whether any group may be among statements, or in them."""
    parts = tree_nodes(*body)
    loops = any(isinstance(part, ast.While) for part in parts) or appended(body)
    return bool(loops) or names_elements(body)


def source_of(
    body: Sequence[ast.stmt], live: frozenset[str], where: str, function: ast.FunctionDef
) -> ElementSource:
    """What the source of a function says of a group; `live`: names that may be read after it."""
    stored = {
        part.id for part in tree_nodes(*body)
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
    }  # fmt: skip
    lists = appended(body)
    if lists:
        lists -= {name for name in lists if not _is_simple_list(name, function)}
        stored |= lists
    ends = any(map(returns, body))
    wanted = () if ends else tuple(sorted(stored & live))
    after = frozenset() if ends else live
    needed = live_before(body, after)
    found = tuple(copied(each) for each in body)
    alone = not any(isinstance(each, ast.For) for each in body)
    elements = names_elements(body)
    own = own_names(function, body) if body[0] in function.body else frozenset()
    stored_names = frozenset(stored)
    return ElementSource(
        found, stored_names, needed, wanted, ends, alone, elements, own, lists, where
    )


def appended(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Names whose `append` statements call."""
    return frozenset(
        part.func.value.id for part in tree_nodes(*body)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
        and part.func.attr == "append" and isinstance(part.func.value, ast.Name)
    )  # fmt: skip


def _other_uses(body: Sequence[ast.AST], lists: frozenset[str]) -> list[ast.Name]:
    """Where lists are read otherwise than an element loop reads them: by items and lengths."""
    known: set[int] = set()
    for part in tree_nodes(*body):
        asked: list[ast.expr] = []
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            asked = [part.func.value] if part.func.attr in ("append", "pop") else []
        elif isinstance(part, ast.Subscript) and not isinstance(part.slice, ast.Slice):
            asked = [part.value]
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            asked = part.args if part.func.id == "len" else []
        elif isinstance(part, (ast.While, ast.If)):
            asked = [part.test]
        elif isinstance(part, ast.BoolOp):
            asked = part.values
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            asked = [part.operand]
        known.update(map(id, asked))
    return [part for part in tree_nodes(*body)
            if isinstance(part, ast.Name) and part.id in lists and isinstance(part.ctx, ast.Load)
            and id(part) not in known]  # fmt: skip


def _is_simple_list(name: str, function: ast.FunctionDef) -> bool:
    """Whether a name stands for lists that are written down, and has uses that are known.

    Those are the ones of an element loop, and calls of NumPy's functions that take it.
    """
    known: set[int] = set()
    for part in tree_nodes(function):
        if isinstance(part, _SCOPES) and part is not function:
            if any(isinstance(each, ast.Name) and each.id == name for each in tree_nodes(part)):
                return False
        pairs: Sequence[tuple[ast.expr, ast.expr | None]] = _pairs(part)
        if isinstance(part, ast.AnnAssign):
            pairs = [(part.target, part.value)]
        known.update(id(target) for target, value in pairs if isinstance(value, ast.List))
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            if isinstance(part.func.value, ast.Name) and part.func.value.id in ("np", "numpy"):
                known.update(id(_forwards(each)) for each in part.args)
    stored = [part for part in tree_nodes(function) if isinstance(part, ast.Name)
              and part.id == name and not isinstance(part.ctx, ast.Load)]
    used = _other_uses([function], frozenset((name,)))
    return all(id(each) in known for each in (*stored, *used))


def _forwards(node: ast.expr) -> ast.expr:
    """A list that an expression sees backwards; any other expression itself."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1":
        return node.value
    return node


def own_names(function: ast.FunctionDef, group: Sequence[ast.stmt]) -> frozenset[str]:
    """Names of arrays that a function makes by NumPy before a group and gives no other name.

    Until then they may be written into, and asked for their shape.
    """
    made: set[str] = set()
    known: set[int] = set()
    before = function.body[: function.body.index(group[0])]
    for part in tree_nodes(*before):
        for target, value in _pairs(part):
            if isinstance(target, ast.Name) and _makes_array(value):
                made.add(target.id)
                known.add(id(target))
        bases: list[ast.expr] = []
        if isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            bases = [part.value]
        elif isinstance(part, ast.Attribute) and part.attr in ("shape", "size", "dtype"):
            bases = [part.value]
        elif isinstance(part, ast.Call) and _makes_array(part):
            bases = part.args
        known.update(id(each) for each in bases)
    other = {part.id for part in tree_nodes(*before)
             if isinstance(part, ast.Name) and id(part) not in known}  # fmt: skip
    nested = any(isinstance(part, (ast.FunctionDef, ast.Lambda, ast.ListComp))
                 for part in tree_nodes(*before))  # fmt: skip
    return frozenset() if nested else frozenset(made - other)


def _pairs(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment gives values, each with its own."""
    if not isinstance(node, ast.Assign) or len(node.targets) > 1:
        return []
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


#: Functions of NumPy's, and a method of its arrays, that give arrays of their own.
_MAKERS = frozenset(
    "empty zeros ones full empty_like zeros_like ones_like full_like arange copy".split()
)


def _makes_array(node: ast.expr) -> bool:
    """Whether an expression is a call of what gives an array of its own, by its name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (
        isinstance(node.func.value, ast.Name) and node.func.attr in _MAKERS
    )


def names_elements(body: Sequence[ast.stmt]) -> bool:
    """Whether statements may name an element of an array, or a row at an index that changes.

    Functions that they call by their names, and those that are given the index of a loop, may.
    """
    parts = tree_nodes(*body)
    loops = [part for part in parts if isinstance(part, ast.For)]
    indices = {name for loop in loops for name in stored_in(loop.target)}
    return any(_names_element(part, indices) for part in parts)


def _names_element(node: ast.AST, indices: set[str]) -> bool:
    """As `names_elements`, of one part; `indices`: the names that loops go over."""
    if isinstance(node, ast.Subscript):
        if isinstance(node.value, ast.Attribute) and node.value.attr in ("shape", "strides"):
            return False
        place = node.slice
        axes = place.elts if isinstance(place, ast.Tuple) else [place]
        single = not any(isinstance(each, ast.Slice) or _is_no_index(each) for each in axes)
        return single or bool(read_in(place))
    if isinstance(node, ast.For):
        return not isinstance(node.iter, (ast.Tuple, ast.List)) and not _calls(node.iter, "range")
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return not hasattr(builtins, node.func.id)
    return any(isinstance(each, ast.Name) and each.id in indices for each in node.args)


def _is_no_index(node: ast.AST) -> bool:
    """Whether an item of a subscript is `None`, `...` or a key."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, int)


def _calls(node: ast.AST, name: str) -> bool:
    """Whether an expression calls a function by its name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def is_of_arrays(source: ElementSource, env: Mapping[str, Any]) -> bool:
    """Whether a group computes with whole arrays and no elements: it is no loop over elements.

    Args:
        source: the group.
        env: what the function's names stand for.
    """
    if source.elements:
        return False
    loops = [each for each in source.body if has_loop(each)]
    read = frozenset().union(*map(read_in, loops)) & source.needed
    found = [env[name] for name in read if name in env]
    return any(issubclass(type(each), TracedArray) and not each.generic for each in found)


class NotTaken:
    """Stands for a group that is no loop over elements, as its twin asks for it."""

    @staticmethod
    def taken() -> bool:
        """Whether the group has become part of the graph."""
        return False
