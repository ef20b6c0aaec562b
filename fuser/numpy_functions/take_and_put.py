"""Elements at places that are written in the code: taken, left out, put in, and put together.

`x[[2, 0]]`, `np.take(x, [0, 3], axis=1)`, `np.delete(x, 1)` and `np.insert(x, 2, 0.5)` are joins of
slices, as is what `np.block`, `np.kron`, `np.vander` and `np.ediff1d` make.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.function_table import handles
from fuser.ir.views import Broadcast, Reshape
from fuser.numpy_functions.array_functions import _array
from fuser.numpy_functions.splits_and_joins import ordered_like
from fuser.tracing.indices import is_whole, normal_axis
from fuser.tracing.sequences import has_traced
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray

#: More places than this are left to NumPy: each is a part of a join.
PLACES_LIMIT = 16


def constant_places(index: Any) -> list[int] | None:
    """The integers of a flat list that is written in the code; None for anything else."""
    if type(index) is not list or not 1 <= len(index) <= PLACES_LIMIT:
        return None
    return index if all(type(place) is int for place in index) else None


def taken(x: TracedArray, index: Any) -> TracedArray | None:
    """`x[index]` where one entry is a list of places, or the first ones are; else None."""
    given = index if isinstance(index, tuple) else (index,)
    lists = [constant_places(part) for part in given]
    if sum(found is not None for found in lists) == 1:
        place = next(k for k, found in enumerate(lists) if found is not None)
        others = (*given[:place], *given[place + 1 :])
        if not all(map(is_whole, others)):
            return None
        return _along(x, lists[place] or [], place)
    if len(given) > x.ndim or any(found is None for found in lists):
        return None
    if len({len(found or []) for found in lists}) != 1:
        return None
    rows = zip(*(found or [] for found in lists), strict=True)
    parts: list[Any] = [x[row] for row in rows]
    made: Any = np.stack(parts)
    return made  # type: ignore[no-any-return] # a traced array


def _along(x: TracedArray, places: Sequence[int], axis: int) -> TracedArray | None:
    """Parts along an axis, which is the outermost in memory as NumPy lays it out."""
    if axis >= x.ndim:
        return None
    _check(x.tracing, x, places, axis)
    lead = (slice(None),) * axis
    if x.ndim == 1:
        slices: list[Any] = [x[part] for part in _slices(places)]
        joined: Any = np.concatenate(slices)
        return joined  # type: ignore[no-any-return] # a traced array
    parts: list[Any] = [x[(*lead, place)] for place in places]
    found: Any = np.stack(parts)
    return np.moveaxis(found, 0, axis) if axis else found  # type: ignore[no-any-return]


def _slices(places: Sequence[int]) -> list[slice]:
    """Slices that show the places one after another: evenly spaced ones of one sign together."""
    found: list[slice] = []
    start = 0
    while start < len(places):
        end = start + 1
        step = places[end] - places[start] if end < len(places) else 0
        while end < len(places) and step and places[end] - places[end - 1] == step:
            if (places[end] < 0) != (places[start] < 0):
                break
            end += 1
        found.append(_slice(places[start], places[end - 1], step if end - start > 1 else 1))
        start = end
    return found


def _slice(first: int, last: int, step: int) -> slice:
    """From a place to another, both included."""
    stop: int | None = last + (1 if step > 0 else -1)
    if (last == -1 and step > 0) or (last == 0 and step < 0):
        stop = None
    return slice(first, stop, step)


def _check(tracing: Tracing, x: TracedArray, places: Sequence[int], axis: int) -> None:
    """NumPy's error for places beyond an axis; those within have to be so in later calls."""
    length = tracing.size(x.dims[axis])
    for place in places:
        if not -length <= place < length:
            raise IndexError(f"index {place} is out of bounds for axis {axis} with size {length}")
        tracing.guard_reach(x.dims[axis], place + 1 if place >= 0 else -place)


def assign(x: TracedArray, index: Any, value: Any) -> bool:
    """`x[[2, 0]] = value` as one write after another; whether it could be."""
    if type(index) is tuple:
        return _assign_along(x, index, value)
    places = constant_places(index)
    if places is None or x.ndim == 0 or isinstance(value, (list, tuple)):
        return False
    tracing = x.tracing
    given = tracing.operand(value)
    parts = [given] * len(places)
    if isinstance(given, TracedArray) and given.ndim >= x.ndim:
        first = tracing.resolve(given.dims[0])
        late = not tracing.late.isdisjoint(dims.symbols(first))
        if late or given.ndim > x.ndim or tracing.size(first) != len(places):
            return False
        if not isinstance(tracing.resolve(given.dims[0]), int):
            tracing.hold_exactly(given.dims[0])
        copied = tracing.wrap(given.node)  # as it is before the first write
        parts = [copied[place] for place in range(len(places))]
    _check(tracing, x, places, 0)
    for place, part in zip(places, parts, strict=True):
        x[place] = part
    return True


def _assign_along(x: TracedArray, index: tuple[Any, ...], value: Any) -> bool:
    """`x[:, [0, -1]] = value`, of one number or of an array that all places share."""
    lists = [constant_places(part) for part in index]
    axes = [axis for axis, found in enumerate(lists) if found is not None]
    if len(axes) != 1 or len(index) > x.ndim or isinstance(value, (list, tuple)):
        return False
    (axis,) = axes
    lead, rest = index[:axis], index[axis + 1 :]
    given = x.tracing.operand(value)
    shared = not isinstance(given, TracedArray) or given.ndim < x.ndim - axis
    if not shared or not all(type(part) is slice for part in (*lead, *rest)):
        return False
    places = lists[axis] or []
    _check(x.tracing, x, places, axis)
    if isinstance(given, TracedArray):
        given = x.tracing.wrap(given.node)  # as it is before the first write
    for place in places:
        x[(*lead, place, *rest)] = given
    return True


def take(
    tracing: Tracing, x: TracedArray, indices: Any, axis: Any, out: Any, mode: str
) -> Any:
    """np.take at places that are written in the code."""
    single = type(indices) is int
    places = [indices] if single else constant_places(indices)
    if places is None or out is not None or mode != "raise":
        raise Unsupported(
            "unsupported-argument", "np.take",
            "indices that are not a short list of Python integers",
        )
    if axis is None:
        x, axis = x.ravel(), 0
    place = normal_axis(axis, x.ndim)
    _check(tracing, x, places, place)
    lead = (slice(None),) * place
    if single:
        found: Any = x[(*lead, places[0])]
        return found if found.generic else found.copy()
    parts: list[Any] = [x[(*lead, part)] for part in _slices(places)]
    whole: Any = np.concatenate(parts, axis=place)
    return whole if x.ndim == 1 else tracing.wrap(tracing.own(whole.node, x.dtype, "C"))


@handles(np.delete)
def _delete(tracing: Tracing, arr: Any, obj: Any, axis: Any = None) -> Any:
    """np.delete of places that are written in the code."""
    x = _array(tracing, arr)
    if axis is None:
        x, axis = (x if x.ndim == 1 else x.ravel()), 0
    place = normal_axis(axis, x.ndim)
    lead = (slice(None),) * place
    ends = _gaps(tracing, x, obj, place)
    parts: list[Any] = [x[(*lead, slice(start, stop))] for start, stop in ends]
    whole: Any = np.concatenate(parts, axis=place)
    return ordered_like(tracing, whole, "A", 0, 0, 0)


def _gaps(
    tracing: Tracing, x: TracedArray, obj: Any, axis: int
) -> list[tuple[int | None, int | None]]:
    """What lies between places."""
    if type(obj) is slice and obj.step in (None, 1):
        start, stop = (0 if obj.start is None else obj.start), obj.stop
        if type(start) is int and type(stop) is int and 0 <= start <= stop:
            return [(None, start), (stop, None)]
    places = [obj] if type(obj) is int else constant_places(obj)
    if places is None or len({place < 0 for place in places}) > 1:
        raise Unsupported(
            "unsupported-argument", "np.delete",
            "indices that are not a short list of Python integers",
        )
    _check(tracing, x, places, axis)
    edges = [None, *sorted(set(places)), None]
    found: list[tuple[int | None, int | None]] = []
    for before, after in itertools.pairwise(edges):
        start = None if before is None else before + 1
        if before is not None and start == 0 and before < 0:
            continue  # nothing comes after the last element
        if start is None or after is None or start != after:
            found.append((start, after))
    return found


@handles(np.insert)
def _insert(tracing: Tracing, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """np.insert at one place that is written in the code."""
    x = _array(tracing, arr)
    if axis is None:
        x, axis = (x if x.ndim == 1 else x.ravel()), 0
    place = normal_axis(axis, x.ndim)
    if type(obj) is not int or isinstance(values, (list, tuple)):
        raise Unsupported(
            "unsupported-argument", "np.insert", "several indices, or a list of values"
        )
    length = tracing.size(x.dims[place])
    if not -length <= obj <= length:
        raise IndexError(f"index {obj} is out of bounds for axis {place} with size {length}")
    tracing.guard_reach(x.dims[place], abs(obj))
    given = tracing.operand(values)
    if isinstance(given, TracedArray) and given.ndim >= x.ndim:
        raise Unsupported(
            "unsupported-argument", "np.insert", "values with as many axes as the array"
        )
    lead = (slice(None),) * place
    new: Any = tracing.wrap(tracing.operand_node(given, x.dtype))
    shape = (*x.dims[:place], 1, *x.dims[place + 1 :])
    if new.ndim:
        new = np.moveaxis(new[(*(None,) * (x.ndim - new.ndim), ...)], 0, place)
    if not tracing.fits_into(shape, new.dims):
        raise ValueError("could not broadcast values to the place where they are inserted")
    wide = new._view(Broadcast(shape))
    parts: list[Any] = [x[(*lead, slice(None, obj))], wide, x[(*lead, slice(obj, None))]]
    whole: Any = np.concatenate(parts, axis=place)
    return ordered_like(tracing, whole, "A", 0, 0, 0)


# -- put together ---------------------------------------------------------------------------


@handles(np.block)
def _block(tracing: Tracing, arrays: Any) -> Any:
    """np.block: rows of blocks, joined along the last axes."""
    depth = _depth(arrays)
    if depth == 0:
        return _array(tracing, arrays).copy()
    leaves = _leaves(tracing, arrays)
    rank = max(depth, *(leaf.ndim for leaf in leaves))
    return _joined(tracing, arrays, rank, depth)


def _depth(blocks: Any) -> int:
    """How deep lists nest, which is the same everywhere.

    Raises:
        Unsupported: it is not, or a list is empty.
    """
    if type(blocks) is not list:
        return 0
    found = {_depth(part) for part in blocks}
    if len(found) != 1:
        raise Unsupported("unsupported-argument", "np.block", "nested lists whose depths differ")
    return found.pop() + 1


def _leaves(tracing: Tracing, blocks: Any) -> list[TracedArray]:
    """The blocks themselves."""
    if type(blocks) is not list:
        return [_array(tracing, blocks)]
    return [leaf for part in blocks for leaf in _leaves(tracing, part)]


def _joined(tracing: Tracing, blocks: Any, rank: int, depth: int) -> Any:
    """Blocks joined along the axis that belongs to their depth."""
    if depth == 0:
        block = _array(tracing, blocks)
        return block[(*(None,) * (rank - block.ndim), ...)] if block.ndim < rank else block
    parts = [_joined(tracing, part, rank, depth - 1) for part in blocks]
    return np.concatenate(parts, axis=-depth)


@handles(np.kron)
def _kron(tracing: Tracing, a: Any, b: Any) -> Any:
    """np.kron: every product, axes side by side."""
    left, right = _array(tracing, a), _array(tracing, b)
    if left.ndim == 0 or right.ndim == 0:
        return np.multiply(left, right)
    rank = max(left.ndim, right.ndim)
    left, right = (side[(*(None,) * (rank - side.ndim), ...)] for side in (left, right))
    one: list[Any] = []
    other: list[Any] = []
    for _ in range(rank):
        one += [slice(None), None]
        other += [None, slice(None)]
    product: Any = np.multiply(left[tuple(one)], right[tuple(other)])
    shape = tuple(first * second for first, second in zip(left.dims, right.dims, strict=True))
    node = tracing.own(product.node, product.dtype, "C")
    return tracing.wrap(tracing.node("reshape", [node], Reshape(shape)))


@handles(np.vander)
def _vander(tracing: Tracing, x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803
    """np.vander: columns of powers, each the product of the one before it."""
    column: Any = _array(tracing, x)
    if column.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = tracing.resolve(column.dims[0]) if N is None else N
    if type(count) is not int or not 1 <= count <= PLACES_LIMIT:
        raise Unsupported("unsupported-argument", "np.vander", "a number of columns that varies")
    column = column.astype(np.promote_types(column.dtype, int), copy=False)
    powers = [np.ones_like(column)]
    for place in range(1, count):
        powers.append(column if place == 1 else powers[-1] * column)
    found: Any = np.stack(powers if increasing else powers[::-1], axis=1)
    return tracing.wrap(tracing.own(found.node, column.dtype, "C"))


@handles(np.ediff1d)
def _ediff1d(tracing: Tracing, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """np.ediff1d: differences of neighbours, and what is put around them."""
    x: Any = _array(tracing, ary).ravel()
    parts: list[Any] = [x[1:] - x[:-1]]
    for position, given in ((0, to_begin), (2, to_end)):
        if given is None:
            continue
        traced = isinstance(given, TracedArray) or has_traced(given)
        value = _array(tracing, given if traced else np.asarray(given)[()]).ravel()
        if not np.can_cast(value.dtype, x.dtype, "same_kind"):
            name = "to_end" if position else "to_begin"
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary`")
        parts.insert(position, value.astype(x.dtype, copy=False))
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


@handles(np.tensordot)
def _tensordot(tracing: Tracing, a: Any, b: Any, axes: Any = 2) -> Any:
    """np.tensordot over all axes: no product of matrices."""
    left, right = _array(tracing, a), _array(tracing, b)
    one, other = _contracted(left.ndim, axes)
    if not one or not len(one) == len(other) == left.ndim == right.ndim:
        raise Unsupported("unsupported-argument", "np.tensordot", "a product of matrices")
    places = [normal_axis(axis, left.ndim) for axis in one]
    turned = right.transpose(*(other[places.index(axis)] for axis in range(left.ndim)))
    pairs = zip(left.dims, turned.dims, strict=True)
    if sorted(places) != list(range(left.ndim)) or any(
        tracing.size(first) != tracing.size(second) for first, second in pairs
    ):
        raise ValueError("shape-mismatch for sum")
    return tracing.wrap(np.dot(left.ravel(), turned.ravel()).node)  # an array, not a scalar


def _contracted(rank: int, axes: Any) -> tuple[list[int], list[int]]:
    """The axes of both operands that are summed over."""
    if type(axes) is int:
        return list(range(rank - axes, rank)), list(range(axes))
    if not isinstance(axes, (list, tuple)) or len(axes) != 2:
        raise Unsupported("unsupported-argument", "np.tensordot", f"axes={axes!r}")
    one, other = (list(part) if isinstance(part, (list, tuple)) else [part] for part in axes)
    if not all(type(axis) is int for axis in (*one, *other)):
        raise Unsupported("unsupported-argument", "np.tensordot", f"axes={axes!r}")
    return one, other
