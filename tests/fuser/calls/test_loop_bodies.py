"""Loops that write into their arguments: in place where no iteration can fail, else on copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls import loop_bodies
from fuser.programs import run
from tests.requirements import needs_native_entry


def smoothed(u: Any, n: int) -> Any:
    """One array, written beside where it is read: a twin takes its place in turns."""
    for _ in range(n):
        u[1:-1] += 0.25 * (u[2:] + u[:-2] - 2.0 * u[1:-1])
    return u


def exchanged(u: Any, v: Any, n: int) -> Any:
    """Two arrays change places."""
    for _ in range(n):
        v[1:-1] = 0.5 * (u[2:] + u[:-2])
        u, v = v, u
    return u


def three(u: Any, v: Any, w: Any, n: int) -> Any:
    """Three arrays in turn."""
    for _ in range(n):
        w[2:-1] = 2.0 * v[2:-1] - u[2:-1] + 0.1 * (v[3:] - v[1:-2])
        u, v, w = v, w, u
    return v


def beside(u: Any, v: Any, rate: float, n: int) -> None:
    """Whole arrays, and a number."""
    for _ in range(n):
        u += rate * v
        v -= rate * u


CASES: list[tuple[Callable[..., Any], int, tuple[Any, ...]]] = [
    (smoothed, 1, ()), (exchanged, 2, ()), (three, 3, ()), (beside, 2, (0.1,)),
]


def _copies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Takes each array that a loop copies when it begins."""
    found: list[Any] = []
    usual = loop_bodies._copied
    monkeypatch.setattr(loop_bodies, "_copied", lambda a: found.append(a) or usual(a))
    return found


@needs_native_entry
@pytest.mark.parametrize(
    ("function", "count", "more"), CASES, ids=[function.__name__ for function, *_ in CASES]
)
@pytest.mark.parametrize("length", [3, 50])
def test_arguments_are_written_in_place(
    function: Callable[..., Any], count: int, more: tuple[Any, ...], length: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """After calls that have met all arrays, nothing is copied; bits and identities are NumPy's."""
    copies = _copies(monkeypatch)
    start = np.random.default_rng(0).standard_normal((count, length, 4))
    fused = fuser.fuse(function, fallback="error")
    for trips in (6, 6, 6, 7, 7, 7, 5, 8, 0, 1, 2, 3, 8, 7):
        plain, own = list(start.copy()), list(start.copy())
        del copies[:]
        wanted, found = function(*plain, *more, trips), fused(*own, *more, trips)
        np.testing.assert_array_equal(own, plain)
        assert [found is a for a in own] == [wanted is a for a in plain]
    assert not copies


def _misaligned(array: Any) -> Any:
    """The same, one byte beside where elements of its dtype lie."""
    made = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _strided(array: Any) -> Any:
    """The same, with gaps."""
    made = np.zeros((*array.shape[:-1], 2 * array.shape[-1]))[..., ::2]
    made[...] = array
    return made


@needs_native_entry
@pytest.mark.parametrize("lie", [_misaligned, _strided, np.asfortranarray])
def test_arguments_that_lie_otherwise(lie: Callable[[Any], Any]) -> None:
    """Loops work on copies of them; one that changes places with another has that one copied."""
    start = np.random.default_rng(0).standard_normal((2, 30, 4))
    fused = fuser.fuse(exchanged, fallback="error")
    for trips in (6, 6, 6, 7, 7, 7, 1, 2):
        plain, own = list(start.copy()), [start[0].copy(), lie(start[1])]
        exchanged(*plain, trips)
        fused(*own, trips)
        np.testing.assert_array_equal(own, plain)


def until(u: Any, table: Any, n: int) -> None:
    """The index says what is read, so some iteration may find nothing there."""
    for k in range(n):
        u += table[k]


def small(u: Any, step: int, n: int) -> None:
    """Not every integer fits."""
    for _ in range(n):
        u[1:-1] = u[2:] - u[:-2]
        u += step


def test_iterations_that_fail() -> None:
    """What an iteration before has written is what NumPy leaves, whatever ran before."""
    fused = fuser.fuse(until)
    for trips in (5, 5, 5, 8):
        plain, own = np.zeros(6), np.zeros(6)
        for each, array in ((until, plain), (fused, own)):
            if trips < 8:
                each(array, np.arange(7.0), trips)
            else:
                with pytest.raises(IndexError):
                    each(array, np.arange(7.0), trips)
        np.testing.assert_array_equal(own, plain)
    fused = fuser.fuse(small)
    for step in (1, 2, 3, 4, 300):
        plain, own = np.arange(9, dtype=np.uint8), np.arange(9, dtype=np.uint8)
        for each, array in ((small, plain), (fused, own)):
            if step < 300:
                each(array, step, 6)
            else:
                with pytest.raises(OverflowError):
                    each(array, step, 6)
        np.testing.assert_array_equal(own, plain)


@needs_native_entry
def test_what_others_see_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy from before the loop, and an argument that a kernel after it reads."""

    def kept(u: Any, n: int) -> Any:
        before = u.copy()
        for _ in range(n):
            u[1:-1] = 0.5 * (u[2:] + u[:-2]) + before[1:-1]
        return before

    def read_after(u: Any, n: int) -> Any:
        for _ in range(n):
            u[1:-1] = 0.5 * (u[2:] + u[:-2])
        return u * 2.0

    copies = _copies(monkeypatch)
    for function in (kept, read_after):
        fused = fuser.fuse(function, fallback="error")
        for _ in range(5):
            plain, own = np.arange(9.0), np.arange(9.0)
            np.testing.assert_array_equal(fused(own, 6), function(plain, 6))
            np.testing.assert_array_equal(own, plain)
        assert copies
        del copies[:]


def test_a_first_call_looks_at_few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that NumPy runs in each iteration is no reason to look at all of them."""
    looks = []
    look = run.execute
    monkeypatch.setattr(run, "execute", lambda *a, **k: (looks.append(1), look(*a, **k))[1])

    def ordered(x: Any, steps: int) -> Any:
        for k in range(steps):
            x[k] = np.sort(x[:, k] - x[k]) * 0.5
        return x

    x = np.random.default_rng(3).random((60, 60))
    wanted, found = ordered(x.copy(), 60), fuser.fuse(ordered)(x, 60)
    np.testing.assert_array_equal(found, wanted)
    assert 0 < len(looks) <= 8


def _gram(x: Any, out: Any) -> Any:
    for i in range(x.shape[1]):
        out[i:, i] = out[i, i:] = np.cumsum((x.T @ x[:, i:])[i]) / (len(x) - 1.0)
    return out


def _solves(x: Any, out: Any) -> Any:
    for i in range(len(x)):
        out += np.linalg.solve(x * (i + 1) + np.eye(len(x)) * 3, out * 0.5 + 1)
    return out


@pytest.mark.parametrize(("function", "breaks"), [(_gram, 5), (_solves, 5)])
def test_functions_of_numpys_are_called_by_the_loop(function: Any, breaks: int) -> None:
    """Right values for every length, and each call is counted; NumPy's own errors."""
    fused = fuser.fuse(function, fallback="allow")
    for length in (4, 3, 7, 1, 5):
        x = np.random.default_rng(length).standard_normal((length, length))
        made = [np.zeros_like(x) for _ in "ab"]
        for _ in range(2):
            found, wanted = fused(x, made[0]), function(x, made[1])
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    before = fuser.stats()["graph_breaks"]
    fused(x, made[0])
    assert fuser.stats()["graph_breaks"] - before >= breaks
    if function is _solves:
        bad = np.full((5, 5), np.nan)
        bad[:] = -np.eye(5) * 3 / 2  # which the second iteration makes singular
        wanted, found = np.zeros((5, 5)), np.zeros((5, 5))
        errors = []
        for run, array in ((function, wanted), (fused, found)):
            with pytest.raises(np.linalg.LinAlgError) as error:
                run(bad, array)
            errors.append(str(error.value))
        assert errors[0] == errors[1]
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("beyond", [0, 1, 3])
def test_an_index_that_leaves_its_array_late_is_numpys(beyond: int) -> None:
    """NumPy has written until there, and raises; so does the fused function."""

    def filled(x: Any, room: Any, steps: int) -> None:
        for k in range(steps):
            room[k] = x @ x[:, k] + 1.0

    x = np.arange(16.0).reshape(4, 4)
    fused = fuser.fuse(filled, fallback="allow")
    for steps in (4, 4 + beyond, 3, 4):
        room, plain = np.zeros((4, 4)), np.zeros((4, 4))
        try:
            filled(x, plain, steps)
        except IndexError:
            with pytest.raises(IndexError):
                fused(x, room, steps)
        else:
            fused(x, room, steps)
        assert room.tolist() == plain.tolist()


def test_what_an_iteration_leaves_and_keeps_is_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of what is carried, beside functions of NumPy's: iterations are called a short way."""
    looked = []
    usual = loop_bodies.PhaseFunction._shorten

    def shorten(*args: Any) -> bool:
        looked.append(1)
        return usual(*args)

    monkeypatch.setattr(loop_bodies.PhaseFunction, "_shorten", shorten)

    def history(a: Any, x: Any, n: int) -> Any:
        rows = np.zeros((n, 6))
        for k in range(n):
            x = np.linalg.solve(a, x)
            x = x / np.abs(x).max()
            rows[k] = x
        return rows, x

    a, x = np.eye(6) * 4 + np.add.outer(np.arange(6), np.arange(6)) % 3, np.ones(6)
    fused = fuser.fuse(history, fallback="allow")
    for n in (3000, 40):
        for found, wanted in zip(fused(a, x, n), history(a, x, n), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert 0 < len(looked) < 20
