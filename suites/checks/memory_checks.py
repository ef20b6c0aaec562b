"""Where a result lies: in memory of its own, in NumPy's order; and what one changed element does.

Right values can be had for less than NumPy pays: in a buffer that all calls share, in the memory of
an argument, or laid out in whatever order is quickest to write.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.suites.checks.verify import flatten
from fuser.suites.sampling import called, now_s
from fuser.suites.workload import Arguments, Array

LATER_CALLS = 256
LATER_S = 0.05
LEAST_LATER_CALLS = 6
"""So many more calls, or for so long, an earlier result has to stay what it is."""
PROBED_ELEMENTS = 1 << 21
"""With more elements one that is forgotten is looked for where results are judged by parts."""


def problem_of(
    call: Callable[..., Any],
    given: Arguments,
    plain: Callable[..., Any],
    arguments: Arguments,
    free_order: bool,
) -> str | None:
    """Return what is wrong with the memory of a call's results, or None.

    Args:
        call: what is judged.
        given: what it is called with.
        plain: the function in NumPy, which says what is right.
        arguments: of `plain`.
        free_order: results may also lie row by row, as another library's arrays do.
    """
    with np.errstate(all="ignore"):
        right = arrays_in(plain(*arguments))
    results = flatten(called(call, given))
    for index, (each, known) in enumerate(zip(results, right, strict=False)):
        if known.size > 1 and not free_order and type(each) is not np.ndarray:
            kind = type(each).__qualname__
            return f"output {index} is of type {kind}, NumPy's an array; kind `peer` may differ"
    first = arrays_in(results)
    second = arrays_in(called(call, given))
    taken = [each for each in given if isinstance(each, np.ndarray)]
    for index, (one, two, known) in enumerate(zip(first, second, right, strict=False)):
        shared = overlap(known, arguments)
        if not shared and overlap(one, taken):
            return f"output {index} lies in the memory of an argument; NumPy makes a new array"
        if not shared and np.may_share_memory(one, two):
            return f"output {index} lies where the call before left it: that result is lost"
        if layout(one) == layout(known) or (free_order and one.flags.c_contiguous):
            continue
        return f"output {index} lies in memory as {_spelt(one)}, NumPy's as {_spelt(known)}"
    return _lost(call, given, [
        None if overlap(known, arguments) else one
        for one, known in zip(first, right, strict=False)
    ])


def _lost(
    call: Callable[..., Any], given: Arguments, first: Sequence[Array | None]
) -> str | None:
    """Return which result a later call writes over, as buffers given out in turn are, or None."""
    end_s = now_s() + LATER_S
    for number in range(3, 3 + LATER_CALLS):
        later = arrays_in(called(call, given))
        for index, (one, another) in enumerate(zip(first, later, strict=False)):
            if one is not None and one.size and np.may_share_memory(one, another):
                return (
                    f"output {index} lies where call {number} leaves its own: buffers are given "
                    "out in turn, and that result is lost"
                )
        if now_s() > end_s and number >= 2 + LEAST_LATER_CALLS:
            break
    return None


def arrays_in(result: Any) -> list[Array]:
    """Return the NumPy arrays of a result; other libraries' own are not looked at."""
    return [
        each if isinstance(each, np.ndarray) else np.empty(0) for each in flatten(result)
    ]


def layout(array: Array) -> tuple[tuple[int, ...], bool]:
    """Return the axes from the outermost in memory to the innermost, and whether it has no gaps."""
    if array.size < 2:
        return (), True
    axes = [axis for axis, length in enumerate(array.shape) if length > 1]
    order = tuple(sorted(axes, key=lambda axis: (-abs(array.strides[axis]), axis)))
    extent = sum((array.shape[axis] - 1) * abs(array.strides[axis]) for axis in axes)
    return order, extent + array.itemsize == array.size * array.itemsize


def _spelt(array: Array) -> str:
    order, dense = layout(array)
    return f"axes {order}{'' if dense else ' with gaps'}"


def overlap(array: Array, others: Sequence[Any]) -> bool:
    """Return whether an array may share memory with one of others."""
    return array.size > 0 and any(
        isinstance(each, np.ndarray) and np.may_share_memory(array, each) for each in others
    )


class Nudge:
    """An element in the midst of each array that can take another's value, and its own again."""

    def __init__(self, arguments: Arguments, random: Callable[[int], int]) -> None:
        """Choose the elements; nothing is written yet.

        Args:
            arguments: those that are arrays of numbers and may be written.
            random: an index below a number.
        """
        self._places: list[tuple[Array, int, Any, Any]] = []
        for each in arguments:
            if not isinstance(each, np.ndarray) or each.dtype.kind not in "fiu" or each.size < 4:
                continue
            if not each.flags.writeable:
                continue
            place = 1 + random(each.size - 2)
            other = (place + 1 + random(each.size - 1)) % each.size  # another place
            self._places.append((each, place, each.flat[place], each.flat[other]))

    @property
    def changes(self) -> bool:
        """Whether any element gets another value."""
        return any(bool(before != after) for _, _, before, after in self._places)

    def apply(self) -> None:
        """Write the other values."""
        for array, place, _, after in self._places:
            array.flat[place] = after

    def undo(self) -> None:
        """Write what was there, the last first: an array may be there twice."""
        for array, place, before, _ in reversed(self._places):
            array.flat[place] = before


def converted_elsewhere(runner: Any, other: Any, arguments: Arguments) -> str | None:
    """Return how a runner's arguments differ from those that another of its kind makes, or None.

    Arguments are converted outside of the timed region. The other one has never seen the
    function, so that it can only convert.
    """
    try:
        ours, theirs = runner.accept(arguments), other.accept(arguments)
        alike = len(ours) == len(theirs) and all(
            type(one).__qualname__ == type(two).__qualname__ and _same_values(runner, one, two)
            for one, two in zip(ours, theirs, strict=True)
        )
    except Exception:  # noqa: BLE001  (one that was not started, or converts in ways of its own)
        return None
    return None if alike else "it converts arguments otherwise since it knows the function"


def _same_values(runner: Any, one: Any, two: Any) -> bool:
    if one is two:
        return True
    first, second = (np.asarray(runner.fetch(each)) for each in (one, two))
    if first.dtype.kind not in "fiub" or first.dtype != second.dtype:
        return first.dtype == second.dtype and first.shape == second.shape
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
