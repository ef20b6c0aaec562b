"""Recurrences: each value needs the one before, so that no operation on whole arrays says it."""

from functools import partial
from typing import Any

import numpy as np

from fuser.suites.workload import (
    Arguments,
    Array,
    MakeInputs,
    Workload,
    drawn,
    given,
    normal,
    side,
    sizes_of,
    square,
    uniform,
)

FAMILY = "recurrences"


def garch(r: Array, omega: float, alpha: float, beta: float) -> Any:
    """The variances of a GARCH(1, 1) model (Bollerslev, 1986), started at the sample's."""
    variance = np.empty_like(r)
    variance[0] = np.mean(r * r)
    for t in range(1, r.shape[0]):
        variance[t] = omega + alpha * r[t - 1] ** 2 + beta * variance[t - 1]
    return variance


def exponential_smoothing(x: Array, alpha: float) -> Any:
    """A level that follows a series."""
    smooth = np.empty_like(x)
    level = x[0]
    for t in range(x.shape[0]):
        level = alpha * x[t] + (1 - alpha) * level
        smooth[t] = level
    return smooth


def biquad(x: Array, b: Array, a: Array) -> Any:
    """A second-order filter, direct form II transposed: two numbers are its state."""
    y = np.zeros_like(x)
    first = second = 0.0
    for t in range(x.shape[0]):
        y[t] = b[0] * x[t] + first
        first = b[1] * x[t] - a[0] * y[t] + second
        second = b[2] * x[t] - a[1] * y[t]
    return y


def thomas(lower: Array, main: Array, upper: Array, right: Array) -> Any:
    """One tridiagonal system: elimination, then back substitution."""
    count = main.shape[0]
    ratio, x = np.empty_like(main), np.empty_like(right)
    ratio[0] = upper[0] / main[0]
    x[0] = right[0] / main[0]
    for i in range(1, count):
        pivot = main[i] - lower[i] * ratio[i - 1]
        ratio[i] = upper[i] / pivot
        x[i] = (right[i] - lower[i] * x[i - 1]) / pivot
    for i in range(count - 2, -1, -1):
        x[i] = x[i] - ratio[i] * x[i + 1]
    return x


def thomas_columns(lower: Array, main: Array, upper: Array, right: Array) -> Any:
    """Thomas' algorithm on many systems at once, one a column."""
    count = main.shape[0]
    ratio, x = np.empty_like(main), np.empty_like(right)
    ratio[0] = upper[0] / main[0]
    x[0] = right[0] / main[0]
    for i in range(1, count):
        pivot = main[i] - lower[i] * ratio[i - 1]
        ratio[i] = upper[i] / pivot
        x[i] = (right[i] - lower[i] * x[i - 1]) / pivot
    for i in reversed(range(count - 1)):
        x[i] -= ratio[i] * x[i + 1]
    return x


def horner(coefficients: Array, x: Array) -> Any:
    """A polynomial whose coefficients are an array, the highest first."""
    y = np.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


def logistic_map(rate: Array, start: Array, steps: int) -> Any:
    """x becomes r x (1 - x), for rates at which the values settle."""
    x = start
    for _ in range(steps):
        x = rate * x * (1 - x)
    return x


def durbin(r: Array) -> Any:
    """The Yule-Walker equations of a Toeplitz matrix, by Durbin's recursion."""
    y = np.zeros_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, r.shape[0]):
        beta = (1 - alpha * alpha) * beta
        alpha = -(r[k] + np.dot(r[:k][::-1], y[:k])) / beta
        y[:k] = y[:k] + alpha * y[:k][::-1]
        y[k] = alpha
    return y


def deriche_rows(image: Array, decay: float) -> Any:
    """A recursive smoothing filter along rows: once forth, once back, the two added."""
    forth, back = np.empty_like(image), np.empty_like(image)
    forth[:, 0] = (1 - decay) * image[:, 0]
    for j in range(1, image.shape[1]):
        forth[:, j] = (1 - decay) * image[:, j] + decay * forth[:, j - 1]
    back[:, -1] = 0.0
    for j in range(image.shape[1] - 2, -1, -1):
        back[:, j] = decay * ((1 - decay) * image[:, j + 1] + back[:, j + 1])
    return forth + back


def _filtered(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    taps, poles = np.array([0.2, 0.4, 0.2], dtype), np.array([-0.5, 0.3], dtype)
    return normal(generator, elements, dtype), taps, poles


def _systems(columns: bool) -> MakeInputs:
    """Return a maker of tridiagonal systems whose main diagonals dominate."""

    def make(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
        shape = (max(2, side(elements)), side(elements)) if columns else (max(2, elements),)
        lower, upper = (uniform(generator, shape, dtype, -1.0, 1.0) for _ in range(2))
        return (
            lower, uniform(generator, shape, dtype, 3.0, 4.0), upper,
            normal(generator, shape, dtype),
        )

    return make


def _toeplitz(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    """Lags whose matrix is definite, in whatever order they are: together they are below 1."""
    count = side(elements)
    return (uniform(generator, count, dtype, -0.5, 0.5) / count,)


DOUBLE = ("float64",)
WORKLOADS = (
    Workload(
        "garch", FAMILY, "variances that remember", garch, given(drawn(normal), 0.1, 0.1, 0.8),
        sizes=sizes_of(2_000, 50_000, 500_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "exponential_smoothing", FAMILY, "a level follows a series", exponential_smoothing,
        given(drawn(normal), 0.3),
        sizes=sizes_of(2_000, 100_000, 1_000_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "biquad", FAMILY, "a second-order filter", biquad, _filtered,
        sizes=sizes_of(2_000, 50_000, 500_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "thomas", FAMILY, "one tridiagonal system", thomas, _systems(False),
        sizes=sizes_of(2_000, 50_000, 500_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "thomas_columns", FAMILY, "many tridiagonal systems", thomas_columns, _systems(True),
        sizes=sizes_of(4_096, 262_144, 1_048_576), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "horner", FAMILY, "a polynomial with an array of coefficients", horner,
        given(drawn(normal, shape=lambda _: 24), drawn(uniform, -1.0, 1.0)),
        sizes=sizes_of(4_000, 200_000, 2_000_000), dtypes=("float64", "float32"),
        tolerance_eps=64,
    ),
    Workload(
        "logistic_map", FAMILY, "r x (1 - x), a hundred times", logistic_map,
        given(drawn(uniform, 1.5, 2.9), drawn(uniform, 0.2, 0.8), 100),
        sizes=sizes_of(4_000, 100_000, 1_000_000), dtypes=DOUBLE, tolerance_eps=512,
    ),
    Workload(
        "durbin", FAMILY, "the Yule-Walker equations", durbin, _toeplitz,
        sizes=sizes_of(4_096, 1_000_000, 4_000_000), dtypes=DOUBLE, tolerance_eps=4096,
    ),
    Workload(
        "deriche_rows", FAMILY, "recursive smoothing along rows", deriche_rows,
        given(drawn(uniform, 0.0, 1.0, shape=partial(square, least=2)), 0.6),
        sizes=sizes_of(4_096, 262_144, 1_048_576), dtypes=DOUBLE, tolerance_eps=64,
    ),
)
