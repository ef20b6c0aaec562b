"""Loops that the bytecode shows to be short are unrolled, and their source is not looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import watchdog
from fuser.capture import staging
from fuser.capture.codes import UNROLLED_OPERATIONS, has_short_loops
from tests.fuser.comparing import assert_same

HALF = 5


def chain(length: int) -> Callable[..., Any]:
    """Arithmetic for half of a length that a cell holds."""
    def function(x: Any, y: Any) -> Any:
        for step in range(length // 2):
            x = (x * y) + y if step % 2 else (x * y) - y
        return x

    return function


def constants(x: Any, y: Any) -> Any:
    """Two loops, over a constant and over a global."""
    for step in range(8, 1, -2):
        x = x * y + step
    for _ in range(HALF + 1):
        x, y = -y, x + y
    return x


def chosen(x: Any, y: Any) -> Any:
    """A statement is decided."""
    for step in range(4):
        if step % 2:
            x = x * y
    return x


def ended(x: Any, y: Any) -> Any:
    """It has a `break`."""
    for step in range(4):
        x = x * y
        if step > 2:
            break
    return x


def returned(x: Any, y: Any) -> Any:
    """It has a `return`."""
    for step in range(4):
        if step > 2:
            return x + step
        x = x * y
    return y


def calling(x: Any, y: Any) -> Any:
    """It calls something."""
    for step in range(4):
        x = np.maximum(x, step) + y
    return x


def indexed(x: Any, y: Any) -> Any:
    """It reads parts; the last one's operands do not fit."""
    for step in range(4):
        x = x[1:] * y[step]
    return x


def nested(x: Any, y: Any) -> Any:
    """A loop in a loop."""
    for step in range(4):
        for other in range(3):
            x = x * step + y * other
    return x


def bound_by_local(x: Any, y: Any) -> Any:
    """A local name's number is not known."""
    turns = 4
    for _ in range(turns):
        x = x * y + 1
    return x


def of_length(x: Any, y: Any) -> Any:
    """Nor is an argument's length."""
    for _ in range(len(x)):
        x = x * y + 1
    return x


def never_ends(x: Any, y: Any) -> Any:
    """A loop that has a test."""
    for _ in range(4):
        x = x + y
    while x.size < 0:
        x = x + 1
    return x


def nothing(x: Any, y: Any) -> Any:
    """No operation: it may go on for ever."""
    for _ in range(4):
        pass
    return x + y


def no_step(x: Any, y: Any) -> Any:
    """What `range` refuses."""
    for _ in range(1, 4, 0):
        x = x + y
    return x


def no_argument(x: Any, y: Any) -> Any:
    """What `range` refuses, too."""
    for _ in range():  # type: ignore[call-overload]
        x = x + y
    return x


SHORT = [chain(64), chain(2 * (UNROLLED_OPERATIONS // 5)), constants]
OTHERS = [
    chain(2 * (UNROLLED_OPERATIONS // 5) + 2), chosen, ended, returned, calling, indexed, nested,
    bound_by_local, of_length, never_ends, nothing, no_step, no_argument,
]  # fmt: skip


@pytest.mark.parametrize("function", SHORT)
def test_short_loops_are_not_staged(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No twin is made, and no clock is needed."""
    assert has_short_loops(function)

    def refuse(*_: object) -> None:
        raise AssertionError("its source is looked at")

    monkeypatch.setattr(staging, "staged", refuse)
    monkeypatch.setattr(watchdog, "Watched", refuse)
    x, y = np.linspace(-1, 1, 7), np.linspace(0.5, 0.9, 7)
    assert_same(function, x, y)


@pytest.mark.parametrize("function", OTHERS)
def test_other_loops_are(function: Any) -> None:
    """Where the bytecode does not show it, the source is asked."""
    assert not has_short_loops(function)


@pytest.mark.parametrize("function", OTHERS[:-2])
def test_other_loops_give_what_numpy_gives(function: Any) -> None:
    """By whatever way they take."""
    x, y = np.linspace(-1, 1, 7), np.linspace(0.5, 0.9, 7)
    assert_same(function, x, y)


def test_a_name_that_hides_range_is_looked_up() -> None:
    """A global called `range` is no range."""
    space: dict[str, Any] = {"range": lambda n: [n, n]}
    exec("def hidden(x):\n    for k in range(4):\n        x = x + k\n    return x\n", space)
    assert not has_short_loops(space["hidden"])
    x = np.arange(3.0)
    np.testing.assert_array_equal(fuser.fuse(space["hidden"], fallback="allow")(x), x + 8)


def test_an_empty_cell_is_not_known() -> None:
    """What a cell holds is asked for when it is traced."""
    def function(x: Any) -> Any:
        for k in range(turns):
            x = x + k
        return x

    assert not has_short_loops(function)
    turns = 3
    assert has_short_loops(function)
    x = np.arange(3.0)
    assert_same(function, x)
