"""What a result makes of rare values: zeros of both signs, values far out, NaN and infinities.

What is drawn for timing holds none of them, so a variant could be wrong for them unseen. A result
is judged where NumPy in the cell's own dtype and the formula in float64 agree on it, so that no
verdict hangs on an order of operations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuser.suites.checks.by_rows import PART_ELEMENTS, goes_by_rows, row_count, rows_between
from fuser.suites.checks.verify import flatten, reference
from fuser.suites.workload import Arguments, Array, Workload

MOST_ELEMENTS = 1 << 18
"""Of more elements only workloads are tried whose results for some rows need no other rows."""
FAR, FARTHER = 4.0, 64.0
"""Of the largest value that was drawn: the one too near for most overflows, the other not."""
SLACK = 8.0
"""Of the tolerance: an array with values far out has another scale."""
FINITE, NAN, ABOVE, BELOW = range(4)


@dataclass(frozen=True, slots=True)
class Edges:
    """The results for arguments with rare values, or the first rows of them."""

    rows: int | None
    plain: Sequence[Array]
    wide: Sequence[Array]

    def problem(self, result: Any, tolerance: float) -> str | None:
        """Return where a result is not NumPy's, or None; other shapes are judged elsewhere."""
        found = [np.asarray(each) for each in flatten(result)]
        pairs = zip(found, self.plain, self.wide, strict=False)
        for index, (each, plain, wide) in enumerate(pairs):
            part = each if self.rows is None else each[: self.rows]
            if part.shape != plain.shape or part.dtype != plain.dtype:
                continue
            with np.errstate(all="ignore"):
                wrong = _wrong(part, plain, wide, tolerance)
            if wrong.any():
                first = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
                return (
                    f"output {index}: {np.count_nonzero(wrong)} elements are wrong where the "
                    f"arguments hold zeros, values far out, NaN or infinities: "
                    f"{part[first]}, NumPy gives {plain[first]}"
                )
        return None


def edges_of(
    workload: Workload, arguments: Arguments, dtype: str, random: Callable[[int], int],
    finite: bool = False,
) -> Edges | None:
    """Write rare values into the arguments; return the right results, or None where untried.

    Args:
        workload: those that read their data to decide what to do are not tried: one that waits
            for values to become small would wait for ever.
        arguments: the arrays, changed in place.
        dtype: the cell's.
        random: an index below a number.
        finite: neither NaN nor infinities.
    """
    if workload.must_refuse or "while " in workload.formula():
        return None
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    largest = max((each.size for each in arrays), default=0)
    rows, part = None, arguments
    if largest > MOST_ELEMENTS:
        if not goes_by_rows(workload, dtype):
            return None
        rows = max(1, PART_ELEMENTS * row_count(arguments) // largest)
        part = rows_between(arguments, 0, rows)
    spoilt = [each for each in part if isinstance(each, np.ndarray)]
    if not sum(_spoil(each, random, finite) for each in spoilt):
        return None
    try:
        with np.errstate(all="ignore"):
            plain = [np.asarray(each) for each in flatten(workload.function(*part))]
            wide = reference(workload, part).outputs
    except Exception:  # noqa: BLE001  (a person's workload may refuse such values)
        return None
    return Edges(rows, plain, wide)


def _spoil(array: Array, random: Callable[[int], int], finite: bool) -> int:
    """Write rare values into an array of floats, each at its own place; return how many."""
    if array.dtype.kind != "f" or not array.flags.writeable or array.size < 2:
        return 0
    most = float(np.max(np.abs(array), initial=0.0))
    far, farther = FAR * most, FARTHER * most
    values = [0.0, far, np.nan, farther, np.inf, -0.0, -far, -np.inf, -farther]
    if array.min() >= 0:  # what has no sign is a root's, a logarithm's or a count's argument
        values = [0.0, far, np.nan, farther, np.inf]
    if finite:
        values = [each for each in values if np.isfinite(each)]
    count = min(len(values), array.size // 2)
    for value in values[:count]:
        array.flat[random(array.size)] = value
    return count


def _classes(array: Array) -> Array:
    classes = np.full(array.shape, FINITE, np.int8)
    classes[np.isnan(array)] = NAN
    classes[array == np.inf] = ABOVE
    classes[array == -np.inf] = BELOW
    return classes


def _wrong(found: Array, plain: Array, wide: Array, tolerance: float) -> Array:
    """Return which elements are wrong, of those on whose value both right results agree."""
    if found.dtype.kind == "b":
        wrong: Array = (plain == wide) & (found != plain)
        return wrong
    if found.dtype.kind != "f":  # what becomes of NaN as an integer is nobody's promise
        return np.zeros(found.shape, np.bool_)
    rounded = wide.astype(plain.dtype)
    known = _classes(plain)
    agreed = known == _classes(rounded)
    ours = _classes(found)
    both = agreed & (known == FINITE) & (ours == FINITE)
    exact = wide.astype(np.float64)
    magnitude = np.abs(np.where(both, exact, 0.0))
    scale = float(magnitude.max(initial=0.0))
    error = np.abs(np.where(both, found - exact, 0.0))
    admitted = np.abs(np.where(both, plain - exact, 0.0)) + tolerance * (magnitude + scale)
    off: Array = (agreed & (ours != known)) | (error > SLACK * admitted)
    return off
