"""Loops as a person writes them for numba: a row a turn of `prange`, `fastmath`, all in one pass.

Each has the name, the arguments and the results of a workload. Sums of columns are taken by each
thread over a block of rows, so that memory is read from one end to the other. Those of whole
programs are in `loop_programs.py`.
"""

import types
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from fuser.suites.peers.loop_programs import PROGRAMS
from fuser.suites.peers.numba_runner import FASTMATH
from fuser.suites.runners import NotExpressibleError, Runner, refusals
from fuser.suites.workload import Arguments

Array = Any
prange = range
"""numba's, once a loop is compiled."""
EPSILON = 1e-5


def largest_of(row: Array) -> Any:
    """The largest value: eight running ones, since numba makes no vectors of one."""
    a = b = c = d = e = f = g = h = row[0]
    whole = row.size // 8 * 8
    for j in range(0, whole, 8):
        a, b, c, d = max(a, row[j]), max(b, row[j + 1]), max(c, row[j + 2]), max(d, row[j + 3])
        e, f = max(e, row[j + 4]), max(f, row[j + 5])
        g, h = max(g, row[j + 6]), max(h, row[j + 7])
    largest = max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))
    for j in range(whole, row.size):
        largest = max(largest, row[j])
    return largest


def extremes_of(row: Array) -> Any:
    """The least and the largest value, with four running ones of each."""
    a = b = c = d = p = q = r = s = row[0]
    whole = row.size // 4 * 4
    for j in range(0, whole, 4):
        v, w, x, y = row[j], row[j + 1], row[j + 2], row[j + 3]
        a, b, c, d = min(a, v), min(b, w), min(c, x), min(d, y)
        p, q, r, s = max(p, v), max(q, w), max(r, x), max(s, y)
    least, largest = min(min(a, b), min(c, d)), max(max(p, q), max(r, s))
    for j in range(whole, row.size):
        least, largest = min(least, row[j]), max(largest, row[j])
    return least, largest


def sum_of(row: Array) -> Any:
    """The sum of a row."""
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j]
    return total


def squares_of(row: Array, mean: Any) -> Any:
    """The sum of squared distances from a number."""
    total = row.dtype.type(0)
    for j in range(row.size):
        total += (row[j] - mean) * (row[j] - mean)
    return total


def weights_of(row: Array, largest: Any) -> Any:
    """The sum of a row's exponentials, shifted by its largest value."""
    total = row.dtype.type(0)
    for j in range(row.size):
        total += np.exp(row[j] - largest)
    return total


def column_sums(x: Array) -> Any:
    """Sums of columns by blocks of rows."""
    rows, columns = x.shape
    parts = min(rows, 2 * THREADS)
    sums = np.zeros((parts, columns), x.dtype)
    for part in prange(parts):
        own = sums[part]
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            row = x[i]
            for j in range(columns):
                own[j] += row[j]
    return sums.sum(axis=0)


def column_squares(x: Array, mean: Array) -> Any:
    """Sums of squared distances from the columns' means, by blocks of rows."""
    rows, columns = x.shape
    parts = min(rows, 2 * THREADS)
    squares = np.zeros((parts, columns), x.dtype)
    for part in prange(parts):
        own = squares[part]
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            row = x[i]
            for j in range(columns):
                own[j] += (row[j] - mean[j]) * (row[j] - mean[j])
    return squares.sum(axis=0)


HELPERS = (largest_of, extremes_of, sum_of, squares_of, weights_of, column_sums, column_squares)
"""What loops have in common: numba writes them out where they are called."""


def softmax(x: Array) -> Any:
    """Largest, weights with their sum, scaled."""
    result = np.empty_like(x)
    for i in prange(x.shape[0]):
        row, written = x[i], result[i]
        largest = largest_of(row)
        total = x.dtype.type(0)
        for j in range(row.size):
            weight = np.exp(row[j] - largest)
            written[j] = weight
            total += weight
        scale = x.dtype.type(1) / total
        for j in range(row.size):
            written[j] *= scale
    return result


def log_softmax(x: Array) -> Any:
    """Largest, sum of weights, shifted."""
    result = np.empty_like(x)
    for i in prange(x.shape[0]):
        row, written = x[i], result[i]
        largest = largest_of(row)
        shift = largest + np.log(weights_of(row, largest))
        for j in range(row.size):
            written[j] = row[j] - shift
    return result


def layer_norm(x: Array, weight: Array, bias: Array) -> Any:
    """Mean, variance around it, scaled."""
    result = np.empty_like(x)
    for i in prange(x.shape[0]):
        row, written = x[i], result[i]
        mean = sum_of(row) / x.dtype.type(row.size)
        variance = squares_of(row, mean) / x.dtype.type(row.size)
        scale = x.dtype.type(1) / np.sqrt(variance + x.dtype.type(EPSILON))
        for j in range(row.size):
            written[j] = (row[j] - mean) * scale * weight[j] + bias[j]
    return result


def rms_norm(x: Array, weight: Array) -> Any:
    """Mean square, scaled."""
    result = np.empty_like(x)
    for i in prange(x.shape[0]):
        row, written = x[i], result[i]
        total = x.dtype.type(0)
        for j in range(row.size):
            total += row[j] * row[j]
        mean = total / x.dtype.type(row.size)
        scale = x.dtype.type(1) / np.sqrt(mean + x.dtype.type(EPSILON))
        for j in range(row.size):
            written[j] = row[j] * scale * weight[j]
    return result


def batch_norm(x: Array, weight: Array, bias: Array) -> Any:
    """Sums of columns and of their squared distances, by blocks of rows; then row by row."""
    rows, columns = x.shape
    mean = column_sums(x) / x.dtype.type(rows)
    variance = column_squares(x, mean) / x.dtype.type(rows)
    scale = weight / np.sqrt(variance + x.dtype.type(EPSILON))
    result = np.empty_like(x)
    for i in prange(rows):
        row, written = x[i], result[i]
        for j in range(columns):
            written[j] = (row[j] - mean[j]) * scale[j] + bias[j]
    return result


def row_logsumexp(x: Array) -> Any:
    """Largest, then the sum of weights."""
    result = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        row = x[i]
        largest = largest_of(row)
        result[i] = np.log(weights_of(row, largest)) + largest
    return result


def cross_entropy(logits: Array, target: Array, classes: Array) -> Any:
    """Log sum exp of a row, less the logit of its class, which is picked: classes are 0, 1, 2 …"""
    result = np.empty(logits.shape[0], logits.dtype)
    for i in prange(logits.shape[0]):
        row = logits[i]
        largest = largest_of(row)
        result[i] = np.log(weights_of(row, largest)) - (row[target[i]] - largest)
    return result


def row_mean(x: Array) -> Any:
    """One sum a row."""
    result = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        row = x[i]
        result[i] = sum_of(row) / x.dtype.type(row.size)
    return result


def row_variance(x: Array) -> Any:
    """The mean, then squared distances from it."""
    means, variances = np.empty(x.shape[0], x.dtype), np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        row = x[i]
        mean = sum_of(row) / x.dtype.type(row.size)
        means[i], variances[i] = mean, squares_of(row, mean) / x.dtype.type(row.size)
    return means, variances


def column_mean(x: Array) -> Any:
    """Sums of columns by blocks of rows."""
    return column_sums(x) / x.dtype.type(x.shape[0])


def column_variance(x: Array) -> Any:
    """Sums of columns by blocks of rows, then squared distances from the means."""
    mean = column_sums(x) / x.dtype.type(x.shape[0])
    return mean, column_squares(x, mean) / x.dtype.type(x.shape[0])


def row_range(x: Array) -> Any:
    """Both extremes in one pass."""
    low, high = np.empty(x.shape[0], x.dtype), np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        row = x[i]
        low[i], high[i] = extremes_of(row)
    return low, high


def row_argmax(x: Array) -> Any:
    """The extreme, which vectors find, then its place."""
    result = np.empty(x.shape[0], np.int64)
    for i in prange(x.shape[0]):
        row = x[i]
        largest = largest_of(row)
        place = 0
        while row[place] != largest:
            place += 1
        result[i] = place
    return result


def row_correlation(x: Array, y: Array) -> Any:
    """Both means, then three sums."""
    result = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        left, right = x[i], y[i]
        first = second = x.dtype.type(0)
        for j in range(left.size):
            first += left[j]
            second += right[j]
        first, second = first / x.dtype.type(left.size), second / x.dtype.type(left.size)
        both = squares = others = x.dtype.type(0)
        for j in range(left.size):
            both += (left[j] - first) * (right[j] - second)
            squares += (left[j] - first) * (left[j] - first)
            others += (right[j] - second) * (right[j] - second)
        result[i] = both / np.sqrt(squares * others)
    return result


def sum_of_squares(x: Array) -> Any:
    """One sum."""
    total = x.dtype.type(0)
    for i in prange(x.size):
        total += x[i] * x[i]
    return total


def value_range(x: Array) -> Any:
    """Both extremes, by blocks."""
    parts = 2 * THREADS
    low, high = np.empty(parts, x.dtype), np.empty(parts, x.dtype)
    for part in prange(parts):
        own = x[part * x.size // parts : (part + 1) * x.size // parts]
        low[part], high[part] = extremes_of(own)
    return low.min(), high.max()


def dot(x: Array, y: Array) -> Any:
    """One sum of products."""
    total = x.dtype.type(0)
    for i in prange(x.size):
        total += x[i] * y[i]
    return total


def pairwise_distance(x: Array, y: Array) -> Any:
    """A row of distances a turn, coordinates lying one after another."""
    others = np.ascontiguousarray(y.T)
    result = np.empty((x.shape[0], y.shape[0]), x.dtype)
    for i in prange(x.shape[0]):
        written = result[i]
        written[:] = x.dtype.type(0)
        for k in range(x.shape[1]):
            value, other = x[i, k], others[k]
            for j in range(written.size):
                written[j] += (value - other[j]) * (value - other[j])
        for j in range(written.size):
            written[j] = np.sqrt(written[j])
    return result


THREADS = 1
"""How many numba has, once a loop is compiled."""
LOOPS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        softmax, log_softmax, layer_norm, rms_norm, batch_norm, row_logsumexp, cross_entropy,
        row_mean, row_variance, column_mean, column_variance, row_range, row_argmax,
        row_correlation, sum_of_squares, value_range, dot, pairwise_distance, *PROGRAMS,
    )
}  # fmt: skip


class LoopsRunner(Runner):
    """Compiles the loop that bears a workload's name."""

    name = "loops"
    needs = types.MappingProxyType({"numba": "numba"})
    typical_first_call_s = 3.0
    description = (
        "loops written by hand for numba.njit, fastmath, parallel=True where one is independent"
    )
    fastmath: ClassVar[bool] = True

    def __init__(self) -> None:
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the compiled loop.

        Raises:
            NotExpressibleError: there is no loop of that name, or numba refuses it.
        """
        import numba

        loop: Any = LOOPS.get(function.__name__)
        if loop is None:
            raise NotExpressibleError("no loop is written for it")
        self.dtype = next(each.dtype for each in arguments if isinstance(each, np.ndarray))
        key = (function, *map(numba.typeof, arguments))
        return cast(Callable[..., Any], self.once(key, lambda: self._compiled(loop, arguments)))

    def _compiled(self, loop: Any, arguments: Arguments) -> Any:
        """Compile a loop, and call it once."""
        import numba

        # programs may meet infinities and NaN; loops over rows keep what they were tuned with
        fastmath = self.fastmath and (set(FASTMATH) if loop in PROGRAMS else True)
        known = {
            **loop.__globals__, "prange": numba.prange, "THREADS": numba.get_num_threads(),
        }  # fmt: skip
        names = set(loop.__code__.co_names)
        for each in HELPERS:
            if each.__name__ in names:
                names.update(each.__code__.co_names)
                copied = types.FunctionType(each.__code__, dict(known), each.__name__)
                known[each.__name__] = numba.njit(fastmath=fastmath, inline="always")(copied)
        copied = types.FunctionType(loop.__code__, known, loop.__name__)
        compiled: Any = numba.njit(parallel="prange" in names, fastmath=fastmath)(copied)
        with warnings.catch_warnings(), refusals("numba.njit", numba.core.errors.NumbaError):
            warnings.simplefilter("ignore")
            compiled(*arguments)
        return compiled

    def fetch(self, result: Any) -> Any:
        """Return numbers, which numba gives as Python's, in the type of the arrays."""
        if isinstance(result, tuple):
            return tuple(map(self.fetch, result))
        return self.dtype.type(result) if isinstance(result, float) else result


class StrictLoopsRunner(LoopsRunner):
    """The same loops with the order of operations and the roundings that they state."""

    name = "loops_strict"
    description = "loops written by hand for numba.njit, without fastmath"
    fastmath = False
