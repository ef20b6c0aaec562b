"""Stride arithmetic: what views do to an array's offset, lengths and strides, without the array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base.records import changed, record
from fuser.ir import dims, infer
from fuser.ir.dims import Dim
from fuser.ir.graph import Node

View = tuple[str, str]
#: What a view's payload says of a diagonal that np.einsum gives; a node's says nothing.
WRITABLE = "writable"


@record
class Layout:
    """Where the elements of a view lie.

    Attributes:
        offset: bytes from the base array's first element.
        shape: lengths.
        strides: bytes.
        symbolic: the symbolic lengths, which say what is 1 for every size.
        repeated: axes along which broadcasting repeats elements, whatever the length.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    symbolic: tuple[Dim, ...]
    repeated: tuple[bool, ...]


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


def contiguous(shape: tuple[int, ...], node: Node) -> Layout:
    """The layout of a C-contiguous array that holds a node's value."""
    strides = contiguous_strides(shape, node.dtype.itemsize)
    return Layout(0, shape, strides, node.shape, (False,) * len(shape))


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides of a C-contiguous array."""
    strides: list[int] = []
    step = itemsize
    for length in reversed(shape):
        strides.insert(0, step)
        step *= max(length, 1)
    return tuple(strides)


def apply_view(layout: Layout, view: View, sizes: Mapping[str, int]) -> Layout:
    """See a layout through one more view.

    Args:
        layout: before.
        view: operation and payload, as in graphs; "part" is `axis; start; stop[; step]`,
            "component" how many bytes a part of complex numbers lies behind their first ones.
        sizes: values of symbols.

    Raises:
        NeedsCopy: a reshape that is not a view of this memory.
        IndexError: an integer index out of bounds.
    """
    name, payload = view
    if name == "index":
        return _index(layout, infer.parse_index(payload))
    if name == "transpose":
        order = [int(axis) for axis in payload.split(",") if axis.strip()]
        return Layout(
            layout.offset,
            tuple(layout.shape[a] for a in order),
            tuple(layout.strides[a] for a in order),
            tuple(layout.symbolic[a] for a in order),
            tuple(layout.repeated[a] for a in order),
        )
    if name == "part":
        return _part(layout, *infer.parse_part(payload), sizes)
    if name == "diagonal":
        return _diagonal(layout)
    if name == "component":
        return changed(layout, offset=layout.offset + int(payload))
    symbolic = infer.parse_shape(payload)
    shape = tuple(dims.evaluate(dim, sizes) for dim in symbolic)
    if name == "broadcast_to":
        return _broadcast(layout, shape, symbolic)
    return _reshape(layout, shape, symbolic)


def _index(layout: Layout, parts: Sequence[infer.IndexPart]) -> Layout:
    """Basic indexing."""
    offset, axis = layout.offset, 0
    kept: list[tuple[int, int, bool]] = []
    for part in parts:
        if part is None:
            kept.append((1, 0, False))
            continue
        length, stride, repeated = layout.shape[axis], layout.strides[axis], layout.repeated[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(length)
            count = len(range(start, stop, step))
            offset += start * stride if count else 0
            kept.append((count, stride * step, repeated))
        else:
            if not -length <= part < length:
                raise IndexError(
                    f"index {part} is out of bounds for axis {axis} with size {length}"
                )
            offset += (part % length) * stride
        axis += 1
    rest = (layout.shape[axis:], layout.strides[axis:], layout.repeated[axis:])
    kept.extend(zip(*rest, strict=True))
    symbolic = infer.index_shape(layout.symbolic, parts)
    return Layout(
        offset,
        tuple(entry[0] for entry in kept),
        tuple(entry[1] for entry in kept),
        symbolic,
        tuple(entry[2] for entry in kept),
    )


def _part(
    layout: Layout, axis: int, start: Dim, stop: Dim, step: int, sizes: Mapping[str, int]
) -> Layout:
    """The elements at start, start + step, … below stop along one axis."""
    rest = axis + 1
    first, length = dims.evaluate(start, sizes), dims.steps(start, stop, step)
    shape = (*layout.shape[:axis], dims.evaluate(length, sizes), *layout.shape[rest:])
    symbolic = (*layout.symbolic[:axis], length, *layout.symbolic[rest:])
    stride = layout.strides[axis]
    strides = (*layout.strides[:axis], stride * step, *layout.strides[rest:])
    offset = layout.offset + first * stride
    return Layout(offset, shape, strides, symbolic, layout.repeated)


def _diagonal(layout: Layout) -> Layout:
    """The diagonal of the first two axes, as the last one."""
    (first, second, *strides), repeated = layout.strides, layout.repeated
    return Layout(
        layout.offset,
        (*layout.shape[2:], min(layout.shape[:2])),
        (*strides, first + second),
        infer.diagonal_shape(layout.symbolic),
        (*repeated[2:], repeated[0] and repeated[1]),
    )


def _broadcast(layout: Layout, shape: tuple[int, ...], symbolic: tuple[Dim, ...]) -> Layout:
    """Repeat along axes that are missing, or 1 where the target is not."""
    missing = len(shape) - len(layout.shape)
    strides: list[int] = [0] * missing
    repeated: list[bool] = [True] * missing
    for axis, length in enumerate(layout.shape):
        wanted = symbolic[missing + axis]
        again = (layout.symbolic[axis] == 1 and wanted != 1) or (
            length == 1 and shape[missing + axis] != 1
        )
        strides.append(0 if again else layout.strides[axis])
        repeated.append(again or layout.repeated[axis])
    return Layout(layout.offset, shape, tuple(strides), symbolic, tuple(repeated))


def _reshape(layout: Layout, shape: tuple[int, ...], symbolic: tuple[Dim, ...]) -> Layout:
    """Another shape over the same memory in C order, where strides allow it.

    The axes of both shapes are walked together and matched in blocks of equal products; inside a
    block the old axes must be contiguous with each other (NumPy: _attempt_nocopy_reshape).
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


def calls_of(views: Sequence[View], sizes: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    """What to do with a real array, view by view: a method's name and argument, or "[]" and index.

    Parts are basic slices, so every step but "reshape" and "contiguous" gives a view.
    """
    for name, payload in views:
        if name == "index":
            yield "[]", (*infer.parse_index(payload), Ellipsis)  # a 0-d array, never a scalar
        elif name == "transpose":
            yield "transpose", tuple(int(a) for a in payload.split(",") if a.strip())
        elif name == "part":
            axis, start, stop, step = infer.parse_part(payload)
            places = slice(dims.evaluate(start, sizes), dims.evaluate(stop, sizes), step)
            yield "[]", (slice(None),) * axis + (places,)
        elif name == "diagonal":
            yield ("[diagonal]" if payload == WRITABLE else name), 0
        elif name == "component":
            yield ("imag" if int(payload) else "real"), None
        elif name in ("real", "imag"):
            yield name, None
        elif name == "contiguous":
            yield name, None
        else:
            shape = tuple(dims.evaluate(d, sizes) for d in infer.parse_shape(payload))
            yield ("broadcast_to" if name == "broadcast_to" else "reshape"), shape


def writable_diagonal(array: Any) -> Any:
    """The diagonal as np.einsum gives it: it can be written into where the array can."""
    seen = array.diagonal()
    if type(array) is np.ndarray:
        seen.flags.writeable = array.flags.writeable
    return seen


def apply_views(array: Any, views: Sequence[View], sizes: Mapping[str, int], module: Any) -> Any:
    """Apply views to a real array with its own module's functions; reshapes may copy.

    A broadcast view is made writeable never.
    """
    for name, value in calls_of(views, sizes):
        if name == "[]":
            array = array[value]
        elif name == "broadcast_to":
            array = module.broadcast_to(array, value)
        elif name == "contiguous":
            array = module.ascontiguousarray(array)
        elif name in ("real", "imag"):
            array = getattr(array, name)
        elif name == "[diagonal]":
            array = writable_diagonal(array)
        else:
            array = getattr(array, name)(value)
    return array


# -- memory order ---------------------------------------------------------------------------


def keep_order(rank: int, operands: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[int]:
    """The axis order, outermost first, of a result that keeps its operands' memory order.

    NumPy sorts axes by stride, operand by operand, and keeps C order where operands disagree or
    say nothing (nditer_constr.c, npyiter_find_best_axis_ordering).

    Args:
        rank: of the result.
        operands: (shape, strides) pairs, aligned at the last axis.
    """
    steps: list[list[int]] = []
    for shape, strides in operands:
        lead = rank - len(shape)
        steps.append(
            [0] * lead + [abs(s) if n != 1 else 0 for n, s in zip(shape, strides, strict=True)]
        )
    order = list(range(rank - 1, -1, -1))  # innermost first, as NumPy holds them
    for i in range(1, rank):
        axis = order[i]
        place = i
        for j in range(i - 1, -1, -1):
            other = order[j]
            ambiguous, swap = True, False
            for step in steps:
                if step[axis] and step[other]:
                    if step[other] <= step[axis]:
                        swap = False
                    elif ambiguous:
                        swap = True
                    ambiguous = False
            if not ambiguous:
                if swap:
                    place = j
                else:
                    break
        order.insert(place, order.pop(i))
    return order[::-1]


def sorted_order(arrays: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[int]:
    """The axis order, outermost first, of a copy of one array, or of several joined.

    Longer strides lie outside; C order where arrays disagree. Unlike in `keep_order` a stride of
    0 is the shortest (shape.c, PyArray_CreateMultiSortedStridePerm).

    Args:
        arrays: (shape, strides) pairs of one rank.
    """
    order = list(range(len(arrays[0][0])))
    for i in range(1, len(order)):
        axis = order[i]
        place = i
        for j in range(i - 1, -1, -1):
            other = order[j]
            ambiguous, swap = True, False
            for shape, strides in arrays:
                if shape[axis] != 1 and shape[other] != 1:
                    if abs(strides[axis]) <= abs(strides[other]):
                        swap = False
                    elif ambiguous:
                        swap = True
                    ambiguous = False
            if not ambiguous:
                if swap:
                    place = j
                else:
                    break
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
