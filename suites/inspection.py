"""Whether a timed call did its work, and did it before it returned.

Right results are not enough: they may have been computed before the clock started (remembered from
an earlier call on the same values) or after it stopped (in the background, or when somebody looks).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.suites.sampling import collector_off, now_s, timed_calls
from fuser.suites.verify import flatten
from fuser.suites.workload import Arguments, Array

GLANCES = 64
"""Elements of each result that are looked at when a call returns and again later."""
LATE_S = 50e-6
LATE_SHARE = 0.25
"""Results that take longer to look at than this, and than this share of the call, are doubted."""
COPY_SLACK = 4.0
REMEMBERED_RATIO = 8.0
REMEMBERED_S = 20e-6
TRIALS = 4
SHORT_CALL_S = 1e-3
FEW_ELEMENTS = 64


def glance(arrays: Sequence[Array]) -> list[Array]:
    """Return copies of some elements of each array, its first and its last among them."""
    return [
        each.reshape(-1)[np.linspace(0, each.size - 1, min(each.size, GLANCES)).astype(np.intp)]
        if each.size and each.flags.c_contiguous
        else each.flat[:GLANCES]
        for each in arrays
    ]


def arrays_of(result: Any, fetch: Callable[[Any], Any]) -> tuple[list[Array], float]:
    """Return the arrays of a result, and the seconds until they could be looked at."""
    start_s = now_s()
    arrays = [np.asarray(each) for each in flatten(fetch(result))]
    return arrays, now_s() - start_s


def written_later(arrays: Sequence[Array], before: Sequence[Array]) -> bool:
    """Return whether elements differ from what they were when the call returned."""
    return any(
        not np.array_equal(now, then, equal_nan=now.dtype.kind == "f")
        for now, then in zip(glance(arrays), before, strict=True)
    )


def arrives_late(
    call: Callable[..., Any],
    given: Arguments,
    fetch: Callable[[Any], Any],
    call_s: float,
    first_s: float,
) -> bool:
    """Return whether results are computed when somebody looks, not when the call returns.

    Looking at a result costs at most a copy from another device or another memory; what takes
    several times a copy again and again is work that was left for later. `call_s` is what one call
    takes; `first_s` what looking at the timed result took: only what is long is tried again.
    """
    limit_s = max(LATE_S, LATE_SHARE * call_s)
    if first_s <= limit_s:
        return False
    for _ in range(TRIALS):
        arrays, look_s = arrays_of(call(*given), fetch)
        start_s = now_s()
        copied = [each.copy() for each in arrays]
        copy_s = now_s() - start_s
        del copied
        if look_s <= max(limit_s, COPY_SLACK * copy_s):
            return False
    return True


def is_remembered(
    call: Callable[..., Any],
    arguments: Arguments,
    accept: Callable[[Arguments], Arguments],
    call_s: float,
) -> bool:
    """Return whether a call on other values takes far longer than the same call repeated.

    Between the calls every array is written again, with its elements moved or as they were, so
    that the caches hold the same in both cases.
    """
    shortest = {False: math.inf, True: math.inf}
    for trials in (TRIALS if call_s < SHORT_CALL_S else 1, 2 * TRIALS):
        call(*accept(arguments))
        for _ in range(trials):
            for change in shortest:
                rewrite(arguments, change)
                given = accept(arguments)
                with collector_off():
                    seconds, _result = timed_calls(call, given, 1)
                shortest[change] = min(shortest[change], seconds)
        if shortest[True] <= REMEMBERED_RATIO * shortest[False] + REMEMBERED_S:
            return False
    return True


def rewrite(arguments: Arguments, change: bool) -> None:
    """Write every array again, its elements one place further on or as they were.

    Few elements would soon be where they were: floats among them shrink by a thousandth instead.
    """
    for each in arguments:
        if not isinstance(each, np.ndarray):
            continue
        if change and each.size < FEW_ELEMENTS and each.dtype.kind == "f":
            each *= each.dtype.type(0.999)
        else:
            each[...] = np.roll(each, 1 if change else 0)
