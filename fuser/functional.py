"""Composite functions, on arrays and inside fused functions: gelu, silu, softmax, layer_norm …

Each is written with NumPy functions and rows of the op table, so a fused function sees through
it: the same formula written by hand gives the same kernel. Those that reduce are in
`normalisations`; here are those of single elements. Their dtype is what the formula gives in
NumPy: floats keep theirs, integers and bools become the float of `np.exp` where the formula has
an elementary function or a division. Their shape is that of all array arguments broadcast together;
they raise what NumPy raises where these do not broadcast, and results written into `out=` are a
fused function's, not theirs.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from fuser.ir.infer import dtype_of
from fuser.ir.ops import TABLE
from fuser.numpy_functions.normalisations import (
    batch_norm,
    batch_norm_backward,
    correlation,
    cross_entropy,
    cross_entropy_backward,
    group_norm,
    layer_norm,
    layer_norm_backward,
    layer_norm_parameters_backward,
    log_softmax,
    log_softmax_backward,
    logsumexp,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_backward,
    standardise,
)
from fuser.random_functions import dropout, rand_like
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

__all__ = [
    "addcmul", "batch_norm", "batch_norm_backward", "clamp", "correlation", "cross_entropy",
    "cross_entropy_backward", "dropout", "elu", "erf", "erfc", "frac", "gelu", "gelu_backward",
    "group_norm", "hard_sigmoid", "hard_swish", "layer_norm", "layer_norm_backward",
    "layer_norm_parameters_backward", "leaky_relu", "lerp", "lgamma", "log_sigmoid",
    "log_softmax", "log_softmax_backward", "logaddexp", "logaddexp2", "logit", "logsumexp",
    "mish", "rand_like", "relu", "relu_backward", "rms_norm", "rms_norm_backward", "rsqrt",
    "sigmoid", "sigmoid_backward", "silu", "silu_backward", "softmax", "softmax_backward",
    "softplus", "square", "standardise", "tanh_backward", "threshold", "type_as",
]  # fmt: skip


def _row(name: str, x: Any) -> Any:
    """Apply a row of the op table that NumPy has no function for.

    Integers and bools become the float that NumPy's own elementary functions choose.
    """
    if isinstance(x, HostScalar):
        x = np.positive(x)
    if isinstance(x, TracedArray):
        wanted = dtype_of(np.exp.resolve_dtypes((x.dtype, None))[0])
        tracing = x.tracing
        node = tracing.node(name, [tracing.cast(x.node, wanted)])
        return tracing.wrap(node, not node.shape)
    array = np.asarray(x)
    if type(x) is np.ndarray and array.ndim and array.dtype.kind in "biuf":
        return _fused_row(name)(x)
    wanted = np.exp.resolve_dtypes((array.dtype, None))[0]
    return TABLE[name].numpy(array.astype(wanted, copy=False))


@cache
def _fused_row(name: str) -> Any:
    """The row as a fused function: on plain arrays, NumPy would need a Python loop."""
    from fuser.calls.fused_function import FusedFunction  # it needs backends: not at import

    def row(x: Any) -> Any:
        return _row(name, x)

    return FusedFunction(row, fallback="allow")


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow. Any shape; float dtype of np.exp(x)."""
    return _row("sigmoid", x)


def erf(x: Any) -> Any:
    """The error function (C11 erf). Any shape; float dtype of np.exp(x)."""
    return _row("erf", x)


def erfc(x: Any) -> Any:
    """1 - erf(x), accurate for large x (C11 erfc)."""
    return _row("erfc", x)


def lgamma(x: Any) -> Any:
    """log |gamma(x)|; infinite at 0, -1, -2 … (C11 lgamma)."""
    return _row("lgamma", x)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return _row("rsqrt", x)


def relu(x: Any) -> Any:
    """max(x, 0); NaN stays NaN, and -0.0 becomes 0.0."""
    return np.maximum(x, 0)


def frac(x: Any) -> Any:
    """x - trunc(x): the part after the point, with x's sign."""
    return x - np.trunc(x)


def silu(x: Any) -> Any:
    """x * sigmoid(x). Source: Elfwing, Uchibe, Doya, Neural Networks 107, 2018."""
    return x * sigmoid(x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """The Gaussian error linear unit. Source: Hendrycks and Gimpel, arXiv:1606.08415.

    Args:
        x: any shape.
        approximate: "none" for x/2 (1 + erf(x/sqrt 2)); "tanh" for
            x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))).

    Raises:
        ValueError: `approximate` is neither.
    """
    if approximate == "none":
        return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))
    if approximate != "tanh":
        raise ValueError(f"approximate is {approximate!r}; use 'none' or 'tanh'")
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + np.tanh(inner))


def relu_backward(gradient: Any, x: Any) -> Any:
    """gradient where x > 0, else 0."""
    return np.where(x > 0, gradient, 0)


def sigmoid_backward(gradient: Any, y: Any) -> Any:
    """gradient * y * (1 - y), with y the result of `sigmoid`."""
    return gradient * y * (1.0 - y)


def tanh_backward(gradient: Any, y: Any) -> Any:
    """gradient * (1 - y * y), with y the result of np.tanh."""
    return gradient * (1.0 - y * y)


def silu_backward(gradient: Any, x: Any) -> Any:
    """gradient * s * (1 + x * (1 - s)), with s = sigmoid(x)."""
    s = sigmoid(x)
    return gradient * s * (1.0 + x * (1.0 - s))


def gelu_backward(gradient: Any, x: Any) -> Any:
    """gradient * (P(x) + x * p(x)), the normal distribution's P = (1 + erf(x/sqrt 2)) / 2 and p.

    The gradient of `gelu` with approximate="none".
    """
    below = 0.5 * (1.0 + erf(x * math.sqrt(0.5)))
    density = np.exp(-0.5 * x * x) * (1.0 / math.sqrt(2.0 * math.pi))
    return gradient * (below + x * density)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return np.logaddexp(x, 0.0)


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return -np.logaddexp(-x, 0.0)


def mish(x: Any) -> Any:
    """x * tanh(softplus(x)). Source: Misra, arXiv:1908.08681."""
    return x * np.tanh(softplus(x))


def logit(x: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)); with `eps` x is limited to [eps, 1 - eps] first."""
    if eps is not None:
        x = np.clip(x, eps, 1.0 - eps)
    return np.log(x / (1.0 - x))


def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """x where x >= 0, else slope * x."""
    return np.where(x >= 0, x, slope * x)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1). Source: Clevert et al., arXiv:1511.07289."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def hard_sigmoid(x: Any) -> Any:
    """clip(x/6 + 1/2, 0, 1)."""
    return np.clip(x / 6.0 + 0.5, 0.0, 1.0)


def hard_swish(x: Any) -> Any:
    """x * hard_sigmoid(x). Source: Howard et al., arXiv:1905.02244."""
    return x * hard_sigmoid(x)


def lerp(start: Any, end: Any, weight: Any) -> Any:
    """start + weight * (end - start)."""
    return start + weight * (end - start)


def addcmul(x: Any, first: Any, second: Any, value: Any = 1) -> Any:
    """x + value * first * second."""
    return x + value * first * second


def threshold(x: Any, limit: Any, value: Any) -> Any:
    """x where x > limit, else value; NaN stays NaN."""
    return np.where(x <= limit, value, x)


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """x limited to [min, max]; a NaN bound is ignored, NaN in x stays.

    Args:
        x: any shape.
        min: the lower bound, or None for none.
        max: the upper bound, or None for none.
    """
    if min is not None:
        x = np.where(x < min, min, x)
    if max is not None:
        x = np.where(x > max, max, x)
    return x


def type_as(x: Any, other: Any) -> Any:
    """x converted to other's dtype."""
    return x.astype(other.dtype)


def square(x: Any) -> Any:
    """x * x."""
    return np.square(x)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), without overflow."""
    return np.logaddexp(x, y)


def logaddexp2(x: Any, y: Any) -> Any:
    """log2(2**x + 2**y), without overflow."""
    return np.logaddexp2(x, y)
