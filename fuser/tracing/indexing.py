"""What `x[…]`, `x[…] = …` and `x.flat` are for the stand-in of an array.

Indices and bounds may be computed: `x[1 : n - 1]`, `x[n // 2]`, `x[k]`, `x[: k + 1]`. Expressions
over lengths and integer arguments stay symbolic, so a function that slices so is one
specialisation for all lengths and for every number of a class: what counts is whether a bound is
negative, which counts from the end, and whether it lies beyond an end, where NumPy cuts it off. A
bound a fixed number of elements from the end is written as that: `n - 1` is -1. Others are cut out
by a view of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.dims import Dim
from fuser.ir.views import Index, IndexPart, Part, Reshape
from fuser.tracing import boxes
from fuser.tracing.indices import index_of, is_fancy, plain_slice, symbolic_length, with_scalars
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_memory import TracedMemory
from fuser.tracing.traced_scalars import HostScalar

#: First index and the one after the last along an axis of an array.
Cut = tuple[Dim, Dim]


def in_lengths(tracing: Tracing, part: Any, length: Dim) -> tuple[Any, Cut | None]:
    """An entry of an index in integers alone; a symbolic slice is taken as a view before it.

    Args:
        tracing: the trace.
        part: a slice or an integer; it is returned as it is where nothing is known of it.
        length: of the axis.
    """
    if type(part) is HostScalar:
        return _index(tracing, part, length)
    if type(part) is not slice or not any(
        type(bound) is HostScalar for bound in (part.start, part.stop)
    ):
        return part, None
    if part.step is not None and not (type(part.step) is int and part.step > 0):
        return part, None
    length = tracing.resolve(length)
    first = _simple(tracing, part.start, length, 0)
    last = _simple(tracing, part.stop, length, None)
    if not isinstance(first, _Symbolic) and not isinstance(last, _Symbolic):
        return slice(first, last, part.step), None
    if type(first) is HostScalar or type(last) is HostScalar:
        return part, None
    start = _clamped(tracing, first, 0, length)
    stop = _clamped(tracing, last, length, length)
    if tracing.size(start) <= tracing.size(stop):
        _hold(tracing, (start + 0, stop - start, length - stop))
        return slice(None, None, part.step), (start, stop)
    _hold(tracing, (stop + 0, length - start))
    tracing.hold_at_least(start - stop, 1)
    return slice(None, None, part.step), (start, start)


class _Symbolic:
    """A bound of a slice that is an expression."""

    def __init__(self, value: Dim) -> None:
        self.value = value


def _expression(tracing: Tracing, value: Any) -> Dim | None:
    """A traced integer over lengths and integer arguments; None for any other number."""
    found = symbolic_length(value)
    return None if found is None else tracing.resolve(found)


def _simple(tracing: Tracing, value: Any, length: Dim, end: int | None) -> Any:
    """A bound as a plain integer or the end where it can be; else symbolic, or as it was."""
    if type(value) is not HostScalar or (found := _expression(tracing, value)) is None:
        return value
    if isinstance(found, int):
        return found
    gap = length - found
    if isinstance(gap, int):
        if gap > 0 and tracing.size(length) >= gap:
            tracing.hold_at_least(length, gap)
            return -gap
        if gap <= 0 and end is None:
            return end
    return _Symbolic(found)


def _clamped(tracing: Tracing, bound: Any, default: Dim, length: Dim) -> Dim:
    """Where a bound lies in an axis: counted from the front, and cut off at both ends.

    Which of the four classes it is in is held: before the first element, counted from the end,
    counted from the front, or beyond the last element. That it lies within the axis is left to
    the caller.
    """
    if bound is None:
        return default
    value: Dim = bound.value if isinstance(bound, _Symbolic) else bound
    if tracing.size(value) >= 0:
        tracing.hold_at_least(value, 0)
        if tracing.size(value) <= tracing.size(length):
            return value
        tracing.hold_at_least(value - length, 1)
        return length
    tracing.hold_at_least(value * -1, 1)
    if tracing.size(length + value) >= 0:
        return length + value
    tracing.hold_at_least((length + value) * -1, 1)
    return 0


def _hold(tracing: Tracing, gaps: tuple[Dim, ...]) -> None:
    """Hold that no gap is negative."""
    for gap in gaps:
        tracing.hold_at_least(gap, 0)


def _index(tracing: Tracing, value: HostScalar, length: Dim) -> tuple[Any, Cut | None]:
    """An integer index: from the end, or the first element of what is cut out."""
    found = _expression(tracing, value)
    if found is None or isinstance(found, int):
        return value, None
    length = tracing.resolve(length)
    gap = length - found
    if isinstance(gap, int):
        return (-gap if gap > 0 and tracing.size(length) >= gap else value), None
    if not -tracing.size(length) <= tracing.size(found) < tracing.size(length):
        return value, None  # an IndexError for this value
    place = found if tracing.size(found) >= 0 else length + found
    _hold(tracing, (place + 0, length - place - 1))
    if place is not found:
        tracing.hold_at_least(found * -1, 1)
    return 0, (place, place + 1)


def read(array: Any, index: Any) -> Any:
    """`array[index]`: basic indexing is a view; other indexing runs between kernels."""
    given, index = index, with_scalars(index)
    if is_fancy(index):
        return array.tracing.take(array, given)  # NumPy's integers in it are operands
    parts, cuts = _basic_index(array, index)
    if cuts:
        rest = (*parts, Ellipsis) if _has_ellipsis(index) else parts
        return _cut(array, cuts)[rest] if rest else _cut(array, cuts)
    full = sum(part is not None for part in parts) == array.ndim
    integers = all(isinstance(part, int) for part in parts)
    ellipsis = _has_ellipsis(index)
    _check_bounds(array, parts)
    if array.storage.written:  # to compare what is read with what was written
        _note_reach(array, parts)
    if array.node.op.concatenates:
        boxes.note_parts(array.tracing, array.node, parts)
    generic = full and integers and not ellipsis
    return array._view(Index(parts), generic)


def _note_reach(array: Any, parts: tuple[IndexPart, ...]) -> None:
    """Note how long axes are that an index reaches into."""
    for axis, part in enumerate(part for part in parts if part is not None):
        boxes.note_reach(array.tracing, array._shape[axis], part, array.storage.reach)


def _cut(array: Any, cuts: Mapping[int, Cut]) -> Any:
    """What lies between two places along some axes."""
    seen: Any = array
    for axis, (start, stop) in cuts.items():
        seen = seen._view(Part(axis, start, stop))
    return seen


def _basic_index(
    array: Any, index: Any
) -> tuple[tuple[IndexPart, ...], dict[int, Cut]]:
    """An index as integers, slices and None, and what is cut out of axes before."""
    given = index if isinstance(index, tuple) else (index,)
    used = sum(part is not None and part is not Ellipsis for part in given)
    if used > array.ndim:
        raise IndexError(
            f"too many indices for array: array is {array.ndim}-dimensional, "
            f"but {used} were indexed"
        )
    if sum(part is Ellipsis for part in given) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    parts: list[IndexPart] = []
    cuts: dict[int, Cut] = {}
    axis = 0
    for entry in given:
        if entry is Ellipsis:
            parts.extend([slice(None)] * (array.ndim - used))
            axis += array.ndim - used
            continue
        if entry is None:
            parts.append(None)
            continue
        part, cut = in_lengths(array.tracing, entry, array._shape[axis])
        if cut is not None:
            cuts[axis] = cut
        parts.append(plain_slice(part) if isinstance(part, slice) else index_of(part))
        axis += 1
    while parts and parts[-1] == slice(None):
        parts.pop()
    return tuple(parts), cuts


def write(array: Any, index: Any, value: Any) -> None:
    """`x[...] = value` replaces the whole value; a write into a part is refused."""
    if array.generic:
        name = f"numpy.{array.dtype.type.__name__}"
        raise TypeError(f"{name!r} object does not support item assignment")
    given, index = index, with_scalars(index)
    if is_fancy(index):
        array.tracing.put(array, given, value)
        return
    parts, cuts = _basic_index(array, index)
    _check_element(array, index, parts, value)
    if cuts:
        _cut(array, cuts)[(*parts, Ellipsis)] = value
        return
    whole = all(part == slice(None) for part in parts)
    target = array if whole else _part(array, parts)
    if isinstance(value, TracedMemory) and value.storage is array.storage:
        if value.views == target.views and value.storage.written:
            return  # the second half of `x[...] += y`
    if type(value) in (list, tuple):
        value = array.tracing.put_together(value, array.dtype)
    _check_number(array, value)
    node = array.tracing.operand_node(array.tracing.operand(value), array.dtype)
    target.assign(node)


def _check_element(
    array: Any, index: Any, parts: tuple[IndexPart, ...], value: Any
) -> None:
    """Leave to NumPy what it may not take: arrays for one element, and lists that are too deep.

    Raises:
        Unsupported: the value has more axes than what it is written into.
    """
    axes = array.ndim - sum(isinstance(part, int) for part in parts) + parts.count(None)
    if isinstance(value, (list, tuple)):
        fits = _depth(value) <= axes
    else:
        fits = axes > 0 or _has_ellipsis(index) or not _depth(value)
    if not fits:
        raise Unsupported(
            "unsupported-argument", "assignment", "an array is assigned to a single element"
        )


def _depth(value: Any) -> int:
    """How many axes an array of a nested sequence has."""
    if isinstance(value, (list, tuple)):
        return 1 + max(map(_depth, value), default=0)
    return 0 if type(value) is HostScalar else getattr(value, "ndim", 0)


def _check_number(array: Any, value: Any) -> None:
    """NumPy's error for one of its scalars that an array of integers cannot take.

    Raises:
        Unsupported: whether there is one depends on a value that is not known yet.
    """
    if array.dtype.kind not in "iu":
        return
    if issubclass(type(value), np.generic):
        np.zeros((), array.dtype)[...] = value
    elif isinstance(value, TracedMemory) and value.generic:
        if np.can_cast(value.dtype, array.dtype):
            return
        text = f"a {value.dtype} scalar into {array.dtype}"
        raise Unsupported("unsupported-argument", "assignment", text)


def _part(array: Any, parts: tuple[IndexPart, ...]) -> Any:
    """The part of the memory that a basic index shows, also where NumPy has a scalar."""
    _check_bounds(array, parts)
    views = (*array.views, Index(parts))
    return type(array)(array.tracing, array.storage, views, False)


def _check_bounds(array: Any, parts: tuple[IndexPart, ...]) -> None:
    """NumPy's error for an integer beyond an axis."""
    for axis, part in enumerate(part for part in parts if part is not None):
        length = array.tracing.size(array._shape[axis])
        if isinstance(part, int) and not -length <= part < length:
            raise IndexError(
                f"index {part} is out of bounds for axis {axis} with size {length}"
            )
        if isinstance(part, int):
            array.tracing.guard_reach(array._shape[axis], part + 1 if part >= 0 else -part)


def _has_ellipsis(index: Any) -> bool:
    """Whether an index has `...` in it."""
    return index is Ellipsis or (isinstance(index, tuple) and Ellipsis in index)


class FlatView:
    """`x.flat`: all elements in C order."""

    def __init__(self, array: Any) -> None:
        """Look at an array."""
        self._array = array

    def _values(self) -> Any:
        """The elements, as an array of its own."""
        array = self._array
        whole = dims.product(array.dims)
        return array.tracing.wrap(array.tracing.node("reshape", [array.node], Reshape((whole,))))

    def __len__(self) -> int:
        """How many elements there are, as a guard."""
        return int(self._array.size)

    def __getitem__(self, index: Any) -> Any:
        """A copy of some elements, or one."""
        _check_index(index)
        found = self._values()[index]
        return found if found.generic else found.copy()

    def __setitem__(self, index: Any, value: Any) -> None:
        """One number for some elements."""
        _check_index(index)
        array, tracing = self._array, self._array.tracing
        given = tracing.operand(value)
        if isinstance(given, TracedMemory) and given.ndim:
            raise Unsupported(
                "unsupported-argument", "ndarray.flat",
                "fewer values than elements, so that they are repeated",
            )
        if isinstance(index, slice) and plain_slice(index) == slice(None):
            array[...] = given
            return
        values = self._values()
        values[index] = given
        array.assign(tracing.node("reshape", [values.node], Reshape(array.dims)))

    def __getattr__(self, name: str) -> Any:
        """Nothing else."""
        raise Unsupported("unsupported-function", f"ndarray.flat.{name}", "")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Refused: the values do not exist yet."""
        raise Unsupported("array-conversion", "np.asarray()", "on ndarray.flat")

    def __iter__(self) -> Any:
        """Refused, but for few elements."""
        return iter(self._values())


def _check_index(index: Any) -> None:
    """Refuse what is no integer and no slice."""
    if index is not Ellipsis and not isinstance(index, (int, slice, HostScalar)):
        raise Unsupported("unsupported-argument", "ndarray.flat", "an array as index")
