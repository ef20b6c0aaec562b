"""Arrays that a function makes by itself, or reaches by name, where traced values meet them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

X = np.arange(12.0) / 4 - 1
M = X.reshape(3, 4)
TABLE = np.arange(16.0) ** 2
KEPT = np.zeros(4)


def places(x: Any) -> Any:
    """One number after another."""
    found = np.zeros(3)
    for k in range(3):
        found[k] = (x <= k).mean()
    return found


def matrix(x: Any) -> Any:
    """A matrix with some entries of its own."""
    turn = np.eye(2)
    turn[0, 0] = np.cos(x[0])
    turn[1, 0] = x[1]
    return turn, turn.T


def rows(m: Any) -> Any:
    """Rows and numbers."""
    found = np.empty((2, 2), np.float32)
    found[0, 0] = m.max()
    found[0, 1] = m.min()
    found[1] = m[0, :2]
    return found


def accumulated(m: Any) -> Any:
    """In place, by a loop."""
    total = np.zeros(4, dtype=np.float32)
    for k in range(3):
        total += m[k] ** 2
    return np.sqrt(total)


def divided(x: Any) -> Any:
    """A traced number into an array of ones."""
    ones = np.ones((2, 3))
    ones[0] -= x[:3]
    first, second = ones
    return first * second, ones.shape, ones.sum(axis=0)


def filled(x: Any) -> Any:
    """np.full, np.linspace, np.array and np.arange."""
    level = np.full(3, 2.5)
    level[1:] = x[:2]
    grid = np.linspace(0, 1, 4)
    grid[1:3] = x[1:3]
    given = np.array([0.0, 1.0, 2.0])
    given *= x[:3]
    counted = np.arange(3)
    counted[0] = (x > 0).sum()
    return level, grid, given, counted


def reduced(m: Any) -> Any:
    """`out=` of reductions, and of a function that NumPy runs."""
    most, means = np.zeros((), m.dtype), np.empty((3, 1), m.dtype)
    places, ordered = np.zeros(4, np.int64), np.zeros((3, 4), m.dtype)
    np.max(np.abs(m), out=most)
    np.add.reduce(m, axis=1, keepdims=True, out=means)
    m.argmax(axis=0, out=places)
    np.take(m, [2, 0, 1], axis=0, out=ordered)
    return most, means / 4, places, ordered + 1


def of_another_dtype(m: Any) -> Any:
    """NumPy reduces in it."""
    found = np.zeros(3, np.float16)
    np.sum(m, axis=1, out=found)
    return found


def wrong(x: Any) -> Any:
    """What does not fit."""
    found = np.zeros(3)
    found += x
    return found


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("function", [places, matrix, rows, accumulated, divided, filled])
def test_arrays_made_with_plain_lengths_are_written_into(function: Any, kind: Any) -> None:
    """They are part of the graph."""
    given = M if function in (rows, accumulated) else X
    assert_same(function, given.astype(kind), ulp=2)
    assert_same(function, (given.astype(kind))[::-1], ulp=2)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_reductions_are_written_into_them(kind: Any) -> None:
    """They are part of the graph; NumPy takes what it computes in another way, and it is said."""
    assert_same(reduced, M.astype(kind), ulp=2, fallback="allow")
    plan = fuser.fuse(reduced, fallback="allow").explain(M.astype(kind))
    assert len(plan.graph_breaks) == 1
    assert plan.groups
    assert_same(of_another_dtype, M.astype(kind), fallback="allow")
    reason = fuser.fuse(of_another_dtype, fallback="allow").explain(M.astype(kind)).fallbacks[0]
    assert "dtype" in reason.found


@pytest.mark.parametrize("size", [3, 1, 12, 0])
def test_errors_are_numpys(size: int) -> None:
    """Of shapes that do not fit."""
    assert_same(wrong, X[:size].copy(), fallback="allow")


def test_every_call_has_an_array_of_its_own() -> None:
    """Nothing is left of an earlier call, or of what was done to its result."""
    fused = fuser.fuse(matrix, fallback="error")
    first, _ = fused(X)
    first[...] = 7
    second, _ = fused(X)
    assert np.array_equal(second, matrix(X)[0])


def looked_up(x: Any) -> Any:
    """A table by places that only the call knows."""
    return TABLE[np.clip(x, 0, 3).astype(int)] * 2 + np.arange(8.0)[np.clip(x, 0, 2).astype(int)]


def test_tables_are_read_in_kernels() -> None:
    """A global array, and one made here; a table with new values is noticed."""
    fused = fuser.fuse(looked_up, fallback="allow")
    assert_same(fused, X)
    assert not fused.fallbacks
    old = TABLE[0]
    try:
        TABLE[0] = 50
        assert_same(fused, X)
    finally:
        TABLE[0] = old


def kept(m: Any) -> Any:
    """What is outside of the function changes."""
    KEPT[:] = m[0]
    return m * 2


def counted(x: Any) -> Any:
    """A histogram by np.add.at."""
    found = np.zeros(8)
    np.add.at(found, np.clip(x, 0, 7).astype(int), 1)
    return found / x.shape[0]


def test_arrays_outside_are_written_by_numpy() -> None:
    """As a whole, with the reason."""
    fused = fuser.fuse(kept, fallback="allow")
    for factor in (1, 2, 3):
        assert np.array_equal(fused(M * factor), M * factor * 2)
        assert np.array_equal(KEPT, M[0] * factor)
    assert [reason.code for reason in fused.fallbacks] == ["side-effect"]


def test_what_a_function_made_is_changed() -> None:
    """By the kernel."""
    assert_same(counted, X, fallback="error")
    assert len(fuser.fuse(counted).explain(X).groups) == 1


@pytest.mark.parametrize("make", [np.zeros, np.ones, np.empty], ids=lambda make: make.__name__)
def test_a_bool_is_no_length(make: Any) -> None:
    """NumPy raises for `np.zeros(True)`, though True is an integer elsewhere."""
    fused = fuser.fuse(lambda x, k: x + make(k), fallback="allow")
    assert fused(np.ones(3), 3).shape == (3,)
    for _ in range(3):
        with pytest.raises(TypeError, match="integer"):
            fused(np.ones(3), True)


@pytest.mark.parametrize("options", [
    {"ndmin": 3}, {"order": "F"}, {"order": "C"}, {"subok": True, "copy": None, "ndmin": 1},
    {"dtype": "f4", "ndmin": 3, "order": "F"}, {"copy": False},
])  # fmt: skip
def test_arrays_of_arrays_with_options(options: dict[str, Any]) -> None:
    """Axes before the others, another memory order, the array itself where that is enough."""
    fused = fuser.fuse(lambda x: np.array(x.T, **options) * 2, fallback="error")
    assert_same(fused, np.arange(12.0).reshape(3, 4))
    assert_same(fused, np.arange(10.0).reshape(5, 2))


_SAME_MEMORY: dict[str, Callable[[Any], Any]] = {
    "asarray": lambda x: np.asarray(x),
    "asanyarray": lambda x: np.asanyarray(x),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x),
    "array": lambda x: np.array(x, copy=None),
    "array with axes": lambda x: np.array(x, copy=None, ndmin=3),
    "atleast_2d": lambda x: np.atleast_2d(x),
    "of a buffer": lambda x: np.asarray(memoryview(x)),
}


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("name", _SAME_MEMORY)
@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
def test_writes_into_what_is_no_copy_of_an_array_that_is_reached(
    name: str, shape: tuple[int, ...]
) -> None:
    """That array is written, whether an attribute or a global name leads to it."""
    made = _SAME_MEMORY[name]

    class Model:
        weights = np.ones(shape)

    held = np.ones(shape)

    def of_an_attribute(model: Any, rate: Any) -> Any:
        seen = made(model.weights)
        seen -= rate

    def of_a_name(model: Any, rate: Any) -> Any:
        seen = made(held)
        seen -= rate

    for function in (of_an_attribute, of_a_name):
        fused = fuser.fuse(function, fallback="allow")
        for _ in range(3):
            for rate in (0.5, np.float32(0.25)):
                fused(Model, rate)
    assert np.array_equal(Model.weights, np.full(shape, 1 - 3 * 0.75))
    assert np.array_equal(held, np.full(shape, 1 - 3 * 0.75))
