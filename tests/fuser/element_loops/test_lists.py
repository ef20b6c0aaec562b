"""Lists that loops over elements append numbers to, and take them from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser


def _doubled(x: Any, n: int) -> Any:
    out = []
    for i in range(len(x)):
        out.append(x[i] * 2)
    return np.array(out)


def _peaks(x: Any, n: int) -> Any:
    found = []
    for i in range(1, len(x) - 1):
        if x[i - 1] < x[i] > x[i + 1] and x[i] > n:
            found.append(i)
    return np.array(found), len(found)


def _runs(x: Any, n: int) -> Any:
    values, lengths = [], []
    i = 0
    while i < len(x):
        j = i
        while j < len(x) and (x[j] > 0) == (x[i] > 0):
            j += 1
        values.append(x[i])
        lengths.append(j - i)
        i = j
    return np.array(values), np.asarray(lengths[::-1])


def _next_larger(x: Any, n: int) -> Any:
    found = np.full(len(x), -1)
    waiting: list[int] = []
    for i in range(len(x)):
        while waiting and x[waiting[-1]] < x[i]:
            found[waiting.pop()] = i
        waiting.append(i)
    return found


def _euler(x: Any, n: int) -> Any:
    y = 1.0
    values = [y]
    for _ in range(4 * n):
        y = y + 0.01 * (1 - 2 * y)
        values.append(y)
    return np.array(values)


def _knapsack(x: Any, n: int) -> Any:
    table = np.zeros((len(x) + 1, n + 1))
    for i in range(1, len(x) + 1):
        for c in range(n + 1):
            table[i, c] = table[i - 1, c]
            if i <= c:
                table[i, c] = max(table[i, c], table[i - 1, c - i] + abs(x[i - 1]))
    chosen = []
    c = n
    for i in range(len(x), 0, -1):
        if table[i, c] != table[i - 1, c]:
            chosen.append(i - 1)
            c -= i
    return table[len(x), n], np.array(chosen[::-1])


def _kinds(x: Any, n: int) -> Any:
    mixed, truths, small = [], [], []
    for value in x:
        mixed.append(1 if value > 0 else 0.5)
        truths.append(bool(value > 0))
        small.append(np.float32(value))
    if len(x) > 8:
        mixed.append(0.25)
    return np.array(mixed), np.array(truths), np.array(small) * 2, np.cumsum(mixed)


def _of_some_kinds(x: Any, n: int) -> Any:
    """Whose dtype hangs on which items there are."""
    one, other = [1], []
    for i in range(len(x)):
        if x[i] > 2:
            one.append(0.5)
        if x[i] < 0:
            other.append(i)
        elif x[i] < n - 4.5:
            other.append(True)
    return np.array(one), np.array(other)


def _primes(x: Any, n: int) -> Any:
    found = [2]
    for k in range(3, 10 * n, 2):
        for p in found:
            if k % p == 0:
                break
        else:
            found.append(k)
    total = 0
    for value in x:
        total += value > 0
    return np.array(found), total


def _refused(x: Any, n: int) -> Any:
    out = []
    for value in x:
        out.append(value * n)
    other = out
    other.append(1.0)
    return np.array(out), out


def _raises(x: Any, n: int) -> Any:
    out = []
    for i in range(len(x)):
        out.append(x[i])
        if x[i] > 2:
            out.pop()
            out.pop()
    return np.array(out), out[-1]


def _converted(x: Any, n: int) -> Any:
    out = []
    for i in range(len(x)):
        out.append(200 + i)
    if out:
        return np.array(out, np.float32), np.array(out, np.uint8)
    return np.array(out)


def _bound(x: Any, n: int) -> Any:
    out: list[Any] = []
    push = out.append
    for i in range(len(x)):
        out.append(x[i])
    push(1.0)
    return np.array(out), (lambda: len(out))()


@pytest.mark.parametrize(
    "function",
    [
        _converted, _bound, _doubled, _peaks, _runs, _next_larger, _euler, _knapsack, _kinds,
        _primes, _refused, _raises, _of_some_kinds,
    ],
)  # fmt: skip
def test_lists_become_arrays(function: Callable[..., Any]) -> None:
    """Of any length, none too, of all kinds of numbers; what is used otherwise is Python's."""
    fused = fuser.fuse(function, fallback="allow")
    for turn in (0, 1, 2, 3, 3, 3, 4, 0):
        x, n = np.random.default_rng(turn).standard_normal((0, 9, 40, 41, 41)[turn]), 5 - turn % 2
        results = []
        for one in (function, fused):
            try:
                found = one(x, n)
            except (IndexError, OverflowError) as error:
                found = repr(error)
            results.append(found if isinstance(found, tuple) else (found,))
        for wanted, found in zip(*results, strict=True):
            assert type(wanted) is type(found)
            np.testing.assert_array_equal(wanted, found)
            if isinstance(wanted, np.ndarray):
                assert wanted.dtype == found.dtype
                assert found.flags.owndata
    if function not in (_refused, _raises, _converted, _bound, _of_some_kinds):
        assert not fused.fallback_counts


def test_lists_that_get_too_long_are_pythons() -> None:
    """The kernel has room for so many items; beyond that the plain function runs."""

    def endless(x: Any) -> Any:
        out: list[float] = []
        while len(out) < x[0]:
            out.append(x[0] * 1.5)
        return np.array(out)

    fused = fuser.fuse(endless, fallback="allow")
    for most in (10.0, 20_000.0, 10.0):
        x = np.array([most])
        np.testing.assert_array_equal(fused(x), endless(x))
