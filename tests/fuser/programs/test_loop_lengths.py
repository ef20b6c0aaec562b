"""Loops with numbers that are lengths: of slices at the index, of what an iteration selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import run_plain


def means_so_far(a: Any, n: int) -> Any:
    """The divisor is the index."""
    found = np.zeros(12)
    for t in range(1, n):
        found[t] = np.mean(a[:t]) + a[:t].shape[0]
    return found


def two_sides(a: Any, n: int) -> Any:
    """The index is a number that iterations change."""
    c, t = a * 0.0, 1
    while t < n:
        c = c + a[:t].mean() + a[t:].var()
        t = t + 2
    return c


def into_the_left_side(a: Any, n: int) -> Any:
    """A sum of what does not change and of a length that does."""
    c = a * 0.0
    for t in range(1, n):
        c[:t] = c[:t] + a[:t] - a[:t].mean() + (a * c[:t].shape[0]).sum()
    return c


def means_of_selections(a: Any, n: int) -> Any:
    """The divisor is how many an iteration selects."""
    c = a * 0.0
    for t in range(n):
        found = a[a > t * 0.1]
        half = found[found.shape[0] // 2 :]
        c = c + half.sum() / half.shape[0] + found.mean() + (a + found.shape[0]).sum()
    return c


def new_arrays(a: Any, n: int) -> Any:
    """Arrays as long as the index says."""
    c = a * 0.0
    for t in range(n):
        c = c + np.arange(t + 1).sum() + np.ones(t + 1).mean()
    return c


def decided(a: Any, n: int) -> Any:
    """A number of selected elements decides."""
    c = a * 0.0
    for t in range(n):
        found = a[a > t * 0.15]
        if found.shape[0] > 6:
            c = c + found.sum()
        else:
            c = c - 1.0
    return c


def an_element(a: Any, n: int) -> Any:
    """NumPy raises where fewer are selected."""
    c = a * 0.0
    for t in range(n):
        c = c + a[a > t * 0.15][5]
    return c


def counted(a: Any, n: int) -> Any:
    """Numbers of selected elements are added up."""
    c, count = a * 0.0, 0
    for t in range(n):
        found = a[a > t * 0.1]
        count = count + found.shape[0]
        c = c + found.sum()
    return c, count


def centres(a: Any, n: int) -> Any:
    """Means of groups, of those that have members."""
    found = a[:4].copy()
    for _ in range(n):
        nearest = np.argmin((a[:, None] - found[None, :]) ** 2, axis=1)
        for k in range(found.shape[0]):
            mine = nearest == k
            if mine.any():
                found[k] = np.mean(a[mine])
    return found


FUNCTIONS = [
    means_so_far, two_sides, into_the_left_side, means_of_selections, new_arrays, decided,
    an_element, counted, centres,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_loops_with_lengths(function: Callable[..., Any]) -> None:
    """Values and exceptions, where another call selects more or fewer, too."""
    fused = fuser.fuse(function, fallback="allow")
    random = np.random.default_rng(5)
    for trips in (9, 9, 4, 11):
        a = random.random(12) + 0.3
        wanted = run_plain(function, [a.copy(), trips], {})
        found = run_plain(fused, [a, trips], {})
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted)
            continue
        many = isinstance(wanted, tuple)
        for one, two in zip(*((found, wanted) if many else ([found], [wanted])), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-11)
