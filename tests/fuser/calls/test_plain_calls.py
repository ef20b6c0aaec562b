"""Calls that end in the plain function before native entries are loaded are seldom looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import FEWEST_PLAIN
from fuser.backends.cpu.backend import CpuBackend
from fuser.calls.fused_function import PATIENCE, TRACES
from tests.requirements import needs_native_entry


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of calls that are looked at, where no native entry is there."""
    found: list[Any] = []
    usual = fuser.FusedFunction._long_way

    def look(self: Any, args: Any, kwargs: Any, fell: Any) -> Any:
        found.append(args)
        return usual(self, args, kwargs, fell)

    monkeypatch.setattr(CpuBackend, "install", lambda *_: False)
    monkeypatch.setattr(fuser.FusedFunction, "_long_way", look)
    return found


@needs_native_entry
def test_few_of_many_such_calls_are_looked_at(looks: list[Any]) -> None:
    """Each gives what the plain function gives, runs it once, and is counted."""
    runs = []

    def changes(x: Any, state: dict[str, float], scale: float = 1.0) -> Any:
        state["sum"] = float(x.sum())
        runs.append(1)
        return np.sort(x) * scale

    fused, state = fuser.fuse(changes, fallback="allow"), {"sum": 0.0}
    for k in range(100):
        x = np.arange(5.0)[::-1] + k
        np.testing.assert_array_equal(fused(x, state, scale=2.0), np.sort(x) * 2.0)
        assert state["sum"] == x.sum()
    assert len(runs) == sum(fused.fallback_counts.values()) == 100
    assert len(looks) <= PATIENCE + 100 / FEWEST_PLAIN


@needs_native_entry
def test_other_lengths_are_looked_at(looks: list[Any]) -> None:
    """So kernels serve long arrays, though short ones are NumPy's."""
    fused = fuser.fuse(lambda x, state: np.sort(x), fallback="allow")
    state = object()
    for _ in range(PATIENCE + 2):
        fused(np.ones(4), state)
    before = len(looks)
    fused(np.ones(400), state)
    assert (before, len(looks)) == (PATIENCE, PATIENCE + 1)


def test_an_error_of_the_plain_function_is_its_own(looks: list[Any]) -> None:
    """It reaches the caller, and the function has run once."""
    runs = []

    def refuses(x: Any, state: list[int]) -> Any:
        runs.append(1)
        state.append(len(state))
        raise ValueError("mine")

    fused = fuser.fuse(refuses, fallback="allow")
    state: list[int] = []
    for k in range(1, 3 * PATIENCE):
        with pytest.raises(ValueError, match="mine"):
            fused(np.ones(4), state)
        assert len(runs) == len(state) == k
        state = [*state]


def test_settings_and_clearing_end_it(looks: list[Any]) -> None:
    """While a profile listens, each call is looked at."""
    fused = fuser.fuse(lambda x, state: np.sort(x), fallback="allow")
    x, state = np.ones(4), object()
    for _ in range(PATIENCE):
        fused(x, state)
    with fuser.profile():
        fused(x, state)
    assert len(looks) == PATIENCE + 1
    for _ in range(PATIENCE):
        fused(x, state)
    fused.clear()
    fused(x, state)
    assert not fused._plain


@needs_native_entry
@pytest.mark.parametrize(("length", "fused_again"), [(3, False), (30_000, True)])
def test_few_operations_beside_errors_are_the_plain_functions(
    length: int, fused_again: bool
) -> None:
    """A decision is no gain there; of long arrays what follows it is kernels all the same."""
    fused = fuser.fuse(refuses, fallback="allow")
    good, bad = np.ones(length), -np.ones(length)
    for _ in range(12):
        np.testing.assert_array_equal(fused(good), refuses(good))
        with pytest.raises(ValueError, match="negative"):
            fused(bad)
    before = fuser.stats()["fallbacks"]
    fused(good)
    assert (fuser.stats()["fallbacks"] == before) is fused_again


def refuses(x: Any) -> Any:
    """Refuse negative numbers."""
    if x[0] < 0:
        raise ValueError("negative")
    return np.sqrt(x)


def test_calls_with_longer_lists_each_time_are_traced_a_few_times() -> None:
    """A list's length is no kind of its own, where traces are in vain."""

    def changes(x: Any, held: list[float]) -> Any:
        held.append(float(x[0]))
        return x + held[-1]

    fused, held = fuser.fuse(changes, fallback="allow"), [0.0]
    for k in range(60):
        np.testing.assert_array_equal(fused(np.arange(3.0) + k, held), np.arange(3.0) + 2 * k)
    assert held == [0.0, *map(float, range(60))]
    assert len(fused._signatures) <= TRACES + 2


def test_lists_of_other_lengths_are_traced_when_they_come_again() -> None:
    """Where each call has a longer list, most calls are NumPy's without a trace."""
    fused, x = fuser.fuse(lambda x, held: x + sum(held), fallback="allow"), np.arange(3.0)
    for length in range(60):
        np.testing.assert_array_equal(fused(x, [1.0] * length), x + length)
    assert len(fused._signatures) <= TRACES + 2
    for _ in range(3):
        before = fuser.stats()["fallbacks"]
        np.testing.assert_array_equal(fused(x, [1.0] * 50), x + 50)
    assert fuser.stats()["fallbacks"] == before


def test_decisions_beside_many_errors_are_not_tried_first() -> None:
    """Where as many calls raise as not, and NumPy takes little time, it runs them at once."""

    def checked(x: Any) -> Any:
        assert (x >= 0).all(), "negative"
        return np.sqrt(x) * 2.0 + 1.0

    fused, good, bad = fuser.fuse(checked, fallback="allow"), np.ones(3), -np.ones(3)
    for _ in range(4 * PATIENCE):
        np.testing.assert_array_equal(fused(good), checked(good))
        with pytest.raises(AssertionError, match="negative"):
            fused(bad)
    before = fuser.stats().get("decisions", 0)
    for x in (good, good, good):
        np.testing.assert_array_equal(fused(x), checked(x))
    assert fuser.stats().get("decisions", 0) == before


@needs_native_entry
def test_a_container_that_is_compared_at_each_call_takes_longer_than_one_operation() -> None:
    """So do an array that NumPy changes between kernels, and an object of np.vectorize."""

    class Listed(list[Any]):
        """A list of a user's."""

    def cached(x: Any, n: int, cache: Any = {3: W}) -> Any:  # noqa: B006 - it is the point
        return x + cache[n]

    def added(x: Any) -> Any:
        np.add.at(x, [0, 0], 1.0)
        return x * 2.0

    held = Listed([1.0])
    kinds = np.vectorize(lambda a: a.sum(), signature="(n)->()")
    programs: list[tuple[Any, tuple[Any, ...]]] = [
        (cached, (np.ones(3), 3)), (added, (np.ones(3),)),
        (lambda x, held: x * held[0], (np.ones(3), held)),
        (lambda x: kinds(x) * 2.0, (np.ones((2, 3)),)),
    ]  # fmt: skip
    for function, args in programs:
        fused = fuser.fuse(function, fallback="allow")
        for _ in range(PATIENCE + 1):
            fused(*args)
        assert [reason.code for reason in fused.fallback_counts][-1] == "no-gain"


W = np.arange(3.0)


class Product:
    """A product of matrices, which grows."""

    def __init__(self, value: Any) -> None:
        """Begin with one."""
        self.value = value

    def __matmul__(self, other: Any) -> Product:
        """Another product."""
        return Product(self.value @ other)

    def grow(self, by: Any) -> Any:
        """Multiply it, and see it multiplied once more."""
        self.value = self.value @ by
        return (self @ by).value


@needs_native_entry
def test_attributes_that_cannot_be_handed_in_are_tried_a_few_times() -> None:
    """Then the plain function runs at once."""
    one, other = Product(np.eye(3)), Product(np.eye(3))
    fused, by = fuser.fuse(Product.grow, fallback="allow"), np.arange(9.0).reshape(3, 3) / 9
    for _ in range(12):
        np.testing.assert_array_equal(fused(other, by), one.grow(by))
        np.testing.assert_array_equal(one.value, other.value)
    assert sum(fused.fallback_counts.values()) >= 12 - PATIENCE


@needs_native_entry
def test_numbers_that_never_fit_are_hardly_looked_at(looks: list[Any]) -> None:
    """NumPy runs such calls, which raise or catch what it raises: the look is in vain."""

    def shifted(x: Any, by: int) -> Any:
        try:
            return x + by
        except OverflowError:
            return -x

    fused, x = fuser.fuse(shifted, fallback="allow"), np.arange(3, dtype=np.uint8)
    for by in (1, 300, *range(301, 400)):
        np.testing.assert_array_equal(fused(x, by), shifted(x, by))
    assert len(looks) <= 1 + PATIENCE + 100 / FEWEST_PLAIN


@needs_native_entry
@pytest.mark.parametrize(("limit", "codes"), [(1, ["no-gain"]), (60, [])])
def test_a_loop_that_ends_early_gives_way_where_it_ran_seldom(limit: int, codes: Any) -> None:
    """How often it runs is known once it has run."""

    def damped(x: Any, limit: int) -> Any:
        k = 0
        while k < limit:
            x, k = x * 0.5, k + 1
            if x.max() < 1e-30:
                break
        return x, k

    fused = fuser.fuse(damped, fallback="allow")
    for _ in range(PATIENCE + 1):
        assert fused(np.ones(4), limit)[1] == limit
    assert [reason.code for reason in fused.fallback_counts] == codes


def test_a_first_call_whose_loop_does_not_run_stands_for_no_other() -> None:
    """What it tells of its last iteration is unknown in this call alone."""

    def halved(x: Any, n: int) -> Any:
        k = 0
        while k < n:
            x, k = x * 0.5, k + 1
            if x.max() < 0.3:
                break
        else:
            return x, -1
        return x, k

    fused = fuser.fuse(halved, fallback="allow")
    for n in (0, 9, 9, 9):
        assert fused(np.full(20_000, 3.0), n)[1] == halved(np.full(20_000, 3.0), n)[1]
    assert not [reason for reason in fused.fallback_counts if reason.code == "not-traceable"]
