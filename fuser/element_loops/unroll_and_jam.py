"""Iterations of a loop that stand apart, several at a time: unroll and jam.

`for j in …: for k in …: s += a[i, k] * b[k, j]` waits for each sum, and goes down a column of `b`.
Where iterations of the outer loop stand apart, `jammed` runs eight of them together: their inner
loops are one loop, in which eight sums are computed side by side and their elements are neighbours.
What one iteration does stays in its order, so results are the same bit for bit. Between two blocks
whole iterations have run.

`for k in …: for j in …: c[i, j] += a[i, k] * b[k, j]` reads and writes a row in each iteration.
Where it is the inner loop whose iterations stand apart, four of the outer one run together: an
element takes in what they have for it one after another, in order, and is read and written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuser.base.records import changed
from fuser.element_loops.code import (
    Block,
    Check,
    Constant,
    Expression,
    For,
    Get,
    If,
    Load,
    Operation,
    Repeat,
    Set,
    Statement,
    Store,
    everything,
    expressions_of,
    has_loops,
    parts_in,
    parts_of,
    sets_in,
    stays,
    with_bodies,
    with_expressions,
    with_parts,
)
from fuser.element_loops.operators import TRUE, both
from fuser.element_loops.row_blocks import flat
from fuser.element_loops.sharing import read_in, stand_apart

#: Iterations that run together, and statements and operations of one, at most.
WIDTH, _STATEMENTS, _OPERATIONS = 8, 24, 60
#: Iterations that run together where elements take in one after another, and operations of one, at
#: most: where there are many, reading an element is a small part.
IN_TURN, _LIGHT = 4, 12


def jammed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements whose loops run several iterations together where that is the same."""
    found: list[Statement] = []
    for one in body:
        if isinstance(one, For) and one.shared:  # its iterations are a function of their own
            found.append(one)
        elif isinstance(one, For) and one.step == 1 and (made := _Jam(one).made()) is not None:
            found += made
        elif isinstance(one, For) and (turns := _InTurn.of(one)) is not None:
            found += turns.made()
        else:
            found.append(one if isinstance(one, Repeat) else with_bodies(one, jammed))
    return tuple(found)


class _Jam:
    """A loop whose iterations may stand apart."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.guard: Expression = TRUE
        self._changing = sets_in((loop,))

    def made(self) -> list[Statement] | None:
        """Blocks of iterations, and those that are left; None where it stays as it is."""
        loop = self.loop
        if not any(isinstance(each, For) for each in flat(loop.body)):
            return None
        body = tuple(self._chosen(loop.body))
        whole = list(everything(body))
        if len(whole) > _STATEMENTS or not all(map(self._fits, whole)):
            return None
        self._changing = sets_in((changed(loop, body=body),))
        if not all(stays(each, self._changing) for each in (loop.start, loop.stop)):
            return None
        written = {each.array for each in whole if isinstance(each, Store)}
        varying = _following(whole, loop.slot, written)
        bounds = [end for one in whole if isinstance(one, For) for end in expressions_of(one)]
        if any(_slots(end) & varying for end in bounds) or not self._gains(whole, varying):
            return None
        if not stand_apart(changed(loop, body=body)):
            return None
        count = Operation("subtract", "int64", (loop.stop, loop.start))
        left = Operation("remainder", "int64", (count, Constant("int64", WIDTH)))
        end = Operation("subtract", "int64", (loop.stop, left))
        wide = Operation("greater_equal", "bool", (count, Constant("int64", WIDTH)))
        blocks = changed(loop, stop=end, step=WIDTH, body=tuple(self._copies(body, varying)))
        rest = changed(loop, start=end)
        return [If(both(wide, self.guard), (blocks, rest), (loop,))]

    def _chosen(self, body: tuple[Statement, ...]) -> Iterator[Statement]:
        """Statements; of branches that no iteration changes, those that are run where it holds."""
        for one in flat(body):
            if isinstance(one, If) and stays(one.test, self._changing):
                self.guard = both(self.guard, one.test)
                yield from self._chosen(one.then)
            else:
                yield one

    def _fits(self, one: Statement) -> bool:
        """Whether a statement is understood; where its run ends early, the whole is dropped."""
        if any(isinstance(part, (Load, Store)) and part.checked for part in parts_in((one,))):
            return False
        if isinstance(one, For):
            return one.short and not has_loops(one.body)
        return isinstance(one, (Set, Store, Block))

    def _gains(self, whole: Sequence[Statement], varying: set[str]) -> bool:
        """Whether elements of a block are neighbours in inner loops, and those of none are rows."""
        count = sum(isinstance(part, Operation) for part in parts_in(whole))
        beside = False
        for loop in whole:
            inside = list(everything(loop.body)) if isinstance(loop, For) else []
            own = _following(inside, loop.slot, set()) if isinstance(loop, For) else set()
            for part in parts_in(inside):
                if not isinstance(part, (Load, Store)):
                    continue
                *others, last = map(_slots, part.indices)
                beside = beside or bool(last & varying)
                along = bool(last & own)
                if along and (isinstance(part, Store) or any(o & varying for o in others)):
                    return False
        return beside and count <= _OPERATIONS

    def _copies(
        self, body: tuple[Statement, ...], varying: set[str]
    ) -> Iterator[Statement]:
        """Statements for all iterations of a block; the last one's variables keep their names."""
        for one in body:
            if isinstance(one, For):
                yield changed(one, body=tuple(self._copies(one.body, varying)))
            elif isinstance(one, Block):
                yield changed(one, body=tuple(self._copies(one.body, varying)))
            elif isinstance(one, Set) and one.slot not in varying:
                yield one
            elif isinstance(one, (Set, Store)):
                for copy in range(WIDTH):
                    yield _copy(one, self.loop.slot, copy, WIDTH, varying)


class _InTurn:
    """A loop whose iterations do something to the elements of a loop in it, one after another.

    It is legal to run several together where each array that the inner loop writes is touched at
    one element in an iteration of it, the same whatever the outer iteration is, and nowhere else:
    then elements depend on no other one, and each meets the outer iterations in their order.
    """

    def __init__(self, loop: For, inner: For) -> None:
        self.loop, self._inner = loop, inner
        body = tuple(flat(loop.body))
        place = body.index(inner)
        self._head, self._tail = body[:place], body[place + 1 :]
        self._inside = tuple(flat(inner.body))
        self._changing = sets_in((loop,))

    @classmethod
    def of(cls, loop: For) -> _InTurn | None:
        """A loop with one in it, where it may run so and gains by it; else None."""
        inner = [each for each in flat(loop.body) if isinstance(each, For)]
        made = cls(loop, inner[0]) if len(inner) == 1 and loop.step == inner[0].step == 1 else None
        return made if made is not None and made._is_legal() else None

    def _is_legal(self) -> bool:
        """Whether several iterations may run together, and elements are then read less often."""
        loop, inner, around = self.loop, self._inner, (*self._head, *self._tail)
        if not (inner.short and all(isinstance(each, (Set, Store)) for each in self._inside)):
            return False
        if not all(isinstance(each, (Set, Check)) for each in around):
            return False
        ends = (loop.start, loop.stop, inner.start, inner.stop)
        if not all(stays(each, self._changing) for each in ends):
            return False
        if sum(isinstance(part, Operation) for part in parts_in(self._inside)) > _LIGHT:
            return False
        sets = [each.slot for each in (*around, *self._inside) if isinstance(each, Set)]
        index, told = Get(inner.slot, "int64"), dict[Expression, Expression]()
        for each in self._inside:
            if isinstance(each, Set) and sets.count(each.slot) == 1:
                value = told.get(each.value, each.value)
                if value == index or stays(value, self._changing):
                    told[Get(each.slot, each.value.dtype)] = value
        places: dict[int, set[tuple[Expression, ...]]] = {}
        for part in parts_in(self._inside):
            if isinstance(part, (Load, Store)):
                place = tuple(told.get(each, each) for each in part.indices)
                places.setdefault(part.array, set()).add(place)
        written = {each.array for each in self._inside if isinstance(each, Store)}
        if any(isinstance(part, Load) and part.array in written for part in parts_in(around)):
            return False
        for array in written:
            place, *others = places[array]
            own = all(each == index or stays(each, self._changing) for each in place)
            if others or not own or place[-1] != index:
                return False
        body = (*self._head, inner, *self._tail)
        return bool(written) and read_in(body, (loop.slot,)).isdisjoint(self._changing)

    def made(self) -> list[Statement]:
        """Blocks of iterations, and those that are left."""
        loop, zero = self.loop, Constant("int64", 0)
        some = Operation("less", "bool", (loop.start, loop.stop))
        gap = Operation("subtract", "int64", (loop.stop, loop.start))
        count = Operation("select", "int64", (some, gap, zero))
        count = Operation("maximum", "int64", (count, zero))  # of a gap that overflows none
        left = Operation("remainder", "int64", (count, Constant("int64", IN_TURN)))
        whole = Operation("subtract", "int64", (count, left))
        end = Operation("add", "int64", (loop.start, whole))
        together = changed(self._inner, body=self._copies(self._inside))
        body = (*self._copies(self._head), together, *self._copies(self._tail))
        return [changed(loop, stop=end, step=IN_TURN, body=body), changed(loop, start=end)]

    def _copies(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """Statements of several iterations, one iteration after another."""
        varying = self._changing - {self.loop.slot, self._inner.slot}
        return tuple(
            _copy(one, self.loop.slot, copy, IN_TURN, varying)
            for copy in range(IN_TURN) for one in body
            if isinstance(one, (Set, Store, Check))
        )  # fmt: skip


def _copy(
    one: Set | Store | Check, loop: str, copy: int, width: int, varying: set[str]
) -> Statement:
    """A statement of one of the iterations of a loop; of the last variables keep their names."""

    def named(slot: str) -> str:
        return slot if copy == width - 1 else f"{slot} of {copy}"

    def of(each: Expression) -> Expression:
        if isinstance(each, Get) and each.slot == loop:
            return Operation("exact_add", "int64", (each, Constant("int64", copy)))
        if isinstance(each, Get) and each.slot in varying:
            return changed(each, slot=named(each.slot))
        return with_parts(each, of)

    made = with_expressions(one, of)
    return changed(made, slot=named(made.slot)) if isinstance(made, Set) else made


def _following(whole: Sequence[Statement], slot: str, written: set[int]) -> set[str]:
    """Variables that may change with one of them, or with elements of arrays that are written."""
    found, before = {slot}, 0
    while len(found) > before:
        before = len(found)
        for one in whole:
            if isinstance(one, Set) and any(
                (isinstance(part, Get) and part.slot in found)
                or (isinstance(part, Load) and part.array in written)
                for part in parts_of(one.value)
            ):
                found.add(one.slot)
    return found


def _slots(one: Expression) -> set[str]:
    """The variables in an expression."""
    return {part.slot for part in parts_of(one) if isinstance(part, Get)}
