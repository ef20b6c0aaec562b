"""Calls that end in the plain function before native entries are loaded are seldom looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import FEWEST_PLAIN
from fuser.backends.cpu.backend import CpuBackend
from fuser.calls.fused_function import PATIENCE


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of calls that are looked at, where no native entry is there."""
    found: list[Any] = []
    usual = fuser.FusedFunction._long_way

    def look(self: Any, args: Any, kwargs: Any, fell: Any) -> Any:
        found.append(args)
        return usual(self, args, kwargs, fell)

    monkeypatch.setattr(CpuBackend, "install", lambda *_: False)
    monkeypatch.setattr(fuser.FusedFunction, "_long_way", look)
    return found


def test_few_of_many_such_calls_are_looked_at(looks: list[Any]) -> None:
    """Each gives what the plain function gives, runs it once, and is counted."""
    runs = []

    def changes(x: Any, state: dict[str, float], scale: float = 1.0) -> Any:
        state["sum"] = float(x.sum())
        runs.append(1)
        return np.sort(x) * scale

    fused, state = fuser.fuse(changes, fallback="allow"), {"sum": 0.0}
    for k in range(100):
        x = np.arange(5.0)[::-1] + k
        np.testing.assert_array_equal(fused(x, state, scale=2.0), np.sort(x) * 2.0)
        assert state["sum"] == x.sum()
    assert len(runs) == sum(fused.fallback_counts.values()) == 100
    assert len(looks) <= PATIENCE + 100 / FEWEST_PLAIN


def test_other_lengths_are_looked_at(looks: list[Any]) -> None:
    """So kernels serve long arrays, though short ones are NumPy's."""
    fused = fuser.fuse(lambda x, state: np.sort(x), fallback="allow")
    state = object()
    for _ in range(PATIENCE + 2):
        fused(np.ones(4), state)
    before = len(looks)
    fused(np.ones(400), state)
    assert (before, len(looks)) == (PATIENCE, PATIENCE + 1)


def test_an_error_of_the_plain_function_is_its_own(looks: list[Any]) -> None:
    """It reaches the caller, and the function has run once."""
    runs = []

    def refuses(x: Any, state: list[int]) -> Any:
        runs.append(1)
        state.append(len(state))
        raise ValueError("mine")

    fused = fuser.fuse(refuses, fallback="allow")
    state: list[int] = []
    for k in range(1, 3 * PATIENCE):
        with pytest.raises(ValueError, match="mine"):
            fused(np.ones(4), state)
        assert len(runs) == len(state) == k
        state = [*state]


def test_settings_and_clearing_end_it(looks: list[Any]) -> None:
    """While a profile listens, each call is looked at."""
    fused = fuser.fuse(lambda x, state: np.sort(x), fallback="allow")
    x, state = np.ones(4), object()
    for _ in range(PATIENCE):
        fused(x, state)
    with fuser.profile():
        fused(x, state)
    assert len(looks) == PATIENCE + 1
    for _ in range(PATIENCE):
        fused(x, state)
    fused.clear()
    fused(x, state)
    assert not fused._plain
