"""Loops whose index is an index: rows, columns and slices that an iteration reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls import loop_bodies
from fuser.ir import opaque_calls
from tests.fuser.comparing import difference, independent, run_plain


def rows_summed(x: Any, y: Any, n: int) -> Any:
    """One row each time."""
    s = np.zeros(x.shape[1])
    for t in range(n):
        s = s + np.abs(x[t]) * y[t]
    return s


def history(x: Any, y: Any, n: int) -> Any:
    """Each state is kept."""
    u = x[0] * 1.0
    out = np.zeros((n, u.shape[0]))
    for t in range(n):
        u = u * 0.9 + y[0]
        out[t] = u
    return out, u


def into_an_argument(x: Any, y: Any, n: int) -> Any:
    """Rows of an argument, from the row before."""
    for t in range(1, n):
        y[t] = np.sin(x[t]) + 0.5 * y[t - 1]
    return y


def shortest_paths(x: Any, y: Any, n: int) -> Any:
    """A row and a column of the array that is written."""
    for k in range(min(n, x.shape[1])):
        x[:] = np.minimum(x, x[:, k][:, None] + x[k, :][None, :] * y.max())
    return x


def backwards(x: Any, y: Any, n: int) -> Any:
    """An index that counts down, and the one before it."""
    s = x[0] * 0.0
    for t in range(n - 1, 0, -1):
        s = s * 0.5 + np.exp(-x[t]) - y[t - 1]
    return s


def before_the_first(x: Any, y: Any, n: int) -> Any:
    """In the first iteration the index counts from the end."""
    s = x[0] * 0.0
    for t in range(n):
        s = np.tanh(s + x[t - 1])
    return s + y[0]


def columns(x: Any, y: Any, n: int) -> Any:
    """Columns, which lie apart in memory."""
    s = x[:, 0] * 1.0
    for k in range(1, min(n, x.shape[1])):
        s = np.maximum(s, x[:, k]) + y[:, k - 1]
    return s


def from_here_on(x: Any, y: Any, n: int) -> Any:
    """Slices that become shorter."""
    for t in range(1, n):
        y[t:] = np.sqrt(np.abs(y[t:])) + x[: x.shape[0] - t]
    return y


def powers(x: Any, y: Any, n: int) -> Any:
    """The index as an index and as a number."""
    m = x[0] * 0.0
    p = y[0] * 1.0
    for t in range(n):
        m = 0.9 * m + 0.1 * x[t]
        p = p - 0.1 * np.sign(m) / (1 - 0.9 ** (t + 1))
    return p


def until_a_row_is_small(x: Any, y: Any, n: int) -> Any:
    """A counter of a `while` is an index."""
    t = 0
    s = y[0] * 1.0
    while t < n and np.abs(s).max() > 0.01:
        s = s * 0.5 + 0.001 * x[t]
        t += 1
    return s, t


def products_of_parts(x: Any, y: Any, n: int) -> Any:
    """A triangle of products, mirrored: what NumPy multiplies becomes shorter."""
    x = x - np.mean(x, axis=0)
    m = min(n, x.shape[1])
    found = np.zeros((m, m))
    for i in range(m):
        found[i:m, i] = found[i, i:m] = x[:, i] @ x[:, i:m] / (y.shape[0] - 1.0)
    return found


def sorted_from_here_on(x: Any, y: Any, n: int) -> Any:
    """NumPy sorts slices that become shorter, and ones of which some lie beyond the end."""
    s = x[0] * 0.0
    for t in range(1, n):
        last = np.sort(x[t:], axis=0)
        y[t:] = y[t:] * 0.5 + last
        s = s + np.sort(x[t - 1 : t + 2], axis=0).sum(axis=0) + np.sort(y[t - 1])
    return s


def windows(x: Any, y: Any, n: int) -> Any:
    """Sums over windows that the index moves, written as an array of another length."""
    k = 3
    out = np.zeros((x.shape[0] - k + 1, x.shape[1]))
    for t in range(min(n, x.shape[0] - k + 1)):
        out[t] = np.sum(x[t : t + k] * y[:k], axis=0)
    return out


PROGRAMS = (
    products_of_parts, sorted_from_here_on, windows, rows_summed, history, into_an_argument,
    shortest_paths, backwards, before_the_first, columns, from_here_on, powers,
    until_a_row_is_small,
)  # fmt: skip


def _arrays(shape: tuple[int, int]) -> tuple[Any, Any]:
    """Two arrays."""
    x, y = np.random.default_rng(4).standard_normal((2, *shape))
    return x, y


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_indices(function: Callable[..., Any]) -> None:
    """Numbers of iterations up to the last row, beyond it, and none; both memory orders."""
    fused = fuser.fuse(function, fallback="allow")
    for order in ("C", "F"):
        for shape in ((9, 7), (12, 5)):
            for n in (6, 2, 1, 0, 5, 9, 13):
                plain = tuple(np.asarray(each, order=order) for each in _arrays(shape))
                own = tuple(each.copy("K") for each in independent(plain))
                wanted = run_plain(function, [*plain, n], {})
                found = run_plain(fused, [*own, n], {})
                if isinstance(wanted, Exception):
                    assert type(found) is type(wanted)
                else:
                    one = wanted if isinstance(wanted, tuple) else (wanted,)
                    two = found if isinstance(found, tuple) else (found,)
                    assert not any(map(difference, one, two, [1e4] * len(one)))
                assert not any(map(difference, plain, own, [1e4] * 2))


@pytest.mark.parametrize(
    "function",
    [rows_summed, history, shortest_paths, backwards, columns, powers, until_a_row_is_small],
    ids=lambda function: function.__name__,
)
def test_one_trace_serves_every_index(function: Callable[..., Any]) -> None:
    """No iteration is compiled for its index."""
    fused = fuser.fuse(function, fallback="error")
    for n in (6, 4, 9, 5):
        fused(*_arrays((9, 9)), n)
    traces = [known.trace for entry in fused._signatures.values() for known in entry.found]
    assert len(traces) == 1
    assert opaque_calls.LOOP in traces[0].graph.text


def test_lengths_of_products_are_known() -> None:
    """What is carried may be a product of matrices, beside an array whose length is stated."""

    def steps(x: Any, y: Any, n: int) -> Any:
        s, sums = x @ y, np.zeros((n, 3))
        for t in range(n):
            s = np.hstack((np.tanh(s @ y[:, :4]), s @ y[:, 4:])) + x[t]
            sums[t] = s[:3].sum(axis=1)
        return s, sums

    fused = fuser.fuse(steps, fallback="allow")
    for n in (6, 4, 9, 5):
        x, y = _arrays((9, 9))
        for one, two in zip(fused(x, y, n), steps(x, y, n), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-11)
    traces = [known.trace for entry in fused._signatures.values() for known in entry.found]
    assert len(traces) == 1
    assert opaque_calls.LOOP in traces[0].graph.text


def test_what_is_peeled_and_what_is_looked_at_twice_fit_a_first_call() -> None:
    """Of several looks at a body the last alone counts; the first iteration is beside it."""

    def relaxed(x: Any, n: int) -> Any:
        change, steps = 1, 0  # becomes a number of another kind
        while change > 1e-3 and steps < n:
            before = x.copy()
            for _ in range(3):
                p = x.copy()
                x[1:-1, 1:-1] = 0.5 * (p[2:, 1:-1] + p[:-2, 1:-1])
                x[:, 0], x[:, -1], x[0], x[-1] = x[:, 1], x[:, -2], x[1], 0
            x[1:-1, 0] = before[1:-1, 1] * 0.5
            x[1:-1, -1] = before[1:-1, -2] * 0.5
            x[2:, 1] += before[:-2, 2]
            x[2:, 2] -= before[:-2, 1]
            x[0], x[-1], x[:, 0] = 0, 1, 0.5
            change = np.abs(x - before).sum() / np.abs(x).sum()
            steps += 1
        return steps, change

    fused = fuser.fuse(relaxed, fallback="error")
    for n in (4, 30, 2):
        mine, its = _arrays((9, 9))[0], _arrays((9, 9))[0]
        (steps, change), (count, other) = fused(mine, n), relaxed(its, n)
        assert steps == count
        np.testing.assert_allclose(change, other, rtol=1e-11)
        np.testing.assert_array_equal(mine, its)


def test_parts_that_overlap_what_is_written() -> None:
    """All of a row is read before any of it is written."""

    def mirrored(x: Any, n: int) -> Any:
        for k in range(n):
            x[k:] = x[k:] + x[k:][::-1] * x[k]
        return x

    fused = fuser.fuse(mirrored, fallback="allow")
    for n in (3, 7):
        plain, own = np.linspace(0, 1, 9), np.linspace(0, 1, 9)
        np.testing.assert_array_equal(fused(own, n), mirrored(plain, n))


@pytest.mark.parametrize(
    "function", [products_of_parts, windows, history, from_here_on, columns],
    ids=lambda function: function.__name__,
)
def test_iterations_are_not_looked_at(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths that the index tells are numbers of a call, of which none needs a look of its own."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(4):
        fused(*_arrays((30, 20)), 18)
    looked: list[Any] = []
    usual = loop_bodies.PhaseFunction._find_and_run

    def look(self: Any, *args: Any) -> Any:
        looked.append(self)
        return usual(self, *args)

    monkeypatch.setattr(loop_bodies.PhaseFunction, "_find_and_run", look)
    fused(*_arrays((30, 20)), 18)
    assert len(looked) <= 2


def test_windows_of_what_a_loop_has_made() -> None:
    """Nested loops over lengths that only arrays outside of them tell; each iteration is brief."""

    def sums(x: Any, w: Any) -> Any:
        size = w.shape[0]
        out = np.empty((x.shape[0], x.shape[1] - size + 1, x.shape[2] - size + 1, w.shape[-1]))
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                window = x[:, i : i + size, j : j + size, np.newaxis]
                out[:, i, j] = np.sum(window * w[np.newaxis], axis=(1, 2))
        return out

    def halved(x: Any, w: Any) -> Any:
        x = np.maximum(sums(x, w), 0.1)
        out = np.empty((x.shape[0], x.shape[1] // 2, *x.shape[2:]), dtype=x.dtype)
        for j in range(x.shape[1] // 2):
            out[:, j] = np.max(x[:, 2 * j : 2 * j + 2], axis=1)
        return out

    fused = fuser.fuse(halved, fallback="error")
    for turn, (length, size) in enumerate([(9, 3), (9, 3), (12, 2), (5, 4), (2, 2), (9, 3)]):
        random = np.random.default_rng(turn)
        x, w = random.normal(size=(4, length, 7)), random.normal(size=(size, size, 8))
        np.testing.assert_allclose(fused(x, w), halved(x, w), rtol=1e-13)


def _triangle(x: Any, out: Any) -> Any:
    for i in range(x.shape[1]):
        out[i:, i] = out[i, i:] = x[:, i] @ x[:, i:]
    return out


def _planes(x: Any, out: Any) -> Any:
    for i in range(out.shape[1]):
        out[:, i, :] = np.sort(x)[:2]
        out[0, i, 1:] = x[i, 0]
        out[1, :, i] = np.sort(x[i])
    return out


def _elements(x: Any, out: Any) -> Any:
    for i in range(x.shape[0]):
        out[i : i + 1, 0:1] = np.linalg.norm(x[i])
        out[i, 1] = np.median(x[:, i])
    return out


def _one_row(x: Any, out: Any) -> Any:
    for i in range(x.shape[0]):
        out[i : i + 1] = np.sort(x[i : i + 1])
        out[i, 1:] += np.sort(x[:, i])[1:]
    return out


@pytest.mark.parametrize("function", [_triangle, _planes, _elements, _one_row])
def test_places_of_one_element_are_written_by_their_numbers(function: Any) -> None:
    """And read so: NumPy needs half the time that a slice of one element takes."""
    fused = fuser.fuse(function, fallback="error")
    for length in (5, 3, 7, 5):
        x = np.random.default_rng(length).standard_normal((length, length))
        made = [np.zeros((2, length, length) if function is _planes else x.shape) for _ in "ab"]
        for _ in range(3):
            np.testing.assert_allclose(fused(x, made[0]), function(x, made[1]), rtol=1e-14)
