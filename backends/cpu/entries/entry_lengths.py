"""From which lengths on a launch's words are products: where no min or max goes the other way.

`x[3:6]` has 3 elements of every long array, and fewer of a short one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from fuser.backends.cpu.entries.entry_names import NotServed
from fuser.backends.cpu.entries.entry_tables import SCALAR_NAME
from fuser.ir.dims import Dim
from fuser.ir.views import Broadcast, Part, Reshape, View
from fuser.scheduling.plans import Plan

_CHOICE = re.compile(r"\b(?:min|max)\(")
_NAME, _NUMBER = re.compile(r"\bn\d+\b"), re.compile(r"\b\d+\b")
#: A guard that holds for all lengths from some on: a product of lengths is not 0, or large enough.
_LEAST = re.compile(r"[n\d* ()]+ (?:> 0|!= 0|>= (\d+))")


def shortest(guards: Sequence[tuple[str, Any]]) -> tuple[int, list[tuple[str, Any]]]:
    """The length from which on guards hold that speak of lengths, and other guards.

    These are evaluated at each call.
    """
    least, others = 1, []
    for text, value in guards:
        if _NAME.search(text) and not SCALAR_NAME.search(text):
            found = _LEAST.fullmatch(text) if value is True else None
            if found is None or "**" in text:
                others.append((text, value))
            else:
                least = max(least, int(found[1] or 1))
    return least, others


def settled_from(plan: Plan) -> int:
    """The length from which on every min and max in a plan's lengths goes one way.

    Raises:
        NotServed: there is none that is easily found, or a length is divided.
    """
    least = 1
    for text in set(_lengths(plan)):
        if "//" in text or "%" in text:
            raise NotServed
        for choice in _choices(text):
            if len(set(_NAME.findall(choice))) > 1:
                raise NotServed
            # Of one length, with whole factors: all numbers together are beyond where it turns.
            least = max(least, 1 + sum(map(int, _NUMBER.findall(choice))))
    return least


def degree(plan: Plan, shapes: Iterable[Sequence[Dim]], names: Collection[str]) -> int:
    """A bound on the degree, in some symbols together, of a word of a launch as a polynomial.

    Lengths of loops and strides are products of lengths of one shape; an offset is a sum of
    products of a first place and a stride.

    Args:
        plan: what is launched.
        shapes: of its arguments.
        names: symbols; others are constants.

    Raises:
        NotServed: a length is divided.
    """
    most, first = 0, 0
    for lengths in (*shapes, *_shapes(plan)):
        most = max(most, sum(_degree(str(length), names) for length in lengths))
    for view in _views(plan):
        if isinstance(view, Part):
            first = max(first, _degree(str(view.start), names))
    return most + first


def _degree(text: str, names: Collection[str]) -> int:
    """The degree of a length; where a min or max turns is not asked for."""
    found: dict[ast.AST, int] = {}
    for node in reversed([*ast.walk(ast.parse(text, mode="eval").body)]):  # operands first
        below = [found.get(child, 0) for child in ast.iter_child_nodes(node)]
        if isinstance(node, (ast.FloorDiv, ast.Div, ast.Mod, ast.Pow)):
            raise NotServed
        product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        own = isinstance(node, ast.Name) and node.id in names
        found[node] = own + (sum(below) if product else max(below, default=0))
    return found[node]


def _shapes(plan: Plan) -> Iterator[Sequence[Dim]]:
    """The shapes of loop nests and of what they read and write, however it is seen."""
    for buffer in (*plan.outputs, *plan.temporaries):
        yield buffer.node.shape
    for group in plan.groups:
        for section in group.sections:
            yield section.shape
            for node in chain(section.load_nodes, (step.node for step in section.steps)):
                yield node.shape
    for view in _views(plan):
        if isinstance(view, (Reshape, Broadcast)):
            yield view.lengths


def _views(plan: Plan) -> Iterator[View]:
    """The views through which loop nests read and write."""
    for group in plan.groups:
        for section in group.sections:
            for part in chain(section.loads, (part for _, part in section.stores)):
                yield from part.views


def _lengths(plan: Plan) -> Iterator[str]:
    """Texts in which all lengths of loop nests and of what they read and write are spelled."""
    for shape in _shapes(plan):
        yield from map(str, shape)
    for view in _views(plan):
        yield from map(str, view.lengths)


def _choices(text: str) -> Iterator[str]:
    """The outermost mins and maxes in a text."""
    at = 0
    while found := _CHOICE.search(text, at):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += (text[at] == "(") - (text[at] == ")")
            at += 1
        yield text[found.start() : at]
