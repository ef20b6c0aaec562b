"""Functions that NumPy's own code traces: as kernels, for all lengths, with NumPy's errors."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.numpy_functions.as_written import FUNCTIONS
from tests.fuser.comparing import assert_same

X = np.arange(-20.0, 28.0).reshape(6, 8)
CALLS: dict[str, Any] = {
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
    "append": lambda x: np.append(x, x * 2, axis=1),
    "dstack": lambda x: np.dstack([x, x * 2]),
    "hstack": lambda x: np.hstack([x, x * 2]),
    "vstack": lambda x: np.vstack([x, x * 2]),
    "unstack": lambda x: np.unstack(x[:, :3] * 2, axis=1),
}


def _call(function: Any) -> Any:
    """A function of one matrix that calls it."""
    name = function.__name__
    if name in ("ndim", "size"):
        return lambda x: x * function(x)
    if name == "shape":
        return lambda x: x * function(x)[0]
    if name == "outer" and function is not np.outer:
        return lambda x: function(x[0], x[1])
    return CALLS.get(name, function)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
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
