"""Functions that are called for each row, or axis by axis."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import GraphError
from fuser.ir import opaque_calls
from tests.fuser.comparing import assert_same, compare

X = np.random.default_rng(3).integers(-9, 9, (3, 4)).astype(np.float32)
C = np.arange(24.0).reshape(2, 3, 4)[:, ::-1]
WEIGHTS = np.array([1.0, 2, 3, 4], np.float32)

FUSED: dict[str, Any] = {
    "sums": lambda x, c: (np.apply_along_axis(np.sum, 0, x), np.apply_along_axis(np.sum, 1, c) / 2),
    "extremes": lambda x, c: (
        np.apply_along_axis(np.max, -1, c), np.apply_along_axis(np.argmin, 0, x + 1),
        np.apply_along_axis(np.ptp, 1, x), np.apply_along_axis(np.any, 0, x > 8),
    ),
    "axis by axis": lambda x, c: (
        np.apply_over_axes(np.sum, x, [0, 1]), np.apply_over_axes(np.max, c, (0, -1)) * 2,
        np.apply_over_axes(lambda a, axis: a.min(axis, keepdims=True), c, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_reductions_of_rows_are_fused(name: str) -> None:
    """Values, dtypes, shapes and memory order, whatever the arguments' layout."""
    assert_same(FUSED[name], X, C)
    assert_same(FUSED[name], np.asfortranarray(X), C.T)


def doubled(row: Any) -> Any:
    """Named by its module."""
    return row * 2


def _made_by_a_call(x: Any) -> Any:
    scale = 3.0
    return np.apply_along_axis(lambda row: row * scale + np.ones(row.size).sum(), 1, x * 2) + 1


def _of_traced_values(x: Any) -> Any:
    middle, rows, level = x.mean(axis=0) * 2, x.shape[0], x.max()

    def away(row: Any, by: float = 0.5) -> Any:
        return (row - middle) * rows + level * by

    return np.apply_along_axis(away, 1, x * 2) + 1


def _of_two_calls(x: Any) -> Any:
    found = 0
    for by in (x.min(), x.max()):
        found = found + np.apply_along_axis(lambda row: row[::-1] * by, 0, x + 1)  # noqa: B023
    return found


BETWEEN: dict[str, Any] = {
    "of traced values": _of_traced_values,
    "of one value, then another": _of_two_calls,
    "NumPy's": lambda x: np.apply_along_axis(np.sort, 0, x * 2) + 1,
    "with arguments": lambda x: np.apply_along_axis(np.percentile, 1, x + 1, 50) * 2,
    "a function": lambda x: np.apply_along_axis(doubled, 0, x + 1) * 2,
    "made by the call": _made_by_a_call,
    "two of them": lambda x: (
        np.apply_along_axis(lambda row: row - row.max(), 1, x + 1)
        + np.apply_along_axis(lambda row: row - row.min(), 1, x + 1)
    ),
    "of a captured array": lambda x: np.apply_along_axis(lambda r: np.dot(r, WEIGHTS), 1, x) + 1,
    "a row": lambda x: np.apply_along_axis(np.sum, 0, x[0] + 1) * 2,
}


@pytest.mark.usefixtures("never_brief")
@pytest.mark.parametrize("mode", ["fused", "fallback"])
@pytest.mark.parametrize("name", BETWEEN)
def test_other_functions_are_called_between_kernels(name: str, mode: str) -> None:
    """The rest is fused; other lengths, and later calls, are the same function's."""
    before = fuser.stats().get("fallbacks", 0)
    fused = fuser.fuse(BETWEEN[name], fallback="allow", mode=mode)
    for x in (X, X[:2], X[:, ::-1]):
        assert compare(fused, x) == ""
    assert fuser.stats().get("fallbacks", 0) == before
    if mode == "fused":
        assert {reason.operation for reason in fused.fallbacks} == {"np.apply_along_axis"}
        assert fused.explain(X).groups


def test_functions_that_reach_stand_ins_or_change_something_are_left_alone() -> None:
    """A row's function that reads a traced value, and one that counts."""
    seen: list[int] = []

    def reads(x: Any) -> Any:
        """Closes over a traced array."""
        y = x * 2
        return np.apply_along_axis(lambda row: row * y[0], 1, x) + 1

    def counts(x: Any) -> Any:
        """Appends to a list, row by row."""
        return np.apply_along_axis(lambda row: seen.append(1) or row * 2, 1, x) + 1

    assert compare(fuser.fuse(reads, fallback="allow"), X) == ""
    fused = fuser.fuse(counts, fallback="allow")
    for turn in range(1, 4):
        fused(X)
        assert len(seen) == turn * len(X)


def test_a_captured_array_is_read_anew() -> None:
    """What a row's function reaches is reached at every call."""
    weights = np.ones(4, np.float32)
    fused = fuser.fuse(
        lambda x: np.apply_along_axis(lambda row: row * weights, 1, x + 1) * 2, fallback="allow"
    )
    for turn in range(3):
        weights[:] = turn
        assert fused(X).tolist() == ((X + 1) * turn * 2).tolist()


def test_a_function_is_called_as_often_as_it_is_written() -> None:
    """The same function of the same rows, twice: it may give something else."""
    fused = fuser.fuse(
        lambda x: np.apply_along_axis(doubled, 1, x) - np.apply_along_axis(doubled, 1, x),
        fallback="allow",
    )
    assert fused(X).tolist() == (X * 0).tolist()
    before = fuser.stats()["graph_breaks"]
    fused(X)
    assert fuser.stats()["graph_breaks"] == before + 2


def test_names_tell_functions_apart() -> None:
    """The same code with the same cells is one function; others have numbers."""

    def make(scale: float) -> Any:
        return lambda row: row * scale

    one, other = make(1.5), make(2.5)
    name = opaque_calls.name_of(one)
    assert name is not None
    assert opaque_calls.name_of(one) == name
    assert opaque_calls.name_of(other) != name
    assert opaque_calls.function_named(name) is one
    with pytest.raises(GraphError):
        opaque_calls.function_named("nowhere.at_all")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: np.apply_along_axis(np.sum, 0, x[:, :0]),
        lambda x: np.apply_along_axis(np.sum, 5, x),
        lambda x: np.apply_over_axes(lambda a, axis: a.sum(), x, [0]),
    ],
)
def test_what_numpy_refuses_is_refused(wrong: Any) -> None:
    """The same kind of exception."""
    assert_same(wrong, X, fallback="allow")
