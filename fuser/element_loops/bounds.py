"""Indices that are looked at once before loops, and not in each of their iterations.

Indices are, mostly, sums of the loops' own and of numbers that stay the same. Where that holds of
all, and nothing else can end a run, the bounds of the loops tell before the first of them whether
each index lies within its axis: then the whole runs without looking at any, and cannot end early
(`versioned`). Else a loop over integers without loops in it is looked at alone (`hoisted`): its
first and last iteration tell. Where an index may be outside, loops run as they stand, and end
there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fuser.base.records import changed, record
from fuser.element_loops.code import (
    Block,
    Check,
    Constant,
    Expression,
    For,
    Get,
    If,
    Length,
    Load,
    Operation,
    Repeat,
    Set,
    Statement,
    Store,
    everything,
    may_end_in,
)
from fuser.element_loops.operators import FALSE, TRUE, both

_ZERO = Constant("int64", 0)
#: Operations of loop-invariant indices that have no effect.
_PURE = frozenset("add subtract multiply minimum maximum".split())
#: Indices that are looked at before one loop, at most.
_MOST = 24


@record
class _Linear:
    """`factor * index of the loop + rest`, where the rest stays the same."""

    factor: int
    rest: Expression


def hoisted(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements whose innermost loops look at indices before they begin."""
    return tuple(map(_statement, body))


def _statement(one: Statement) -> Statement:
    """One statement."""
    if isinstance(one, If):
        return changed(one, then=hoisted(one.then), other=hoisted(one.other))
    if isinstance(one, (Block, Repeat)):
        return changed(one, body=hoisted(one.body))
    if not isinstance(one, For):
        return one
    if any(isinstance(each, (For, Repeat)) for each in everything(one.body)):
        return changed(one, body=hoisted(one.body))
    return _Loop(one).hoisted()


class _Loop:
    """A loop without loops in it."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        sets = [each for each in everything(loop.body) if isinstance(each, Set)]
        self.assigned = {each.slot for each in sets}
        self.index = {loop.slot: _Linear(1, _ZERO)} | {
            each.slot: _Linear(1, _ZERO) for each in self._first(loop.body)
            if isinstance(each, Set) and each.value == Get(loop.slot, "int64")
            and sum(other.slot == each.slot for other in sets) == 1
        }  # fmt: skip
        self.conditions: dict[Expression, None] = {}
        for each in sets:  # temporaries are read after they are set, and set once
            linear = self._linear(each.value) if is_temporary(each.slot) else None
            if linear is not None and sum(other.slot == each.slot for other in sets) == 1:
                self.index[each.slot] = linear

    def _first(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The statements that an iteration begins with."""
        while body and isinstance(body[0], Block):
            body = body[0].body
        return body

    def hoisted(self) -> Statement:
        """The loop twice: without looking at indices where all are known to lie within."""
        body = tuple(map(self._statement, self.loop.body))
        if not self.conditions:
            return self.loop
        test: Expression = TRUE
        for condition in self.conditions:
            test = both(test, condition)
        return If(test, (changed(self.loop, body=body),), (self.loop,))

    def _statement(self, one: Statement) -> Statement:
        """A statement that looks at no index that has been looked at."""
        if isinstance(one, Set):
            return Set(one.slot, self._expression(one.value))
        if isinstance(one, Store):
            value = self._expression(one.value)
            found = self._indices(one.array, one.indices) if one.checked else None
            if found is None:
                return Store(one.array, self._each(one.indices), value, one.checked)
            return Store(one.array, found, value, False)
        if isinstance(one, Check):
            return Check(self._expression(one.test))
        if isinstance(one, If):
            ways = (tuple(map(self._statement, way)) for way in (one.then, one.other))
            return If(self._expression(one.test), *ways)
        if isinstance(one, Block):
            return changed(one, body=tuple(map(self._statement, one.body)))
        return one

    def _each(self, indices: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Indices that are looked at still, of which others may be part."""
        return tuple(map(self._expression, indices))

    def _expression(self, one: Expression) -> Expression:
        """As `_statement`."""
        if isinstance(one, Operation):
            args = self._each(one.args)
            return one if args == one.args else changed(one, args=args)
        if not isinstance(one, Load):
            return one
        found = self._indices(one.array, one.indices) if one.checked else None
        if found is None:
            return changed(one, indices=self._each(one.indices))
        return changed(one, indices=found, checked=False)

    def _indices(
        self, array: int, indices: tuple[Expression, ...]
    ) -> tuple[Expression, ...] | None:
        """Indices that need not be looked at, once conditions hold; None where some has to."""
        found: list[Expression] = []
        wanted: list[Expression] = []
        for axis, index in enumerate(indices):
            plain = _counted_from_the_start(index)
            linear = self._linear(plain)
            if linear is None:
                return None
            wanted += self._within(linear, Length(array, axis))
            found.append(plain)
        if len(self.conditions) + len(wanted) > _MOST:
            return None
        self.conditions.update(dict.fromkeys(wanted))
        return tuple(found)

    def _within(self, linear: _Linear, length: Expression) -> list[Expression]:
        """What has to hold for all values of an index to lie within an axis."""
        ends = [linear.rest]
        if linear.factor:
            loop = self.loop
            one = Constant("int64", 1 if loop.step > 0 else -1)
            if abs(loop.step) == 1 or linear.factor > 0:
                last: Expression = Operation("subtract", "int64", (loop.stop, one))
            else:
                last = loop.stop
            ends = [
                Operation("add", "int64", (linear.rest, end))
                if linear.factor > 0 else Operation("subtract", "int64", (linear.rest, end))
                for end in (loop.start, last)
            ]  # fmt: skip
        found: list[Expression] = []
        for end in ends:
            found.append(Operation("greater_equal", "bool", (end, _ZERO)))
            found.append(Operation("less", "bool", (end, length)))
        return found

    def _linear(self, index: Expression) -> _Linear | None:
        """An index as a multiple of the loop's, or the same in all iterations; else None."""
        if isinstance(index, Get) and index.slot in self.index:
            return self.index[index.slot]
        if self._is_same(index):
            return _Linear(0, index)
        if isinstance(index, Operation) and index.name in ("add", "subtract"):
            parts = [self._linear(arg) for arg in index.args]
            left, right = parts
            if left is None or right is None:
                return None
            sign = 1 if index.name == "add" else -1
            factor = left.factor + sign * right.factor
            if abs(factor) > 1:
                return None
            rest = Operation(index.name, "int64", (left.rest, right.rest))
            return _Linear(factor, rest)
        return None

    def _is_same(self, one: Expression) -> bool:
        """Whether an expression is the same in all iterations, and may be asked for before."""
        if isinstance(one, (Constant, Length)):
            return True
        if isinstance(one, Get):
            return one.slot not in self.assigned and one.slot != self.loop.slot
        if isinstance(one, Operation):
            return one.name in _PURE and all(map(self._is_same, one.args))
        return False


def _counted_from_the_start(index: Expression) -> Expression:
    """An index that may count from the end, where it does not."""
    if isinstance(index, Operation) and index.name == "select":
        test, end, plain = index.args
        below = Operation("less", "bool", (plain, _ZERO))
        if test == below and isinstance(end, Operation) and end.name == "add":
            return plain
    return index


def is_temporary(slot: str) -> bool:
    """Whether a variable is one of the translator's own."""
    return slot.isdigit()


# -- all loops at once ----------------------------------------------------------------------------

#: Of a sum of indices: how many terms it has, and how large a factor is, at most.
_TERMS, _FACTOR = 8, 64
#: Indices that are looked at before all loops, at most.
_MOST_OF_ALL = 64


@record
class _Sum:
    """`rest + factor * term + …`: terms are indices of loops, lengths and given numbers."""

    factors: tuple[tuple[Expression, int], ...]
    rest: int

    def plus(self, other: _Sum, sign: int = 1) -> _Sum | None:
        """The sum of two; None where it is too long."""
        found = dict(self.factors)
        for term, factor in other.factors:
            found[term] = found.get(term, 0) + sign * factor
        left = tuple((term, factor) for term, factor in found.items() if factor)
        if len(left) > _TERMS or any(abs(factor) > _FACTOR for _, factor in left):
            return None
        return _Sum(left, self.rest + sign * other.rest)

    def times(self, factor: int) -> _Sum | None:
        """A multiple."""
        if abs(factor) > _FACTOR:
            return None
        scaled = tuple((term, factor * each) for term, each in self.factors if factor)
        return _Sum((), factor * self.rest).plus(_Sum(scaled, 0))

    @property
    def code(self) -> Expression:
        """The sum as an expression; terms have 41 bits at most, or are lengths."""
        found: Expression = Constant("int64", self.rest)
        for term, factor in self.factors:
            one = Operation("multiply", "int64", (term, Constant("int64", factor)))
            found = Operation("add", "int64", (found, one))
        return found


def versioned(
    body: tuple[Statement, ...], numbers: Collection[str]
) -> tuple[tuple[Statement, ...], Expression]:
    """Statements twice: without looking at indices where what is known before all loops allows it.

    Args:
        body: the statements.
        numbers: the variables that hold given integers at the beginning.

    Returns:
        The statements, and a condition with which no run of them ends early.
    """
    whole = _Whole(numbers)
    whole.statements(body)
    if not whole.conditions or len(whole.conditions) > _MOST_OF_ALL:
        return hoisted(body), FALSE
    whole.is_complete = True  # indices in branches are looked at, unless this is known of others
    fast = whole.statements(body)
    test: Expression = TRUE
    for condition in whole.conditions:
        test = both(test, condition)
    sure = not may_end_in(fast)
    return (If(test, fast if sure else hoisted(fast), body),), test if sure else FALSE


class _Whole:
    """All statements of an element loop, in the order in which they run.

    Attributes:
        conditions: what has to hold for all indices that are looked at outside of branches.
        is_complete: no condition is added any more.
    """

    def __init__(self, numbers: Collection[str]) -> None:
        self.conditions: dict[Expression, None] = {}
        self.is_complete = False
        self._spans: dict[str, tuple[_Sum | None, _Sum | None]] = {}
        self._values = {name: _Sum(((Get(name, "int64"), 1),), 0) for name in numbers}
        self._branches = 0

    def statements(self, body: tuple[Statement, ...], again: bool = False) -> tuple[Any, ...]:
        """Statements that look at no index that is known to lie within.

        Args:
            body: the statements; what variables hold after them is not known.
            again: they may run several times.
        """
        gone = {each.slot for each in everything(body) if isinstance(each, Set)}
        known = {name: value for name, value in self._values.items() if name not in gone}
        if again:
            self._values = dict(known)
        found = tuple(map(self._statement, body))
        self._values = known
        return found

    def _statement(self, one: Statement) -> Statement:
        """One of them."""
        if isinstance(one, Set):
            value = self._expression(one.value)
            total = self._sum(one.value) if one.value.dtype == "int64" else None
            self._values.pop(one.slot, None)
            if total is not None:
                self._values[one.slot] = total
            return Set(one.slot, value)
        if isinstance(one, Store):
            indices = tuple(map(self._expression, one.indices))
            value = self._expression(one.value)
            if one.checked and self._is_within(one.array, one.indices):
                return Store(one.array, tuple(map(_counted_from_the_start, indices)), value, False)
            return Store(one.array, indices, value, one.checked)
        if isinstance(one, For):
            ends = self._expression(one.start), self._expression(one.stop)
            first, stop = self._sum(one.start), self._sum(one.stop)
            last = stop and stop.plus(_Sum((), 1 if one.step > 0 else -1), -1)
            self._spans.pop(one.slot, None)
            self._spans[one.slot] = (first, last) if one.step > 0 else (last, first)
            before = dict(self._values)
            self._values[one.slot] = _Sum(((Get(one.slot, "int64"), 1),), 0)
            body = self.statements(one.body, again=True)
            self._values = {name: before[name] for name in self._values if name in before}
            return changed(one, start=ends[0], stop=ends[1], body=body)
        if isinstance(one, If):
            test, before = self._expression(one.test), dict(self._values)
            self._branches += 1
            then = self.statements(one.then)
            left, self._values = self._values, before
            other = self.statements(one.other)
            self._values = {name: left[name] for name in self._values if name in left}
            self._branches -= 1
            return If(test, then, other)
        if isinstance(one, (Block, Repeat)):
            return changed(one, body=self.statements(one.body, isinstance(one, Repeat)))
        if isinstance(one, Check):
            return Check(self._expression(one.test))
        return one

    def _expression(self, one: Expression) -> Expression:
        """As `_statement`."""
        if isinstance(one, Operation):
            return changed(one, args=tuple(map(self._expression, one.args)))
        if not isinstance(one, Load):
            return one
        indices = tuple(map(self._expression, one.indices))
        if one.checked and self._is_within(one.array, one.indices):
            indices = tuple(map(_counted_from_the_start, indices))
            return changed(one, indices=indices, checked=False)
        return changed(one, indices=indices)

    def _is_within(self, array: int, indices: tuple[Expression, ...]) -> bool:
        """Whether indices lie within, once conditions hold; these are noted."""
        wanted: list[Expression] = []
        for axis, index in enumerate(indices):
            found = self._sum(_counted_from_the_start(index))
            least = None if found is None else self._extreme(found, 0)
            most = None if found is None else self._extreme(found, 1)
            if least is None or most is None:
                return False
            left = _Sum(((Length(array, axis), 1),), -1).plus(most, -1)
            if left is None:
                return False
            for each in (least, left):
                if each.factors or each.rest < 0:
                    wanted.append(Operation("greater_equal", "bool", (each.code, _ZERO)))
        if self.is_complete or self._branches:
            return self.is_complete and self.conditions.keys() >= set(wanted)
        self.conditions.update(dict.fromkeys(wanted))
        return True

    def _extreme(self, one: _Sum, which: int) -> _Sum | None:
        """The least (0) or the most (1) that a sum is in any iteration; it has no loop's index."""
        while True:
            loops = [pair for pair in one.factors if _slot(pair[0]) in self._spans]
            if not loops:
                return one
            order = list(self._spans)
            term, factor = max(loops, key=lambda pair: order.index(_slot(pair[0])))  # innermost
            end = self._spans[_slot(term)][which if factor > 0 else 1 - which]
            scaled = None if end is None else end.times(factor)
            rest = one.plus(_Sum(((term, factor),), 0), -1)
            if scaled is None or rest is None or (found := rest.plus(scaled)) is None:
                return None
            one = found

    def _sum(self, one: Expression) -> _Sum | None:
        """An expression as a sum; None where it is none."""
        if isinstance(one, Constant):
            return _Sum((), int(one.value)) if abs(one.value) < 2**40 else None
        if isinstance(one, Length):
            return _Sum(((one, 1),), 0)
        if isinstance(one, Get):
            return self._values.get(one.slot)
        if not isinstance(one, Operation) or one.name not in ("add", "subtract", "multiply"):
            return None
        left, right = map(self._sum, one.args)
        if left is None or right is None or one.dtype != "int64":
            return None
        if one.name != "multiply":
            return left.plus(right, 1 if one.name == "add" else -1)
        if left.factors and right.factors:
            return None
        return right.times(left.rest) if right.factors else left.times(right.rest)


def _slot(one: Expression) -> str:
    """The variable that an expression is; "" for others."""
    return one.slot if isinstance(one, Get) else ""
