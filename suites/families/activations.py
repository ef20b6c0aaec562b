"""Activation functions of neural networks, with the bias or product they come with."""

from typing import Any

import numpy as np

from fuser.suites.workload import Arguments, Array, Workload, normal, normals

FAMILY = "activation"


def gelu_bias(x: Array, bias: Array) -> Any:
    """The tanh form of Hendrycks and Gimpel, arXiv:1606.08415; 0.79788456 is sqrt(2 / pi)."""
    u = x + bias
    return 0.5 * u * (1 + np.tanh(0.79788456 * u * (1 + 0.044715 * u * u)))


def silu_mul(x: Array, z: Array) -> Any:
    """The gate of SwiGLU: Shazeer, arXiv:2002.05202."""
    return x / (1 + np.exp(-x)) * z


def scale_bias_relu(x: Array, scale: Array, bias: Array) -> Any:
    """The pointwise part of an inference batch norm, then relu."""
    return np.maximum(x * scale + bias, 0)


def leaky_relu(x: Array) -> Any:
    """Maas, Hannun and Ng, ICML 2013: slope 0.01 below zero."""
    return np.where(x > 0, x, 0.01 * x)


def _matrix_and_rows(count: int) -> Any:
    """Return a maker of one matrix of up to 1,024 columns and `count` row vectors."""

    def make(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
        columns = min(elements, 1024)
        shape = (max(1, elements // columns), columns)
        rows = tuple(normal(generator, columns, dtype) for _ in range(count))
        return (normal(generator, shape, dtype), *rows)

    return make


WORKLOADS = (
    Workload(
        "gelu_bias", FAMILY, "bias and gelu, tanh form, on rows of 1,024", gelu_bias,
        _matrix_and_rows(1), quick=True, sweep=True, tolerance_eps=32,
    ),
    Workload(
        "silu_mul", FAMILY, "silu of one array times another", silu_mul, normals(2),
        tolerance_eps=32,
    ),
    Workload(
        "scale_bias_relu", FAMILY, "scale, bias and relu on rows of 1,024", scale_bias_relu,
        _matrix_and_rows(2),
    ),
    Workload("leaky_relu", FAMILY, "relu with a slope below zero", leaky_relu, normals(1)),
)
