"""Reductions alone: whole arrays, rows and columns."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    HIDDEN,
    Array,
    Workload,
    column_length,
    matrix_and_rows,
    row_length,
    uniforms,
)

FAMILY = "reduction"
AXES = {"hidden": HIDDEN}


def sum_of_squares(x: Array) -> Any:
    """The squared Euclidean norm of everything."""
    return np.sum(x * x)


def dot(x: Array, y: Array) -> Any:
    """The inner product of two vectors."""
    return np.dot(x, y)


def value_range(x: Array) -> Any:
    """Smallest and largest element: two reductions over the same data."""
    return np.min(x), np.max(x)


def mean_absolute_error(x: Array, y: Array) -> Any:
    """The mean distance of two vectors: three operations before the sum."""
    return np.mean(np.abs(x - y))


def row_mean(x: Array) -> Any:
    """The mean of every row."""
    return np.mean(x, axis=-1)


def column_mean(x: Array) -> Any:
    """The mean of every column: neighbours in memory belong to different sums."""
    return np.mean(x, axis=0)


def row_variance(x: Array) -> Any:
    """Mean and variance of every row."""
    return np.mean(x, axis=-1), np.var(x, axis=-1)


def column_variance(x: Array) -> Any:
    """Mean and variance of every column."""
    return np.mean(x, axis=0), np.var(x, axis=0)


def row_range(x: Array) -> Any:
    """Smallest and largest element of every row."""
    return np.min(x, axis=-1), np.max(x, axis=-1)


def row_argmax(x: Array) -> Any:
    """Where every row is largest."""
    return np.argmax(x, axis=-1)


def row_norm(x: Array) -> Any:
    """The Euclidean norm of every row: dpbench's l2_norm, sqrt(sum(a^2, -1))."""
    return np.sqrt(np.sum(x * x, axis=-1))


def row_logsumexp(x: Array) -> Any:
    """log sum exp of every row, shifted by its maximum so that nothing overflows."""
    largest = np.max(x, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(x - largest), axis=-1)) + largest[:, 0]


def above_threshold(x: Array) -> Any:
    """How many elements of every row are above one half."""
    return np.count_nonzero(x > 0.5, axis=-1)


ROWS = matrix_and_rows(0, -0.5, 1.0)

WORKLOADS = (
    Workload(
        "sum_of_squares", FAMILY, "the sum of all squares", sum_of_squares, uniforms((-2.0, 2.0)),
        reduced=int, quick=True,
    ),
    Workload(
        "dot", FAMILY, "the inner product of two vectors", dot, uniforms((0.0, 1.0), (-0.5, 1.0)),
        reduced=int, growth="root",
    ),
    Workload(
        "value_range", FAMILY, "smallest and largest of everything", value_range,
        uniforms((-2.0, 2.0)),
    ),
    Workload(
        "mean_absolute_error", FAMILY, "the mean distance of two vectors", mean_absolute_error,
        uniforms((-1.0, 1.0), (-1.0, 1.0)), reduced=int,
    ),
    Workload(
        "row_mean", FAMILY, "the mean of every row", row_mean, ROWS, axes=AXES, reduced=row_length
    ),
    Workload(
        "column_mean", FAMILY, "the mean of every column", column_mean, ROWS, axes=AXES,
        reduced=column_length, growth="root", quick=True,
    ),
    Workload(
        "row_variance", FAMILY, "mean and variance of every row", row_variance, ROWS, axes=AXES,
        reduced=row_length, tolerance_eps=32,
    ),
    Workload(
        "column_variance", FAMILY, "mean and variance of every column", column_variance, ROWS,
        axes=AXES, reduced=column_length, growth="root", tolerance_eps=32,
    ),
    Workload(
        "row_range", FAMILY, "smallest and largest of every row", row_range, ROWS, axes=AXES
    ),
    Workload(
        "row_argmax", FAMILY, "where every row is largest", row_argmax,
        matrix_and_rows(0, -4.0, 4.0), axes=AXES,
    ),
    Workload(
        "row_norm", FAMILY, "the Euclidean norm of every row", row_norm, ROWS, axes=AXES,
        reduced=row_length,
    ),
    Workload(
        "row_logsumexp", FAMILY, "log sum exp of every row", row_logsumexp, ROWS, axes=AXES,
        reduced=row_length, tolerance_eps=32,
    ),
    Workload(
        "above_threshold", FAMILY, "how many of every row are above a bound", above_threshold,
        ROWS, axes=AXES,
    ),
)
