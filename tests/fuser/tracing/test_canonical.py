"""Canonical graphs: the same function gives the same text whatever the lengths."""

from typing import Any

import numpy as np

import fuser


def stretched(x: Any, y: Any) -> Any:
    """Lengths that are found equal while tracing."""
    return x[1:] - x[:-1] + y


def test_symbols_are_named_in_order_and_merged() -> None:
    """y's length is x's, less one."""
    graph = fuser.trace(stretched, np.ones(8), np.ones(7))
    header = "graph(x0: float64[n0], x1: float64[max(n0 - 1, 0)]):"
    assert str(graph).splitlines()[0] == header
    assert graph == fuser.trace(stretched, np.ones(80), np.ones(79))


def test_a_whole_graph_has_what_is_written() -> None:
    """Results first, then arguments after writes, as whole arrays."""
    def function(x: Any) -> Any:
        x[0] = 1
        x += 1
        return x.sum()

    graph = fuser.trace(function, np.ones(4))
    assert [len(node.shape) for node in graph.outputs] == [0, 1]
