"""NumPy functions that are formulas over other NumPy functions: traced as those formulas.

So are those that call another one for each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import handles, plain_function
from fuser.ir.graph import make_constant
from fuser.ir.views import Broadcast
from fuser.numpy_functions.array_functions import _array
from fuser.numpy_functions.splits_and_joins import ordered_like
from fuser.tracing import selections
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: np.tile and np.repeat write each copy by a loop nest of its own, up to this many.
COPIES_LIMIT = 16


# -- products -------------------------------------------------------------------------------


@handles(np.inner)
def _inner(tracing: Tracing, a: Any, b: Any) -> Any:
    """np.inner of vectors, which is their dot product."""
    left, right = _array(tracing, a), _array(tracing, b)
    if left.ndim != 1 or right.ndim != 1:
        raise Unsupported("unsupported-function", "np.inner", "a product of matrices")
    return np.dot(left, right)


@handles(np.vdot)
def _vdot(tracing: Tracing, a: Any, b: Any, /) -> Any:
    """np.vdot: the dot product of both flattened, the first one conjugated."""
    return np.dot(_array(tracing, a).ravel().conj(), _array(tracing, b).ravel())


@handles(np.linalg.vecdot)
def _vecdot(tracing: Tracing, x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """np.linalg.vecdot."""
    sides: list[Any] = [_array(tracing, value) for value in (x1, x2)]
    if axis != -1:
        sides = [np.moveaxis(value, axis, -1) for value in sides]
    return np.vecdot(*sides)


@handles(np.cross)
def _cross(
    tracing: Tracing, a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1,
    axis: Any = None,
) -> Any:  # fmt: skip
    """np.cross of vectors of three numbers."""
    if axis is not None:
        axisa = axisb = axisc = axis
    vectors: list[Any] = []
    for value, place in ((a, axisa), (b, axisb)):
        found: Any = _array(tracing, value)
        found = np.moveaxis(found, normal_axis(place, found.ndim), -1)
        length = tracing.resolve(found.dims[-1])
        if tracing.size(length) != 3 or found.dtype.kind not in "fiu":
            raise Unsupported(
                "unsupported-argument", "np.cross",
                "vectors whose length is not 3, or of complex numbers",
            )
        if not isinstance(length, int):
            tracing.guard_value(str(length), 3)
        vectors.append(found)
    dtype = np.promote_types(vectors[0].dtype, vectors[1].dtype)
    (a0, a1, a2), (b0, b1, b2) = (
        [vector[..., place].astype(dtype, copy=False) for place in range(3)] for vector in vectors
    )
    joined: Any = np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)
    whole: Any = tracing.wrap(tracing.own(joined.node, dtype, "C"))
    last = normal_axis(axisc, whole.ndim) == whole.ndim - 1
    return whole if last else np.moveaxis(whole, -1, axisc)


# -- comparisons and choices ----------------------------------------------------------------


@handles(np.piecewise)
def _piecewise(
    tracing: Tracing, x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any
) -> Any:
    """np.piecewise of constants, and of functions of what a condition selects."""
    value: Any = _array(tracing, x)
    masks: list[Any] = [_array(tracing, condition) for condition in condlist]
    if not all(selections.is_mask(mask, value) for mask in masks):
        raise Unsupported(
            "unsupported-argument", "np.piecewise",
            "conditions that are not boolean masks of the array",
        )
    if len(funclist) == len(masks) + 1:
        masks = [~_any_of(masks), *masks]
        funclist = [funclist[-1], *funclist[:-1]]
    elif len(funclist) != len(masks):
        raise ValueError(
            f"with {len(masks)} condition(s), either {len(masks)} or {len(masks) + 1} functions "
            "are expected"
        )
    result: Any = np.zeros_like(value)
    for mask, function in zip(masks, funclist, strict=True):
        if callable(function):
            result = _piece(tracing, value, mask, result, function(value[mask], *args, **kw))
        else:
            result = np.where(mask, value.dtype.type(function), result)
    return result


def _piece(tracing: Tracing, value: Any, mask: Any, result: Any, piece: Any) -> Any:
    """A result into which what a function made of a selection is written."""
    found = _array(tracing, piece)
    node = selections.whole(tracing, mask.node, found.node)
    if node is None:
        raise Unsupported(
            "unsupported-argument", "np.piecewise", "a function that does not go element by element"
        )
    return np.where(mask, tracing.wrap(tracing.cast(node, value.dtype)), result)


def _any_of(masks: Sequence[Any]) -> Any:
    """Where one of them holds."""
    result = masks[0]
    for mask in masks[1:]:
        result = result | mask
    return result


# -- larger and repeated arrays -------------------------------------------------------------


@handles(np.tile)
def _tile(tracing: Tracing, A: Any, reps: Any) -> Any:  # noqa: N803 - NumPy's name
    """np.tile: the whole array, again along each axis."""
    x = _array(tracing, A)
    counts = [int(count) for count in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    rank = max(x.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    x = x[(None,) * (rank - x.ndim)] if rank > x.ndim else x
    if min(counts, default=1) < 1:
        raise Unsupported("unsupported-argument", "np.tile", "a number of repetitions below 1")
    if all(count == 1 for count in counts):
        return tracing.wrap(tracing.own(x.node, x.dtype, "K"))
    if math.prod(counts) > COPIES_LIMIT:
        raise Unsupported("unsupported-argument", "np.tile", f"over {COPIES_LIMIT} repetitions")
    for place, count in enumerate(counts):
        if count > 1:
            x = np.concatenate([x] * count, axis=place)  # type: ignore[assignment]
    return tracing.wrap(tracing.own(x.node, x.dtype, "C"))


@handles(np.repeat)
def _repeat(tracing: Tracing, a: Any, repeats: Any, axis: Any = None) -> Any:
    """np.repeat of every element, the same small number of times."""
    x: Any = _array(tracing, a)
    if axis is None:
        x, axis = x.ravel(), 0
    place = normal_axis(axis, x.ndim)
    lengths = list(x.shape)
    number = repeats.kind if isinstance(repeats, HostScalar) else type(repeats)
    if x.dims[place] == 1 and number is int:
        lengths[place] = repeats  # a negative one is an error, as it is for NumPy
        x = np.broadcast_to(x, tuple(lengths))
        return tracing.wrap(tracing.own(x.node, x.dtype, "C"))
    if type(repeats) is not int or not 1 <= repeats <= COPIES_LIMIT:
        raise Unsupported("unsupported-argument", "np.repeat", f"repeats={repeats!r}")
    lengths[place] = lengths[place] * repeats
    apart = np.stack([x] * repeats, axis=place + 1)
    joined: Any = apart.reshape(tuple(lengths))
    return joined if x.ndim < 2 else tracing.wrap(tracing.own(joined.node, x.dtype, "C"))


def _pad_widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    """Before and after, for each axis."""
    if isinstance(pad_width, (dict, TracedArray, HostScalar)):
        raise Unsupported("unsupported-argument", "np.pad", "this form of pad_width")
    wide = np.broadcast_to(np.asarray(pad_width), (rank, 2))
    if wide.dtype.kind != "i" or (wide.size and wide.min() < 0):
        raise Unsupported("unsupported-argument", "np.pad", f"pad_width={pad_width!r}")
    return [(int(before), int(after)) for before, after in wide]


@handles(np.pad)
def _pad(tracing: Tracing, array: Any, pad_width: Any, mode: Any = "constant", **kw: Any) -> Any:
    """np.pad with constants or with the array's own values."""
    x: Any = _array(tracing, array)
    fill = kw.pop("constant_values", 0)
    modes = ("constant", "edge", "reflect", "symmetric", "wrap")
    if mode not in modes or kw or type(fill) not in (int, float, bool):
        raise Unsupported("unsupported-argument", "np.pad", f"mode={mode!r} with these options")
    widths = _pad_widths(pad_width, x.ndim)
    constant = np.asarray(fill).astype(x.dtype)[()]
    path: list[int] = []
    for place, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        if mode != "constant":
            _need_length(tracing, x, place, mode, max(before, after))
        _long_enough(tracing, x, place, 2 * max(before, after))
        parts = [x]
        for width, first in ((before, True), (after, False)):
            if width and mode in ("constant", "edge"):
                edge = constant if mode == "constant" else _edge(x, place, mode, 1, first)
                parts.insert(0 if first else 2, _filler(tracing, x, place, width, edge))
            elif width:
                parts.insert(0 if first else 2, _edge(x, place, mode, width, first))
        x = np.concatenate(parts, axis=place)
        path.insert(0, int(before > 0))
    if not path:
        return tracing.wrap(tracing.own(x.node, x.dtype, "K"))
    return ordered_like(tracing, x, "A", 0, *path)


def _edge(x: Any, place: int, mode: str, width: int, first: bool) -> Any:
    """The array's own values that a mode of np.pad puts before it or after it."""
    lead = (slice(None),) * place
    skip = int(mode == "reflect")  # it does not repeat the value at the edge
    if first != (mode == "wrap"):
        found = x[(*lead, slice(skip, width + skip))]
    else:
        found = x[(*lead, slice(-width - skip, -skip or None))]
    return found if mode in ("edge", "wrap") else np.flip(found, place)


def _long_enough(tracing: Tracing, x: TracedArray, place: int, bound: int) -> None:
    """Note that an axis is long, if it is: then it is known which part a slice lies in."""
    if tracing.size(x.dims[place]) >= bound:
        tracing.hold_at_least(x.dims[place], bound)


def _need_length(tracing: Tracing, x: TracedArray, place: int, mode: str, width: int) -> None:
    """Refuse an axis whose values do not suffice: empty, or seen more than once."""
    length = x.dims[place]
    if tracing.size(length) == 0:
        raise ValueError(f"can't extend empty axis {place} using modes other than 'constant'")
    wanted = 1 if mode == "edge" else width + (mode == "reflect")
    if tracing.size(length) < wanted:
        raise Unsupported("unsupported-argument", "np.pad", f"mode={mode!r} wider than the array")
    if not isinstance(tracing.resolve(length), int):
        tracing.guard_value(f"({length}) >= {wanted}", True)


def _filler(tracing: Tracing, x: TracedArray, place: int, width: int, value: Any) -> Any:
    """An array like x, but `width` long on one axis, of an array's or a constant's values."""
    shape = (*x.dims[:place], width, *x.dims[place + 1 :])
    node = value.node if isinstance(value, TracedArray) else make_constant(value, x.dtype)
    return tracing.wrap(tracing.node("broadcast_to", [node], Broadcast(shape)))


# -- axes -----------------------------------------------------------------------------------


#: Functions of a row that give a number, which take an axis: what they give for each row.
_OF_ROWS = frozenset(
    [np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.amax, np.amin, np.any, np.all,
     np.argmax, np.argmin, np.ptp, np.linalg.norm, np.count_nonzero]
)  # fmt: skip


@handles(np.apply_along_axis)
def _apply_along_axis(
    tracing: Tracing, func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """np.apply_along_axis of a reduction; any other function is NumPy's to call, row by row."""
    function = plain_function(func1d)
    x = _array(tracing, arr)
    rows = type(function) is type(np.sum) and function in _OF_ROWS and not (args or kwargs)
    if not rows or x.ndim < 2 or any(tracing.size(dim) == 0 for dim in x.dims):
        raise Unsupported(
            "unsupported-argument", "np.apply_along_axis",
            "a function that is not one of NumPy's reductions of a row",
        )
    for dim in x.dims:  # of none at all NumPy refuses to make rows
        tracing.guard_reach(dim, 1)
    found: Any = tracing.apply_function(function, (x,), {"axis": normal_axis(axis, x.ndim)})
    return found if found.ndim < 2 else tracing.wrap(tracing.own(found.node, found.dtype, "C"))
