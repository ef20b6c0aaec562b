"""What tests of rows longer than the cache share: a cache of no bytes, and functions of rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.scheduling import choose_reduction

LENGTH = 2 * 4096 + 300


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every row is longer than the cache, parts have 1024 float32, threads are always used."""
    monkeypatch.setattr(choose_reduction, "ROW_CACHE_BYTES", 0)
    monkeypatch.setattr(tuning, "PART", 1 << 10)
    monkeypatch.setattr(tuning, "CUT", 1 << 8)
    monkeypatch.setattr(tuning, "LONG_PART_BYTES", 1 << 12)
    monkeypatch.setattr(tuning, "THREAD_NS", 1)
    fuser.clear_caches()
    yield
    fuser.clear_caches()


def softmax(x: Any) -> Any:
    """What is read twice or three times, and stored."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def spread(x: Any) -> Any:
    """Several results, none an array of elements."""
    return x.var(-1, ddof=1), x.mean(-1), x.max(-1), np.ptp(x, -1)


def attention(x: Any, y: Any) -> Any:
    """A quotient of sums: nothing of a row is stored."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e * y).sum(-1) / e.sum(-1)
