"""Calls that have no fused form: how they are read back, run and checked."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import GraphError
from fuser.ir import opaque_calls


@pytest.mark.parametrize(
    "payload",
    [
        "numpy.sort(a0)",
        "0.0 numpy.sort",
        "0.0 numpy.sort(a0.size)",
        "0.0 os.system('true')",
        "0.0 numpy.nothing(a0)",
        "0.0 numpy.ndarray.nothing(a0)",
        "0.0 numpy.sort(a0",
        "0.0 numpy.sort(open('x'))",
    ],
)
def test_what_is_no_call_is_refused(payload: str) -> None:
    """Texts of graphs run NumPy's functions on literals, and nothing else."""
    with pytest.raises(GraphError):
        opaque_calls.read(payload)


def test_graphs_with_calls_read_back() -> None:
    """Text, and what the text runs, are the same."""
    def function(x: Any) -> Any:
        values, vectors = np.linalg.eigh(x + x.T)
        return values * 2, vectors[[0]] + 1

    x = np.arange(9.0).reshape(3, 3)
    graph = fuser.trace(function, x)
    again = fuser.parse(str(graph))
    assert str(again) == str(graph)
    found = fuser.run_fusion(fuser.register_fusion(again), [x], mode="fallback")
    for one, other in zip(found, function(x), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_result_of_another_kind_is_noticed() -> None:
    """Dtype, rank and known lengths are checked."""
    graph = fuser.trace(lambda x: np.sort(x * 2) + x, np.ones(3))
    (call,) = opaque_calls.calls_of(graph)
    numbers: dict[str, Any] = {"n0": 3}
    for wrong in (np.ones(4), np.ones((3, 1)), np.ones(3, np.float32)):
        with pytest.raises(opaque_calls.PatternMiss):
            opaque_calls.run(call, [wrong], dict(numbers))
    with pytest.raises(opaque_calls.CallFailed, match="axis"):
        opaque_calls.run(call, [np.float64(3)], numbers)
    (found,) = opaque_calls.run(call, [np.array([3.0, 1, 2])], numbers)
    assert found.tolist() == [1, 2, 3]
