"""Loops while tracing: the body is traced once, on stand-ins for what an iteration finds.

`Loop` is what a function's twin (`staging`) asks at each turn. It lets the body run as Python would
(and so unrolls it), or has it run on placeholders: for arrays that iterations change, for numbers
that they change, and for the index. What the body leaves is compared with what it found. Where
every iteration is the same function of what the one before leaves, a call of a loop region stands
for all of them (`fuser.ir.loops`); whatever is not proved puts the trace back to where it was
before the loop, and the loop is unrolled.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

import numpy as np

from fuser.base import budget
from fuser.base.errors import Unsupported
from fuser.base.host_expressions import scalar_symbols
from fuser.base.unexpected import is_fault
from fuser.capture import loop_calls
from fuser.capture.before import Again, Before, NotALoop, isinstance_of
from fuser.capture.choices import Choice, both, negated
from fuser.capture.loop_passes import Looked, Pass
from fuser.capture.loop_values import UNBOUND, Span, hint_of, is_plain, is_value, text_of
from fuser.capture.loop_walks import Walk, is_integer
from fuser.capture.staging import LoopSource, count_of
from fuser.tracing.late_lists import StackedList
from fuser.tracing.late_numbers import LateNumber, as_arrays
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: So many iterations, if the code states the number, are unrolled without a look.
FEW = 2
#: Iterations of a comprehension that are unrolled: one kernel has them all.
_SHORT = 8
_ALONE = 64  # outside of other loops: more parts make no array, see `sequences`
#: Passes over a body at most: each may find more arrays that it changes.
_PASSES = 6
#: Bytes of an array of constants, made in the function, that a loop may read.
_TABLE = 4096
#: Iterations that are unrolled, each as its values decide, until an argument's array is carried no
#: more: others see it.
_PEELS = 3


def is_short(tracing: Any, args: tuple[Any, ...]) -> bool:
    """Whether a range of a comprehension has few integers, the same in all iterations around it."""
    if not all(map(is_integer, args)) or not all(map(hint_of, args[2:])):
        return False
    symbols = {s for end in args for s in scalar_symbols(text_of(end))}
    inside = {number.text for number, leaf in tracing.scalars if leaf < 0}
    few = len(range(*map(hint_of, args))) <= (_SHORT if inside else _ALONE)
    return few and inside.isdisjoint(symbols)


class Loop:
    """One loop of a traced function, as its twin asks for it.

    Attributes:
        index: what the loop's variable is in this iteration.
    """

    index: Any

    def __init__(
        self, tracing: Any, admits: Callable[[Any], bool], looked: dict[Any, Looked],
        source: LoopSource, function: Any, args: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            tracing: the trace.
            admits: whether a function that the body names changes nothing but its arguments.
            looked: what was found that loops change; takes more.
            source: what the source says of the loop.
            function: what the source calls `range`, `enumerate` or the like, see `Walk`.
            args: its arguments.
        """
        self._tracing, self._admits, self._source = tracing, admits, source
        self._looked = looked
        self._bound: dict[str, Any] = {}
        self._unbound: AbstractSet[str] = set()
        self._iterator: Iterator[Any] | None = None
        self._passes, self._left, self._looking = 0, 0, False
        self._tables: list[tuple[str, Any, Any]] = []
        self._peeled, self._peels = False, 0
        self._copies = False  # a decision stands for an array that others see, or for a list
        self._decides = False  # values decide in the first iteration, which is unrolled
        self._peeling: Pass | None = None
        self._inside: Pass | None = None
        self._error: Exception | None = None
        self._walk = Walk(range if source.tested else function, args)
        self._conditions: list[Any] = []
        self._operands: list[tuple[Any, bool]] = []
        self._compared: list[Any] = []
        self._choices: list[Choice] = []
        self._stops: list[Any] = []
        self._stopped = False
        self._first: list[Any] = []
        self._lists: dict[str, list[Any]] = {}
        self._before: Before | None = None
        self._older: Before | None = None  # the first iteration
        if source.tested:
            self._span = Span(0, sys.maxsize, 1)
        elif not self._is_range() or (
            source.few and function is range and is_short(tracing, args)
        ):
            self._iterator = iter(self._walk)
        elif not self._span.count()[1]:
            tracing.guard_value(f"({self._span.count()[0]}) >= 1", False)
            self._iterator = iter(())

    def _is_range(self) -> bool:
        """Whether integers or positions tell what it goes over, in known steps; notes which."""
        span = self._walk.span(self._tracing)
        if span is None:
            return False
        if self._source.lists and abs(span.step) > 1 and not self._source.index_read:
            self._walk = Walk(None, (self._walk,))  # by positions, which are those of the items
            span = self._walk.span(self._tracing)
            assert span is not None
        self._span = span
        return not span.constant or span.count()[1] > FEW or self._source.breaks

    # -- what the twin asks ---------------------------------------------------------------------

    def again(self) -> bool:
        """Whether the body is to run (again)."""
        self._bound, self._unbound = {}, set()
        if self._iterator is None:
            env = dict(sys._getframe(1).f_locals)
            try:
                return self._next(env)
            except NotALoop as reason:
                self._unroll(str(reason), env)
        assert self._iterator is not None
        if not self._stopped:
            for index in self._iterator:
                self.index = index
                return True
        return False

    @property
    def test(self) -> Any:
        """What `while` asks, last of all before an iteration."""
        return None

    @test.setter
    def test(self, value: Any) -> None:
        self._conditions = [value] if self._is_symbolic else [bool(value)]

    @property
    def also(self) -> Any:
        """What it asks after `and`."""
        return None

    @also.setter
    def also(self, value: Any) -> None:
        self._conditions.append(value if self._is_symbolic else bool(value))

    def open(self) -> bool:
        """Whether what follows `and` is asked."""
        last = self._conditions[-1]
        return bool(last) if is_plain(last) else True

    def asks(self, value: Any, every: bool) -> bool:
        """Whether the next operand of `and`, or `or`, is evaluated; `value` is the one before."""
        truth = value if self._is_unknown(value) else bool(value)
        self._operands.append((truth, every))
        return not (type(truth) is bool and truth is not every)

    def joined(self, other: Any) -> Any:
        """A test of both operands."""
        value, every = self._operands.pop()
        if type(value) is bool:
            return other
        if not self._is_unknown(other):
            return value if bool(other) is every else not every
        return both(value, other) if every else negated(both(negated(value), negated(other)))

    def settled(self, kept: int) -> bool:
        """A test that its first operand decides; so many values are kept for those after it."""
        del self._compared[len(self._compared) - kept :]
        return bool(self._operands.pop()[0])

    def truth(self, function: Any, *args: Any, **options: Any) -> Any:
        """What a function that gives Python's truth gives in a test: here, where it is unknown."""
        plain = getattr(function, "__wrapped__", function)
        arrays = [isinstance_of(value, TracedArray) for value in args]
        if self._is_symbolic and plain is bool and arrays == [True] and not options:
            return args[0]
        if self._is_symbolic and plain is np.allclose and any(arrays):
            return np.all(np.isclose(*args, **options))
        if self._is_symbolic and plain is np.array_equal and arrays == [True, True] and not options:
            return args[0].shape == args[1].shape and (args[0] == args[1]).all()
        return function(*args, **options)

    def compared(self, name: str, one: Any, other: Any) -> Any:
        """A comparison in a test; of floats in whose place one is, a value of the trace."""
        if self._is_symbolic and LateNumber in (type(one), type(other)):
            one, other = as_arrays(one, other) or (one, other)
        return getattr(operator, name)(one, other)

    def negation(self, value: Any) -> Any:
        """`not` of a test."""
        return negated(value) if self._is_unknown(value) else not value

    def keep(self, value: Any) -> Any:
        """Keep a value that two comparisons in a row look at."""
        self._compared.append(value)
        return value

    def kept(self) -> Any:
        """That value."""
        return self._compared.pop()

    def _is_unknown(self, test: Any) -> bool:
        """Whether nothing is decided by what a test is in this call."""
        if not self._is_symbolic or is_plain(test):
            return False
        if type(test) is HostScalar:
            return self._inside is None or self._differs(test)
        return bool(test.ndim == 0)

    def tests(self) -> bool:
        """Whether the test of `while` is asked after an iteration."""
        return not self._stopped and True not in [stop is True for stop in self._stops]

    @property
    def _is_symbolic(self) -> bool:
        """Whether values decide nothing yet: an iteration is looked at, or none has begun."""
        return self._iterator is None and not self._decides

    # -- decisions in the body ------------------------------------------------------------------

    def decide(self, place: int, test: Any) -> None:
        """Begin an `if`."""
        decision = self._source.decisions[place]
        if self._is_symbolic and not is_plain(test) and self._differs(test):
            env = dict(sys._getframe(1).f_locals)
            assert self._before is not None
            found = self._inside or self._peeling
            given = found.given if found is not None else {}
            self._choices.append(Choice(self._tracing, decision, test, env, self._before, given))
        else:
            self._choices.append(Choice(self._tracing, decision, bool(test), {}, None, {}))

    def _differs(self, test: Any) -> bool:
        """Whether a test may have another outcome in each iteration."""
        if type(test) is not HostScalar:
            return isinstance_of(test, TracedArray)
        numbers = self._inside.symbols if self._inside is not None else set()
        return not numbers.isdisjoint(scalar_symbols(test.text))

    def takes(self) -> bool:
        """Whether the first branch runs."""
        return self._choices[-1].takes()

    def turns(self) -> bool:
        """Whether the second branch runs."""
        env = dict(sys._getframe(1).f_locals)
        self._bound, self._unbound = {}, set()
        runs, bound = self._choices[-1].turns(env)
        self._bind(bound, env)
        return runs

    def merge(self) -> None:
        """End an `if`."""
        choice = self._choices.pop()
        env = dict(sys._getframe(1).f_locals)
        bound, stop, read = choice.merge(env, self._source.flags)
        self._bind(bound, env)
        if self._inside is not None:
            self._inside.twice |= choice.twice
            self._inside.decided |= choice.selects
            self._inside.values_decide |= choice.selects and not choice.of_numbers
        self._copies = self._copies or choice.copies
        if stop is None:
            return
        if open_ := [choice for choice in self._choices if choice.is_open]:
            open_[-1].stop(stop, read)
        else:
            self._stops.append(stop)

    def append(self, name: str, to: list[Any], item: Any, place: Any = None) -> None:
        """Append an item to a list; where an iteration is looked at, note what it is.

        Args:
            name: the list's.
            to: the list.
            item: the item.
            place: how many it has appended, where some iterations append nothing.
        """
        if self._inside is None:
            to.append(item)
            self._copies |= any(choice.is_open for choice in self._choices)  # perhaps
        else:
            self._inside.append(name, item, place, sys._getframe(1).f_locals)

    def counted(self, count: Any) -> Any:
        """One more than a number of items, which tells when the loop has run."""
        return count + 1 if self._inside is None else self._inside.counted(count)

    def stop(self, way: int) -> None:
        """Note that the loop is left; `way`: see `LoopSource.ways`."""
        if open_ := [choice for choice in self._choices if choice.is_open]:
            open_[-1].stop(True, self._source.ways[way])
        elif self._is_symbolic:
            self._stops.append(True)
        else:
            self._stopped = True

    def binds(self, name: str) -> bool:
        """Whether a name is to be given another value."""
        return name in self._bound

    def _bind(self, bound: Mapping[str, Any], env: Mapping[str, Any]) -> None:
        """Have names stand for values; or, where that is `UNBOUND`, for nothing."""
        self._bound = {name: value for name, value in bound.items() if value is not UNBOUND}
        self._unbound = (bound.keys() - self._bound.keys()) & env.keys()

    def unbinds(self, name: str) -> bool:
        """Whether a name is to stand for nothing, as it did before the loop."""
        return name in self._unbound

    def value(self, name: str) -> Any:
        """That value."""
        return self._bound[name]

    def failed(self, error: BaseException) -> bool:
        """Whether what the body has raised is of the trace's own making: then it is unrolled."""
        trying = self._inside is not None or self._peeling is not None
        if not trying or not isinstance(error, Exception) or is_fault(error) or budget.is_over():
            return False
        self._error = error
        self._choices = []
        return True

    # -- passes ---------------------------------------------------------------------------------

    def _unroll(self, reason: str, env: Mapping[str, Any]) -> None:
        """Go on as Python does, from the first iteration; from the second, if that is unrolled.

        Raises:
            Unsupported: no time is left, or it would take more operations than are left.
        """
        iterations = operations = 0
        self._end_look()
        if self._source.asks:
            raise Unsupported("control-flow", "a comprehension", reason or "few iterations")
        if self._inside is not None and not self._source.tested:  # each as the last look
            iterations = self._span.count()[1]
            operations = self._left - budget.left("operations")
            if self._inside.decided and not self._inside.values_decide:
                operations //= 2  # each of them runs one of two branches
        if reason:
            budget.note(f"{self._source.where}: {reason}")
        times = 2 if self._tracing.looking else 1  # the loop around it is looked at again
        times *= 1 if self._tracing.replay.again else 2
        budget.foresee(iterations, operations, times, self._source.where)
        if self._inside is not None:
            self._inside.before.put_back()
            self._cut_lists(self._inside)
            with suppress(NotALoop):
                self._restore_tables()
            self._bind(self._inside.found(), env)
            self._inside = None
        self._iterator = self._plainly()
        self._conditions = [all(map(bool, self._first))]  # one that is false is the last asked
        self._choices, self._stops = [], []
        self._peeling = None  # from here on the body's exceptions are the function's

    def _plainly(self) -> Iterator[Any]:
        """Yield the indices as Python does, while the test is true."""
        for index in range(self._span.start, self._span.stop, self._span.step):
            if not all(self._conditions):
                return
            yield self._walk.item(index)

    def _next(self, env: dict[str, Any]) -> bool:
        """Begin, look at what an iteration has left, or end."""
        found, self._error = self._error, None
        if self._peeling is not None and found is not None:
            self._inside = self._peeling
            raise NotALoop(f"{type(found).__name__}: {found}") from found
        if self._peeling is not None and self._copies and not self._decides:
            self._inside, self._peeled, self._decides = self._peeling, False, True
            return self._peel("a decision chooses among arrays that others see", env)
        peeling, self._peeling, self._decides = self._peeling, None, False
        if self._stopped:
            self._iterator = iter(())
            return False
        if peeling is not None:
            if not self._source.tested:
                count = self._span.count()
                if count[1] == 1:
                    if not self._span.constant:
                        self._tracing.guard_value(f"({count[0]}) == 1", True)
                    return False
                self._span = self._span.later()
            self._first = [*self._conditions, *map(negated, self._stops)]
        elif self._inside is None:
            self._first = list(self._conditions)
        if self._inside is None:
            if any(is_plain(value) and not value for value in self._first):
                self._iterator = iter(())  # it does not begin, and nothing but Python decides that
                return False
            self._check_names(env)
            self._inside = self._look_at(env, {})
            self._older = self._older or self._before
            if missing := [name for name in self._inside.wanted if name not in env]:
                return self._peel(f"{missing[0]} is set in the first iteration", env)
            return self._begin()
        inside = self._inside
        if type(found) is Again:
            self._decides = True
            return self._peel(str(found), env)
        if found is not None:
            raise NotALoop(f"{type(found).__name__}: {found}") from found
        inside.conditions = [*self._conditions, *map(negated, self._stops)]
        self._restore_tables()
        try:
            if not inside.write_lists():
                if self._source.listed and not inside.computes():
                    told = "it lists parts of arrays, or one number after the other"
                    if list(self._walk.arrays()):  # rows are not worth a kernel each
                        raise Unsupported("control-flow", "a comprehension", told)
                    raise NotALoop(told)
                self._inside = self._look_at(inside.found_env, inside.make_rooms())
                return self._begin()
            if inside.look(env):
                return self._begin()
            self._looked[id(self._source), self._peeled] = inside.looked
            self._bound = loop_calls.region(inside)
            self._bound |= self._lists_left(inside)
        except Again as reason:
            return self._peel(str(reason), env)
        self._inside = None
        self._end_look()
        self._iterator = iter(())
        return False

    def _begin(self) -> bool:
        """Run the body on placeholders."""
        assert self._inside is not None
        self._tracing.looking += not self._looking
        self._looking = True
        self._passes += 1
        if self._passes > _PASSES:
            raise NotALoop("each look at the body finds more that it changes")
        self._inside.before.put_back_budget()  # of several looks the last alone is kept
        self._left = budget.left("operations")
        self._bound, place = self._inside.begin()
        self.index = self._walk.item(place)
        self._conditions, self._stops = [], []
        return True

    def _end_look(self) -> None:
        """Note that the body runs on placeholders no more."""
        self._tracing.looking -= self._looking
        self._looking = False

    def _peel(self, reason: str, env: Mapping[str, Any]) -> bool:
        """Unroll the first iteration: those after it find what it leaves."""
        assert self._inside is not None
        if self._peeled:
            self._peels += 1
            if not self._copies or self._peels > _PEELS:
                raise NotALoop(reason)
            self._decides = True
        self._passes = 0
        self._inside.before.put_back()
        self._cut_lists(self._inside)
        if not self._span.constant:
            self._tracing.guard_value(f"({self._span.count()[0]}) >= 1", True)
        for value in self._first:  # it is known to run
            if not bool(value):
                raise NotALoop("its first iteration does not run")
        self._bind(self._inside.found(), env)
        self.index = self._walk.item(self._span.start)
        self._peeling, self._inside, self._peeled = self._inside, None, True
        self._end_look()
        self._copies = False
        self._conditions, self._stops = [], []
        return True

    def _look_at(self, env: dict[str, Any], rooms: Mapping[str, TracedArray]) -> Pass:
        """Passes over the body from what names stand for, with room for what lists take."""
        found = Pass(
            self._tracing, self._source, self._span, env, self._first, self._peeled,
            tuple(self._walk.arrays()),
            self._looked.get((id(self._source), self._peeled), Looked()), self._older, rooms,
        )  # fmt: skip
        self._before = found.before
        return found

    # -- lists ---------------------------------------------------------------------------------

    def _cut_lists(self, found: Pass) -> None:
        """Have lists be as long as they were."""
        for name, length in found.lengths.items():
            del self._lists[name][length:]

    def _lists_left(self, found: Pass) -> dict[str, StackedList]:
        """What lists are after the loop, where a region appends to them."""
        left = {}
        for name, item in found.appended.items():
            held: list[Any] = []
            if item.kind == "array":
                known = *self._bound.values(), *found.given.values()
                seen = [each.storage for each in known if isinstance_of(each, TracedArray)]
                seen.append(item.value.storage)
                held = [(storage, storage.node) for storage in seen]
            room, first = found.rooms[name], self._lists[name]
            count = self._bound.get(count_of(name))
            begun = found.found_env.get(count_of(name), 0)  # in iterations that were unrolled
            left[name] = StackedList(room, first, item.kind, held, count, begun)
        return left

    # -- names ---------------------------------------------------------------------------------

    def _check_names(self, env: Mapping[str, Any]) -> None:
        """Refuse names that the body reads and that may lead to more than arrays and numbers.

        What the body itself sets before it reads it is its own.
        """
        frame = sys._getframe(3)
        for name in self._source.lists:
            if not self._tracing.replay.lists or type(env.get(name)) is not list:
                raise NotALoop(f"{name} is a list that is asked for more than arrays are")
            self._lists[name] = env[name]
        for name in self._source.read:
            if name in self._source.assigned and name not in self._source.carried:
                continue
            value = env.get(name, UNBOUND)
            if value is UNBOUND and name in frame.f_globals:
                value = frame.f_globals[name]
            elif value is UNBOUND:
                value = getattr(builtins, name, None)
            if type(value) is np.ndarray and value.nbytes <= _TABLE and not value.dtype.hasobject:
                self._tables.append((name, value, value.copy()))
            elif not is_value(value) and not self._admits(value):
                raise NotALoop(f"{name} is a {type(value).__name__}")

    def _restore_tables(self) -> None:
        """Have arrays of constants hold what they held: a look at the body may have written.

        Raises:
            NotALoop: it has.
        """
        for name, array, before in self._tables:
            if array.tobytes() != before.tobytes():
                np.copyto(array, before)
                raise NotALoop(f"{name} is an array of constants that it changes")

