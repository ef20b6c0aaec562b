"""What is computed of transposed memory as one axis is computed in that memory's own shape."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.passes import reshapes
from tests.fuser.comparing import assert_same

X = np.arange(60.0).reshape(3, 20) / 7


def step(x: Any, w: Any) -> Any:
    """As in a Fourier transform by stages: a permutation, factors, a call between kernels."""
    y = x.reshape(3, 4, 5).transpose(1, 0, 2).reshape(-1) * w.reshape(-1) + 1
    return np.sort(np.reshape(y, (4, 15)), axis=0)


def whole(x: Any, w: Any) -> Any:
    """No call between kernels: nothing is stored in another shape."""
    return x.T.reshape(-1) * w.reshape(-1)


def summed(x: Any, w: Any) -> Any:
    """Something else reads it, which is fused as it is."""
    y = x.T.reshape(-1) * w.reshape(-1)
    return np.sort(y)[::-1] - y.max()


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "complex128"])
@pytest.mark.parametrize("function", [step, whole, summed])
def test_results_are_those_of_numpy(function: Any, dtype: str) -> None:
    """In every order of memory."""
    x, w = X.astype(dtype), (X[::-1] - 3).astype(dtype)
    for one in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        for other in (w, w.ravel(), w.reshape(4, 15)):
            assert_same(function, one, other, fallback="allow")


def test_a_kernel_before_a_call_reads_transposed_memory_in_place() -> None:
    """It copies nothing first: its loops are those of the transposed array."""
    first = fuser.fuse(step, fallback="allow").explain(X, X.ravel()).groups[0]
    assert "loop over 4, 3, 5" in str(first)


def test_others_read_it_as_it_is() -> None:
    """The graph is left alone where anything but a reshape reads what comes of it."""
    for function, changes in ((step, True), (summed, False)):
        graph = fuser.trace(function, X, X.ravel())
        assert (reshapes.behind(graph) is not graph) == changes
