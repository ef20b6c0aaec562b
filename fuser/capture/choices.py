"""Decisions in the body of a loop: both branches are traced on the same values, then selected.

Nothing that a branch does can be told from outside but by what names and memory hold after it, so
`if c: x = f(x)` is `x = where(c, f(x), x)`. What raises in a branch that is not taken makes the
call one for NumPy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fuser.capture.before import Again, Before, NotALoop, isinstance_of, set_state, state_of
from fuser.capture.loop_values import UNBOUND
from fuser.capture.staging import Decision
from fuser.ir.graph import Node, make_constant
from fuser.tracing.late_numbers import LATE, LateNumber
from fuser.tracing.trace_state import Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_memory import TracedMemory
from fuser.tracing.traced_scalars import HostScalar


def as_truth(value: Any) -> Any:
    """A test as a stand-in of NumPy's truth value.

    Raises:
        NotALoop: an array of several elements has none.
    """
    if type(value) is HostScalar:
        return np.not_equal(value, 0)
    if value.ndim:
        raise NotALoop("an array decides; NumPy asks for any() or all() of it")
    return value if value.dtype == np.dtype(bool) else np.not_equal(value, 0)


def truth_node(value: Any) -> Node:
    """The node of a truth value."""
    return make_constant(value, bool) if type(value) is bool else as_truth(value).node


def negated(value: Any) -> Any:
    """The opposite of a test, as a number where it is one."""
    if type(value) is HostScalar:
        return HostScalar(value._tracing, f"({value.text}) == 0", not value.hint)
    return np.logical_not(as_truth(value)) if isinstance_of(value, TracedArray) else not value


def both(one: Any, other: Any) -> Any:
    """Whether two tests hold; True is a test, too."""
    if one is True or other is True:
        return other if one is True else one
    if type(one) is HostScalar and type(other) is HostScalar:
        text = f"(({one.text}) != 0) & (({other.text}) != 0)"
        return HostScalar(one._tracing, text, bool(one.hint and other.hint))
    return np.logical_and(as_truth(one), as_truth(other))


class Choice:
    """One `if` while the body of a loop is traced.

    Attributes:
        is_open: what it tests is not known, so both branches run.
        twice: a name may have what it had before the loop after one iteration, and not after two.
        copies: a selection stands for an array that others see, or that was there before the loop.
    """

    def __init__(
        self, tracing: Any, decision: Decision, test: Any, env: Mapping[str, Any],
        before: Before | None, given: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Begin.

        Args:
            tracing: the trace.
            decision: what the source says of it.
            test: True, False, or what is known when the loop runs.
            env: the function's variables.
            before: the trace before the loop; None where the test is known.
            given: what names stand for in any iteration, as it begins.
        """
        self._tracing, self._decision, self._test = tracing, decision, test
        self.is_open = before is not None
        self._env, self._given, self.twice, self.copies = env, given, False, False
        self._stops: list[Any] = [None, None]
        self._read: list[frozenset[str]] = [frozenset(), frozenset()]
        self._raises = [False, False]
        self._place = 0
        if before is None:
            return
        as_truth(test)  # which arrays of several elements have not
        found = [v.storage for v in env.values() if isinstance_of(v, TracedMemory)]
        self._known = {id(s): s for s in (*before.memory(), *found)}
        self._states = {key: state_of(s) for key, s in self._known.items()}

    @property
    def of_numbers(self) -> bool:
        """Whether numbers decide, such as a loop's index."""
        return type(self._test) is HostScalar

    def takes(self) -> bool:
        """Whether the first branch runs."""
        return self.is_open or bool(self._test)

    def turns(self, env: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        """Whether the second branch runs, and what names stand for in it: `UNBOUND` for nothing."""
        if not self.is_open:
            return not self._test, {}
        self._place, self._first = 1, env
        self._add_captured()
        self._left = {key: state_of(s) for key, s in self._known.items()}
        for key, storage in self._known.items():
            set_state(storage, self._states[key])
        names = self._decision.names
        if missing := [n for n in names if n not in self._env and n in self._decision.read]:
            raise NotALoop(f"{missing[0]} is read in a branch that does not set it")
        return True, {name: self._env.get(name, UNBOUND) for name in names}

    def _add_captured(self) -> None:
        """Know arrays that a branch is the first to reach."""
        for argument in self._tracing.arguments:
            storage = argument.storage
            if id(storage) not in self._known:
                self._known[id(storage)] = storage
                now = state_of(storage)
                storage.node, storage.written = argument.initial, False
                self._states[id(storage)] = state_of(storage)
                set_state(storage, now)

    def stop(self, test: Any, read: frozenset[str] | None) -> None:
        """Note that the loop ends in this branch, where a test holds; what is read then.

        Args:
            test: True, or what is known when the loop runs.
            read: None where an exception ends it.
        """
        self._stops[self._place] = test
        self._read[self._place] = read or frozenset()
        self._raises[self._place] = read is None

    @property
    def selects(self) -> bool:
        """Whether it leaves what one branch or the other has left; not where one raises."""
        ways = zip(self._stops, self._raises, strict=True)
        return self.is_open and not any(stop is True and raises for stop, raises in ways)

    def merge(
        self, env: dict[str, Any], flags: Collection[str]
    ) -> tuple[dict[str, Any], Any, frozenset[str] | None]:
        """What names stand for after it; when the loop ends with it, and what is read then.

        Args:
            env: the function's variables after the second branch.
            flags: names of truth values that only tests read.

        Raises:
            NotALoop: it is not known to be a selection.
            Again: one branch leaves an array, and the other one something else.
        """
        if not self.is_open:
            return {}, None, frozenset()
        self._add_captured()
        ended = [k for k in (0, 1) if self._stops[k] is True]
        for key, storage in self._known.items():
            one, other = self._left.get(key, self._states[key]), state_of(storage)
            if not self.selects:
                set_state(storage, other if 0 in ended and self._raises[0] else one)
            elif one[0] is not other[0]:
                node = self._select(one[0], other[0])
                set_state(storage, (node, *other[1:]))
                storage.written = True
                self._tracing.note_write(storage.argument)
        bound = {}
        for name in self._decision.names:
            values = [each.get(name, UNBOUND) for each in (self._first, env)]
            ends = [k for k in ended if name not in self._read[k]]
            if name in flags:
                bound[name] = self._flag(values[0], values[1])
            elif ends:  # nobody reads it there
                bound[name] = values[1 - ends[-1]]
            elif name in self._decision.needed:
                bound[name] = self._merged(name, values[0], values[1], env)
        stops = [
            None if stop is None else both(test, stop)
            for stop, test in zip(self._stops, (self._test, negated(self._test)), strict=True)
        ]
        found = [stop for stop in stops if stop is not None]
        stop = negated(both(*map(negated, found))) if len(found) == 2 else [*found, None][0]
        raises = found and all(self._raises[k] for k in (0, 1) if stops[k] is not None)
        return bound, stop, None if raises else self._read[0] | self._read[1]

    def _flag(self, one: Any, other: Any) -> Any:
        """A truth value after both branches, as a stand-in of NumPy's; tests alone read it."""
        if one is other:
            return one
        node = self._select(truth_node(one), truth_node(other))
        return TracedArray.make(self._tracing, Storage(node), (), True)

    def _merged(self, name: str, one: Any, other: Any, env: Mapping[str, Any]) -> Any:
        """What a name stands for after both branches."""
        if one is other:
            return one
        if one is UNBOUND or other is UNBOUND:
            raise NotALoop(f"{name} is set in one branch of a decision")
        if isinstance_of(one, TracedArray) and isinstance_of(other, TracedArray):
            if one.storage is other.storage and one.views == other.views:
                return other
            seen = False
            for value, stops in zip((one, other), self._stops, strict=True):
                mine: Any = self._given.get(name)
                if stops is True and isinstance_of(mine, TracedArray) and not value.views:
                    if value.storage is mine.storage:
                        self.twice = self.copies = True
                        continue
                seen = seen or self._is_seen(name, value, env)
            if one.generic != other.generic:
                raise NotALoop(f"{name} becomes another kind of value")
            storage = Storage(self._select(one.node, other.node))
            self.copies = self.copies or seen
            storage.shared = seen  # so nothing is written into it, and no other iteration has it
            return TracedArray.make(self._tracing, storage, (), one.generic)
        if any(isinstance_of(each, TracedArray) for each in (one, other)):
            raise Again(f"{name} becomes another kind of value")
        numbers = [each.hint if type(each) is HostScalar else each for each in (one, other)]
        texts = [each.text if type(each) is HostScalar else repr(each) for each in (one, other)]
        if type(numbers[0]) is type(numbers[1]) and texts[0] == texts[1]:
            return other
        if type(self._test) is HostScalar and type(numbers[0]) is int is type(numbers[1]):
            text = f"({texts[1]}) + (({self._test.text}) != 0) * (({texts[0]}) - ({texts[1]}))"
            return HostScalar(self._tracing, text, numbers[0] if self._test.hint else numbers[1])
        for kind, (alike, node_of) in LATE.items():
            if alike(one) and alike(other):
                node = self._select(node_of(one), node_of(other))
                return LateNumber(self._tracing, node, kind)
        raise NotALoop(f"{name} is a number that a decision changes")

    def _is_seen(self, name: str, value: Any, env: Mapping[str, Any]) -> bool:
        """Whether others see an array, of which a selection is a copy."""
        if value.generic:
            return False
        storage = value.storage
        return storage.argument is not None or storage.shared or bool(value.views) or any(
            other != name and other not in self._decision.over
            and isinstance_of(each, TracedMemory) and each.storage is storage
            for variables in (self._env, self._first, env) for other, each in variables.items()
        )  # fmt: skip

    def _select(self, one: Node, other: Node) -> Node:
        """The value of either branch."""
        tracing = self._tracing
        shapes = [tuple(map(tracing.resolve, node.shape)) for node in (one, other)]
        if one.dtype != other.dtype or shapes[0] != shapes[1]:
            raise NotALoop("branches of a decision leave arrays of other kinds")
        test = as_truth(self._test).node
        made: Node = tracing.node("where", [test, one, other])
        return made
