"""Writes into arguments of which nothing is seen in the end are not made: values and bytes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser import comparing

ROWS, COLUMNS = 13, 29


def normalised(x: Any) -> None:
    """Two writes of all rows."""
    x -= x.mean(axis=1, keepdims=True)
    x /= x.std(axis=1, keepdims=True)


def by_out(x: Any, y: Any) -> Any:
    """Three writes of one array, by `out=`."""
    np.add(x, y, out=y)
    np.multiply(y, 0.5, y)
    return np.sqrt(np.abs(y), out=y).sum()


def inner_twice(x: Any) -> None:
    """The same inner part, twice."""
    x[1:-1, 1:-1] *= 0.5
    x[1:-1, 1:-1] += x[:-2, 1:-1]


def crossed(x: Any) -> None:
    """A part that is written again after one that overlaps it."""
    x[:5] = 1
    x[3:8] = 2
    x[:5] = 3


def edges(x: Any) -> None:
    """Nothing here is overwritten as a whole."""
    x[0], x[-1] = x[1], x[-2]
    x[:, 0], x[:, -1] = x[:, 1], x[:, -2]


def covered(x: Any) -> None:
    """One part lies in a later one, another in three that lie beside each other."""
    x[1:-1, 1:-1] *= 0.5
    x[2:5] += 1.0
    x[:, 0] = x[:, 1]
    x[:, 1:-1] *= 0.25
    x[:, -1] += 2.0


FULL = ROWS * COLUMNS
INNER = (ROWS - 2) * (COLUMNS - 2)
#: function, number of arrays, doubles written into arguments and returned
CASES: list[tuple[Callable[..., Any], int, int]] = [
    (normalised, 1, FULL),
    (by_out, 2, FULL + 1),
    (inner_twice, 1, INNER),
    (crossed, 1, (5 + 5) * COLUMNS),
    (edges, 1, 2 * COLUMNS + 2 * ROWS),
    (covered, 1, FULL),
]


@pytest.mark.parametrize(("function", "count", "stored"), CASES)
def test_only_what_is_seen_is_written(
    function: Callable[..., Any], count: int, stored: int
) -> None:
    """Values are NumPy's, first and later, and stores are those of the last writes alone."""
    rng = np.random.default_rng(3)
    fused = fuser.fuse(function, fallback="error")
    for _ in range(3):
        arrays = [rng.standard_normal((ROWS, COLUMNS)) for _ in range(count)]
        copies = comparing.independent(arrays)
        wanted, found = function(*arrays), fused(*copies)
        for one, other in zip([wanted, *arrays], [found, *copies], strict=True):
            if one is not None:
                np.testing.assert_allclose(other, one, rtol=1e-13)
    graph = fused.explain(*copies).graph
    sizes = {"n0": ROWS, "n1": COLUMNS}
    assert sum(np.prod([_length(d, sizes) for d in n.shape]) for n in graph.outputs) == stored


def _length(dim: Any, sizes: dict[str, int]) -> int:
    """A length in numbers."""
    from fuser.ir import dims

    return dims.evaluate(dim, sizes)
