"""NumPy functions of series: choices by number, lines between arrays, phases, short filters."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import handles
from fuser.ir.graph import Node, constant_value
from fuser.numpy_functions.array_functions import _array, _refuse, result_type, unless
from fuser.numpy_functions.splits_and_joins import ordered_like
from fuser.tracing.counting import counted
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray

_Pair = tuple[float, float]
_UNKNOWN: _Pair = (-math.inf, math.inf)
#: Operations that are looked at to know in which range numbers are.
DEPTH_LIMIT = 16
#: More choices, or places of a filter, than this are NumPy's.
PARTS_LIMIT = 16
#: The same, of filters whose length a call decides.
TAPS_LIMIT = 6


# -- choices --------------------------------------------------------------------------------


@handles(np.choose)
def _choose(
    tracing: Tracing, a: Any, choices: Any, out: Any = None, mode: str = "raise"
) -> Any:
    """np.choose: one of several arrays for each element, by number."""
    _refuse("choose", out=out)
    number: Any = _array(tracing, a)
    given = [tracing.operand(value) for value in choices]
    kind, count = number.dtype.kind, len(given)
    if kind not in "biu" or number.dtype == np.uint64 or not 1 <= count <= PARTS_LIMIT:
        raise Unsupported(
            "unsupported-argument", "np.choose",
            "numbers that are not integers, or too many choices",
        )
    dtype = result_type(*given)
    if kind == "b":
        number = number.astype(np.int64)
    if mode == "wrap":
        number = np.mod(number.astype(np.int64), count)
    elif mode == "clip":
        number = np.clip(number.astype(np.int64), 0, count - 1)
    elif mode != "raise":
        raise Unsupported("unsupported-argument", "np.choose", f"mode={mode!r}")
    nodes = [tracing.operand_node(value, dtype) for value in given]
    found = nodes[-1]
    for place in reversed(range(max(count - 1, 1))):  # the number has a say in the shape
        found = tracing.node("where", [(number == place).node, nodes[place], found])
    result: Any = tracing.wrap(found, not found.shape)
    low, high = _range(number.node, {})
    if mode == "raise" and not (low >= 0 and high < count):
        result = unless(result, np.any((number < 0) | (number >= count)))
    generic = not result.ndim
    return tracing.wrap(tracing.own(result.node, dtype, "C"), generic)


def _range(node: Node, known: dict[int, _Pair], depth: int = 0) -> _Pair:
    """Between which numbers all elements of a node lie, as far as its operations tell.

    Args:
        node: of integers or truth values.
        known: by `id`, what has been found.
        depth: how many operations are between it and what is asked for.
    """
    if node.dtype.kind == "b":
        return 0, 1
    if node.dtype.kind not in "iu" or depth > DEPTH_LIMIT:
        return _UNKNOWN
    if id(node) not in known:
        known[id(node)] = _UNKNOWN
        known[id(node)] = _range_of(node, known, depth + 1)
    return known[id(node)]


def _range_of(node: Node, known: dict[int, _Pair], depth: int) -> _Pair:
    """The range of an integer node by those of its operands."""
    name = node.op.name
    if node.op.is_constant:
        value = float(constant_value(node))
        return value, value
    if node.op.is_view:
        return _range(node.args[0], known, depth)
    if name not in _RANGES:
        return _UNKNOWN
    low, high = _RANGES[name](*(_range(arg, known, depth) for arg in node.args))
    limits = np.iinfo(node.dtype)
    return (low, high) if limits.min <= low and high <= limits.max else _UNKNOWN  # it may wrap


def _product(one: _Pair, other: _Pair) -> _Pair:
    """Of two ranges that are finite."""
    found = [left * right for left in one for right in other]
    return (min(found), max(found)) if all(map(math.isfinite, found)) else _UNKNOWN


def _remainder(one: _Pair, other: _Pair) -> _Pair:
    """By a positive number."""
    return (0, other[1] - 1) if other[0] >= 1 else _UNKNOWN


_RANGES: dict[str, Any] = {
    "cast": lambda one: one,
    "add": lambda one, other: (one[0] + other[0], one[1] + other[1]),
    "subtract": lambda one, other: (one[0] - other[1], one[1] - other[0]),
    "multiply": _product,
    "maximum": lambda one, other: (max(one[0], other[0]), max(one[1], other[1])),
    "minimum": lambda one, other: (min(one[0], other[0]), min(one[1], other[1])),
    "where": lambda _, one, other: (min(one[0], other[0]), max(one[1], other[1])),
    "mod": _remainder,
    "remainder": _remainder,
}


# -- lines ----------------------------------------------------------------------------------


@handles(np.linspace)
def _linspace(
    tracing: Tracing, start: Any, stop: Any, num: Any = 50, endpoint: Any = True,
    retstep: Any = False, dtype: Any = None, axis: Any = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """np.linspace between arrays, spelled as NumPy spells it."""
    _refuse("linspace", dtype=dtype, device=device, retstep=retstep or None)
    ends = [tracing.operand(value) for value in (start, stop)]
    wanted = result_type(*ends, 0.0)
    if type(num) is not int or type(endpoint) is not bool or num - endpoint < 1:
        raise Unsupported(
            "unsupported-argument", "np.linspace",
            "a num= that is not a Python integer of at least 1",
        )
    if wanted.kind != "f" or wanted == np.float16:
        raise Unsupported("unsupported-argument", "np.linspace", f"dtype {wanted}")
    first, last = (tracing.wrap(tracing.operand_node(value, wanted)) for value in ends)
    delta: Any = np.subtract(last, first)
    places = num - endpoint
    number: Any = counted(tracing, num)[(slice(None), *(None,) * delta.ndim)]
    count: Any = number.astype(wanted)
    step = delta / wanted.type(places)
    none: Any = np.any(step == 0)  # of steps that small NumPy multiplies the whole way
    line = np.where(none, count / wanted.type(places) * delta, count * step) + first
    if endpoint:
        ended: Any = np.where(number == places, last, line)
        line = ordered_like(tracing, ended, "K", 0, 2)
    place = normal_axis(axis, line.ndim)
    return np.moveaxis(line, 0, place) if place else line


# -- phases ---------------------------------------------------------------------------------


# -- filters --------------------------------------------------------------------------------


#: By mode, how many zeros are put before and after the series, for one place less than a filter's.
_AROUND: dict[str, Any] = {
    "valid": lambda more: (0, 0),
    "same": lambda more: (more - more // 2, more // 2),
    "full": lambda more: (more, more),
}


def _is_captured(tracing: Tracing, x: TracedArray) -> bool:
    """Whether an array is no argument, but one of the function's own: its length stays."""
    place = x.storage.argument
    return place is not None and tracing.arguments[place].leaf is None


@handles(np.convolve)
def _convolve(tracing: Tracing, a: Any, v: Any, mode: Any = "full") -> Any:
    """np.convolve with a short filter: a sum of products of slices."""
    plain = type(v) in (list, tuple) and all(type(each) in (int, float) for each in v)
    signal = _array(tracing, a)
    taps: Any = np.asarray(v) if plain else _array(tracing, v)
    wanted = np.result_type(signal.dtype, taps.dtype)
    if signal.ndim != 1 or taps.ndim != 1 or wanted.kind not in "iuf" or wanted == np.float16:
        raise Unsupported(
            "unsupported-argument", "np.convolve",
            "arrays of more than one axis, or of complex numbers, bool or float16",
        )
    if mode not in _AROUND:
        raise Unsupported("unsupported-argument", "np.convolve", f"mode={mode!r}")
    length = taps.shape[0] if plain else tracing.resolve(taps.dims[0])
    count = tracing.size(length)
    fixed = isinstance(length, int) or _is_captured(tracing, taps)
    if not 1 <= count <= (PARTS_LIMIT if fixed else TAPS_LIMIT):
        raise Unsupported("unsupported-argument", "np.convolve", "a long filter")
    if tracing.size(signal.dims[0]) < count:
        raise Unsupported("unsupported-argument", "np.convolve", "a filter longer than the array")
    tracing.hold_at_least(signal.dims[0], count)
    if not isinstance(length, int):
        tracing.hold_exactly(length)
    before, after = _AROUND[mode](count - 1)
    values: Any = signal.astype(wanted, copy=False)
    if before or after:
        values = np.pad(values, (before, after))
        finite: Any = np.isfinite(taps)
        if plain and not finite.all():
            raise Unsupported("unsupported-argument", "np.convolve", "a filter that is not finite")
        if not plain and taps.dtype.kind == "f":  # zeros beyond the ends are nothing to these alone
            taps = unless(taps, ~np.all(finite))
    weights = [taps[place].astype(wanted) for place in range(count)]
    products = [
        values[place : place - count + 1 or None] * weights[count - 1 - place]
        for place in range(count)
    ]
    total: Any = reduce(np.add, products)
    return total + wanted.type(0)  # NumPy adds to 0, so that -0.0 is never left
