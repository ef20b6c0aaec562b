"""Operations on joined arrays: one kernel, nothing stored, and what NumPy gives."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from tests.fuser.comparing import assert_same

CHANCE = np.random.default_rng(3)
X = CHANCE.integers(-5, 6, (6, 7)).astype(np.float32)
V = CHANCE.integers(-5, 6, 12).astype(np.float32)


def _laplace(u: Any) -> Any:
    """Periodic in both axes."""
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


def _life(g: Any) -> Any:
    """Conway's game, periodic: eight rolls along two axes."""
    moves = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    count = sum(np.roll(g, move, (0, 1)) for move in moves)
    return (count == 3) | ((g > 0) & (count == 2))


def _padded(x: Any) -> Any:
    """Zeros around."""
    p = np.pad(x, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


ONE_KERNEL: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "roll": (lambda x: x - np.roll(x, 1, axis=1), (X,)),
    "rolls": (lambda v: np.roll(v, 1) + np.roll(v, -2) - 2 * v, (V,)),
    "laplace": (_laplace, (X,)),
    "laplace of another order": (_laplace, (np.asfortranarray(X),)),
    "life": (_life, ((X > 0).astype(np.int8),)),
    "pad": (_padded, (X,)),
    "pad edge": (lambda v: np.diff(np.pad(v, 1, mode="edge")), (V,)),
    "bias": (lambda x, v: np.roll(x, 1, 0) * v[:7] + v[0], (X, V)),
    "columns": (lambda x: np.roll(x, 1, 0) * x[:, :1], (X,)),
    "costly": (lambda x: np.exp2(np.concatenate([x, x * 2, x[:1]])) * 2, (X,)),
    "sums of kept rows": (lambda x: (x - np.roll(x, 1, 0)).sum(1), (X,)),
    "transposed": (lambda x: np.roll(x, 1, 0).T * 2 + x.T, (X,)),
    "sliced": (lambda x: np.roll(x, 1, 0)[1:-1, 2:] + x[1:-1, 2:], (X,)),
    "row": (lambda x: np.roll(x, 1, 0)[:, 2] + x[:, 1], (X,)),
    "new axis": (lambda x: np.roll(x, 1, 0)[:, None] + x, (X,)),
    "several results": (lambda x: (np.roll(x, 1) + 1, np.roll(x, 1) * 2), (V,)),
    "mixed dtypes": (lambda x, n: np.roll(x, 1) + np.roll(n, -1), (V, np.arange(12))),
    "where": (lambda v: np.where(np.roll(v, 1) > v, v, np.roll(v, -1)), (V,)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_joined_values_are_used_in_the_same_kernel(name: str) -> None:
    """One kernel: nothing is stored between."""
    function, args = ONE_KERNEL[name]
    assert_same(function, *args)
    explanation = fuser.fuse(function).explain(*args)
    assert len(explanation.groups) == 1


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1, 5), (2, 2), (3, 2), (4, 4)])
@pytest.mark.parametrize("function", [_laplace, _life, _padded])
def test_short_axes_have_kernels_of_their_own(function: Any, shape: tuple[int, int]) -> None:
    """Where the ends of two rolls overlap."""
    numbers = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape) % 3
    assert_same(function, numbers)


def test_lengths_beyond_the_shortest_compile_nothing() -> None:
    """Other sizes are the same kernel."""
    fused = fuser.fuse(_laplace, fallback="error")
    fused(X)
    before = fuser.n_compiled_kernels()
    for size in range(2, 102, 9):
        fused(np.ones((size, size + 1), np.float32))
    assert fuser.n_compiled_kernels() == before


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.integers(0, 1), st.booleans()), min_size=1, max_size=4
    ),
    st.tuples(st.integers(0, 7), st.integers(0, 7)),
)
def test_sums_of_rolls(moves: list[tuple[int, int, bool]], shape: tuple[int, int]) -> None:
    """Random shifts along both axes, of the array and of what was computed so far."""

    def function(x: Any) -> Any:
        total = x * 2
        for shift, axis, again in moves:
            total = total + np.roll(total if again else x, shift, axis)
        return total

    numbers = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    assert_same(function, numbers)


def test_a_join_whose_one_element_is_repeated() -> None:
    """Written into beside nothing: its parts are not the parts of what it is broadcast to."""

    def program(x: Any, y: Any) -> Any:
        x[..., 2:, :-1] = 0
        return np.where(y > 0, y * 2, x), x - y

    for rows in (1, 7):
        assert_same(program, np.ones((1, 13)), np.arange(13.0 * rows).reshape(1, rows, 13) - 20)


def _cut_short(x: Any) -> Any:
    x[-1:] = 7
    return x[:-3] + x * 2


def _joined_short(x: Any) -> Any:
    joined = np.concatenate([x, x[:1]])
    return joined[:1] + joined, joined * joined[-1:]


@pytest.mark.parametrize("function", [_cut_short, _joined_short])
@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_an_operand_that_only_guards_know_to_be_one_long_is_repeated(
    function: Any, shape: tuple[int, ...]
) -> None:
    """Its length is an expression, as of the place before the last three."""
    fused = fuser.fuse(function, fallback="error")
    for first in (shape[0], shape[0] + 1 if function is _joined_short else shape[0]):
        x = np.arange(1.0, 1 + first * np.prod(shape[1:])).reshape(first, *shape[1:])
        found, wanted = fused(x.copy()), function(x.copy())
        for one, other in zip(np.atleast_1d(found), np.atleast_1d(wanted), strict=True):
            np.testing.assert_array_equal(one, other)


def _every_second(y: Any) -> Any:
    """Of an odd length, one more is replaced than is kept."""
    y[:, ::2] = 0
    return y + 1


def _every_third(y: Any) -> Any:
    """Two arrays with values put between their parts."""
    z = y * 2
    y[:, 1::3] = 7
    z[:, 1::3] = 5
    return y - z


@pytest.mark.parametrize("function", [_every_second, _every_third])
def test_parts_of_unequal_length_have_loops_of_their_own(function: Any) -> None:
    """Nothing is written behind a result whose length is no multiple of the step."""
    fused = fuser.fuse(function, fallback="error")
    for length in (1, 2, 3, 4, 5, 6, 7, 31, 33, 1001):
        room = np.full((1, length + 16), 77)
        y = np.arange(length)[None]
        given = y.copy()
        wanted = function(y)
        assert np.array_equal(fused(given, out=room[:, :length]), wanted)
        assert np.array_equal(given, y)
        assert (room[0, length:] == 77).all()
