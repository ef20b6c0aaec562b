"""What a graph's guards say of how long its lengths are, and what follows from it.

A guard `n0 == max(n0, 2)` holds exactly where the length is at least 2. Tracing leaves such guards
where the way that arrays are joined depends on it; passes may then compare symbolic places.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fuser.base import host_expressions
from fuser.ir import dims
from fuser.ir.attributes import Box, Span
from fuser.ir.dims import Dim, Length

Bounds = Mapping[str, int]


def at_least(length: Dim, bound: int) -> tuple[Dim, Dim]:
    """The guard that says so: a pair of lengths that are equal then."""
    return length, dims.maximum(length, bound)


def lower_bounds(guards: Iterable[tuple[Dim, Dim]]) -> dict[str, int]:
    """The least value of each symbol that guards bound."""
    found: dict[str, int] = {}
    for left, right in guards:
        for length, larger in ((left, right), (right, left)):
            matched = re.fullmatch(r"max\((.*), (\d+)\)", str(larger))
            if matched is None or dims.maximum(length, int(matched[2])) != larger:
                continue
            name, bound = _symbol_bound(length, int(matched[2]))
            if name:
                found[name] = max(found.get(name, 0), bound)
    return found


def _symbol_bound(length: Dim, bound: int) -> tuple[str, int]:
    """`n0 - 2 >= 3` says `n0 >= 5`; a name of "" where nothing is said of one symbol."""
    if isinstance(length, int):
        return "", 0
    named = [(names, number) for names, number in length.terms if names]
    constant = sum(number for names, number in length.terms if not names)
    if len(named) != 1 or named[0][1] != 1 or len(named[0][0]) != 1:
        return "", 0
    atom = named[0][0][0]
    inside = re.fullmatch(r"max\((.*), 0\)", atom)
    if inside is not None and bound - constant > 0:
        return _symbol_bound(dims.parse(inside[1]), bound - constant)
    return (atom, bound - constant) if atom.isidentifier() else ("", 0)


def at_most(left: Dim, right: Dim, bounds: Bounds) -> bool:
    """Whether `left <= right` for every size that the bounds allow; False where it is not seen."""
    rest = right - left
    if isinstance(rest, int):
        return rest >= 0
    total = 0
    for names, number in rest.terms:
        if not names:
            total += number
        elif number < 0:
            return False
        else:
            least = [bounds.get(n, 0) if n.isidentifier() else _least(n) for n in names]
            if len(least) > 1 and min(least) < 0:  # times a length, which may be any
                return False
            total += number * math.prod(least)
    return total >= 0


def apart(one: Box, two: Box, bounds: Bounds) -> bool:
    """Whether two boxes surely have no element in common."""
    return any(_are_apart(*spans, bounds) for spans in zip(one, two, strict=True))


def _are_apart(one: Span, two: Span, bounds: Bounds) -> bool:
    """Whether two spans of an axis surely have no place in common."""
    if at_most(one[1], two[0], bounds) or at_most(two[1], one[0], bounds):
        return True
    step, shift = one[2], one[0] - two[0]
    return step == two[2] and isinstance(shift, int) and shift % step != 0


def _least(atom: str) -> int:
    """The least value of a min, max or quotient of lengths, cautiously."""
    low, _ = dims._bounds(atom)
    return int(low) if low > 0 else 0 if low == 0 else -(10**18)


def simplify(length: Dim, bounds: Bounds) -> Dim:
    """The same length with each min and max that the bounds decide replaced by its answer."""
    if isinstance(length, int) or not bounds or "(" not in length.text:
        return length

    def larger(left: Dim, right: Dim) -> Dim:
        if at_most(right, left, bounds):
            return left
        return right if at_most(left, right, bounds) else dims.maximum(left, right)

    def smaller(left: Dim, right: Dim) -> Dim:
        if at_most(left, right, bounds):
            return left
        return right if at_most(right, left, bounds) else dims.minimum(left, right)

    scope: dict[str, Any] = {name: dims.symbol(name) for name in dims.symbols(length)}
    scope.update(max=larger, min=smaller)
    result = host_expressions.evaluate(length.text, host_expressions.LENGTH, scope)
    assert isinstance(result, (int, Length))
    return result
