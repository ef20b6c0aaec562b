"""Indices that are looked at once before a loop, and not in each of its iterations.

A loop over integers without loops in it has its indices, mostly, at a fixed distance from the
loop's own: then its first and last iteration tell whether all lie within their axes. Where they do,
the loop runs without looking at them; else as it stands, and ends where the first index is outside.
"""

from __future__ import annotations

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
)
from fuser.element_loops.operators import TRUE, both

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
        self.index = {loop.slot} | {
            each.slot for each in self._first(loop.body) if isinstance(each, Set)
            and each.value == Get(loop.slot, "int64")
            and sum(other.slot == each.slot for other in sets) == 1
        }  # fmt: skip
        self.conditions: dict[Expression, None] = {}

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
            return _Linear(1, _ZERO)
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


