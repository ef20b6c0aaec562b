"""Memory inside traces: views, writes, and what refuses them."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.errors import Unsupported
from fuser.extern_tracing import Replay
from fuser.tracer import Tracing


def array(*shape: int) -> Any:
    """A stand-in for an argument of this shape."""
    return Tracing(replay=Replay()).add_array(np.ones(shape), 0)


def test_views_share_memory() -> None:
    """A write through one is seen through the other."""
    x = array(4, 5).copy()
    view = x[1:-1]
    before = x.node
    view[0] = 3
    assert x.node is not before
    assert x.node.op.name == "update"
    assert x.storage is view.storage


def test_shared_memory_refuses_writes() -> None:
    """A function between kernels may have given a view of it."""
    x = array(4).copy()
    x.storage.shared = True
    with pytest.raises(Unsupported, match="write-into-view"):
        x[0] = 1


def test_lengths_stay_symbolic() -> None:
    """Shape, size and bytes are expressions."""
    x = array(4, 5)
    assert repr(x.shape[0] * 2) == "<traced int n0 * 2>"
    assert repr(x.size) == "<traced int n0*n1>"
    assert (x.ndim, x.itemsize) == (2, 8)


def test_an_index_beyond_an_axis_raises_where_its_value_is_not_used() -> None:
    """As NumPy raises; in later calls too, and behind functions between kernels."""

    def unused(x: Any) -> Any:
        x[2]
        return x + 1

    def overwritten(x: Any) -> Any:
        y = np.sort(x)
        z = y[-3] * x
        z = z.shape[0]
        return y * 2 + z * 0

    for function in (unused, overwritten):
        fused = fuser.fuse(function, fallback="allow")
        for n in (5, 7, 3, 2, 5, 2, 1):
            x = np.arange(1.0 * n)
            if n > 2:
                assert np.array_equal(fused(x), function(x))
            else:
                with pytest.raises(IndexError):
                    fused(x)


def test_many_lengths_with_an_index_are_few_specialisations() -> None:
    """That axes are long enough decides nothing but whether NumPy raises."""
    fused = fuser.fuse(lambda x, y: x[0] + y[..., 1] * x, fallback="error")
    for shape in [(3, 3), (4, 3), (1, 3), (3, 2), (9, 2), (1, 9), (2, 7), (8, 8), (7, 3), (1, 2)]:
        for other in (shape, (1, shape[1]), shape[1:]):
            x, y = np.ones(shape), np.arange(1.0 * np.prod(other)).reshape(other)
            plain = fused.__wrapped__
            if y.ndim == 1 or shape[0] in (1, shape[1]) or other[0] == 1:
                assert np.array_equal(fused(x, y), plain(x, y))
