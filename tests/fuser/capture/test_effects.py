"""What a function changes outside of itself: such a call runs as NumPy would run it."""

import copy
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.effects import Surroundings

X = np.linspace(-1, 1, 5)
SEEN: list[Any] = []


class Optimiser:
    """State in attributes."""

    def __init__(self) -> None:
        self.momentum = np.zeros(5)
        self.steps = 0
        self.history: list[Any] = []

    def step(self, weights: Any, gradient: Any) -> Any:
        """Rebinds attributes."""
        self.steps += 1
        self.momentum = 0.9 * self.momentum + 0.1 * gradient
        return weights - self.momentum / (1 - 0.9**self.steps)

    def note(self, weights: Any, gradient: Any) -> Any:
        """Appends to a list."""
        self.history.append((gradient * gradient).sum())
        return weights - gradient

    def keep(self, weights: Any, gradient: Any) -> Any:
        """Makes a new attribute."""
        self.last = np.abs(gradient) + 1
        return weights - self.last

    def remember(self, weights: Any, gradient: Any) -> Any:
        """Stores in a global list."""
        SEEN.append(gradient + 1)
        return weights * 2


@dataclass
class State:
    """Arrays as fields."""

    place: Any
    speed: Any


def state_of(thing: Any) -> Any:
    """All that an optimiser, or the list, holds."""
    return repr((vars(thing), SEEN))


@pytest.mark.parametrize("name", ["step", "note", "keep", "remember"])
def test_attributes_and_lists_hold_what_the_plain_function_leaves(name: str) -> None:
    """Three calls in a row: the same results, and the same state after each."""
    found: list[list[Any]] = []
    for fused in (False, True):
        SEEN.clear()
        thing = Optimiser()
        method = getattr(thing, name)
        call = fuser.fuse(method, fallback="allow") if fused else method
        log: list[Any] = []
        for turn in range(3):
            log += [call(X * turn, X + turn), state_of(thing)]
        found.append(log)
    for one, other in zip(*found, strict=True):
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)


def test_the_reason_names_what_is_changed() -> None:
    """Under `fallback="error"`; the attribute is as it was."""
    thing = Optimiser()
    with pytest.raises(fuser.FusionError, match="history"):
        fuser.fuse(thing.note, fallback="error")(X, X)
    assert thing.history == []


def test_a_cache_that_is_full_is_no_change() -> None:
    """The call that fills it runs in NumPy, the next ones are fused."""
    cache: dict[str, Any] = {}

    def windowed(x: Any) -> Any:
        if "window" not in cache:
            cache["window"] = np.hanning(5)
        return x * cache["window"] + 1

    fused = fuser.fuse(windowed, fallback="allow")
    np.testing.assert_array_equal(fused(X), X * np.hanning(5) + 1)
    np.testing.assert_array_equal(fused(X), X * np.hanning(5) + 1)
    assert type(cache["window"]) is np.ndarray
    assert not fused.explain(X).fallbacks


def test_objects_made_by_the_function_hold_arrays() -> None:
    """An instance, a generator, a function: none of them keeps a stand-in."""

    def advance(x: Any) -> Any:
        return State(x + 1, x * 2)

    def lazily(x: Any) -> Any:
        return (part * 2 for part in [x, x + 1])

    def later(x: Any) -> Any:
        doubled = x * 2
        return lambda: doubled

    state = fuser.fuse(advance, fallback="allow")(X)
    np.testing.assert_array_equal(state.place, X + 1)
    np.testing.assert_array_equal(state.speed, X * 2)
    for part, wanted in zip(fuser.fuse(lazily, fallback="allow")(X), lazily(X), strict=True):
        np.testing.assert_array_equal(part, wanted)
    np.testing.assert_array_equal(fuser.fuse(later, fallback="allow")(X)(), X * 2)


def test_an_argument_that_is_an_object_may_be_returned() -> None:
    """The very object."""
    state = State(X, X)
    fused = fuser.fuse(lambda s, x: (s, x + s.place), fallback="error")
    same, total = fused(state, X)
    assert same is state
    np.testing.assert_array_equal(total, X + X)


class Scaled:
    """An object that is called."""

    count = 0

    def __init__(self) -> None:
        self.scale = 2.0
        self.last: Any = None

    def __call__(self, x: Any) -> Any:
        """Read and set attributes."""
        self.last = x * self.scale
        return self.last + 1


def test_an_object_that_is_called() -> None:
    """What it keeps is an array, and a change of its attributes is noticed."""
    thing = Scaled()
    fused = fuser.fuse(thing, fallback="allow")
    for scale in (2.0, 3.0, 4.0):
        thing.scale = scale
        np.testing.assert_array_equal(fused(X), X * scale + 1)
        np.testing.assert_array_equal(thing.last, X * scale)


def test_attributes_of_classes_and_functions() -> None:
    """Each call counts once."""

    def count(x: Any) -> Any:
        Scaled.count += 1
        note.calls = getattr(note, "calls", 0) + 1  # type: ignore[attr-defined]
        return x * Scaled.count + note.calls  # type: ignore[attr-defined]

    def note() -> None:
        pass

    Scaled.count = 0
    fused = fuser.fuse(count, fallback="allow")
    for turn in (1, 2, 3):
        np.testing.assert_array_equal(fused(X), X * turn + turn)


def test_a_global_name_that_was_not_there() -> None:
    """It holds an array afterwards."""

    def keep(x: Any) -> Any:
        global MADE
        MADE = x * 2  # type: ignore[name-defined]
        return x + 1

    globals().pop("MADE", None)
    np.testing.assert_array_equal(fuser.fuse(keep, fallback="allow")(X), X + 1)
    np.testing.assert_array_equal(globals().pop("MADE"), X * 2)


def test_an_attribute_of_a_function_is_noticed() -> None:
    """At the next call."""

    def scaled(x: Any) -> Any:
        return x * scaled.scale  # type: ignore[attr-defined]

    scaled.scale = 2.0  # type: ignore[attr-defined]
    fused = fuser.fuse(scaled, fallback="allow")
    np.testing.assert_array_equal(fused(X), X * 2)
    scaled.scale = 3.0  # type: ignore[attr-defined]
    np.testing.assert_array_equal(fused(X), X * 3)


def test_an_object_whose_look_up_fails() -> None:
    """Its own error of a missing attribute is no error of the call."""

    class Strict:
        def __init__(self) -> None:
            self.scale = 2.0

        def __getattr__(self, name: str) -> Any:
            raise KeyError(name)

    thing = Strict()
    fused = fuser.fuse(lambda x: x * thing.scale, fallback="allow")
    np.testing.assert_array_equal(fused(X), X * 2)


def test_threads_do_not_see_each_others_stand_ins() -> None:
    """A second trace looks around when the first has put everything back."""
    held: list[Any] = []
    inside, going = threading.Event(), threading.Event()

    def keep(x: Any) -> Any:
        held.append(x * 2)
        if x.ndim == 1 and not inside.is_set():
            inside.set()
            going.wait(0.2)
        return x + 1

    fused = fuser.fuse(keep, fallback="allow")
    first = threading.Thread(target=fused, args=(X,))
    first.start()
    inside.wait(10)
    fused(X.reshape(1, 5))
    first.join()
    assert held
    assert all(type(each) is np.ndarray for each in held)


class Shared:
    """What threads work on beside traces."""

    def __init__(self) -> None:
        self.done = 0
        self.weights = {"w": np.ones(5)}
        self.log: list[int] = []


SHARED, LINES, BUFFER, COUNTED = Shared(), [1.5], np.ones(5), {"calls": 0}
SEEN_IDS, STEPS = {1}, 0


def _reading(x: Any) -> Any:
    """Read all of that, and change nothing."""
    own = SHARED.done + len(SHARED.log) + COUNTED["calls"] + len(SEEN_IDS) + STEPS
    return x * LINES[0] + SHARED.weights["w"] + BUFFER + own


def _reading_and_writing(x: Any) -> Any:
    """Change one of them, too."""
    LINES.append(2.5)
    return _reading(x)


@pytest.mark.parametrize("function", [_reading, _reading_and_writing])
def test_what_other_threads_do_during_a_trace_stays(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the function reads: only what it met itself is put back, and that are copies."""
    undo, times = Surroundings.undo, [0]

    def meanwhile(self: Any, *args: Any) -> str:
        global STEPS
        if times[0] < 4:
            times[0] += 1
            STEPS += 1
            SHARED.done += 1
            SHARED.log.append(times[0])
            SHARED.weights["w"] = SHARED.weights["w"] + 1
            LINES[0] += 1
            BUFFER[1] += 1
            COUNTED["calls"] += 1
            SEEN_IDS.add(1000 + COUNTED["calls"])
        return undo(self, *args)

    monkeypatch.setattr(Surroundings, "undo", meanwhile)
    fused = fuser.fuse(function, fallback="allow")
    lines, steps, first = len(LINES), STEPS, LINES[0]
    for _ in range(3):
        expected_before = len(LINES)
        result = fused(X)
        assert len(LINES) - expected_before == (function is _reading_and_writing)
        np.testing.assert_array_equal(result, _reading(X))
    assert times[0] > 0
    assert STEPS - steps == times[0]
    assert LINES[0] - first == times[0]
    assert SHARED.log[-1] == times[0]
    assert len(SHARED.log) == SHARED.done == COUNTED["calls"] == STEPS
    assert SHARED.weights["w"][0] == BUFFER[1] == STEPS + 1
    assert len(LINES) == lines + 3 * (function is _reading_and_writing)


def test_a_trace_that_waits_for_a_thread_that_traces() -> None:
    """It ends."""
    other = fuser.fuse(lambda x: x * 3, fallback="allow")

    def wait(x: Any) -> Any:
        worker = threading.Thread(target=other, args=(X,))
        worker.start()
        worker.join()
        return x + 1

    np.testing.assert_array_equal(fuser.fuse(wait, fallback="allow")(X), X + 1)


def test_a_fused_function_compiled_during_a_trace_stays_compiled() -> None:
    """Its machine code is not let go of with the attributes that hold it."""
    inner = fuser.fuse(lambda x: x * 3, fallback="allow")
    outer = fuser.fuse(lambda x: x + inner(X), fallback="allow")
    for _ in range(3):
        np.testing.assert_array_equal(outer(X), X + X * 3)
        np.testing.assert_array_equal(inner(X), X * 3)


def _set(weights: Any, gradients: Any) -> None:
    for name in weights:
        weights[name] = weights[name] - gradients[name]


def _append(arrays: Any) -> Any:
    arrays.append(arrays[0] * 2)
    return [array + 1 for array in arrays]


def _pop(arrays: Any, *, options: Any) -> Any:
    return arrays[0] * options.pop("scale", 3.0)


def _swap(pair: Any) -> Any:
    pair[0], pair[1] = pair[1], pair[0]
    return pair[0] - pair[1]


@pytest.mark.parametrize(
    ("function", "arguments", "options", "found"),
    [
        (_set, ({"w": X, "b": X[:2]}, {"w": X + 1, "b": X[:2] * 3}), {}, "what weights['w'] holds"),
        (_append, ([X, X * X],), {}, "what arrays holds"),
        (_pop, ((X,),), {"options": {"scale": 2.0}}, "what options holds"),
        (_swap, ([X, X * X],), {}, "what pair[0] holds"),
    ],
)
def test_lists_and_dicts_of_arguments_hold_what_the_plain_function_leaves(
    function: Any, arguments: Any, options: Any, found: str
) -> None:
    """Entries set, added and taken away; such calls run as NumPy runs them."""
    fused = fuser.fuse(function, fallback="allow")
    wanted = copy.deepcopy((arguments, options))
    expected = function(*wanted[0], **wanted[1])
    for _ in range(2):
        given = copy.deepcopy((arguments, options))
        assert repr(fused(*given[0], **given[1])) == repr(expected)
        assert repr(given) == repr(wanted)
    assert [(r.code, r.found) for r in fused.fallbacks] == [("side-effect", found)]


def test_entries_of_dicts_are_changed_in_place_by_kernels() -> None:
    """`weights[name] -= …` stores the same array again: nothing but arrays change."""

    def step(weights: Any, gradients: Any) -> None:
        for name in weights:
            weights[name] -= 0.5 * gradients[name]

    fused = fuser.fuse(step, fallback="error")
    for _ in range(2):
        weights = {"w": X.copy(), "b": X[:2].copy()}
        arrays = list(weights.values())
        assert fused(weights, {"w": X, "b": X[:2]}) is None
        np.testing.assert_array_equal(weights["w"], X * 0.5)
        assert next(iter(weights.values())) is arrays[0]


COUNTS = np.zeros(3)


def _count(x: Any) -> Any:
    COUNTS[0] += 1
    return x * COUNTS[0]


def _scratch(x: Any) -> Any:
    COUNTS[:] = 0
    COUNTS[1] = 5
    y = x * COUNTS[:, None]
    COUNTS[2] = 9
    return y


def _local(x: Any) -> Any:
    local = np.arange(3.0)
    y = x * np.maximum(local, 1)[:, None]
    y += local[:, None]
    np.multiply(local, 4, out=local)
    return y


@pytest.mark.parametrize("function", [_count, _scratch, _local])
def test_arrays_that_numpy_alone_writes_into(function: Any) -> None:
    """They are written by every call, and read as they are at that place of the function."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(3):
        before = COUNTS.copy()
        expected = function(X)
        after = COUNTS.copy()
        COUNTS[:] = before
        np.testing.assert_array_equal(fused(X), expected)
        np.testing.assert_array_equal(COUNTS, after)
