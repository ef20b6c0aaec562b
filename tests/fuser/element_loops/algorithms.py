"""Algorithms as loops over elements, beside those of the suites, with arguments to try them on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_RNG = np.random.default_rng(7)
_N = 12


def _positive(n: int = _N) -> Any:
    """A symmetric matrix that a factorisation takes."""
    half = _RNG.standard_normal((n, n))
    return half @ half.T + n * np.eye(n)


def floyd_warshall(path: Any, n: int) -> None:
    """Shortest paths in place."""
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if path[i, k] + path[k, j] < path[i, j]:
                    path[i, j] = path[i, k] + path[k, j]


def ludcmp(a: Any, b: Any) -> tuple[Any, Any]:
    """Factors, and the solution of a system by them."""
    n = len(b)
    x, y = np.zeros_like(b), np.zeros_like(b)
    for i in range(n):
        for j in range(i):
            w = a[i, j]
            for k in range(j):
                w -= a[i, k] * a[k, j]
            a[i, j] = w / a[j, j]
        for j in range(i, n):
            w = a[i, j]
            for k in range(i):
                w -= a[i, k] * a[k, j]
            a[i, j] = w
    for i in range(n):
        w = b[i]
        for j in range(i):
            w -= a[i, j] * y[j]
        y[i] = w
    for i in range(n - 1, -1, -1):
        w = y[i]
        for j in range(i + 1, n):
            w -= a[i, j] * x[j]
        x[i] = w / a[i, i]
    return x, y


def cholesky(a: Any) -> None:
    """The root of a matrix, in place."""
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, len(a)):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
        for k in range(i):
            a[i, i] -= a[i, k] * a[i, k]
        a[i, i] = math.sqrt(a[i, i])


def symm(alpha: float, beta: float, c: Any, a: Any, b: Any) -> None:
    """A product with a symmetric matrix."""
    m, n = c.shape
    for i in range(m):
        for j in range(n):
            temp = 0.0
            for k in range(i):
                c[k, j] += alpha * b[i, j] * a[i, k]
                temp += b[k, j] * a[i, k]
            c[i, j] = beta * c[i, j] + alpha * b[i, j] * a[i, i] + alpha * temp


def syr2k(alpha: float, beta: float, c: Any, a: Any, b: Any) -> None:
    """An update of rank 2k."""
    for i in range(a.shape[0]):
        for j in range(i + 1):
            c[i, j] *= beta
        for k in range(a.shape[1]):
            for j in range(i + 1):
                c[i, j] += a[j, k] * alpha * b[i, k] + b[j, k] * alpha * a[i, k]


def trmm(alpha: float, a: Any, b: Any) -> None:
    """A triangular product in place."""
    m, n = b.shape
    for i in range(m):
        for j in range(n):
            for k in range(i + 1, m):
                b[i, j] += a[k, i] * b[k, j]
            b[i, j] = alpha * b[i, j]


def seidel(a: Any, steps: int) -> None:
    """Gauss and Seidel's sweeps over nine points."""
    n = len(a)
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a[i, j] = (
                    a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1] + a[i, j - 1] + a[i, j]
                    + a[i, j + 1] + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                ) / 9.0  # fmt: skip


def spmv(rows: Any, columns: Any, values: Any, x: Any) -> Any:
    """A sparse product."""
    y = np.empty(len(rows) - 1, values.dtype)
    for i in range(len(rows) - 1):
        total = 0.0
        for k in range(rows[i], rows[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


def gauss(a: Any, b: Any) -> Any:
    """Elimination with pivots."""
    n = len(b)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                a[k, j], a[pivot, j] = a[pivot, j], a[k, j]
            b[k], b[pivot] = b[pivot], b[k]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= factor * a[k, j]
            b[i] -= factor * b[k]
    x = np.zeros(n)
    for i in reversed(range(n)):
        s = b[i]
        for j in range(i + 1, n):
            s -= a[i, j] * x[j]
        x[i] = s / a[i, i]
    return x


def mandelbrot(xs: Any, ys: Any, limit: int) -> Any:
    """Counts until points escape."""
    out = np.zeros((len(ys), len(xs)), np.int64)
    for i in range(len(ys)):
        for j in range(len(xs)):
            x = y = 0.0
            for k in range(limit):  # noqa: B007 - it is read afterwards
                if x * x + y * y > 4.0:
                    break
                x, y = x * x - y * y + xs[j], 2 * x * y + ys[i]
            else:
                k = limit
            out[i, j] = k
    return out


def collatz(n: int) -> int:
    """Steps until 1."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def histogram(x: Any, low: float, high: float, bins: int) -> Any:
    """Counts by bin."""
    counts = np.zeros(bins, np.int64)
    for v in x:
        if low <= v < high:
            counts[int((v - low) / (high - low) * bins)] += 1
    return counts


def prefix(x: Any) -> Any:
    """Sums up to each element."""
    out = np.empty_like(x)
    s = 0
    for i in range(len(x)):
        s += x[i]
        out[i] = s
    return out


def search(x: Any, wanted: float) -> int:
    """Where a value lies in a sorted array."""
    low, high = 0, len(x) - 1
    while low <= high:
        middle = (low + high) // 2
        if x[middle] == wanted:
            return middle
        if x[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1


def newton(a: Any) -> Any:
    """Roots by Newton's iteration."""
    out = np.zeros(len(a))
    for i in range(len(a)):
        x = a[i] if a[i] > 1 else 1.0
        while abs(x * x - a[i]) > 1e-12 * a[i]:
            x = 0.5 * (x + a[i] / x)
        out[i] = x
    return out


def sieve(n: int) -> Any:
    """Prime numbers."""
    prime = np.ones(n + 1, np.bool_)
    prime[0] = prime[1] = False
    i = 2
    while i * i <= n:
        if prime[i]:
            for j in range(i * i, n + 1, 1):
                if j % i == 0:
                    prime[j] = False
        i += 1
    return prime


def insertion_sort(x: Any) -> None:
    """Sorts in place."""
    for i in range(1, len(x)):
        v, j = x[i], i - 1
        while j >= 0 and x[j] > v:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = v


def knapsack(weights: Any, values: Any, room: int) -> Any:
    """The best value."""
    best = np.zeros(room + 1, values.dtype)
    for w, v in zip(weights, values):  # noqa: B905
        for c in range(room, w - 1, -1):
            if best[c - w] + v > best[c]:
                best[c] = best[c - w] + v
    return best


def extremes(x: Any) -> tuple[Any, Any, int]:
    """The least, the largest, and where."""
    least = largest = x[0]
    place = 0
    for i in range(1, x.size):
        if x[i] < least:
            least = x[i]
        elif x[i] > largest:
            largest, place = x[i], i
    return least, largest, place


def levinson(r: Any) -> Any:
    """A Toeplitz system by Levinson's recursion, on slices of moving lengths beside elements."""
    y = np.empty_like(r)
    error, reflected = 1.0, -r[0]
    y[0] = reflected
    for k in range(1, r.shape[0]):
        error *= 1.0 - reflected * reflected
        reflected = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / error
        y[:k] += reflected * np.flip(y[:k])
        y[k] = reflected
    return y


def _walk(n: int) -> Any:
    """Numbers around 0."""
    return _RNG.standard_normal(n)


#: Functions, and arguments for them.
ALGORITHMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (floyd_warshall, (_RNG.random((_N, _N)), _N)),
    (ludcmp, (_positive(), _walk(_N))),
    (cholesky, (_positive(),)),
    (symm, (1.5, 1.2, _positive(), _positive(), _positive())),
    (syr2k, (1.5, 1.2, _positive(), _positive(), _positive())),
    (trmm, (1.5, _positive(), _positive())),
    (seidel, (_RNG.random((_N, _N)), 3)),
    (spmv, (np.array([0, 2, 2, 5]), np.array([0, 3, 1, 2, 3]), _walk(5), _walk(4))),
    (gauss, (_RNG.random((_N, _N)), _walk(_N))),
    (mandelbrot, (np.linspace(-2, 1, 9), np.linspace(-1, 1, 7), 30)),
    (collatz, (27,)),
    (histogram, (_RNG.random(60), 0.1, 0.9, 8)),
    (levinson, (0.25 ** np.arange(1.0, 8.0),)),
    (prefix, (_walk(_N),)),
    (prefix, (_RNG.integers(-9, 9, _N).astype(np.int16),)),
    (search, (np.arange(40.0), 17.0)),
    (search, (np.arange(40.0), 17.5)),
    (newton, (_RNG.random(_N) * 9,)),
    (sieve, (60,)),
    (insertion_sort, (_walk(20),)),
    (knapsack, (_RNG.integers(1, 9, 7), _RNG.random(7), 30)),
    (extremes, (_walk(30),)),
    (extremes, (_RNG.integers(0, 200, 30).astype(np.uint8),)),
]
