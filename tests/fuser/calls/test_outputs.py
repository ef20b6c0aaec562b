"""From kernels' results to what the function returns."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls.running import check_target

X = np.arange(6.0).reshape(2, 3)


def several(x: Any) -> Any:
    """A value, a view of it, the argument, a view of that, a number, text."""
    y = x + 1
    return y, y.T, x, x[0], x.shape[0] * 2, "text", x.sum()


def test_every_kind_of_output() -> None:
    """Values in their kinds; views look at what they are views of."""
    fused = fuser.fuse(several, fallback="error")
    for _ in range(2):
        y, turned, x, row, number, text, total = fused(X)
        assert np.shares_memory(y, turned)
        assert x is X
        assert np.shares_memory(row, X)
        assert (number, text) == (4, "text")
        assert type(total) is np.float64


def test_targets_are_checked() -> None:
    """Shape and dtype."""
    with pytest.raises(fuser.ShapeError):
        check_target(np.ones(3), (4,), np.dtype("float64"))
    with pytest.raises(TypeError, match="dtype"):
        check_target(np.ones(3, np.int64), (3,), np.dtype("float64"))
