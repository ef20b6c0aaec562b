"""Whether a timed call did its work, and did it before it returned.

Right results are not enough: they may have been computed before the clock started (remembered from
an earlier call on the same values) or after it stopped (in the background, or when somebody looks).
"""

import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from fuser.suites.checks.verify import flatten
from fuser.suites.sampling import called, collector_off, now_s, timed_calls
from fuser.suites.workload import Arguments, Array

GLANCES = 64
"""Elements of each result that are looked at when a call returns and again later."""
LATE_S = 20e-6
LATE_SHARE = 0.25
"""Results that take longer to look at than this, and than this share of the call, are doubted."""
FETCHED_S = 50e-6
"""What is fetched from a device may take so long, however little it is."""
COPY_SLACK, FETCH_SLACK = 2.0, 4.0
SHORTCUT_RATIO = 8.0
SHORTCUT_S = 10e-6
VALUES_RATIO = 2.5
VALUES_S = 5e-6
"""Calls on the same and on other values meet the same pauses: less is granted between them."""
PAUSE_S = 2e-3
PAUSE_SLACK = 4.0
CONTROLS = 8
TRIALS = 4
MOST_TRIALS = 32
LONGEST_DOUBT_S = 2.0
SHORT_CALL_S = 1e-3
FEW_ELEMENTS = 64
MOST_MOVED_BYTES = 1 << 22


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
    fetched: bool = False,
) -> bool:
    """Return whether results are computed when somebody looks, not when the call returns.

    Looking at a result costs at most a copy from another device or another memory; what takes
    several times a copy again and again is work that was left for later. `call_s` is what one call
    takes; `first_s` what looking at the timed result took: only what is long is tried again;
    `fetched` whether results come from a device.
    """
    limit_s = max(FETCHED_S if fetched else LATE_S, LATE_SHARE * call_s)
    slack = FETCH_SLACK if fetched else COPY_SLACK
    if first_s <= limit_s:
        return False
    looks, copies = [], []
    for _ in range(2 * TRIALS):
        arrays, look_s = arrays_of(called(call, given), fetch)
        start_s = now_s()
        copied = [each.copy() for each in arrays]
        copies.append(now_s() - start_s)
        looks.append(look_s)
        del copied
    # the shortest of each: a busy machine makes some of them long
    return min(looks) > max(limit_s, slack * min(copies))


def shortcut(
    call: Callable[..., Any],
    arguments: Arguments,
    accept: Callable[[Arguments], Arguments],
    call_s: float,
    accept_elsewhere: Callable[[Arguments], Arguments] | None = None,
) -> str | None:
    """Return what makes calls quick beside quick work, or None.

    A call on other values that takes far longer than one on the same values: results are
    remembered. One on the same values in other arrays: work is remembered by their addresses. A
    call by itself that takes far longer than one of many in a loop, `call_s`: the loop is
    recognised. Between the calls every array is written again, with its elements moved or as they
    were, so that the caches hold the same, and some time passes. Other values are converted by
    `accept_elsewhere`: what a runner did while it converted them would not be at hand.

    Every first call after a pause takes longer, on a busy machine many times: what copies of the
    arguments lose by it, measured beside, is granted several times over, and who is doubted is
    tried again many times.
    """
    taken_s: dict[str, list[float]] = {"same": [], "other values": [], "other arrays": []}
    if moved(arguments) is None:
        del taken_s["other arrays"]
    alive: list[Arguments | None] = []  # so that no address comes again
    control_s, looped_s, began_s = math.inf, math.inf, now_s()
    called(call, accept(arguments))
    for trial in itertools.count(1):
        for change, spent in taken_s.items():
            rewrite(arguments, change == "other values")
            others = moved(arguments) if change == "other arrays" else None
            alive.append(others)
            convert = accept_elsewhere if change == "other values" else accept
            given = (convert or accept)(arguments if others is None else others)
            _wait(PAUSE_S)
            with collector_off():
                seconds, _result = timed_calls(call, given, 1)
            spent.append(seconds)
        _wait(PAUSE_S)
        with collector_off():
            control_s = min(control_s, timed_calls(_copies, arguments, 1)[0])
            looped_s = min(looped_s, timed_calls(_copies, arguments, CONTROLS)[0] / CONTROLS)
        if trial < (TRIALS if call_s < SHORT_CALL_S else 1):
            continue
        problem = _suspicion(taken_s, call_s, PAUSE_SLACK * max(0.0, control_s - looped_s))
        enough = trial >= 2 * TRIALS and now_s() - began_s > LONGEST_DOUBT_S
        if problem is None or enough or trial >= MOST_TRIALS:
            return problem
    raise AssertionError("the count of trials ends")


def _suspicion(
    taken_s: Mapping[str, Sequence[float]], call_s: float, pause_s: float
) -> str | None:
    """Return what the times so far look like; a busy machine's shortest become shorter yet.

    Who remembers is quick each time, so that the shortest call on something else is held against
    the third quartile of those on the same: calls that wait for a busy processor are now quick and
    now slow, on the same values too.
    """
    quick_s = sorted(taken_s["same"])[3 * (len(taken_s["same"]) - 1) // 4]
    if min(taken_s["other values"]) > VALUES_RATIO * quick_s + VALUES_S:
        return "a call on other values takes far longer: results are remembered"
    others_s = min(taken_s.get("other arrays", (0.0,)))
    if others_s > SHORTCUT_RATIO * quick_s + SHORTCUT_S + pause_s:
        return "a call on other arrays takes far longer: work is remembered by address"
    same_s = min(taken_s["same"])
    if same_s > SHORTCUT_RATIO * call_s + SHORTCUT_S + pause_s:
        return "a call by itself takes far longer than one in a loop: work is skipped"
    return None


def runs_itself(
    call: Callable[..., Any], given: Arguments, function: Callable[..., Any]
) -> bool:
    """Return whether a call runs the workload's own Python code on arrays of NumPy.

    That is NumPy, operation by operation. A fuser that passes arrays of its own kind through the
    function at each call, to see what it does, is none.
    """
    own, found = getattr(function, "__code__", None), False

    def watch(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal found
        if event == "call" and own is not None and _same_code(frame.f_code, own):
            found = found or any(type(each) is np.ndarray for each in frame.f_locals.values())

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call(*given)
    finally:
        sys.setprofile(before)
    return found


def _same_code(one: CodeType, other: CodeType) -> bool:
    """Whether one does what the other does, be it a copy by another name."""
    return one is other or (
        one.co_code == other.co_code and one.co_names == other.co_names
        and one.co_consts == other.co_consts
    )


def _copies(*given: Any) -> list[Any]:
    """What an honest call may cost: a pass over the arrays among its arguments."""
    return [each.copy() for each in given if isinstance(each, np.ndarray)]


def _wait(seconds: float) -> None:
    """Let time pass without giving the processor away: its clock stays as high as it is."""
    end_s = now_s() + seconds
    while now_s() < end_s:
        pass


def moved(arguments: Arguments) -> Arguments | None:
    """Return the same values in other arrays of the same layout, or None where that is much work.

    An array that is passed twice stays one; of arrays that share memory there are no copies.
    """
    arrays = {id(each): each for each in arguments if isinstance(each, np.ndarray)}
    if sum(each.nbytes for each in arrays.values()) > MOST_MOVED_BYTES:
        return None
    found = {at: each.copy("K") for at, each in arrays.items()}
    if any(found[at].strides != each.strides or _shares(each, arrays)
           for at, each in arrays.items()):
        return None
    return tuple(found.get(id(each), each) for each in arguments)


def _shares(array: Array, arrays: Mapping[int, Array]) -> bool:
    return any(
        each is not array and np.may_share_memory(each, array) for each in arrays.values()
    )


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
