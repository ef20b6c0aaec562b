"""Memory inside traces: views, writes, and what refuses them."""

from typing import Any

import numpy as np
import pytest

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
