"""NumPy functions that change what they are given: a choice for each element, or a new value.

Where NumPy runs such a function between kernels, it runs on a copy, which is the array's new value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import dims
from fuser.errors import Unsupported
from fuser.tracing.array_functions import _handles
from fuser.tracing.counting import counted
from fuser.tracing.extern_tracing import CHANGES, new_value
from fuser.tracing.indices import plain_slice
from fuser.tracing.scalars import HostScalar
from fuser.tracing.traced_array import TracedArray

if TYPE_CHECKING:
    from fuser.tracer import Tracing


def change(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Have NumPy change a copy of the first argument, and take that for its value.

    Raises:
        Unsupported: the first argument is no traced array.
    """
    short = name.replace("numpy.", "np.", 1)
    target = args[0] if args else None
    if not isinstance(target, TracedArray):
        raise Unsupported("write-into-view", short, CHANGES)
    if target.generic:
        raise Unsupported("unsupported-argument", short, "a scalar")
    new_value(target, "fuser.changed", (name, *args[1:]), kwargs)


def _number(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a value is one number that arrays of a dtype hold as it is."""
    kind = value.kind if type(value) is HostScalar else type(value)
    return (dtype.kind == "f" and kind in (bool, int, float)) or (dtype.kind, kind) == ("b", bool)


def _replace(target: TracedArray, mask: TracedArray, value: Any) -> None:
    """Where a mask of the array's shape holds, a value of one element or of that shape."""
    tracing = target.tracing
    new = tracing.operand_node(value, target.dtype)
    target.assign(tracing.node("where", [mask.node, new, target.node]))


def _is_mask(target: Any, mask: Any) -> bool:
    """Whether both are traced arrays of one shape, and the latter holds truth values."""
    from fuser.tracing.selections import is_mask

    traced = isinstance(target, TracedArray) and not target.generic
    return traced and is_mask(mask, target)


@_handles(np.putmask)
def _putmask(tracing: Tracing, a: Any, mask: Any, values: Any) -> None:
    """np.putmask of one number, or of an array of the same shape and dtype."""
    fits = _is_mask(a, mask)
    if fits and not _number(values, a.dtype):
        fits = isinstance(values, TracedArray) and values.dtype == a.dtype
        shape = [*map(tracing.resolve, values.dims)] if fits else []
        fits = fits and (not shape or shape == [*map(tracing.resolve, a.dims)])
    if not fits:
        raise Unsupported("unsupported-argument", "np.putmask", "values that are repeated")
    _replace(a, mask, values)


@_handles(np.place)
def _place(tracing: Tracing, arr: Any, mask: Any, vals: Any) -> None:
    """np.place of one number."""
    value = vals[0] if type(vals) in (list, tuple) and len(vals) == 1 else vals
    if not _is_mask(arr, mask) or not _number(value, arr.dtype):
        raise Unsupported("unsupported-argument", "np.place", "values that are repeated")
    _replace(arr, mask, value)


@_handles(np.fill_diagonal)
def _fill_diagonal(tracing: Tracing, a: Any, val: Any, wrap: bool = False) -> None:
    """np.fill_diagonal of a matrix, with one number or a vector as long as the diagonal."""
    if not isinstance(a, TracedArray) or a.ndim != 2 or wrap:
        raise Unsupported("unsupported-argument", "np.fill_diagonal", "no plain matrix")
    value = tracing.operand(val)
    if isinstance(value, TracedArray) and value.ndim:
        short = min(a.dims, key=tracing.size)
        if value.ndim > 1 or tracing.size(value.dims[0]) != tracing.size(short):
            raise Unsupported("unsupported-argument", "np.fill_diagonal", "values repeated")
        if tracing.size(a.dims[0]) != tracing.size(a.dims[1]):
            raise Unsupported("unsupported-argument", "np.fill_diagonal", "no square matrix")
        for dim in a.dims:
            if tracing.resolve(dim) != tracing.resolve(value.dims[0]):
                tracing._hold(tracing.resolve(dim), tracing.resolve(value.dims[0]))
    rows, columns = (counted(tracing, dim) for dim in a.dims)
    mask: Any = rows[:, None] == columns[None, :]
    _replace(a, mask, value)


def without_nan(tracing: Tracing, target: Any, result: Any) -> Any:
    """The array of np.nan_to_num(copy=False), after its result has been written into it."""
    if not isinstance(target, TracedArray) or target.generic:
        raise Unsupported("unsupported-argument", "np.nan_to_num", "copy=False")
    target.assign(result.node, strict=True)
    return target


class FlatView:
    """`x.flat`: all elements in C order."""

    def __init__(self, array: TracedArray) -> None:
        """Look at an array."""
        self._array = array

    def _values(self) -> Any:
        """The elements, as an array of its own."""
        array = self._array
        whole = dims.product(array.dims)
        return array.tracing.wrap(array.tracing.node("reshape", [array.node], str(whole)))

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
        if isinstance(given, TracedArray) and given.ndim:
            raise Unsupported("unsupported-argument", "ndarray.flat", "values that are repeated")
        if isinstance(index, slice) and plain_slice(index) == slice(None):
            array[...] = given
            return
        values = self._values()
        values[index] = given
        shape = ", ".join(map(str, array.dims))
        array.assign(tracing.node("reshape", [values.node], shape))

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
