"""Kernels read and write within arrays, whatever a graph's text says of lengths."""

import numpy as np
import pytest

import fuser
from fuser.executor import outside

BEYOND = {
    "part{0; 0; 5000} x0": "float64[5000]",
    "part{0; -5; n0} x0": "float64[n0 + 5]",
    "part{0; 5; n0} x0": "float64[n0 - 5]",
    "part{0; 0; n0 + 1; 3} x0": "float64[((n0 + 3) // 3)]",
    "broadcast_to{5000} x0": "float64[5000]",
    "reshape{5000} x0": "float64[5000]",
    "index{5} x0": "float64[]",
    "diagonal x1": "float64[n1]",
    "update{2:400} x0 %0": "float64[n0]",
    "update{-9:n0} x0 x0": "float64[n0]",
    "positions{n0 - 5}": "int64[n0 - 5]",
}


@pytest.mark.parametrize("row", BEYOND)
def test_what_lies_beyond_is_left_to_numpy(row: str) -> None:
    """No kernel runs for lengths that it does not fit."""
    kind = BEYOND[row]
    graph = fuser.parse(
        "graph(x0: float64[n0], x1: float64[n1, n2]):\n"
        "%0 = part{0; 0; 398} x0 : float64[398]\n"
        f"%1 = {row} : {kind}\n%2 = add %1 %1 : {kind}\nreturn %2"
    )
    assert outside(graph, {"n0": 3, "n1": 70, "n2": 2})
    with pytest.raises(fuser.FusionError, match="shape-pattern"):
        fuser.debug_launch_graph(graph, [np.arange(3.0), np.ones((70, 2))])


def test_what_was_traced_fits() -> None:
    """Slices, writes, steps, reshapes and empty arrays, for lengths that their guards allow."""
    def function(x: np.ndarray) -> object:
        y = x.copy()
        y[1:3] = x[:2] + 1
        y[::2] *= 2
        return y[:-1].reshape(-1, 1) + x[1:], np.broadcast_to(x, (2, 7)), x[5:2].sum(), x[6]

    graph = fuser.trace(function, np.arange(7.0))
    assert not outside(graph, {"n0": 7})
    found = fuser.debug_launch_graph(graph, [np.arange(7.0)])
    for one, other in zip(found, function(np.arange(7.0)), strict=True):  # type: ignore[call-overload]
        np.testing.assert_array_equal(one, other)
