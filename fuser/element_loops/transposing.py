"""Operands that inner loops go down the columns of, copied with their axes exchanged.

`for i in range(n): for k in range(m): c[i, :] += a[i, k] * a[:, k]` meets another cache line of `a`
at every step of its innermost loop, n times all of them. Where `a` is only read, and the loops
around go over all of its rows and columns, `transposed` has it copied first: copying an element
takes no longer than one turn of the loop over `k`. Innermost loops of elements of their own then
run in vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fuser.base.records import changed
from fuser.element_loops.code import (
    Array,
    Constant,
    Expression,
    For,
    Get,
    If,
    Length,
    Load,
    Operation,
    Set,
    Statement,
    Store,
    everything,
    has_loops,
    parts_of,
    with_bodies,
    with_expressions,
    with_parts,
)
from fuser.element_loops.operators import TRUE, both
from fuser.element_loops.sharing import stand_apart

_ZERO = Constant("int64", 0)


def transposed(
    body: tuple[Statement, ...], arrays: tuple[Array, ...]
) -> tuple[tuple[Statement, ...], tuple[Array, ...]]:
    """Statements that copy what they read down columns, and the arrays with those copies.

    Args:
        body: all statements.
        arrays: what they read and write.
    """
    found = _Copies(body, arrays)
    made = found.statements(body)
    return made, (*arrays, *found.copies.values())


class _Copies:
    """Finds what is read down columns.

    Attributes:
        copies: what is copied, by the operands' numbers.
    """

    def __init__(self, body: tuple[Statement, ...], arrays: tuple[Array, ...]) -> None:
        self.copies: dict[int, Array] = {}
        self._asked: dict[Expression, None] = {}
        self._read: dict[int, None] = {}
        self._arrays = arrays
        whole = list(everything(body))
        self._written = {each.array for each in whole if isinstance(each, Store)}
        times = Counter(each.slot for each in whole if isinstance(each, (Set, For)))
        self._same = {
            each.slot: each.value.slot for each in whole
            if isinstance(each, Set) and isinstance(each.value, Get) and times[each.slot] == 1
        }  # fmt: skip

    def statements(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Statements, with copies made before the loops that read them."""
        found: list[Statement] = []
        for one in body:
            self._asked, self._read = {}, {}
            made = one
            if isinstance(one, For) and _goes_over(one) is not None:
                made = changed(one, body=self._within(one.body, (one,)))
            if not self._read:
                found.append(with_bodies(one, self.statements) if has_loops((one,)) else one)
                continue
            ways = *map(self._copy, self._read), made
            test: Expression = TRUE
            for each in self._asked:
                test = both(test, each)
            found += ways if test == TRUE else [If(test, ways, (one,))]
        return tuple(found)

    def _within(
        self, body: tuple[Statement, ...], around: tuple[For, ...]
    ) -> tuple[Statement, ...]:
        """Statements in loops."""
        found: list[Statement] = []
        for one in body:
            if isinstance(one, For) and not has_loops(one.body):
                found.append(self._innermost(one, around))
            elif isinstance(one, For):
                found.append(changed(one, body=self._within(one.body, (*around, one))))
            elif isinstance(one, If) or has_loops((one,)):
                found.append(with_bodies(one, lambda inside: self._within(inside, around)))
            else:
                found.append(one)
        return tuple(found)

    def _innermost(self, loop: For, around: Sequence[For]) -> For:
        """A loop that reads copies where it goes down columns."""
        if len(around) < 2 or not stand_apart(loop):
            return loop
        sets = {each.slot for each in everything(loop.body) if isinstance(each, Set)} | {loop.slot}

        def of(one: Expression) -> Expression:
            if not isinstance(one, Load):
                return with_parts(one, of)
            if not self._is_column(one, sets, around):
                return one
            if one.array not in self.copies:
                known = self._arrays[one.array]
                name = f"{known.name} transposed"
                within = (one.array, 1), (one.array, 0)
                self.copies[one.array] = Array(name, known.dtype, 2, True, within)
            self._read[one.array] = None
            place = len(self._arrays) + list(self.copies).index(one.array)
            return changed(one, array=place, indices=one.indices[::-1])

        def statement(one: Statement) -> Statement:
            return with_expressions(with_bodies(one, lambda b: tuple(map(statement, b))), of)

        return changed(loop, body=tuple(map(statement, loop.body)))

    def _is_column(self, one: Load, sets: set[str], around: Sequence[For]) -> bool:
        """Whether an element is one of a column, which loops around go over all of."""
        known = self._arrays[one.array]
        if known.rank != 2 or known.within or one.array in self._written or one.checked:
            return False
        row, column = one.indices
        slots = {part.slot for part in parts_of(row) if isinstance(part, Get)}
        if not slots & sets or not isinstance(column, Get):
            return False
        if any(isinstance(part, Load) for part in parts_of(row)):
            return False
        for loop in around[1:]:
            if _goes_over(loop) and self._same.get(column.slot) == loop.slot:
                for axis, each in enumerate((around[0], loop)):
                    lengths = Length(one.array, axis), each.stop
                    if lengths[0] != lengths[1]:
                        self._asked[Operation("equal", "bool", lengths)] = None
                return True
        return False

    def _copy(self, array: int) -> For:
        """The loops that copy an operand."""
        place = len(self._arrays) + list(self.copies).index(array)
        row, column = (Get(f"{axis} of {array}", "int64") for axis in ("row", "column"))
        value = Load(array, (row, column), self._arrays[array].dtype, False)
        inside = Store(place, (column, row), value, False)
        columns = For(column.slot, _ZERO, Length(array, 1), 1, (inside,))
        return For(row.slot, _ZERO, Length(array, 0), 1, (columns,))


def _goes_over(loop: For) -> Length | None:
    """The axis of which a loop goes over all places; None for others."""
    whole = loop.start == _ZERO and loop.step == 1
    return loop.stop if whole and isinstance(loop.stop, Length) else None
