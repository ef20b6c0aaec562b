"""Tuples, and what only some ways through a loop bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser


def _best_place(x: Any, h: Any) -> Any:
    best, place = 0.5, (0, 0)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > best:
                best = x[i, j]
                place = (i, j)
    return best, place


def _changes(x: Any, h: Any) -> Any:
    pair = (0, 1)
    for i in range(x.shape[0]):
        if x[i, 0] > 0.5:
            pair = (pair[1], pair[0] + 2)
        h[i] = pair[0]
    h[0] = 7
    return pair, h


def _arrays(x: Any, h: Any) -> Any:
    one, other = (x[:, 0].copy(), 1.5), (x[:, 1].copy(), 2.5)
    for i in range(x.shape[0]):
        h[i] = one[0][i] + one[1]
        one, other = other, one
    return h


def _later(x: Any, h: Any) -> Any:
    found = (1.0, 0)
    for i in range(x.shape[0]):
        h[i] = x[i, 0]
        if x[i, 0] > 0.5:
            found = (x[i, 1], i)
    return h * found[0], found[1]


def _pair(a: Any, b: Any) -> Any:
    if a > b:
        return (a, b), 1
    return (b, a), 2


def _given_back(x: Any, h: Any) -> Any:
    both = (0.0, 0.0)
    for i in range(x.shape[0]):
        both, count = _pair(x[i, 0], x[i, 1])
        h[i] = both[0] - both[1] * count
    return h, both


@pytest.mark.parametrize("function", [_best_place, _changes, _arrays, _later, _given_back])
@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_tuples_are_carried(function: Callable[..., Any], scale: float) -> None:
    """A tuple that a loop changes is what Python has, inside of the loop and after it."""
    fused = fuser.fuse(function, fallback="error")
    for length in (7, 12):
        x, h = np.random.default_rng(length).random((length, 2)) * scale, np.zeros(length)
        wanted = function(x, h.copy())
        for _ in range(2):
            found = fused(x, h.copy())
            assert repr(found) == repr(wanted)


def _row_or_none(x: Any, h: Any) -> Any:
    row = None
    for i in range(x.shape[0]):
        h[i] = x[i, 0]
        if x[i, 0] > 0.5:
            row = x[i]
    return row, h


def _row_or_tuple(x: Any, h: Any) -> Any:
    row: Any = (1, 2)
    for i in range(x.shape[0]):
        h[i] = x[i, 0]
        if x[i, 0] > 0.5:
            row = x[i]
    return row, h


def _complex_or_none(x: Any, h: Any) -> Any:
    z, best = x[:, 0] + 1j, None
    for i in range(x.shape[0]):
        h[i] = x[i, 0]
        if x[i, 0] > 0.5:
            best = z[i]
    return best, h


def _number_or_text(x: Any, h: Any) -> Any:
    found: Any = "none"
    for i in range(x.shape[0]):
        h[i] = x[i, 0]
        if x[i, 0] > 0.5:
            found = i
    return found, h


def _tuple_or_number(x: Any, h: Any) -> Any:
    found: Any = 0
    for i in range(x.shape[0]):
        h[i] = x[i, 0]
        if x[i, 0] > 0.5:
            found = (i, 1)
    return found, h


_SOME = [_row_or_none, _row_or_tuple, _complex_or_none, _number_or_text, _tuple_or_number]


@pytest.mark.parametrize("function", _SOME)
@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_what_some_ways_bind(function: Callable[..., Any], scale: float) -> None:
    """A name that a loop may bind to an array, a tuple or a number keeps no old value."""
    x, h = np.random.default_rng(3).random((9, 2)) * scale, np.zeros(9)
    fused = fuser.fuse(function, fallback="allow")
    wanted = function(x, h.copy())
    for _ in range(2):
        found = fused(x, h.copy())
        assert repr(found) == repr(wanted)
