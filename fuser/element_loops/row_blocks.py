"""Loops over columns run by blocks of rows, where rows do not depend on each other.

`for j in …: for i in …: a[i, j] = f(a[i, j - 1])` goes down a column in each iteration of its outer
loop, and meets another cache line at every step. Where each element that is written lies in the row
of the iteration, `blocked` has a few rows run through all columns, then the next few: the lines
stay in the first cache, and the rows' chains of operations run side by side. One index tells a row,
or two do: `a[i, j, k]`, where `k` is that of the outer loop. Several loops over rows become one, in
which scratch memory that is theirs alone is variables. The order of what one row does stays as it
is, so results are the same bit for bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fuser.base.records import changed
from fuser.element_loops.code import (
    SHORT,
    Array,
    Block,
    Constant,
    Expression,
    For,
    Get,
    If,
    Leave,
    Load,
    Operation,
    Repeat,
    Set,
    Statement,
    Store,
    everything,
    may_end_in,
    parts_in,
    parts_of,
    stays,
    with_bodies,
    with_expressions,
    with_parts,
)
from fuser.element_loops.operators import both

#: Rows of a block. Lines of columns that are a power of two apart share a set of the cache: with a
#: few arrays, these are as many as it holds.
ROWS = 4
#: Indices that tell a row, at most.
_DEPTH = 2
_ONE, _MOST = Constant("int64", 1), Constant("int64", SHORT)


def blocked(
    body: tuple[Statement, ...], arrays: Sequence[Array], by_rows: Callable[[int], bool]
) -> tuple[Statement, ...]:
    """Statements whose loops over columns run by blocks of rows where that is the same.

    Args:
        body: all statements of a function.
        arrays: what they read and write.
        by_rows: whether an array's last axis is contiguous.
    """
    read = _reads_of(body)

    def within(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for one in body:
            if isinstance(one, For) and (rows := _Columns(one, arrays, by_rows)).are_apart():
                found.append(rows.by_blocks(read - _reads_of((one,))))
            else:
                found.append(one if isinstance(one, Repeat) else with_bodies(one, within))
        return tuple(found)

    return within(body)


def _reads_of(body: tuple[Statement, ...]) -> Counter[int]:
    """How often statements read each array."""
    return Counter(
        part.array for part in parts_in(everything(body)) if isinstance(part, Load)
    )


class _Columns:
    """A loop that may be one over columns."""

    def __init__(self, loop: For, arrays: Sequence[Array], by_rows: Callable[[int], bool]) -> None:
        self.loop, self._arrays, self._by_rows = loop, arrays, by_rows
        self._statements = list(everything(loop.body))
        self._times = Counter(e.slot for e in self._statements if isinstance(e, (Set, For)))
        self._times[loop.slot] += 1
        self._written = {each.array for each in self._statements if isinstance(each, Store)}
        self._same: dict[str, Expression] = {}  # numbers that all iterations have in common
        self._index: list[set[str]] = []  # what holds the indices that tell a row
        self._axes: dict[int, list[int]] = {}
        self._crossed: dict[int, bool] = {}  # whether rows of an array lie across the loop
        self._head: list[Set] = []
        self._body: list[Statement] = []
        self._bounds: list[list[tuple[Expression, Expression]]] = []
        self._first: list[For] = []

    def are_apart(self) -> bool:
        """Whether it is one over columns whose rows may run apart, and should."""
        parts = list(flat(self.loop.body))
        if not any(isinstance(one, For) for one in parts) or may_end_in(self.loop.body):
            return False
        bounds = [self.loop.start, self.loop.stop]
        if not isinstance(self.loop.step, int):
            bounds.append(self.loop.step)
        if not all(stays(each, self._times) for each in bounds):
            return False
        known = {self.loop.slot}
        for one in parts:
            self._index = []
            if isinstance(one, Set):
                if self._times[one.slot] > 1 or not self._reads(one.value, known):
                    return False
                known.add(one.slot)
                self._head.append(one)
                if stays(value := self._resolved(one.value), self._times):
                    self._same[one.slot] = value
            elif not isinstance(one, For) or not self._nest(one, set(known)):
                return False
        if not all(_bounds_agree(each) for each in zip(*self._bounds, strict=True)):
            return False
        crossed = list(self._crossed.values())
        return any(crossed) if len(self._first) == 1 else 2 * sum(crossed) > len(crossed)

    def _resolved(self, one: Expression) -> Expression:
        """An expression in terms of what is known before the loop, as far as that is known."""
        if isinstance(one, Get):
            return self._same.get(one.slot, one)
        return with_parts(one, self._resolved)

    def _nest(self, loop: For, known: set[str]) -> bool:
        """Whether iterations of a loop over rows touch their own rows alone; its statements."""
        levels, body = [loop], list(flat(loop.body))
        after: list[Statement] = []
        while len(levels) < _DEPTH and (loops := [e for e in body if isinstance(e, For)]):
            place = body.index(loops[0])
            if not all(isinstance(one, Set) for one in (*body[:place], *body[place + 1 :])):
                return False
            levels.append(loops[0])
            after = [*body[place + 1 :], *after]
            body = [*body[:place], *flat(loops[0].body)]
        body += after
        self._first = self._first or levels
        bounds = [(self._resolved(e.start), self._resolved(e.stop)) for e in levels]
        fits = len(levels) == len(self._first) and all(each.step == 1 for each in levels)
        if not fits or not all(stays(end, self._times) for each in bounds for end in each):
            return False
        self._bounds.append(bounds)
        self._index = [{each.slot} for each in levels]
        known.update(each.slot for each in levels)
        self._body += [
            Set(each.slot, Get(to.slot, "int64"))
            for each, to in zip(levels, self._first, strict=True)
            if each is not to
        ]
        for one in body:
            if isinstance(one, Set):
                if one.slot in known or not self._reads(one.value, known):
                    return False
                known.add(one.slot)
                for held in self._index:
                    if isinstance(one.value, Get) and one.value.slot in held:
                        held.add(one.slot)
            elif not isinstance(one, Store) or not (
                self._reads(one.value, known) and self._touches(one.array, one.indices, known)
            ):
                return False
        self._body += body
        return True

    def _reads(self, one: Expression, known: set[str]) -> bool:
        """Whether an expression reads what the iteration has set, and elements of its own row."""
        if isinstance(one, Get):
            return one.slot in known or one.slot not in self._times
        if isinstance(one, Operation):
            return all(self._reads(arg, known) for arg in one.args)
        if isinstance(one, Load):
            return self._touches(one.array, one.indices, known)
        return True

    def _touches(self, array: int, indices: Sequence[Expression], known: set[str]) -> bool:
        """As `_reads`, of an element; notes whether rows lie apart in memory."""
        if not all(self._reads(each, known) for each in indices):
            return False
        own = [
            [
                axis
                for axis, each in enumerate(indices)
                if isinstance(each, Get) and each.slot in held
            ]
            for held in self._index
        ]
        told = [axis for axes in own for axis in axes]
        if array in self._written:
            alone = bool(own) and all(len(axes) == 1 for axes in own)
            if not alone or self._axes.setdefault(array, told) != told:
                return False
        if len(indices) > 1 and told and not self._arrays[array].within:
            across = self._by_rows(array) and self._moves_along(indices[-1])
            self._crossed[array] = self._crossed.get(array, False) or across
        return True

    def _moves_along(self, index: Expression) -> bool:
        """Whether an index goes on with the loop."""
        slots = {part.slot for part in parts_of(index) if isinstance(part, Get)}
        moving = {self.loop.slot, *(each.slot for each in self._head)} - self._same.keys()
        return not slots.isdisjoint(moving)

    # -- what stands for it ---------------------------------------------------------------------

    def by_blocks(self, elsewhere: Counter[int]) -> Statement:
        """Blocks of rows that run through it, where it is short: nobody sees memory in between.

        Args:
            elsewhere: how often arrays are read outside of it.
        """
        width = Operation("subtract", "int64", (self.loop.stop, self.loop.start))
        size: Expression = Operation("absolute", "int64", (width,))
        test: Expression = Operation("less_equal", "bool", (size, _MOST))
        for (start, stop), *others in zip(*self._bounds, strict=True):
            count = Operation("subtract", "int64", (stop, start))
            test = both(test, Operation("greater_equal", "bool", (count, _ONE)))
            test = both(test, Operation("less_equal", "bool", (count, _MOST)))
            size = Operation("multiply", "int64", (size, count))
            for end in {end: None for _, end in others if end != stop}:
                test = both(test, Operation("equal", "bool", (end, stop)))
            test = both(test, Operation("less_equal", "bool", (size, _MOST)))
        body = self._without_scratch(elsewhere)
        start, stop = self._bounds[0][-1]
        ways: tuple[Statement, ...] = (self._blocks(start, stop, body),)
        for level, (start, stop) in zip(self._first[:-1], self._bounds[0], strict=False):
            ways = (For(level.slot, start, stop, 1, ways, True),)
        return If(test, ways, (self.loop,))

    def _blocks(
        self, start: Expression, stop: Expression, body: tuple[Statement, ...]
    ) -> For:
        """A loop over blocks of rows, in which a loop over columns stands."""
        slot = self._first[-1].slot
        first = Get(f"rows of {slot}", "int64")
        last = Operation("exact_add", "int64", (first, Constant("int64", ROWS)))
        rows = For(slot, first, Operation("minimum", "int64", (last, stop)), 1, body, True)
        columns = changed(self.loop, body=(*self._head, rows), short=True)
        return For(first.slot, start, stop, ROWS, (columns,), True)

    def _without_scratch(self, elsewhere: Counter[int]) -> tuple[Statement, ...]:
        """The statements for one row, in which scratch memory that is theirs alone is variables."""
        held = [{level.slot} for level in self._first]
        for one in self._body:  # each nest has names of its own for the same indices
            if isinstance(one, Set) and isinstance(one.value, Get):
                for names in held:
                    if one.value.slot in names:
                        names.add(one.slot)

        def is_row(indices: Sequence[Expression]) -> bool:
            return len(indices) == len(held) and all(
                isinstance(each, Get) and each.slot in names
                for each, names in zip(indices, held, strict=True)
            )

        mine = {
            array for array in self._written
            if self._arrays[array].within and not elsewhere[array]
        }  # fmt: skip
        stored: set[int] = set()
        for one in self._body:
            for part in parts_in((one,)):
                if isinstance(part, Load) and not (part.array in stored and is_row(part.indices)):
                    mine.discard(part.array)
            if isinstance(one, Store):
                stored.add(one.array)
                if not is_row(one.indices):
                    mine.discard(one.array)

        def of(one: Expression) -> Expression:
            if isinstance(one, Load) and one.array in mine:
                return Get(f"element of {one.array}", one.dtype)
            return with_parts(one, of)

        def kept(one: Statement) -> Statement:
            if isinstance(one, Store) and one.array in mine:
                return Set(f"element of {one.array}", of(one.value))
            return with_expressions(one, of)

        return tuple(map(kept, self._body))


def _bounds_agree(bounds: Sequence[tuple[Expression, Expression]]) -> bool:
    """Whether loops begin alike; how long they are is seen when they run."""
    return all(start == bounds[0][0] for start, _ in bounds)


def flat(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield statements, and those of blocks that nothing leaves."""
    for one in body:
        if isinstance(one, Block) and not any(isinstance(e, Leave) for e in everything(one.body)):
            yield from flat(one.body)
        else:
            yield one
