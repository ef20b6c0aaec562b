"""Counters of what the fuser did: kernels compiled, cache hits, fallbacks by reason."""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

from fuser.base import forks

#: Held while counters are added to: from other threads. What a signal handler counts meanwhile is
#: not lost, as adding to an entry is one step of the interpreter.
_lock = forks.lock()
_counts: defaultdict[str, int] = defaultdict(int)
_pending: deque[Mapping[str, int]] = deque()
_PENDING_LIMIT = 1000


def count(name: str, by: int = 1) -> None:
    """Add to one counter; safe from any thread."""
    with _lock:
        _counts[name] += by


def add(counts: Mapping[str, int]) -> None:
    """Add to several counters; safe from any thread."""
    with _lock:
        for name, by in counts.items():
            _counts[name] += by


def add_soon(counts: Mapping[str, int]) -> None:
    """Add to several counters when one is next read: an append; safe from any thread.

    Args:
        counts: is kept, so must not change.
    """
    _pending.append(counts)
    if len(_pending) > _PENDING_LIMIT:
        with _lock:
            _settle()


class Tally:
    """What native code counts in a word, and what each of these adds to the counters."""

    def __init__(
        self, words: Any, place: int, counts: Mapping[str, int],
        told: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        """Read the word at `place` from now on, until this is forgotten.

        Args:
            words: that native code writes.
            place: of the word.
            counts: what one adds.
            told: is called with how many are new, whenever counters are read.
        """
        self._words, self._place, self._counts, self._seen = words, place, counts, words[place]
        self._told = told
        _tallies.add(self)

    def settle(self) -> None:
        """Have what is new wait to be added."""
        now = self._words[self._place]
        new, self._seen = now - self._seen, now
        if new:
            _pending.append({name: by * new for name, by in self._counts.items()})
            if self._told is not None:
                self._told(new)

    __del__ = settle


_tallies: weakref.WeakSet[Tally] = weakref.WeakSet()


def _settle() -> None:
    """Add what waits; with the lock held."""
    for tally in list(_tallies):
        tally.settle()
    while _pending:
        try:
            counts = _pending.popleft()
        except IndexError:  # a signal handler has just added the last
            return
        for name, by in counts.items():
            _counts[name] += by


def settle() -> None:
    """Count what waits to be counted."""
    with _lock:
        _settle()


def value(name: str) -> int:
    """Read one counter."""
    with _lock:
        _settle()
        return _counts[name]


def snapshot() -> dict[str, int]:
    """Return a copy of all counters, sorted by name."""
    with _lock:
        _settle()
        return dict(sorted(_counts.items()))


def reset() -> None:
    """Set all counters to zero; for tests."""
    with _lock:
        _settle()
        _counts.clear()
