"""Functions that NumPy's own code traces: as kernels, for all lengths, with NumPy's errors."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.numpy_functions.as_written import FUNCTIONS
from tests.fuser.comparing import assert_same

X = np.arange(-20.0, 28.0).reshape(6, 8)
CALLS: dict[str, Any] = {
    "astype": lambda x: np.astype(x, np.float32) * 2,
    "apply_over_axes": lambda x: np.apply_over_axes(np.sum, x, [0, 1]),
    "column_stack": lambda x: np.column_stack([x[:, 0], x]),
    "diagonal": lambda x: np.linalg.diagonal(x) * 2,
    "dsplit": lambda x: [part * 2 for part in np.dsplit(x.reshape(-1, 4, 2), 2)],
    "expand_dims": lambda x: np.expand_dims(x, (0, -1)) + 1,
    "isclose": lambda x: np.isclose(x, x * 1.00001, equal_nan=True),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1) * 2,
    "cross": lambda x: np.linalg.cross(x[:, :3], x[:, 5:]),
    "outer": lambda x: np.outer(x, x[0]),
    "polyval": lambda x: np.polyval([1.0, 2.0, 3.0], x),
    "rollaxis": lambda x: np.rollaxis(x, 1) * 2,
    "tensordot": lambda x: np.linalg.tensordot(x, x, axes=2),
    "hsplit": lambda x: [part * 2 for part in np.hsplit(x, 2)],
    "vsplit": lambda x: [part * 2 for part in np.vsplit(x, 2)],
    "reshape": lambda x: np.reshape(x, (-1, 4)) * 2,
    "swapaxes": lambda x: np.swapaxes(x, 0, 1) * 2,
    "append": lambda x: np.append(x, x * 2, axis=1),
    "dstack": lambda x: np.dstack([x, x * 2]),
    "hstack": lambda x: np.hstack([x, x * 2]),
    "vstack": lambda x: np.vstack([x, x * 2]),
    "split": lambda x: [part * 2 for part in np.split(x, 2, axis=1)],
    "gradient": lambda x: np.gradient(x * x, np.arange(8.0) ** 2, axis=1, edge_order=2),
    "select": lambda x: np.select([x < 0, x > 5], [x, x * 2], 1.0),
    "unstack": lambda x: np.unstack(x[:, :3] * 2, axis=1),
}
#: They answer with a truth value, which decides: `tests.fuser.capture.test_decisions` has them.
DECIDING = (np.allclose, np.array_equal)


def _call(function: Any) -> Any:
    """A function of one matrix that calls it."""
    name = function.__name__
    if name in ("ndim", "size", "iscomplexobj", "isrealobj"):
        return lambda x: x * function(x)
    if name == "shape":
        return lambda x: x * function(x)[0]
    if name == "outer" and function is not np.outer:
        return lambda x: function(x[0], x[1])
    return CALLS.get(name, function)


@pytest.mark.parametrize(
    "function", [each for each in FUNCTIONS if each not in DECIDING], ids=lambda each: each.__name__
)
def test_numpys_own_code_is_fused(function: Any) -> None:
    """One trace serves other lengths, and no call is left to NumPy."""
    fused = fuser.fuse(_call(function), fallback="error")
    assert_same(fused, X, ulp=2)
    assert_same(fused, X[1:5] + 1, ulp=2)
    assert not fused.explain(X).graph_breaks
    assert sum(len(each.found) for each in fused._signatures.values()) == 1


def test_numpys_errors_are_numpys() -> None:
    """With its words."""
    for function, words in (
        (lambda x: np.hsplit(x.sum(), 2), "hsplit only works on arrays of 1 or more dimensions"),
        (lambda x: np.expand_dims(x, (0, 0)), "repeated axis"),
        (lambda x: np.linalg.outer(x, x), "one-dimensional"),
    ):
        with pytest.raises(ValueError, match=words):
            fuser.fuse(function, fallback="allow")(X)


CHANCE = np.random.default_rng(6)
ROWS = CHANCE.integers(-9, 9, (4, 6)).astype(np.float32)
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
def test_forms_of_calls_are_fused(name: str) -> None:
    """Values, dtypes, shapes and memory order, whatever the arguments' layout."""
    assert_same(FUSED[name], ROWS, C, V, ulp=2)
    assert_same(FUSED[name], np.asfortranarray(ROWS), C[::-1, ::-1, ::-1], V[::-1], ulp=2)


WRONG: dict[str, Any] = {
    "mT": lambda x, v: v.mT,
    "outer": lambda x, v: np.linalg.outer(x, v),
    "dsplit": lambda x, v: np.dsplit(x, 2),
    "split": lambda x: [part * 2 for part in np.split(x, 2, axis=1)],
    "gradient": lambda x: np.gradient(x * x, np.arange(8.0) ** 2, axis=1, edge_order=2),
    "select": lambda x: np.select([x < 0, x > 5], [x, x * 2], 1.0),
    "unstack": lambda x, v: np.unstack(v[0]),
    "rollaxis": lambda x, v: np.rollaxis(x, 0, 5),
    "reshape": lambda x, v: x.reshape(4, 7, order="F"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    """The same kind of exception."""
    assert_same(WRONG[name], ROWS, V, fallback="allow")


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_a_reshape_in_fortran_order_is_a_view_where_numpys_is(layout: Any) -> None:
    """Of an argument that lies so."""
    import fuser

    x = layout(ROWS)
    found = fuser.fuse(lambda x: x.reshape(6, 4, order="F"), fallback="error")(x)
    assert np.shares_memory(found, x) == np.shares_memory(x.reshape(6, 4, order="F"), x)
