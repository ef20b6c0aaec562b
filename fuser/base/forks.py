"""Locks that a forked child finds free.

A child has the thread that forked, and copies of the locks that other threads held: nobody would
ever release those. So in a child all of ours begin anew. What they guard changes in single steps,
each of which leaves it right. Three things do not, and a fork waits for them: a trace of another
thread, which may have stored stand-ins where a user's function sees them; a compiler at work; and
an import of ours, which the first call may begin, and whose lock in the child Python does not free.
Nor does it free the lock that `functools.cached_property` has before Python 3.12, so ours has none.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload
from weakref import WeakSet

Value = TypeVar("Value")

#: Milliseconds that a fork waits for imports at most.
_TRIES = 1000
#: Packages whose imports it waits for: ours, and those that ours import while functions are fused.
_PACKAGES = ("fuser", "llvmlite", "hashlib")

_locks: WeakSet[Any] = WeakSet()
_waits: list[Callable[[], Callable[[], None] | None]] = []
_given_back: list[Callable[[], None]] = []


def lock() -> threading.RLock:
    """A lock that is free in a forked child, unless the thread that forked holds it.

    Its holder may take it again: a signal handler, or a finaliser, may call a fused function
    between any two instructions of ours. So what it guards is published in one step, by
    `dict.setdefault` or an assignment, and what takes several steps notices that it is under way
    (`Arena`, `Context`).
    """
    made = threading.RLock()
    _locks.add(made)
    return made


def held_here(taken: threading.RLock) -> bool:
    """Whether this thread holds a lock already."""
    return bool(taken._is_owned())  # type: ignore[attr-defined] # as threading.Condition asks


class cached_property(Generic[Value]):  # noqa: N801 - named as what it stands for
    """An attribute that is computed when it is first read; twice, perhaps, by two threads."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        """Keep the method that computes it."""
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """The name under which the value is kept."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Value:
        """Compute the value and keep it: this method is not asked again."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


def wait_for(take: Callable[[], Callable[[], None] | None]) -> None:
    """Have every fork wait for something.

    Args:
        take: waits and takes it; returns what gives it back, in the parent and in the child, or
            None where there is nothing to give back.
    """
    _waits.append(take)


def _before() -> None:
    """Wait for what others do; imports are looked at last, when nobody else can go on."""
    for _ in range(_TRIES):
        _given_back.extend(give for take in _waits if (give := take()) is not None)
        if not _importing():
            return
        _after()
        time.sleep(0.001)


def _after() -> None:
    """Give back what was taken."""
    while _given_back:
        _given_back.pop()()


def _in_child() -> None:
    """Free every lock that this thread does not hold."""
    for held in list(_locks):
        if not held_here(held):
            held._at_fork_reinit()
    _after()


def _importing() -> bool:
    """Whether another thread imports one of those packages."""
    return any(owner not in (None, threading.get_ident()) for owner in _importers())


def imports_here() -> bool:
    """Whether this thread is in the middle of such an import: some modules are not whole then.

    Or about to be: before Python 3.12 an import that another one interrupts there raises KeyError.
    (What waits is a dictionary there, since then an object that has `get` and no `in`.)
    """
    waiting = getattr(sys.modules.get("_frozen_importlib"), "_blocking_on", {})
    here = threading.get_ident()
    return bool(waiting.get(here)) or here in _importers()


def _importers() -> list[int | None]:
    """Threads that import one of those packages, None for nobody."""
    found: dict[str, Any] = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    return [
        getattr(ref(), "owner", None)
        for name, ref in list(found.items()) if name.partition(".")[0] in _PACKAGES
    ]  # fmt: skip


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
