"""Programs as NumPy's users write them: NumPy's answers, and kernels counted by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.quick_code import quick_kernels

__all__ = ["quick_kernels"]

R = np.random.default_rng(29)
X = R.normal(size=(13, 8))
IMAGES = R.normal(size=(5, 6, 4, 3))
ROWS, COLUMNS = np.abs(R.normal(size=13)) + 0.5, np.abs(R.normal(size=8)) + 0.5


def batch_norm_train(x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    """With running statistics that are written in place."""
    mu, var = np.mean(x, axis=0), np.var(x, axis=0)
    mean *= 0.9
    mean += 0.1 * mu
    variance *= 0.9
    variance += 0.1 * var
    return gamma * (x - mu) / np.sqrt(var + 1e-5) + beta


def channels_last_groups(x: Any) -> Any:
    """Group norm over axes that do not lie beside each other."""
    g = x.reshape(x.shape[0], x.shape[1], x.shape[2], 3, x.shape[3] // 3)
    mean, std = g.mean(axis=(1, 2, 4), keepdims=True), g.std(axis=(1, 2, 4), keepdims=True)
    return ((g - mean) / (std + 1e-6)).reshape(x.shape)


def masked_layer_norm(x: Any, mask: Any) -> Any:
    """Of the chosen elements of each row."""
    count = mask.sum(-1, keepdims=True)
    mean = np.where(mask, x, 0).sum(-1, keepdims=True) / count
    var = np.where(mask, (x - mean) ** 2, 0).sum(-1, keepdims=True) / count
    return np.where(mask, (x - mean) / np.sqrt(var + 1e-5), 0)


def logits_loss(z: Any, labels: Any) -> Any:
    """Cross entropy of integer labels; the row's maximum is seen in two shapes."""
    top = z.max(1, keepdims=True)
    total = np.log(np.exp(z - top).sum(1)) + top[:, 0]
    return (total - np.where(np.arange(z.shape[1]) == labels[:, None], z, 0).sum(1)).mean()


def luminance(image: Any) -> Any:
    """A costly function of three colours, each used once."""
    c = image / 255.0
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[..., 0] + 0.7152 * linear[..., 1] + 0.0722 * linear[..., 2]


def rotary(x: Any, cos: Any, sin: Any) -> Any:
    """Halves of the last axis."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def heston(price: Any, variance: Any, z: Any, scheme: str = "full") -> Any:
    """A choice by text, scalars as keywords."""
    v = np.maximum(variance, 0) if scheme == "full" else np.abs(variance)
    w = -0.7 * z + np.sqrt(1 - 0.49) * price
    price = price * np.exp(-0.5 * v / 252 + np.sqrt(v / 252) * z)
    return price, variance + 2 * (0.04 - v) / 252 + 0.3 * np.sqrt(v / 252) * w


#: name -> (function, arguments, kernels)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "batch norm, training": (batch_norm_train, (X, COLUMNS, COLUMNS, COLUMNS, COLUMNS + 1), 1),
    "group norm, channels last": (channels_last_groups, (IMAGES.transpose(0, 2, 3, 1),), 1),
    "unit rows by reshape": (lambda x: x / np.sqrt((x * x).sum(1)).reshape(-1, 1), (X,), 1),
    "rows by their ravelled sums": (lambda x: x.sum(1) / x.max(1, keepdims=True).ravel(), (X,), 1),
    "masked layer norm": (masked_layer_norm, (X, X > -1), 1),
    "columns by mean distance": (
        lambda x: np.clip((x - x.mean(0)) / (1.48 * np.abs(x - x.mean(0)).mean(0) + 1e-9), -3, 3),
        (X,), 1,
    ),
    "cross entropy of labels": (logits_loss, (X, R.integers(0, 8, 13)), 1),
    "luminance": (luminance, (R.integers(0, 256, (6, 5, 3)).astype(np.uint8),), 1),
    "rotary": (rotary, (X, X[:, :4], X[:, 4:]), 1),
    "heston": (heston, (ROWS, ROWS[::-1], X[:, 0]), 1),
    "kernel regression": (
        lambda x, c, y: (np.exp(-((x[:, None] - c) ** 2).sum(-1)) * y).sum(1), (X, X[:5], ROWS[:5]),
        1,
    ),
    "costly, transposed": (lambda x, y: np.exp(x).T + y, (X, X.T.copy()), 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dtype: str) -> None:
    """Two calls, and one of arguments in Fortran order, with what is written in place."""
    function, given, kernels = PROGRAMS[name]
    close = 1e-10 if dtype == "float64" else 3e-4
    fused = fuser.fuse(function, fallback="error")
    for order in ("C", "C", "F"):
        arguments = [
            np.array(a, dtype if a.dtype.kind == "f" else a.dtype, order=order) for a in given
        ]
        copies = [a.copy("K") for a in arguments]
        wanted, found = function(*copies), fused(*arguments)
        if not isinstance(wanted, tuple):
            wanted, found = (wanted,), (found,)
        for one, other in zip((*wanted, *copies), (*found, *arguments), strict=True):
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            np.testing.assert_allclose(other, one, rtol=close, atol=close)
    assert len(fused.explain(*arguments).groups) <= kernels
    assert len(fused.explain(*(np.ascontiguousarray(a) for a in arguments)).groups) == kernels
