"""Passes over the body of a loop: placeholders go in, and what the body leaves is looked at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fuser.base.host_expressions import scalar_symbols
from fuser.base.records import record
from fuser.capture.before import Again, Before, NotALoop, isinstance_of
from fuser.capture.choices import truth_node
from fuser.capture.codes import UNROLLED_OPERATIONS
from fuser.capture.loop_values import UNBOUND, Slot, Span, hint_of, is_number, is_written, text_of
from fuser.capture.staging import LoopSource, place_of
from fuser.ir.graph import Node, make_constant, make_input, walk
from fuser.tracing.admitted_dtypes import is_known
from fuser.tracing.indices import length_of
from fuser.tracing.late_numbers import LATE, LateNumber, count_node
from fuser.tracing.makers import blank
from fuser.tracing.trace_state import Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_memory import TracedMemory
from fuser.tracing.traced_scalars import HostScalar

#: So many writes into parts of arrays may the iterations of a loop have that is unrolled, see
#: `UNROLLED_OPERATIONS`.
UNROLLED_WRITES = 8
#: Bytes of an array for what a loop may append to a list until it ends early, and the most and the
#: fewest items that there is room for where their number is not known.
_ROOM = 1 << 30
_MANY = 1 << 16
_FEW = 64
#: Numbers of placeholders' names: no argument has such a one.
_FIRST = 1_000_000


@record
class Looked:
    """What passes over a loop's body have found that it changes.

    The loops in a loop are met in each pass over that one's body. With what was found the first
    time they need one look each; without it, there would be three times as many for each depth.
    """

    hidden: tuple[Storage, ...] = ()
    written: tuple[Storage, ...] | None = None
    changing: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@record
class Appended:
    """What an iteration appends to a list.

    Attributes:
        value: it, or what holds it.
        kind: see `StackedList`.
        shape: of an array, else none.
        dtype: of the array that NumPy makes of several.
        node: what an array holds then.
        place: how many items it has appended, where some iterations append nothing.
        alone: nothing but the list leads to it.
    """

    value: Any
    kind: str
    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    node: Node | None = None
    place: Any = None
    alone: bool = False

    @classmethod
    def of(cls, value: Any, place: Any, alone: bool) -> Appended:
        """Look at it.

        Raises:
            NotALoop: it is no array and no number.
        """
        if isinstance_of(value, TracedArray):
            kind = "scalar" if value.generic else "array"
            node = value.storage.node
            return cls(value, kind, value.shape, value.dtype, node, place, alone)
        if type(value) is LateNumber:
            return cls(value, value.kind, (), value.dtype, None, place)
        of = value.kind if type(value) is HostScalar else type(value)
        if of in (bool, int, float):
            return cls(value, f"py{of.__name__}", (), np.dtype(of), None, place)
        raise NotALoop(f"a list of {of.__name__}s is appended to")


_NO_ROOMS: Mapping[str, TracedArray] = MappingProxyType({})


class Pass:
    """Passes over the body of one loop: what it finds, what it leaves, and what that is."""

    def __init__(
        self, tracing: Any, source: LoopSource, span: Span, env: dict[str, Any],
        first: Sequence[Any], peeled: bool, over: tuple[TracedArray, ...],
        looked: Looked, older: Before | None = None, rooms: Mapping[str, TracedArray] = _NO_ROOMS,
    ) -> None:  # fmt: skip
        """Look at the function's variables before the loop.

        Args:
            tracing: the trace.
            source: what the source says of the loop.
            span: the range.
            env: the function's variables.
            first: what has to be true for the first iteration.
            peeled: whether it is the loop's second iteration, as the first one was unrolled.
            over: the arrays that the loop goes over.
            looked: what was found in it before, of memory that may be other memory now.
            older: the trace before the first iteration, where that is unrolled.
            rooms: arrays for what the loop appends to lists, by the lists' names.
        """
        self.tracing, self.source, self.span = tracing, source, span
        self.first, self.peeled = list(first), peeled
        self.over = over
        self.found_env, self.rooms = env, rooms
        self.lengths = {name: len(env[name]) for name in source.lists}
        self.appended: dict[str, Appended] = {}
        self.loop_env = env | {f"array {k} of the loop": array for k, array in enumerate(over)}
        self.loop_env |= {f"room of {name}": array for name, array in rooms.items()}
        self.before = Before(self.tracing, self.loop_env)
        self.ends_early = self.source.tested or self.source.breaks
        self.wanted = list(self.source.carried)
        if peeled and self.ends_early:  # which need not run again
            self.wanted += self.source.later
        self.carried = [name for name in self.wanted if name in env]
        self.set_later = [name for name in self.source.later if name not in self.wanted]
        self.conditions: list[Any] = []
        self.decided = False  # both branches of an `if` have run
        self.values_decide = False  # of one that more than the index decides
        self.twice = False  # it is known what two iterations leave, and not what one does
        self.given = {name: env[name] for name in self.carried}
        self.hidden: list[Storage] = []
        self.changing: dict[str, None] = {}  # numbers that iterations change
        self.flags: dict[str, None] = {}  # truth values that iterations change
        #: kinds of the numbers that they change as values decide, and of floats that are read after
        #: the loop, which tells them
        self.late = {name: value.kind for name, value in self.given.items()
                     if type(value) is LateNumber and value.kind in LATE}  # fmt: skip
        self.scalars: dict[str, None] = {}  # NumPy's scalars that they change
        self.own: dict[str, None] = {}  # arrays that they make, write into and make anew
        self._older = older
        self.written: list[Storage] | None = None
        self._weighed = False
        memory = set(map(id, self.before.memory()))
        if all(id(each) in memory for each in looked.hidden):
            self.hidden = list(looked.hidden)
            names = [n for n in looked.changing if is_number(self.given.get(n, UNBOUND))]
            self.changing = dict.fromkeys(n for n in names if n not in self.late)
            self.flags = {name: None for name in looked.flags if name in self.given}
            if looked.written is not None:
                self.written = [each for each in looked.written if id(each) in memory]

    @property
    def looked(self) -> Looked:
        """What has been found, for when the loop is met again."""
        written = None if self.written is None else tuple(self.written)
        return Looked(tuple(self.hidden), written, tuple(self.changing), tuple(self.flags))

    def found(self) -> dict[str, Any]:
        """What the names that the body assigns to stood for before the loop."""
        return {name: self.loop_env.get(name, UNBOUND) for name in self.source.assigned}

    # -- the beginning of a pass ----------------------------------------------------------------

    def begin(self) -> tuple[dict[str, Any], HostScalar]:
        """Put placeholders in; what names and the index are to stand for."""
        tracing = self.tracing
        self.before.put_back()
        self.appended = {}
        for storage in self.written or ():  # in the second iteration reads come after all writes
            tracing.note_write(storage.argument)
        self.slots: list[Slot] = []
        self.numbers: dict[str, HostScalar] = {}
        bound: dict[str, Any] = {}
        for name, value in self.given.items():
            if isinstance_of(value, TracedArray):
                bound[name] = self._placed(name, value)
            elif name in self.flags:
                slot = self._add_slot([name], None, truth_node(value), True, False)
                bound[name] = TracedArray.make(tracing, slot.storage, (), True)
            elif name in self.scalars:
                slot = self._add_slot([name], None, make_constant(value, value.dtype), True, False)
                bound[name] = TracedArray.make(tracing, slot.storage, (), True)
            elif kind := self.late.get(name):
                slot = self._add_slot([name], None, LATE[kind][1](value), True, False)
                bound[name] = LateNumber(tracing, slot.placeholder, kind)
            elif name in self.changing:
                self.numbers[name] = bound[name] = self._number(hint_of(value))
        known = [slot.storage for slot in self.slots]
        for storage in self.hidden:
            if storage not in known:
                self._add_slot([], storage, storage.node, False, True)
        self.index = self._number(hint_of(self.span.start))
        return bound, self.index

    def _placed(self, name: str, value: Any) -> Any:
        """A stand-in for what a name stands for in any iteration."""
        whole = not value.views and not value.generic and name not in self.own
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
    ) -> Slot:
        """A carried array."""
        shape = tuple(map(self.tracing.resolve, initial.shape))
        node = make_input(f"x{_FIRST + len(self.tracing.placeholders)}", initial.dtype, shape)
        self.tracing.placeholders[node.payload.name] = initial
        if storage is None:
            storage = Storage(node)
        else:
            storage.node = node
        found = Slot(names, storage, node, initial, generic, memory)
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

    # -- lists ----------------------------------------------------------------------------------

    def append(self, name: str, value: Any, place: Any, env: Mapping[str, Any]) -> None:
        """Note what an iteration appends to a list, and where; `env`: the function's variables."""
        alone = isinstance_of(value, TracedArray) and self._is_alone(value.storage, env)
        self.appended[name] = Appended.of(value, place, alone)

    def _is_alone(self, storage: Storage, env: Mapping[str, Any]) -> bool:
        """Whether the iteration has made an array, and no variable leads to it."""
        known = id(storage) in self.before.storages or any(s.storage is storage for s in self.slots)
        if known or storage.shared or storage.reshapes or storage.argument is not None:
            return False
        waiting = list(env.values())
        while waiting:
            value = waiting.pop()
            if isinstance_of(value, (tuple, list)):
                waiting.extend(value)
            elif isinstance_of(value, dict):
                waiting.extend(value.values())
            elif isinstance_of(value, TracedMemory) and value.storage is storage:
                return False
        return True

    def counted(self, count: Any) -> Any:
        """One more than a number that the loop tells."""
        one = self.tracing.wrap(count_node(count), True)
        return LateNumber(self.tracing, (one + np.int64(1)).node, "pyint")

    def write_lists(self) -> bool:
        """Write what the iteration has appended where there is room for it; whether there is.

        Where it appends nothing it ends the loop: nobody looks at that item.

        Raises:
            NotALoop: later iterations may write into it.
        """
        if self.appended.keys() != self.rooms.keys():
            return False
        start, step = self.span.start, self.span.step
        for name, item in self.appended.items():
            self._check_kept(name, item)
            if item.place is not None:
                place = item.place - self.found_env[place_of(name)]
            elif step in (1, -1):
                place = self.index - start if step > 0 else start - self.index
            else:
                raise NotALoop(f"a loop in steps of {step} appends to a list")
            value = item.value
            if type(value) is LateNumber:
                value = self.tracing.wrap(value.node, True)
            self.rooms[name][place] = value
        return True

    def _check_kept(self, name: str, item: Appended) -> None:
        """See that what is appended stays as it is: a list keeps arrays, and no copies of them."""
        if item.kind != "array" or item.alone:
            return
        rooms = [array.storage for array in self.rooms.values()]
        for slot in self.slots:
            kept = slot.memory and slot.storage is not item.value.storage and not self.decided
            if is_written(slot) and slot.storage not in rooms and not kept:
                raise NotALoop(f"{name} is a list of arrays that are written into")
        chosen = self.decided and item.value.storage.shared
        if chosen or item.value.storage.node is not item.node:
            raise NotALoop(f"{name} is a list of arrays that are written into")

    def computes(self) -> bool:
        """Whether what is appended takes more than a part of an array, or a number's arithmetic."""
        nodes = (item.value.node for item in self.appended.values()
                 if hasattr(item.value, "node"))  # fmt: skip
        return any(
            node.op.is_opaque or any(dim != 1 for part in (node, *node.args) for dim in part.shape)
            for node in walk(list(nodes))
            if id(node) not in self.before.lines and node.args and not node.op.is_view
        )

    def make_rooms(self) -> dict[str, TracedArray]:
        """Arrays for what the iterations append; the trace is as it was before the loop.

        Raises:
            NotALoop: what they append is of no one shape and kind.
        """
        self.before.put_back()
        text, here = self.span.count()
        if here < 1:
            raise NotALoop("a list that it appends to stays empty")
        count: Any = here if self.span.constant else HostScalar(self.tracing, text, here)
        if not self.span.constant:
            self.tracing.guard_value(f"({text}) >= 1", True)
        found = {}
        for name, item in self.appended.items():
            texts = [length.text for length in item.shape if type(length) is HostScalar]
            if any(not self.symbols.isdisjoint(scalar_symbols(each)) for each in texts):
                raise NotALoop(f"{name} is a list of arrays of several shapes")
            some = self.ends_early or name in self.source.passed
            length = self._room_of(name, count, item) if some else count
            lengths = (length, *item.shape)
            dims = tuple(length_of(n) if type(n) is HostScalar else int(n) for n in lengths)
            room = Storage(blank(self.tracing, dims, item.dtype))
            found[name] = TracedArray.make(self.tracing, room, (), False)
        return found

    def _room_of(self, name: str, count: Any, item: Appended) -> Any:
        """How many items have room where a loop may end before it has appended `count` of them.

        Where nothing says how many there are, or that is too many, there is room for a number of
        them; a loop that appends more is NumPy's.
        """
        most = _ROOM // item.dtype.itemsize
        row = math.prod(map(int, map(hint_of, item.shape)))
        if not self.source.tested:
            fits = hint_of(count) * row <= most
            self._limit((count, *item.shape), most, fits)
            if fits:
                return count
        found = min(_MANY, 1 << max(0, (most // max(row, 1)).bit_length() - 3))
        if found < _FEW:
            raise NotALoop(f"{name} is a list that may become too long")
        self._limit((found, *item.shape), most, True)
        return found

    @property
    def is_limited(self) -> bool:
        """Whether some list has room for fewer items than there may be iterations."""
        lengths = [room.dims[0] for room in self.rooms.values()]
        return any(type(n) is int and n < len(self.span.here) for n in lengths)

    def _limit(self, lengths: Sequence[Any], most: int, fits: bool) -> None:
        """Hold that an array of some lengths has at most so many elements, or more."""
        if any(type(n) is HostScalar for n in lengths):
            product = " * ".join(f"({text_of(n)})" for n in lengths)
            self.tracing.guard_value(f"{product} <= {most}", fits)

    # -- what a pass has left -------------------------------------------------------------------

    def look(self, env: Mapping[str, Any]) -> bool:
        """Whether another pass is needed, which knows more of what the body changes.

        Raises:
            NotALoop: it is not the same function of what the one before leaves.
            Again: what it leaves is of another kind than what it finds.
        """
        self.env = env
        if self._finds_more() or self._finds_own():
            return True
        for name, number in self.numbers.items():
            left = env.get(name, UNBOUND)
            if not is_number(left) or type(hint_of(left)) is not number.kind:
                raise Again(f"{name} becomes another kind of value")
        if self.span.constant and not (self._weighed or self.conditions or self.values_decide):
            self._weighed = True
            self._weigh()
        written = [slot.storage for slot in self.slots if slot.memory and is_written(slot)]
        known, self.written = self.written, written
        return written != known

    def _finds_own(self) -> bool:
        """Whether a name is written into and then stands for a new array, and nobody sees either.

        The unrolled iteration has made what it stands for, and a body keeps arrays by names alone.
        """
        if any(item.kind == "array" for item in self.appended.values()):
            return False  # lists keep arrays, too
        held = Counter(id(value.storage) for value in self.loop_env.values()
                       if isinstance_of(value, TracedArray))  # fmt: skip
        found = False
        for slot in self.slots:
            name, storage = slot.names[0] if slot.names else "", slot.storage
            left: Any = self.env.get(name)
            alone = slot.memory and held[id(storage)] == 1 and not storage.shared
            if not alone or not is_written(slot) or not isinstance_of(left, TracedArray):
                continue
            known = self._older is None or id(storage) in self._older.storages
            anew = not left.views and all(each.storage is not left.storage for each in self.slots)
            if not known and storage.argument is None and anew and name not in self.own:
                self.own[name] = None
                found = True
        return found

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
            kept = self.flags, self.late, self.scalars
            plain = plain and not any(name in each for each in kept)
            if plain and not self._is_same(value, self.env.get(name, UNBOUND)):
                if name in self.source.flags:
                    self.flags[name] = None
                    found = True
                    continue
                left = self.env.get(name, UNBOUND)
                kind = next((k for k, (is_such, _) in LATE.items()
                             if is_such(value) and is_such(left)), "")  # fmt: skip
                read = kind == "pyfloat" and name in self.source.kept
                if read or (kind and type(left) is LateNumber):
                    self.late[name] = kind
                    found = True
                    continue
                scalar = isinstance(value, np.generic) and type(left) is type(value)
                if scalar and is_known(value.dtype):
                    self.scalars[name] = None
                    found = True
                    continue
                if not is_number(value) or not is_number(left):
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

    def _weigh(self) -> None:
        """Leave short loops to be unrolled, see `UNROLLED_OPERATIONS`."""
        finals = [slot.storage.node for slot in self.slots]
        finals += [v.node for v in self.left().values() if isinstance_of(v, TracedArray)]
        nodes = [node for node in walk(finals) if id(node) not in self.before.lines and node.args]
        count = self.span.count()[1]
        writes = sum(node.op.is_update or node.op.is_opaque for node in nodes)
        if count * writes <= UNROLLED_WRITES and count * len(nodes) <= UNROLLED_OPERATIONS:
            raise NotALoop("")

    def left(self) -> dict[str, Any]:
        """What names stand for after the body, those that matter."""
        names = [*self.carried, *self.set_later]
        return {name: self.env[name] for name in names if name in self.env}
