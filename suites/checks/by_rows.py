"""Large results verified by parts: where a row of the result needs no other row of the arguments.

For millions of elements the formula in float64 takes longer than all timed calls together. The
first and the last rows and others at random are evaluated; the rest is only looked through for
memory that was never written.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from fuser.suites.checks.verify import Accuracy, Expected, Reference, compare, flatten, reference
from fuser.suites.workload import Arguments, Workload

LEAST_ELEMENTS = 1 << 21
"""Results for more elements are verified by parts where that is possible."""
PART_ELEMENTS = 1 << 15
PARTS = 16
TRIED_ELEMENTS = 1 << 14


def row_count(arguments: Arguments) -> int:
    """Return the length of the first axis of the largest argument."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray) and each.ndim]
    return max(arrays, key=lambda each: each.size).shape[0] if arrays else 0


def rows_between(arguments: Arguments, start: int, stop: int) -> Arguments:
    """Return those rows of every argument that has as many axes and rows as the largest."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    largest = max(arrays, key=lambda each: each.size)
    return tuple(
        each[start:stop]
        if isinstance(each, np.ndarray) and each.shape[:1] == largest.shape[:1]
        and each.ndim == largest.ndim
        else each
        for each in arguments
    )


@lru_cache(maxsize=1024)
def goes_by_rows(workload: Workload, dtype: str) -> bool:
    """Return whether parts of the result are the results for parts of the arguments.

    Found out with few elements: at both ends and in the middle.
    """
    arguments = workload.inputs(TRIED_ELEMENTS, dtype, 0)
    count = row_count(arguments)
    try:
        with np.errstate(all="ignore"):
            whole = [np.asarray(each) for each in flatten(workload.function(*arguments))]
            if count < 3 or any(each.shape[:1] != (count,) for each in whole):
                return False
            return all(
                _agree(workload, arguments, whole, start, stop)
                for start, stop in ((0, 1), (count // 2, count // 2 + 2), (count - 2, count))
            )
    except (IndexError, ValueError):  # shapes that belong together
        return False


def _agree(
    workload: Workload, arguments: Arguments, whole: list[Any], start: int, stop: int
) -> bool:
    parts = flatten(workload.function(*rows_between(arguments, start, stop)))
    return all(
        np.shape(part) == each[start:stop].shape
        and np.allclose(part, each[start:stop], rtol=1e-5, atol=1e-6)
        for part, each in zip(parts, whole, strict=True)
    )


class PartReference:
    """The right results for some rows, and how a whole result is held against them."""

    def __init__(self, workload: Workload, arguments: Arguments, dtype: str, seed: int) -> None:
        self.rows = row_count(arguments)
        largest = max(each.size for each in arguments if isinstance(each, np.ndarray))
        length = max(1, PART_ELEMENTS * self.rows // largest)
        self.parts: list[tuple[int, int, Reference]] = []
        for start in _starts(self.rows, length, seed):
            part = rows_between(arguments, start, start + length)
            self.parts.append((start, start + length, reference(workload, part, dtype)))

    @property
    def dtypes(self) -> tuple["np.dtype[Any]", ...]:
        """The dtypes that NumPy gives the results."""
        return self.parts[0][2].dtypes

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the whole results."""
        return [(self.rows, *each.shape[1:]) for each in self.parts[0][2].outputs]

    def judge(self, result: Any, tolerance: float, ulps: bool = False) -> Accuracy:
        """Return the worst part's finding; a row that was never written is a problem too."""
        found = [np.asarray(each) for each in flatten(result)]
        expected = list(zip(self.shapes(), self.dtypes, strict=True))
        if [(each.shape, each.dtype) for each in found] != expected:
            text = ", ".join(f"{each.dtype}{each.shape}" for each in found)
            return Accuracy(np.inf, None, f"{text}: expected {expected}")
        worst = Accuracy()
        for start, stop, known in self.parts:
            part = tuple(each[start:stop] for each in found)
            worst = worst.merged(compare(part, known, tolerance, ulps))
        if unwritten := sum(map(_poisoned, found)):
            worst = worst.merged(Accuracy(np.inf, None, f"{unwritten} elements were not written"))
        return worst


def _starts(rows: int, length: int, seed: int) -> list[int]:
    last = max(0, rows - length)
    random = np.random.default_rng(seed).integers(0, last + 1, PARTS - 2)
    return sorted({0, last, *map(int, random)})


def _poisoned(array: Any) -> int:
    """Return how many floats have all bits set, which no operation gives."""
    if array.dtype.kind != "f" or not np.isnan(np.min(array, initial=0.0)):
        return 0
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return int(np.count_nonzero(bits == np.iinfo(bits.dtype).max))


def judged_rows(
    workload: Workload, arguments: Arguments, dtype: str, seed: int
) -> tuple[int, int] | None:
    """Return the rows of one of the parts that are judged; None where all rows are."""
    largest = max((each.size for each in arguments if isinstance(each, np.ndarray)), default=0)
    if largest <= LEAST_ELEMENTS or not goes_by_rows(workload, dtype):
        return None
    rows = row_count(arguments)
    length = max(1, PART_ELEMENTS * rows // largest)
    starts = _starts(rows, length, seed)
    start = starts[seed % len(starts)]
    return start, start + length


def expected_of(workload: Workload, arguments: Arguments, dtype: str, seed: int) -> Expected:
    """Return the right results for the arguments: of some rows where there are very many."""
    sizes = (each.size for each in arguments if isinstance(each, np.ndarray))
    if max(sizes, default=0) > LEAST_ELEMENTS and goes_by_rows(workload, dtype):
        return PartReference(workload, arguments, dtype, seed)
    return reference(workload, arguments, dtype)
