"""Names that come to stand for other arrays in a loop: rows that take turns, new ones each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.suites.families.element_loops import edit_distance
from tests.fuser.comparing import faults, same


def _turns(a: Any, b: Any) -> Any:
    previous, current = np.arange(b.shape[0] + 1), np.zeros(b.shape[0] + 1, np.int64)
    for i in range(a.shape[0]):
        current[0] = i + 1
        for j in range(b.shape[0]):
            current[j + 1] = min(previous[j + 1], current[j], previous[j]) + (a[i] != b[j])
        previous, current = current, previous
    return previous


def _made_before(a: Any, b: Any) -> Any:
    previous = np.arange(b.shape[0] + 1)
    current = np.zeros_like(previous)
    for i in range(a.shape[0]):
        current[0] = i + 1
        for j in range(b.shape[0]):
            current[j + 1] = min(previous[j + 1], current[j], previous[j]) + (a[i] != b[j])
        previous, current = current, previous
    return previous, current[0], previous.sum()


def _kept_for_long(a: Any, b: Any) -> Any:
    row = np.zeros(b.shape[0])
    best = row.copy()
    least = 1e9
    for i in range(a.shape[0]):
        made = np.zeros_like(row)
        total = 0.0
        for j in range(b.shape[0]):
            made[j] = row[j] * 0.5 + a[i] * b[j]
            total += made[j]
        if total < least:
            least = total
            best = made
        row = made
    return best, least, row[0]


def _slices(a: Any, b: Any) -> Any:
    u = b.copy()
    for i in range(a.shape[0]):
        v = np.empty_like(u)
        v[0] = u[0]
        v[-1] = u[-1]
        v[1:-1] = u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
        for j in range(len(u)):
            if v[j] > a[i]:
                v[j] = a[i]
        u = v
    return u


def _arguments(a: Any, b: Any) -> Any:
    for i in range(3):
        for j in range(1, min(len(a), len(b))):
            a[j] = b[j - 1] + i
        a, b = b, a
    return a[0], b[0]


def _argument_left(a: Any, b: Any) -> Any:
    x = b
    for i in range(a.shape[0]):
        made = np.empty_like(x)
        for j in range(len(b)):
            made[j] = x[j] + a[i]
        x = made
    return x


def _known_twice(a: Any, b: Any) -> Any:
    u, v = np.zeros(4), np.ones(4)
    first = u
    for i in range(a.shape[0]):
        for j in range(4):
            v[j] = u[j] + a[i]
        u, v = v, u
    first[0] += 100
    return u, v, first


CASES: list[Callable[..., Any]] = [
    edit_distance, _turns, _made_before, _kept_for_long, _slices, _arguments, _argument_left,
    _known_twice,
]  # fmt: skip


@pytest.mark.parametrize("function", CASES)
def test_results(function: Callable[..., Any]) -> None:
    """Those of NumPy, with writes and which results are one array; for few iterations and none."""
    fused, before = fuser.fuse(function), faults()
    rng = np.random.default_rng(1)
    for many in (5, 4, 1, 0, 7):
        for count in (6, 1, 9):
            if count == 1 and function is _slices:
                continue
            for _ in range(2):
                pairs = [(rng.integers(0, 4, many) * 1.0, rng.integers(0, 4, count) * 1.0)]
                if function is _arguments and many < 1:
                    continue
                pairs.append(tuple(each.copy() for each in pairs[0]))
                wanted, found = function(*pairs[0]), fused(*pairs[1])
                assert same(wanted, found)
                assert all(map(same, *pairs))
                if function is _argument_left:
                    assert (wanted is pairs[0][1]) == (found is pairs[1][1])
    assert faults() == before


@pytest.mark.parametrize("function", [edit_distance, _turns, _made_before, _kept_for_long, _slices])
def test_they_are_one_loop(function: Callable[..., Any]) -> None:
    """Nothing runs in NumPy, and no iteration in Python."""
    fused = fuser.fuse(function, fallback="error")
    a, b = np.array([1.0, 2.0, 0.0, 2.0]), np.array([2.0, 1.0, 1.0, 0.0, 2.0])
    fused(a, b)
    graph = str(fused.explain(a, b).graph)
    assert "for i in range(a.shape[0])" in graph


def test_arrays_that_are_longer_than_others() -> None:
    """Where lengths differ, NumPy runs the call."""

    def turns(a: Any, n: int) -> Any:
        u, v = np.zeros(4), np.zeros(5)
        for i in range(n):
            for j in range(4):
                v[j] = u[j] + a[i]
            u, v = v, u
        return u, v

    fused = fuser.fuse(turns)
    for n in (0, 1, 2, 3):
        assert same(turns(np.ones(3), n), fused(np.ones(3), n))


def test_strides() -> None:
    """An operand that a name stands for at first may lie anyhow."""

    def smoothed(x: Any, n: int) -> Any:
        for i in range(n):
            made = np.zeros_like(x)
            for j in range(1, len(x)):
                made[j] = 0.5 * x[j - 1] + 0.5 * x[j] + i
            x = made
        return x

    fused = fuser.fuse(smoothed)
    for lies in (np.arange(24.0)[::2], np.arange(24.0)[::-1], np.arange(24.0)):
        for n in (1, 2, 5):
            assert same(smoothed(lies, n), fused(lies, n))
