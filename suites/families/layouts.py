"""The same arithmetic on operands that are broadcast, strided, transposed, reversed or mixed."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    Arguments,
    Array,
    Workload,
    drawn,
    given,
    normal,
    normals,
    row_length,
    rows_of,
    side,
    square,
    whole,
)

BROADCAST = "broadcast and bias"
LAYOUT = "layout"


def bias_add(x: Array, bias: Array) -> Any:
    """A row vector added to every row of a matrix."""
    return x + bias


def standardise(x: Array, mean: Array, deviation: Array) -> Any:
    """Columns brought to mean 0 and deviation 1, and bounded at three deviations."""
    return np.minimum(np.maximum((x - mean) / deviation, -3), 3)


def outer_distance(x: Array, y: Array) -> Any:
    """Squared distances between two sets of points on a line, softened."""
    difference = x[:, np.newaxis] - y[np.newaxis, :]
    return 1 / (difference * difference + 0.01)


def strided(a: Array, b: Array) -> Any:
    """From numexpr's bench/timing.py, with every other element of a longer array."""
    return 2 * a + 3 * b


def transposed(a: Array, b: Array) -> Any:
    """The symmetric part of a matrix, with a transposed second operand."""
    return 0.5 * (a + b.T)


def reversed_difference(a: Array) -> Any:
    """A vector minus itself backwards: the odd part of a sampled function."""
    return 0.5 * (a - a[::-1])


def fortran_pair(a: Array, b: Array) -> Any:
    """Two matrices whose columns lie together in memory: no copy is needed."""
    return a * b - 0.5 * a


def permuted_relu(x: Array, y: Array) -> Any:
    """NVIDIA/Fuser's transpose benchmark: relu of a sum, with axes in another order."""
    return np.maximum(np.transpose(x, (0, 2, 1)) + y, 0)


def rotated_pairs(x: Array, cosine: Array, sine: Array) -> Any:
    """Rotary position embedding (Su et al., arXiv:2104.09864): halves of a row turned."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return np.concatenate(
        (first * cosine - second * sine, second * cosine + first * sine), axis=-1
    )


def record_fields(x: Array, y: Array, z: Array) -> Any:
    """The length of vectors whose components lie side by side: a stride of three elements."""
    return np.sqrt(x * x + y * y + z * z)


def mixed_dtypes(counts: Array, gain: Array, offset: Array) -> Any:
    """Sensor calibration: 16-bit counts times a gain plus an offset, then squared."""
    signal = counts * gain + offset
    return signal * signal


def _deviations(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Array:
    values: Array = np.abs(normal(generator, row_length(elements), dtype)) + np.asarray(0.5, dtype)
    return values


_rows, _row = drawn(normal, shape=rows_of), drawn(normal, shape=row_length)
_two_columns = given(*[drawn(normal, shape=side)] * 2)
"""The largest array of the call is the result: `elements` counts it here."""


_every_other = given(*[drawn(normal, shape=lambda elements: 2 * elements, step=2)] * 2)
_square_pair = given(*[drawn(normal, shape=square)] * 2)
_sensor = given(whole(-2000, 2000, np.int16), *[drawn(normal)] * 2)


def _fortran(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    return tuple(each.T for each in _square_pair(elements, dtype, generator))


def _box(elements: int) -> tuple[int, int, int]:
    depth = min(16, elements)
    return depth, side(elements // depth), side(elements // depth)


def _embedded(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator, hidden: int = 128
) -> Arguments:
    half = max(1, hidden // 2)
    rows = max(1, elements // (2 * half))
    x = normal(generator, (rows, 2 * half), dtype)
    return x, normal(generator, (rows, half), dtype), normal(generator, (rows, half), dtype)


def _triples(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    points = normal(generator, (elements, 3), dtype)
    return points[:, 0], points[:, 1], points[:, 2]


WORKLOADS = (
    Workload("bias_add", BROADCAST, "a row added to rows of 1,024", bias_add, given(_rows, _row)),
    Workload(
        "standardise", BROADCAST, "columns standardised and bounded", standardise,
        given(_rows, _row, _deviations), tolerance_eps=32,
    ),
    Workload(
        "outer_distance", BROADCAST, "all pairs of two vectors: the result is the large array",
        outer_distance, _two_columns, tolerance_eps=64,
        note="The size counts the result: the two inputs are its sides.",
    ),
    Workload("strided", LAYOUT, "operands with a stride of two elements", strided, _every_other),
    Workload("transposed", LAYOUT, "a matrix plus a transposed one", transposed, _square_pair),
    Workload(
        "reversed_difference", LAYOUT, "a vector minus itself backwards", reversed_difference,
        normals(1),
    ),
    Workload("fortran_pair", LAYOUT, "two matrices in Fortran's order", fortran_pair, _fortran),
    Workload(
        "permuted_relu", LAYOUT, "relu of a sum with axes exchanged", permuted_relu,
        given(*[drawn(normal, shape=_box)] * 2),
    ),
    Workload(
        "rotated_pairs", LAYOUT, "rotary embedding: halves of rows turned and joined",
        rotated_pairs, _embedded, axes={"hidden": (128, 64, 96)},
    ),
    Workload(
        "record_fields", LAYOUT, "vector lengths from interleaved components", record_fields,
        _triples,
    ),
    Workload("mixed_dtypes", LAYOUT, "16-bit integers with floats", mixed_dtypes, _sensor),
)
