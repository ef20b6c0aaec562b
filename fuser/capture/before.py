"""What a trace was before something was tried in it, and how it is put back."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fuser.base import budget
from fuser.ir.graph import Node
from fuser.tracing import reshapes
from fuser.tracing.trace_state import Storage
from fuser.tracing.traced_memory import TracedMemory


class NotALoop(Exception):  # noqa: N818 - a signal: the loop is unrolled
    """Why the iterations of a loop are not seen to be one function."""


class Again(Exception):  # noqa: N818 - a signal: the first iteration is unrolled
    """What the first iteration finds is of another kind than what it leaves."""


class Before:
    """A trace as it was before a loop, to be put back."""

    _FIELDS = (
        "reads decisions told_late equal guards value_guards reaches scalars written hazards "
        "externs repeatable picked "
        "optional common in_order told raising"
    ).split()

    def __init__(self, tracing: Any, env: Mapping[str, Any]) -> None:
        """Keep it; `env`: what the function's variables hold."""
        self._tracing = tracing
        found = [v.storage for v in env.values() if isinstance_of(v, TracedMemory)]
        found += [argument.storage for argument in tracing.arguments]
        for storage in found:  # while their values are still at hand
            reshapes.leave_copies(tracing, storage)
        found += [v.storage for v in env.values() if isinstance_of(v, TracedMemory)]
        self.storages = {id(s): s for s in found}
        self.nodes = {key: s.node for key, s in self.storages.items()}
        self._states = {key: state_of(s) for key, s in self.storages.items()}
        self._saved = {name: copy.copy(getattr(tracing, name)) for name in self._FIELDS}
        self._counts = tracing.extern_count, tracing.replay.place
        self._budget = budget.mark()
        self.lines = frozenset(tracing.lines)
        self.sizes = frozenset(tracing.sizes)
        self.late = frozenset(tracing.late)

    def put_back(self) -> None:
        """Have the trace be as it was, but for captured arrays that were met."""
        tracing = self._tracing
        self.put_back_memory()
        for name, value in self._saved.items():
            setattr(tracing, name, copy.copy(value))
        tracing.extern_count, tracing.replay.place = self._counts
        del tracing.replay.numbers[len(tracing.reads) :]  # others may be read from here on
        tracing.failed = None
        self.put_back_budget()

    def put_back_budget(self) -> None:
        """Have as much left of the first call's budget, but for time."""
        budget.reset(self._budget)

    def memory(self) -> Iterable[Storage]:
        """All memory from before, and that of arrays captured meanwhile."""
        found = {**self.storages, **{id(a.storage): a.storage for a in self._tracing.arguments}}
        return list(found.values())

    def put_back_memory(self) -> None:
        """Have all memory hold what it held."""
        for key, storage in self.storages.items():
            set_state(storage, self._states[key])
        for argument in self._tracing.arguments:  # captured meanwhile
            if id(argument.storage) not in self.storages:
                argument.storage.node, argument.storage.written = argument.initial, False

    def put_back_calls(self) -> None:
        """Have no calls and numbers but those from before."""
        asked = ("reads", "decisions", "told_late", "raising")
        for name in (*asked, "scalars", "externs", "repeatable", "picked", "optional"):
            setattr(self._tracing, name, copy.copy(self._saved[name]))

    def unused(self, used: Collection[int]) -> bool:
        """Whether an operation since then may raise, and is none of those, by identity."""
        made = self._tracing.raising.keys() - self._saved["raising"].keys()
        return not made <= set(used)

    def node_of(self, storage: Storage) -> Node:
        """What some memory held; of a captured array, what it holds."""
        found = self.nodes.get(id(storage))
        return storage.first if found is None else found


def isinstance_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Whether a value is of a class, whatever it says of itself."""
    return issubclass(type(value), kind)


def state_of(storage: Storage) -> tuple[Any, ...]:
    """What a trace changes of some memory."""
    s = storage
    return s.node, s.first, s.written, s.reach, s.shared, s.looks_at, tuple(s.reshapes)


def set_state(storage: Storage, state: tuple[Any, ...]) -> None:
    """The reverse of `state_of`."""
    s = storage
    s.node, s.first, s.written, s.reach, s.shared, s.looks_at, reshaped = state
    s.reshapes = list(reshaped)
