"""Loops whose iterations compute planes at the same places are loops of kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser


def driven(u: Any, v: Any, pulse: Any) -> None:
    """A plane beside a row that an element drives."""
    for t in range(len(pulse)):
        u[0, :] = pulse[t]
        u[1:, :] -= 0.5 * (v[1:, :] - v[:-1, :])
        v[:-1, 1:] += 0.25 * u[1:, :-1]


def rows(u: Any, v: Any, pulse: Any) -> None:
    """Rows at the index."""
    for t in range(1, len(pulse)):
        u[t] = pulse[t] * u[t - 1] + v[t]


def recorded(u: Any, v: Any, pulse: Any) -> None:
    """An element is written beside a plane."""
    for t in range(len(pulse)):
        u[:, 1:] += v[:, :-1] * pulse[t]
        pulse[t] = u[3, 4]


def shrinking(u: Any, v: Any, pulse: Any) -> None:
    """Planes at other places in each iteration."""
    for t in range(len(pulse)):
        u[t + 1 :, 1:] += v[t + 1 :, :-1] * pulse[t]


def slabs(u: Any, v: Any, pulse: Any) -> None:
    """Columns, of which rows stand apart."""
    for t in range(1, len(pulse)):
        u[:, t] = pulse[t] * u[:, t - 1] + v[:, t]


@pytest.mark.parametrize(
    ("function", "planes"),
    [(driven, True), (rows, False), (recorded, False), (shrinking, False), (slabs, False)],
)
def test_planes_are_computed_by_kernels(function: Callable[..., None], planes: bool) -> None:
    """Threads share those; all else is a loop over elements. Values are NumPy's."""
    generator = np.random.default_rng(3)
    fused = fuser.fuse(function, fallback="error")
    for shape, count in (((30, 20), 9), ((30, 20), 9), ((12, 11), 5), ((12, 11), 1)):
        given = generator.random(shape), generator.random(shape), generator.random(count)
        wanted = tuple(each.copy() for each in given)
        fused(*given)
        function(*wanted)
        assert all(map(np.array_equal, given, wanted))
    assert ("loop over elements" not in str(fused.explain(*given))) is planes


def rolling(a: Any, b: Any) -> Any:
    """Iterations of a kernel and a loop over elements, on two rows that take turns."""
    before = np.arange(b.shape[0] + 1)
    for i in range(a.shape[0]):
        now = before * 2 + i
        for j in range(b.shape[0]):
            now[j + 1] = min(now[j] + 1, before[j] + (0 if a[i] == b[j] else 1))
        before = now
    return before


def test_iterations_of_kernels_and_loops_over_elements_take_the_short_way() -> None:
    """Each iteration is one function of both, whose stages are fused functions of their own."""
    fused = fuser.fuse(rolling, fallback="error")
    generator = np.random.default_rng(4)
    a, b = generator.integers(0, 4, 12), generator.integers(0, 4, 15)
    for _ in range(3):
        assert np.array_equal(fused(a, b), rolling(a, b))
    before = fuser.stats().get("launches", 0)
    fused(a, b)
    assert fuser.stats().get("launches", 0) == before  # Python launches none: it is all native
