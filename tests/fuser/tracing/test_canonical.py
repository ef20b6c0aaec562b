"""Canonical graphs: the same function gives the same text whatever the lengths."""

from typing import Any

import numpy as np
import pytest

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


def _overwritten(x: Any) -> Any:
    """A constant over the whole result of a call."""
    r = np.sort(x, axis=-1)
    r[...] = 1.0
    return r


def _length(x: Any) -> Any:
    """Nothing of the call's result but its length."""
    r = np.unique(x)
    return np.zeros((r.shape[0], 2)) + 1, r.shape[0]


def _index(x: Any) -> Any:
    """In integers."""
    i = np.argsort(x)
    i[:] = 3
    return i * 2


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
@pytest.mark.parametrize("function", [_overwritten, _length, _index])
@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
@pytest.mark.parametrize("shape", [(5,), (0,)])
def test_lengths_that_only_a_call_tells(function: Any, mode: str, shape: tuple[int, ...]) -> None:
    """The call runs, though nothing else of its result is needed; outputs stay the same ones."""
    x = np.arange(np.prod(shape, dtype=int)) % 3.0
    wanted = function(x.copy())
    graph = fuser.trace(function, x)
    key = fuser.register_fusion(fuser.parse(str(graph)))
    assert fuser.generate_code(graph, backend="gpu")
    for _ in range(2):
        found = fuser.run_fusion(key, [x], mode)
        expected = wanted if isinstance(wanted, tuple) else (wanted,)
        for one, two in zip(found, expected, strict=True):
            assert one.dtype == np.asarray(two).dtype
            assert np.array_equal(one, two)
