"""Functions that change what they are given: choices of elements, or NumPy's work on a copy."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

CHANCE = np.random.default_rng(12)
X = CHANCE.integers(-9, 9, (5, 5)).astype(np.float32)
W = CHANCE.integers(-9, 9, (4, 6)).astype(np.float64)
N = CHANCE.integers(-9, 9, (3, 3)).astype(np.int8)
V = CHANCE.integers(-9, 9, 5).astype(np.float32)
I = np.array([0, 2, 2, 4, 1])  # noqa: E741 - NumPy's own name for indices
HOLES = np.array([[1, np.nan, np.inf], [-np.inf, -0.0, 2]], np.float32)


def changing(*changes: Any) -> Any:
    """A function that makes arrays, changes each, and goes on with them; arguments change, too."""

    def function(x: Any, w: Any, n: Any, v: Any, i: Any, h: Any) -> Any:
        made = [x + 1, w * 2, n + 0, v * 2, i, h * 1]
        for change in changes:
            change(*made)
        changes[0](x, w, n, v, i, h)
        return [part * 2 for part in made]

    return function


FUSED: dict[str, Any] = {
    "putmask": changing(
        lambda x, w, n, v, i, h: np.putmask(x, x > 1, 0),
        lambda x, w, n, v, i, h: np.putmask(x, x < 0, x * x),
        lambda x, w, n, v, i, h: np.putmask(w[1:], w[1:] > 1, v[0].astype(float)[()] * 0 + 2.5),
    ),
    "place": changing(
        lambda x, w, n, v, i, h: np.place(x, x > 1, 7),
        lambda x, w, n, v, i, h: np.place(w[:, ::-1], w > 1, [0.25]),
    ),
    "fill_diagonal": changing(
        lambda x, w, n, v, i, h: np.fill_diagonal(x, 0),
        lambda x, w, n, v, i, h: np.fill_diagonal(w, 0.5),
        lambda x, w, n, v, i, h: np.fill_diagonal(w.T, v[0]),
        lambda x, w, n, v, i, h: np.fill_diagonal(x[1:, 1:], v[1:]),
        lambda x, w, n, v, i, h: np.fill_diagonal(n, 2.75),
        lambda x, w, n, v, i, h: np.fill_diagonal(x, [1, 2, 3, 4, 5]),
        lambda x, w, n, v, i, h: np.fill_diagonal(x[:0], 1),
    ),
    "copyto": changing(lambda x, w, n, v, i, h: np.copyto(x, v, where=x > v)),
    "nan_to_num": changing(
        lambda x, w, n, v, i, h: np.nan_to_num(h, copy=False),
        lambda x, w, n, v, i, h: np.nan_to_num(n, copy=False).sum(),
        lambda x, w, n, v, i, h: np.add(1, 0, out=np.nan_to_num(h[0], copy=False, nan=3.0)),
    ),
    "flat": changing(
        lambda x, w, n, v, i, h: setattr(x, "flat", 3),
        lambda x, w, n, v, i, h: w.flat.__setitem__(2, v[0]),
        lambda x, w, n, v, i, h: w.T.flat.__setitem__(slice(1, 5), w.flat[7]),
        lambda x, w, n, v, i, h: w[1:].flat.__setitem__(-1, 0),
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_changes_that_choose_elements_are_fused(name: str) -> None:
    """Of local arrays, of their parts and of arguments, in every layout."""
    args = (X, W, N, V, I, HOLES)
    assert_same(FUSED[name], *args)
    assert_same(FUSED[name], *map(np.asfortranarray, args))
    assert_same(FUSED[name], *[np.repeat(a, 2, 0)[::-2] for a in args])


BETWEEN: dict[str, Any] = {
    "putmask": changing(lambda x, w, n, v, i, h: np.putmask(x, x > 1, v)),
    "place": changing(lambda x, w, n, v, i, h: np.place(x, x > 1, [1.0, 2.0])),
    "put": changing(
        lambda x, w, n, v, i, h: np.put(x, [0, 3], v[:2]),
        lambda x, w, n, v, i, h: v.put(i, 1.5, mode="wrap"),
        lambda x, w, n, v, i, h: np.put(w[1], [0], 3),
    ),
    "put_along_axis": changing(
        lambda x, w, n, v, i, h: np.put_along_axis(x, np.argmax(x, 1, keepdims=True), 0, 1),
    ),
    "ufunc.at": changing(
        lambda x, w, n, v, i, h: np.add.at(v, i, 1.0),
        lambda x, w, n, v, i, h: np.subtract.at(x, (slice(None), [0, 0]), 1),
        lambda x, w, n, v, i, h: np.negative.at(v, [0, 1]),
    ),
    "partition": changing(lambda x, w, n, v, i, h: v.partition(2)),
    "fill_diagonal": changing(
        lambda x, w, n, v, i, h: np.fill_diagonal(x, v[:2]),
        lambda x, w, n, v, i, h: np.fill_diagonal(w.T, 1, wrap=True),
    ),
    "flat": changing(lambda x, w, n, v, i, h: x.flat.__setitem__(slice(None, None, 6), 0)),
}


@pytest.mark.parametrize("mode", ["fused", "fallback"])
@pytest.mark.parametrize("name", BETWEEN)
def test_other_changes_run_between_kernels(name: str, mode: str) -> None:
    """On a copy, with the rest fused, the function named, and arguments changed as NumPy does."""
    args = (X, W, N, V, I, HOLES)
    before = fuser.stats().get("fallbacks", 0)
    fused = fuser.fuse(BETWEEN[name], fallback="allow", mode=mode)
    assert compare(fused, *args) == ""
    assert fuser.stats().get("fallbacks", 0) == before
    if mode == "fused":
        assert fused.explain(*args).groups
        assert name.partition(".")[0] in str(fused.fallbacks[0]) or name in ("ufunc.at", "flat")


WRONG: dict[str, Any] = {
    "mask of another size": changing(lambda x, w, n, v, i, h: np.putmask(x, w > 0, 1)),
    "place beyond": changing(lambda x, w, n, v, i, h: np.put(x, [99], 1)),
    "nothing to place": changing(lambda x, w, n, v, i, h: np.place(x, x > -99, [])),
    "a vector's diagonal": changing(lambda x, w, n, v, i, h: np.fill_diagonal(v, 1)),
    "beyond the end": changing(lambda x, w, n, v, i, h: x.flat[99]),
    "a number too large": changing(lambda x, w, n, v, i, h: np.fill_diagonal(n, 300)),
    "not an array": lambda *args: np.put(args[0][0, 0], [0], 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    """The same kind of exception, and arguments as NumPy leaves them."""
    assert compare(fuser.fuse(WRONG[name], fallback="allow"), X, W, N, V, I, HOLES) == ""


def test_changes_are_seen_by_views_and_not_by_copies() -> None:
    """One memory, several arrays; a call that changes twice changes twice."""

    def work(x: Any, i: Any) -> Any:
        """Views made before and after."""
        y = x * 2
        row, copied = y[1], y.copy()
        np.add.at(y, i, 1)
        np.add.at(y, i, 1)
        np.fill_diagonal(y, 0)
        return row + 1, copied, y.T * 2, row

    assert_same(work, X, I, fallback="allow")


def test_elements_in_order_are_copied() -> None:
    """Numbers, and arrays of their own."""

    def work(x: Any) -> Any:
        """Reads."""
        part = x.flat[1:9:2]
        x.flat[3] = 77
        return x.flat[3], x.T.flat[2], part, x.flat[-1] + 1, len(x.flat)

    assert_same(work, X)
    assert_same(work, np.asfortranarray(W))
