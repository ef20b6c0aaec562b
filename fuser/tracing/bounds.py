"""Bounds and places that a function computes from lengths: `x[1 : n - 1]`, `x[n // 2]`, `x[n - 1]`.

They stay symbolic, so a function that slices so is one specialisation for all lengths. A bound a
fixed number of places from the end is written as that: `n - 1` is -1. Others, which have to lie
within the axis, are cut out by a view of their own.
"""

from __future__ import annotations

from typing import Any

from fuser.ir.dims import Dim
from fuser.tracing.indices import symbolic_length
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_scalars import HostScalar

#: First and last but one place along an axis of an array.
Cut = tuple[Dim, Dim]


def in_lengths(tracing: Tracing, part: Any, length: Dim) -> tuple[Any, Cut | None]:
    """An entry of an index without traced numbers in it, and what is cut out of the axis before.

    Args:
        tracing: the trace.
        part: a slice or an integer; it is returned as it is where nothing is known of it.
        length: of the axis.
    """
    if type(part) is HostScalar:
        return _place(tracing, part, length)
    if type(part) is not slice or not any(
        type(bound) is HostScalar for bound in (part.start, part.stop)
    ):
        return part, None
    if part.step is not None and not (type(part.step) is int and part.step > 0):
        return part, None
    start = _bound(tracing, part.start, length, 0)
    stop = _bound(tracing, part.stop, length, None)
    if not isinstance(start, _Within) and not isinstance(stop, _Within):
        return slice(start, stop, part.step), None
    ends = _within(tracing, start, 0, length), _within(tracing, stop, length, length)
    if ends[0] is None or ends[1] is None or not _held(tracing, ends[0], ends[1], length):
        return part, None
    return slice(None, None, part.step), (ends[0], ends[1])


class _Within:
    """A bound at a symbolic place."""

    def __init__(self, place: Dim) -> None:
        self.place = place


def _symbolic(tracing: Tracing, value: Any) -> Dim | None:
    """A traced integer over lengths; None for any other number."""
    found = symbolic_length(value)
    return None if found is None else tracing.resolve(found)


def _bound(tracing: Tracing, value: Any, length: Dim, end: int | None) -> Any:
    """A bound as a plain integer where it can be, or the end; else where it is, or as it was."""
    if type(value) is not HostScalar or (found := _symbolic(tracing, value)) is None:
        return value
    if isinstance(found, int):
        return found
    gap = tracing.resolve(length) - found
    if isinstance(gap, int):
        if gap > 0 and tracing.size(length) >= gap:
            tracing.hold_at_least(length, gap)
            return -gap
        return end if gap <= 0 and end is None else value
    if tracing.size(found) >= 0:
        tracing.hold_at_least(found, 0)
        return _Within(found)
    tracing.hold_at_least(found * -1, 1)
    return _Within(length + found)


def _within(tracing: Tracing, bound: Any, default: Dim, length: Dim) -> Dim | None:
    """Where a bound is; None where a traced number is left."""
    if isinstance(bound, _Within):
        return bound.place
    if bound is None:
        return default
    if type(bound) is not int:
        return None
    return bound if bound >= 0 else length + bound


def _held(tracing: Tracing, start: Dim, stop: Dim, length: Dim) -> bool:
    """Whether bounds lie in order within an axis; holds that they do."""
    gaps = (start + 0, stop - start, length - stop)
    if any(tracing.size(gap) < 0 for gap in gaps):
        return False
    for gap in gaps:
        tracing.hold_at_least(gap, 0)
    return True


def _place(tracing: Tracing, value: HostScalar, length: Dim) -> tuple[Any, Cut | None]:
    """An integer index: from the end, or the first place of what is cut out."""
    found = _symbolic(tracing, value)
    if found is None or isinstance(found, int):
        return value, None
    gap = tracing.resolve(length) - found
    if isinstance(gap, int):
        return (-gap if gap > 0 and tracing.size(length) >= gap else value), None
    place = found if tracing.size(found) >= 0 else length + found
    if not _held(tracing, place, place + 1, length):
        return value, None
    if place is not found:
        tracing.hold_at_least(found * -1, 1)
    return 0, (place, place + 1)
