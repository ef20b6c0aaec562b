"""What names and memory hold after any number of iterations, and what has to hold of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fuser.capture.before import Again, NotALoop, isinstance_of
from fuser.capture.choices import as_truth, truth_node
from fuser.capture.loop_passes import Pass
from fuser.capture.loop_values import UNBOUND, Slot, is_plain, is_written
from fuser.ir import dims
from fuser.ir.graph import Node
from fuser.tracing.late_numbers import LATE
from fuser.tracing.trace_state import Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


class Carried:
    """How the arrays that one iteration leaves become those that the next one finds.

    Attributes:
        tests: numbers that have to be true for another iteration.
        targets: for each carried array, the one that the next iteration has there, or the stand-in
            of a new array; then those of `later`, then what has to be true for another iteration.
        data: whether an array decides on another iteration.
        later: names that the body sets before it reads them, and that are read after the loop.
        place: for each of these, which target it is.
        cycle: by a carried array, those that take its place one after another until it is back.
        period: iterations after which all of these are back.
        depth: iterations after which nothing from before the loop is carried but by these.
    """

    def __init__(self, found: Pass) -> None:
        """Look at what the passes have found.

        Raises:
            NotALoop: it is not the same function of what the one before leaves.
            Again: what it leaves is of another kind than what it finds.
        """
        self._pass, self._tracing, self._source = found, found.tracing, found.source
        self._find_conditions()
        self._find_targets()

    def _find_conditions(self) -> None:
        """What has to be true for another iteration: as numbers, and as an array."""
        self.tests = [value for value in self._pass.conditions if type(value) is HostScalar]
        arrays = [value for value in self._pass.conditions if isinstance_of(value, TracedArray)]
        if any(is_plain(value) and not value for value in self._pass.conditions):
            raise NotALoop("it ends with each iteration")
        self.going: Any = None
        for value in map(as_truth, arrays):
            self.going = value if self.going is None else np.logical_and(self.going, value)
        self.data = self.going is not None

    def _find_targets(self) -> None:
        """For each carried array, the one that the next iteration has there, or a new array."""
        of_storage = {id(slot.storage): slot for slot in self._pass.slots}
        self.targets: list[Any] = []  # a slot, or the stand-in of a new array
        fresh: set[int] = set()
        for slot in self._pass.slots:
            lefts = [self._pass.env.get(name, UNBOUND) for name in slot.names]
            if not slot.names:
                self.targets.append(slot)
                continue
            targets = [self._target(slot, left, of_storage) for left in lefts]
            if any(each is not targets[0] for each in targets):
                raise Again(f"{' and '.join(slot.names)} are one array before the loop")
            self.targets.append(targets[0])
        self.later = [name for name in self._pass.set_later if name in self._pass.env]
        self.place: dict[str, int] = {}
        places = {id(target.storage): place for place, target in enumerate(self.targets)
                  if not isinstance(target, Slot)}  # fmt: skip
        for name in self.later:
            left = self._pass.env[name]
            if not isinstance_of(left, TracedArray):
                raise NotALoop(f"{name} is read after the loop, and is no array")
            target = self._target(None, left, of_storage)
            if isinstance(target, Slot) and self.next_of(target) is not target:
                raise NotALoop(f"{name} is an array that another name has afterwards")
            known = places.get(id(target.storage)) if not isinstance(target, Slot) else None
            if known is not None and not target.generic and self._is_whole(target, known):
                self.place[name] = known  # two names of one new array
                continue
            self.place[name] = len(self.targets)
            places.setdefault(id(target.storage), len(self.targets))
            self.targets.append(target)
        if self.data:
            going = Storage(self.going.node)
            self.targets.append(TracedArray.make(self._tracing, going, (), False))
        arrays = [t.storage for t in self.targets if not isinstance(t, Slot) and not t.generic]
        fresh = set(map(id, arrays))
        kept = [id(t) for t in self.targets[: len(self._pass.slots)] if isinstance(t, Slot)]
        if len(fresh) < len(arrays) or len(set(kept)) < len(kept):
            raise NotALoop("two names become one array")
        for storage in (*arrays, *(slot.storage for slot in self._pass.slots)):
            if storage.shared or storage.reshapes:
                raise Again("a reshape of an array, or what a function gave, may be a view")
        self._follow()

    def _is_whole(self, target: Any, known: int) -> bool:
        """Whether a stand-in is the whole of what a carried array becomes."""
        other = self.targets[known]
        return not (target.views or other.views or other.generic)

    def next_of(self, slot: Slot) -> Any:
        """What the next iteration has in a carried array's place."""
        return self.targets[self._pass.slots.index(slot)]

    def _target(self, slot: Slot | None, left: Any, of_storage: Mapping[int, Slot]) -> Any:
        """What a name stands for after the body: a carried array, or a stand-in of a new one."""
        name = slot.names[0] if slot else "it"
        if name in self._pass.flags and type(left) is bool:
            left = TracedArray.make(self._tracing, Storage(truth_node(left)), (), True)
        kind = self._pass.late.get(name, "")
        if kind and LATE[kind][0](left):
            node = LATE[kind][1](left)
            left = TracedArray.make(self._tracing, Storage(node), (), True)
        elif kind or not isinstance_of(left, TracedArray):
            raise Again(f"{name} becomes another kind of value")
        found = of_storage.get(id(left.storage))
        if found is not None and (left.views or left.generic != found.generic):
            raise Again(f"{name} becomes a view of an array")
        if found is None and self._is_outside(left.storage):
            raise Again(f"{name} becomes an array that the loop does not change")
        if slot is not None:
            old, new = slot.placeholder, left.node
            self._hold_late(old, new)
            shapes = [tuple(map(self._tracing.resolve, node.shape)) for node in (old, new)]
            if old.dtype != new.dtype or left.generic != slot.generic or shapes[0] != shapes[1]:
                raise Again(f"{name} is {old.type} before an iteration, {new.type} after it")
        if found is None or (found.generic and found is not slot):
            return left  # scalars are values: it is all one where they come from
        return found

    def _hold_late(self, old: Node, new: Node) -> None:
        """Have lengths that a call in the body tells be those that the iteration before had."""
        tracing = self._tracing
        if len(old.shape) != len(new.shape) or not tracing.same_lengths(old.shape, new.shape):
            return
        for one, other in zip(old.shape, new.shape, strict=True):
            left, right = tracing.resolve(one), tracing.resolve(other)
            if left != right and not tracing.late.isdisjoint(dims.symbols(right)):
                tracing._hold(left, right)

    def _is_outside(self, storage: Storage) -> bool:
        """Whether memory was there before the loop, or is an argument's."""
        return id(storage) in self._pass.before.storages or storage.argument is not None

    def _follow(self) -> None:
        """Find what names have after any number of iterations, and what has to hold of it."""
        self.period, self.depth = 1, 1
        self.cycle: dict[int, list[Slot]] = {}
        for slot in self._pass.slots:
            path = [slot]
            while isinstance(then := self.next_of(path[-1]), Slot) and then is not slot:
                path.append(then)
            if then is slot:
                self.cycle[id(slot)] = path
                self.period = math.lcm(self.period, len(path))
            else:
                self.depth = max(self.depth, len(path))
                if slot.memory and is_written(slot):
                    raise Again(f"{' '.join(slot.names)}: written, then another array")
            mine = self._pass.own
            own = all(each.memory or each.generic or each.names[0] in mine for each in path)
            if is_written(slot) and not own:
                raise NotALoop("it writes into a view of an array")
        moved = {
            id(slot.storage) for path in self.cycle.values() if len(path) > 1 for slot in path
        }
        moved |= {id(s.storage) for s in self._pass.slots if s.memory and id(s) not in self.cycle}
        named = {name for slot in self._pass.slots for name in slot.names}
        for name in self._source.read:
            value: Any = self._pass.given.get(name, self._pass.env.get(name))
            if name not in named and isinstance_of(value, TracedArray) and name not in self.later:
                if id(value.storage) in moved and name in self._before_names():
                    raise Again(f"{name} looks at an array that other names have in turn")
        if any(id(array.storage) in moved for array in self._pass.over):
            raise NotALoop("the name of the array that it goes over becomes another array")
        for argument in self._tracing.arguments:
            if argument.leaf is None and id(argument.storage) in moved:
                raise NotALoop("arrays that the function reaches by a name change places")
        if any(not slot.memory and self._looks(slot) for slot in self._pass.slots):
            raise NotALoop("a view of an array is carried, and the array is written into")

    def _before_names(self) -> set[str]:
        """Names that stood for something before the loop, and are not assigned in it."""
        return {*self._source.read} - {*self._source.carried, *self._source.later}

    def _looks(self, slot: Slot) -> bool:
        """Whether what a slot began with is a view of memory that the loop writes into."""
        value = self._pass.given[slot.names[0]]
        return not slot.generic and any(
            other.storage is value.storage for other in self._pass.slots if other.memory
        )

    @property
    def early(self) -> bool:
        """Whether a condition may end the loop before its range does, and not by an exception."""
        source = self._source
        return source.tested or (source.breaks and (self.data or bool(self.tests)))

    def early_count(self) -> int:
        """Iterations that are known of a loop that a condition ends."""
        named = {name for path in self.cycle.values() if len(path) > 1
                 for slot in path for name in slot.names}  # fmt: skip
        for path in self.cycle.values():
            for slot in path if len(path) > 1 else ():
                others = [name for name, value in self._pass.env.items() if name not in named
                          and isinstance_of(value, TracedArray)
                          and value.storage is slot.storage]  # fmt: skip
                if slot.storage.argument is not None or others or not slot.names:
                    raise NotALoop("arrays that others see change places until a condition holds")
        return self.depth

    @property
    def least(self) -> int:
        """Iterations without which the results are not those of the region."""
        depth = max(self.depth, 1 + self._pass.twice)
        if self.later or self._pass.twice:
            return depth
        for slot in self._pass.slots:
            if id(slot) in self.cycle or slot.generic:
                continue
            owner = self._pass.given[slot.names[0]].storage
            held = [name for name, value in self._pass.loop_env.items()
                    if isinstance_of(value, TracedArray) and value.storage is owner]  # fmt: skip
            if owner.argument is not None or owner.shared or held != slot.names:
                return self.depth
        return 0 if self.depth == 1 else self.depth
