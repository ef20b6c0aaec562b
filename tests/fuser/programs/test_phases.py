"""An iteration is divided where an array is read at other places than it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.ir import loops
from fuser.programs.phases import phases_of


def stencils(a: Any, b: Any, n: int) -> None:
    """The second statement reads what the first one wrote, beside it."""
    for _ in range(n):
        b[1:-1] = 0.25 * (a[2:] + a[:-2]) + b[1:-1]
        a[1:-1] = 0.25 * (b[2:] + b[:-2])


def fields(a: Any, b: Any, n: int) -> None:
    """Two fields in turn, each read where it is written, too."""
    for _ in range(n):
        a[1:] = a[1:] - 0.5 * (b[1:] - b[:-1])
        b[:-1] = b[:-1] - 0.5 * (a[1:] - a[:-1])


def needs_what_was(a: Any, b: Any, n: int) -> None:
    """What was there before the first write is needed together with what it left."""
    for _ in range(n):
        old = a[2:] * 0.5
        a[1:-1] = b[2:] + 1.0
        b[1:-1] = (a[2:] - a[:-2]) * 0.25 + old


def read_where_written(a: Any, b: Any, n: int) -> None:
    """One kernel does both statements."""
    for _ in range(n):
        a[1:-1] = a[1:-1] * 0.5 + 1.0
        b[1:-1] = b[1:-1] - a[1:-1]


def three(a: Any, b: Any, n: int) -> None:
    """Three statements, each of which reads what the one before wrote, and two writes into one."""
    for _ in range(n):
        a[3:-1] = b[4:] - b[:-4]
        b[1:-1] = a[2:] * 0.5 - a[:-2]
        a[:3] = b[1:4] * 0.25 + b[:3] + a[:3]


CASES = [(stencils, 2), (fields, 2), (needs_what_was, 2), (read_where_written, 1), (three, 3)]


@pytest.mark.parametrize(("function", "count"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_phases(function: Callable[..., Any], count: int) -> None:
    """As many as writes are read beside where they wrote; each value is NumPy's, to the bit."""
    a, b = np.random.default_rng(1).standard_normal((2, 40))
    graph = fuser.trace(function, a, b, 20)
    (call, *_) = [node for node in graph.nodes if node.payload.text.count(loops.NAME)]
    assert len(phases_of(loops.region_of(call.payload.args))) == count
    fused = fuser.fuse(function, fallback="error")
    for trips in (1, 2, 9):
        plain, own = np.stack([a, b]), np.stack([a, b])
        function(*plain, trips)
        fused(*own, trips)
        np.testing.assert_array_equal(own, plain)


def test_one_value_that_several_names_have() -> None:
    """It is stored once; the loop has its short way, with NumPy's calls in it, too."""

    def found(a: Any, b: Any, n: int) -> Any:
        old = new = a.sum()
        for _ in range(n):
            new = np.abs(a).max() + old * 0.5
            a = a * 0.5 + b
            old = new
        return a, old, new

    def sorted_each_time(a: Any, b: Any, n: int) -> Any:
        old = new = a.sum()
        for _ in range(n):
            new = np.sort(a)[-1] + old * 0.5
            a = a * 0.5 + b
            old = new
        return a, old, new

    for function in (found, sorted_each_time):
        fused = fuser.fuse(function, fallback="allow")
        for trips in (3, 4, 9):
            a, b = np.random.default_rng(trips).standard_normal((2, 40))
            for one, two in zip(fused(a, b, trips), function(a, b, trips), strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-12)
                assert type(one) is type(two)
