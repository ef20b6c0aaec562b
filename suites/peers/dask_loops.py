"""Workloads on chunks as a person writes them with numba: loops in `map_blocks`, `map_overlap`.

What crosses chunks (means, deviations) is Dask's own; what is elementwise after it is one loop.
Each form takes what compiles a function, and gives a function of Dask arrays.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from fuser.suites.families.transcendental import RISK_FREE_RATE, VOLATILITY

Array = Any
Form = Callable[[Callable[..., Any]], Callable[..., Any]]


def _map(function: Callable[..., Any], x: Array, *others: Array, **how: Any) -> Array:
    return x.map_blocks(function, *others, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype),
                        **how)  # fmt: skip


def gelu_bias(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A chain of elementwise operations."""

    @compiled
    def block(x: Array, bias: Array) -> Array:
        result = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                u = x[i, j] + bias[0, j]
                result[i, j] = 0.5 * u * (1 + math.tanh(0.79788456 * u * (1 + 0.044715 * u * u)))
        return result

    return lambda x, bias: _map(block, x, bias[np.newaxis])


def black_scholes(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Call and put, as the two rows of one result."""

    @compiled
    def normal(x: float) -> float:
        k = 1 / (1 + 0.2316419 * abs(x))
        series = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (
            -1.821255978 + k * 1.330274429))))
        upper = 0.3989422804014327 * math.exp(-0.5 * x * x) * series
        return 1 - upper if x > 0 else upper

    @compiled
    def block(spot: Array, strike: Array, years: Array) -> Array:
        result = np.empty((2, spot.size), spot.dtype)
        for i in range(spot.size):
            root = math.sqrt(years[i])
            drift = (RISK_FREE_RATE + 0.5 * VOLATILITY * VOLATILITY) * years[i]
            d1 = (math.log(spot[i] / strike[i]) + drift) / (VOLATILITY * root)
            d2 = d1 - VOLATILITY * root
            discounted = strike[i] * math.exp(-RISK_FREE_RATE * years[i])
            n1, n2 = normal(d1), normal(d2)
            result[0, i] = spot[i] * n1 - discounted * n2
            result[1, i] = discounted * (1 - n2) - spot[i] * (1 - n1)
        return result

    def both(spot: Array, strike: Array, years: Array) -> Any:
        made = spot.map_blocks(
            block, strike, years, dtype=spot.dtype, new_axis=0, chunks=((2,), *spot.chunks),
            meta=np.empty((0, 0), spot.dtype),
        )  # fmt: skip
        return made[0], made[1]

    return both


def softmax(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Rows that are whole in a chunk."""

    @compiled
    def block(x: Array) -> Array:
        result = np.empty_like(x)
        for i in range(x.shape[0]):
            largest = x[i, 0]
            for j in range(x.shape[1]):
                largest = max(largest, x[i, j])
            total = x.dtype.type(0)
            for j in range(x.shape[1]):
                weight = math.exp(x[i, j] - largest)
                result[i, j] = weight
                total += weight
            for j in range(x.shape[1]):
                result[i, j] /= total
        return result

    def whole(x: Array) -> Array:
        return _map(block, x.rechunk({-1: -1}))

    return whole


def standard_columns(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Means and deviations by Dask, the rest by a loop."""

    @compiled
    def block(x: Array, mean: Array, deviation: Array) -> Array:
        result = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                result[i, j] = (x[i, j] - mean[0, j]) / deviation[0, j]
        return result

    return lambda x: _map(block, x, x.mean(0, keepdims=True), x.std(0, keepdims=True))


def anomaly(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Means over years by Dask, the rest by a loop."""

    @compiled
    def block(x: Array, mean: Array) -> Array:
        result = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                for k in range(x.shape[2]):
                    result[i, j, k] = x[i, j, k] - mean[0, j, k]
        return result

    return lambda x: _map(block, x, x.mean(0, keepdims=True))


def heat_with_edges(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A stencil on chunks that overlap by one."""

    @compiled
    def block(u: Array) -> Array:
        result = u.copy()
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                flow = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]
                result[i, j] = u[i, j] + 0.2 * flow
        return result

    return with_neighbours(block)


def with_neighbours(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of chunks that need their neighbours' nearest rows and columns."""
    return lambda u: u.map_overlap(function, depth=1, boundary="none", dtype=u.dtype,
                                   meta=np.empty((0, 0), u.dtype))  # fmt: skip


FORMS: Mapping[str, Form] = MappingProxyType({
    form.__name__: form for form in (
        gelu_bias, black_scholes, softmax, standard_columns, anomaly, heat_with_edges,
    )
})  # fmt: skip
"""Name of the workload -> its form."""
OVERLAPPING = frozenset({"heat_with_edges"})
"""Those whose function Dask runs on chunks that overlap, as its users write stencils."""
