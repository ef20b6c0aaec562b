"""Layouts: where in memory the elements of an array lie, and the memory order of new arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.records import record
from fuser.ir.dims import Dim


@record
class Layout:
    """Where the elements of a view lie.

    Attributes:
        offset: bytes from the base array's first element.
        shape: lengths.
        strides: bytes.
        symbolic: the symbolic lengths, which say what is 1 for every size.
        repeated: axes along which broadcasting repeats elements, whatever the length.
        moves: what each call adds to the offset: an expression times bytes.
        along: bytes from an iteration to the next, where a kernel runs several.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    symbolic: tuple[Dim, ...]
    repeated: tuple[bool, ...]
    moves: tuple[tuple[Dim, int], ...] = ()
    along: int = 0


class NeedsCopy(Exception):  # noqa: N818 - a signal: the views are no index arithmetic here
    """A reshape of this memory is not a view."""


def layout_of(array: Any, symbolic: tuple[Dim, ...]) -> Layout:
    """The layout of an array itself.

    NumPy lets axes of length 1 and empty arrays have any stride. Where the array is contiguous
    they get the strides that longer axes would have, so that they need no kernels of their own.
    """
    strides = array.strides
    if array.flags.c_contiguous:
        strides = contiguous_strides(array.shape, array.itemsize)
    elif array.flags.f_contiguous:
        strides = contiguous_strides(array.shape[::-1], array.itemsize)[::-1]
    return Layout(0, array.shape, strides, symbolic, (False,) * array.ndim)


def contiguous(shape: Sequence[int], symbolic: tuple[Dim, ...], itemsize: int) -> Layout:
    """The layout of a C-contiguous array."""
    strides = contiguous_strides(shape, itemsize)
    return Layout(0, tuple(shape), strides, symbolic, (False,) * len(strides))


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides of a C-contiguous array."""
    strides: list[int] = []
    step = itemsize
    for length in reversed(shape):
        strides.insert(0, step)
        step *= max(length, 1)
    return tuple(strides)


def reshaped(
    layout: Layout, shape: tuple[int, ...], symbolic: tuple[Dim, ...]
) -> Layout:
    """Another shape over the same memory in C order, where strides allow it.

    The axes of both shapes are walked together and matched in blocks of equal products; inside a
    block the old axes must be contiguous with each other (NumPy: _attempt_nocopy_reshape).

    Raises:
        NeedsCopy: they are not.
    """
    old = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]
    if 0 in layout.shape:
        strides = contiguous_strides(shape, 1)
        return Layout(layout.offset, shape, strides, symbolic, (False,) * len(shape))
    result = [0] * len(shape)
    i = j = 0
    while i < len(old):
        block, total = i + 1, old[i][0]
        start, target = j, 1
        while target != total:
            if target < total:
                target *= shape[j]
                j += 1
            else:
                total *= old[block][0]
                block += 1
        for k in range(i, block - 1):
            if old[k][1] != old[k + 1][1] * old[k + 1][0]:
                raise NeedsCopy
        step = old[block - 1][1]
        for k in range(j - 1, start - 1, -1):
            result[k] = step
            step *= shape[k]
        i = block
    tail = result[j - 1] if 0 < j <= len(shape) else 1
    for k in range(j, len(shape)):
        result[k] = tail
    repeated = tuple(n != 1 and s == 0 for n, s in zip(shape, result, strict=True))
    return Layout(layout.offset, shape, tuple(result), symbolic, repeated)


def is_array(value: Any) -> bool:
    """Whether a value is an array, NumPy's or CuPy's, and no scalar."""
    return hasattr(value, "strides") and not isinstance(value, np.generic)


def writable_diagonal(array: Any) -> Any:
    """The diagonal as np.einsum gives it: it can be written into where the array can."""
    seen = array.diagonal()
    if type(array) is np.ndarray:
        seen.flags.writeable = array.flags.writeable
    return seen


# -- memory order ---------------------------------------------------------------------------


def axis_order(rank: int, operands: Sequence[Any], *, copied: bool = False) -> list[int]:
    """The axis order, outermost first, of a result that keeps its operands' memory order.

    NumPy sorts axes by stride, operand by operand, and keeps C order where operands disagree or
    say nothing (nditer_constr.c, npyiter_find_best_axis_ordering). In a copy of one array, or of
    several joined, a stride of 0 is the shortest (shape.c, PyArray_CreateMultiSortedStridePerm).

    Args:
        rank: of the result.
        operands: what has a shape and strides; aligned at the last axis.
        copied: whether the result is such a copy.
    """
    steps: list[list[int | None]] = []
    for one in operands:
        lead = [None] * (rank - len(one.shape))
        told = zip(one.shape, map(abs, one.strides), strict=True)
        if copied:
            steps.append([*lead, *(-step if n != 1 else None for n, step in told)])
        else:
            steps.append([*lead, *(step if n != 1 and step else None for n, step in told)])
    if copied:
        return _by_steps(list(range(rank)), steps)
    return _by_steps(list(range(rank - 1, -1, -1)), steps)[::-1]  # NumPy holds innermost first


def _by_steps(order: list[int], operands: Sequence[Sequence[int | None]]) -> list[int]:
    """Sort axes by their steps, the shorter first, operand by operand.

    Where operands disagree the first order stays, as where they say nothing.

    Args:
        order: of the axes to begin with.
        operands: for each, the step of every axis; None where it says nothing of one.
    """
    for i in range(1, len(order)):
        axis, place = order[i], i
        for j in range(i - 1, -1, -1):
            pairs = [(steps[axis], steps[order[j]]) for steps in operands]
            longer = [other > own for own, other in pairs if own is not None and other is not None]
            if longer and not all(longer):
                break
            if longer:
                place = j
        order.insert(place, order.pop(i))
    return order


def ordered_strides(shape: Sequence[int], order: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides of a new array whose axes lie in memory in `order`, outermost first."""
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
