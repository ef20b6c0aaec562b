"""Softmax, norms and losses by name: the formula, one kernel, the gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from tests.softmax import softmax

X = np.linspace(-3, 4, 96).reshape(6, 16) ** 2 % 5 - 2
G = np.linspace(0.5, 1.5, 16)
IMAGES = np.linspace(-2, 3, 240).reshape(2, 6, 4, 5) ** 3 % 3
CHANNELS = np.linspace(0.5, 2, 6)
TARGET = np.eye(16)[[3, 1, 4, 1, 5, 9]]

Formula = Callable[..., Any]


def log_softmax(x: Any) -> Any:
    """By hand."""
    s = x - x.max(axis=-1, keepdims=True)
    return s - np.log(np.exp(s).sum(axis=-1, keepdims=True))


def logsumexp(x: Any) -> Any:
    """By hand."""
    m = x.max(axis=-1, keepdims=True)
    return x.max(axis=-1) + np.log(np.exp(x - m).sum(axis=-1))


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    """By hand."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def rms_norm(x: Any, g: Any) -> Any:
    """By hand."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def batch_norm(x: Any, g: Any, b: Any) -> Any:
    """By hand, of images."""
    mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * g[:, None, None] + b[:, None, None]


def group_norm(x: Any, g: Any, b: Any) -> Any:
    """By hand, of images in 3 groups."""
    n, c, h, w = x.shape
    y = x.reshape(n, 3, c // 3, h, w)
    mean, var = y.mean((2, 3, 4), keepdims=True), y.var((2, 3, 4), keepdims=True)
    flat = ((y - mean) / np.sqrt(var + 1e-5)).reshape(n, c, h, w)
    return flat * g[:, None, None] + b[:, None, None]


def correlation(x: Any, y: Any) -> Any:
    """By hand."""
    a, b = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


#: name -> (the named function, the formula by hand, arguments)
NAMED: dict[str, tuple[Formula, Formula, tuple[Any, ...]]] = {
    "softmax": (functional.softmax, softmax, (X,)),
    "log_softmax": (functional.log_softmax, log_softmax, (X,)),
    "logsumexp": (functional.logsumexp, logsumexp, (X,)),
    "layer_norm": (functional.layer_norm, layer_norm, (X, G, G)),
    "rms_norm": (functional.rms_norm, rms_norm, (X, G)),
    "batch_norm": (functional.batch_norm, batch_norm, (IMAGES, CHANNELS, CHANNELS)),
    "group_norm": (
        lambda x, g, b: functional.group_norm(x, 3, g, b), group_norm, (IMAGES, CHANNELS, CHANNELS)
    ),
    "standardise": (
        functional.standardise,
        lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), (X,),
    ),
    "standardise columns": (
        lambda x: functional.standardise(x, 0),
        lambda x: (x - x.mean(0, keepdims=True)) / x.std(0, keepdims=True), (X,),
    ),
    "cross_entropy": (
        functional.cross_entropy, lambda x, t: -(t * log_softmax(x)).sum(-1), (X, TARGET)
    ),
    "correlation": (functional.correlation, correlation, (X, X[::-1] * 1)),
    "softmax_backward": (
        functional.softmax_backward,
        lambda g, y: y * (g - (g * y).sum(-1, keepdims=True)), (X, softmax(X)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_name_is_its_formula_in_one_kernel(name: str) -> None:
    """Plain: the formula's bits; traced: the formula's kernel text, one kernel, least bytes."""
    function, formula, arguments = NAMED[name]
    plain = formula(*arguments)
    np.testing.assert_array_equal(function(*arguments), plain)
    fused = fuser.fuse(function, fallback="error")
    by_hand = fuser.fuse(formula, fallback="error")
    assert fused.source(*arguments) == by_hand.source(*arguments)
    np.testing.assert_allclose(fused(*arguments), plain, rtol=1e-11, atol=1e-12)
    found = fused.explain(*arguments)
    assert len(found.groups) == 1
    assert found.ledger is not None
    assert found.ledger.planned_bytes == found.ledger.least_bytes


#: name -> (forward of x alone, backward of (gradient, x), x)
BACKWARD: dict[str, tuple[Formula, Formula, Any]] = {
    "softmax": (
        functional.softmax, lambda g, x: functional.softmax_backward(g, functional.softmax(x)), X
    ),
    "log_softmax": (
        functional.log_softmax,
        lambda g, x: functional.log_softmax_backward(g, functional.log_softmax(x)), X,
    ),
    "layer_norm": (
        lambda x: functional.layer_norm(x, G), lambda g, x: functional.layer_norm_backward(g, x, G),
        X,
    ),
    "rms_norm": (
        lambda x: functional.rms_norm(x, G), lambda g, x: functional.rms_norm_backward(g, x, G), X
    ),
    "batch_norm": (
        lambda x: functional.batch_norm(x, CHANNELS),
        lambda g, x: functional.batch_norm_backward(g, x, CHANNELS), IMAGES,
    ),
    "cross_entropy": (
        lambda x: functional.cross_entropy(x, TARGET)[:, None],
        lambda g, x: functional.cross_entropy_backward(g, x, TARGET), X,
    ),
    "gelu": (functional.gelu, functional.gelu_backward, X),
    "silu": (functional.silu, functional.silu_backward, X),
    "relu": (functional.relu, functional.relu_backward, X + 0.01),
    "sigmoid": (
        functional.sigmoid, lambda g, x: functional.sigmoid_backward(g, functional.sigmoid(x)), X
    ),
    "tanh": (np.tanh, lambda g, x: functional.tanh_backward(g, np.tanh(x)), X),
}  # fmt: skip


@pytest.mark.parametrize("name", BACKWARD)
def test_backward_is_the_derivative(name: str) -> None:
    """Along a random direction the gradient is the central difference; one kernel."""
    forward, backward, x = BACKWARD[name]
    random = np.random.default_rng(7)
    gradient = random.normal(size=np.shape(forward(x)))
    direction = random.normal(size=x.shape)
    step = 1e-5
    ahead, behind = (np.sum(gradient * forward(x + s * direction)) for s in (step, -step))
    found = np.sum(backward(gradient, x) * direction)
    np.testing.assert_allclose(found, (ahead - behind) / (2 * step), rtol=2e-6, atol=1e-7)
    fused = fuser.fuse(backward, fallback="error")
    np.testing.assert_allclose(fused(gradient, x), backward(gradient, x), rtol=1e-10, atol=1e-12)
    assert len(fused.explain(gradient, x).groups) == 1


def test_gradients_of_a_layer_norms_parameters() -> None:
    """Sums over the rows; the weights' and the bias's."""
    gradient = np.cos(X)
    weight, bias = functional.layer_norm_parameters_backward(gradient, X)
    normal = functional.layer_norm(X)
    np.testing.assert_allclose(weight, (gradient * normal).sum(0))
    np.testing.assert_allclose(bias, gradient.sum(0))
    fused = fuser.fuse(functional.layer_norm_parameters_backward, fallback="error")
    for one, other in zip(fused(gradient, X), (weight, bias), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_dtypes_are_those_of_the_formula(dtype: str) -> None:
    """Floats stay what they are, integers become float64; fused and plain alike."""
    x = (X * 3).astype(dtype)
    wanted = "float64" if dtype == "int32" else dtype
    for function in (functional.softmax, functional.layer_norm, functional.logsumexp):
        assert function(x).dtype == wanted
        found = fuser.fuse(function, fallback="error")(x)
        assert found.dtype == wanted
        close = 4e-3 if dtype == "float16" else 1e-5
        # Where an element is nearly the mean, what is left is the rounding of the mean itself.
        left = 4 * np.finfo(wanted).eps * np.abs(x).max() if dtype == "float32" else 0
        np.testing.assert_allclose(
            found.astype(float), function(x).astype(float), rtol=close, atol=left
        )
