"""Rows that become others before scheduling."""

from __future__ import annotations

import numpy as np
import pytest

import fuser
from fuser.decompose import decompose
from fuser.graph import Graph


def rows(graph: Graph) -> list[str]:
    """Names of the rows that a graph computes with."""
    return [node.op.name for node in graph.nodes if node.args]


@pytest.mark.parametrize(
    ("dtype", "exponent", "wanted"),
    [
        (np.float32, 0.5, ["sqrt"]),
        (np.float32, 1.5, ["power"]),
        (np.float16, 0.5, ["power"]),
        (np.int32, 3, ["power"]),
    ],
)
def test_powers_by_constants(dtype: type, exponent: float, wanted: list[str]) -> None:
    """A constant 0.5 is a square root in float32 and float64, as in NumPy's loops."""
    graph = fuser.trace(lambda x: np.power(x, dtype(exponent)), np.ones(3, dtype))
    assert rows(decompose(graph)) == wanted


def test_graphs_without_such_rows_are_left_alone() -> None:
    """The same object, not an equal one."""
    graph = fuser.trace(lambda x: x + 1, np.ones(3))
    assert decompose(graph) is graph
