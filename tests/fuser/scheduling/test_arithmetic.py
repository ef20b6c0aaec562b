"""Operations are counted as a person would count them."""

import numpy as np

import fuser
from fuser.traffic import ledger


def test_elements_times_operations() -> None:
    """Views count nothing, an exponential is elementary, a sum reads every element once."""

    def function(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (np.exp(x.T) * y + 1).sum(axis=1)

    x, y = np.ones((5, 3), np.float32), np.ones((3, 5), np.float32)
    fused = fuser.fuse(function)
    fused(x, y)
    ledger = fused.explain(x, y).ledger
    assert (ledger.operations, ledger.elementary) == (3 * 15, 15)


def test_a_broadcast_operand_counts_where_it_is_computed() -> None:
    """Doubling a row costs a row; adding it costs the matrix."""
    graph = fuser.trace(
        lambda x, r: x + r * 2, np.ones((4, 8), np.float32), np.ones(8, np.float32)
    )
    names = sorted({symbol for node in graph.parameters for symbol in map(str, node.shape)})
    sizes = dict(zip(names, (4, 8), strict=False))
    assert ledger.count(graph, sizes) == (8 + 32, 0)
