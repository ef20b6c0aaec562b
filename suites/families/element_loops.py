"""Element loops: dynamic programming, factorisations and checksums, written element by element."""

from functools import partial
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
    whole,
)

FAMILY = "element loops"


def floyd_warshall(distance: Array) -> Any:
    """Shortest paths between all pairs, one more node allowed on the way each turn."""
    path = distance.copy()
    for k in range(path.shape[0]):
        path = np.minimum(path, path[:, k, None] + path[k, :])
    return path


def nussinov(sequence: Array) -> Any:
    """The most pairs that a folded sequence can form: a table by its diagonals."""
    n = sequence.shape[0]
    table = np.zeros((n, n), np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            best = max(table[i, j - 1], table[i + 1, j])
            pair = 1 if sequence[i] + sequence[j] == 3 else 0
            if i < j - 1:
                best = max(best, table[i + 1, j - 1] + pair)
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table


def edit_distance(a: Array, b: Array) -> Any:
    """The fewest edits between two sequences (Wagner and Fischer, 1974), row by row."""
    before = np.arange(b.shape[0] + 1)
    for i in range(a.shape[0]):
        now = np.empty_like(before)
        now[0] = i + 1
        for j in range(b.shape[0]):
            cost = 0 if a[i] == b[j] else 1
            now[j + 1] = min(before[j + 1] + 1, now[j] + 1, before[j] + cost)
        before = now
    return before


def lu(matrix: Array) -> Any:
    """Factors of a matrix without pivots, both in one array."""
    a = matrix.copy()
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


def cholesky(matrix: Array) -> Any:
    """The lower factor of a positive definite matrix; the upper triangle stays."""
    a = matrix.copy()
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, a.shape[0]):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])
    return a


def trisolv(lower: Array, b: Array) -> Any:
    """A lower triangular system by forward substitution."""
    x = np.zeros_like(b)
    for i in range(b.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def crc16(data: Array, polynomial: int) -> Any:
    """A cyclic checksum of 16 bits, one bit of data at a time; all along the way are kept."""
    crc = 0xFFFF
    sums = np.empty(data.shape[0], np.int64)
    for i in range(data.shape[0]):
        crc ^= int(data[i])
        for _ in range(8):
            if crc & 1:
                crc = (crc >> 1) ^ polynomial
            else:
                crc >>= 1
        sums[i] = crc
    return sums


def spmv(starts: Array, columns: Array, values: Array, x: Array) -> Any:
    """A sparse matrix in compressed rows, times a vector."""
    y = np.empty(starts.shape[0] - 1, values.dtype)
    for i in range(y.shape[0]):
        row = columns[starts[i] : starts[i + 1]]
        y[i] = values[starts[i] : starts[i + 1]] @ x[row]
    return y


def seidel_2d(plane: Array, steps: int) -> Any:
    """Nine points averaged in place: a row uses the row above and the element to the left."""
    a = plane.copy()
    n = a.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            a[i, 1:-1] += (
                a[i - 1, :-2] + a[i - 1, 1:-1] + a[i - 1, 2:] + a[i, 2:]
                + a[i + 1, :-2] + a[i + 1, 1:-1] + a[i + 1, 2:]
            )
            for j in range(1, n - 1):
                a[i, j] += a[i, j - 1]
                a[i, j] /= 9.0
    return a


def gram_schmidt(matrix: Array) -> Any:
    """Orthonormal columns, one after the other (modified), and their triangle."""
    a = matrix.copy()
    q, r = np.zeros_like(a), np.zeros((a.shape[1], a.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(np.dot(a[:, k], a[:, k]))
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


_distances = given(whole(1, 1000, shape=square))


_bases = whole(0, 4, shape=side)


def _definite(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    """A definite matrix; it stays far from a singular one where another value is on its diagonal.

    Checks write an element into the place of another. Values around 1/n leave pivots of 1/(2n).
    """
    count = side(elements)
    half = uniform(generator, (count, count), dtype, 0.45, 0.55) / count
    return (half + half.T + 2 * np.eye(count, dtype=dtype),)


def _triangle(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    (matrix,) = _definite(elements, dtype, generator)
    return matrix, normal(generator, len(matrix), dtype)


_bytes = given(whole(0, 256), 0x8408)


def _sparse(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    """Rows of about sixteen values each, none empty; of the same lengths whatever the seed."""
    rows = max(2, elements // 16)
    lengths = np.random.default_rng(elements).integers(1, 32, rows)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    columns = generator.integers(0, rows, starts[-1])
    return starts, columns, uniform(generator, starts[-1], dtype, 0.0, 1.0), normal(
        generator, rows, dtype
    )


def _tall(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    columns = side(max(1, elements // 2))
    noise = uniform(generator, (2 * columns, columns), dtype, 0.0, 1.0)
    return (noise + 3 * np.eye(2 * columns, columns, dtype=dtype),)


DOUBLE = ("float64",)
WORKLOADS = (
    Workload(
        "floyd_warshall", FAMILY, "shortest paths between all pairs", floyd_warshall, _distances,
        sizes=sizes_of(4_096, 40_000, 160_000), dtypes=("int32", "float64"), tolerance_eps=16,
    ),
    Workload(
        "nussinov", FAMILY, "how a sequence folds", nussinov, given(_bases),
        sizes=sizes_of(900, 3_600, 10_000), dtypes=("int64",),
    ),
    Workload(
        "edit_distance", FAMILY, "the fewest edits", edit_distance, given(_bases, _bases),
        sizes=sizes_of(4_096, 65_536, 262_144), dtypes=("int64",),
    ),
    Workload(
        "lu", FAMILY, "factors without pivots", lu, _definite,
        sizes=sizes_of(4_096, 40_000, 90_000), dtypes=DOUBLE, tolerance_eps=1024,
    ),
    Workload(
        "cholesky", FAMILY, "the factor of a definite matrix", cholesky, _definite,
        sizes=sizes_of(4_096, 40_000, 90_000), dtypes=DOUBLE, tolerance_eps=1024,
    ),
    Workload(
        "trisolv", FAMILY, "forward substitution", trisolv, _triangle,
        sizes=sizes_of(4_096, 1_000_000, 4_000_000), dtypes=DOUBLE, tolerance_eps=1024,
    ),
    Workload(
        "crc16", FAMILY, "a checksum, bit by bit", crc16, _bytes,
        sizes=sizes_of(2_000, 40_000, 400_000), dtypes=("uint8",),
    ),
    Workload(
        "spmv", FAMILY, "a sparse matrix by its rows", spmv, _sparse,
        # a check writes another place into `starts`: a row may have a thousand times as many values
        sizes=sizes_of(4_096, 262_144, 2_097_152), dtypes=DOUBLE, tolerance_eps=1024,
    ),
    Workload(
        "seidel_2d", FAMILY, "nine points averaged in place", seidel_2d,
        given(drawn(uniform, 0.0, 1.0, shape=partial(square, least=3)), 3),
        sizes=sizes_of(2_500, 22_500, 90_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "gram_schmidt", FAMILY, "orthonormal columns", gram_schmidt, _tall,
        sizes=sizes_of(4_096, 20_000, 80_000), dtypes=DOUBLE, tolerance_eps=4096,
    ),
)
