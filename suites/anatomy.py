"""Where one call's time goes, part by part, and whether the parts add up to the whole.

The native path is taken apart by ablation, as nothing can be stamped inside 0.1 us:

- entry: an object of the same type whose native code gives its first argument back;
- checks: a call with `out=` on one element, less the entry: it looks the arguments over and
  starts a kernel that has nothing to do;
- allocation: native code that makes one array of the result's type and length, less the entry;
- kernel: a call with `out=` on all elements, less that on one.

None of them is what the whole is, a call that returns a new array, so their sum is a check. The
paths through Python are stamped, against a clock outside: the call itself, the phases in it that
`fuser.profile()` sees, and the steps listed in `STEPS`, each without those inside it. What the
stamps cost is measured apart, and is a part.
"""

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from typing import Any

import numpy as np

from fuser.suites.runners import exclusive_seconds
from fuser.suites.sampling import calls_per_sample, collector_off, now_s, timed_calls

ELEMENTS = 64
SAMPLES = 60
STAMPED_CALLS = 300
ENTRY = "interpreter and entry"
LEAST_SAMPLE_S = 0.0002

STEPS = (
    ("fuser.fused_function", "exact_key", "key of the call"),
    ("fuser.trees", "flatten", "arguments"),
    ("fuser.fused_function", "FusedFunction._find_call", "lookup and guards"),
    ("fuser.fused_function", "FusedFunction._run", "outputs"),
    ("fuser.fused_function", "FusedFunction._go_native", "asking for native service"),
    ("fuser.fused_function", "FusedFunction._get_ready", "asking for native service"),
    ("fuser.executor", "execute", "device and layouts"),
    ("fuser.trees", "unflatten", "results"),
    ("fuser.fallback", "interpret", "operations"),
)
"""Module, name and what the part is called. A step that is not there takes no time."""

_TEXT = """\
define ptr @give_back(ptr %self, ptr %args, i64 %count, ptr %names) {
  %table.at = getelementptr i8, ptr %self, i64 24
  %table = load ptr, ptr %table.at
  %incref = load ptr, ptr %table
  %first = load ptr, ptr %args
  call void %incref(ptr %first)
  ret ptr %first
}

define ptr @allocate(ptr %self, ptr %args, i64 %count, ptr %names) {
  %table.at = getelementptr i8, ptr %self, i64 24
  %table = load ptr, ptr %table.at
  %incref = load ptr, ptr %table
  %new.at = getelementptr i8, ptr %table, i64 8
  %new = load ptr, ptr %new.at
  %first = load ptr, ptr %args
  %type.at = getelementptr i8, ptr %first, i64 8
  %type = load ptr, ptr %type.at
  %lengths.at = getelementptr i8, ptr %first, i64 32
  %lengths = load ptr, ptr %lengths.at
  %dtype.at = getelementptr i8, ptr %first, i64 56
  %dtype = load ptr, ptr %dtype.at
  call void %incref(ptr %dtype)
  %made = call ptr %new(ptr %type, ptr %dtype, i32 1, ptr %lengths, ptr null, ptr null, i32 0,
                        ptr null)
  ret ptr %made
}
"""
"""Entries that do one thing. Their table holds Py_IncRef and NumPy's PyArray_NewFromDescr."""


def subject(a: Any, b: Any, c: Any) -> Any:
    """Return what is called: two operations, so that a fuser has something to fuse."""
    return a * b + c


def native_entries() -> dict[str, Any] | None:
    """Return callables that start in native code and do one thing; None where none can be."""
    from fuser import native_call
    from fuser.backends.cpu.arrays import layout_is_known
    from fuser.backends.cpu.native import load_forever
    from fuser.backends.cpu.pool import numpy_api

    if not (native_call.supported() and layout_is_known()):
        return None
    addresses = load_forever(_TEXT, ("give_back", "allocate"))
    incref = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value
    table = (ctypes.c_int64 * 2)(incref or 0, int(numpy_api()[94]))
    found = {}
    for name, address in addresses.items():
        parts: dict[str, Any] = {"__call__": _never, "table": table}
        kind = type(name, (native_call.NativelyCallable,), parts)
        made = kind()
        native_call.enable_vectorcall(kind)
        native_call.set_entry(made, address, ctypes.addressof(table))
        found[name] = made
    return found


def _never(*_arguments: Any) -> Any:
    raise AssertionError("an entry in native code was not used")


def native(samples: int = SAMPLES) -> Iterator[dict[str, Any]]:
    """Yield the anatomy of a call served without Python, as fields of the record."""
    import fuser

    entries = native_entries()
    if entries is None:
        return
    fused = fuser.fuse(subject, fallback="error")
    many = tuple(np.full(ELEMENTS, each, np.float32) for each in (1.0, 2.0, 3.0))
    one = tuple(each[:1].copy() for each in many)
    for given in (many, one):
        for _ in range(3):  # the first calls compile, and install the entry
            fused(*given)
            fused(*given, out=np.empty_like(given[0]))
    spare = np.empty_like(many[0])
    calls: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
        "whole": (fused, many),
        "entry": (entries["give_back"], many),
        "entry_out": (partial(entries["give_back"], out=spare), many),
        "allocation": (entries["allocate"], many),
        "one": (partial(fused, out=spare[:1]), one),
        "many": (partial(fused, out=spare), many),
    }
    t = interleaved(calls, samples)
    yield {
        "subject": f"a*b + c on {ELEMENTS} float32", "path": "native", "method": "ablation",
        "parts_s": {
            ENTRY: t["entry"], "checks and launch": t["one"] - t["entry_out"],
            "allocation": t["allocation"] - t["entry"], "kernel": t["many"] - t["one"],
        },
        "whole_s": t["whole"],
    }


def interleaved(
    calls: dict[str, tuple[Callable[..., Any], Sequence[Any]]], samples: int
) -> dict[str, float]:
    """Time several calls turn by turn; return the seconds of each, from the quietest quarter.

    The rounds are short beside the changes of a processor's speed, so that all calls of a round
    are timed at the same one, and their differences mean something.
    """
    counts = {
        name: calls_per_sample(function, tuple(given), LEAST_SAMPLE_S)[0]
        for name, (function, given) in calls.items()
    }
    rounds: list[dict[str, float]] = []
    with collector_off():
        for _ in range(samples):
            rounds.append({
                name: timed_calls(function, tuple(given), counts[name])[0] / counts[name]
                for name, (function, given) in calls.items()
            })
    rounds.sort(key=lambda each: sum(each.values()))
    quiet = rounds[: max(1, samples // 4)]
    return {name: sum(each[name] for each in quiet) / len(quiet) for name in calls}


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
    from fuser.timeline import phase

    @wraps(function)
    def stamped(*args: Any, **kwargs: Any) -> Any:
        with phase(part):
            return function(*args, **kwargs)

    return stamped


def stamp_s(calls: int = 500) -> float:
    """Return what one stamp costs the call around it, beside what is inside the stamp."""
    import fuser

    def nothing() -> None:
        return None

    stamped = _stamped(nothing, "nothing")
    spent = []
    for _ in range(10):
        with fuser.profile() as timeline, collector_off():
            plain, _ = timed_calls(nothing, (), calls)
            whole, _ = timed_calls(stamped, (), calls)
        inside = sum(each.elapsed_ns for each in timeline.phases) / 1e9
        spent.append((whole - plain - inside) / calls)
    return max(0.0, min(spent))


def through_python(mode: str, path: str, calls: int = STAMPED_CALLS) -> dict[str, Any]:
    """Return the anatomy of a call through Python; parts and whole are of the same calls."""
    import fuser
    from fuser.fused_function import FusedFunction
    from fuser.native_call import bump_mode
    from fuser.timeline import Phase

    spans: list[tuple[int, int]] = []
    fused = _outermost(FusedFunction.__call__, spans)(subject, mode=mode, fallback="allow")
    given = tuple(np.full(ELEMENTS, each, np.float32) for each in (1.0, 2.0, 3.0))
    fused(*given)
    each_s, outside_s = stamp_s(), outside(given)
    marks: list[tuple[float, int]] = []
    spans.clear()
    # one listening for all calls: each is as warm as the calls of a loop are
    with stamped_steps(), fuser.profile() as timeline, collector_off():
        for _ in range(calls):
            bump_mode()  # else calls after the first would be served from what they left
            start_s = now_s()
            fused(*given)
            marks.append((now_s() - start_s, len(timeline.phases)))
    found: list[tuple[float, dict[str, float]]] = []
    first = 0
    for (whole_s, last), (start_ns, end_ns) in zip(marks, spans, strict=True):
        inner = timeline.phases[first:last]
        outer = Phase(ENTRY, "", start_ns, end_ns - start_ns, inner[0].thread)
        found.append((whole_s, self_seconds([*inner, outer], each_s)))
        first = last
    # calls that were disturbed in the middle would stretch one part
    quiet = sorted(found, key=lambda each: each[0])[: calls // 2]
    names = dict.fromkeys(name for _, parts in quiet for name in parts)
    parts_s = {
        name: sum(parts.get(name, 0.0) for _, parts in quiet) / len(quiet) for name in names
    }
    parts_s[ENTRY] += outside_s
    return {
        "subject": f"a*b + c on {ELEMENTS} float32, mode {mode}", "path": path,
        "method": "stamps", "parts_s": parts_s,
        "whole_s": sum(whole for whole, _ in quiet) / len(quiet),
    }


def _outermost(inner: Callable[..., Any], spans: list[tuple[int, int]]) -> Any:
    """Return a class of fused functions whose calls note when they began and ended.

    A class of its own: another `__call__` of the fuser's would cost every fused function its
    native entry. Two readings of the clock and no `phase`: what is outside of them is short.
    """
    from fuser.fused_function import FusedFunction

    note, clock = spans.append, time.perf_counter_ns

    def call(self: Any, *args: Any) -> Any:
        start_ns = clock()
        result = inner(self, *args)
        note((start_ns, clock()))
        return result

    return type("OutermostFunction", (FusedFunction,), {"__call__": call})


def outside(given: Sequence[Any]) -> float:
    """Return the seconds of a call that its own clock does not see: by one that does nothing."""
    spans: list[tuple[int, int]] = []

    def nothing(_self: Any, *_args: Any) -> None:
        return None

    empty = _outermost(nothing, spans)(subject)
    found = []
    with collector_off():
        for _ in range(STAMPED_CALLS):
            start_s = now_s()
            empty(*given)
            whole_s = now_s() - start_s
            start_ns, end_ns = spans[-1]
            found.append(whole_s - (end_ns - start_ns) / 1e9)
    return sum(sorted(found)[: STAMPED_CALLS // 2]) / (STAMPED_CALLS // 2)


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
    return parts | {"stamps": stamps_s}


def measure() -> Iterator[dict[str, Any]]:
    """Yield the anatomy of every path that this process can take, with one number a part."""
    yield from native()
    yield through_python("fused", "python")
    yield through_python("fallback", "fallback")
