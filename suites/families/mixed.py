"""Programs of which a part is no business of a fuser: the rest around it still is."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    HEAVY_SIZES,
    Arguments,
    Array,
    Workload,
    given,
    magnitudes,
    normal,
    normals,
)

FAMILY = "mixed with libraries"
WIDTH = 64


def dense_layer(x: Array, weight: Array, bias: Array) -> Any:
    """A matrix product, then bias and gelu in the tanh form."""
    u = x @ weight + bias
    return 0.5 * u * (1 + np.tanh(0.79788456 * u * (1 + 0.044715 * u * u)))


def gathered_loss(x: Array, index: Array, scale: Array) -> Any:
    """Elements picked by an index, with arithmetic before and after."""
    scaled = x * 2.0 + 1.0
    picked = scaled[index]
    return picked * picked * scale


def running_average(x: Array) -> Any:
    """The mean of all elements so far: a cumulative sum between two products."""
    weighted = x * 0.5
    count = np.arange(1, x.shape[0] + 1)
    return np.cumsum(weighted) / count * 2.0


def _layer(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
) -> Arguments:
    rows = max(1, elements // WIDTH)
    return (
        normal(generator, (rows, WIDTH), dtype), normal(generator, (WIDTH, WIDTH), dtype) / 8,
        normal(generator, WIDTH, dtype),
    )


def _indexed(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
) -> Arguments:
    index = generator.integers(0, elements, elements)
    return normal(generator, elements, dtype), index, normal(generator, elements, dtype)


_positive = given(magnitudes)


def sorted_gaps(x: Array) -> Any:
    """Distances between neighbours in order: a sort between two pieces of arithmetic."""
    ordered = np.sort(x)
    return (ordered[1:] - ordered[:-1]) * 0.5


WORKLOADS = (
    Workload(
        "dense_layer", FAMILY, "a matrix product, bias and gelu", dense_layer, _layer,
        sizes=HEAVY_SIZES, tolerance_eps=256,
    ),
    Workload(
        "gathered_loss", FAMILY, "elements picked by an index", gathered_loss, _indexed,
        sizes=HEAVY_SIZES,
    ),
    Workload(
        "running_average", FAMILY, "the mean of all elements so far", running_average, _positive,
        sizes=HEAVY_SIZES, reduced=int, growth="root", tolerance_eps=32,
    ),
    Workload(
        "sorted_gaps", FAMILY, "gaps between sorted values", sorted_gaps, normals(1),
        sizes=HEAVY_SIZES, quick=True,
    ),
)
