"""Rows that become others before scheduling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.ir.graph import Graph
from fuser.passes.decompose import decompose


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
    assert rows(decompose(graph)[0]) == wanted


def test_graphs_without_such_rows_are_left_alone() -> None:
    """The same object, not an equal one."""
    graph = fuser.trace(lambda x: x + 1, np.ones(3))
    assert decompose(graph) == (graph, ())
    assert decompose(graph)[0] is graph


def test_decompositions_are_told() -> None:
    """The equation and the line, in `explain`."""
    graph = fuser.trace(lambda x: x ** np.float32(0.5), np.ones(3, np.float32))
    ((table, equation, line),) = ((a.table, a.equation, a.line) for a in decompose(graph)[1])
    assert (table, equation) == ("DECOMPOSED", "x ** s -> sqrt(x) where s is 0.5")
    assert "test_decompose.py:" in line


def test_a_power_of_a_part_has_the_lengths_of_the_part() -> None:
    """Joins and guards spell one length in two ways."""

    def function(x: Any) -> Any:
        y = x * 2
        y[:-1] **= x[1]
        return y * 3

    x = np.arange(0.5, 5)
    np.testing.assert_array_equal(fuser.fuse(function, fallback="error")(x), function(x))
