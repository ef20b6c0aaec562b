"""Arrays that loops over elements make: `np.zeros(n)`, `np.full((n, m), v)` and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_alike


def _solved(a: Any, b: Any, c: Any, d: Any) -> Any:
    """A tridiagonal system."""
    n = len(d)
    upper, right, x = np.empty(n), np.empty(n), np.empty(n)
    upper[0], right[0] = c[0] / b[0], d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * upper[i - 1]
        upper[i] = c[i] / m
        right[i] = (d[i] - a[i] * right[i - 1]) / m
    x[-1] = right[-1]
    for i in reversed(range(n - 1)):
        x[i] = right[i] - upper[i] * x[i + 1]
    return x


def _alternating(u: Any, k: Any) -> Any:
    n = u.shape[0]
    a, b = np.full(n, -0.5), np.full(n, 2.0)
    for _ in range(k):
        half = np.zeros((n, u.shape[1]))
        for j in range(1, u.shape[1] - 1):
            half[:, j] = _solved(a, b, a, 0.5 * u[:, j - 1] + 0.5 * u[:, j + 1])
        u = half
    return u


def _carried(u: Any, k: Any) -> Any:
    rows, columns = u.shape
    best, least = np.zeros(columns), 1e9
    count = np.zeros(columns, dtype=int)
    for i in range(rows):
        row = np.full(columns, float(i))
        seen = np.ones(columns, bool)
        number = np.zeros(columns, dtype=np.int64)
        total = 0.0
        for j in range(columns):
            row[j] += u[i, j] * k
            seen[j] = u[i, j] > 0.5
            number[j] = i * j
            total += abs(row[j])
        if total < least:
            least, best, count = total, row, number
        for j in range(columns):
            if seen[j]:
                best[j] += 1
    return best, least, count


def _typed(u: Any, k: Any) -> Any:
    found = np.zeros(u.shape)
    for i in range(u.shape[0]):
        one = np.full_like(u[0], 3, dtype="float64") if k < 0 else np.ones(len(u), u.dtype)
        two = np.full(u.shape, k)
        three = np.full(len(u), u[i, 0], dtype=np.float32)
        two[i, 0] = 2 * k
        one[i] = k
        three[i] += 1
        for j in range(u.shape[1]):
            found[i, j] = one[i - 1] / 3 + two[i - 1, j] + three[i] + two[i, 0]
    return found


def _other_lengths(u: Any, k: Any) -> Any:
    found = np.zeros(u.shape)
    for i in range(u.shape[0]):
        padded = np.zeros(u.shape[1] + 2)
        for j in range(u.shape[1]):
            padded[j + 1] = u[i, j]
        for j in range(u.shape[1]):
            found[i, j] = padded[j] + padded[j + 2]
    return found


@pytest.mark.parametrize("function", [_alternating, _carried, _typed])
def test_arrays_are_made_in_loops(function: Callable[..., Any]) -> None:
    """They are new in each iteration, have NumPy's dtypes, and may be carried, and left."""
    fused = fuser.fuse(function, fallback="error")
    for shape, k in (((6, 5), 3), ((5, 9), 2), ((12, 4), 1)):
        u = np.random.default_rng(shape[0]).random(shape)
        assert_alike(function(u.copy(), k), fused(u.copy(), k))
    assert fused.explain(u, 2).loops


def test_arrays_of_other_lengths() -> None:
    """One as long as no axis of an operand is made by NumPy's means."""
    fused = fuser.fuse(_other_lengths, fallback="allow")
    for shape in ((3, 5), (60, 7)):
        u = np.random.default_rng(1).random(shape)
        assert_alike(_other_lengths(u, 1), fused(u, 1))


def test_what_full_refuses() -> None:
    """Python raises where a value does not fit the dtype."""

    def function(u: Any, k: Any) -> Any:
        for i in range(len(u)):
            row = np.full(len(u), k, dtype=np.uint8)
            u[i, 0] = row[i] + 1
        return u

    fused = fuser.fuse(function, fallback="allow")
    assert_alike(function(np.ones((4, 3)), 7), fused(np.ones((4, 3)), 7))
    with pytest.raises(OverflowError):
        fused(np.ones((4, 3)), 300)
