"""Iterations of a loop that run together by rows: NumPy's bits, whatever arrays they touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import batches


def jacobi(u: Any, steps: int) -> Any:
    """Two planes take turns."""
    now, after = u.copy(), u.copy()
    for _ in range(steps):
        after[1:-1, 1:-1] = 0.25 * (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, 2:])
        now, after = after, now
    return now


def downwards(u: Any, steps: int) -> Any:
    """Rows far below are read, so that loop nests lag by many rows, and columns beside."""
    now, after = u.copy(), u.copy()
    for _ in range(steps):
        after[:-5] = now[5:] - 0.5 * now[:-5, ::-1][:, ::-1]
        now, after = after, now
    return now, after


def staggered(ex: Any, ey: Any, hz: Any, pulse: Any) -> Any:
    """Three planes, in place; one of the loop nests has a single row, others one axis."""
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for t in range(pulse.shape[0]):
        ey[0, :] = pulse[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


def block(u: Any, steps: int) -> Any:
    """Three axes, of which the outermost is run along."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1, 1:-1, 1:-1] += 0.1 * (u[2:, 1:-1, 1:-1] - u[1:-1, :-2, 1:-1] * u[1:-1, 1:-1, 2:])
    return u


def lines(a: Any, b: Any, steps: int) -> Any:
    """One axis."""
    a, b = a.copy(), b.copy()
    for _ in range(steps):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3
    return a, b


def turned(u: Any, steps: int) -> Any:
    """Columns of one plane are rows of the other: these cannot run by rows, and run in order."""
    now, after = u.copy(), u.copy()
    for _ in range(steps):
        after[1:] = 0.5 * now.T[:-1]
        now, after = after, now
    return now


def aside(a: Any, b: Any, c: Any, steps: int) -> Any:
    """A kernel that makes an array, which is gone when the call ends: it cannot wait."""
    a, b, c = a.copy(), b.copy(), c.copy()
    for _ in range(steps):
        c[:] = 0.5 * c
        a[1:-1, 1:-1] = -0.125 * c[2:, :-2] + 0.25 * a[1:-1, 1:-1]
        c[:] = 0.5 * a
        a, b = b, a
    return a, b, c


def _plane(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape)


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], bool]] = [
    (jacobi, (_plane(90, 33), 40), True),
    (jacobi, (_plane(200, 7).astype("f4"), 37), True),
    (downwards, (_plane(333, 20), 22), True),
    (staggered, (_plane(120, 30), _plane(120, 30), _plane(120, 30), np.sin(np.arange(21.0))), True),
    (block, (_plane(70, 6, 9), 19), True),
    (lines, (_plane(90_000), _plane(90_000), 12), True),
    (turned, (_plane(60, 60), 12), False),
    (aside, (*_plane(3, 33, 11).astype("f4"), 24), False),
]  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each batch ran by rows."""
    found: list[bool] = []
    planned = batches.Batch._planned

    def look(*args: Any) -> Any:
        plan = planned(*args)
        found.append(bool(plan))
        return plan

    monkeypatch.setattr(batches.Batch, "_planned", look)
    monkeypatch.setattr(batches, "LEAST_BYTES", 0)
    return found


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("function", "arguments", "by_rows"), CASES,
    ids=[f"{function.__name__}{k}" for k, (function, *_) in enumerate(CASES)],
)
def test_same_bits(
    function: Any, arguments: Any, by_rows: bool, threads: int, ran: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Results are NumPy's for any number of threads, by small tiles and by bands of few rows."""
    monkeypatch.setattr(batches, "BAND_FACTOR", 1)
    monkeypatch.setattr(batches, "TILE_BYTES", 1000)
    before = fuser.get_num_threads()
    fuser.set_num_threads(threads)
    try:
        fused = fuser.fuse(function)
        for _ in range(4):
            found, expected = (np.asarray(f(*arguments)) for f in (fused, function))
            assert found.tobytes() == expected.tobytes()
    finally:
        fuser.set_num_threads(before)
    assert any(ran) == by_rows


def test_what_interrupts_a_loop_sees_no_waiting_kernels(
    ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler, say, that calls the same function between two iterations."""
    fused, u = fuser.fuse(jacobi), _plane(90, 33)
    expected = jacobi(u, 20)
    for _ in range(3):
        fused(u, 20)
    found, usual = list[Any](), batches.Batch.iterated

    def iterated(batch: Any) -> None:
        usual(batch)
        if len(found) < 2:
            found.append(None)
            found[-1] = fused(u, 20)

    monkeypatch.setattr(batches.Batch, "iterated", iterated)
    assert fused(u, 20).tobytes() == expected.tobytes()
    assert [each.tobytes() for each in found] == [expected.tobytes()] * 2
    assert any(ran)


def test_any_number_of_iterations(ran: list[bool]) -> None:
    """What waits when a loop ends is run, and the next call begins with nothing waiting."""
    fused, u = fuser.fuse(jacobi), _plane(90, 33)
    for steps in (20, 3, 1, 9, 16):
        for _ in range(3):
            assert fused(u, steps).tobytes() == jacobi(u, steps).tobytes()


def test_arrays_that_lie_elsewhere_need_no_other_plan(ran: list[bool]) -> None:
    """Results that are kept have each call make its arrays in other memory."""
    fused, kept = fuser.fuse(staggered), list[Any]()
    ex, ey, hz = (_plane(120, 30) + k for k in range(3))
    for call in range(12):
        pulse = np.sin(np.arange(24.0) + call)
        kept += [np.empty(1000 + 300 * call), fused(ex, ey, hz, pulse)]
        for found, expected in zip(kept[-1], staggered(ex, ey, hz, pulse), strict=True):
            assert found.tobytes() == expected.tobytes()
    assert any(ran)
    assert len(ran) <= 6


def test_a_plan_is_that_of_arrays_as_far_apart() -> None:
    """Two operands of 100 bytes and one of 8: wherever they lie, if they overlap alike."""
    pattern = batches._Pattern.__new__(batches._Pattern)
    pattern._bases, pattern._sizes_bytes = np.arange(3), np.array([100, 100, 8])

    def places(*bases: int) -> bytes:
        return pattern.places_of(np.array(bases), 1)

    assert places(0, 1000, 5000) == places(7000, 200, 9000) == places(100, 0, 200)
    assert places(0, 50, 5000) == places(300, 350, 200) != places(0, 60, 5000)
    assert len({places(0, 50, 5000), places(50, 0, 5000), places(0, 0, 5000)}) == 3
    assert places(0, 1000, 92) != places(0, 1000, 100) == places(0, 1000, 5000)
