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
import copy
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base import budget
from fuser.base.host_expressions import evaluate_scalar, rename_scalars, scalar_symbols
from fuser.base.records import record
from fuser.capture.before import Again, Before, NotALoop, isinstance_of
from fuser.capture.choices import Choice, as_truth, negated
from fuser.capture.results import finish
from fuser.capture.staging import LoopSource
from fuser.ir import dims, loops, opaque_calls, opaque_text
from fuser.ir.graph import Node, intern, make_input, make_scalar, walk
from fuser.ir.ops import TABLE
from fuser.tracing.canonical import lengths_of
from fuser.tracing.trace_result import OutAlias, OutNode, Trace
from fuser.tracing.trace_state import LATER, Argument, Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_memory import TracedMemory
from fuser.tracing.traced_scalars import HostScalar

#: A loop of a number of iterations that the code states is unrolled where all of them together have
#: no more operations, and no more writes into parts of arrays: they may become one kernel.
UNROLLED_OPERATIONS, UNROLLED_WRITES = 1024, 8
#: So many iterations, if the code states the number, are unrolled without a look.
FEW = 2
#: Passes over a body at most: each may find more arrays that it changes.
_PASSES = 6
#: Numbers of placeholders' names: no argument has such a one.
_FIRST = 1_000_000
#: Conditions of numbers that a loop may change: where they fail, Python raises, or goes elsewhere.
_DOMAIN = re.compile(r"\(.*\) (>= \d+|!= 0)|-?\d+ <= \(.*\) <= \d+")
_OF_NUMPY = (np.ndarray, np.generic)
#: What a name stands for that nothing is assigned to yet.
_UNBOUND = object()


@record(frozen=False, slots=False, eq=False)
class _Slot:
    """A carried array: what a name, or memory that the body writes into, holds in an iteration.

    Attributes:
        names: the names that stand for it.
        storage: the memory of its placeholder.
        placeholder: the node.
        initial: what the first iteration finds.
        generic: it is a NumPy scalar.
        memory: it is a whole array's memory, which other names may see, too.
    """

    names: list[str]
    storage: Storage
    placeholder: Node
    initial: Node
    generic: bool
    memory: bool


class Loop:
    """One loop of a traced function, as its twin asks for it.

    Attributes:
        index: what the loop's variable is in this iteration.
    """

    index: Any

    def __init__(
        self, tracing: Any, admits: Callable[[Any], bool], source: LoopSource, function: Any,
        args: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            tracing: the trace.
            admits: whether a function that the body names changes nothing but its arguments.
            source: what the source says of the loop.
            function: what the source calls `range`.
            args: its arguments.
        """
        self._tracing, self._admits, self._source = tracing, admits, source
        self._bound: dict[str, Any] = {}
        self._iterator: Iterator[Any] | None = None
        self._passes = 0
        self._peeled = False
        self._peeling: _Pass | None = None
        self._inside: _Pass | None = None
        self._error: Exception | None = None
        self._function, self._args = function, args
        self._conditions: list[Any] = []
        self._choices: list[Choice] = []
        self._stops: list[Any] = []
        self._stopped = False
        self._first: list[Any] = []
        self._before: Before | None = None
        if source.tested:
            self._start, self._stop, self._step, self._constant = 0, sys.maxsize, 1, True
        elif not self._is_range():
            self._iterator = iter(function(*args))
        elif not self._count()[1]:
            tracing.guard_value(f"({self._count()[0]}) >= 1", False)
            self._iterator = iter(())

    def _is_range(self) -> bool:
        """Whether the loop goes over integers, in steps that are known; notes which."""
        args = self._args
        if self._function is not range:
            return False
        if not all(type(a) is int or (type(a) is HostScalar and a.kind is int) for a in args):
            return False
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        if type(step) is not int or step == 0:
            return False
        self._start, self._stop, self._step = start, stop, step
        self._constant = type(start) is int and type(stop) is int
        return not self._constant or self._count()[1] > FEW or self._source.breaks

    # -- what the twin asks ---------------------------------------------------------------------

    def again(self) -> bool:
        """Whether the body is to run (again)."""
        self._bound = {}
        if self._iterator is None:
            try:
                return self._next(dict(sys._getframe(1).f_locals))
            except NotALoop as reason:
                self._unroll(str(reason))
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
        return bool(last) if _is_plain(last) else True

    def tests(self) -> bool:
        """Whether the test of `while` is asked after an iteration."""
        return not self._stopped and True not in [stop is True for stop in self._stops]

    @property
    def _is_symbolic(self) -> bool:
        """Whether values decide nothing yet: an iteration is looked at, or none has begun."""
        return self._iterator is None

    # -- decisions in the body ------------------------------------------------------------------

    def decide(self, place: int, test: Any) -> None:
        """Begin an `if`."""
        decision = self._source.decisions[place]
        if self._is_symbolic and not _is_plain(test) and self._differs(test):
            env = dict(sys._getframe(1).f_locals)
            assert self._before is not None
            given = self._inside.given if self._inside is not None else {}
            if self._inside is not None:
                self._inside.decided = True
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
        self._bound = {}
        runs, self._bound = self._choices[-1].turns(dict(sys._getframe(1).f_locals))
        return runs

    def merge(self) -> None:
        """End an `if`."""
        choice = self._choices.pop()
        self._bound, stop = choice.merge(dict(sys._getframe(1).f_locals), self._source.kept)
        if self._inside is not None:
            self._inside.twice |= choice.twice
        if stop is None:
            return
        if open_ := [choice for choice in self._choices if choice.is_open]:
            open_[-1].stop(stop)
        else:
            self._stops.append(stop)

    def stop(self) -> None:
        """Note a `break`."""
        if open_ := [choice for choice in self._choices if choice.is_open]:
            open_[-1].stop(True)
        elif self._is_symbolic:
            self._stops.append(True)
        else:
            self._stopped = True

    def binds(self, name: str) -> bool:
        """Whether a name is to be given another value."""
        return name in self._bound

    def value(self, name: str) -> Any:
        """That value."""
        return self._bound[name]

    def failed(self, error: BaseException) -> bool:
        """Whether what the body has raised is of the trace's own making: then it is unrolled."""
        trying = self._inside is not None or self._peeling is not None
        if not trying or not isinstance(error, Exception):
            return False
        self._error = error
        self._choices = []
        return True

    # -- passes ---------------------------------------------------------------------------------

    def _unroll(self, reason: str) -> None:
        """Go on as Python does, from the first iteration."""
        if self._inside is not None:
            self._inside.before.put_back()
            self._bound = self._inside.outside
            self._inside = None
        if reason:
            budget.note(f"{self._source.where}: {reason}")
        self._iterator = self._plainly()
        self._conditions = [bool(value) for value in self._first]
        self._choices, self._stops = [], []

    def _plainly(self) -> Iterator[Any]:
        """Yield the indices as Python does, while the test is true."""
        for index in range(self._start, self._stop, self._step):
            if not all(self._conditions):
                return
            yield index

    def _next(self, env: dict[str, Any]) -> bool:
        """Begin, look at what an iteration has left, or end."""
        found, self._error = self._error, None
        if self._peeling is not None and found is not None:
            self._inside = self._peeling
            raise NotALoop(f"{type(found).__name__}: {found}") from found
        peeling, self._peeling = self._peeling, None
        if peeling is not None:
            if not self._source.tested:
                count = self._count()
                if count[1] == 1:
                    if not self._constant:
                        self._tracing.guard_value(f"({count[0]}) == 1", True)
                    return False
                self._start = self._shifted(self._start, self._step)
            self._first = [*self._conditions, *map(negated, self._stops)]
        elif self._inside is None:
            self._first = list(self._conditions)
        if self._inside is None:
            if any(_is_plain(value) and not value for value in self._first):
                self._iterator = iter(())  # it does not begin, and nothing but Python decides that
                return False
            self._check_names(env)
            self._inside = _Pass(self, env)
            self._before = self._inside.before
            if missing := [name for name in self._inside.wanted if name not in env]:
                return self._peel(f"{missing[0]} is set in the first iteration")
            return self._begin()
        inside = self._inside
        if found is not None:
            raise NotALoop(f"{type(found).__name__}: {found}") from found
        inside.conditions = [*self._conditions, *map(negated, self._stops)]
        try:
            if inside.look(env):
                return self._begin()
            self._bound = inside.region()
        except Again as reason:
            return self._peel(str(reason))
        self._inside = None
        self._iterator = iter(())
        return False

    def _begin(self) -> bool:
        """Run the body on placeholders."""
        assert self._inside is not None
        self._passes += 1
        if self._passes > _PASSES:
            raise NotALoop("each look at the body finds more that it changes")
        self._bound, self.index = self._inside.begin()
        self._conditions, self._stops = [], []
        return True

    def _peel(self, reason: str) -> bool:
        """Unroll the first iteration: those after it find what it leaves."""
        assert self._inside is not None
        if self._peeled:
            raise NotALoop(reason)
        self._inside.before.put_back()
        if not self._constant:
            self._tracing.guard_value(f"({self._count()[0]}) >= 1", True)
        for value in self._first:  # it is known to run
            if not bool(value):
                raise NotALoop("its first iteration does not run")
        self._bound, self.index = self._inside.outside, self._start
        self._peeling, self._inside, self._peeled = self._inside, None, True
        self._conditions, self._stops = [], []
        return True

    # -- the range ------------------------------------------------------------------------------

    def _shifted(self, value: Any, by: int) -> Any:
        """A bound and so many more."""
        if type(value) is int:
            return value + by
        return HostScalar(self._tracing, f"({value.text}) + ({by})", value.hint + by)

    def _count(self) -> tuple[str, int]:
        """The number of iterations, as text and in this call."""
        start, stop, step = _text(self._start), _text(self._stop), self._step
        size = abs(step)
        gap = f"({stop}) - ({start})" if step > 0 else f"({start}) - ({stop})"
        text = gap if size == 1 else f"({gap} + {size - 1}) // {size}"
        return text, len(range(_hint(self._start), _hint(self._stop), step))

    def _check_names(self, env: Mapping[str, Any]) -> None:
        """Refuse names that the body reads and that may lead to more than arrays and numbers."""
        frame = sys._getframe(3)
        for name in self._source.read:
            if name in self._source.assigned:
                continue
            value = env.get(name, _UNBOUND)
            if value is _UNBOUND and name in frame.f_globals:
                value = frame.f_globals[name]
            elif value is _UNBOUND:
                value = getattr(builtins, name, None)
            if not _is_value(value) and not self._admits(value):
                raise NotALoop(f"{name} is a {type(value).__name__}")


def _is_plain(value: Any) -> bool:
    """Whether Python alone knows whether something is true."""
    return type(value) is not HostScalar and not isinstance_of(value, TracedArray)


def _text(value: Any) -> str:
    """A number as a host expression."""
    return value.text if type(value) is HostScalar else repr(value)


def _hint(value: Any) -> Any:
    """A number in this call."""
    return value.hint if type(value) is HostScalar else value


def _is_value(value: Any) -> bool:
    """Whether a value is an array of the trace, a number, or something that never changes."""
    if isinstance_of(value, TracedArray) or type(value) is HostScalar:
        return True
    if type(value) is tuple:
        return all(type(part) is not tuple and _is_value(part) for part in value) and not any(
            isinstance_of(part, TracedMemory) for part in value
        )
    if isinstance_of(value, type):  # others may do anything when they are called
        return issubclass(value, np.generic) or getattr(builtins, value.__name__, None) is value
    kinds = (bool, int, float, complex, str, bytes, np.generic, np.dtype, slice)
    return value is None or value is Ellipsis or isinstance_of(value, kinds)


class _Pass:
    """Passes over the body of one loop: what it finds, what it leaves, and what that is."""

    def __init__(self, loop: Loop, env: dict[str, Any]) -> None:
        """Look at the function's variables before the loop."""
        self.loop, self.tracing, self.source = loop, loop._tracing, loop._source
        self.before = Before(self.tracing, env)
        self.loop_env = env
        self.ends_early = self.source.tested or self.source.breaks
        self.wanted = list(self.source.carried)
        if loop._peeled and self.ends_early:  # which need not run again
            self.wanted += self.source.later
        self.carried = [name for name in self.wanted if name in env]
        self.set_later = [name for name in self.source.later if name not in self.wanted]
        self.conditions: list[Any] = []
        self.decided = False  # both branches of an `if` have run
        self.twice = False  # it is known what two iterations leave, and not what one does
        self.given = {name: env[name] for name in self.carried}
        self.outside = {name: env[name] for name in self.source.assigned if name in env}
        self.hidden: list[Storage] = []
        self.changing: dict[str, None] = {}  # numbers that iterations change
        self.written: list[Storage] | None = None

    # -- the beginning of a pass ----------------------------------------------------------------

    def begin(self) -> tuple[dict[str, Any], HostScalar]:
        """Put placeholders in; what names and the index are to stand for."""
        tracing = self.tracing
        self.before.put_back()
        for storage in self.written or ():  # in the second iteration reads come after all writes
            tracing.note_write(storage.argument)
        self.slots: list[_Slot] = []
        self.numbers: dict[str, HostScalar] = {}
        bound: dict[str, Any] = {}
        for name, value in self.given.items():
            if isinstance_of(value, TracedArray):
                bound[name] = self._placed(name, value)
            elif name in self.changing:
                self.numbers[name] = bound[name] = self._number(_hint(value))
        known = [slot.storage for slot in self.slots]
        for storage in self.hidden:
            if storage not in known:
                self._add_slot([], storage, storage.node, False, True)
        self.index = self._number(_hint(self.loop._start))
        return bound, self.index

    def _placed(self, name: str, value: Any) -> Any:
        """A stand-in for what a name stands for in any iteration."""
        whole = not value.views and not value.generic
        for slot in self.slots:
            if whole and slot.memory and slot.storage is value.storage:
                slot.names.append(name)
                return value
        if whole:
            self._add_slot([name], value.storage, value.storage.node, False, True)
            return value
        slot = self._add_slot([name], None, value.node, value.generic, False)
        return TracedArray.make(self.tracing, slot.storage, (), value.generic)

    def _add_slot(
        self, names: list[str], storage: Storage | None, initial: Node, generic: bool, memory: bool
    ) -> _Slot:
        """A carried array."""
        shape = tuple(map(self.tracing.resolve, initial.shape))
        node = make_input(f"x{_FIRST + len(self.tracing.placeholders)}", initial.dtype, shape)
        self.tracing.placeholders[node.payload.name] = initial
        if storage is None:
            storage = Storage(node)
        else:
            storage.node = node
        found = _Slot(names, storage, node, initial, generic, memory)
        self.slots.append(found)
        return found

    @property
    def symbols(self) -> set[str]:
        """The numbers that iterations have others of."""
        return {self.index.text, *(number.text for number in self.numbers.values())}

    def _number(self, hint: Any) -> HostScalar:
        """A number that each iteration has another one of."""
        self.tracing.symbols += 1
        found = HostScalar(self.tracing, f"s{_FIRST + self.tracing.symbols}", hint)
        self.tracing.scalars.append((found, -1))
        return found

    # -- what a pass has left -------------------------------------------------------------------

    def look(self, env: Mapping[str, Any]) -> bool:
        """Whether another pass is needed, which knows more of what the body changes.

        Raises:
            NotALoop: it is not the same function of what the one before leaves.
            Again: what it leaves is of another kind than what it finds.
        """
        self.env = env
        if self._finds_more():
            return True
        for name, number in self.numbers.items():
            left = env.get(name, _UNBOUND)
            if not _is_number(left) or type(_hint(left)) is not number.kind:
                raise Again(f"{name} becomes another kind of value")
        if self.loop._constant and self.written is None and not (self.ends_early or self.decided):
            self._weigh()
        written = [slot.storage for slot in self.slots if self._is_written(slot)]
        known, self.written = self.written, written
        return written != known

    def _finds_more(self) -> bool:
        """Whether the body changes what was taken for unchanging; it is noted."""
        known = {id(slot.storage) for slot in self.slots}
        found = False
        storages = [a.storage for a in self.tracing.arguments]
        for storage in {id(s): s for s in (*self.before.storages.values(), *storages)}.values():
            if id(storage) not in known and storage.node is not self.before.node_of(storage):
                self.hidden.append(storage)
                found = True
        for name, value in self.given.items():
            plain = not isinstance_of(value, TracedArray) and name not in self.numbers
            if plain and not self._is_same(value, self.env.get(name, _UNBOUND)):
                if not _is_number(value) or not _is_number(self.env.get(name, _UNBOUND)):
                    raise Again(f"{name} becomes another kind of value")
                self.changing[name] = None
                found = True
        return found

    @staticmethod
    def _is_same(old: Any, new: Any) -> bool:
        """Whether something that is no array was left as it is."""
        if old is new:
            return True
        if type(old) is HostScalar and type(new) is HostScalar:
            return old.text == new.text
        plain = type(old) in (bool, int, str) and type(old) is type(new)
        return plain and bool(old == new)

    @staticmethod
    def _is_written(slot: _Slot) -> bool:
        """Whether the body writes into an array."""
        return slot.storage.node is not slot.placeholder

    def _weigh(self) -> None:
        """Leave short loops to be unrolled, see `UNROLLED_OPERATIONS`."""
        finals = [slot.storage.node for slot in self.slots]
        finals += [v.node for v in self._left().values() if isinstance_of(v, TracedArray)]
        nodes = [node for node in walk(finals) if id(node) not in self.before.lines and node.args]
        count = self.loop._count()[1]
        writes = sum(node.op.is_update or node.op.is_opaque for node in nodes)
        if count * writes <= UNROLLED_WRITES and count * len(nodes) <= UNROLLED_OPERATIONS:
            raise NotALoop("")

    def _left(self) -> dict[str, Any]:
        """What names stand for after the body, those that matter."""
        names = [*self.carried, *self.set_later]
        return {name: self.env[name] for name in names if name in self.env}

    # -- the region -----------------------------------------------------------------------------

    def region(self) -> dict[str, Any]:
        """Have a region stand for the loop; what names stand for after it.

        Raises:
            NotALoop, Again: as `look` does.
        """
        if self.tracing.in_order != self.before._saved["in_order"]:
            raise NotALoop("a reshape in it is a view for arrays in C order alone")
        self._find_conditions()
        self._find_targets()
        self._find_lengths()
        body = _Body(self)
        body.build(self._guards())
        return self._replace(body)

    def _find_conditions(self) -> None:
        """What has to be true for another iteration: as numbers, and as an array."""
        self.tests = [value for value in self.conditions if type(value) is HostScalar]
        arrays = [value for value in self.conditions if isinstance_of(value, TracedArray)]
        if any(_is_plain(value) and not value for value in self.conditions):
            raise NotALoop("it ends with each iteration")
        self.going: Any = None
        for value in map(as_truth, arrays):
            self.going = value if self.going is None else np.logical_and(self.going, value)
        self.data = self.going is not None

    def _find_targets(self) -> None:
        """For each carried array, the one that the next iteration has there, or a new array."""
        of_storage = {id(slot.storage): slot for slot in self.slots}
        self.targets: list[Any] = []  # a slot, or the stand-in of a new array
        fresh: set[int] = set()
        for slot in self.slots:
            lefts = [self.env.get(name, _UNBOUND) for name in slot.names]
            if not slot.names:
                self.targets.append(slot)
                continue
            targets = [self._target(slot, left, of_storage) for left in lefts]
            if any(each is not targets[0] for each in targets):
                raise Again(f"{' and '.join(slot.names)} are one array before the loop")
            self.targets.append(targets[0])
        self.later = [name for name in self.set_later if name in self.env]
        for name in self.later:
            left = self.env[name]
            if not isinstance_of(left, TracedArray):
                raise NotALoop(f"{name} is read after the loop, and is no array")
            target = self._target(None, left, of_storage)
            if isinstance(target, _Slot) and self._next_of(target) is not target:
                raise NotALoop(f"{name} is an array that another name has afterwards")
            self.targets.append(target)
        if self.data:
            self.targets.append(TracedArray.make(self.tracing, Storage(self.going.node), (), False))
        arrays = [t.storage for t in self.targets if not isinstance(t, _Slot) and not t.generic]
        fresh = set(map(id, arrays))
        kept = [id(t) for t in self.targets[: len(self.slots)] if isinstance(t, _Slot)]
        if len(fresh) < len(arrays) or len(set(kept)) < len(kept):
            raise NotALoop("two names become one array")
        for storage in (*arrays, *(slot.storage for slot in self.slots)):
            if storage.shared or storage.reshapes:
                raise NotALoop("a reshape of an array, or what a function gave, may be a view")
        self._follow()

    def _next_of(self, slot: _Slot) -> Any:
        """What the next iteration has in a carried array's place."""
        return self.targets[self.slots.index(slot)]

    def _target(self, slot: _Slot | None, left: Any, of_storage: Mapping[int, _Slot]) -> Any:
        """What a name stands for after the body: a carried array, or a stand-in of a new one."""
        name = slot.names[0] if slot else "it"
        if not isinstance_of(left, TracedArray):
            raise Again(f"{name} becomes another kind of value")
        found = of_storage.get(id(left.storage))
        if found is not None and (left.views or left.generic != found.generic):
            raise Again(f"{name} becomes a view of an array")
        if found is None and self._is_outside(left.storage):
            raise Again(f"{name} becomes an array that the loop does not change")
        if slot is not None:
            old, new = slot.placeholder, left.node
            self._hold_late(old, new)
            shapes = [tuple(map(self.tracing.resolve, node.shape)) for node in (old, new)]
            if old.dtype != new.dtype or left.generic != slot.generic or shapes[0] != shapes[1]:
                raise Again(f"{name} is {old.type} before an iteration, {new.type} after it")
        if found is None or (found.generic and found is not slot):
            return left  # scalars are values: it is all one where they come from
        return found

    def _hold_late(self, old: Node, new: Node) -> None:
        """Have lengths that a call in the body tells be those that the iteration before had."""
        tracing = self.tracing
        if len(old.shape) != len(new.shape) or not tracing.same_lengths(old.shape, new.shape):
            return
        for one, other in zip(old.shape, new.shape, strict=True):
            left, right = tracing.resolve(one), tracing.resolve(other)
            if left != right and not tracing.late.isdisjoint(dims.symbols(right)):
                tracing._hold(left, right)

    def _is_outside(self, storage: Storage) -> bool:
        """Whether memory was there before the loop, or is an argument's."""
        return id(storage) in self.before.storages or storage.argument is not None

    def _follow(self) -> None:
        """Find what names have after any number of iterations, and what has to hold of it."""
        self.period, self.depth = 1, 1
        self.cycle: dict[int, list[_Slot]] = {}
        for slot in self.slots:
            path = [slot]
            while isinstance(then := self._next_of(path[-1]), _Slot) and then is not slot:
                path.append(then)
            if then is slot:
                self.cycle[id(slot)] = path
                self.period = math.lcm(self.period, len(path))
            else:
                self.depth = max(self.depth, len(path))
                if slot.memory and self._is_written(slot):
                    raise Again(f"{' '.join(slot.names)}: written, then another array")
            if self._is_written(slot) and not slot.memory:
                raise NotALoop("it writes into a view of an array")
        moved = {
            id(slot.storage) for path in self.cycle.values() if len(path) > 1 for slot in path
        }
        moved |= {id(s.storage) for s in self.slots if s.memory and id(s) not in self.cycle}
        named = {name for slot in self.slots for name in slot.names}
        for name in self.source.read:
            value: Any = self.given.get(name) if name in self.given else self.env.get(name)
            if name not in named and isinstance_of(value, TracedArray) and name not in self.later:
                if id(value.storage) in moved and name in self.before_names():
                    raise Again(f"{name} looks at an array that other names have in turn")
        for argument in self.tracing.arguments:
            if argument.leaf is None and id(argument.storage) in moved:
                raise NotALoop("arrays that the function reaches by a name change places")
        if any(not slot.memory and self._looks(slot) for slot in self.slots):
            raise NotALoop("a view of an array is carried, and the array is written into")

    def before_names(self) -> set[str]:
        """Names that stood for something before the loop, and are not assigned in it."""
        return {*self.source.read} - {*self.source.carried, *self.source.later}

    def _looks(self, slot: _Slot) -> bool:
        """Whether what a slot began with is a view of memory that the loop writes into."""
        value = self.given[slot.names[0]]
        return not value.generic and any(
            other.storage is value.storage for other in self.slots if other.memory
        )

    @property
    def early(self) -> bool:
        """Whether a condition may end the loop before its range does."""
        return self.data or bool(self.tests) or self.source.tested

    def _find_lengths(self) -> None:
        """Lengths that numbers are, those of numbers that change, and those that calls tell."""
        self.integers = integers_in(self.tracing)
        self.moving = {symbol for symbol, (name, _) in self.integers.items()
                       if name in self.symbols}  # fmt: skip
        self.told_inside = self.tracing.late - self.before.late

    def _guards(self) -> list[tuple[str, bool]]:
        """Conditions that hold in every iteration; those of the whole loop stay with the trace."""
        symbols, tracing = self.symbols, self.tracing
        found: list[tuple[str, bool]] = []
        for text, value in list(tracing.value_guards.items()):
            spelled = self.spelled(text)
            if not self.told_inside.isdisjoint(scalar_symbols(spelled)):
                raise NotALoop("a length that only a call in it tells decides what it does")
            if symbols.isdisjoint(scalar_symbols(spelled)):
                continue
            if value is not True or not _DOMAIN.fullmatch(text):
                raise NotALoop("its index, or a number that it changes, decides what it does")
            del tracing.value_guards[text]
            text = spelled
            found.append((text, True))
            if scalar_symbols(text) & symbols == {self.index.text}:
                self._check_range(lambda numbers, text=text: evaluate_scalar(text, numbers))  # type: ignore[misc]
        for left, right in tracing.guards:
            names = {s for dim in (left, right) for s in dims.symbols(dim)} & self.moving
            if names and {self.integers[name][0] for name in names} == {self.index.text}:
                self._check_range(
                    lambda numbers, left=left, right=right:  # type: ignore[misc]
                    dims.evaluate(left, numbers) == dims.evaluate(right, numbers)
                )
        return found

    def spelled(self, text: str) -> str:
        """A host expression with lengths as they were found to be; moving ones are numbers."""
        names: dict[str, str] = {}
        for symbol in scalar_symbols(text) & self.tracing.sizes.keys():
            dim = self.tracing.resolve(dims.symbol(symbol))
            numbers = {name: f"{self.integers[name][1]} * {self.integers[name][0]}"
                       for name in self.moving.intersection(dims.symbols(dim))}  # fmt: skip
            names[symbol] = rename_scalars(str(dim), numbers)
        return rename_scalars(text, names)

    def _check_range(self, holds: Callable[[dict[str, int]], Any]) -> None:
        """Refuse what some iterations surely meet otherwise; the others look at each index.

        Raises:
            Again: only the first iteration is as the one that was looked at.
        """
        loop, tracing, index = self.loop, self.tracing, self.index.text
        span = range(_hint(loop._start), _hint(loop._stop), loop._step)
        own = [(symbol, sign) for symbol, (name, sign) in self.integers.items() if name == index]
        for place in (span[0], span[1 % len(span)], span[len(span) // 2], span[-1]):
            numbers = {**tracing.numbers(), index: place}
            numbers.update({symbol: sign * place for symbol, sign in own})
            if not holds(numbers) or any(numbers[symbol] < 0 for symbol, _ in own):
                kind = NotALoop if loop._peeled or place == span[0] else Again
                raise kind("what it does depends on its index")

    # -- what stands for the loop ---------------------------------------------------------------

    def _replace(self, body: _Body) -> dict[str, Any]:
        """Put the call of the region in; what names stand for after it."""
        tracing, loop, before = self.tracing, self.loop, self.before
        count, here = loop._count()
        if self.early:
            here = self._early_count()
        elif not loop._constant:
            if here < self.depth:
                raise NotALoop(f"{here} iterations leave arrays from before the loop")
            tracing.guard_value(f"({count}) >= {self.depth}", True)
            if self.period > 1:
                tracing.guard_value(f"({count}) % {self.period}", here % self.period)
        elif here < self.depth:
            raise NotALoop("few iterations")
        written = {id(slot) for slot in self.slots if self._is_written(slot)}
        lefts, memories = self._left(), [slot.storage for slot in self.slots]
        text = body.text()
        before.put_back_calls()
        before.put_back_memory()
        self._drop_late()
        number = tracing.extern_count
        tracing.extern_count += 1
        line = loop._source.where

        def result(place: int, like: Node, generic: bool) -> Node:
            if generic and not all(isinstance(a.array, _OF_NUMPY) for a in tracing.arguments):
                raise NotALoop("a number is carried that is no scalar of NumPy's")
            mark = "scalar " if generic else ""
            shape = tuple(map(tracing.resolve, like.shape))
            payload = opaque_calls.read(f"{number}.{place} {mark}{text}")
            node = intern(TABLE["extern"], tuple(body.operands), shape, like.dtype, payload)
            tracing.externs[id(node)] = (node, LATER)
            tracing.lines.setdefault(id(node), line)
            tracing.kept.append(node)
            return node

        bound: dict[str, Any] = {}
        self.counted = ""
        if body.leaving.counted:
            length = tracing.new_late_length(self.depth)
            like = make_input("x0", np.dtype(bool), (length,))
            result(len(self.targets), like, False)
            self.counted = count = str(length)
        for place, slot in enumerate(self.slots):
            path = self.cycle.get(id(slot))
            if path is None or (self.early and len(path) > 1):
                node = result(place, slot.placeholder, slot.generic)
                made = TracedArray.make(tracing, Storage(node), (), slot.generic)
                bound.update(dict.fromkeys(slot.names, made))
                continue
            last = path[here % len(path)]
            if any(id(each) in written for each in path):
                memory = memories[self.slots.index(last)]
                tracing.note_write(memory.argument)
                memory.replace(result(place, slot.placeholder, False))
            for name in slot.names:
                bound[name] = self.given[last.names[0]] if last.names else self.given[name]
        for place, name in enumerate(self.later, len(self.slots)):
            target = self.targets[place]
            if isinstance(target, _Slot):
                bound[name] = self.given[target.names[0]]
                continue
            left = lefts[name]
            node = result(place, left.node, left.generic)
            bound[name] = TracedArray.make(tracing, Storage(node), (), left.generic)
        for name in self.numbers:
            if name in self.source.kept:
                bound[name] = self._last_number(name, count, here)
        if self.source.index_read:
            bound[self.source.index] = self._last_index(count, here)
        return bound

    def _early_count(self) -> int:
        """Iterations that are known of a loop that a condition ends."""
        named = {name for path in self.cycle.values() if len(path) > 1
                 for slot in path for name in slot.names}  # fmt: skip
        for path in self.cycle.values():
            for slot in path if len(path) > 1 else ():
                others = [name for name, value in self.env.items() if name not in named
                          and isinstance_of(value, TracedArray)
                          and value.storage is slot.storage]  # fmt: skip
                if slot.storage.argument is not None or others or not slot.names:
                    raise NotALoop("arrays that others see change places until a condition holds")
        return self.depth

    @property
    def least(self) -> int:
        """Iterations without which the results are not those of the region."""
        depth = max(self.depth, 1 + self.twice)
        if self.later or self.twice:
            return depth
        seen = [slot for slot in self.slots if id(slot) not in self.cycle and not slot.generic]
        for slot in seen:
            owner = self.given[slot.names[0]].storage
            held = [name for name, value in self.loop_env.items()
                    if isinstance_of(value, TracedArray) and value.storage is owner]  # fmt: skip
            if owner.argument is not None or owner.shared or held != slot.names:
                return self.depth
        return 0 if self.depth == 1 else self.depth

    def _last_number(self, name: str, count: str, here: int) -> Any:
        """What a number is after the last iteration: an integer that each adds the same to."""
        first, left = self.given[name], self.env[name]
        number = self.numbers[name]
        found = re.fullmatch(rf"{number.text} ([+-]) (\d+)", left.text) if not (
            _is_number(left) and type(left) is not HostScalar) else None  # fmt: skip
        if found is None or number.kind is not int:
            raise NotALoop(f"{name} is read after the loop")
        step = int(found[2]) * (1 if found[1] == "+" else -1)
        if not self.counted and self.loop._constant:
            if type(first) is int:
                return first + here * step
        hint = _hint(first) + here * step
        return HostScalar(self.tracing, f"({_text(first)}) + ({count}) * ({step})", hint)

    def _last_index(self, count: str, here: int) -> Any:
        """The index of the last iteration."""
        loop = self.loop
        hint = _hint(loop._start) + (here - 1) * loop._step
        if loop._constant and not self.counted:
            return hint
        text = f"({_text(loop._start)}) + (({count}) - 1) * ({loop._step})"
        return HostScalar(self.tracing, text, hint)

    def _drop_late(self) -> None:
        """Forget what was found of lengths that only the body tells."""
        tracing = self.tracing
        gone = self.told_inside | self.moving
        symbols = self.symbols
        tracing.told = {k: dim for k, dim in tracing.told.items() if k not in symbols}
        if gone:
            tracing.guards = [
                pair for pair in tracing.guards
                if gone.isdisjoint(s for dim in pair for s in dims.symbols(dim))
            ]  # fmt: skip
            for text in [t for t in tracing.value_guards if scalar_symbols(t) & gone]:
                del tracing.value_guards[text]
            tracing.common = {}


def integers_in(tracing: Any) -> dict[str, tuple[str, int]]:
    """Lengths that numbers are: by symbol, the number's name, and -1 where it is less than 0."""
    found: dict[str, tuple[str, int]] = {}
    for name, dim in tracing.told.items():
        (symbol,) = dims.symbols(dim)
        if name in {number.text for number, _ in tracing.scalars}:
            found[symbol] = name, 1 if dims.symbol(symbol) == dim else -1
    return found


def _is_number(value: Any) -> bool:
    """Whether a value is a Python number whose arithmetic a trace follows."""
    return type(value) in (int, float) or (type(value) is HostScalar and value.kind is not bool)


class _Body:
    """The body of a loop as a graph of its own: what it takes from outside is cut off."""

    def __init__(self, found: _Pass) -> None:
        """Begin with what passes have found."""
        self._pass, self._tracing, self._before = found, found.tracing, found.before
        self.operands: list[Node] = [slot.initial for slot in found.slots]
        self._fixed: list[Node] = []
        self._numbers: dict[str, str] = {}  # names in the body, by text outside
        self._kinds: list[Any] = []
        self._arguments: list[Argument] = []
        self._new: dict[int, Node] = {}
        self._of_loop = {found.index.text, *(n.text for n in found.numbers.values())}
        self._changing = self._of_loop | found.moving | found.told_inside

    def build(self, guards: Sequence[tuple[str, bool]]) -> None:
        """Make the graph; `guards`: what holds in every iteration."""
        found, tracing = self._pass, self._tracing
        for number in (found.index, *found.numbers.values()):
            self._named(number.text, number.hint)
        for place, slot in enumerate(found.slots):
            self._add_array(slot.placeholder, place)
        calls = [n for n, _ in tracing.externs.values() if id(n) not in
                 {id(old) for old, _ in self._before._saved["externs"].values()}]  # fmt: skip
        news = [t for t in found.targets if not isinstance(t, _Slot)]
        finals = [slot.storage.node for slot in found.slots]
        finals += [new.storage.node for new in news] + calls
        self._cut(finals)
        self._rebuild(finals)
        self._guards = tuple((self._spelled(text), truth) for text, truth in guards)
        self._updates = {
            self._numbers[number.text]: self._after(found.env[name])
            for name, number in found.numbers.items()
        }
        tests = tuple(self._spelled(f"({value.text}) != 0" if value.kind is not bool
                                    else value.text) for value in found.tests)  # fmt: skip
        counted = found.early and (
            found.source.index_read or any(name in found.source.kept for name in found.numbers)
        )
        going = len(found.targets) - 1 if found.data else -1
        least = found.least if found.early else 0
        if counted and found.source.index_read:
            least = max(least, 1)
        self.leaving = loops.Leaving(going, tests, least, counted)
        self._check_lengths()
        inner = self._inner(calls)
        for slot, argument in zip(found.slots, self._arguments, strict=False):
            argument.storage.node = self._new[id(slot.storage.node)]
        results = [self._result(inner, target) for target in found.targets]
        self.trace: Trace = finish(inner, tuple(results))
        if self.trace.value_guards or self.trace.in_order:
            raise NotALoop("its arrays have to be of a kind that only a call tells")

    def _result(self, inner: Any, target: Any) -> Any:
        """What an iteration leaves in one place, in terms of the body's own trace."""
        if isinstance(target, _Slot):
            place = self._pass.slots.index(target)
            return TracedArray.make(inner, self._arguments[place].storage, (), target.generic)
        storage = Storage(self._new[id(target.storage.node)])
        return TracedArray.make(inner, storage, target.views, target.generic)

    def _named(self, text: str, hint: Any) -> str:
        """The body's name of a number."""
        known = self._numbers.get(text)
        if known is None:
            if type(hint) not in (bool, int, float):
                raise NotALoop(f"a number of type {type(hint).__name__}")
            known = self._numbers[text] = f"s{len(self._numbers)}"
            self._kinds.append(hint)
        return known

    def _add_array(self, node: Node, leaf: int) -> None:
        """A parameter for an array."""
        shape = tuple(map(self._tracing.resolve, node.shape))
        made = make_input(f"x{len(self._arguments)}", node.dtype, shape)
        self._arguments.append(Argument(Storage(made, len(self._arguments)), None, made, leaf))
        self._new[id(node)] = made

    def _cut(self, finals: Sequence[Node]) -> None:
        """Find what iterations take from outside: arrays and costly values alike in all of them."""
        changes: dict[int, bool] = {}
        plain: dict[int, bool] = {}  # made of numbers alone
        mine = set(map(id, finals))
        for node in walk(finals):
            below = any(changes[id(arg)] for arg in node.args)
            texts = _texts(node)
            below = below or any(not self._changing.isdisjoint(scalar_symbols(t)) for t in texts)
            below = below or not self._changing.isdisjoint(self._lengths(node))
            ours = id(node) in self._new or (node.op.is_opaque and id(node) in mine)
            changes[id(node)] = below or ours
            leaf = node.op.is_scalar or node.op.is_constant
            plain[id(node)] = leaf or (
                bool(node.args) and all(plain[id(a)] for a in node.args)
                and not node.op.is_opaque
            )  # fmt: skip
        stack, seen = list(finals), set()
        while stack:
            node = stack.pop()
            if id(node) in seen or id(node) in self._new:
                continue
            seen.add(id(node))
            known = id(node) in self._before.lines or node.op.is_input or node.op.is_opaque
            costly = node.op.heavy or node.op.reduction
            if not changes[id(node)] and not plain[id(node)] and (known or costly):
                self._fixed.append(node)
                self._add_array(node, len(self._arguments))
                continue
            stack.extend(node.args)
        self.operands += self._fixed

    def _lengths(self, node: Node) -> set[str]:
        """The lengths that a node speaks of, as they were found to be."""
        symbols = map(dims.symbol, lengths_of([node]))
        return {s for dim in map(self._tracing.resolve, symbols) for s in dims.symbols(dim)}

    def _rebuild(self, finals: Sequence[Node]) -> None:
        """Make the body's nodes again, of its own parameters."""
        lines: dict[int, str] = {}
        stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(finals)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self._new:
                continue
            if node.args and not ready:
                stack.append((node, True))
                stack.extend((arg, False) for arg in node.args)
                continue
            args = tuple(self._new[id(arg)] for arg in node.args)
            made = self._made(node, args)
            self._new[id(node)] = made
            if id(node) in self._tracing.lines:
                lines.setdefault(id(made), self._tracing.lines[id(node)])
        self.lines = lines

    def _made(self, node: Node, args: tuple[Node, ...]) -> Node:
        """One node in terms of the body's parameters."""
        if node.op.is_scalar:
            return make_scalar(self._spelled(node.payload.expression, True), node.dtype)
        if node.op.is_input:
            raise NotALoop("it reads an array of a loop around it")
        payload = node.payload
        if node.op.is_opaque:
            payload = opaque_calls.read(opaque_text.respell(payload.text, self._spelled))
        return intern(node.op, args, node.shape, node.dtype, payload)

    def _spelled(self, text: str, in_kernel: bool = False) -> str:
        """A host expression in the body's terms: what iterations have in common is one number.

        Lengths that calls in the body tell are known to kernels after them alone.
        """
        text = self._pass.spelled(text)
        symbols = scalar_symbols(text)
        numbers = self._tracing.numbers()
        inside = symbols & self._pass.told_inside
        if inside and not in_kernel:
            raise NotALoop("a length that only a call in it tells is a number in it")
        if not inside and self._of_loop.isdisjoint(symbols):
            return self._named(text, evaluate_scalar(text, numbers))
        for symbol in sorted(symbols - inside):
            self._named(symbol, numbers[symbol])
        return rename_scalars(text, self._numbers)

    def _check_lengths(self) -> None:
        """Refuse lengths that no array of the body tells."""
        resolve = self._tracing.resolve
        told = {str(dim) for a in self._arguments for dim in a.initial.shape}
        news = list(self._new.values())
        told |= {str(resolve(dim)) for n in news if n.op.is_opaque for dim in n.shape}
        symbols = {s for name in lengths_of(news) for s in dims.symbols(resolve(dims.symbol(name)))}
        self._told: dict[str, tuple[str, int]] = {}  # integers in lengths: their names in the body
        for symbol in sorted(symbols & self._pass.integers.keys()):
            name, sign = self._pass.integers[symbol]
            if name not in self._of_loop:
                self._named(name, self._tracing.numbers()[name])
            self._told[symbol] = self._numbers[name], sign
        told |= self._told.keys()
        for name in lengths_of(news):
            if not told.issuperset(dims.symbols(resolve(dims.symbol(name)))):
                raise NotALoop("a length in it is that of no array in it")

    def _inner(self, calls: Sequence[Node]) -> Any:
        """A trace of the body alone."""
        tracing = self._tracing
        inner = copy.copy(tracing)
        inner.arguments = self._arguments
        count = len(self._arguments)
        used = {s for n in self._new.values() for t in _texts(n) for s in scalar_symbols(t)}
        used |= {name for name, _ in self._told.values()}
        numbers = zip(self._numbers.values(), self._kinds, strict=True)
        inner.scalars = [
            (HostScalar(inner, name, hint), count + place)
            for place, (name, hint) in enumerate(each for each in numbers if each[0] in used)
        ]
        known = {s for n in self._new.values() for dim in n.shape for s in dims.symbols(dim)}
        known |= {s for dim in map(tracing.resolve, map(dims.symbol, known))
                  for s in dims.symbols(dim)}  # fmt: skip
        told = {s for a in self._arguments for dim in a.initial.shape for s in dims.symbols(dim)}
        told |= {s for n in self._new.values() if n.op.is_opaque for dim in n.shape
                 for s in dims.symbols(tracing.resolve(dim))}  # fmt: skip
        told |= self._told.keys()
        inner.guards = [
            (dims.symbol(symbol), dims.symbol(name) * sign)
            for symbol, (name, sign) in self._told.items()
        ]  # fmt: skip
        integers = {name for name, _ in self._pass.integers.values()}
        for pair in tracing.guards:
            spoken = {s for dim in pair for s in dims.symbols(tracing.resolve(dim))}
            if not integers.isdisjoint(spoken):
                continue  # which length a number is: said above
            if spoken <= told:
                inner.guards.append(pair)
            elif not spoken.isdisjoint(self._changing):
                raise NotALoop("a length that changes has to be that of no array in it")
        inner.value_guards, inner.hazards, inner.written = {}, {}, {}
        inner.in_order, inner.optional, inner.captured = {}, {}, {}
        inner.told = {
            name: dims.symbol(symbol) * sign for symbol, (name, sign) in self._told.items()
        }
        inner.spare, inner.seen = set(), set()
        values = {id(n): v for n, v in tracing.externs.values()}
        inner.externs = {
            id(self._new[id(n)]): (self._new[id(n)], values[id(n)]) for n in calls
        }
        inner.lines, inner.kept = dict(self.lines), list(self._new.values())
        inner.names = [*(self._title(k) for k in range(count))]
        inner.names += [scalar.text for scalar, _ in inner.scalars]
        return inner

    def _title(self, place: int) -> str:
        """What the user calls an array of the body."""
        slots = self._pass.slots
        if place < len(slots):
            return slots[place].names[0] if slots[place].names else f"array {place}"
        node = self._fixed[place - len(slots)]
        for name in self._pass.source.read:
            value: Any = self._pass.env.get(name)
            if isinstance_of(value, TracedArray) and value.storage.node is node:
                return name
        return f"value {place}"

    def text(self) -> str:
        """The call of the region."""
        found, trace, loop = self._pass, self.trace, self._pass.loop
        results = [self._left(leaf, place) for place, leaf in enumerate(trace.leaves)]
        written = {id(slot) for slot in found.slots if found._is_written(slot)}
        copied = tuple(
            any(id(each) in written for each in found.cycle.get(id(slot), ()))
            for slot in found.slots
        )
        writes = [(k, output, region.text if region else "") for k, output, region in trace.writes]
        index = self._numbers[found.index.text]
        body = loops.spell(
            trace.graph, results, writes, index, self._updates, self._guards, copied, self.leaving
        )
        span = ", ".join(_host(bound) for bound in (loop._start, loop._stop))
        marks = ["[()]" if slot.generic else "" for slot in found.slots]
        roles = "".join(f"a{k}{mark}, " for k, mark in enumerate(marks))
        fixed = "".join(f"a{k}, " for k in range(len(marks), len(self.operands)))
        firsts = {n.text: _text(found.given[name]) for name, n in found.numbers.items()}
        given = ", ".join(
            f"{name}=host({firsts.get(text, text)!r})"
            for text, name in self._numbers.items() if text != found.index.text
        )  # fmt: skip
        holds = "".join(f"{text}, " for text in self._first())
        return (f"{loops.NAME}({body}, ({span}, {loop._step}), ({roles}), ({fixed}), "
                f"dict({given}), ({holds}))")  # fmt: skip

    def _first(self) -> Iterator[str]:
        """Yield what has to be true for the first iteration."""
        for value in self._pass.loop._first:
            if type(value) is HostScalar:
                yield f"host({value.text!r})"
            elif not _is_plain(value):
                yield f"a{len(self.operands)}[()]"
                self.operands.append(as_truth(value).node)

    def _after(self, left: Any) -> str:
        """What the next iteration has for a number."""
        return self._spelled(left.text) if type(left) is HostScalar else repr(left)

    def _left(self, leaf: Any, place: int) -> str:
        """What an iteration leaves in one place, see `loops.Region.results`."""
        if isinstance(leaf, OutAlias) and not leaf.views:
            name = str(self.trace.graph.parameters[leaf.parameter].name)
            return "" if leaf.parameter == place else name
        if isinstance(leaf, OutNode):
            return f"{leaf.index}{'[()]' if leaf.generic else ''}"
        raise NotALoop("what it leaves is a view of a new array")


def _texts(node: Node) -> list[str]:
    """The host expressions in a node."""
    if node.op.is_scalar:
        return [node.payload.expression]
    return list(node.payload.numbers) if node.op.is_opaque else []


def _host(bound: Any) -> str:
    """A bound of the range as the call's text has it."""
    return f"host({bound.text!r})" if type(bound) is HostScalar else repr(bound)

