"""NumPy functions that divide arrays, or join them."""

from typing import Any

import numpy as np
import pytest

from tests.fuser.comparing import assert_same

X = np.arange(12.0).reshape(4, 3)

CASES: dict[str, Any] = {
    "split": lambda x: [part * 2 for part in np.split(x, 2)],
    "split at places": lambda x: [part + 1 for part in np.split(x, [1, 3])],
    "stack": lambda x: np.stack([x, x * 2], axis=1),
    "joins": lambda x: (np.hstack([x, x + 1]), np.vstack([x, x[0]]), np.column_stack([x, x[:, 0]])),
    "joins in depth": lambda x: (np.dstack([x, x + 1]), np.dstack([x[0], x[1]]), np.dstack([x])),
    "diff of joined": lambda x: (
        np.diff(x, prepend=0), np.diff(x, axis=0, append=x[:1]), np.diff(x, 2, 0, x[:1] * 2, 7.0),
        np.diff(x[:, 0], prepend=x[0, 0]), np.diff(x > 4, prepend=False), np.diff(x, 0),
    ),
    "roll": lambda x: np.roll(x, (1, -1), axis=(0, 1)) - x,
    "roll of all": lambda x: np.roll(x, 2) * 3,
    "diff": lambda x: np.diff(x, n=2, axis=0),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_and_joins(name: str) -> None:
    """NumPy's results in NumPy's memory order."""
    assert_same(CASES[name], X)
    assert_same(CASES[name], np.asfortranarray(X), fallback="allow")
