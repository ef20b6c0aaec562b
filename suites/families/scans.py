"""Scans and gathers: running sums, tables looked up, histograms and masks amid arithmetic."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    Arguments,
    Array,
    Workload,
    drawn,
    given,
    normal,
    rows_of,
    sizes_of,
    uniform,
)

FAMILY = "scans and gathers"
LEVELS = 256
WIDTH = 64


def cumulative_share(x: Array) -> Any:
    """What part of the whole has come by each element."""
    running = np.cumsum(x * x)
    return running / running[-1]


def moving_average(x: Array, width: int) -> Any:
    """Means over a window, as differences of a running sum."""
    running = np.cumsum(x)
    return (running[width:] - running[:-width]) / width


def drawdown(returns: Array) -> Any:
    """How far a price stands below its highest so far."""
    price = np.exp(np.cumsum(returns))
    return 1 - price / np.maximum.accumulate(price)


def table_lookup(x: Array, table: Array) -> Any:
    """A function from a table, interpolated between its entries."""
    place = np.clip(x, 0.0, 1.0) * (table.shape[0] - 1)
    below = np.minimum(place.astype(np.int64), table.shape[0] - 2)
    part = place - below
    return table[below] * (1 - part) + table[below + 1] * part


def equalised(image: Array) -> Any:
    """A grey image whose histogram is made flat."""
    level = (image * (LEVELS - 1)).astype(np.int64)
    counts = np.bincount(level.ravel(), minlength=LEVELS)
    share = np.cumsum(counts) / image.size
    return share[level]


def embedding_mean(table: Array, words: Array) -> Any:
    """The mean vector of each sentence's words."""
    return np.mean(table[words], axis=1)


def masked_mean(x: Array, least: float) -> Any:
    """Mean and spread of the elements above a bound."""
    kept = x[x > least]
    mean = np.mean(kept)
    return mean, np.sqrt(np.mean((kept - mean) ** 2))


def weighted_histogram(x: Array, weight: Array, bins: int) -> Any:
    """Weights summed by where their values lie, then made a density."""
    place = np.minimum((x * bins).astype(np.int64), bins - 1)
    total = np.bincount(place, weights=weight, minlength=bins)
    return total / np.sum(total)


def scattered_forces(position: Array, first: Array, second: Array) -> Any:
    """Springs between pairs of points: gathered, and added to both ends."""
    pull = 0.5 * (position[second] - position[first])
    force = np.zeros_like(position)
    np.add.at(force, first, pull)
    np.subtract.at(force, second, pull)
    return force


def _all(elements: int) -> int:
    return max(40, elements)


def _table(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    points = np.sin(np.linspace(0, 3, 1025)).astype(dtype)
    return uniform(generator, elements, dtype, -0.1, 1.1), points


def _image(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    return (uniform(generator, rows_of(elements, 512), dtype, 0.0, 1.0) ** 2,)


def _sentences(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    words = max(1, elements // WIDTH)
    table = normal(generator, (words, WIDTH), dtype)
    return table, generator.integers(0, words, (max(1, words // 4), 16))


def _springs(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    ends = generator.integers(0, elements, (2, 2 * elements))
    return normal(generator, elements, dtype), ends[0], ends[1]


DOUBLE = ("float64",)
WORKLOADS = (
    Workload(
        "cumulative_share", FAMILY, "a running sum, normalised", cumulative_share,
        given(drawn(uniform, 0.0, 1.0, shape=_all)),
        sizes=sizes_of(16_000, 1_000_000, 8_000_000), dtypes=DOUBLE,
        reduced=_all, growth="root",
    ),
    Workload(
        "moving_average", FAMILY, "differences of a running sum", moving_average,
        given(drawn(uniform, 0.0, 1.0, shape=_all), 25),
        sizes=sizes_of(16_000, 1_000_000, 8_000_000), dtypes=DOUBLE,
        reduced=lambda elements: elements * elements, growth="root",
    ),
    Workload(
        "drawdown", FAMILY, "below the highest so far", drawdown,
        given(drawn(uniform, -0.01, 0.0101, shape=_all)),
        sizes=sizes_of(16_000, 1_000_000, 8_000_000), dtypes=DOUBLE, reduced=_all, growth="root",
        tolerance_eps=8192,
    ),
    Workload(
        "table_lookup", FAMILY, "a function from a table", table_lookup, _table,
        sizes=sizes_of(16_000, 1_000_000, 8_000_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "equalised", FAMILY, "a histogram made flat", equalised, _image,
        sizes=sizes_of(16_384, 1_048_576, 8_388_608), dtypes=DOUBLE,
    ),
    Workload(
        "embedding_mean", FAMILY, "the mean of gathered rows", embedding_mean, _sentences,
        sizes=sizes_of(16_384, 262_144, 4_194_304), dtypes=DOUBLE, tolerance_eps=32,
    ),
    Workload(
        "masked_mean", FAMILY, "mean and spread above a bound", masked_mean,
        given(drawn(uniform, -1.0, 1.0, shape=_all), 0.2),
        sizes=sizes_of(16_000, 1_000_000, 8_000_000), dtypes=DOUBLE,
        reduced=_all,
    ),
    Workload(
        "weighted_histogram", FAMILY, "weights summed by bin", weighted_histogram,
        given(drawn(uniform, 0.0, 1.0), drawn(uniform, 0.5, 1.5), 100),
        sizes=sizes_of(16_000, 1_000_000, 8_000_000), dtypes=DOUBLE, reduced=_all, growth="root",
    ),
    Workload(
        "scattered_forces", FAMILY, "gathered, and added to both ends", scattered_forces, _springs,
        sizes=sizes_of(16_000, 200_000, 2_000_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
)
