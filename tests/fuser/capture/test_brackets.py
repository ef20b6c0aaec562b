"""np.mgrid, np.ogrid, np.r_ and np.c_ inside fused functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser


def planes(x: Any) -> Any:
    """Two coordinates of every element."""
    y, z = np.mgrid[: x.shape[0], : x.shape[1]]
    return x * y - z


def rows_and_columns(x: Any) -> Any:
    """About the middle."""
    h, w = x.shape
    y, z = np.ogrid[-(h // 2) : h - h // 2, 1 : w + 1 : 1]
    return np.where(y * y + z * z < 30, x, 0)


def one_axis(x: Any) -> Any:
    """Slices that are no tuple, in steps."""
    return x[:, ::2] * np.mgrid[: x.shape[1] : 2] + np.ogrid[: (x.shape[1] + 1) // 2]


def all_at_once(x: Any) -> Any:
    """The array of both coordinates, and one of which a length is plain."""
    return np.mgrid[: x.shape[0], : x.shape[1]] * x, np.mgrid[:3, : x.shape[0]]


def plain(x: Any) -> Any:
    """Nothing is traced here."""
    return x[0, 0] * np.mgrid[0:1:5j], x[0, 0] + np.ogrid[:3, :2][0]


def joined(x: Any) -> Any:
    """Arrays and numbers."""
    return np.r_[0, x[0], 1], np.c_[x[:, 0], x[:, 0]]


@pytest.mark.parametrize(
    "function", [planes, rows_and_columns, one_axis, all_at_once, plain, joined]
)
def test_they_are_part_of_the_graph(function: Callable[..., Any]) -> None:
    """For every length, with one trace."""
    fused = fuser.fuse(function, fallback="error")
    rng = np.random.default_rng(2)
    for shape in ((6, 9), (7, 4), (12, 30), (2, 3)):
        x = rng.standard_normal(shape)
        wanted, found = function(x), fused(x)
        pairs = zip(wanted, found, strict=True) if type(wanted) is tuple else [(wanted, found)]
        for one, other in pairs:
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(other, one, rtol=1e-13)
    assert fused.explain(x).fallbacks == []
