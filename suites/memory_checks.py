"""Where a result lies: in memory of its own, in NumPy's order; and what one changed element does.

Right values can be had for less than NumPy pays: in a buffer that all calls share, in the memory of
an argument, or laid out in whatever order is quickest to write.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.suites.verify import flatten
from fuser.suites.workload import Arguments, Array

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
        shared = _overlap(known, arguments)
        if not shared and _overlap(one, taken):
            return f"output {index} lies in the memory of an argument; NumPy makes a new array"
        if not shared and np.may_share_memory(one, two):
            return f"output {index} lies where the call before left it: that result is lost"
        if layout(one) == layout(known) or (free_order and one.flags.c_contiguous):
            continue
        return f"output {index} lies in memory as {_spelt(one)}, NumPy's as {_spelt(known)}"
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


def _overlap(array: Array, others: Sequence[Any]) -> bool:
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
