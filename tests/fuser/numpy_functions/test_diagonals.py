"""Diagonals: views of what they are taken from, and fused with what stands around them."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

CHANCE = np.random.default_rng(4)
Q = CHANCE.integers(-9, 9, (5, 5)).astype(np.float32)
X = CHANCE.integers(-9, 9, (4, 6)).astype(np.float64)
C = CHANCE.integers(-9, 9, (3, 2, 4)).astype(np.int16)
V = CHANCE.integers(-9, 9, 5).astype(np.float32)

FUSED: dict[str, Any] = {
    "of arguments": lambda q, x, c, v: (
        np.diagonal(q), x.diagonal(2), np.diag(x, -1), c.diagonal(),
    ),
    "of what is computed": lambda q, x, c, v: (np.diag(q * v) + v, np.diagonal(x + 1, 1) * 2),
    "of other axes": lambda q, x, c, v: (
        np.diagonal(c, 0, 1, 2), c.diagonal(1, 2, 0) * 2, np.diagonal(c + 1, 0, -1, -3),
        np.linalg.diagonal(c, offset=-1),
    ),
    "beyond the corners": lambda q, x, c, v: (x.diagonal(6), x.diagonal(-5) + 1, np.trace(x, 9)),
    "of nothing": lambda q, x, c, v: (np.diagonal(x[:0]) + 1, np.trace(q[:0]), np.diag(v[:0])),
    "traces": lambda q, x, c, v: (
        np.trace(q), x.trace(1), np.trace(c), c.trace(0, 0, 2), np.trace(q, dtype=np.float64),
        np.linalg.trace(c, offset=1), (q - np.trace(q)) / 2,
    ),
    "matrices that have them": lambda q, x, c, v: (
        np.diag(v), np.diag(v, 2), np.diag(v, -1), np.diagflat(x, 1), np.diag(v > 0),
        np.diag(c[0, 0]),
    ),
    "parts of matrices": lambda q, x, c, v: (q - np.diag(np.diag(q)), q + np.diag(v * 2)),
    "einsum": lambda q, x, c, v: (
        np.einsum("ii", q), np.einsum("ij->ji", x) * 2, np.einsum("ij->i", x),
        np.einsum("ij->", x), np.einsum("iij->j", q[:, :, None]), np.einsum("...ii->...", q[None]),
        np.einsum("ijk->jk", c), np.einsum("ijk->kij", c), np.einsum("i->", v[:0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_diagonals_are_fused(name: str) -> None:
    """Values, dtypes, shapes and memory order."""
    assert_same(FUSED[name], Q, X, C, V)


@pytest.mark.parametrize("name", FUSED)
def test_diagonals_of_every_layout(name: str) -> None:
    """Fortran order, steps and negative strides."""
    for turn in (np.asfortranarray, lambda a: np.repeat(a, 2, 0)[::-2]):
        assert_same(FUSED[name], *[turn(a) for a in (Q, X, C, V)])


def test_a_diagonal_of_an_argument_is_a_view_that_is_not_written_into() -> None:
    """As NumPy's; so is one of a result."""
    x = X.copy()
    seen = fuser.fuse(lambda x: np.diagonal(x, 1), fallback="error")(x)
    assert np.shares_memory(seen, x)
    assert not seen.flags.writeable

    def write(x: Any) -> Any:
        """Into a diagonal."""
        y = x * 2
        np.diag(y)[1:] = 0
        return y

    assert_same(write, x, fallback="allow")
    with pytest.raises(ValueError, match="read-only"):
        fuser.fuse(write, fallback="allow")(x)


def test_an_einsum_that_only_orders_axes_is_a_view() -> None:
    """It shows what is written into its operand, and is written into."""

    def swapped(x: Any) -> Any:
        """Both ways."""
        y = x * 2
        turned = np.einsum("ij->ji", y)
        turned[0] = 7
        y[1] = 5
        return y, turned + 0

    assert_same(swapped, X)


@pytest.mark.parametrize("shape", [(3, 3), (9, 9), (4, 7), (7, 4), (1, 5), (1, 1), (0, 3), (2, 65)])
def test_other_lengths_are_served_by_the_same_function(shape: tuple[int, int]) -> None:
    """Wide, tall and square, one after another; the second call of each takes a shorter way."""
    x = np.arange(float(shape[0] * shape[1])).reshape(shape)
    for _ in range(2):
        found = KINDS(x)
        assert found[0].tolist() == (np.diagonal(x) * 2).tolist()
        assert found[1] == np.trace(x, 1)


KINDS = fuser.fuse(lambda x: (np.diagonal(x) * 2, np.trace(x, 1)), fallback="error")


def test_square_matrices_share_kernels_and_planned_bytes_are_those_of_the_diagonal() -> None:
    """Lengths compile nothing; only the diagonal is read."""
    work = fuser.fuse(lambda x: np.diag(x) * 2.0, fallback="error")
    work(np.ones((4, 4)))
    before = fuser.n_compiled_kernels()
    for size in (3, 9, 64):
        assert work(np.eye(size)).tolist() == [2.0] * size
    assert fuser.n_compiled_kernels() == before
    assert work.explain(np.ones((100, 100))).ledger.planned_bytes == 2 * 100 * 8


WRONG: dict[str, Any] = {
    "of a vector": lambda q, v: np.diagonal(v),
    "of one axis": lambda q, v: np.diagonal(q, 0, 1, 1),
    "of no axis": lambda q, v: np.diagonal(q, 0, 0, 2),
    "of three axes": lambda q, v: np.diag(q[None]),
    "of unlike lengths": lambda q, v: np.einsum("ii", q[:4]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    """The same kind of exception."""
    assert_same(WRONG[name], Q, V, fallback="allow")


def test_a_matrix_of_a_diagonal_reads_one_value_a_row() -> None:
    """What lies on the diagonal is read along rows, not from another cache line for each column."""
    fused = fuser.fuse(lambda a: a - np.diag(np.diag(a)))
    a = np.random.default_rng(2).random((30, 30))
    assert np.array_equal(fused(a), a - np.diag(np.diag(a)))
    assert "index{:, None} %7 : float64[n0, 1]" in str(fused.explain(a).graph)
