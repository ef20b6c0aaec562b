"""Loops over columns run by blocks of rows, where rows do not depend on each other.

`for j in …: for i in …: a[i, j] = f(a[i, j - 1])` goes down a column in each iteration of its outer
loop, and meets another cache line at every step. Where each element that is written lies in the row
of the iteration, `blocked` has a few rows run through all columns, then the next few: the lines
stay in the first cache, and the rows' chains of operations run side by side. The order of what one
row does stays as it is, so results are the same bit for bit.
"""

from __future__ import annotations

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
    Length,
    Load,
    Operation,
    Set,
    Statement,
    Store,
    everything,
    inner,
    may_end_in,
)
from fuser.element_loops.operators import both

#: Rows of a block. Lines of columns that are a power of two apart share a set of the cache: with a
#: few arrays, these are as many as it holds.
ROWS = 4


def blocked(
    body: tuple[Statement, ...], arrays: Sequence[Array], by_rows: Callable[[int], bool]
) -> tuple[Statement, ...]:
    """Statements whose loops over columns run by blocks of rows where that is the same.

    Args:
        body: the statements.
        arrays: what they read and write.
        by_rows: whether an array's last axis is contiguous.
    """
    found: list[Statement] = []
    for one in body:
        if isinstance(one, For) and one.shared:  # its iterations are a function of their own
            found.append(one)
        elif isinstance(one, For) and (rows := _Columns(one, arrays, by_rows).rows()) is not None:
            found.append(_by_blocks(one, rows))
        elif isinstance(one, If):
            ways = (blocked(way, arrays, by_rows) for way in inner(one))
            found.append(If(one.test, *ways))
        elif isinstance(one, (For, Block)):
            found.append(changed(one, body=blocked(one.body, arrays, by_rows)))
        else:
            found.append(one)
    return tuple(found)


class _Columns:
    """A loop that may be one over columns."""

    def __init__(
        self, loop: For, arrays: Sequence[Array], by_rows: Callable[[int], bool]
    ) -> None:
        self.loop, self._arrays, self._by_rows = loop, arrays, by_rows
        self._statements = list(everything(loop.body))
        self._sets = {each.slot for each in self._statements if isinstance(each, (Set, For))}
        self._written = {each.array for each in self._statements if isinstance(each, Store)}
        self._axes: dict[int, int] = {}
        self._crossed = False

    def rows(self) -> For | None:
        """A loop over rows in it, if it is one over columns whose rows may run apart."""
        parts = list(flat(self.loop.body))
        loops = [each for each in parts if isinstance(each, For)]
        if not loops or may_end_in(self.loop.body):
            return None
        first = loops[0]
        for each in loops:
            if (each.start, each.stop, each.step) != (first.start, first.stop, 1):
                return None
        bounds = [first.start, first.stop, self.loop.start, self.loop.stop]
        if not isinstance(self.loop.step, int):
            bounds.append(self.loop.step)
        if not all(map(self._stays, bounds)):
            return None
        known = {self.loop.slot}
        for one in parts:
            if isinstance(one, Set):
                if not self._reads(one.value, known, None):
                    return None
                known.add(one.slot)
            elif not isinstance(one, For) or not self._row(one, set(known)):
                return None
        return first if self._crossed else None

    def _stays(self, one: Expression) -> bool:
        """Whether an expression is the same in all iterations, and reads no element."""
        if isinstance(one, Operation):
            return all(map(self._stays, one.args))
        return isinstance(one, (Constant, Length)) or (
            isinstance(one, Get) and one.slot not in self._sets
        )

    def _row(self, loop: For, known: set[str]) -> bool:
        """Whether iterations of a loop over rows touch their own rows alone."""
        known.add(loop.slot)
        index = {loop.slot}
        for one in flat(loop.body):
            if isinstance(one, Set):
                if one.slot in known or not self._reads(one.value, known, index):
                    return False
                known.add(one.slot)
                if isinstance(one.value, Get) and one.value.slot in index:
                    index.add(one.slot)
            elif not isinstance(one, Store) or not (
                self._reads(one.value, known, index)
                and self._touches(one.array, one.indices, known, index)
            ):
                return False
        return True

    def _reads(self, one: Expression, known: set[str], index: set[str] | None) -> bool:
        """Whether an expression reads what the iteration has set, and elements of its own row."""
        if isinstance(one, Get):
            return one.slot in known or one.slot not in self._sets
        if isinstance(one, Operation):
            return all(self._reads(arg, known, index) for arg in one.args)
        if isinstance(one, Load):
            return self._touches(one.array, one.indices, known, index)
        return True

    def _touches(
        self, array: int, indices: Sequence[Expression], known: set[str], index: set[str] | None
    ) -> bool:
        """As `_reads`, of an element; notes whether rows lie apart in memory."""
        if not all(self._reads(each, known, index) for each in indices):
            return False
        own = [axis for axis, each in enumerate(indices)
               if isinstance(each, Get) and index is not None and each.slot in index]  # fmt: skip
        if array in self._written:
            if len(own) != 1 or self._axes.setdefault(array, own[0]) != own[0]:
                return False
        if len(indices) > 1 and own:
            if own[-1] == len(indices) - 1 or not self._by_rows(array):
                return False
            self._crossed = True
        return True


def flat(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield statements, and those of blocks that nothing leaves."""
    for one in body:
        if isinstance(one, Block) and not any(isinstance(e, Leave) for e in everything(one.body)):
            yield from flat(one.body)
        else:
            yield one


def _by_blocks(columns: For, rows: For) -> Statement:
    """A loop over columns by blocks of rows, where it is short: nobody sees memory in between."""
    start, stop = rows.start, rows.stop
    count = Operation("subtract", "int64", (stop, start))
    width = Operation("subtract", "int64", (columns.stop, columns.start))
    width = Operation("absolute", "int64", (width,))
    most = Constant("int64", SHORT)
    test: Expression = Operation("greater_equal", "bool", (count, Constant("int64", 1)))
    for each in (count, width, Operation("multiply", "int64", (count, width))):
        test = both(test, Operation("less_equal", "bool", (each, most)))
    left = Operation("remainder", "int64", (count, Constant("int64", ROWS)))
    end = Operation("subtract", "int64", (stop, left))
    ways = (
        _block(columns, rows, start, end, ROWS), _block(columns, rows, end, stop, 1)
    )  # fmt: skip
    return If(test, ways, (columns,))


def _block(columns: For, rows: For, start: Expression, stop: Expression, size: int) -> For:
    """A loop over blocks of so many rows, in which a loop over columns stands."""
    slot = f"rows of {rows.slot}"
    first = Get(slot, "int64")
    last = Operation("exact_add", "int64", (first, Constant("int64", size)))

    def within(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            changed(one, start=first, stop=last, short=True) if isinstance(one, For)
            else changed(one, body=within(one.body)) if isinstance(one, Block) else one
            for one in body
        )  # fmt: skip

    inside = changed(columns, body=within(columns.body), short=True)
    return For(slot, start, stop, size, (inside,), True)
