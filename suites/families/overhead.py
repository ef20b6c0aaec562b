"""Calls so small that the work is nothing: what is timed is the call itself."""

from typing import Any

import numpy as np

from fuser.suites.workload import Arguments, Array, MakeInputs, Workload, normal

FAMILY = "call overhead"
SIZES = {"S": 1, "M": 16, "L": 256}
SMALLEST_SIDE = 1


def multiply_add(a: Array, b: Array, c: Array) -> Any:
    """a b + c: two operations, three arrays."""
    return a * b + c


def multiply_add_scalars(a: Array, b: float, c: float) -> Any:
    """a b + c, where b and c are Python numbers."""
    return a * b + c


def multiply_add_plane(a: Array, b: Array, c: Array) -> Any:
    """a b + c on two axes."""
    return a * b + c


def multiply_add_strided(a: Array, b: Array, c: Array) -> Any:
    """a b + c on every other element of longer arrays."""
    return a * b + c


def sum_and_difference(a: Array, b: Array) -> Any:
    """a + b and a - b: two results."""
    return a + b, a - b


def multiply_add_own_out(a: Array, b: Array, c: Array, out: Array) -> Any:
    """a b + c, written into an array that the function takes for it, and returned."""
    out[...] = a * b + c
    return out


def product_and_transpose(a: Array, b: Array) -> Any:
    """a b, and the same memory seen as its transpose."""
    product = a * b
    return product, product.T


def row_bias(x: Array, b: Array) -> Any:
    """max(2 x + b, 0), where b is added to each of sixteen rows."""
    return np.maximum(x * 2 + b, 0)


def nine_operations(a: Array, b: Array) -> Any:
    """A gelu with bias: nine operations' worth of calls."""
    u = a + b
    return 0.5 * u * (1 + np.tanh(0.79788456 * u * (1 + 0.044715 * u * u)))


def small_softmax(x: Array) -> Any:
    """softmax of one short row: five operations, two of them reductions."""
    weights = np.exp(x - np.max(x))
    return weights / np.sum(weights)


def sixteen_arguments(
    a: Array, b: Array, c: Array, d: Array, e: Array, f: Array, g: Array, h: Array,
    i: Array, j: Array, k: Array, m: Array, n: Array, o: Array, p: Array, q: Array,
) -> Any:
    """The sum of sixteen arrays: every argument is checked."""
    return a + b + c + d + e + f + g + h + i + j + k + m + n + o + p + q


def _vectors(count: int, shape: Any = None, step: int = 1) -> MakeInputs:
    """Return a maker of `count` arrays; `shape` is that of the axes before the last."""

    def make(
        elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
    ) -> Arguments:
        lengths = (*(shape or ()), elements * step)
        return tuple(normal(generator, lengths, dtype)[..., ::step] for _ in range(count))

    return make


def _with_scalars(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
) -> Arguments:
    return normal(generator, elements, dtype), float(generator.normal()), float(generator.normal())


def _with_bias(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
) -> Arguments:
    return normal(generator, (16, elements), dtype), normal(generator, elements, dtype)


WORKLOADS = (
    Workload(
        "multiply_add", FAMILY, "a b + c on tiny arrays", multiply_add, _vectors(3), sizes=SIZES,
        quick=True, small_into=True,
    ),
    Workload(
        "multiply_add_scalars", FAMILY, "a b + c with two Python numbers", multiply_add_scalars,
        _with_scalars, sizes=SIZES,
    ),
    Workload(
        "multiply_add_plane", FAMILY, "a b + c on two axes", multiply_add_plane,
        _vectors(3, (SMALLEST_SIDE,)), sizes=SIZES,
    ),
    Workload(
        "multiply_add_strided", FAMILY, "a b + c on every other element", multiply_add_strided,
        _vectors(3, step=2), sizes=SIZES,
    ),
    Workload(
        "sum_and_difference", FAMILY, "two results of tiny arrays", sum_and_difference, _vectors(2),
        sizes=SIZES, small_into=True,
    ),
    Workload(
        "multiply_add_own_out", FAMILY, "a b + c into an array of the function's own parameters",
        multiply_add_own_out, _vectors(4), sizes=SIZES,
    ),
    Workload(
        "product_and_transpose", FAMILY, "a product and a view of it", product_and_transpose,
        _vectors(2, (SMALLEST_SIDE,)), sizes=SIZES,
    ),
    Workload(
        "row_bias", FAMILY, "a bias added to sixteen short rows", row_bias, _with_bias, sizes=SIZES,
    ),
    Workload(
        "nine_operations", FAMILY, "bias and gelu on tiny arrays", nine_operations, _vectors(2),
        sizes=SIZES, tolerance_eps=32,
    ),
    Workload(
        "small_softmax", FAMILY, "softmax of one short row", small_softmax, _vectors(1),
        sizes=SIZES, tolerance_eps=64,
    ),
    Workload(
        "sixteen_arguments", FAMILY, "the sum of sixteen tiny arrays", sixteen_arguments,
        _vectors(16), sizes=SIZES, tolerance_eps=64,
    ),
)
