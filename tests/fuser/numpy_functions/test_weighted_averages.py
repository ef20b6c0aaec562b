"""Weighted averages and places among NaN: in one kernel, with NumPy's errors."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

X = np.arange(12.0).reshape(3, 4) / 3 - 1.5
W = np.abs(X) + 0.25
V = np.array([1.0, 2.0, 0.5, 3.0])
HOLES = np.where(X > 1.2, np.nan, X)
C = np.arange(24.0).reshape(2, 3, 4)
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "all": (lambda x, w: np.average(x, weights=w), (X, W)),
    "rows": (lambda x, w: np.average(x * 2, axis=1, weights=w) + 1, (X, W)),
    "vector": (lambda x, w: np.average(x, axis=-1, weights=w * 2), (X, V)),
    "list": (lambda x: np.average(x, axis=0, weights=[1, 2, 4]), (X,)),
    "kept": (lambda x, w: np.average(x, axis=0, weights=w, keepdims=True), (X, W)),
    "returned": (lambda x, w: np.average(x, axis=1, weights=w, returned=True), (X, V)),
    "returned scalar": (lambda x, w: np.average(x, weights=w, returned=True), (X, W)),
    "two axes": (lambda x, w: np.average(x, axis=(2, 0), weights=w), (C, W[:, :2][[0, 1, 2, 0]])),
    "axes in order": (lambda x, w: np.average(x, axis=(1, 2), weights=w), (C, W)),
    "integers": (lambda x, w: np.average(x, axis=1, weights=w), (X.astype(np.int32), V)),
    "integers both": (lambda x, w: np.average(x, weights=w), (np.arange(5), np.arange(5))),
    "truth values": (lambda x, w: np.average(x > 0, axis=0, weights=w), (X, W)),
    "float32": (lambda x, w: np.average(x, axis=1, weights=w), (X.astype("f4"), V.astype("f4"))),
    "float16": (lambda x, w: np.average(x, axis=1, weights=w), (X.astype("f2"), V.astype("f2"))),
    "NaN": (lambda x, w: np.average(x, axis=1, weights=w), (HOLES, V)),
    "no columns": (lambda x, w: np.average(x, axis=0, weights=w), (X[:, :0], W[:, :0])),
    "Fortran order": (lambda x, w: np.average(x, axis=2, weights=w), (np.asfortranarray(C), V)),
    "argmin": (lambda x: np.nanargmin(x * 2), (HOLES,)),
    "argmax of rows": (lambda x: np.nanargmax(x, axis=1) * 2, (HOLES[:2],)),
    "argmin kept": (lambda x: np.nanargmin(x, axis=0, keepdims=True), (HOLES,)),
    "argmax of integers": (lambda x: np.nanargmax(x, axis=0), (X.astype(np.int8),)),
    "infinities": (lambda x: np.nanargmin(x, axis=0), (np.where(X > 0, np.inf, HOLES),)),
}
ERRORS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "weights of sum 0": (CALLS["rows"][0], (X, W * [[1], [0], [1]])),
    "all weights of sum 0": (CALLS["all"][0], (X, X - X)),
    "no weights": (CALLS["all"][0], (X[:0], W[:0])),
    "weights of another shape": (CALLS["vector"][0], (X, V[:3])),
    "no axis": (CALLS["all"][0], (X, V)),
    "a weight": (CALLS["all"][0], (X, np.array(2.0))),
    "an axis twice": (CALLS["two axes"][0], (X, W)),
    "nothing but NaN": (CALLS["argmin"][0], (X * np.nan,)),
    "a row of NaN": (CALLS["argmax of rows"][0], (np.where(X > 0, np.nan, X),)),
    "nothing": (CALLS["argmin"][0], (X[:0],)),
}


@pytest.mark.parametrize("name", CALLS)
def test_they_are_what_numpy_gives(name: str) -> None:
    """In kernels alone."""
    function, args = CALLS[name]
    assert_same(function, *args, ulp=8)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_numpys(name: str) -> None:
    """Before and after calls that have none."""
    function, args = ERRORS[name]
    assert compare(function, *args, fallback="allow") == ""
    fused = fuser.fuse(function, fallback="allow")
    good = next(given for other, given in CALLS.values() if other is function)
    for given in (good, args, good, args):
        assert compare(fused, *given, ulp=8) == ""


def test_arguments_are_as_numpy_leaves_them() -> None:
    """Also where the call raises."""

    def halved(x: Any, w: Any) -> Any:
        x *= 0.5
        return np.average(x, weights=w, axis=1), np.nanargmax(x, axis=0)

    fused = fuser.fuse(halved, fallback="error")
    for given in ((X, V), (X, V * 0), (X * np.nan, V), (X, V)):
        assert compare(fused, *given, ulp=8) == ""
