"""Softmax, norms, losses and their backward formulas, by the names that users know.

Each is the NumPy formula in its docstring, on arrays and inside fused functions, where it is one
kernel. The dtype is what that formula gives in NumPy: a float stays what it is (float16 is
rounded after every operation; means and variances of it are summed in float32), integers and
bools become float64 where they meet a division, an exponential or a logarithm. Results have the
shape of x, unless it is said that an axis is lacking; an axis that does not exist raises AxisError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "batch_norm", "batch_norm_backward", "correlation", "cross_entropy",
    "cross_entropy_backward", "group_norm", "layer_norm", "layer_norm_backward",
    "layer_norm_parameters_backward", "log_softmax", "log_softmax_backward", "logsumexp",
    "rms_norm", "rms_norm_backward", "softmax", "softmax_backward", "standardise",
]  # fmt: skip


# -- softmax --------------------------------------------------------------------------------


def softmax(x: Any, axis: Any = -1) -> Any:
    """e / sum(e) with e = exp(x - max(x)). Source: Bridle, NATO ASI 68, 1990.

    Args:
        x: any shape; a slice with inf in it is NaN, as the formula gives.
        axis: along which the results add up to 1; an int or a tuple.
    """
    weights = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return weights / np.sum(weights, axis=axis, keepdims=True)


def softmax_backward(gradient: Any, y: Any, axis: Any = -1) -> Any:
    """y * (gradient - sum(gradient * y)).

    Args:
        gradient: of the loss by the softmax's result.
        y: that result.
        axis: as in `softmax`.

    Returns:
        The loss's gradient by softmax's argument.
    """
    return y * (gradient - np.sum(gradient * y, axis=axis, keepdims=True))


def log_softmax(x: Any, axis: Any = -1) -> Any:
    """s - log(sum(exp(s))) with s = x - max(x): the logarithm of `softmax`, without underflow.

    Args:
        x: any shape.
        axis: as in `softmax`.
    """
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def log_softmax_backward(gradient: Any, y: Any, axis: Any = -1) -> Any:
    """gradient - exp(y) * sum(gradient), with y the result of `log_softmax`.

    Args:
        gradient: of the loss by y.
        y: that result.
        axis: as in `log_softmax`.

    Returns:
        The loss's gradient by the argument of `log_softmax`.
    """
    return gradient - np.exp(y) * np.sum(gradient, axis=axis, keepdims=True)


def logsumexp(x: Any, axis: int = -1) -> Any:
    """m + log(sum(exp(x - m))) with m = max(x).

    Args:
        x: at least one axis; a slice of nothing but -inf, or with inf, gives NaN by the formula.
        axis: an int, which the result lacks.
    """
    largest = np.max(x, axis=axis, keepdims=True)
    total = np.sum(np.exp(x - largest), axis=axis)
    return np.max(x, axis=axis) + np.log(total)


# -- norms ----------------------------------------------------------------------------------


def _scaled(normal: Any, weight: Any, bias: Any) -> Any:
    """normal * weight + bias, of which either may be None."""
    if weight is not None:
        normal = normal * weight
    return normal if bias is None else normal + bias


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, axis: Any = -1
) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias. Source: Ba et al., arXiv:1607.06450.

    Args:
        x: any shape.
        weight: broadcasts with x; None for 1.
        bias: broadcasts with x; None for 0.
        eps: keeps the root from zero.
        axis: that mean and variance are taken along; an int or a tuple.
    """
    mean = np.mean(x, axis=axis, keepdims=True)
    variance = np.var(x, axis=axis, keepdims=True)
    return _scaled((x - mean) / np.sqrt(variance + eps), weight, bias)


def layer_norm_backward(
    gradient: Any, x: Any, weight: Any = None, eps: float = 1e-5, axis: Any = -1
) -> Any:
    """r * (g - mean(g) - h * mean(g * h)), with r = 1 / sqrt(var + eps), h = (x - mean) * r.

    Args:
        gradient: of the loss by the result of `layer_norm`.
        x: what `layer_norm` was given.
        weight: likewise; g = gradient * weight.
        eps: likewise.
        axis: likewise.

    Returns:
        The loss's gradient by x.
    """
    mean = np.mean(x, axis=axis, keepdims=True)
    inverse = 1 / np.sqrt(np.var(x, axis=axis, keepdims=True) + eps)
    normal = (x - mean) * inverse
    scaled = gradient if weight is None else gradient * weight
    along = np.mean(scaled * normal, axis=axis, keepdims=True)
    return inverse * (scaled - np.mean(scaled, axis=axis, keepdims=True) - normal * along)


def layer_norm_parameters_backward(gradient: Any, x: Any, eps: float = 1e-5) -> tuple[Any, Any]:
    """The gradients of `layer_norm` by weight and bias: sums over all axes but the last.

    Args:
        gradient: of the loss by the result.
        x: what `layer_norm` was given, normalised along its last axis.
        eps: likewise.

    Returns:
        Two arrays with x's last axis alone.
    """
    axes = tuple(range(x.ndim - 1))
    mean = np.mean(x, axis=-1, keepdims=True)
    normal = (x - mean) / np.sqrt(np.var(x, axis=-1, keepdims=True) + eps)
    return np.sum(gradient * normal, axis=axes), np.sum(gradient, axis=axes)


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, axis: Any = -1) -> Any:
    """x / sqrt(mean(x * x) + eps) * weight. Source: Zhang and Sennrich, arXiv:1910.07467.

    Args:
        x: any shape.
        weight: broadcasts with x; None for 1.
        eps: keeps the root from zero.
        axis: that the mean is taken along; an int or a tuple.
    """
    scale = np.sqrt(np.mean(x * x, axis=axis, keepdims=True) + eps)
    return _scaled(x / scale, weight, None)


def rms_norm_backward(
    gradient: Any, x: Any, weight: Any = None, eps: float = 1e-6, axis: Any = -1
) -> Any:
    """r * (g - h * mean(g * h)) with r = 1 / sqrt(mean(x * x) + eps), h = x * r.

    Args:
        gradient: of the loss by the result of `rms_norm`.
        x: what `rms_norm` was given.
        weight: likewise; g = gradient * weight.
        eps: likewise.
        axis: likewise.

    Returns:
        The loss's gradient by x.
    """
    inverse = 1 / np.sqrt(np.mean(x * x, axis=axis, keepdims=True) + eps)
    normal = x * inverse
    scaled = gradient if weight is None else gradient * weight
    return inverse * (scaled - normal * np.mean(scaled * normal, axis=axis, keepdims=True))


def _beside_channels(x: Any, value: Any) -> Any:
    """One number a channel, for arrays whose axis 1 holds the channels."""
    if value is None or x.ndim == 2:
        return value
    return value[(slice(None), *(None,) * (x.ndim - 2))]


def batch_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias by channel, with the batch's own statistics.

    Source: Ioffe and Szegedy, arXiv:1502.03167.

    Args:
        x: axis 0 counts samples, axis 1 channels; statistics are taken over all other axes.
        weight: one a channel, or None for 1.
        bias: one a channel, or None for 0.
        eps: keeps the root from zero.
    """
    axes = (0, *range(2, x.ndim))
    mean = np.mean(x, axis=axes, keepdims=True)
    variance = np.var(x, axis=axes, keepdims=True)
    normal = (x - mean) / np.sqrt(variance + eps)
    return _scaled(normal, _beside_channels(x, weight), _beside_channels(x, bias))


def batch_norm_backward(gradient: Any, x: Any, weight: Any = None, eps: float = 1e-5) -> Any:
    """The gradient of `batch_norm` by x: that of `layer_norm` over the batch's axes.

    Args:
        gradient: of the loss by the result of `batch_norm`.
        x: what `batch_norm` was given.
        weight: likewise.
        eps: likewise.
    """
    axes = (0, *range(2, x.ndim))
    return layer_norm_backward(gradient, x, _beside_channels(x, weight), eps, axes)


def group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """`layer_norm` of neighbouring channels. Source: Wu and He, arXiv:1803.08494.

    Args:
        x: axis 0 counts samples, axis 1 channels.
        groups: how many; they divide the channels.
        weight: one a channel, or None for 1.
        bias: one a channel, or None for 0.
        eps: keeps the root from zero.

    Raises:
        ValueError: the groups do not divide the channels.
    """
    shape = x.shape
    parts = x.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    axes = tuple(range(2, parts.ndim))
    mean = np.mean(parts, axis=axes, keepdims=True)
    variance = np.var(parts, axis=axes, keepdims=True)
    normal = ((parts - mean) / np.sqrt(variance + eps)).reshape(shape)
    return _scaled(normal, _beside_channels(x, weight), _beside_channels(x, bias))


def standardise(x: Any, axis: Any = -1, ddof: int = 0) -> Any:
    """(x - mean) / std.

    Args:
        x: any shape.
        axis: that mean and standard deviation are taken along; None for all.
        ddof: taken from the count in the deviation's divisor.
    """
    mean = np.mean(x, axis=axis, keepdims=True)
    return (x - mean) / np.std(x, axis=axis, ddof=ddof, keepdims=True)


# -- losses and likeness --------------------------------------------------------------------


def cross_entropy(logits: Any, target: Any, axis: int = -1) -> Any:
    """-sum(target * log_softmax(logits)): one loss for each slice along `axis`.

    Args:
        logits: any shape with at least one axis.
        target: probabilities (or one-hot rows), of a shape that broadcasts with the logits.
        axis: where the classes are; the result lacks it.
    """
    return -np.sum(target * log_softmax(logits, axis), axis=axis)


def cross_entropy_backward(gradient: Any, logits: Any, target: Any, axis: int = -1) -> Any:
    """gradient * (softmax(logits) * sum(target) - target).

    Args:
        gradient: of the result of `cross_entropy`, with the axis kept with length 1.
        logits: as there.
        target: as there.
        axis: as there.

    Returns:
        The loss's gradient by the logits.
    """
    total = np.sum(target, axis=axis, keepdims=True)
    return gradient * (softmax(logits, axis) * total - target)


def correlation(x: Any, y: Any, axis: Any = -1) -> Any:
    """Pearson's correlation of x and y along an axis.

    sum(a * b) / sqrt(sum(a * a) * sum(b * b)) with a = x - mean(x), b = y - mean(y).

    Args:
        x: any shape.
        y: broadcasts with x.
        axis: an int or a tuple, which the result lacks; None for all.
    """
    a = x - np.mean(x, axis=axis, keepdims=True)
    b = y - np.mean(y, axis=axis, keepdims=True)
    both = np.sum(a * b, axis=axis)
    return both / np.sqrt(np.sum(a * a, axis=axis) * np.sum(b * b, axis=axis))
