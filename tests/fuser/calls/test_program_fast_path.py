"""Calls that run NumPy functions between kernels: the short way gives what the long way gives."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls.program_fast_path import ReadyProgram
from tests.requirements import needs_native_entry

CHANCE = np.random.default_rng(7)
X = CHANCE.standard_normal((6, 4)).astype(np.float32)
W = CHANCE.standard_normal((4, 3)).astype(np.float32)
B = CHANCE.standard_normal(3).astype(np.float32)


def layer(x: Any, w: Any, b: Any) -> Any:
    """A product of matrices with work around it."""
    return np.maximum((x * 2) @ w + b, 0)


FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "layer": (layer, (X, W, B)),
    "two layers": (lambda x, w, b: layer(layer(x, w, b), w.T, x[0]), (X, W, B)),
    "several results": (lambda x: (np.sort(x * 2) + 1, np.exp(x)), (X,)),
    "results of one call": (lambda x: np.add(*np.linalg.eigh(x.T @ x + 1)), (X,)),
    "scalar": (lambda x, s: np.cumsum(x * s, axis=1) - s, (X, 2.5)),
    "scalar argument": (lambda x, k: np.roll(np.sort(x), 1) * k + np.partition(x, 1), (X, 3)),
    "chain": (lambda x: np.sort(x.T, axis=0)[::2] * 2, (X,)),
    "scalar result": (lambda x: np.median(x) * 2 + x.sum(), (X,)),
    "nested": (lambda x: {"a": np.sort(x) * 2, "b": [x + 1]}, (X,)),
}


def flat(value: Any) -> list[Any]:
    """Results without their nesting."""
    if isinstance(value, dict):
        return [part for entry in value.values() for part in flat(entry)]
    if isinstance(value, (tuple, list)):
        return [part for entry in value for part in flat(entry)]
    return [value]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_repeated_calls_are_right(name: str) -> None:
    """Other values, then other shapes; results are arrays of their own."""
    function, args = FUNCTIONS[name]
    fused = fuser.fuse(function, fallback="allow")
    kept: list[tuple[list[Any], list[Any]]] = []
    for turn in range(6):
        new = [a * (turn + 1) if isinstance(a, np.ndarray) else a + turn for a in args]
        if turn == 5 and name not in ("two layers",):
            new[0] = np.concatenate([new[0], new[0]])
        kept.append((flat(fused(*new)), flat(function(*new))))
    for found, wanted in kept:
        for left, right in zip(found, wanted, strict=True):
            assert type(left) is type(right)
            np.testing.assert_allclose(left, right, rtol=2e-5, atol=1e-4)


def test_the_short_way_is_taken_and_counted() -> None:
    """The second call is ready; each call counts its functions."""
    fused = fuser.fuse(layer, fallback="allow")
    for _ in range(3):
        fused(X, W, B)
    assert [type(ready) for ready in fused._ready.values()] == [ReadyProgram]
    before = fuser.stats()
    fused(X, W, B)
    after = fuser.stats()
    assert after["graph_breaks"] == before["graph_breaks"] + 1
    code = "fallback.unsupported-function"
    assert after[code] == before[code] + 1


def test_results_of_another_kind_go_the_long_way() -> None:
    """How many elements are kept depends on values."""
    fused = fuser.fuse(lambda x: np.unique(x * 2) + 1, fallback="allow")
    for values in ([1, 2, 3, 4], [1, 1, 2, 2], [1, 2, 3, 5], [7, 7, 7, 7]):
        x = np.array(values, np.float64)
        np.testing.assert_array_equal(fused(x), np.unique(x * 2) + 1)


def test_errors_of_functions_are_numpys() -> None:
    """Raised between kernels, in a call that was right before."""
    fused = fuser.fuse(lambda x: np.linalg.inv(x * 2) + 1, fallback="allow")
    for _ in range(3):
        fused(np.eye(3))
    with pytest.raises(np.linalg.LinAlgError):
        fused(np.zeros((3, 3)))
    np.testing.assert_allclose(fused(np.eye(3)), np.linalg.inv(np.eye(3) * 2) + 1)


def test_switches_and_clearing_are_noticed() -> None:
    """A ready call holds only while settings do."""
    fused = fuser.fuse(layer, fallback="allow")
    for _ in range(3):
        fused(X, W, B)
    fuser.override_can_fuse_on_cpu(False)
    try:
        np.testing.assert_allclose(fused(X, W, B), layer(X, W, B), rtol=1e-5)
        assert fused.fallbacks[-1].code == "switched-off"
    finally:
        fuser.override_can_fuse_on_cpu(True)
    fuser.clear_caches()
    np.testing.assert_allclose(fused(X, W, B), layer(X, W, B), rtol=1e-5)


def test_arguments_that_must_not_share_memory_are_compared_at_each_call() -> None:
    """The short way serves functions that write into arguments, where the arrays lie apart."""

    def sorted_into(x: Any, y: Any) -> None:
        x += np.sort(y)
        y *= 2.0

    fused = fuser.fuse(sorted_into, fallback="allow")
    for kind in ("apart", "apart", "one", "apart", "shifted"):
        plain, own = np.arange(9.0)[::-1].copy(), np.arange(9.0)[::-1].copy()
        views = {"apart": (slice(0, 4), slice(5, 9)), "one": (slice(0, 6), slice(0, 6)),
                 "shifted": (slice(0, 6), slice(3, 9))}[kind]  # fmt: skip
        sorted_into(*(plain[view] for view in views))
        fused(*(own[view] for view in views))
        np.testing.assert_array_equal(own, plain)
    assert {type(ready) for ready in fused._ready.values()} == {ReadyProgram}


def test_writes_into_one_argument_keep_their_order() -> None:
    """One that waits until the end does not undo what the last stage would have written."""

    def edges(x: Any, y: Any, w: Any) -> None:
        middle = np.sort(x)
        y[1:] = middle[0] * 2
        other = np.sort(w + y)
        y[-1] = other[-1] + 1
        y[0] = y[1] = other[0]

    fused = fuser.fuse(edges, fallback="allow")
    random = np.random.default_rng(5)
    for _ in range(6):
        x, y, w = random.normal(size=(3, 7))
        mine = y.copy()
        edges(x, y, w)
        fused(x, mine, w)
        assert np.array_equal(mine, y)


def test_one_value_goes_to_several_arguments() -> None:
    """A value that is written twice, and is no result, takes the short way."""

    def cleared(x: Any, y: Any) -> None:
        last = np.sort(x)[-1]
        x[0] = y[0] = y[-1] = last * 0.5

    fused = fuser.fuse(cleared, fallback="allow")
    for turn in range(5):
        given = CHANCE.standard_normal((2, 7)) + turn
        own = given.copy()
        cleared(*given)
        fused(*own)
        np.testing.assert_array_equal(own, given)
    assert [type(ready) for ready in fused._ready.values()] == [ReadyProgram]


def _kept(x: Any, y: Any, m: int) -> Any:
    out, count = np.zeros(len(x)), 0
    for i in range(len(x)):
        y[i] = x[i] * 2
        if x[i] > 0.5:
            out[count] = x[i]
            count += 1
    found = out[:count]
    return found, found, out, out[::-1], y[1:], x[::2]


def _repeated(x: Any, y: Any, m: int) -> Any:
    total = np.zeros((m + 1, len(x)))
    for i in range(m):
        y *= 0.5
        total[i + 1] = total[i] + y
    return total[1:], total.T, total[m], y[m:], np.array([0.5, 2.0])


@needs_native_entry
@pytest.mark.parametrize("function", [_kept, _repeated])
def test_results_that_are_views_go_the_short_way(function: Any) -> None:
    """Each call gives views of its own arrays and of its arguments, one object where one is."""
    fused = fuser.fuse(function, fallback="error")
    for turn in range(7):
        x, m = np.random.default_rng(turn).random(12), turn % 2 + 2
        given, own = np.ones(12), np.ones(12)
        wanted, found = function(x, given, m), fused(x, own, m)
        for left, right in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(left, right)
            assert left.strides == right.strides
            shared = [np.shares_memory(right, other) for other in (*wanted, x, given)]
            assert [np.shares_memory(left, other) for other in (*found, x, own)] == shared
            assert [left is each for each in found] == [right is each for each in wanted]
        found[-1][...] = 0.0  # it is of this call alone
    assert {type(ready) for ready in fused._ready.values()} == {ReadyProgram}
