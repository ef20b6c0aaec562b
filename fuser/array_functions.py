"""NumPy functions that are not ufuncs, spelled with rows of the op table and views."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser import dims, infer
from fuser.errors import Unsupported
from fuser.graph import Node, make_constant
from fuser.scalars import HostScalar
from fuser.traced_array import TracedArray, normal_axis
from fuser.tracer import Tracing, fits_dtype, loop_dtypes

HANDLERS: dict[Any, Callable[..., Any]] = {}


def _handles(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the handler of one or more NumPy functions."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            HANDLERS[function] = handler
        return handler

    return register


def _array(tracing: Tracing, value: Any) -> TracedArray:
    """A traced array from any operand."""
    if isinstance(value, TracedArray):
        return value
    plain = tracing.operand(value)
    if isinstance(plain, TracedArray):
        return plain
    dtype = result_type(plain)
    return tracing.wrap(tracing.operand_node(plain, dtype))


def result_type(*values: Any) -> np.dtype[Any]:
    """NumPy's promotion: Python scalars are weak, everything else is strong."""
    kinds = []
    for value in values:
        if isinstance(value, TracedArray):
            kinds.append(value.dtype)
        elif isinstance(value, HostScalar):
            kinds.append(value.kind(1))
        elif isinstance(value, np.generic):
            kinds.append(value.dtype)
        else:
            kinds.append(type(value)(1))
    return infer.dtype_of(np.result_type(*kinds))


def _plain(name: str, **options: Any) -> None:
    """Refuse options that have no fused form."""
    for option, value in options.items():
        if value:
            raise Unsupported("unsupported-argument", f"np.{name}", f"{option}={value!r}")


def scalar_power(base: TracedArray, exponent: Any) -> Any:
    """NumPy's shortcuts for `array ** scalar`; None where there is none.

    NumPy (number.c, fast_scalar_power) takes square, sqrt, reciprocal … for these exponents;
    they differ from power for some values (sqrt(-inf) is NaN, power(-inf, 0.5) is inf).
    """
    if type(exponent) not in (int, float, HostScalar) or base.generic:
        return None
    if isinstance(exponent, HostScalar):
        two: Any = 2
        if base.dtype.kind == "b" and exponent.kind is int and exponent == two:
            return np.square(base)  # int8, where power gives int64
        if exponent.kind is not float or base.dtype.kind != "f":
            return None
        tracing = base.tracing
        general: Any = np.power(base, exponent)
        is_half = HostScalar(tracing, f"({exponent.text}) == 0.5", True)
        half = tracing.operand_node(is_half, np.dtype(bool))
        root: Any = np.sqrt(base)
        chosen = tracing.node("where", [half, root.node, general.node])
        return tracing.wrap(chosen, not chosen.shape)
    if base.dtype.kind == "f":
        shortcuts = {2.0: np.square, 0.5: np.sqrt, 1.0: np.positive, -1.0: np.reciprocal}
        found = shortcuts.get(float(exponent))
        if found is not None:
            return found(base)
    if base.dtype.kind in "biu" and type(exponent) is int and exponent == 2:
        return np.square(base)
    return None


# -- choice, limits, rounding ---------------------------------------------------------------


@_handles(np.where)
def _where(tracing: Tracing, condition: Any, x: Any = None, y: Any = None) -> Any:
    """np.where with all three operands."""
    if x is None or y is None:
        raise Unsupported("unsupported-function", "np.where", "one operand: a search")
    operands = [tracing.operand(value) for value in (condition, x, y)]
    dtype = result_type(*operands[1:])
    mask = tracing.operand_node(operands[0], np.dtype(bool))
    for choice in operands[1:]:
        if not fits_dtype(choice, dtype):  # np.where lets it wrap around
            raise Unsupported("scalar-range", "np.where", f"{choice!r} against {dtype}")
    nodes = [tracing.operand_node(value, dtype) for value in operands[1:]]
    return tracing.wrap(tracing.node("where", [mask, *nodes]))


@_handles(np.clip)
def _clip(
    tracing: Tracing,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **options: Any,
) -> Any:
    """np.clip: the larger of a and a_min, then the smaller of that and a_max."""
    _plain("clip", **options)
    low = min if a_min is None else a_min
    high = max if a_max is None else a_max
    value = tracing.operand(a)
    bounds = [tracing.operand(b) for b in (low, high) if b is not None]
    operands = [value, *bounds]
    ufunc = {0: np.positive, 1: np.maximum, 2: np.maximum}[len(bounds)]
    dtype = result_type(*operands) if len(bounds) == 2 else None
    wanted = dtype or loop_dtypes(ufunc, operands, None, "same_kind")[0]
    for bound in bounds:
        if not fits_dtype(bound, wanted):
            raise Unsupported("scalar-range", "np.clip", f"{bound!r} against {wanted}")
    node = tracing.operand_node(value, wanted)
    limits_ = [tracing.operand_node(bound, wanted) for bound in bounds]
    # NumPy's loop for two scalar bounds keeps a zero that equals a bound; of equal operands
    # maximum and minimum give the second, in float16 the first.
    keep = len(bounds) == 2 and wanted.name in ("float32", "float64")
    keep = keep and not any(limit.shape for limit in limits_)
    if low is not None:
        node = tracing.node("maximum", [limits_[0], node] if keep else [node, limits_[0]])
    if high is not None:
        node = tracing.node("minimum", [limits_[-1], node] if keep else [node, limits_[-1]])
    if out is not None:
        return tracing.write(out, node, True, "same_kind", "clip")
    return tracing.wrap(node, not node.shape)


@_handles(np.round, np.around)
def _round(tracing: Tracing, a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """np.round: half to even, scaled by a power of ten as NumPy scales."""
    x = _array(tracing, a)
    digits = int(decimals)
    if x.dtype.kind == "b":
        raise Unsupported("unsupported-argument", "np.round", "a bool array")
    if x.dtype.kind != "f":
        if digits < 0:
            raise Unsupported("unsupported-argument", "np.round", "integers and decimals < 0")
        node = x.node
    elif digits == 0:
        node = tracing.node("rint", [x.node])
    else:
        scale = make_constant(float(10 ** abs(digits)), x.dtype)
        first, last = ("multiply", "divide") if digits > 0 else ("divide", "multiply")
        node = tracing.node("rint", [tracing.node(first, [x.node, scale])])
        node = tracing.node(last, [node, scale])
    if out is not None:
        return tracing.write(out, node, True, "same_kind", "round")
    return tracing.wrap(node, not node.shape)


@_handles(np.fix)
def _fix(tracing: Tracing, x: Any, out: Any = None) -> Any:
    """np.fix: towards zero."""
    return tracing.apply_ufunc(np.trunc, "__call__", (x,), {"out": out})


@_handles(np.nan_to_num)
def _nan_to_num(
    tracing: Tracing, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None,
    neginf: Any = None,
) -> Any:  # fmt: skip
    """np.nan_to_num."""
    _plain("nan_to_num", copy_is_false=not copy)
    value = _array(tracing, x)
    if value.dtype.kind != "f":
        return tracing.wrap(value.node, not value.dims)
    limits = np.finfo(value.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    result = np.where(np.isnan(value), nan, value)
    result = np.where(value == np.inf, high, result)
    result = np.where(value == -np.inf, low, result)
    return tracing.wrap(result.node, not result.dims)  # type: ignore[attr-defined]


@_handles(np.select)
def _select(tracing: Tracing, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """np.select: the first condition that holds decides."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError("list of cases must be same length as list of conditions")
    values = [tracing.operand(v) for v in (*choicelist, default)]
    dtype = result_type(*values)
    node = tracing.operand_node(values[-1], dtype)
    for condition, choice in zip(reversed(condlist), reversed(values[:-1]), strict=True):
        mask = _array(tracing, condition)
        if mask.dtype != np.dtype(bool):
            raise TypeError("invalid entry in condlist: should be boolean ndarray")
        node = tracing.node("where", [mask.node, tracing.operand_node(choice, dtype), node])
    return tracing.wrap(node)


@_handles(np.sinc)
def _sinc(tracing: Tracing, x: Any) -> Any:
    """np.sinc, spelled as NumPy spells it."""
    value = _array(tracing, x)
    y = np.pi * np.where(value == 0, 1.0e-20, value)
    return np.sin(y) / y


@_handles(np.isposinf)
def _isposinf(tracing: Tracing, x: Any, out: Any = None) -> Any:
    """np.isposinf."""
    _plain("isposinf", out=out)
    return np.logical_and(np.isinf(x), ~np.signbit(x))


@_handles(np.isneginf)
def _isneginf(tracing: Tracing, x: Any, out: Any = None) -> Any:
    """np.isneginf."""
    _plain("isneginf", out=out)
    return np.logical_and(np.isinf(x), np.signbit(x))


@_handles(np.real)
def _real(tracing: Tracing, val: Any) -> Any:
    """The array itself."""
    return _array(tracing, val).real


@_handles(np.imag)
def _imag(tracing: Tracing, val: Any) -> Any:
    """Zeros."""
    return _zeros_like(tracing, val)


# -- new arrays -----------------------------------------------------------------------------


def _filled(tracing: Tracing, a: Any, value: Any, dtype: Any, options: dict[str, Any]) -> Any:
    """An array of a's shape with one value everywhere."""
    if options.pop("order", "K") != "K" or options.pop("shape", None) is not None:
        raise Unsupported("unsupported-argument", "np.full_like", "order= or shape=")
    options.pop("subok", None)
    options.pop("device", None)
    like = _array(tracing, a)
    wanted = like.dtype if dtype is None else infer.dtype_of(dtype)
    node = tracing.operand_node(tracing.operand(value), wanted)
    shape = ", ".join(map(str, like.dims))
    # Its memory order follows the prototype's: the value depends on it in name only.
    keep = tracing.node(
        "where", [make_constant(True, bool), node, tracing.own(like.node, wanted, "K")]
    )
    return tracing.wrap(tracing.node("broadcast_to", [node], shape) if not like.dims else keep)


@_handles(np.zeros_like)
def _zeros_like(tracing: Tracing, a: Any, dtype: Any = None, **options: Any) -> Any:
    """np.zeros_like."""
    return _filled(tracing, a, 0, dtype, options)


@_handles(np.ones_like)
def _ones_like(tracing: Tracing, a: Any, dtype: Any = None, **options: Any) -> Any:
    """np.ones_like."""
    return _filled(tracing, a, 1, dtype, options)


@_handles(np.full_like)
def _full_like(tracing: Tracing, a: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    """np.full_like."""
    return _filled(tracing, a, fill_value, dtype, options)


@_handles(np.empty_like)
def _empty_like(tracing: Tracing, prototype: Any, dtype: Any = None, **options: Any) -> Any:
    """np.empty_like: unset values may be anything, so zeros."""
    return _filled(tracing, prototype, 0, dtype, options)


@_handles(np.copy)
def _copy(tracing: Tracing, a: Any, order: str = "K", subok: bool = False) -> Any:
    """np.copy."""
    if order != "K":
        raise Unsupported("unsupported-argument", "np.copy", f"order={order!r}")
    node = _array(tracing, a).copy(order).node
    return tracing.wrap(node)  # of a scalar too it is an array


@_handles(np.copyto)
def _copyto(
    tracing: Tracing, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:
    """np.copyto."""
    plain = tracing.operand(src)
    target = _array(tracing, dst)
    dtype = plain.dtype if isinstance(plain, (TracedArray, np.generic)) else target.dtype
    tracing.write(dst, tracing.operand_node(plain, dtype), where, casting, "copyto")


# -- views ----------------------------------------------------------------------------------


@_handles(np.transpose)
def _transpose(tracing: Tracing, a: Any, axes: Any = None) -> Any:
    """np.transpose."""
    return _array(tracing, a).transpose(axes)


@_handles(np.swapaxes)
def _swapaxes(tracing: Tracing, a: Any, axis1: Any, axis2: Any) -> Any:
    """np.swapaxes."""
    return _array(tracing, a).swapaxes(axis1, axis2)


@_handles(np.moveaxis)
def _moveaxis(tracing: Tracing, a: Any, source: Any, destination: Any) -> Any:
    """np.moveaxis."""
    x = _array(tracing, a)
    sources = [normal_axis(axis, x.ndim) for axis in _sequence(source)]
    targets = [normal_axis(axis, x.ndim) for axis in _sequence(destination)]
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return x.transpose(*order)


def _sequence(value: Any) -> Sequence[Any]:
    """One entry or several, as several."""
    return value if isinstance(value, (tuple, list)) else (value,)


@_handles(np.expand_dims)
def _expand_dims(tracing: Tracing, a: Any, axis: Any) -> Any:
    """np.expand_dims."""
    x = _array(tracing, a)
    rank = x.ndim + len(_sequence(axis))
    places = {normal_axis(entry, rank) for entry in _sequence(axis)}
    if len(places) != len(_sequence(axis)):
        raise ValueError("repeated axis")
    return x[tuple(None if place in places else slice(None) for place in range(rank))]


@_handles(np.squeeze)
def _squeeze(tracing: Tracing, a: Any, axis: Any = None) -> Any:
    """np.squeeze."""
    return _array(tracing, a).squeeze(axis)


@_handles(np.reshape)
def _reshape(
    tracing: Tracing, a: Any, shape: Any = None, order: str = "C", copy: Any = None
) -> Any:
    """np.reshape."""
    return _array(tracing, a).reshape(shape, order=order, copy=copy)


@_handles(np.ravel)
def _ravel(tracing: Tracing, a: Any, order: str = "C") -> Any:
    """np.ravel."""
    return _array(tracing, a).ravel(order)


@_handles(np.flip)
def _flip(tracing: Tracing, m: Any, axis: Any = None) -> Any:
    """np.flip."""
    x = _array(tracing, m)
    axes = range(x.ndim) if axis is None else [normal_axis(a, x.ndim) for a in _sequence(axis)]
    return x[tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.ndim))]


@_handles(np.flipud)
def _flipud(tracing: Tracing, m: Any) -> Any:
    """np.flipud."""
    return _flip(tracing, m, 0)


@_handles(np.fliplr)
def _fliplr(tracing: Tracing, m: Any) -> Any:
    """np.fliplr."""
    return _flip(tracing, m, 1)


@_handles(np.broadcast_to)
def _broadcast_to(tracing: Tracing, array: Any, shape: Any, subok: bool = False) -> Any:
    """np.broadcast_to."""
    x = _array(tracing, array)
    wanted: list[dims.Dim] = []
    for entry in _sequence(shape):
        if isinstance(entry, HostScalar):
            from fuser.traced_array import length_of

            wanted.append(length_of(entry))
        else:
            wanted.append(int(entry))
    joined = tracing.broadcast("broadcast_to", [x.dims, tuple(wanted)])
    if [tracing.size(dim) for dim in joined] != [tracing.size(dim) for dim in wanted]:
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    return x._view("broadcast_to", ", ".join(map(str, wanted)))


@_handles(np.broadcast_arrays)
def _broadcast_arrays(tracing: Tracing, *args: Any, subok: bool = False) -> Any:
    """np.broadcast_arrays."""
    arrays = [_array(tracing, a) for a in args]
    shape = tracing.broadcast("broadcast_arrays", [a.dims for a in arrays])
    payload = ", ".join(map(str, shape))
    return tuple(a if a.dims == shape else a._view("broadcast_to", payload) for a in arrays)


def _at_least(rank: int) -> Callable[..., Any]:
    """np.atleast_1d and np.atleast_2d."""

    def handler(tracing: Tracing, *arys: Any) -> Any:
        found = []
        for value in arys:
            x = _array(tracing, value)
            missing = rank - x.ndim
            found.append(x[(None,) * missing] if missing > 0 else x)
        return found[0] if len(found) == 1 else tuple(found)

    return handler


HANDLERS[np.atleast_1d] = _at_least(1)
HANDLERS[np.atleast_2d] = _at_least(2)


# -- parts and joins ------------------------------------------------------------------------


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
    shape = [*x.dims[:place], number, length // number, *x.dims[place + 1 :]]
    split = x._view("reshape", ", ".join(map(str, shape)))
    return [split[(*lead, part)] for part in range(number)]


@_handles(np.split)
def _split(tracing: Tracing, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """np.split."""
    return _parts(tracing, ary, indices_or_sections, axis)


@_handles(np.array_split)
def _array_split(tracing: Tracing, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """np.array_split into equal parts."""
    x = _array(tracing, ary)
    if not isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        length = tracing.size(x.dims[normal_axis(axis, x.ndim)])
        if length % int(indices_or_sections):
            raise Unsupported("unsupported-argument", "np.array_split", "parts that are not equal")
    return _parts(tracing, ary, indices_or_sections, axis)


@_handles(np.hsplit)
def _hsplit(tracing: Tracing, ary: Any, indices_or_sections: Any) -> Any:
    """np.hsplit."""
    axis = 0 if _array(tracing, ary).ndim == 1 else 1
    return _parts(tracing, ary, indices_or_sections, axis)


@_handles(np.vsplit)
def _vsplit(tracing: Tracing, ary: Any, indices_or_sections: Any) -> Any:
    """np.vsplit."""
    return _parts(tracing, ary, indices_or_sections, 0)


@_handles(np.concatenate)
def _concatenate(
    tracing: Tracing, arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None,
    casting: str = "same_kind",
) -> Any:  # fmt: skip
    """np.concatenate: operands are written into slices of the result."""
    _plain("concatenate", out=out)
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
    return tracing.wrap(tracing.node("concatenate", nodes, str(place)))


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
            if tracing.resolve(left) != tracing.resolve(right):
                tracing._hold(tracing.resolve(left), tracing.resolve(right))


@_handles(np.stack)
def _stack(tracing: Tracing, arrays: Any, axis: Any = 0, out: Any = None, **options: Any) -> Any:
    """np.stack."""
    operands = [_array(tracing, a) for a in arrays]
    expanded = [_expand_dims(tracing, a, normal_axis(axis, a.ndim + 1)) for a in operands]
    place = normal_axis(axis, operands[0].ndim + 1)
    return _concatenate(tracing, expanded, place, out, **options)


@_handles(np.hstack)
def _hstack(tracing: Tracing, tup: Any, **options: Any) -> Any:
    """np.hstack."""
    operands = [a if a.ndim else a[None] for a in (_array(tracing, a) for a in tup)]
    return _concatenate(tracing, operands, 0 if operands[0].ndim == 1 else 1, **options)


@_handles(np.vstack)
def _vstack(tracing: Tracing, tup: Any, **options: Any) -> Any:
    """np.vstack."""
    at_least_2d = HANDLERS[np.atleast_2d]
    return _concatenate(tracing, [at_least_2d(tracing, a) for a in tup], 0, **options)


@_handles(np.column_stack)
def _column_stack(tracing: Tracing, tup: Any) -> Any:
    """np.column_stack."""
    operands = [_array(tracing, a) for a in tup]
    return _concatenate(tracing, [a[:, None] if a.ndim == 1 else a for a in operands], 1)


@_handles(np.roll)
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
        raise Unsupported("unsupported-argument", "np.roll", "an array as shift")
    shifts, axes = list(_sequence(shift)), list(_sequence(axis))
    count = max(len(shifts), len(axes))
    if len(shifts) not in (1, count) or len(axes) not in (1, count):
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts = shifts if len(shifts) == count else shifts * count
    return list(zip(shifts, axes if len(axes) == count else axes * count, strict=True))


def _roll_axis(tracing: Tracing, x: TracedArray, shift: Any, place: int) -> TracedArray:
    """Roll along one axis: the last elements, then the others."""
    if isinstance(shift, (np.ndarray, TracedArray)):
        raise Unsupported("unsupported-argument", "np.roll", "an array as shift")
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
        return tracing.wrap(tracing.own(x.node, x.dtype, "K"))
    lead = (slice(None),) * place
    halves = [x[(*lead, slice(-by, None))], x[(*lead, slice(None, -by))]]
    joined: TracedArray = _concatenate(tracing, halves, place)
    return joined


@_handles(np.diff)
def _diff(
    tracing: Tracing, a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None
) -> Any:
    """np.diff without prepend and append."""
    if prepend not in (None, np._NoValue) or append not in (None, np._NoValue):
        raise Unsupported("unsupported-argument", "np.diff", "prepend or append")
    x = _array(tracing, a)
    place = normal_axis(axis, x.ndim)
    lead = (slice(None),) * place
    step: Any = np.not_equal if x.dtype.kind == "b" else np.subtract
    for _ in range(int(n)):
        x = step(x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))])
    return x


# -- questions about arrays -----------------------------------------------------------------


@_handles(np.shape)
def _shape(tracing: Tracing, a: Any) -> Any:
    """np.shape."""
    return _array(tracing, a).shape


@_handles(np.ndim)
def _ndim(tracing: Tracing, a: Any) -> Any:
    """np.ndim."""
    return _array(tracing, a).ndim


@_handles(np.size)
def _size(tracing: Tracing, a: Any, axis: Any = None) -> Any:
    """np.size."""
    x = _array(tracing, a)
    return x.size if axis is None else x.shape[normal_axis(axis, x.ndim)]


@_handles(np.result_type)
def _result_type(tracing: Tracing, *values: Any) -> Any:
    """np.result_type."""
    return np.result_type(*(v.dtype if isinstance(v, TracedArray) else v for v in values))


@_handles(np.can_cast)
def _can_cast(tracing: Tracing, from_: Any, to: Any, casting: str = "safe") -> Any:
    """np.can_cast."""
    source = from_.dtype if isinstance(from_, TracedArray) else from_
    return np.can_cast(source, to, casting)  # type: ignore[arg-type]


@_handles(np.iscomplexobj)
def _iscomplexobj(tracing: Tracing, x: Any) -> bool:
    """Complex dtypes are not fused, so never."""
    return False


@_handles(np.isrealobj)
def _isrealobj(tracing: Tracing, x: Any) -> bool:
    """Complex dtypes are not fused, so always."""
    return True
