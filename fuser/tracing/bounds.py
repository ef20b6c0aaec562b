"""Indices and bounds that a function computes: `x[1 : n - 1]`, `x[n // 2]`, `x[k]`, `x[: k + 1]`.

Expressions over lengths and integer arguments stay symbolic, so a function that slices so is one
specialisation for all lengths and for every number of a class: what counts is whether a bound is
negative, which counts from the end, and whether it lies beyond an end, where NumPy cuts it off. A
bound a fixed number of elements from the end is written as that: `n - 1` is -1. Others are cut out
by a view of their own.
"""

from __future__ import annotations

from typing import Any

from fuser.ir.dims import Dim
from fuser.tracing.indices import symbolic_length
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_scalars import HostScalar

#: First index and the one after the last along an axis of an array.
Cut = tuple[Dim, Dim]


def in_lengths(tracing: Tracing, part: Any, length: Dim) -> tuple[Any, Cut | None]:
    """An entry of an index without traced numbers in it, and what is cut out of the axis before.

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
