"""Where one call's time goes, part by part, and whether the parts add up to the whole.

Calls served in native code are taken apart by ablation (`ablation.py`). The paths through Python,
and those to a GPU, are stamped, against a clock outside: the call itself, the phases in it that
`fuser.profile()` sees, and the steps listed in `STEPS`, each without those inside it. What the
stamps cost is a part. What the clock inside a call does not see, the way in and out, is measured by
a call that does nothing but make a result, right after each call that is taken apart.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

from fuser.suites.probes import ablation
from fuser.suites.probes.ablation import ELEMENTS, ENTRY, subject
from fuser.suites.rounds import closed_sum
from fuser.suites.runners import exclusive_seconds
from fuser.suites.sampling import collector_off, now_s, timed_calls

STAMPED_CALLS = 400
WAITING = "waiting for the device"
WHOLE, OUTSIDE = "the whole", "outside"

STEPS = (
    ("fuser.calls.fused_function", "exact_key", "key of the call"),
    ("fuser.base.trees", "flatten", "arguments"),
    ("fuser.calls.fused_function", "FusedFunction._find_call", "lookup and guards"),
    ("fuser.calls.running", "run_call", "outputs"),
    ("fuser.calls.fused_function", "FusedFunction._go_native", "asking for native service"),
    ("fuser.calls.fused_function", "FusedFunction._get_ready", "asking for native service"),
    ("fuser.executor", "execute", "device and layouts"),
    ("fuser.base.trees", "unflatten", "results"),
    ("fuser.fallback", "interpret", "operations"),
)
"""Module, name and what the part is called. A step that is not there takes no time."""

@contextmanager
def stamped_steps() -> Iterator[None]:
    """Make a phase of every step of `STEPS` as long as this lasts."""
    with ExitStack() as undo:
        for owner, name, function, part in _steps():
            setattr(owner, name, _stamped(function, part))
            undo.callback(setattr, owner, name, function)
        yield


def _steps() -> Iterator[tuple[Any, str, Callable[..., Any], str]]:
    """Yield who has each step, its name there, the function and the part's name."""
    for module, path, part in STEPS:
        owner = import_module(module)
        *outer, name = path.split(".")
        for each in outer:
            owner = getattr(owner, each)
        function = getattr(owner, name, None)
        if callable(function):
            yield owner, name, function, part


def _stamped(function: Callable[..., Any], part: str) -> Callable[..., Any]:
    from fuser.base.timeline import phase

    @wraps(function)
    def stamped(*args: Any, **kwargs: Any) -> Any:
        with phase(part):
            return function(*args, **kwargs)

    return stamped


def stamp_s() -> float:
    """Return what one stamp costs the call around it, beside what is inside the stamp."""
    import fuser

    def nothing() -> None:
        return None

    stamped = _stamped(nothing, "nothing")
    spent = []
    for _ in range(30):
        with fuser.profile() as timeline, collector_off():
            plain, _ = timed_calls(nothing, (), 100)
            whole, _ = timed_calls(stamped, (), 100)
        inside = sum(each.elapsed_ns for each in timeline.phases) / 1e9
        spent.append((whole - plain - inside) / 100)
    return max(0.0, median(spent))


def stamped_calls(
    mode: str, path: str, given: Sequence[Any], wait: Callable[[], None] | None = None,
    calls: int = STAMPED_CALLS,
) -> dict[str, Any]:
    """Return the anatomy of calls through Python; parts and whole are of the same calls.

    Args:
        mode: of the fused function.
        path: what the record calls this way of serving a call.
        given: three arrays.
        wait: returns when the results of a call are there; None where they are at once.
        calls: how many.
    """
    import fuser
    from fuser.base.config import bump_mode
    from fuser.base.timeline import Phase
    from fuser.calls.fused_function import FusedFunction

    spans: list[tuple[int, int]] = []
    inner_call = FusedFunction.__call__ if wait is None else _waiting(FusedFunction.__call__, wait)
    fused = _outermost(inner_call, spans)(subject, mode=mode, fallback="allow")
    empty = _outermost(lambda _self, *args: args[0].copy(), spans)(subject)
    fused(*given)
    empty(*given)
    each_s = stamp_s()
    marks: list[tuple[float, float, int]] = []
    spans.clear()
    # one listening for all calls: each is as warm as the calls of a loop are
    with stamped_steps(), fuser.profile() as timeline, collector_off():
        for _ in range(calls):
            bump_mode()  # else calls after the first would be served from what they left
            start_s = now_s()
            fused(*given)
            end_s = now_s()
            empty(*given)
            marks.append((end_s - start_s, now_s() - end_s, len(timeline.phases)))
    rounds: list[dict[str, float]] = []
    first = 0
    for number, (whole_s, empty_s, last) in enumerate(marks):
        (start_ns, end_ns), (empty_start_ns, empty_end_ns) = spans[2 * number : 2 * number + 2]
        inner = timeline.phases[first:last]
        outer = Phase(ENTRY, "", start_ns, end_ns - start_ns, inner[0].thread)
        outside_s = empty_s - (empty_end_ns - empty_start_ns) / 1e9
        parts = self_seconds([*inner, outer], each_s)
        rounds.append({WHOLE: whole_s, OUTSIDE: outside_s, **parts})
        first = last
    names = dict.fromkeys(name for each in rounds for name in each)
    forms = {name: {name: 1.0} for name in names if name not in (WHOLE, OUTSIDE)}
    forms[ENTRY][OUTSIDE] = 1.0
    return {
        "subject": f"a*b + c on {ELEMENTS} float32, mode {mode}", "path": path,
        "method": "stamps", **closed_sum(rounds, forms, WHOLE).fields(),
    }


def _waiting(call: Callable[..., Any], wait: Callable[[], None]) -> Callable[..., Any]:
    """Return calls that end when their results are there; the waiting is a part."""
    stamped_wait = _stamped(wait, WAITING)

    def waiting(self: Any, *args: Any) -> Any:
        result = call(self, *args)
        stamped_wait()
        return result

    return waiting


def _outermost(inner: Callable[..., Any], spans: list[tuple[int, int]]) -> Any:
    """Return a class of fused functions whose calls note when they began and ended.

    A class of its own: another `__call__` of the fuser's would cost every fused function its
    native entry. Two readings of the clock and no `phase`: what is outside of them is short.
    """
    from fuser.calls.fused_function import FusedFunction

    note, clock = spans.append, time.perf_counter_ns

    def call(self: Any, *args: Any) -> Any:
        start_ns = clock()
        result = inner(self, *args)
        note((start_ns, clock()))
        return result

    return type("OutermostFunction", (FusedFunction,), {"__call__": call})


def self_seconds(phases: Sequence[Any], each_s: float) -> dict[str, float]:
    """Return the seconds of each part without the parts inside it, and of the stamps.

    Args:
        phases: of one call, as `fuser.profile()` keeps them.
        each_s: what a stamp costs whoever it stands in.
    """
    parts, stamps_s = exclusive_seconds(phases), 0.0
    for child in phases:
        around = [
            each for each in phases
            if each is not child and each.start_ns <= child.start_ns
            and each.start_ns + each.elapsed_ns >= child.start_ns + child.elapsed_ns
        ]
        if around:
            parent = min(around, key=lambda each: each.elapsed_ns)
            cost_s = min(each_s, parts[parent.name])
            parts[parent.name] -= cost_s
            stamps_s += cost_s
    return parts | {"clock readings": stamps_s}


def on_device() -> Iterator[dict[str, Any]]:
    """Yield the anatomy of a call on a GPU, up to its results; nothing where there is none."""
    from fuser.suites.peers.cupy_runner import CupyRunner

    if CupyRunner().unavailable() is not None:
        return
    import cupy

    given = [cupy.full(ELEMENTS, each, cupy.float32) for each in (1.0, 2.0, 3.0)]
    wait = cupy.cuda.get_current_stream().synchronize
    yield stamped_calls("fused", "gpu", given, wait)


def measure() -> Iterator[dict[str, Any]]:
    """Yield the anatomy of every path that this process can take, with one number a part."""
    yield from ablation.measure()
    given = [np.full(ELEMENTS, each, np.float32) for each in (1.0, 2.0, 3.0)]
    yield stamped_calls("fused", "python", given)
    yield stamped_calls("fallback", "fallback", given)
    yield from on_device()
