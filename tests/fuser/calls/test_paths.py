"""Decisions by values: each outcome is a path, and calls go the way that NumPy's values lead."""

from __future__ import annotations

import copy
import inspect
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls.program_fast_path import ENDED, ReadyProgram
from fuser.calls.trace_cache import VALUE_LIMIT
from tests.fuser.comparing import assert_alike, unlike
from tests.requirements import needs_native_entry

W = np.arange(6.0)


def clipped(x: Any, y: Any) -> Any:
    """Clipping by a norm."""
    norm = np.sqrt((x * x).sum())
    if norm > 3:
        x = x * (3 / norm)
    return x + y


def line_search(x: Any, y: Any) -> Any:
    """Backtracking, written without a loop, then with a short one."""
    step, first = 1.0, (x**2).sum()
    if ((x + step * y) ** 2).sum() > first:
        step = 0.5
        if ((x + step * y) ** 2).sum() > first:
            step = 0.25
    for _ in range(3):
        if ((x - step * y) ** 2).sum() <= first:
            break
        step *= 0.5
    return x + step * y, step


def normalised(x: Any, y: Any) -> Any:
    """Normalise if it is not zero."""
    largest = float(np.abs(x).max())
    return x / largest if largest else y


def converged(x: Any, y: Any) -> Any:
    """An early return."""
    gap = np.sin(x) - x
    if np.abs(gap).max() < 0.5:
        return gap
    gap = gap * gap + y
    if gap.sum() > 8:
        return gap, gap.sum()
    return np.cos(gap)


def without_nan(x: Any, y: Any) -> Any:
    """A look for NaN."""
    if np.any(np.isnan(x)):
        x = np.nan_to_num(x)
    return x * 2 + y


def refusing(x: Any, y: Any) -> Any:
    """One path raises, after a write."""
    y += 1
    if (x < 0).any():
        raise ValueError(f"negative: {x.min() < -1}")
    y[1:] = np.sqrt(x)[:-1]
    return y.sum()


def asserting(x: Any, y: Any) -> Any:
    """An assertion, as Python compiles it."""
    if not (x > -2).all():
        raise AssertionError("small")
    return x + y


def smaller(x: Any, y: Any) -> Any:
    """`min` and `max` of sums."""
    return min(x.sum(), y.sum()) * x, max(x.max(), y.max(), 1) - y


def nested(x: Any, y: Any) -> Any:
    """Decisions in decisions, chained, joined."""
    if 0 < x.sum() < 9 and y.max() > 1:
        found = x * 2 if x.max() > 2 else x * 3
    elif x.min() < -3 or not y.any():
        found = -x
    else:
        found = x + 10
    return found + y


def sorted_first(x: Any, y: Any) -> Any:
    """On what an opaque call gives, which both paths go on with."""
    order = np.sort(x)
    if order[0] > 0 or np.linalg.norm(y) > 4:
        return np.log(np.abs(order) + 1)
    return order * 2, order


def by_name(x: Any, y: Any) -> Any:
    """On an array that is no argument."""
    return x * W[: len(x)] if W.sum() > 10 else x - y


def at_index(x: Any, y: Any) -> Any:
    """An integer that is read is an index, and a length."""
    place, count = int(x.argmax()), int((x > 0).sum())
    return y[place] * x, x[:count] * 2, np.zeros(count) + y.sum(), place


def halved(x: Any, y: Any) -> Any:
    """A loop that ends by a value."""
    count = 0
    while np.abs(x).max() > 1 and count < 4:
        x, count = x / 2, count + 1
    return x + y, count


def numbers(x: Any, y: Any) -> Any:
    """Numbers are results, and operands of Python's arithmetic."""
    mean = float(x.mean())
    bound = 2 * mean + 1
    found = y * bound if bound > 1 else y / (bound - 5)
    return found, bound, x.max().item(), bool(x.any()), int(x.argmin())


def written(x: Any, y: Any) -> Any:
    """Writes before and after decisions, into arguments and views of them."""
    x += 1
    if x.sum() > 0:
        x[::2] *= 2
        y[0] = x.max()
        return x[1:], y
    y[:] = x
    return None


def printing(x: Any, y: Any) -> Any:
    """One path cannot be fused."""
    if x.sum() > 4:
        return x.tolist()
    return x * y


PROGRAMS: tuple[Callable[..., Any], ...] = (
    clipped, line_search, normalised, converged, without_nan, refusing, asserting, smaller, nested,
    sorted_first, by_name, at_index, halved, numbers, written, printing,
)  # fmt: skip


def arguments(seed: int) -> tuple[Any, Any]:
    """Arrays whose values lead along many ways."""
    random = np.random.default_rng(seed)
    length = 6 if seed % 5 else 4
    x = random.normal(size=length) * random.choice([0.1, 1, 4]) + random.choice([-3, 0, 3])
    x = [x, np.abs(x), -np.abs(x), np.round(x), x * 0, x][seed % 6]
    if seed % 7 == 3:
        x[seed % length] = np.nan
    return x, random.normal(size=length) * random.choice([0, 1, 3])


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call gives or raises, and what its arguments are afterwards."""
    try:
        found = function(*args)
        shared = [np.shares_memory(a, b) for a in args for b in _arrays(found)]
        return "gives", found, shared, args
    except (ValueError, AssertionError, IndexError) as error:
        return "raises", type(error), str(error), args


def _arrays(found: Any) -> list[Any]:
    """The arrays of a result."""
    parts = found if isinstance(found, tuple) else (found,)
    return [part for part in parts if isinstance(part, np.ndarray)]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda each: each.__name__)
def test_outcomes_in_every_order_lead_where_numpy_goes(function: Any) -> None:
    """Values, types, sharing, writes and exceptions are NumPy's, whichever path came first."""
    for start in range(3):
        fused = fuser.fuse(function, fallback="allow")
        for seed in itertools.chain(range(start * 5, 24), range(12)):
            if function is by_name:
                W[:] = np.random.default_rng(seed).normal(size=6) * 3 + 1
            one, other = copy.deepcopy(arguments(seed)), copy.deepcopy(arguments(seed))
            wanted, found = outcome(function, one), outcome(fused, other)
            assert not unlike(wanted, found, close=1e-12), seed


def fallbacks(fused: Any, *args: Any) -> int:
    """How many calls NumPy runs of two alike."""
    before = fuser.stats().get("fallbacks", 0)
    for _ in range(2):
        outcome(fused, copy.deepcopy(args))
    return int(fuser.stats().get("fallbacks", 0) - before)


@pytest.mark.usefixtures("never_brief")
def test_a_path_that_raises_leaves_the_others_fused() -> None:
    """The plain function runs where it raises, and there alone; `error` demands no more."""
    fused = fuser.fuse(refusing, fallback="error")
    x, y = np.arange(4.0), np.ones(4)
    for turn in range(3):
        with pytest.raises(ValueError, match="negative: True"):
            fused(x - 2, y)
        assert y.tolist() == [turn + 2.0] * 4
        assert fused(x, y.copy()) == refusing(x, y.copy())
    allowed = fuser.fuse(refusing, fallback="allow")
    for _ in range(3):
        assert fallbacks(allowed, x - 2, y) == 0  # Python's own error is none
        assert fallbacks(allowed, x, y) == 0


def test_known_outcomes_share_what_stands_before_them() -> None:
    """The stages before a decision are one for both paths, and run once a call."""
    fused = fuser.fuse(clipped, fallback="error")
    small, large, y = np.full(4, 0.1), np.full(4, 9.0), np.ones(4)
    for _ in range(3):
        for x in (small, large):
            np.testing.assert_allclose(fused(x, y), clipped(x, y), rtol=1e-14)
    ((entry),) = fused._signatures.values()
    one, other = (known.spec for known in entry.found)
    assert other.shared > 0
    assert all(a is b for a, b in zip(one.steps, other.steps[: other.shared], strict=False))
    (ready,) = fused._ready.values()
    assert type(ready) is ReadyProgram
    before = fuser.stats()
    for x in (small, large, small):
        fused(x, y)
    after = fuser.stats()
    assert after["decisions"] - before["decisions"] == 3
    assert after["specs"] == before["specs"]


def test_numbers_that_are_read_compile_once() -> None:
    """A new value is no new path: a decision by it is one."""
    fused = fuser.fuse(normalised, fallback="error")
    for scale in range(12):
        x = np.arange(3.0) * scale
        assert fused(x, x).tolist() == normalised(x, x).tolist()
    (entry,) = fused._signatures.values()
    assert len(entry.found) == 2


@pytest.mark.usefixtures("never_brief")
def test_paths_have_a_limit_and_a_reason() -> None:
    """Beyond it NumPy runs other outcomes, and the known ones stay fused."""

    def steps(x: Any) -> Any:
        count = 0
        for _ in [None] * 40:  # over no range: each iteration is code of its own
            if x.max() <= 1:
                break
            x, count = x / 2, count + 1
        return x, count

    fused = fuser.fuse(steps, fallback="allow")
    for power in [*range(VALUE_LIMIT + 3), 0, 2]:
        assert_alike(fused(np.full(3, 2.0**power)), steps(np.full(3, 2.0**power)), close=1e-12)
    reason = fused.fallbacks[-1]
    assert reason.code == "many-paths"
    assert "test_paths.py" in reason.where
    assert fallbacks(fused, np.full(3, 4.0)) == 0
    assert fallbacks(fused, np.full(3, 2.0**30)) == 2


@needs_native_entry
@pytest.mark.usefixtures("never_brief")
def test_ways_that_never_come_again_are_given_up() -> None:
    """Where so many calls in a row went new ways, no path is run before NumPy runs such calls."""

    def chosen(x: Any) -> Any:
        total = x * 1.0
        for place in [0, 1, 2, 3, 4, 5, 6]:
            if x[place] > 0.5:
                total = total + place
        return total

    def calls(numbers: Any) -> int:
        before = fuser.stats().get("decisions", 0)
        for number in numbers:
            x = np.array([number >> place & 1 for place in range(7)], float)
            assert_alike(fused(x), chosen(x))
        return fuser.stats().get("decisions", 0) - before

    fused = fuser.fuse(chosen, fallback="allow")
    calls(range(VALUE_LIMIT))
    assert calls([0, 1, 2, *range(40, 40 + VALUE_LIMIT - 1), 3, 1, 50, 2, 60]) > 0
    assert calls([0, 1, 2]) > 0
    calls(range(40, 40 + 2 * VALUE_LIMIT))
    assert calls([50, 60]) == 0
    assert fused.fallbacks[-1].code == "many-paths"


def test_what_never_goes_on_as_kernels_is_given_up() -> None:
    """Where NumPy has run each call after its decisions, they are not looked at any more."""

    def listed(x: Any) -> Any:
        return x.tolist() if x.sum() > 0 else [x.tolist()]

    fused = fuser.fuse(listed, fallback="allow")
    for turn in range(3 * VALUE_LIMIT):
        x = np.arange(3.0 + turn) * (-1) ** turn
        assert fused(x) == listed(x)
    (entry,) = fused._signatures.values()
    assert entry.refused is not None
    assert not entry.found


def test_explanations_say_which_way_a_call_goes() -> None:
    """Numbers that are read, the decision, all paths so far; nothing is written."""
    fused = fuser.fuse(written, fallback="allow")
    x, y = np.ones(4), np.zeros(4)
    text = str(fused.explain(x, y))
    assert "decision: s0" in text
    assert "reads s0 off greater#1" in text
    assert x.tolist() == [1, 1, 1, 1]
    text = str(fused.explain(-3 * x, y))
    assert "decision: not s0" in text
    assert text.count(inspect.getsourcefile(written).rpartition("/")[2]) > 3  # type: ignore[union-attr]
    assert len(fused.explain(x, y).decisions) == 2
    fused = fuser.fuse(refusing, fallback="allow")
    assert fused.explain(-x, y).groups == []
    strict = fused.explain(-x, y)
    assert strict.fallbacks[0].code == "not-traceable"
    assert "NumPy runs such calls" in str(strict)


def test_modes_agree() -> None:
    """Unfused kernels and NumPy operation by operation go the same ways."""
    for mode in ("fused", "unfused", "fallback"):
        fused = fuser.fuse(nested, mode=mode, fallback="error")
        for seed in range(10):
            args = arguments(seed)
            assert not unlike(nested(*args), fused(*args), close=1e-12), (mode, seed)


def test_out_is_written_whichever_way_a_call_goes() -> None:
    """`out=` of a function with decisions."""
    fused = fuser.fuse(clipped, fallback="error")
    room = np.empty(4)
    for value in (0.1, 9.0, 0.2, 8.0):
        x, y = np.full(4, value), np.ones(4)
        assert fused(x, y, out=room) is room
        np.testing.assert_allclose(room, clipped(x, y), rtol=1e-14)


def test_what_a_loop_takes_back_is_asked_again() -> None:
    """A condition before the first iteration, whose trace was put back, is a decision still."""

    def shrunk(x: Any) -> Any:
        found, count = x * 1, 0
        while np.sum(found) > 9 and count < 6:
            found, count = found * 0.25 - 1, count + 1
        return found

    for values in ((100, -1, 7, -3), (-3, 7, -1, 100)):
        fused = fuser.fuse(shrunk, fallback="allow")
        for value in values:
            assert_alike(fused(np.full(5, value)), shrunk(np.full(5, value)), close=1e-12)


@pytest.mark.usefixtures("never_brief")
def test_calls_that_all_end_in_numpy_decide_nothing_any_more() -> None:
    """After some such calls NumPy runs them at once; one that is fused keeps decisions alive."""

    def timed(x: Any) -> Any:
        y = x * 2.0
        return (y, time.perf_counter() > 0) if y.sum() > 0 else y

    for others in (False, True):
        fused = fuser.fuse(timed, fallback="allow")
        decided = []
        for turn in range(ENDED + 6):
            before = fuser.stats()
            assert_alike(fused(np.ones(3)), timed(np.ones(3)), close=1e-12)
            after = fuser.stats()
            decided.append(after.get("decisions", 0) > before.get("decisions", 0))
            assert after["fallbacks"] == before.get("fallbacks", 0) + 1
            if others and turn == 1:
                assert_alike(fused(-np.ones(3)), timed(-np.ones(3)), close=1e-12)
        assert all(decided[2:ENDED])
        assert decided[-1] is others
