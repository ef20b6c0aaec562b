"""The thread-safe cache of kernel specs, by canonical text; each spec stores its own kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from fuser.base import caches, counters, forks
from fuser.base.errors import ArgumentError
from fuser.ir.graph import Graph
from fuser.kernel_spec import KernelSpec, Options
from fuser.program_spec import Program

Key = tuple[str, Options]
Spec = TypeVar("Spec", KernelSpec, "Program")

_lock = forks.lock()
#: Specs that are found by their text: beyond, the oldest goes. Who uses it keeps it.
LIMIT = 4096
_by_text: dict[Key, KernelSpec | Program] = {}
_by_number: dict[int, KernelSpec | Program] = {}
_building: dict[Key, threading.RLock] = {}
_next_key = 0


def lookup(graph: Graph, options: Options, build: Callable[[int], Spec]) -> Spec:
    """The spec of a graph, prepared at most once however many threads ask at the same time.

    Args:
        graph: its canonical text is the key.
        options: the other part of the key.
        build: makes the spec for a new key number.
    """
    key = (graph.text, options)
    found = _by_text.get(key)
    if found is not None:
        return found  # type: ignore[return-value] # one text is always of one kind
    with _lock:
        turn = _building.setdefault(key, forks.lock())
    with turn:
        found = _by_text.get(key)
        if found is not None:
            return found  # type: ignore[return-value] # as above
        spec = build(new_key())
        with _lock:
            while len(_by_text) >= LIMIT:
                del _by_text[next(iter(_by_text))]
            spec = _by_text.setdefault(key, spec)  # type: ignore[assignment] # as above
            _building.pop(key, None)
        counters.count("specs")
    return spec


def new_key() -> int:
    """The number of a spec that is not found by its text."""
    global _next_key
    with _lock:
        _next_key += 1
        return _next_key


def keep(spec: KernelSpec | Program) -> int:
    """The number that `retrieve` finds a spec by, until the caches are cleared."""
    with _lock:
        _by_number[spec.key] = spec
    return spec.key


def retrieve(number: int) -> KernelSpec | Program:
    """The spec that `register_fusion` gave a key for.

    Raises:
        ArgumentError: there is no such key, perhaps because the caches were cleared.
    """
    found = _by_number.get(number)
    if found is None:
        raise ArgumentError(
            f"there is no fusion with key {number!r}; register_fusion gives keys, and "
            "clear_caches() forgets them"
        )
    return found


def count() -> int:
    """How many specs are cached."""
    return len(_by_text)


@caches.clears
def clear() -> None:
    """Forget all specs. Code that runs now stays alive until its last user is gone."""
    with _lock:
        _by_text.clear()
        _by_number.clear()
        _building.clear()
