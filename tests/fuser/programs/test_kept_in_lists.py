"""Loops over whole arrays that append to lists: what the lists are then, and who sees into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import difference


def check(found: Any, wanted: Any) -> None:
    """Equal in type and value, through lists and tuples."""
    if isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
        return
    assert difference(wanted, found) == ""


def sums(x: Any, n: int) -> Any:
    """NumPy's scalars, Python's numbers and the index; the lists themselves, and what they hold."""
    a, b, times = [], [], []
    for k in range(2, n):
        x = x * 0.875
        a.append(x.max())
        b.append(float(x[0]))
        times.append(k * 0.5)
    return x, a, b, np.array(times), np.asarray(a), a[-1], len(b), max(0, len(a))


def arrays(x: Any, n: int) -> Any:
    """Arrays, one before the loop and one a row of another."""
    rows, kept = np.outer(x, x), [x]
    for row in rows:
        x = x * 0.5 + row
        kept.append(x.copy())
    backwards = []
    for k in range(n, 0, -1):
        x = x * 0.5 + k
        backwards.append(x)
    return np.array(kept), np.stack(backwards), np.vstack(backwards[::-1])


def of_no_use(x: Any, n: int) -> Any:
    """What only Python's own list can tell: the loop is unrolled."""
    a = []
    for _ in range(n):
        x = x * 0.875
        a.append(x.max())
    a.append(x.min())
    return [v * 2 for v in a], a


def seen_twice(x: Any, n: int) -> Any:
    """Another name has the list, too."""
    a = b = []
    for _ in range(n):
        x = x * 0.875
        a.append(x.max())
    return b


def written_later(x: Any, n: int) -> Any:
    """The last item is written into after the loop, and another is written where it is kept."""
    a = []
    for _ in range(n):
        x = x * 0.875
        a.append(x)
    x += 1
    return np.array(a)


def written_in_turn(x: Any, n: int) -> Any:
    """The list has one array as often as there are iterations."""
    a, b = [], []
    y = x.copy()
    for k in range(n):
        y *= 0.875
        a.append(y)
        z = x * k
        b.append(z)
        z[0] = 7.0
    return np.array(a), np.array(b)


def an_argument_first(x: Any, n: int) -> Any:
    """The first item is the argument, into which something is written."""
    a, y = [], x
    for _ in range(n):
        a.append(y)
        y = y * 0.5 + 1
    x[0] = 99
    return np.array(a), y


def in_another(x: Any, n: int) -> Any:
    """A list for each iteration of a loop around."""
    found = []
    for _ in range(12):
        a = []
        for _ in range(n):
            x = x * 0.875 + 0.125
            a.append(x.max())
        found.append(np.array(a))
    return np.array(found)


def in_some_iterations(x: Any, n: int) -> Any:
    """By the index and after `continue`; copies of an array that is written into, and numbers."""
    frames, times, kept, x = [x.copy()], [], [], x.copy()
    for k in range(n):
        x[1:] = x[1:] * 0.875 + x[:-1] * k
        if k % 5 == 0:
            frames.append(x.copy())
            times.append(k * 0.5)
        if k < 3 or k % 2:
            continue
        kept.append(x.max())
    return np.array(frames), times, np.array(times), kept[-1], len(kept), x


def as_values_say(x: Any, n: int) -> Any:
    """What the loop computes decides what it appends: the loop is unrolled."""
    a = []
    for _ in range(n):
        x = x * 0.875
        if x.max() > 0.5:
            a.append(x.min())
    return a


def first_items(x: Any, n: int) -> Any:
    """The first iteration is unrolled and has appended; in others a name's array is kept."""
    a, b = [], []
    y = 0
    for k in range(n):
        y = y + x * 0.5
        x = x * 0.875
        if k % 3 != 1:
            a.append(y)
        if k > n - 2:
            b.append(x.max())
    y[0] = 99.0
    return np.array(b), y, len(a)


LOOPS = {
    sums: 1, arrays: 2, of_no_use: 0, seen_twice: 0, written_later: 0, written_in_turn: 0,
    an_argument_first: 0, in_another: 2, in_some_iterations: 1, as_values_say: 0, first_items: 1,
}  # fmt: skip


@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_lists_hold_what_numpys_would(function: Callable[..., Any]) -> None:
    """Values, types and arguments, for several numbers of iterations, in as many loop regions."""
    fused = fuser.fuse(function, fallback="allow")
    for n in (40, 40, 41, 12):
        x = np.random.default_rng(n).random(6) + 0.5
        mine, plain = x.copy(), x.copy()
        check(fused(mine, n), function(plain, n))
        check(mine, plain)
    assert str(fused.explain(x, 40)).count("iterations, ") == LOOPS[function]
    if LOOPS[function]:
        fused(x, 100)
        assert [reason.code for reason in fused.fallbacks] == []


def test_empty_lists_are_numpys() -> None:
    """No iteration: an array of floats without elements."""
    fused = fuser.fuse(sums, fallback="allow")
    x = np.ones(3, np.float32)
    fused(x, 30)
    with pytest.raises(IndexError):
        fused(x, 2)
    check(fused(x, 3), sums(x, 3))


def until(x: Any, least: float) -> Any:
    """Nothing says how often it runs."""
    a = []
    while x.max() > least:
        x = x * 0.5
        a.append(x[0])
    return a, x


@pytest.mark.usefixtures("never_brief")
def test_more_items_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such calls are unrolled, or NumPy's where that takes long, and others run as before."""
    monkeypatch.setattr("fuser.capture.loop_passes._MANY", 64)
    fused = fuser.fuse(until, fallback="allow")
    for least in (1e-9, 1e-9, 1e-30, 1e-9, 1e-300, 1e-9):
        check(fused(np.ones(4), least), until(np.ones(4), least))
    assert "float64[64]" in str(fused.explain(np.ones(4), 1e-9))
