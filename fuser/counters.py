"""Counters of what the fuser did: kernels compiled, cache hits, fallbacks by reason."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

_lock = threading.Lock()
_counts: Counter[str] = Counter()


def count(name: str, by: int = 1) -> None:
    """Add to one counter; safe from any thread."""
    with _lock:
        _counts[name] += by


def add(counts: Mapping[str, int]) -> None:
    """Add to several counters; safe from any thread."""
    with _lock:
        for name, by in counts.items():
            _counts[name] += by


def value(name: str) -> int:
    """Read one counter."""
    return _counts[name]


def snapshot() -> dict[str, int]:
    """Return a copy of all counters, sorted by name."""
    with _lock:
        return dict(sorted(_counts.items()))


def reset() -> None:
    """Set all counters to zero; for tests."""
    with _lock:
        _counts.clear()
