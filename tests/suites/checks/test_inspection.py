"""Whether a call did its work, and did it before it returned."""

import time
import types
from typing import Any

import numpy as np
import pytest

from fuser.suites.checks import inspection
from fuser.suites.checks.inspection import (
    _suspicion,
    arrays_of,
    arrives_late,
    glance,
    moved,
    rewrite,
    runs_itself,
    shortcut,
    written_later,
)
from fuser.suites.sampling import timed_calls
from tests.suites.cheats import double


class Promise:
    """Computes when it is looked at."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        time.sleep(0.01)
        return np.ones(3)


def _same(value: Any) -> Any:
    return value


def test_a_glance_sees_the_first_and_the_last_element() -> None:
    """Also of arrays that are not contiguous, scalars and empty ones."""
    array = np.arange(1000.0)
    assert glance([array])[0][[0, -1]].tolist() == [0.0, 999.0]
    before = glance([array, array[::2], np.float64(3), np.zeros(0)])
    assert not written_later([array], before[:1])
    array[-1] = np.nan
    assert written_later([array], before[:1])


def test_results_that_are_computed_when_looked_at_are_late() -> None:
    """A promise is, an array that is there is not; nor what took long once only."""
    _, look_s = arrays_of(Promise(), _same)
    assert look_s > 0.5e-3
    assert arrives_late(lambda: Promise(), (), _same, 1e-6, look_s)
    assert not arrives_late(lambda: np.ones(3), (), _same, 1e-6, look_s)
    assert not arrives_late(lambda: Promise(), (), _same, 1e-6, 1e-6)


def test_results_kept_by_value_are_remembered() -> None:
    """A call on other values then takes far longer."""
    kept: dict[bytes, Any] = {}

    def remembering(x: Any) -> Any:
        if x.tobytes() not in kept:
            time.sleep(0.01)
            kept[x.tobytes()] = x + x
        return kept[x.tobytes()]

    for size in (3, 100):
        found = shortcut(remembering, (np.arange(1.0, 1.0 + size),), _same, 1e-5)
        assert found is not None
        assert "remembered" in found
    assert shortcut(double, (np.arange(100.0),), _same, 1e-5) is None


def test_comparing_all_arguments_is_remembering_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though every result is right: it takes a sixth of the work, by a clock of its own."""
    last: list[Any] = [None]

    def sixth(function: Any, arguments: Any, calls: int) -> tuple[float, Any]:
        known = last[0] == arguments[0].tobytes()
        last[0] = arguments[0].tobytes()
        return (25e-6 if known else 150e-6), function(*arguments)

    monkeypatch.setattr(inspection, "timed_calls", sixth)
    found = shortcut(double, (np.arange(100.0),), _same, 25e-6)
    assert found is not None
    assert "remembered" in found


def test_calls_that_are_now_quick_and_now_slow_remember_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a busy machine, where every other call on the same values waits for a processor."""
    many = np.arange(1.0 * (1 << 20))  # too many to be moved to other arrays as well
    last: list[Any] = [many.tobytes(), 0]

    def waiting(function: Any, arguments: Any, calls: int) -> tuple[float, Any]:
        if function is not double:
            return 1e-3, None
        known = last[0] == arguments[0].tobytes()
        last[:] = arguments[0].tobytes(), last[1] + known
        return (90e-3 if not known else 30e-3 if last[1] % 2 else 120e-3), function(*arguments)

    monkeypatch.setattr(inspection, "timed_calls", waiting)
    assert shortcut(double, (many,), _same, 50e-3) is None


def test_what_was_done_while_converting_is_not_at_hand_elsewhere() -> None:
    """Other values are converted by who never saw the function."""

    def slow_if_plain(x: Any, done: bool) -> Any:
        if not done:
            time.sleep(0.01)
        return x

    def quick(arguments: Any) -> Any:
        return (arguments[0], True)

    def plain(arguments: Any) -> Any:
        return (arguments[0], False)

    given = (np.arange(100.0), False)
    assert shortcut(slow_if_plain, given, quick, 1e-6) is None
    found = shortcut(slow_if_plain, given, quick, 1e-6, plain)
    assert found is not None
    assert "remembered" in found


def test_a_loop_that_is_recognised_is_found() -> None:
    """Calls by themselves take far longer than those that were timed in a row."""
    found = shortcut(lambda x: time.sleep(0.01), (np.arange(100.0),), _same, 1e-6)
    assert found is not None
    assert "skipped" in found


def test_rewriting_moves_values_or_keeps_them() -> None:
    """In the same arrays; numbers are left alone."""
    many, few = np.arange(100), np.ones(2)
    rewrite((many, few, 2.5), change=False)
    assert (many[0], few[0]) == (0, 1.0)
    rewrite((many, few, 2.5), change=True)
    assert (many[0], few[0]) == (99, 0.999)


def test_a_pause_that_makes_every_call_long_is_no_shortcut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine the first call after a pause may take a hundred times as long."""

    def after_a_pause(function: Any, arguments: Any, calls: int) -> tuple[float, Any]:
        seconds, result = timed_calls(function, arguments, calls)
        return seconds + (100e-6 if calls == 1 else 0.0), result

    monkeypatch.setattr(inspection, "timed_calls", after_a_pause)
    assert shortcut(double, (np.arange(100.0),), _same, 1e-6) is None
    found = shortcut(lambda x: time.sleep(0.01), (np.arange(100.0),), _same, 1e-6)
    assert found is not None


def test_arrays_move_and_keep_their_layout() -> None:
    """One passed twice stays one; where layouts would change, or memory is shared, none move."""
    x, frozen = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    found = moved((x.T, x, 2.5, frozen, frozen))
    assert found is None  # x.T shares the memory of x
    found = moved((x.T, 2.5, frozen, frozen))
    assert found is not None
    assert (found[0].strides, found[1]) == (x.T.strides, 2.5)
    assert found[2] is found[3]
    assert found[2] is not frozen
    assert moved((x[:, ::2],)) is None


def test_work_remembered_by_address_is_found() -> None:
    """A call on other arrays then takes far longer."""
    known: set[int] = set()

    def by_address(x: Any) -> Any:
        if x.ctypes.data not in known:
            known.add(x.ctypes.data)
            time.sleep(0.01)
        return x + x

    found = shortcut(by_address, (np.arange(100.0),), _same, 1e-5)
    assert found is not None
    assert "by address" in found


def test_calls_that_wait_for_threads_are_no_cheats() -> None:
    """One call in a crowd of slow ones may be quick by chance, whatever it is called with."""
    waiting = {"same": [70e-6, *[6e-3] * 7], "other values": [5e-3] * 8, "other arrays": [6e-3] * 8}
    assert _suspicion(waiting, 50e-6, 0.0) is None
    remembering = {**waiting, "same": [70e-6] * 6 + [6e-3] * 2}
    assert "remembered" in str(_suspicion(remembering, 50e-6, 0.0))


def test_a_runner_that_runs_the_function_itself_is_seen() -> None:
    """And one that computes the same in another way is not; nor is a function without code."""
    given = (np.arange(3.0),)
    assert runs_itself(lambda x: double(x), given, double)
    assert not runs_itself(lambda x: 2 * x, given, double)
    assert not runs_itself(np.sqrt, given, np.sqrt)
    copy = types.FunctionType(double.__code__.replace(co_name="kernel"), {})
    assert runs_itself(copy, given, double)


class Recorded:
    """An array of a fuser that looks at each call through the function itself."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __add__(self, other: "Recorded") -> "Recorded":
        """Note an addition; it is done later, with others."""
        return self


def test_a_fuser_that_traces_at_each_call_is_not_numpy() -> None:
    """The function's own code runs, but on no array of NumPy."""
    assert not runs_itself(lambda x: double(Recorded(x)), (np.arange(3.0),), double)
