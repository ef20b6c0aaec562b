"""Matrix products with arithmetic before and after them."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    Arguments,
    Array,
    Workload,
    drawn,
    given,
    normal,
    side,
    sizes_of,
    square,
    uniform,
)

FAMILY = "products with epilogues"


def mlp(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Any:
    """Two layers, the second one's rows made probabilities."""
    hidden = np.maximum(x @ w1 + b1, 0)
    scores = hidden @ w2 + b2
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True)


def attention_head(q: Array, k: Array, v: Array) -> Any:
    """Scaled dot products, softmax by rows, and the mean that it weights."""
    scores = q @ k.T / q.shape[1] ** 0.5
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    weights /= np.sum(weights, axis=1, keepdims=True)
    return weights @ v


def gelu_block(x: Array, weight: Array, bias: Array) -> Any:
    """A dense layer with gelu, added to its input."""
    u = x @ weight + bias
    return x + 0.5 * u * (1 + np.tanh(0.79788456 * (u + 0.044715 * u * u * u)))


def covariance(data: Array) -> Any:
    """The covariance matrix of columns."""
    centred = data - np.mean(data, axis=0)
    return centred.T @ centred / (data.shape[0] - 1.0)


def correlation(data: Array) -> Any:
    """The correlation matrix of columns; those that hardly vary are left alone."""
    spread = np.std(data, axis=0)
    spread[spread <= 0.1] = 1.0
    scaled = (data - np.mean(data, axis=0)) / (np.sqrt(data.shape[0]) * spread)
    return scaled.T @ scaled


def mvt(x1: Array, x2: Array, y1: Array, y2: Array, a: Array) -> Any:
    """A matrix and its transpose times vectors, added to two others."""
    x1, x2 = x1.copy(), x2.copy()
    x1 += a @ y1
    x2 += y2 @ a
    return x1, x2


def gemver(
    alpha: float, beta: float, a: Array, u1: Array, v1: Array, u2: Array, v2: Array, y: Array,
    z: Array,
) -> Any:  # fmt: skip
    """A matrix updated by two outer products, then two products with vectors."""
    a = a + np.outer(u1, v1) + np.outer(u2, v2)
    x = beta * (y @ a) + z
    return alpha * (a @ x)


def atax(a: Array, x: Array) -> Any:
    """A matrix times a vector, and its transpose times that."""
    return (a @ x) @ a


def gesummv(alpha: float, beta: float, a: Array, b: Array, x: Array) -> Any:
    """Two matrices times one vector, weighted."""
    return alpha * (a @ x) + beta * (b @ x)


def syrk(alpha: float, beta: float, a: Array, c: Array) -> Any:
    """The lower triangle of a product with its own transpose, row by row."""
    c = c.copy()
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]
    return c


def _layers(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    rows, width, classes = max(1, elements // 128), 128, 32
    return (
        normal(generator, (rows, width), dtype), normal(generator, (width, width), dtype) / 12,
        normal(generator, width, dtype), normal(generator, (width, classes), dtype) / 12,
        normal(generator, classes, dtype),
    )


def _block(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    rows = max(1, elements // 64)
    return (
        normal(generator, (rows, 64), dtype), normal(generator, (64, 64), dtype) / 8,
        normal(generator, 64, dtype),
    )


_samples = given(
    drawn(uniform, 0.0, 1.0, shape=lambda elements: (4 * (c := max(1, side(elements) // 2)), c))
)


SQUARE, VECTOR = drawn(uniform, 0.0, 1.0, shape=square), drawn(uniform, 0.0, 1.0, shape=side)


def _half(elements: int) -> tuple[int, int]:
    return side(elements), max(1, side(elements) // 2)


def _words(elements: int) -> tuple[int, int]:
    return max(1, elements // 64), 64


DOUBLE = ("float64",)
MATRIX = sizes_of(4_096, 4_194_304, 9_000_000)
WORKLOADS = (
    Workload(
        "mlp", FAMILY, "two layers and softmax", mlp, _layers,
        sizes=sizes_of(4_096, 262_144, 2_097_152), dtypes=("float32",), tolerance_eps=512,
    ),
    Workload(
        "attention_head", FAMILY, "scores, softmax, mean", attention_head,
        given(*[drawn(normal, shape=_words)] * 3),
        sizes=sizes_of(4_096, 32_768, 131_072), dtypes=("float32",), tolerance_eps=512,
    ),
    Workload(
        "gelu_block", FAMILY, "a dense layer with gelu, added", gelu_block, _block,
        sizes=sizes_of(4_096, 524_288, 4_194_304), dtypes=("float32",), tolerance_eps=512,
    ),
    Workload(
        "covariance", FAMILY, "of columns", covariance, _samples,
        sizes=sizes_of(4_096, 262_144, 1_048_576), dtypes=DOUBLE, tolerance_eps=1024,
    ),
    Workload(
        "correlation", FAMILY, "of columns that vary", correlation, _samples,
        sizes=sizes_of(4_096, 262_144, 1_048_576), dtypes=DOUBLE, tolerance_eps=1024,
    ),
    Workload(
        "mvt", FAMILY, "a matrix and its transpose", mvt, given(*[VECTOR] * 4, SQUARE),
        sizes=MATRIX,
        dtypes=DOUBLE, tolerance_eps=512,
    ),
    Workload(
        "gemver", FAMILY, "two outer products, two others", gemver,
        given(1.5, 1.2, SQUARE, *[VECTOR] * 6),
        sizes=MATRIX, dtypes=DOUBLE, tolerance_eps=512,
    ),
    Workload(
        "atax", FAMILY, "there and back", atax, given(SQUARE, VECTOR), sizes=MATRIX, dtypes=DOUBLE,
        tolerance_eps=512,
    ),
    Workload(
        "gesummv", FAMILY, "two matrices, one vector", gesummv,
        given(1.5, 1.2, SQUARE, SQUARE, VECTOR), sizes=MATRIX, dtypes=DOUBLE,
        tolerance_eps=512,
    ),
    Workload(
        "syrk", FAMILY, "a triangle, row by row", syrk,
        given(1.5, 1.2, drawn(uniform, 0.0, 1.0, shape=_half), SQUARE),
        sizes=sizes_of(4_096, 22_500, 90_000), dtypes=DOUBLE, tolerance_eps=512,
    ),
)
