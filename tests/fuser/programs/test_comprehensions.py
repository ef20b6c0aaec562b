"""Comprehensions over a number of things that a call tells: loops that append, or a few at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import difference


def of_rows(x: Any, n: int) -> Any:
    """Over rows; the list itself, its sum and its extremes."""
    sizes = [np.sqrt((r * r).sum()) for r in x]
    return np.stack([(r - r[0]) * 2 for r in x]), sizes, sum(sizes), max(sizes), min(sizes)


def of_windows(x: Any, n: int) -> Any:
    """In steps, forwards and backwards, and from the step that is an argument."""
    y = x.ravel()
    steps = np.array([y[k : k + 5].max() for k in range(0, 200, 3)])
    back = np.array([y[k] * 2 for k in range(len(y) - 1, 0, -2)])
    return steps, back, np.array([y[k : k + n].min() for k in range(0, len(y) - n, n)])


def in_loops(x: Any, n: int) -> Any:
    """In the body of a loop: few of a number that an argument is, and many."""
    for _ in range(12):
        weights = np.array([x[k].max() for k in range(n)])
        x = x * 0.5 + sum(np.roll(x, k, axis=1) for k in range(n)) / (4.0 * n)
        x = x - np.array([x[k].max() - weights[0] for k in range(40)])[:, None] * 0.125
    return x, weights


def nested(x: Any, n: int) -> Any:
    """One in another; the inner one is a list of its own."""
    return np.array([[x[i, j] * 2 for j in range(5)] for i in range(9)]), [k * k for k in range(n)]


def chosen(x: Any, n: int) -> Any:
    """What stays a comprehension: where the source decides whether it is evaluated, or filters."""
    few = [x[k].max() for k in range(n)] if n > 3 else []
    k = 3
    return few, np.array([x[k, 0] for k in range(40) if k % 3]), k


def seen(x: Any, n: int) -> Any:
    """Views of an argument, one array by many names, items that are written into."""
    rows = [r[:] for r in x]
    one = x[0] * 2
    same = [one for _ in range(40)]
    one += 1
    made = [r * 2 for r in x]
    made[0][:] = 0
    return rows, np.array(same), np.array(made)


X = np.add.outer(np.arange(40) % 7 * 0.25, np.arange(8) % 5 * 0.5) - 1.0


def check(wanted: Any, found: Any) -> None:
    """Equal in type and value, through lists and tuples."""
    assert type(wanted) is type(found)
    if isinstance(wanted, (list, tuple)):
        assert len(wanted) == len(found)
        for one, other in zip(wanted, found, strict=True):
            check(one, other)
    else:
        assert difference(wanted, found, close=1e-13) == ""


@pytest.mark.parametrize("function", [of_rows, of_windows, in_loops, nested, chosen, seen])
def test_lists_are_those_of_python(function: Callable[..., Any]) -> None:
    """Whatever has become of the comprehension."""
    fused = fuser.fuse(function, fallback="allow")
    for n in (5, 3, 5):
        a, b = X.copy(), X.copy()
        wanted, found = function(a, n), fused(b, n)
        check(wanted, found)
        assert difference(a, b) == ""
    if function is seen:
        assert all(np.shares_memory(row, b) for row in found[0])
    if function in (of_windows, in_loops):
        assert not fused.fallbacks
        assert "loop" in str(fused.explain(X.copy(), 5)).splitlines()[0]


@pytest.mark.parametrize("items", [
    (1.0, np.nan, 3.0), (np.nan, 1.0), (-0.0, 0.0), (0.0, -0.0), (-np.inf, np.nan), (-0.0, -0.0),
])  # fmt: skip
def test_extremes_and_sums_are_pythons(items: tuple[float, ...]) -> None:
    """Of NaN that comes first or not, and of both zeros."""
    x = np.resize(np.array(items), 40)
    wanted, found = _extremes(x), fuser.fuse(_extremes, fallback="allow")(x)
    for one, other in zip(wanted, found, strict=True):
        assert difference(one, other) == ""
        assert np.isnan(one) or np.signbit(one) == np.signbit(other)


def _extremes(x: Any) -> Any:
    items = [x[k] * 1.0 for k in range(len(x))]
    return max(items), min(items), sum(items)
