"""What is learnt of a kind of call: what is refused, for how long, and what holds."""

import contextlib
import types
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls.fused_function import OBJECTS, TRACES
from fuser.calls.trace_cache import VALUE_LIMIT, Signature
from tests.fuser.comparing import assert_same

X = np.ones(3)
EXTRA = np.ones(3)


def entry_of(function: fuser.FusedFunction) -> Signature:
    """What a function knows of the only kind of call that it has seen."""
    (entry,) = function._signatures.values()
    assert isinstance(entry, Signature)
    return entry


def test_lengths_and_numbers_add_nothing_and_structure_does() -> None:
    """One specialisation for every length; one for each value that decides structure.

    A loop over a range of an argument is one region, however often it runs; the length of a list
    decides how often its body is traced.
    """

    @fuser.fuse(fallback="error")
    def in_a_region(x: Any, repeats: int) -> Any:
        """A loop that runs or does not."""
        for _ in range(repeats):
            x = x * 2
        return x

    @fuser.fuse(fallback="allow")
    def work(x: Any, repeats: int) -> Any:
        """Structure by a number."""
        for _ in [None] * repeats:
            x = x * 2
        return x

    for size in (3, 4, 5):
        work(np.ones(size), 1)
    assert len(entry_of(work).found) == 1
    for repeats in range(VALUE_LIMIT + 3):
        assert in_a_region(X, repeats).tolist() == (X * 2**repeats).tolist()
    assert len(entry_of(in_a_region).found) == 2
    for repeats in range(VALUE_LIMIT + 3):
        assert work(X, repeats).tolist() == (X * 2**repeats).tolist()
    assert len(entry_of(work).found) == VALUE_LIMIT
    assert entry_of(work).refused is not None


def test_a_refusal_lasts_and_an_error_does_not() -> None:
    """Iteration over an array is refused for good; shapes that do not fit are not."""
    refused = fuser.fuse(lambda x: x if 7 in x else -x, fallback="allow")
    refused(X)
    reason = entry_of(refused).refused
    assert reason is not None
    assert reason.code == "control-flow"
    wrong = fuser.fuse(lambda x: x.reshape(2, 2) + 1, fallback="allow")
    with pytest.raises(ValueError, match="reshape"):
        wrong(X)
    assert entry_of(wrong).refused is None
    assert wrong(np.ones(4)).shape == (2, 2)
    assert len(entry_of(wrong).found) == 1


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
def test_a_call_without_kernels_gives_the_same(mode: str) -> None:
    """Results, writes into arguments and `out=`, by whichever way a call is run."""

    def work(x: Any, y: Any) -> Any:
        """Writes, a view and a number."""
        x += y
        return x * 2, x[1:], x.shape[0] + 1

    fused = fuser.fuse(work, mode=mode, fallback="error")
    for _ in range(2):
        x, plain = np.arange(4.0), np.arange(4.0)
        found, wanted = fused(x, x * 0 + 2), work(plain, plain * 0 + 2)
        assert x.tolist() == plain.tolist()
        assert found[0].tolist() == wanted[0].tolist()
        assert np.shares_memory(found[1], x)
        assert found[2] == wanted[2]
    room = np.empty(4)
    assert fuser.fuse(lambda x: x * 2, mode=mode, fallback="error")(x, out=room) is room
    assert room.tolist() == (x * 2).tolist()


class Layer:
    """Weights, and what is done with them."""

    def __init__(self, weight: float) -> None:
        """With one weight for all."""
        self.weights = np.full(5, weight)

    def run(self, x: Any) -> Any:
        """Weighed."""
        return x * self.weights + 1


def test_new_objects_at_each_call_are_not_traced_for_ever() -> None:
    """NumPy runs those after the first some, until objects come again; errors are asked for."""
    x = np.ones(5)
    fused = fuser.fuse(Layer.run, fallback="allow")
    for k in range(3 * TRACES):
        assert np.array_equal(fused(Layer(k), x), x * k + 1)
    assert [reason.code for reason in fused.fallbacks] == ["value-guards"]
    traced = sum(len(entry.found) for entry in fused._signatures.values())
    assert TRACES <= traced < 1.5 * TRACES
    exact = fuser.fuse(Layer.run, fallback="error")
    for k in range(2 * TRACES):
        assert np.array_equal(exact(Layer(k), x), x * k + 1)


def test_a_refusal_keeps_its_reason_however_often_it_is_met() -> None:
    """No trace is made of such calls, so none is counted."""
    fused = fuser.fuse(lambda x: float(x[0]) if type(x) is list else np.random.rand(3),  # noqa: NPY002
                       fallback="allow")  # fmt: skip
    for _ in range(3 * TRACES):
        fused(np.ones(5))
    assert [reason.code for reason in fused.fallbacks] == ["impure"]


@pytest.mark.parametrize("told", [Layer, str])
def test_objects_that_come_again_are_fused(told: type) -> None:
    """From the second time on, however many there are."""
    x = np.ones(5)
    plain = Layer.run if told is Layer else lambda each, x: x * len(each)
    fused = fuser.fuse(plain, fallback="allow")
    things = [Layer(k) if told is Layer else "a" * k for k in range(3 * TRACES)]
    for turn in range(3):
        before = sum(fused.fallback_counts.values())
        for thing in things:
            assert np.array_equal(fused(thing, x), plain(thing, x))
        assert turn == 0 or sum(fused.fallback_counts.values()) == before


@pytest.mark.parametrize(("size", "all_are"), [(1, False), (40_000, True)])
def test_short_calls_of_very_many_objects_are_not_all_traced(size: int, all_are: bool) -> None:
    """They take less than their traces; long ones are, and all give what NumPy gives."""
    x, fused = np.ones((size, 5)), fuser.fuse(Layer.run, fallback="allow")
    things = [Layer(k) for k in range(OBJECTS + 20)]
    for _ in range(3):
        for k, thing in enumerate(things):
            assert np.array_equal(fused(thing, x), x * k + 1)
    traced = sum(len(entry.found) for entry in fused._signatures.values())
    assert traced == len(things) if all_are else OBJECTS <= traced < len(things)


def test_new_things_by_names_at_each_call_are_not_traced_for_ever() -> None:
    """A function of a name that is another at each call."""
    held = types.SimpleNamespace()
    fused = fuser.fuse(lambda x: held.function(x) + 1, fallback="allow")
    for k in range(3 * TRACES):
        held.function = lambda x, k=k: x * k
        assert np.array_equal(fused(np.ones(5)), np.ones(5) * k + 1)
    assert [reason.code for reason in fused.fallbacks] == ["value-guards"]


def test_an_integer_that_fits_is_not_taken_for_one_that_does_not() -> None:
    """Numbers are part of what is remembered."""
    function = fuser.fuse(lambda a, k: a * k)
    a = np.arange(3, dtype=np.int8)
    for _ in range(3):
        with pytest.raises(OverflowError, match="1000"):
            function(a, 1000)
        with pytest.raises(OverflowError, match="2000"):
            function(a, 2000)
        assert function(a, 10).tolist() == [0, 10, 20]


def test_a_changed_global_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error holds as long as the names that the function reads are the same objects."""
    function = fuser.fuse(lambda a: a + EXTRA)
    for _ in range(2):
        with pytest.raises(ValueError, match="broadcast"):
            function(np.ones(4))
    monkeypatch.setitem(globals(), "EXTRA", np.full(4, 2.0))
    assert function(np.ones(4)).tolist() == [3, 3, 3, 3]


def test_a_refusal_is_an_error_where_that_is_the_policy() -> None:
    """Each time."""
    function = fuser.fuse(lambda a: a + 1, fallback="error")
    for _ in range(4):
        with pytest.raises(fuser.FusionError):
            function(np.ones(2, "g"))


def _reshaped(x: Any) -> Any:
    try:
        return x.reshape(3, -1) * 2
    except ValueError:
        return x + 1


def _indexed(x: Any) -> Any:
    try:
        return x[5] * 2
    except IndexError:
        return x.sum() - 1


def _joined(x: Any) -> Any:
    with contextlib.suppress(ValueError):
        return x + np.arange(6.0)
    return x - 1


@pytest.mark.parametrize("function", [_reshaped, _indexed, _joined])
def test_caught_errors_are_control_flow(function: Any) -> None:
    """Whether there is one depends on the lengths of each call."""
    fused = fuser.fuse(function, fallback="allow")
    for length in (7, 6, 0, 5, 9, 6, 1):
        assert_same(fused, np.arange(float(length)))
