"""A reduction, then arithmetic with its result on the same data: normalisations and losses."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    HIDDEN,
    Arguments,
    Array,
    Workload,
    column_length,
    drawn,
    given,
    matrix_and_rows,
    row_length,
    rows_of,
    uniform,
)

FAMILY = "reduce then broadcast"
AXES = {"hidden": HIDDEN}
EPSILON = 1e-5


def softmax(x: Array) -> Any:
    """Bridle, 1990; shifted by the row's maximum so that nothing overflows."""
    weights = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)


def log_softmax(x: Array) -> Any:
    """The logarithm of softmax, without leaving the logarithm."""
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def softmax_backward(gradient: Array, y: Array) -> Any:
    """The gradient of softmax with respect to its input, from its output y."""
    return (gradient - np.sum(gradient * y, axis=-1, keepdims=True)) * y


def masked_softmax(x: Array, keep: Array) -> Any:
    """The core of attention: scaled by 1/8, masked with a large negative number, softmax."""
    scaled = np.where(keep, x * 0.125, -1e9)
    weights = np.exp(scaled - np.max(scaled, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)


def layer_norm(x: Array, weight: Array, bias: Array) -> Any:
    """Ba, Kiros and Hinton, arXiv:1607.06450, on the last axis."""
    mean = np.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + EPSILON) * weight + bias


def layer_norm_backward(gradient: Array, x: Array, weight: Array) -> Any:
    """The gradient of layer norm with respect to x: three sums over each row."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + EPSILON)
    scaled = gradient * weight
    normal = centred * inverse
    along = np.mean(scaled * normal, axis=-1, keepdims=True)
    return inverse * (scaled - np.mean(scaled, axis=-1, keepdims=True) - normal * along)


def rms_norm(x: Array, weight: Array) -> Any:
    """Zhang and Sennrich, arXiv:1910.07467."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * weight


def add_rms_norm(x: Array, residual: Array, weight: Array) -> Any:
    """A residual added, then rms norm of the sum: both are results."""
    total = x + residual
    scale = np.sqrt(np.mean(total * total, axis=-1, keepdims=True) + EPSILON)
    return total, total / scale * weight


def batch_norm(x: Array, weight: Array, bias: Array) -> Any:
    """Ioffe and Szegedy, arXiv:1502.03167, in training: statistics of every column."""
    mean = np.mean(x, axis=0)
    variance = np.var(x, axis=0)
    return (x - mean) / np.sqrt(variance + EPSILON) * weight + bias


def group_norm(x: Array) -> Any:
    """Wu and He, arXiv:1803.08494: rows in 4 groups of neighbouring channels."""
    grouped = x.reshape(x.shape[0], 4, -1)
    mean = np.mean(grouped, axis=-1, keepdims=True)
    variance = np.var(grouped, axis=-1, keepdims=True)
    return (grouped - mean) / np.sqrt(variance + EPSILON)


def standard_rows(x: Array) -> Any:
    """Every row brought to mean 0 and deviation 1."""
    mean = np.mean(x, axis=-1, keepdims=True)
    return (x - mean) / np.std(x, axis=-1, keepdims=True)


def standard_columns(x: Array) -> Any:
    """Every column brought to mean 0 and deviation 1."""
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0)


def anomaly(x: Array) -> Any:
    """A climatology's anomaly: years, days of the year and places, less the means over years."""
    return x - np.mean(x, axis=0)


def unit_rows(x: Array) -> Any:
    """Every row divided by its Euclidean norm."""
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))


def cross_entropy(logits: Array, target: Array, classes: Array) -> Any:
    """The loss of every row: log sum exp of its logits minus the logit of its class."""
    largest = np.max(logits, axis=-1)
    shifted = logits - largest[:, np.newaxis]
    chosen = np.sum(np.where(classes == target[:, np.newaxis], shifted, 0), axis=-1)
    return np.log(np.sum(np.exp(shifted), axis=-1)) - chosen


def divergence(p: Array, q: Array) -> Any:
    """Kullback and Leibler, Ann. Math. Statist. 22(1), 1951: the sum of p log(p / q) by row."""
    return np.sum(p * np.log(p / q), axis=-1)


def row_correlation(x: Array, y: Array) -> Any:
    """Pearson's correlation of every row of x with the same row of y."""
    x = x - np.mean(x, axis=-1, keepdims=True)
    y = y - np.mean(y, axis=-1, keepdims=True)
    both = np.sum(x * y, axis=-1)
    return both / np.sqrt(np.sum(x * x, axis=-1) * np.sum(y * y, axis=-1))


def gelu_backward_bias(gradient: Array, x: Array, bias: Array) -> Any:
    """The gradient of bias and gelu (tanh form), and its sum over rows: the bias's gradient."""
    u = x + bias
    inner = np.tanh(0.79788456 * u * (1 + 0.044715 * u * u))
    slope = 0.79788456 * (1 + 0.134145 * u * u)
    result = gradient * (0.5 * (1 + inner) + 0.5 * u * (1 - inner * inner) * slope)
    return result, np.sum(result, axis=0)


def _grouped(elements: int, hidden: int) -> tuple[int, int]:
    rows, columns = rows_of(max(elements, 8), max(hidden, 8))
    return rows, columns // 4 * 4


def _at_least(elements: int, hidden: int, least: int = 2) -> tuple[int, int]:
    # one value alone has no deviation to divide by
    return rows_of(max(elements, least), max(hidden, least))


def _two_rows(elements: int, hidden: int) -> tuple[int, int]:
    rows, columns = rows_of(max(elements, 2), hidden)
    return max(2, rows), columns


def _years(elements: int) -> tuple[int, int, int]:
    # at tiny sizes fewer years and days
    years = min(30, max(1, elements // 8))
    days = min(365, max(1, elements // years // 2))
    return years, days, max(1, elements // years // days)


def _masked(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator, hidden: int = 1024
) -> Arguments:
    shape = rows_of(elements, hidden)
    keep = generator.random(shape, dtype=np.float32) < 0.8
    keep[:, 0] = True
    return uniform(generator, shape, dtype, -20.0, 20.0), keep


def _labelled(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator, hidden: int = 1024
) -> Arguments:
    rows, columns = rows_of(elements, hidden)
    logits = uniform(generator, (rows, columns), dtype, -4.0, 4.0)
    return logits, generator.integers(0, columns, rows), np.arange(columns)


def _correlated(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator, hidden: int = 1024
) -> Arguments:
    shape = _at_least(elements, hidden, 3)
    x = uniform(generator, shape, dtype, -1.0, 1.0)
    noise = uniform(generator, shape, dtype, -1.0, 1.0)
    return x, np.asarray(0.6 * x + 0.4 * noise, dtype)


ROWS = matrix_and_rows(0, -3.0, 3.0)

WORKLOADS = (
    Workload(
        "softmax", FAMILY, "softmax of every row", softmax, ROWS, axes=AXES, reduced=row_length,
        quick=True, sweep=True, tolerance_eps=32,
    ),
    Workload(
        "log_softmax", FAMILY, "log softmax of every row", log_softmax, ROWS, axes=AXES,
        reduced=row_length, tolerance_eps=32,
    ),
    Workload(
        "softmax_backward", FAMILY, "the gradient of softmax", softmax_backward,
        matrix_and_rows(0, 0.0, 1.0, 2), axes=AXES, reduced=row_length, tolerance_eps=32,
    ),
    Workload(
        "masked_softmax", FAMILY, "scale, mask and softmax, as in attention", masked_softmax,
        _masked, axes=AXES, reduced=row_length, tolerance_eps=64,
    ),
    Workload(
        "layer_norm", FAMILY, "layer norm with weight and bias", layer_norm,
        matrix_and_rows(2, -0.5, 1.0), axes=AXES, reduced=row_length, quick=True, tolerance_eps=64,
    ),
    Workload(
        "layer_norm_backward", FAMILY, "the gradient of layer norm", layer_norm_backward,
        matrix_and_rows(1, -0.5, 1.0, 2), axes=AXES, reduced=row_length, tolerance_eps=128,
    ),
    Workload(
        "rms_norm", FAMILY, "rms norm with a weight", rms_norm, matrix_and_rows(1), axes=AXES,
        reduced=row_length, tolerance_eps=32,
    ),
    Workload(
        "add_rms_norm", FAMILY, "a residual added, then rms norm: two outputs", add_rms_norm,
        matrix_and_rows(1, matrices=2), axes=AXES, reduced=row_length, tolerance_eps=32,
    ),
    Workload(
        "batch_norm", FAMILY, "batch norm in training: statistics of columns", batch_norm,
        matrix_and_rows(2, -0.5, 1.0), axes=AXES, reduced=column_length, growth="root",
        tolerance_eps=64,
    ),
    Workload(
        "group_norm", FAMILY, "every row normalised in four groups", group_norm,
        given(drawn(uniform, -0.5, 1.0, shape=_grouped)),
        axes=AXES, reduced=row_length, tolerance_eps=64,
    ),
    Workload(
        "standard_rows", FAMILY, "rows brought to mean 0 and deviation 1", standard_rows,
        given(drawn(uniform, -0.5, 1.0, shape=_at_least)), axes=AXES, reduced=row_length,
        tolerance_eps=64,
    ),
    Workload(
        "standard_columns", FAMILY, "columns brought to mean 0 and deviation 1", standard_columns,
        given(drawn(uniform, -0.5, 1.0, shape=_two_rows)), axes=AXES, reduced=column_length,
        growth="root", tolerance_eps=64,
    ),
    Workload(
        "anomaly", FAMILY, "departures from the means of thirty years", anomaly,
        given(drawn(uniform, 250.0, 310.0, shape=_years)),
        reduced=lambda elements: min(30, max(1, elements // 8)), growth="root", tolerance_eps=512,
    ),
    Workload(
        "unit_rows", FAMILY, "rows divided by their norm", unit_rows, matrix_and_rows(0, 0.5, 2.0),
        axes=AXES, reduced=row_length,
    ),
    Workload(
        "cross_entropy", FAMILY, "the loss of every row's class", cross_entropy, _labelled,
        axes=AXES, reduced=row_length, tolerance_eps=64,
    ),
    Workload(
        "divergence", FAMILY, "p log(p / q) summed by row", divergence,
        matrix_and_rows(0, 0.5, 1.5, 2), axes=AXES, reduced=row_length, tolerance_eps=64,
    ),
    Workload(
        "row_correlation", FAMILY, "the correlation of rows", row_correlation, _correlated,
        axes=AXES, reduced=row_length, tolerance_eps=64,
    ),
    Workload(
        "gelu_backward_bias", FAMILY, "the gradient of bias and gelu, and its column sums",
        gelu_backward_bias, matrix_and_rows(1, -0.5, 1.0, 2), axes=AXES, reduced=column_length,
        growth="root", tolerance_eps=64,
    ),
)
