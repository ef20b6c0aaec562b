"""NumPy functions that divide arrays, join them, or do both."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import infer
from fuser.ir.attributes import Axis
from fuser.ir.function_table import handles
from fuser.ir.graph import Node
from fuser.ir.views import Broadcast, Reshape
from fuser.numpy_functions.array_functions import _array, _refuse, _sequence, result_type
from fuser.tracing import boxes
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


def _parts(tracing: Tracing, ary: Any, sections: Any, axis: Any) -> list[TracedArray]:
    """Equal parts along an axis: slices whose length is the whole's divided by the number."""
    x = _array(tracing, ary)
    place = normal_axis(axis, x.ndim)
    lead = (slice(None),) * place
    if isinstance(sections, (list, tuple)):
        edges = [None, *(int(s) for s in sections), None]
        return [x[(*lead, slice(a, b))] for a, b in itertools.pairwise(edges)]
    number = int(sections)
    if number < 1:
        raise ValueError("number sections must be larger than 0.")
    length = tracing.resolve(x.dims[place])
    if tracing.size(length) % number:
        raise ValueError("array split does not result in an equal division")
    if not isinstance(length, int):
        tracing.guard_value(f"({length}) % {number}", 0)
    # [n] -> [number, n/number] along the axis, then each row of the new axis.
    shape = (*x.dims[:place], number, length // number, *x.dims[place + 1 :])
    split = x._view(Reshape(shape))
    return [split[(*lead, part)] for part in range(number)]


@handles(np.array_split)
def _array_split(tracing: Tracing, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """np.array_split into equal parts."""
    x = _array(tracing, ary)
    if not isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        length = tracing.size(x.dims[normal_axis(axis, x.ndim)])
        if length % int(indices_or_sections):
            raise Unsupported(
                "unsupported-argument", "np.array_split", "a split into parts of different lengths"
            )
    return _parts(tracing, ary, indices_or_sections, axis)


@handles(np.concatenate)
def _concatenate(
    tracing: Tracing, arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None,
    casting: str = "same_kind",
) -> Any:  # fmt: skip
    """np.concatenate: operands are written into slices of the result."""
    _refuse("concatenate", out=out)
    operands = [_array(tracing, a) for a in arrays]
    if not operands:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        operands, axis = [a.ravel() for a in operands], 0
    if any(not a.dims for a in operands):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    place = normal_axis(axis, operands[0].ndim)
    if len({a.ndim for a in operands}) > 1:
        raise ValueError(
            "all the input array dimensions except for the concatenation axis must match exactly"
        )
    wanted = result_type(*operands) if dtype is None else infer.dtype_of(dtype)
    nodes: list[Node] = []
    for operand in operands:
        if not np.can_cast(operand.dtype, wanted, casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {operand.dtype!r} to {wanted!r}")
        nodes.append(tracing.cast(operand.node, wanted))
    _same_beside(tracing, operands, place)
    return tracing.wrap(tracing.node("concatenate", nodes, Axis(place)))


def _same_beside(tracing: Tracing, operands: Sequence[TracedArray], place: int) -> None:
    """Lengths of other axes must be equal; here 1 does not broadcast."""
    for operand in operands[1:]:
        for axis, (left, right) in enumerate(zip(operands[0].dims, operand.dims, strict=True)):
            if axis == place:
                continue
            if tracing.size(left) != tracing.size(right):
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match "
                    f"exactly, but along dimension {axis}, the array at index 0 has size "
                    f"{tracing.size(left)} and another has size {tracing.size(right)}"
                )
            tracing.hold_lengths([left], [right])


@handles(np.stack)
def _stack(tracing: Tracing, arrays: Any, axis: Any = 0, out: Any = None, **options: Any) -> Any:
    """np.stack."""
    operands = [_array(tracing, a) for a in arrays]
    places = [normal_axis(axis, a.ndim + 1) for a in operands]
    expanded = [np.expand_dims(a, place) for a, place in zip(operands, places, strict=True)]
    return _concatenate(tracing, expanded, places[0], out, **options)


@handles(np.roll)
def _roll(tracing: Tracing, a: Any, shift: Any, axis: Any = None) -> Any:
    """np.roll by a fixed number of places."""
    x = _array(tracing, a)
    if axis is None:
        if x.ndim == 1:
            return _roll_axis(tracing, x, shift, 0)
        rolled = _roll_axis(tracing, x.reshape(-1), shift, 0)
        return tracing.wrap(rolled.reshape(x.shape).node)
    pairs = [(by, normal_axis(place, x.ndim)) for by, place in _pairs(shift, axis)]
    for by, place in pairs:
        x = _roll_axis(tracing, x, by, place)
    return x


def _pairs(shift: Any, axis: Any) -> list[tuple[Any, Any]]:
    """Shifts and axes, one of which may stand for several."""
    if isinstance(shift, (np.ndarray, TracedArray)):
        raise Unsupported("unsupported-argument", "np.roll", "a shift that is an array")
    shifts, axes = list(_sequence(shift)), list(_sequence(axis))
    count = max(len(shifts), len(axes))
    if len(shifts) not in (1, count) or len(axes) not in (1, count):
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts = shifts if len(shifts) == count else shifts * count
    return list(zip(shifts, axes if len(axes) == count else axes * count, strict=True))


def ordered_like(tracing: Tracing, x: TracedArray, order: str, *like: int) -> TracedArray:
    """The same array in another one's memory order: see `Cast`."""
    return x if x.ndim < 2 else tracing.wrap(tracing.own(x.node, x.dtype, order, *like))


def _roll_axis(tracing: Tracing, x: TracedArray, shift: Any, place: int) -> TracedArray:
    """Roll along one axis: the last elements, then the others."""
    if isinstance(shift, (np.ndarray, TracedArray)):
        raise Unsupported("unsupported-argument", "np.roll", "a shift that is an array")
    by, length = int(shift), x.dims[place]
    size = tracing.size(length)
    if by and 2 * abs(by) <= size:  # then the ends of two such rolls do not overlap
        tracing.hold_at_least(length, 2 * abs(by))
    elif by and abs(by) <= size:
        if not isinstance(tracing.resolve(length), int):
            tracing.guard_value(f"({length}) >= {abs(by)}", True)
    elif by:  # which elements are last depends on the length itself
        if not isinstance(tracing.resolve(length), int):
            tracing.guard_value(str(length), size)
        by = by % size if size else 0
    if not by:
        made: TracedArray = tracing.wrap(tracing.own(x.node, x.dtype, "K"))
        return made
    lead = (slice(None),) * place
    halves = [x[(*lead, slice(-by, None))], x[(*lead, slice(None, -by))]]
    joined: TracedArray = _concatenate(tracing, halves, place)
    return ordered_like(tracing, joined, "K", 0, 0, 0)


@handles(np.diff)
def _diff(
    tracing: Tracing, a: Any, n: Any = 1, axis: Any = -1, prepend: Any = np._NoValue,
    append: Any = np._NoValue,
) -> Any:  # fmt: skip
    """np.diff."""
    if int(n) < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if not n:
        return a
    x = _array(tracing, a)
    place = normal_axis(axis, x.ndim)
    parts = [x]
    for position, given in ((0, prepend), (2, append)):
        if given is not np._NoValue:
            parts.insert(position, _beside(tracing, x, given, place))
    if len(parts) > 1:
        x = _concatenate(tracing, parts, place)
        boxes.long_parts(tracing, x.node, int(n))
    lead = (slice(None),) * place
    step: Any = np.not_equal if x.dtype.kind == "b" else np.subtract
    for _ in range(int(n)):
        x = step(x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))])
    return x


def _beside(tracing: Tracing, x: TracedArray, given: Any, place: int) -> TracedArray:
    """What np.diff joins to an array: an array, or one value all along the other axes."""
    value = _array(tracing, given if isinstance(given, TracedArray) else np.asarray(given)[()])
    if value.dims:
        return value
    shape = (*x.dims[:place], 1, *x.dims[place + 1 :])
    made: TracedArray = tracing.wrap(tracing.node("broadcast_to", [value.node], Broadcast(shape)))
    return made
