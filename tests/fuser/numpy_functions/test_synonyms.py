"""Functions that are others by another name: fused, and equal to NumPy's."""

from typing import Any

import numpy as np
import pytest

from tests.fuser.comparing import assert_same

CHANCE = np.random.default_rng(6)
X = CHANCE.integers(-9, 9, (4, 6)).astype(np.float32)
C = CHANCE.integers(-9, 9, (2, 3, 4)).astype(np.float64)
V = np.array([3, -0.0, 0.0, -4, np.nan, np.inf], np.float32)

FUSED: dict[str, Any] = {
    "matrix transposes": lambda x, c, v: (
        np.matrix_transpose(x), x.mT + 1, c.mT, np.linalg.matrix_transpose(c) * 2,
    ),
    "linalg": lambda x, c, v: (
        np.linalg.outer(v, v), np.linalg.cross(x[:, :3], x[:, 3:]), np.linalg.vecdot(x, x),
        np.linalg.vecdot(c, c, axis=0),
    ),
    "norms": lambda x, c, v: (
        np.linalg.vector_norm(x * 0 + 2), np.linalg.vector_norm(c * 0, axis=0, ord=1),
        np.linalg.vector_norm(c * 0, keepdims=True), np.linalg.matrix_norm(c * 0),
        np.linalg.vector_norm(c, axis=-1, ord=np.inf, keepdims=True),
    ),
    "astype": lambda x, c, v: (np.astype(x, np.float64), np.astype(x * 2, np.float32, copy=False)),
    "parts": lambda x, c, v: (np.dsplit(c, 2), np.unstack(x[:3]), np.unstack(c, axis=-1)),
    "rollaxis": lambda x, c, v: (
        np.rollaxis(x, 1), np.rollaxis(c, 2, 1) * 2, np.rollaxis(c, 0, 3), np.rollaxis(c, -1, -2),
    ),
    "real numbers": lambda x, c, v: (
        np.angle(v), np.angle(x, deg=True), np.angle(v[0]), np.isreal(x.T), np.iscomplex(c.T),
        np.isreal(v[0]), np.iscomplex(v[0]), np.real_if_close(x), np.real_if_close(v[3]),
    ),
    "copies in an order": lambda x, c, v: (
        x.copy("F"), np.copy(c, order="F"), np.copy(x.T, order="C"),
        x.astype(np.float64, order="F"),
        (c * 2).astype(np.float32, order="C"), x.sum(0).copy("F"), v[0].copy(),
    ),
    "Fortran order": lambda x, c, v: (
        x.reshape(6, 4, order="F"), x.reshape(2, -1, order="F") * 2, np.ravel(c, order="F"),
        x.ravel("F"), c.flatten("F"), v.reshape((-1, 1), order="F"), x.T.ravel("F"),
        (c + 1).reshape(4, 6, order="F"), x[:0].reshape(0, 2, 3, order="F"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_other_names_are_fused(name: str) -> None:
    """Values, dtypes, shapes and memory order, whatever the arguments' layout."""
    assert_same(FUSED[name], X, C, V, ulp=2)
    assert_same(FUSED[name], np.asfortranarray(X), C[::-1, ::-1, ::-1], V[::-1], ulp=2)


WRONG: dict[str, Any] = {
    "mT": lambda x, v: v.mT,
    "outer": lambda x, v: np.linalg.outer(x, v),
    "dsplit": lambda x, v: np.dsplit(x, 2),
    "unstack": lambda x, v: np.unstack(v[0]),
    "rollaxis": lambda x, v: np.rollaxis(x, 0, 5),
    "reshape": lambda x, v: x.reshape(4, 7, order="F"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    """The same kind of exception."""
    assert_same(WRONG[name], X, V, fallback="allow")


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_a_reshape_in_fortran_order_is_a_view_where_numpys_is(layout: Any) -> None:
    """Of an argument that lies so."""
    import fuser

    x = layout(X)
    found = fuser.fuse(lambda x: x.reshape(6, 4, order="F"), fallback="error")(x)
    assert np.shares_memory(found, x) == np.shares_memory(x.reshape(6, 4, order="F"), x)
