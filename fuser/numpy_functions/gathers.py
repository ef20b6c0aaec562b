"""Elements at places that arrays say, read and written.

`x[i]`, `x[i, j]`, np.take, np.take_along_axis: kernels compute the indices, check them and read
the elements where they are used. An index beyond its axis ends the call in NumPy, before anything
is written: NumPy raises its IndexError.

np.bincount, np.add.at, `x[i] = value`, histograms: kernels do the same and write one element after
another, in C order of the indices, as NumPy does of one index of one axis. Of several, or of more
axes, NumPy's order follows their memory: those are NumPy's, but for sums and extremes of integers,
which have no order. So are writes into arguments, which NumPy does in place. Kernels write into a
copy: an index beyond its axis ends the call in NumPy before anything that others see is written,
and NumPy raises its IndexError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import ShapeError, Unsupported
from fuser.ir.attributes import Places
from fuser.ir.dims import Dim
from fuser.ir.function_table import handles
from fuser.ir.graph import Node, make_constant
from fuser.ir.views import Broadcast, Index, Transpose
from fuser.numpy_functions import take_and_put
from fuser.numpy_functions.array_functions import _array as array_of
from fuser.tracing.admitted_dtypes import has_scatters
from fuser.tracing.indices import is_whole, length_of, normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


def taken(x: TracedArray, index: Any) -> Any:
    """`x[i]`, `x[:, i]`, `x[i, j]` and `x[i, 0]` of arrays of integers; None for other indices."""
    found = indexed(x, index)
    if found is None:
        return None
    x, arrays, axes = found
    if len(axes) == x.ndim:
        return gathered(x, arrays, Places(tuple(-1 - k for k in axes)))
    if arrays[0].ndim == 1:
        return along(x, arrays[0], axes[0], moved=True)
    if axes[0] or x.ndim > 2:  # NumPy's memory order follows other rules
        return None
    found = along(x, arrays[0], 0, moved=True)
    return x.tracing.wrap(x.tracing.own(found.node, x.dtype, "C"))


def indexed(x: TracedArray, index: Any) -> tuple[TracedArray, list[Any], list[int]] | None:
    """An index by arrays of integers: of one axis beside whole ones, or of all axes.

    Returns:
        What is indexed, the arrays, and the axis that each is of; None for other indices.
    """
    given = index if isinstance(index, tuple) else (index,)
    if not is_table(x) or any(part is None for part in given):
        return None
    dots = [k for k, part in enumerate(given) if part is Ellipsis]
    used = len(given) - len(dots)
    if used > x.ndim or len(dots) > 1:
        return None
    if dots:
        rest = (slice(None),) * (x.ndim - used)
        given = (*given[: dots[0]], *rest, *given[dots[0] + 1 :])
    whole = [is_whole(part) for part in given]
    single = [type(part) is int for part in given]
    axes = [axis for axis in range(len(given)) if not (whole[axis] or single[axis])]
    arrays = [integers(x.tracing, given[axis]) for axis in axes]
    if not arrays or any(array is None for array in arrays):
        return None
    if any(single):
        if any(whole) or len(given) < x.ndim:  # its axes would be moved
            return None
        x = x[tuple(part if type(part) is int else slice(None) for part in given)]
        axes = list(range(x.ndim))
    return (x, arrays, axes) if len(axes) in (1, x.ndim) else None


@handles(np.take)
def _take(
    tracing: Tracing, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise"
) -> Any:
    """np.take of places that an array says, or the code."""
    index = integers(tracing, indices)
    x = array_of(tracing, a)
    if index is None:
        return take_and_put.take(tracing, x, indices, axis, out, mode)
    if out is not None or not is_table(x) or mode not in ("raise", "clip", "wrap"):
        raise Unsupported("unsupported-argument", "np.take", "out=, or another dtype or mode")
    if axis is None:
        x, axis = x.ravel(), 0
    place = normal_axis(axis, x.ndim)
    number: Any = index.astype(np.int64, copy=False)
    length: Any = x._length(x.dims[place])
    if mode == "clip":
        number = np.minimum(np.maximum(number, 0), length - 1)
    elif mode == "wrap":
        number = number % length
    found = along(x, number, place, moved=False)
    return tracing.wrap(tracing.own(found.node, x.dtype, "C"))


def along_axis(x: Any, index: Any, axis: Any) -> Any:
    """np.take_along_axis.

    Raises:
        Unsupported: NumPy has other arrays, or raises.
    """
    plain = is_table(x) and type(axis) is int and -x.ndim <= axis < x.ndim
    numbers = integers(x.tracing, index) if plain else None
    if numbers is None or numbers.ndim != x.ndim:
        raise Unsupported("unsupported-function", "np.take_along_axis", "")
    place = normal_axis(axis, x.ndim)
    return gathered(x, [numbers], Places(tuple(-1 if k == place else k for k in range(x.ndim))))


def integers(tracing: Tracing, index: Any) -> Any:
    """An index as an array of integers of 64 bits; None for any other index."""
    if type(index) is np.ndarray and index.ndim and index.dtype.kind in "iu":
        index = tracing.operand(index)
    if not isinstance(index, TracedArray) or index.generic or not index.ndim:
        return None
    if index.dtype.kind not in "iu" or index.dtype == np.uint64:
        return None
    return index


def is_table(x: Any) -> bool:
    """Whether an array has elements that kernels can read at computed places."""
    if not isinstance(x, TracedArray) or x.generic or not x.ndim or x.dtype.kind not in "biuf":
        return False
    node = x.node
    while node.op.structure and node.args and not node.op.joins:
        node = node.args[0]
    return not (node.op.is_iota or node.op.uniform)


def along(x: TracedArray, index: TracedArray, axis: int, *, moved: bool) -> Any:
    """Elements along one axis: the index's axes stand in its place.

    Args:
        x: what is read.
        index: of at least one axis.
        axis: of `x`, counted from the front.
        moved: they are the outermost ones in memory, as of `x[:, i]`.
    """
    rank, own = index.ndim, x.ndim - 1
    widened, places = beside(x, index, axis, 0 if moved else axis)
    found = gathered(x, [widened], places)
    if not moved or not axis:
        return found
    order = (*range(rank, rank + axis), *range(rank), *range(rank + axis, rank + own))
    return x.tracing.wrap(x.tracing.node("transpose", [found.node], Transpose(order)))


def beside(x: TracedArray, index: TracedArray, axis: int, first: int) -> tuple[Any, Places]:
    """An index of one axis with axes for those before and after it, and the places of them all.

    Args:
        x: what is indexed.
        index: of at least one axis.
        axis: of `x`.
        first: where the index's axes begin.

    Raises:
        Unsupported: another axis has no elements: no kernel would look at the index.
    """
    if not all(length for place, length in enumerate(x.shape) if place != axis):
        raise Unsupported("runtime-check", "indexing", "an array without elements")
    rank, own = index.ndim, x.ndim - 1
    before = [k if k < first else k + rank for k in range(own)]
    lead = (None,) * first
    wide = (*lead, *(slice(None),) * rank, *(None,) * (own - first))
    return _view(x.tracing, index, wide), Places((*before[:axis], -1, *before[axis:]))


def _view(tracing: Tracing, index: TracedArray, parts: Sequence[slice | None]) -> Any:
    """An index with axes put in."""
    view = Index.of_parts(parts)
    if not view.parts:
        return index
    return tracing.wrap(tracing.node("index", [index.node], view))


def gathered(x: TracedArray, indices: Sequence[Any], places: Places) -> Any:
    """What a gather reads.

    Raises:
        Unsupported: shapes do not broadcast, which NumPy says in its own words.
    """
    tracing = x.tracing
    numbers: list[Node] = [tracing.cast(index.node, np.int64) for index in indices]
    try:
        made = tracing.node("gather", [*numbers, x.node], places)
    except ShapeError as error:
        raise Unsupported("unsupported-argument", "indexing", str(error)) from None
    return tracing.wrap(made)


#: Ufuncs whose `at` is a scatter, and its row.
_ROWS = {
    "add": "scatter_add", "subtract": "scatter_add", "multiply": "scatter_multiply",
    "maximum": "scatter_maximum", "minimum": "scatter_minimum",
}  # fmt: skip


@handles(np.bincount)
def _bincount(tracing: Tracing, x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """np.bincount of a length that is told: NumPy runs calls whose result is longer."""
    length = _length(minlength)
    index = array_of(tracing, x)
    numbers = integers(tracing, index)
    if not has_scatters() or length is None or numbers is None or numbers.ndim != 1:
        raise Unsupported("unsupported-argument", "np.bincount", NO_LENGTH)
    value: Any = make_constant(1, np.int64)
    if weights is not None and numbers.shape[0] != 0:  # of no numbers NumPy counts integers
        given = array_of(tracing, weights)
        same = given.ndim == 1 and given.dtype.kind in "biuf"
        if not (same and tracing.fits_into(numbers.dims, given.dims)):
            raise Unsupported("unsupported-argument", "np.bincount", "weights of another kind")
        value = tracing.cast(given.node, np.float64)
    places = tracing.cast(numbers.node, np.int64)
    negative = tracing.node("less", [places, make_constant(0, np.int64)])
    places = tracing.node("where", [negative, make_constant(BEYOND, np.int64), places])
    zeros = _wide(tracing, make_constant(0, value.dtype), (length,))
    value = _wide(tracing, value, numbers.dims)
    return tracing.wrap(tracing.node("scatter_add", [places, value, zeros], Places((-1,))))


#: An index beyond every axis.
BEYOND = (1 << 63) - 1
NO_LENGTH = "indices that are no array of integers, or no minlength=, which tells the length"


def _length(minlength: Any) -> Dim | None:
    """A length that is told by the code or by an argument; None for any other."""
    if isinstance(minlength, HostScalar):
        return length_of(minlength) if minlength.kind is int else None
    return minlength if type(minlength) is int and minlength > 0 else None


def at(tracing: Tracing, ufunc: np.ufunc, target: Any, index: Any, value: Any = None) -> None:
    """`ufunc.at(target, index, value)`.

    Raises:
        Unsupported: NumPy has another ufunc, or computes in another dtype than the array's.
    """
    name = f"np.{ufunc.__name__}.at"
    row = _ROWS.get(ufunc.__name__)
    if row is None or value is None or not is_table(target):
        raise Unsupported("unsupported-function", name, "")
    number = type(value) in (bool, int, float, complex)
    given = tracing.operand(np.asarray(value)[()] if number else value)
    if isinstance(given, HostScalar):
        raise Unsupported("unsupported-argument", name, "a number that is an argument")
    dtype = target.dtype
    if set(ufunc.resolve_dtypes((dtype, given.dtype, None))) != {dtype}:
        raise Unsupported("unsupported-dtype", name, f"{given.dtype} into {dtype}")
    node = tracing.operand_node(given, dtype)
    if ufunc is np.subtract:
        node = tracing.node("negative", [node])
    if not _write(target, index, tracing.wrap(node), row):
        raise Unsupported("unsupported-argument", name, "an index of another kind")


def put(target: TracedArray, index: Any, value: Any) -> bool:
    """`target[index] = value`, of arrays of integers; whether it could be."""
    if isinstance(value, (list, tuple)) or not is_table(target):
        return False
    tracing = target.tracing
    given = tracing.operand(value)
    node = tracing.operand_node(given, target.dtype)
    return _write(target, index, tracing.wrap(node), "scatter")


def _write(target: TracedArray, index: Any, value: TracedArray, row: str) -> bool:
    """Write into an array at places that arrays say; whether it could be."""
    given = target.storage.argument is not None  # a copy of all of it would be written back
    found = indexed(target, index) if has_scatters() and not given else None
    if found is None:
        return False
    seen, arrays, axes = found
    free = target.dtype.kind != "f" and row != "scatter"  # NumPy's order follows memory elsewhere
    if not free and (len(arrays) > 1 or arrays[0].ndim > 1):
        return False
    places = Places(tuple(-1 - k for k in axes))
    if len(axes) < seen.ndim:
        (array,), (axis,) = arrays, axes
        array, places = beside(seen, array, axis, axis)
        arrays = [array]
    tracing = target.tracing
    shapes = places.shapes([*(array.dims for array in arrays), seen.dims])
    shape = tracing.broadcast("indexing", shapes)
    if not shape or not tracing.fits_into(shape, value.dims):
        return False
    numbers = [tracing.cast(array.node, np.int64) for array in arrays]
    written = _wide(tracing, value.node, shape)
    seen.assign(tracing.node(row, [*numbers, written, seen.node], places))
    return True


def _wide(tracing: Tracing, node: Node, shape: Sequence[Dim]) -> Node:
    """A value repeated along the axes that it lacks."""
    if node.shape == tuple(shape):
        return node
    return tracing.node("broadcast_to", [node], Broadcast(tuple(shape)))
