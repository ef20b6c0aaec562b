"""Lists with traced values in them: fused, and the arrays that NumPy makes of them."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

CHANCE = np.random.default_rng(8)
V = CHANCE.integers(-9, 9, 7).astype(np.float32)
W = CHANCE.integers(-9, 9, 7).astype(np.float64)
X = CHANCE.integers(-9, 9, (4, 7)).astype(np.float32)[:, ::-1]
N = np.arange(-3, 4, dtype=np.int8)

FUSED: dict[str, Any] = {
    "numbers as an operand": lambda v, w, x, n: (
        v + [1, 2, 3, 4, 5, 6, 7], np.add(x, [0.5]), n * (2,),  # noqa: RUF005 - a sum
    ),
    "a list on the left": lambda v, w, x, n: ([1, 2, 3, 4, 5, 6, 7] - v, (1,) / w),
    "traced in an operand": lambda v, w, x, n: (v * [v[0]], np.add(v, [w[0], 2, 3, 4, 5, 6, True])),
    "a list of lists": lambda v, w, x, n: np.array([[v[0], 0.0], [0, -v[1]]]),
    "promoted as NumPy does": lambda v, w, x, n: (
        np.array([v[0], 1.0]), np.array([n[0], 1]), np.array([v[0], True]), np.array([n[0], v[0]]),
        np.array([n[0], np.uint8(3)]), np.asarray([v[0], v[1]]), np.array([n[0] > 0, False]),
    ),
    "dtype=": lambda v, w, x, n: (
        np.array([v[0], 1.5], dtype=np.float16), np.array([w, v], dtype=np.float32),
        np.asarray([n[0], 2.5], dtype=np.int64),
    ),
    "rows": lambda v, w, x, n: (
        np.array([v, w]), np.array([x.T, x.T]) * 2, np.array([v[:0], w[:0]]),
    ),
    "rows of numbers among them": lambda v, w, x, n: np.array([v, [1, 2, 3, 4, 5, 6, 7], w, w * 0]),
    "zero-dimensional arrays": lambda v, w, x, n: np.array([v.sum(), np.asarray(v.max()), 0]),
    "functions of lists": lambda v, w, x, n: (
        np.sum([v, w], axis=0), np.mean((v[0], v[1])), np.linalg.norm([v[0], w[1], 2]),
        np.max([v[0], v[1], 0.5]), np.dot([v[0], v[1]], w[:2]), np.where(v > 0, [v[0]] * 7, 0),
        np.stack([v, [1, 2, 3, 4, 5, 6, 7]], axis=-1), np.concatenate([[v[0]], v[1:], [0.5]]),
        np.clip(v, [v[0]] * 7, 2), np.maximum([v[0], 1], w[:2]),
    ),
    "written": lambda v, w, x, n: _written(x),
    "np.full": lambda v, w, x, n: (
        np.full(x.shape, v[0]), np.full((3, 7), w), np.full(x.shape, x, dtype=np.int32),
    ),
    "np.r_ and np.c_": lambda v, w, x, n: (
        np.r_[v, w], np.r_[0, v], np.r_[n, 0.5], np.c_[v, w], np.c_[x.T, v],
    ),
}  # fmt: skip


def _written(x: Any) -> Any:
    y = x * 2
    y[0] = [x[0, 0], 1, 2, 3, 4, 5, 6]
    y[:, 1] = (x[0, 0],) * 4
    return y


@pytest.mark.parametrize("name", FUSED)
def test_lists_are_what_numpy_makes_of_them(name: str) -> None:
    """Values, dtypes, shapes and memory order, with no function run by NumPy."""
    assert_same(FUSED[name], V, W, X, N)


def test_arguments_in_lists_stay_symbolic() -> None:
    """Other numbers, and other lengths, compile nothing."""

    @fuser.fuse(fallback="error")
    def mix(x: Any, a: Any, b: Any) -> Any:
        """A pair of weights."""
        return x * np.array([a, b]), np.sum([x[0], x[1]], axis=0) * 2

    mix(np.ones((5, 2)), 0.5, 1.5)
    before = fuser.n_compiled_kernels()
    for size in range(2, 15):
        x = np.arange(size * 2.0).reshape(size, 2)
        found = mix(x, size / 3, 0.25)
        assert found[0].tolist() == (x * np.array([size / 3, 0.25])).tolist()
    assert fuser.n_compiled_kernels() == before


LEFT: dict[str, Any] = {
    "parts of unlike shapes": lambda v, x: np.array([[v[0], v[1]], [v[2]]]),
    "unlike ranks": lambda v, x: np.array([v, x]),
    "text": lambda v, x: np.array([v[0], "a"]),
    "too large an integer": lambda v, x: np.array([v[0], 2**70]),
    "many parts": lambda v, x: np.array([v[place % 7] for place in range(100)]),
    "rows and slices": lambda v, x: np.r_[v, 0:3],
    "too few": lambda v, x: _too_few(x),
}


def _too_few(x: Any) -> Any:
    y = x * 2
    y[0] = [x[0, 0], 1]
    return y


@pytest.mark.parametrize("name", LEFT)
def test_other_lists_are_numpys(name: str) -> None:
    """What they are, or the exception that they lead to."""
    assert compare(LEFT[name], V, X, fallback="allow") == ""


def test_functions_keep_their_identity() -> None:
    """Code that asks which function it was given is answered as without tracing."""

    def reduced(x: Any, how: Any = np.sum) -> Any:
        """A sum apart from everything else."""
        return how(x) * 2 if how is np.sum else how(x)

    def named(x: Any, how: Any = np.mean) -> Any:
        """By a table."""
        return {np.sum: 1.0, np.mean: 3.0}[how] * how(x)

    assert_same(reduced, V)
    assert_same(lambda x: reduced(x, np.max), V)
    assert_same(named, V)


REDUCED: dict[str, Any] = {
    "choices": lambda v, w: (np.logical_or.reduce([v > 1, w < -1]), np.logical_and.reduce([v])),
    "values": lambda v, w: (np.maximum.reduce([v, w, v * 2]), np.add.reduce((v, w), axis=None)),
    "computed lists": lambda v, w: np.logical_and.reduce([v > k for k in range(3)], keepdims=True),
    "arrays": lambda v, w: (np.add.reduce(v), np.multiply.reduce(np.stack([v, w]))),
    "a ufunc by name": lambda v, w: (lambda f: (f.reduce([v, w]), f(v, w), f.nin))(np.minimum),
}


@pytest.mark.parametrize("name", REDUCED)
def test_ufuncs_reduce_lists(name: str) -> None:
    """As NumPy reduces the arrays that it makes of them."""
    assert_same(REDUCED[name], V, W, fallback="error")
