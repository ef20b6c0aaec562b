"""np.take_along_axis and np.put_along_axis at one place of each row: values, kernels, errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.results import parts_of


def log_softmax(z: Any) -> Any:
    """Of the last axis."""
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def loss(z: Any, y: Any) -> Any:
    """Of each token's label."""
    return -np.take_along_axis(log_softmax(z), y[..., None], axis=-1)[..., 0].mean()


def gradient(z: Any, y: Any) -> Any:
    """Of a cross entropy."""
    p = np.exp(log_softmax(z))
    np.put_along_axis(p, y[..., None], np.take_along_axis(p, y[..., None], -1) - 1, axis=-1)
    return p


def one_hot(z: Any, y: Any) -> Any:
    """At the largest of each row: no bounds to look at."""
    made = np.zeros_like(z)
    np.put_along_axis(made, z.argmax(-1)[..., None], 1, axis=-1)
    return made


def first_axis(z: Any, y: Any) -> Any:
    """Of integers and truth values, along the first axis."""
    whole = (z * 8).astype(np.int16)
    places = np.argmin(whole, axis=0, keepdims=True)
    return np.take_along_axis(whole, places, 0), np.take_along_axis(whole > 3, places, axis=0)


CASES = [
    pytest.param(function, shape, id=f"{function.__name__}-{len(shape)}")
    for function in (loss, gradient, one_hot, first_axis)
    for shape in ((9, 7), (4, 3, 5))
]


@pytest.mark.parametrize(("function", "shape"), CASES)
def test_one_kernel_gives_what_numpy_gives(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    """For labels from either end, NaN in rows, and other lengths; nothing is stored between."""
    fused = fuser.fuse(function, fallback="error")
    rng = np.random.default_rng(4)
    for turn in range(4):
        lengths = tuple(n + turn for n in shape)
        z = rng.standard_normal(lengths)
        y = rng.integers(-lengths[-1], lengths[-1], lengths[:-1])
        if turn == 2 and function is not first_axis:
            z[..., 1] = np.nan
        wanted, found = function(z, y), fused(z, y)
        for one, other in zip(parts_of(wanted), parts_of(found), strict=True):
            assert (type(one), one.dtype, one.shape) == (type(other), other.dtype, other.shape)
            np.testing.assert_allclose(other, one, rtol=1e-12)
    explanation = fused.explain(z, y)
    assert len(explanation.groups) == 1
    assert explanation.ledger.planned_bytes == explanation.ledger.least_bytes


@pytest.mark.parametrize("function", [loss, gradient])
def test_labels_beyond_a_row_are_numpys_to_refuse(function: Callable[..., Any]) -> None:
    """Before and after calls that had none."""
    fused = fuser.fuse(function, fallback="allow")
    z, y = np.ones((3, 4)), np.array([0, 1, 2])
    fused(z, y)
    for bad in (4, -5):
        with pytest.raises(IndexError, match="out of bounds"):
            fused(z, np.array([0, bad, 1]))
    np.testing.assert_allclose(fused(z, y), function(z, y), rtol=1e-12)


def test_arguments_are_read_where_the_places_are() -> None:
    """One element of each row that lies in memory anyway, and not all."""

    def sums(x: Any, y: Any) -> Any:
        return np.take_along_axis(x, y[:, None], 1) * 2, np.take_along_axis(x, y[:, None] * 0, 1)

    fused = fuser.fuse(sums, fallback="allow")
    x, y = np.arange(12.0).reshape(3, 4), np.array([1, 0, 3])
    for one, other in zip(sums(x, y), fused(x, y), strict=True):
        np.testing.assert_array_equal(other, one)
    explanation = fused.explain(x, y)
    assert len(explanation.groups) == 1
    assert "x[…]" in str(explanation)
