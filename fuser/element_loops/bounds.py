"""Indices that are looked at once before all loops, and not in each of their iterations.

What the statements before an index say of it is gone through in their order (`_Whole`): bounds of
loops, conditions, what iterations keep to. Where it lies within its axis if lengths and given
numbers are so and so, that is asked before all loops; where it holds, the whole runs without
looking at such indices, and, if nothing else can end it, cannot end early (`versioned`). Where an
index may be outside, loops run as they stand, and end there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from fuser.base.records import changed, record
from fuser.element_loops.code import (
    SHORT,
    Apart,
    Array,
    Block,
    Check,
    Constant,
    Expression,
    For,
    Fresh,
    Get,
    If,
    Leave,
    Length,
    Load,
    Operation,
    Point,
    Repeat,
    Set,
    Statement,
    Store,
    everything,
    has_loops,
    may_end_in,
    parts_of,
)
from fuser.element_loops.facts import ZERO, Facts, State, Sum, Terms
from fuser.element_loops.kinds import GIVEN, limits
from fuser.element_loops.operators import FALSE, TRUE, both

_ZERO = Constant("int64", 0)


def _shortened(body: tuple[Statement, ...], within: bool = False) -> tuple[Statement, ...]:
    """Statements whose innermost loops are found to be short before they begin.

    Args:
        body: the statements.
        within: they stand in a loop.
    """
    return tuple(_statement(each, within) for each in body)


def _statement(one: Statement, within: bool) -> Statement:
    """One statement."""
    if isinstance(one, If):
        return changed(one, then=_shortened(one.then, within), other=_shortened(one.other, within))
    if isinstance(one, (Block, Repeat)):
        return changed(one, body=_shortened(one.body, within or isinstance(one, Repeat)))
    if not isinstance(one, For):
        return one
    if has_loops(one.body):
        return changed(one, body=_shortened(one.body, True))
    if one.short or not within or not isinstance(one.step, int):
        return one
    ends = (one.stop, one.start) if one.step > 0 else (one.start, one.stop)
    most = Operation("subtract", "int64", ends), Constant("int64", SHORT)
    return If(Operation("less_equal", "bool", most), (changed(one, short=True),), (one,))


def _counted_from_the_start(index: Expression) -> Expression:
    """An index that may count from the end, where it does not."""
    if isinstance(index, Operation) and index.name == "select":
        test, end, plain = index.args
        below = Operation("less", "bool", (plain, _ZERO))
        if test == below and isinstance(end, Operation) and end.name == "exact_add":
            return plain
    return index


def is_temporary(slot: str) -> bool:
    """Whether a variable is one of the translator's own."""
    return slot.isdigit()


# -- all loops at once ----------------------------------------------------------------------------

#: Conditions that are asked before all loops, looks at one loop, and variables of it, at most.
_MOST_OF_ALL, _LOOKS, _VARIABLES = 160, 8, 12
#: A length, or a given number that loops change, that is no condition; factors of terms in one.
_LARGE, _FACTOR = 2**31, 64
#: How often the whole is gone through, each time with the conditions of the time before.
_TIMES = 3
_OPPOSITE = {
    "less": "greater_equal", "less_equal": "greater", "equal": "not_equal",
    "not_equal": "equal", "greater": "less_equal", "greater_equal": "less",
}  # fmt: skip
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less",
             "greater_equal": "less_equal", "equal": "equal", "not_equal": "not_equal"}  # fmt: skip
#: Between which integers an expression of a dtype that int64 holds lies.
_NARROW = frozenset("bool int8 int16 int32 uint8 uint16 uint32".split())


def versioned(
    body: tuple[Statement, ...], numbers: Collection[str], arrays: Sequence[Array]
) -> tuple[tuple[Statement, ...], Expression]:
    """Statements twice: without looking at indices where what is known before all loops allows it.

    Args:
        body: the statements.
        numbers: the variables that hold given integers at the beginning.
        arrays: what it reads and writes.

    Returns:
        The statements, and a condition with which no run of them ends early.
    """
    conditions: dict[Sum, Expression] = {}
    for _ in range(_TIMES):
        whole, count = _Whole(numbers, arrays, conditions), len(conditions)
        fast = whole.statements(body)
        conditions = whole.conditions
        if len(conditions) == count:
            break
    if len(conditions) > _MOST_OF_ALL:
        return _shortened(body), FALSE
    test: Expression = TRUE
    for condition in conditions.values():
        test = both(test, condition)
    sure = not may_end_in(fast)
    fast = fast if sure else _shortened(fast)
    return (fast if test == TRUE else (If(test, fast, body),)), test if sure else FALSE


@record
class _Kept:
    """Something that iterations of a loop may keep to.

    Attributes:
        kind: of what; `least` and `most`: a number, `low` and `high`: what the variable is at the
            beginning, `below` and `above`: a sum that stays, `up` and `down`: what it was at the
            beginning and one more in each iteration, `order`: another variable.
        name: the variable.
        other: the number or variable, or an expression and what is added to it.
    """

    kind: str
    name: str
    other: Any = None


class _Whole:
    """All statements of an element loop, in the order in which they run.

    Attributes:
        conditions: what has to hold before all of them, as sums that are not negative.
    """

    def __init__(
        self, numbers: Collection[str], arrays: Sequence[Array], conditions: dict[Sum, Expression]
    ) -> None:  # fmt: skip
        """Begin with given integers, and conditions that hold."""
        self.terms = Terms()
        self.state: State | None = State({}, (), {})
        self.conditions = dict(conditions)
        self._arrays = arrays
        self._lengths: dict[tuple[int, int], Sum] = {}
        for name in sorted(numbers):
            made = self.terms.new(-GIVEN, GIVEN, Get(name, "int64"))
            self.state.values[name] = made
        for place, array in enumerate(arrays):
            for axis in range(array.rank):
                self._length(Length(place, axis))
        self.state.learn(conditions)
        self._exits: dict[int, list[State]] = {}
        self._kept: dict[int, list[_Kept]] = {}
        self._sets: dict[int, tuple[list[str], list[str]]] = {}
        self._squares: dict[int, Sum] = {}
        self._depth = 0

    def _at_end(self) -> State | None:
        """The state after statements, where their end is reached."""
        return self.state

    @property
    def _now(self) -> State:
        """The state, where statements are reached."""
        assert self.state is not None
        return self.state

    def _length(self, one: Length) -> Sum:
        """A length; scratch memory is as long as an operand's axis."""
        within = self._arrays[one.array].within
        pair = within[one.axis] if within else (one.array, one.axis)
        if pair not in self._lengths:
            self._lengths[pair] = self.terms.new(0, GIVEN, Length(*pair))
        return self._lengths[pair]

    def _oldest(self, one: Expression) -> Expression:
        """The first length that is known to be as long, so that loops of equal ranges tell."""
        if not isinstance(one, Length):
            return one
        for pair, other in self._lengths.items():
            gap = self._length(one).plus(other, -1)
            if all(self.terms.follows(gap.times(sign), self._now) for sign in (1, -1)):
                return Length(*pair)
        return one

    # -- statements -----------------------------------------------------------------------------

    def statements(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Statements that look at no index that is known to lie within."""
        found: list[Statement] = []
        for each in body:
            one = each if self.state is None else self._statement(each)
            if isinstance(one, If) and isinstance(one.test, Constant):
                found += one.then if one.test.value else one.other
            elif one != Check(TRUE):
                found.append(one)
        return tuple(found)

    def _statement(self, one: Statement) -> Statement:
        """One of them."""
        if isinstance(one, (Point, Fresh, Apart)):
            return one
        if isinstance(one, Set):
            value = self._expression(one.value)
            if one.value.dtype == "int64":
                self._now.values[one.slot] = self._sum(one.value)
            elif one.value.dtype == "bool":
                self._now.truths[one.slot] = self._case(one.value, True), self._case(
                    one.value, False
                )
            return Set(one.slot, value)
        if isinstance(one, Store):
            indices, checked = self._indices(one)
            return Store(one.array, indices, self._expression(one.value), checked)
        if isinstance(one, Check):
            if self._asked_for(one.test):
                return Check(TRUE)
            test = self._expression(one.test)
            self._assume(one.test, True)
            return Check(test)
        if isinstance(one, If):
            return self._if(one)
        if isinstance(one, Block):
            self._exits[one.label] = []
            body = self.statements(one.body)
            ends = self._exits.pop(one.label)
            if self.state is not None:
                ends.append(self.state)
            self.state = self.terms.joined(ends)
            return changed(one, body=body)
        if isinstance(one, Leave):
            self._exits[one.label].append(self._now)
            self.state = None
            return one
        return self._for(one) if isinstance(one, For) else self._repeat(one)

    def _if(self, one: If) -> If:
        """Two branches, of which one may be known to be taken."""
        for holds, body in ((True, one.then), (False, one.other)):
            if self._holds(one.test, holds):
                self._assume(one.test, holds)
                way = self.statements(body)
                return If(Constant("bool", holds), way, way)
        test, before = self._expression(one.test), self._now
        ends, ways = [], []
        for holds, body in ((True, one.then), (False, one.other)):
            self.state = before.copy()
            self._assume(one.test, holds)
            ways.append(self.statements(body))
            if self.state is not None:
                ends.append(self.state)
        self.state = self.terms.joined(ends)
        return If(test, *ways)

    # -- loops ----------------------------------------------------------------------------------

    def _for(self, one: For) -> For:
        """A loop over integers."""
        start, stop = self._expression(one.start), self._expression(self._oldest(one.stop))
        step = one.step if isinstance(one.step, int) else self._expression(one.step)
        first, end = self._sum(one.start), self._sum(one.stop)
        sign = -1 if isinstance(one.step, int) and one.step < 0 else 1
        entry = self._now
        pace = sign if one.step == sign else None

        def begin(state: State) -> Sum:
            index = self.terms.new(-(2**62), 2**62)
            ahead = index.plus(first, -1).times(sign)
            state.learn((ahead, end.plus(index, -1).times(sign).more(-1)))
            state.values[one.slot] = index
            return ahead

        gone = end.plus(first, -1).times(sign)
        short = self._depth > 0 and not has_loops(one.body)
        short = short and self._asked(gone.times(-1).more(SHORT))
        body, kept = self._iterations(one, begin, pace)
        state = entry.copy()
        if not self.terms.follows(gone, entry):
            least, gone = gone, self.terms.new(0, 2**63 - 1)
            state.learn((gone, gone.plus(least, -1)))
        self._at_head(one, state, kept, entry, gone)
        state.values.pop(one.slot, None)
        self.state = state
        return changed(one, start=start, stop=stop, step=step, body=body, short=short)

    def _repeat(self, one: Repeat) -> Repeat:
        """A loop that a `Leave` ends."""
        body, _ = self._iterations(one, lambda state: None, None)
        self.state = None
        return changed(one, body=body)

    def _iterations(
        self, one: For | Repeat, begin: Callable[[State], Sum | None], pace: int | None
    ) -> tuple[tuple[Statement, ...], list[_Kept]]:
        """The body of a loop, and what its iterations keep to.

        Args:
            one: the loop.
            begin: adds what is known of its index; gives how far that is from the first.
            pace: its step, if that is 1 or -1.
        """
        entry = self._now
        kept = self._kept.get(id(one))
        if kept is None:
            kept = self._supposed(one, entry, pace)
        zero = ZERO if pace else None
        kept = [each for each in kept if self._begins_with(each, entry, zero)]
        marks = {label: len(states) for label, states in self._exits.items()}
        asked = len(self.conditions)
        for look in range(_LOOKS):
            for label, count in marks.items():
                del self._exits[label][count:]
            for condition in list(self.conditions)[asked:]:
                del self.conditions[condition]
            state = entry.copy()
            count_now = begin(state)
            self._at_head(one, state, kept, entry, count_now if pace else None)
            self.state = state
            self._depth += 1
            body = self.statements(one.body)
            self._depth -= 1
            end = self._at_end()
            if end is None:
                break
            after = count_now.more(1) if count_now is not None and pace else None
            left = [each for each in kept if self._keeps(each, end, entry, after)]
            if len(left) == len(kept):
                break
            kept = left if look < _LOOKS - 2 else []
        self._kept[id(one)] = kept
        return body, kept

    def _changed_in(self, one: For | Repeat) -> tuple[list[str], list[str]]:
        """The integers, and the truth values, that a loop sets."""
        if id(one) not in self._sets:
            sets = [each for each in everything(one.body) if isinstance(each, Set)]
            numbers, truths = (
                list(dict.fromkeys(each.slot for each in sets if each.value.dtype == dtype))
                for dtype in ("int64", "bool")
            )
            self._sets[id(one)] = numbers, truths
        return self._sets[id(one)]

    def _at_head(
        self, one: For | Repeat, state: State, kept: Sequence[_Kept], entry: State,
        count: Sum | None,
    ) -> None:  # fmt: skip
        """Have variables hold what they may at the beginning of any iteration."""
        numbers, truths = self._changed_in(one)
        for name in truths:
            state.truths.pop(name, None)
        for name in numbers:
            if state.values.pop(name, None) is not None and not is_temporary(name):
                state.values[name] = self.terms.new()
        for each in kept:
            found = self._said(each, state, entry, count)
            if found is not None:
                state.learn((found,))

    def _supposed(self, one: For | Repeat, entry: State, pace: int | None) -> list[_Kept]:
        """What the iterations of a loop may keep to."""
        changes = self._changed_in(one)[0]
        names = [n for n in changes if n in entry.values and not is_temporary(n)][:_VARIABLES]
        found: dict[_Kept, None] = {}
        for name in names:
            found.update(dict.fromkeys(_Kept(kind, name) for kind in ("low", "high")))
            found.update((_Kept("least", name, number), None) for number in (-1, 0, 1, -_LARGE))
            found[_Kept("most", name, _LARGE)] = None
            if pace:
                found.update(dict.fromkeys(_Kept(kind, name) for kind in ("up", "down")))
        for name, left, right in _comparisons(one.body):
            if not isinstance(left, Get) or left.slot not in names or len(found) > 96:
                continue
            if isinstance(right, Get) and right.slot in names:
                if name.startswith("less"):
                    found[_Kept("order", left.slot, right.slot)] = None
            elif self._same(right, entry, changes) is not None:
                slack = {"less_equal": 1, "greater_equal": -1}.get(name, 0)
                ways = ["above" if name.startswith("greater") else "below"]
                ways = ["below", "above"] if name == "not_equal" else ways
                found.update((_Kept(kind, left.slot, (right, slack)), None) for kind in ways)
        return list(found)

    def _begins_with(self, one: _Kept, entry: State, count: Sum | None) -> bool:
        """Whether the first iteration keeps to something; of given numbers that may be asked."""
        if self._keeps(one, entry, entry, count):
            return True
        said = self._said(one, entry, entry, count)
        if said is None or one not in (
            _Kept("least", one.name, -_LARGE), _Kept("most", one.name, _LARGE)
        ):  # fmt: skip
            return False
        given = (self.terms.codes.get(term) for term, _ in said.factors)
        return all(isinstance(code, Get) for code in given) and self._asked(said)

    def _keeps(self, one: _Kept, state: State, entry: State, count: Sum | None) -> bool:
        """Whether a state keeps to something."""
        said = self._said(one, state, entry, count)
        return said is not None and self.terms.follows(said, state)

    def _said(self, one: _Kept, state: State, entry: State, count: Sum | None) -> Sum | None:
        """What something says, as a sum that is not negative; None where nothing is known."""
        value, first = state.values.get(one.name), entry.values.get(one.name)
        if value is None or first is None:
            return None
        if one.kind in ("up", "down") and count is None:
            return None
        minus = value.times(-1)
        if one.kind == "low":
            return value.plus(first, -1)
        if one.kind == "high":
            return first.plus(minus)
        if one.kind == "least":
            return value.more(-one.other)
        if one.kind == "most":
            return minus.more(one.other)
        if one.kind == "up":
            assert count is not None
            return first.plus(count).plus(minus)
        if one.kind == "down":
            assert count is not None
            return value.plus(first, -1).plus(count)
        if one.kind == "order":
            other = state.values.get(one.other)
            return None if other is None else other.plus(minus)
        end = self._same(one.other[0], entry, ())
        if end is None:
            return None
        end = end.more(one.other[1])
        return end.plus(minus) if one.kind == "below" else value.plus(end, -1)

    def _same(self, one: Expression, state: State, changes: Sequence[str]) -> Sum | None:
        """An expression that a loop does not change, as a sum; None for others."""
        if isinstance(one, Constant):
            return Sum((), int(one.value))
        if isinstance(one, Length):
            return self._length(one)
        if isinstance(one, Get):
            return None if one.slot in changes else state.values.get(one.slot)
        if not isinstance(one, Operation) or _plain(one.name) not in ("add", "subtract"):
            return None
        left, right = (self._same(arg, state, changes) for arg in one.args)
        if left is None or right is None:
            return None
        return left.plus(right, 1 if _plain(one.name) == "add" else -1)

    # -- expressions ----------------------------------------------------------------------------

    def _indices(self, one: Load | Store) -> tuple[tuple[Expression, ...], bool]:
        """The indices of an element, and whether they are still to be looked at."""
        indices = tuple(map(self._expression, one.indices))
        if not one.checked:
            return indices, False
        plain = []
        for axis, (index, old) in enumerate(zip(indices, one.indices, strict=True)):
            end = self._length(Length(one.array, axis))
            start = _counted_from_the_start(old)
            first = self._sum(start)
            if self._asked(first, end.plus(first, -1).more(-1)):
                plain.append(_counted_from_the_start(index))
            elif start is old or not self._asked(first.plus(end), end.plus(first, -1).more(-1)):
                return indices, True
            else:
                plain.append(index)
        return tuple(plain), False

    def _asked(self, *goals: Sum) -> bool:
        """Whether sums are not negative, once conditions hold before all loops, which are noted."""
        wanted: dict[Sum, Expression] = {}
        for goal in goals:
            if self.terms.follows(goal, self._now, True):
                continue
            left = self.terms.left
            if left is None or len(self.conditions) + len(wanted) > _MOST_OF_ALL:
                return False
            if left.rest < -_LARGE or any(abs(f) > _FACTOR for _, f in left.factors):
                return False
            codes = [self.terms.codes[term] for term, _ in left.factors]
            if left.rest < SHORT and all(f < 0 for _, f in left.factors) and all(
                isinstance(code, Length) for code in codes
            ):  # arrays so short that their loops are nothing
                return False
            if left not in self.conditions:
                wanted[left] = Operation("greater_equal", "bool", (self._code(left), _ZERO))
        self.conditions.update(wanted)
        self._now.learn(wanted)
        return True

    def _asked_for(self, test: Expression) -> bool:
        """As `_asked`, for a condition that has to hold."""
        if self._holds(test, True):
            return True
        if not isinstance(test, Operation) or test.name == "not_equal" or self._gap(test) is None:
            return False
        return self._asked(*(self._facts_if(test, True) or ()))

    def _code(self, one: Sum) -> Expression:
        """A sum of what is known before all loops; terms have 41 bits at most."""
        found: Expression = Constant("int64", one.rest)
        for term, factor in one.factors:
            times = Constant("int64", factor)
            part = Operation("multiply", "int64", (self.terms.codes[term], times))
            found = Operation("add", "int64", (found, part))
        return found

    def _expression(self, one: Expression) -> Expression:
        """An expression that looks at nothing that is known."""
        if isinstance(one, Load):
            indices, checked = self._indices(one)
            return changed(one, indices=indices, checked=checked)
        if not isinstance(one, Operation):
            return one
        if one.name == "select":
            for holds, way in ((False, one.args[2]), (True, one.args[1])):  # most are `i < 0`
                if self._holds(one.args[0], holds):
                    return self._expression(way)
        args = tuple(map(self._expression, one.args))
        name = one.name
        if one.dtype == "int64":
            plain = _plain(name)
            if plain in _EXACT:
                if not name.startswith("exact_") and self._fits(one):
                    name = f"exact_{plain}" if plain in _SUMS else plain
            elif plain in ("floor_divide", "remainder") and not isinstance(args[1], Constant):
                found = self._divided(one, plain, args)
                if found is not None:
                    return found
            elif plain in ("minimum", "maximum"):
                sums = [self._sum(arg) for arg in one.args]
                made = self._extreme(1 if plain == "minimum" else -1, *sums)
                if made in sums:
                    return args[sums.index(made)]
        return one if (name, args) == (one.name, one.args) else changed(one, name=name, args=args)

    def _fits(self, one: Operation) -> bool:
        """Whether what an operation gives has 64 bits, with no more said."""
        return self.terms.fits(self._made(one, [self._sum(arg) for arg in one.args]), self._now)

    def _divided(
        self, one: Operation, name: str, args: tuple[Expression, ...]
    ) -> Expression | None:
        """A quotient by a positive number, or what is left; None where it may be another."""
        x, divisor = (self._sum(arg) for arg in one.args)
        if not self._asked(divisor.more(-1)):
            return None
        near = name == "remainder" and self.terms.follows(x.plus(divisor), self._now)
        if near and self.terms.follows(divisor.times(2).plus(x, -1).more(-1), self._now):
            below = Operation("less", "bool", (args[0], _ZERO))
            beyond = Operation("greater_equal", "bool", args)
            above = Operation("select", "int64", (
                beyond, Operation("subtract", "int64", args), args[0]
            ))  # fmt: skip
            return Operation("select", "int64", (below, Operation("add", "int64", args), above))
        return Operation(f"positive_{name}", "int64", args)

    def _sum(self, one: Expression) -> Sum:
        """An expression of int64 as a sum, of which facts are noted."""
        if isinstance(one, Constant):
            return Sum((), int(one.value))
        if isinstance(one, Length):
            return self._length(one)
        if isinstance(one, Get):
            found = self._now.values.get(one.slot) if one.dtype == "int64" else None
            if found is None:
                found = self.terms.new(*limits(one.dtype))
                if one.dtype == "int64":
                    self._now.values[one.slot] = found
            return found
        if isinstance(one, Load):
            return self.terms.new(*limits(one.dtype))
        if one.dtype != "int64" and one.dtype not in _NARROW:
            return self.terms.new()
        if one.name in ("convert", "checked_convert"):
            (inner,) = one.args
            within = one.dtype == "int64" and (inner.dtype in _NARROW or inner.dtype == "int64")
            return self._sum(inner) if within else self.terms.new(*limits(one.dtype))
        if one.dtype != "int64":
            return self.terms.new(*limits(one.dtype))
        if one.name == "select":
            return self._chosen(one)
        args = [self._sum(arg) for arg in one.args if arg.dtype == "int64"]
        if len(args) < len(one.args):
            return self.terms.new()
        found = self._made(one, args)
        exact = one.name.startswith(("checked_", "exact_"))
        if _plain(one.name) not in _EXACT or exact or self.terms.fits(found, self._now):
            return found if found.is_short else self.terms.new()
        return self.terms.new()

    def _made(self, one: Operation, args: Sequence[Sum]) -> Sum:
        """What an operation on integers gives, were they as large as they like."""
        name, (x, *rest) = _plain(one.name).removeprefix("positive_"), args
        if name == "negative":
            return x.times(-1)
        if name in ("add", "subtract"):
            return x.plus(rest[0], 1 if name == "add" else -1)
        if name == "multiply":
            return self._product(x, rest[0])
        follows, now, new = self.terms.follows, self._now, self.terms.new()
        if name in ("floor_divide", "right_shift") and not rest[0].factors:
            divisor = rest[0].rest if name == "floor_divide" else 1 << max(0, min(rest[0].rest, 62))
            if divisor > 0:
                back = x.plus(new.times(divisor), -1)
                now.learn((back, back.times(-1).more(divisor - 1)))
        elif name == "remainder":
            if follows(rest[0].more(-1), now):
                now.learn((new, rest[0].plus(new, -1).more(-1)))
                if follows(x, now):
                    now.learn((x.plus(new, -1),))
        elif name == "floor_divide":
            if follows(rest[0].more(-1), now) and follows(x, now):
                now.learn((new, x.plus(new, -1)))
        elif name == "bitwise_and":
            least = [each for each in args if follows(each, now)]
            now.learn(each.plus(new, -1) for each in least)
            now.learn((new,) if least else ())
        elif name in ("minimum", "maximum"):
            return self._extreme(1 if name == "minimum" else -1, x, rest[0])
        elif name == "absolute":
            now.learn((new, new.plus(x), new.plus(x, -1)))
        return new

    def _product(self, x: Sum, y: Sum) -> Sum:
        """A product."""
        if not x.factors or not y.factors:
            return y.times(x.rest) if not x.factors else x.times(y.rest)
        near = [self._bits(each) for each in (x, y)]
        if sum(near) > 62:
            new = self.terms.new(-(2**127), 2**127)
        else:
            new = self.terms.new(-(2 ** sum(near)), 2 ** sum(near))
        now, follows = self._now, self.terms.follows
        if x == y:
            now.learn((new, new.plus(x), new.plus(x, -1)))
            self._squares[new.factors[0][0]] = x
        elif follows(x, now) and follows(y, now):
            now.learn((new,))
        return new

    def _bits(self, one: Sum) -> int:
        """How many bits a number has, roughly, without its sign."""
        for bits in (21, 31, 41):
            most = one.times(-1).more(2**bits), one.more(2**bits)
            if all(self.terms.follows(each, self._now) for each in most):
                return bits
        return 64

    def _extreme(self, sign: int, x: Sum, y: Sum) -> Sum:
        """The smaller (1) or the larger (-1) of two; that a length is no small number is asked."""
        follows, now = self.terms.follows, self._now
        ways = ((y.plus(x, -1).times(sign), x), (x.plus(y, -1).times(sign), y))
        for gap, found in ways:
            if follows(gap, now):
                return found
        for gap, found in ways:
            if self._is_usual(gap) and self._asked(gap):
                return found
        new = self.terms.new()
        now.learn((x.plus(new, -1).times(sign), y.plus(new, -1).times(sign)))
        if sign == 1 and follows(x, now) and follows(y, now):
            now.learn((new,))
        return new

    def _is_usual(self, one: Sum) -> bool:
        """Whether that a sum is not negative says what it does of most calls.

        That is that a length, or a given number, is at least a small one; or that a given number
        is at most a length, but for a small number.
        """
        codes = [self.terms.codes.get(term) for term, _ in one.factors]
        known = [(type(code), factor) for code, (_, factor) in
                 zip(codes, one.factors, strict=True)]  # fmt: skip
        if len(known) == 1:
            return known[0][0] in (Length, Get) and known[0][1] == 1 and -_FACTOR <= one.rest <= 0
        return sorted(known, key=lambda each: -each[1]) == [(Length, 1), (Get, -1)] and (
            abs(one.rest) <= _FACTOR
        )

    def _chosen(self, one: Operation) -> Sum:
        """One of two."""
        test, then, other = one.args
        for holds, way in ((False, other), (True, then)):  # most are `i < 0`
            if self._holds(test, holds):
                return self._sum(way)
        if isinstance(test, Operation) and test.name == "less" and test.args[1] == _ZERO:
            below = self._sum(test.args[0])  # most numbers that are given are not negative
            for gap, way in ((below, other), (below.times(-1).more(-1), then)):
                if self._is_usual(gap) and self._asked(gap):
                    return self._sum(way)
        before, found = self._now, []
        slots = [part.slot for part in parts_of(one) if isinstance(part, Get)]
        asked = one, tuple(before.values.get(slot) for slot in slots)
        if asked in before.chosen:  # many indices of a statement are one
            return before.chosen[asked]
        for holds, way in ((True, then), (False, other)):
            self.state = before.copy()
            self._assume(test, holds)
            found.append((self._sum(way), self.state))
        self.state = before
        made = before.chosen[asked] = self.terms.between(found, before)
        return made

    # -- conditions -----------------------------------------------------------------------------

    def _assume(self, test: Expression, holds: bool) -> None:
        """Note that a condition holds, or does not."""
        facts = self._facts_if(test, holds) or ()
        self._now.learn(facts)
        for fact in facts:
            for term, factor in fact.factors:
                if factor < 0 and term in self._squares:
                    self._bound_root(term)

    def _bound_root(self, term: int) -> None:
        """Bound what a bounded number is the square of."""
        square, root = Sum(((term, 1),), 0), self._squares[term]
        for bits in (21, 31):
            if self.terms.follows(square.times(-1).more(4**bits - 1), self._now):
                self._now.learn((root.more(2**bits), root.times(-1).more(2**bits)))
                return

    def _facts_if(self, test: Expression, holds: bool) -> Facts | None:
        """What is known where a condition holds, or does not; None where that cannot be."""
        if isinstance(test, Constant):
            return () if bool(test.value) == holds else None
        if isinstance(test, Get):
            found = self._now.truths.get(test.slot)
            return () if found is None else found[0 if holds else 1]
        if not isinstance(test, Operation):
            return ()
        if test.name == "logical_not":
            return self._facts_if(test.args[0], not holds)
        if test.name == ("bitwise_and" if holds else "bitwise_or"):
            parts = [self._facts_if(each, holds) for each in test.args]
            return None if None in parts else tuple(f for part in parts for f in part or ())
        gap = self._gap(test)
        if gap is None:
            return ()
        name = test.name if holds else _OPPOSITE[test.name]
        if name == "not_equal":
            return tuple(
                each.more(-1) for each in (gap, gap.times(-1))
                if self.terms.follows(each, self._now)
            )  # fmt: skip
        if name == "equal":
            return gap, gap.times(-1)
        gap = gap if name.startswith("less") else gap.times(-1)
        return (gap if name.endswith("equal") else gap.more(-1),)

    def _case(self, test: Expression, holds: bool) -> Facts | None:
        """As `_facts_if`, once more is asked of whether it can be."""
        return None if self._holds(test, not holds) else self._facts_if(test, holds)

    def _gap(self, test: Operation) -> Sum | None:
        """How much larger the second of two integers that are compared is; None for others."""
        if test.name not in _OPPOSITE or any(arg.dtype != "int64" for arg in test.args):
            return None
        left, right = map(self._sum, test.args)
        return right.plus(left, -1)

    def _holds(self, test: Expression, holds: bool) -> bool:
        """Whether a condition is known to hold, or not to."""
        if isinstance(test, Constant):
            return bool(test.value) == holds
        if isinstance(test, Get):
            found = self._now.truths.get(test.slot)
            return found is not None and found[1 if holds else 0] is None
        if not isinstance(test, Operation):
            return False
        if test.name == "logical_not":
            return self._holds(test.args[0], not holds)
        if test.name in ("bitwise_and", "bitwise_or"):
            every = all if (test.name == "bitwise_and") == holds else any
            return every(self._holds(each, holds) for each in test.args)
        if self._gap(test) is None or test.name == ("not_equal" if holds else "equal"):
            return False
        facts = self._facts_if(test, holds) or ()
        return all(self.terms.follows(fact, self._now) for fact in facts)


#: Integer operations that may overflow; and those with a name for where they do not.
_SUMS = ("add", "subtract", "multiply")
_EXACT = (*_SUMS, "negative", "absolute")


def _plain(name: str) -> str:
    """The operation of a name that says when it ends a run."""
    return name.removeprefix("checked_").removeprefix("exact_")


def _comparisons(body: tuple[Statement, ...]) -> Iterator[tuple[str, Expression, Expression]]:
    """Yield the comparisons of integers in statements, both ways round."""

    def within(one: Expression) -> Iterator[tuple[str, Expression, Expression]]:
        if isinstance(one, Operation):
            if one.name in _MIRRORED and one.args[0].dtype == "int64":
                left, right = one.args
                yield one.name, left, right
                yield _MIRRORED[one.name], right, left
            for arg in one.args:
                yield from within(arg)

    for each in everything(body):
        if isinstance(each, (Set, Store)):
            yield from within(each.value)
        elif isinstance(each, (If, Check)):
            yield from within(each.test)
