"""What `x[…]`, `x[…] = …` and `x.flat` are for the stand-in of an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.views import Index, IndexPart, Part, Reshape
from fuser.tracing import boxes
from fuser.tracing.bounds import Cut, in_lengths
from fuser.tracing.indices import integer, is_fancy, plain_slice, with_scalars
from fuser.tracing.traced_memory import TracedMemory
from fuser.tracing.traced_scalars import HostScalar


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
        parts.append(plain_slice(part) if isinstance(part, slice) else integer(part))
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
        raise Unsupported("unsupported-function", f"ndarray.flat.{name}", "no fused form")

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
