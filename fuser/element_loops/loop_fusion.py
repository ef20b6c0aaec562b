"""A loop that waits for itself takes in the loop before it, which then costs nothing.

`a[i, 1:-1] += above + below`, then `for j in …: a[i, j] = (a[i, j] + a[i, j - 1]) / 9`: each
iteration of the second loop waits for the one before, and what the first one does fits into that
time. They are one loop where as many iterations are run, and no element that both touch, one of
them writing, is met by the second loop in an earlier iteration than by the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.base.records import changed
from fuser.element_loops.code import (
    Constant,
    Expression,
    For,
    Get,
    If,
    Load,
    Operation,
    Set,
    Statement,
    Store,
    expressions_of,
    parts_in,
    parts_of,
    with_bodies,
)
from fuser.element_loops.row_blocks import flat

#: Operations on floats of an iteration that is taken in, at most: more of them take their time.
_LIGHT = 12
#: What an index is: the iteration (an empty name) or a variable, and what is added to it.
Place = tuple[str, int]
Touch = tuple[Load | Store, tuple[Place | None, ...]]


def fused_loops(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements, in which loops that wait for themselves have taken others in."""
    found: list[Statement] = []
    for one in flat(body):
        made = _taken_in(found, one) if isinstance(one, For) else None
        if made is None:
            found.append(with_bodies(one, fused_loops))
        else:
            first, fused = made
            found[first:] = fused
    return tuple(found)


def _taken_in(before: Sequence[Statement], last: For) -> tuple[int, list[Statement]] | None:
    """Where the loop before one begins, and what stands for both; None where they stay."""
    first = len(before) - 1
    while first >= 0 and isinstance(before[first], Set):
        first -= 1
    loop = before[first] if first >= 0 else None
    if not isinstance(loop, For) or not (_is_plain(loop) and _is_plain(last)):
        return None
    start, begin = loop.start, last.start
    if not isinstance(start, Constant) or not isinstance(begin, Constant):
        return None
    between, shift = list(before[first + 1 :]), int(begin.value) - int(start.value)
    one, other = tuple(flat(loop.body)), tuple(flat(last.body))
    if not _apart((loop, *one), between, (last, *other)):
        return None
    touched, met = _touched(one, loop.slot, 0), _touched(other, last.slot, shift)
    if not (_waits(met) and _in_order(touched, met)):
        return None
    if sum(isinstance(part, Operation) and part.dtype.startswith("float")
           for part in parts_in(one)) > _LIGHT:  # fmt: skip
        return None
    index = Operation("exact_add", "int64", (Get(loop.slot, "int64"), Constant("int64", shift)))
    counts = [Operation("exact_subtract", "int64", (each.stop, each.start))
              for each in (loop, last)]  # fmt: skip
    after = Set(last.slot, Operation("maximum", "int64", (last.start, last.stop)))
    whole = changed(loop, body=(*one, Set(last.slot, index), *other))
    same = Operation("equal", "bool", tuple(counts))
    return first, [*between, If(same, (whole, after), (loop, last))]


def _is_plain(loop: For) -> bool:
    """Whether a loop goes up by one, and does nothing but compute and store: all of it."""
    if loop.step != 1 or not loop.short or loop.shared:
        return False
    body = tuple(flat(loop.body))
    return all(isinstance(each, (Set, Store)) for each in body) and not any(
        part.checked for part in parts_in(body) if isinstance(part, (Load, Store))
    )


def _apart(
    one: Sequence[Statement], between: Sequence[Statement], other: Sequence[Statement]
) -> bool:
    """Whether neither loop reads a variable that the other sets; nor what stands between them."""
    sets = [{each.slot for each in part if isinstance(each, (Set, For))}
            for part in (one, between, other)]  # fmt: skip
    gets = [{part.slot for part in parts_in(each) if isinstance(part, Get)}
            for each in (one, between, other)]  # fmt: skip
    if sets[0] & (gets[1] | gets[2] | sets[1] | sets[2]) or gets[0] & (sets[1] | sets[2]):
        return False
    return not sets[1] & sets[2] and not any(isinstance(part, Load) for part in parts_in(between))


def _touched(body: Sequence[Statement], slot: str, shift: int) -> list[Touch]:
    """The elements that a loop's statements touch, by the iteration of the loop before it."""
    sets = [each.slot for each in body if isinstance(each, Set)]
    told: dict[str, Place | None] = {**dict.fromkeys(sets), slot: ("", shift)}

    def place(one: Expression) -> Place | None:
        if isinstance(one, Get):
            return told.get(one.slot, (one.slot, 0))
        if isinstance(one, Operation) and one.name in ("exact_add", "exact_subtract"):
            left, right = one.args
            if isinstance(left, Constant) and one.name == "exact_add":
                left, right = right, left
            found = place(left)
            if found is not None and isinstance(right, Constant):
                by = int(right.value)
                return found[0], found[1] + (by if one.name == "exact_add" else -by)
        return None

    found: list[Touch] = []
    for one in body:
        parts = [part for each in expressions_of(one) for part in parts_of(each)]
        for part in (*parts, one):
            if isinstance(part, (Load, Store)):
                found.append((part, tuple(map(place, part.indices))))
        if isinstance(one, Set) and sets.count(one.slot) == 1:
            told[one.slot] = place(one.value)
    return found


def _waits(touched: Sequence[Touch]) -> bool:
    """Whether an iteration reads an element that the one before it has written."""
    written = {(part.array, where) for part, where in touched if isinstance(part, Store)}
    for part, where in touched:
        if isinstance(part, Load) and where and where[-1] is not None and None not in where:
            name, by = where[-1]
            if not name and (part.array, (*where[:-1], (name, by + 1))) in written:
                return True
    return False


def _in_order(one: Sequence[Touch], other: Sequence[Touch]) -> bool:
    """Whether the second loop meets no element before the first has done with it."""
    return all(
        any(_is_later(*pair) for pair in zip(here, there, strict=True))
        for part, here in one for more, there in other
        if part.array == more.array and (isinstance(part, Store) or isinstance(more, Store))
    )  # fmt: skip


def _is_later(here: Place | None, there: Place | None) -> bool:
    """Whether equal indices are met by the second loop in the same iteration or later; or never."""
    if here is None or there is None or here[0] != there[0]:
        return False
    return here[1] >= there[1] if not here[0] else here[1] != there[1]
