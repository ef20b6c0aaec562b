"""Triangles of matrices and coordinates of grids: fused, and NumPy's in every respect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

X = np.arange(24, dtype=np.float32).reshape(6, 4) - 9
X[1, 2], X[3, 0], X[0, 3] = np.nan, -np.inf, -0.0

MATRICES: dict[str, Any] = {
    "tril": lambda x: np.tril(x),
    "triu": lambda x: np.triu(x * 2, 1) + np.tril(x, -2),
    "far": lambda x: (np.tril(x, 9), np.triu(x, -9), np.triu(x, 9)),
    "of a view": lambda x: np.triu(x.T[:, None]) * 2,
    "of integers": lambda x: np.tril(np.isnan(x)) | np.triu(x > 2, k=1),
    "of a row": lambda x: (np.tril(x[0]), np.triu(x[:, 0], 1)),
    "causal": lambda x: np.where(np.tril(np.ones_like(x)) == 0, -1.0, x),
    "meshgrid": lambda x: (lambda a, b: np.hypot(a, b) + x.T)(*np.meshgrid(x[:, 0], x[0] + 1)),
    "meshgrid alone": lambda x: np.meshgrid(x[:, 1], x),
    "meshgrid ij": lambda x: np.meshgrid(x[:, 1] * 2, x[0], x[0, 1:], indexing="ij"),
    "meshgrid xy": lambda x: np.meshgrid(x[:, 1] * 2, x[0], x[0, 1:]),
    "meshgrid sparse": lambda x: np.meshgrid(x[:, 1] * 2, x[0], 3.0, sparse=True),
    "meshgrid of one": lambda x: np.meshgrid(x[:, 0]),
    "meshgrid of places": lambda x: sum(
        np.meshgrid(np.arange(x.shape[1]), np.arange(x.shape[0]), copy=False)
    ) * x,
}
#: Those that take no row of the matrix.
EMPTY = ("tril", "triu", "far", "of a view", "of integers", "causal", "meshgrid of places")


@pytest.mark.parametrize("name", MATRICES)
def test_of_every_size_and_order(name: str) -> None:
    """No fallback; empty, single, strided and in Fortran order."""
    sizes = (X, X[:1], X[:, :1], np.asfortranarray(X), X[::-2, ::-1])
    for x in (*sizes, X[:0], X[:, :0]) if name in EMPTY else sizes:
        assert_same(MATRICES[name], x)


def test_one_kernel_and_no_more_bytes() -> None:
    """Masks of triangles and whole coordinates are never stored."""
    x = np.ones((5, 7))
    explained = fuser.fuse(lambda x: np.tril(x) * 2 + np.meshgrid(x[0], x[:, 0])[0]).explain(x)
    assert len(explained.groups) == 1
    assert explained.ledger.planned_bytes == explained.ledger.least_bytes


@pytest.mark.parametrize("mode", ["ax", 3])
def test_a_wrong_indexing_is_numpys_error(mode: Any) -> None:
    """A ValueError."""
    assert_same(lambda x: np.meshgrid(x[0], x[1], indexing=mode), X)


def test_a_traced_diagonal_is_left_to_numpy() -> None:
    """Which is right."""
    assert_same(lambda x, k: np.tril(x, k), X, 1, fallback="allow")
