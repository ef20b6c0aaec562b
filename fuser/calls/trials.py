"""The short way of a small program beside the plain function: both are run, and timed.

A program of loops and decisions is run by Python, step by step: some microseconds, which NumPy
may need for all of it where arrays are small. Estimates do not tell, so where such a call comes
again, both ways run a few times more. That changes nothing: a program that writes into arguments,
or draws, is not tried, and what else a function might do is none of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter_ns
from typing import Any

import numpy as np

from fuser.backend import MISSED
from fuser.base import budget, config, counters, trees
from fuser.base.protocols import is_a, is_array
from fuser.calls.program_fast_path import ReadyProgram

#: Runs of each way at most: the first ones of the short way still find what later ones know.
RUNS = 8
#: Nanoseconds up to which the short way is tried: beyond them, what Python adds is a small part.
LONGEST_NS = 100_000
#: Nanoseconds of all runs of a way, after which there are no more.
MOST_NS = 5_000_000
#: What a short way may take longer than the plain function: that much is the limit for all calls.
FACTOR, SPARE_NS = 1.05, 300


def is_slower(
    ready: ReadyProgram, plain: Callable[..., Any], structure: Any, leaves: Sequence[Any]
) -> bool:
    """Whether the plain function takes less than the short way of a call that has been served.

    Args:
        ready: the short way.
        plain: the plain function.
        structure: how the call's arguments nest.
        leaves: they.
    """
    path = ready.first_path
    trace = path.call.specialisation.trace
    if path.plain is not None or trace.writes or trace.written or config.current().check:
        return False  # where all is verified, times decide nothing
    if not all(is_a(leaf, (np.ndarray, np.generic)) for leaf in leaves if is_array(leaf)):
        return False  # a device computes while Python goes on
    with budget.aside():  # its stages are made ready, as the next call would have them made
        if ready.run_leaves(*leaves) is MISSED:
            return False
    runs, ours_ns = _fastest_ns(lambda: ready.run_leaves(*leaves))
    if not path.alone:
        counters.add_soon({name: -(runs + 1) * count for name, count in path.counts.items()})
    if ours_ns is None:
        return False
    args, kwargs = trees.unflatten(structure, list(leaves))
    with np.errstate(all="ignore"), suppress(Exception):  # a warning may be an error
        _, plain_ns = _fastest_ns(lambda: plain(*args, **kwargs))
        return plain_ns is not None and plain_ns * FACTOR + SPARE_NS < ours_ns
    return False


def _fastest_ns(run: Callable[[], Any]) -> tuple[int, float | None]:
    """How many runs there were, and the fastest's nanoseconds; None where one took too long."""
    fastest, left_ns = LONGEST_NS, MOST_NS
    for count in range(RUNS):
        with budget.aside():
            start = perf_counter_ns()
            missed = run() is MISSED
            took = perf_counter_ns() - start
        if missed:
            return count, None
        fastest, left_ns = min(fastest, took), left_ns - took
        if left_ns < 0:  # it is long, or others had the processor
            break
    return count + 1, fastest if fastest < LONGEST_NS else None
