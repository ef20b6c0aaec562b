"""The harness's only clock: how long calls take, and how many make one sample."""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat, starmap
from operator import length_hint
from typing import Any

from fuser.suites.statement import Statement
from fuser.suites.workload import Arguments

MOST_CALLS = 1_000_000
LONG_S = 0.25
"""A call is not kept waiting for so long even where the machine is busy."""

now_s = time.perf_counter


def busy_beside_s() -> float:
    """Return the processor seconds that all other threads of this process have had so far."""
    return time.process_time() - time.thread_time()


def clock_resolution_s() -> float:
    """Return the smallest step of the clock that two neighbouring readings show, in seconds."""
    steps = []
    for _ in range(20):
        start_s = stop_s = now_s()
        while stop_s == start_s:
            stop_s = now_s()
        steps.append(stop_s - start_s)
    return min(steps)


def timed_calls(
    function: Callable[..., Any], arguments: Arguments, calls: int, kept: int | None = None
) -> tuple[float, Any]:
    """Return the seconds that `calls` calls took, and the result of one of them, the last.

    The loop runs in C: each result is released before the next call, as in a program that uses
    and forgets it. All calls come from one place, so that none can be told apart from the others
    by who calls; where `kept` is given, the result is that of the call of this number.

    Raises:
        RuntimeError: a call raised StopIteration, which ends a loop in C unseen.
    """
    if isinstance(function, Statement):
        return function.timed(arguments, calls, now_s)
    before = calls - 1 if kept is None else kept
    found: list[Any] = []
    forget = deque[Any](maxlen=0).extend
    takers = ((forget, before), (found.extend, 1), (forget, calls - 1 - before))
    turns = [(take, repeat(arguments, count)) for take, count in takers if count]
    loops = [(take, starmap(function, turn)) for take, turn in turns]
    start_s = now_s()
    for take, loop in loops:
        take(loop)
    seconds = now_s() - start_s
    if not found or any(length_hint(turn) for _, turn in turns):
        raise RuntimeError("a call raised StopIteration: the timed calls were not all made")
    return seconds, found[0]


def called(function: Callable[..., Any], arguments: Arguments) -> Any:
    """Return the result of one call, made where the timed calls are made."""
    return timed_calls(function, arguments, 1)[1]


def calls_per_sample(
    function: Callable[..., Any], arguments: Arguments, least_sample_s: float
) -> tuple[int, float]:
    """Return how many calls make a sample of at least `least_sample_s`, and one call's seconds.

    What seems long enough is timed again: on a busy machine anything takes long now and then, and
    samples of too few calls would be below the clock's resolution.
    """
    calls = 1
    while True:
        seconds, _ = timed_calls(function, arguments, calls)
        if least_sample_s <= seconds < LONG_S:
            seconds = min(seconds, timed_calls(function, arguments, calls)[0])
        if seconds >= least_sample_s or calls >= MOST_CALLS:
            return calls, seconds / calls
        if seconds < least_sample_s / 50:
            calls = min(calls * 10, MOST_CALLS)
        else:
            # 10% more than needed: a sample must not end up just below the least
            calls = min(int(calls * 1.1 * least_sample_s / seconds) + 1, MOST_CALLS)


def seconds_of(
    function: Callable[..., Any], arguments: Arguments, samples: int, least_sample_s: float
) -> list[float]:
    """Return the seconds of one call in each of some samples, without the garbage collector."""
    calls, _ = calls_per_sample(function, arguments, least_sample_s)
    with collector_off():
        return [timed_calls(function, arguments, calls)[0] / calls for _ in range(samples)]


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the garbage collector out of a timed region; collect before it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _nothing(*_arguments: Any) -> None:
    return None


def call_overhead(least_sample_s: float) -> dict[str, Any]:
    """Measure what the loop itself costs: an empty Python function with three arguments."""
    seconds = seconds_of(_nothing, (1.0, 2.0, 3.0), 5, least_sample_s)
    return {"clock_resolution_s": clock_resolution_s(), "empty_python_call_s": seconds}
