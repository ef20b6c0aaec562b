"""From which lengths on a launch's words are products: where no min or max goes the other way.

`x[3:6]` has 3 elements of every long array, and fewer of a short one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from fuser.backends.cpu.entries.entry_names import NotServed
from fuser.backends.cpu.entries.entry_tables import SCALAR_NAME
from fuser.planning.plans import Plan

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


def _lengths(plan: Plan) -> Iterator[str]:
    """Texts in which all lengths of loop nests and of what they read and write are spelled."""
    for buffer in (*plan.outputs, *plan.temporaries):
        yield from map(str, buffer.node.shape)
    for group in plan.groups:
        for section in group.sections:
            yield from map(str, section.shape)
            stores = (part for _, part in section.stores)
            for part in chain(section.loads, stores):
                yield from (payload for name, payload in part.views if name != "index")
            nodes = chain(section.load_nodes, (step.node for step in section.steps))
            for node in nodes:
                yield from map(str, node.shape)


def _choices(text: str) -> Iterator[str]:
    """The outermost mins and maxes in a text."""
    at = 0
    while found := _CHOICE.search(text, at):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += (text[at] == "(") - (text[at] == ")")
            at += 1
        yield text[found.start() : at]
