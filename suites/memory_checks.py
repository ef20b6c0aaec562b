"""Where a result lies: in memory of its own, in NumPy's order; and what one changed element does.

Right values can be had for less than NumPy pays: in a buffer that all calls share, in the memory of
an argument, or laid out in whatever order is quickest to write.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.suites.sampling import now_s
from fuser.suites.verify import flatten
from fuser.suites.workload import Arguments, Array

LATER_CALLS = 64
LATER_S = 0.01
"""So many more calls, or for so long, an earlier result has to stay what it is."""
PROBED_ELEMENTS = 1 << 18
"""Of larger arrays a forgotten element would show in the time of calls on other values."""


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
    first = arrays_in(call(*given))
    second = arrays_in(call(*given))
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
        later = arrays_in(call(*given))
        for index, (one, another) in enumerate(zip(first, later, strict=False)):
            if one is not None and one.size and np.may_share_memory(one, another):
                return (
                    f"output {index} lies where call {number} leaves its own: buffers are given "
                    "out in turn, and that result is lost"
                )
        if now_s() > end_s:
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


def change_one(arguments: Arguments, random: Callable[[int], int]) -> bool:
    """Give one element in the midst of each array of floats another's value; whether any changed.

    Args:
        arguments: the arrays, changed in place.
        random: an index below a number.
    """
    changed = False
    for each in arguments:
        if not isinstance(each, np.ndarray) or each.dtype.kind != "f" or each.size < 4:
            continue
        if not each.flags.writeable:
            continue
        place = 1 + random(each.size - 2)
        other = (place + 1 + random(each.size - 1)) % each.size  # another place
        changed = changed or bool(each.flat[place] != each.flat[other])
        each.flat[place] = each.flat[other]
    return changed
