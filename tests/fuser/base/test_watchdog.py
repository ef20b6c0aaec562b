"""A trace that runs Python for long is ended by the clock, whatever the function makes of it."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import budget, watchdog

#: Asynchronous exceptions of a thread need the GIL.
cuts_off = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="without a GIL no trace is cut off"
)
X = np.linspace(1.0, 2.0, 8)
#: Turns of a loop that take about a quarter of a second.
TURNS = 2_000_000
LOG: list[str] = []


def slow(turns: int) -> float:
    """Python's numbers alone."""
    total = 0.0
    for k in iter(range(turns)):
        total = (total + k) % 7.0
    return total


def plain(x: Any) -> Any:
    """It needs a number that takes long."""
    return x * slow(TURNS)


def nested(x: Any) -> Any:
    """In functions inside functions, between operations."""

    def inner(y: Any) -> Any:
        return y + slow(TURNS)

    return inner(x * 2) - 1


def turns(count: int) -> Iterator[int]:
    """Yield numbers."""
    try:
        for k in iter(range(count)):
            yield k % 3
    finally:
        LOG.append("closed")


def generator(x: Any) -> Any:
    """It is left in a generator."""
    return x + sum(k for k in turns(TURNS))


def catches_all(x: Any) -> Any:
    """What ends the trace is caught, and the function goes on."""
    total = 0.0
    for _ in iter(range(4)):
        try:
            total += slow(TURNS)
        except BaseException:  # noqa: BLE001 - as somebody's code has it
            total += 1e6
    return x + total


def raises_another(x: Any) -> Any:
    """What ends the trace becomes another exception."""
    try:
        return x * slow(TURNS)
    except BaseException as error:
        raise ValueError("not this one") from error


def threads(x: Any) -> Any:
    """Its own threads are not the trace's."""
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append(slow(TURNS // 4)))
    thread.start()
    own = slow(TURNS)
    thread.join()
    return x + own + found[0]


@cuts_off
@pytest.mark.parametrize(
    "function", [plain, nested, generator, catches_all, raises_another, threads]
)
def test_long_python_ends_a_trace(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy runs the call, with its result; the trace has not run to its end."""
    monkeypatch.setattr(budget, "SECONDS", 0.05)
    wanted = function(X)
    fused = fuser.fuse(function, fallback="allow")
    LOG.clear()
    assert np.array_equal(fused(X), wanted)
    if function is not threads:  # it is refused for what it calls, too
        assert [reason.code for reason in fused.fallbacks] == ["too-large"]
        assert "s of tracing" in fused.fallbacks[0].found
    assert np.array_equal(fused(X), wanted)


def test_what_a_trace_has_changed_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain function finds everything as it was."""
    monkeypatch.setattr(budget, "SECONDS", 0.05)
    state = {"calls": 0}
    seen: list[int] = []

    def function(x: Any) -> Any:
        state["calls"] += 1
        seen.append(state["calls"])
        y = x.copy()
        y[0] = slow(TURNS)
        x[1] = 5.0
        return y

    x = X.copy()
    fused = fuser.fuse(function, fallback="allow")
    fused(x)
    assert (state, seen, x[1]) == ({"calls": 1}, [1], 5.0)


def test_no_exception_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does one meet what runs after the trace, nor the plain function."""
    monkeypatch.setattr(budget, "SECONDS", 0.05)
    for _ in range(3):
        fused = fuser.fuse(lambda x: x + slow(TURNS // 2), fallback="allow")
        fused(X)
        slow(TURNS // 2)


def test_short_functions_are_left_alone() -> None:
    """And the thread that looks at them ends."""
    fused = fuser.fuse(lambda x: x + slow(1000), fallback="error")
    assert np.array_equal(fused(X), X + slow(1000))
    end_s = time.monotonic() + 5
    while time.monotonic() < end_s and watchdog._watching:
        time.sleep(0.01)
    assert not watchdog._watching
    assert not any(thread.name == "fuser-watchdog" for thread in threading.enumerate())


@cuts_off
def test_two_threads_trace_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is ended by its own clock."""
    monkeypatch.setattr(budget, "SECONDS", 0.5)
    found: dict[str, Any] = {}

    def run(name: str, function: Any) -> None:
        fused = fuser.fuse(function, fallback="allow")
        found[name] = fused(X), fused.fallbacks

    work = {"long": lambda x: x + slow(TURNS * 6), "short": lambda x: x + slow(100)}
    started = [threading.Thread(target=run, args=each) for each in work.items()]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert np.array_equal(found["long"][0], X + slow(TURNS * 6))
    assert found["long"][1]
    assert np.array_equal(found["short"][0], X + slow(100))
    assert not found["short"][1]
