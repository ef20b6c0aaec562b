"""NumPy functions that give views."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

X = np.arange(12.0).reshape(3, 4)

CASES: dict[str, Any] = {
    "moveaxis": lambda x: np.moveaxis(x[None], [0, 1], [-1, 0]) * 2,
    "expand_dims": lambda x: np.expand_dims(x, (0, 2)) + 1,
    "squeeze": lambda x: np.squeeze(x[:1], 0) + 1,
    "flips": lambda x: (np.flip(x, 1) + 1, np.flipud(x) * 2, np.fliplr(x) - 1),
    "broadcast": lambda x: sum(np.broadcast_arrays(x, x[0])) + np.broadcast_to(x[1], x.shape),
    "reshape": lambda x: np.ravel(x) * 2 + np.reshape(x, (-1,)),
}


@pytest.mark.parametrize("name", CASES)
def test_views_are_index_arithmetic(name: str) -> None:
    """NumPy's results, and nothing stored."""
    assert_same(CASES[name], X)
    assert not fuser.fuse(CASES[name]).explain(X).realised
