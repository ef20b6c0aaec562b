"""Reductions of parts of arrays in loops over elements, and items of tuples and rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser

OFFSETS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def _places(x: Any, k: Any) -> Any:
    found = np.zeros((len(x), 4), np.int64)
    for i in range(len(x)):
        found[i, 0] = np.argmax(x[i])
        found[i, 1] = x[i].argmin()
        found[i, 2] = np.argmin(np.abs(x[i] - x[i, 0]))
        found[i, 3] = x[i, : np.argmax(x[i]) + 1].argmax()
    return found


def _windows(x: Any, k: Any) -> Any:
    found = np.zeros((6, *x.shape), x.dtype)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            part = x[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
            found[0, i, j] = np.max(part)
            found[1, i, j] = part.min()
            found[2, i, j] = part.sum()
            found[3, i, j] = np.mean(part)
            found[4, i, j] = np.any(part > k)
            found[5, i, j] = (part > k).all()
    return found


def _means(x: Any, k: Any) -> Any:
    found = np.zeros(len(x))
    for i in range(k, len(x)):
        found[i] = x[i - k : i].mean() - np.mean(x[i])
        if x[i].any() and not np.all(x[i]):
            found[i] += 1
    return found


def _rounded(x: Any, k: Any) -> Any:
    found, whole = np.zeros_like(x), np.zeros(x.shape, np.int64)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            found[i, j] = np.round(x[i, j] * k) + np.around(x[i, j])
            whole[i, j] = round(x[i, j] * k)
    return found, whole


def _numbered(x: Any, k: Any) -> Any:
    found = np.zeros((len(x) + 5, 2))
    for i, row in enumerate(x, start=1):
        found[i] = row[0], i
    for i, row in enumerate(x, k):
        found[i] = [row[0] * 2, 1]
    return found


def _items(x: Any, k: Any) -> Any:
    total = 0.0
    found = np.zeros_like(x)
    for i in range(len(x)):
        first, second = x[i]
        found[i] = second, first
        found[i, :] = [first, found[i, 0]]
        total += first * second
    for first, second in x:
        total -= first / (second * second + 1)
    return total, found


def _neighbours(x: Any, k: Any) -> Any:
    found = np.zeros(x.shape, np.int64)
    inside = ((0, 1), (1, 0))
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for a, b in OFFSETS:
                if 0 <= i + a < x.shape[0] and 0 <= j + b < x.shape[1]:
                    found[i, j] += x[i + a, j + b] > 0.5
                if (i, j) != (a, b) and (i + a, 1) == (1, 1):
                    found[i, j] += 10
            if found[i, j] in (2, 3) or found[i, j] not in (0, 1, 2, k):
                found[i, j] -= 100
            for pair in inside:
                found[i, j] += pair[0] * k
    return found


def _both_ways(x: Any, k: Any) -> Any:
    n = x.shape[1]
    c = np.zeros((n, n), dtype=x.dtype)
    for i in range(n):
        c[i:, i] = c[i, i:] = x[k, i:] * x[k - 1, i] - x[0, : n - i]
        c[0] = own = c[i, ::-1] * 0.5
        own[0] += 1
        c[n - 1] += own
    return c


def _turned(x: Any, k: Any) -> Any:
    """Columns and windows of transposed arrays, read where the array is written."""
    x = x.copy()
    out = np.zeros(x.shape)
    for i in range(x.shape[0] - 2):
        for j in range(2):
            window = x[i : i + 2, j : j + 2]
            out[i, j] = np.sum(window * window.T) + x.T[j] @ x.T[j] + x.T[j, i] - x[i] @ x.T[:, i]
        x[i : i + 2, :2] = x[i : i + 2, :2].T
        x.T[k - 1, i] = out[i, 0]
    return out, x


def _reached(x: Any, k: Any) -> Any:
    """Functions within the function, which reach its numbers and arrays."""
    rows, weight, level = x[:, 0] * 2, k * 0.5, 0.0
    out = np.zeros(x.shape[0])

    def step(value: Any, i: Any) -> Any:
        return value * weight + rows[i]

    for i in range(x.shape[0]):
        level = step(level, i)
        out[i] = level
    return out, level


_ROWS = [
    _places, _windows, _means, _rounded, _numbered, _neighbours, _both_ways, _turned, _reached,
]  # fmt: skip


def _alike(wanted: Any, found: Any, near: float = 1e-14) -> None:
    """Fail where results differ: sums by what their order may do."""
    if isinstance(wanted, tuple):
        for one, other in zip(wanted, found, strict=True):
            _alike(one, other, near)
        return
    assert type(wanted) is type(found)
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near)
    assert wanted.dtype == found.dtype


@pytest.mark.parametrize("function", _ROWS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows(function: Callable[..., Any], dtype: str) -> None:
    """Rows and windows are reduced, numbered and compared as by NumPy and Python."""
    fused = fuser.fuse(function, fallback="error")
    for shape, k in (((6, 5), 2), ((9, 3), 3), ((6, 5), 1)):
        x = np.random.default_rng(shape[0]).standard_normal(shape).astype(dtype)
        x[1] = np.round(x[1])
        _alike(function(x, k), fused(x, k), 1e-6 if dtype == "float32" else 1e-14)


def test_items() -> None:
    """Rows are taken apart and put together; another number of items raises as in Python."""
    fused = fuser.fuse(_items, fallback="error")
    for length in (5, 11):
        x = np.random.default_rng(length).standard_normal((length, 2))
        _alike(_items(x, 1), fused(x, 1))
    fused = fuser.fuse(_items, fallback="allow")
    for x in (np.ones((4, 3)), np.ones((4, 1))):
        with pytest.raises(ValueError, match="values to unpack"):
            fused(x, 1)


def _of_integers(x: Any, k: Any) -> Any:
    found = np.zeros((len(x), 4))
    for i in range(len(x)):
        found[i] = [np.mean(x[i]), x[i].argmax(), x[i].max(), x[i : i + 2].sum()]
    return found


def test_integers() -> None:
    """Means of integers are floats, of what is summed as floats."""
    fused = fuser.fuse(_of_integers, fallback="error")
    for dtype in ("int8", "int64", "uint8"):
        x = np.random.default_rng(3).integers(0, 100, (7, 6)).astype(dtype)
        _alike(_of_integers(x, 1), fused(x, 1))


def test_extremes_with_nan_and_of_nothing() -> None:
    """The first NaN is the extreme; NumPy raises of nothing, and warns of its mean."""
    fused = fuser.fuse(_places, fallback="error")
    x = np.random.default_rng(5).standard_normal((6, 5))
    x[0, 3:] = x[2, :] = x[3, 0] = np.nan
    x[4] = 0.0
    x[5] = [-0.0, 0.0, -0.0, np.inf, -np.inf]
    _alike(_places(x, 1), fused(x, 1))
    fused = fuser.fuse(_places, fallback="allow")
    with pytest.raises(ValueError, match="empty sequence"):
        fused(np.zeros((3, 0)), 1)
    means = fuser.fuse(_means, fallback="allow")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        means(np.zeros((3, 0)), 1)
    assert any("Mean of empty slice" in str(each.message) for each in caught)


def test_rounding_far_numbers() -> None:
    """Ties go to the even neighbour; what no 64 bits hold is Python's."""
    fused = fuser.fuse(_rounded, fallback="allow")
    x = np.array([[0.5, 1.5, -2.5, 2.5], [1e15 + 0.5, -0.0, 0.49999999999999994, -0.5]])
    _alike(_rounded(x, 1), fused(x, 1))
    with pytest.raises(OverflowError):
        fused(np.array([[np.inf, 1.0]]), 1)


def _forward_backward(transit: Any, emit: Any, start: Any, seen: Any) -> Any:
    count, states = len(seen), len(start)
    forth, back, scale = np.zeros((count, states)), np.zeros((count, states)), np.zeros(count)
    for i in range(states):
        forth[0, i] = start[i] * emit[i, seen[0]]
    scale[0] = forth[0].sum()
    forth[0] /= scale[0]
    for t in range(1, count):
        for j in range(states):
            for i in range(states):
                forth[t, j] += forth[t - 1, i] * transit[i, j]
            forth[t, j] *= emit[j, seen[t]]
        scale[t] = forth[t].sum()
        forth[t] /= scale[t]
    back[-1] = 1.0
    for t in range(count - 2, -1, -1):
        for i in range(states):
            for j in range(states):
                back[t, i] += transit[i, j] * emit[j, seen[t + 1]] * back[t + 1, j]
        back[t] /= scale[t + 1]
    return forth * back, np.log(scale).sum()


def test_loops_count_as_operations() -> None:
    """A program is not left to NumPy for the bytes of a few slices beside loops over elements."""
    for length in (20, 300):
        fused = fuser.fuse(_forward_backward, fallback="error")
        rng = np.random.default_rng(length)
        chain = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(4), 3), np.full(3, 1 / 3)
        seen = rng.integers(0, 4, length)
        _alike(_forward_backward(*chain, seen), fused(*chain, seen), 1e-12)
