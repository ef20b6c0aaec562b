"""Writes into a part of an array: which box of it a chain of views shows.

`out[1:-1] = value` makes a new value of `out`: a node `update{1:n0 - 1}` of the old value and of
what was written. `out[::2] = value` is `update{0:n0:2}`. Before
kernels are planned updates become joins (`fuser.passes.slice_updates`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.base.records import record
from fuser.ir.attributes import Region, Span
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.views import Index, Part, Transpose, View
from fuser.tracing.trace_state import Tracing

#: Larger steps than this are written by NumPy: what lies between are that many loop nests less one.
STEP_LIMIT = 4


@record(frozen=False)
class _Axis:
    """An axis of a view: places of an axis of the array; None for a new axis."""

    axis: int | None
    start: Dim
    stop: Dim
    backwards: bool = False
    step: int = 1


@record
class Target:
    """Where in an array a view of it lies, and how.

    Attributes:
        region: the box of the array.
        axes: for each axis of the view, the array's axis; None for a new axis.
        backwards: for each axis of the view, whether it runs from the end.
        empty: nothing is in it.
        reach: how far from the ends of axes its bounds are, at most.
    """

    region: Region
    axes: tuple[int | None, ...]
    backwards: tuple[bool, ...]
    empty: bool = False
    reach: int = 0


def locate(
    tracing: Tracing, shape: Sequence[Dim], views: Sequence[View], known: int = 0
) -> Target | None:
    """The box that views show; None where they step over many elements or show no box.

    What has to hold of the lengths for it becomes guards of the trace.

    Args:
        tracing: the trace.
        shape: the array's.
        views: how it is seen.
        known: the reach of boxes that this one will be compared with.
    """
    seen = [_Axis(axis, 0, tracing.resolve(dim)) for axis, dim in enumerate(shape)]
    fixed: list[_Axis] = []
    empty, reach = False, 0
    for view in views:
        if isinstance(view, Transpose):
            seen = [seen[axis] for axis in view.order]
            continue
        if isinstance(view, Part) and (within := _within(seen, view)):
            seen = within
            continue
        if not isinstance(view, Index):
            return None
        given = iter(seen)
        after: list[_Axis] = []
        for part in view.parts:
            if part is None:
                after.append(_Axis(None, 0, 1))
                continue
            entry = next(given)
            if entry.step == 1:
                note_reach(tracing, entry.stop - entry.start, part, known)
            cut = _cut(tracing, entry, part)
            if cut is None:
                return None
            reach += reach_of(part)
            none_of_new = entry.axis is None and cut[0].start == cut[0].stop
            empty = empty or cut[1] or none_of_new
            (after if isinstance(part, slice) else fixed).append(cut[0])
        seen = [*after, *given]
    bounds: list[Span] = [(0, 0, 1)] * len(shape)
    for entry in (*seen, *fixed):
        if entry.axis is not None:
            bounds[entry.axis] = (entry.start, entry.stop, entry.step)
    axes = tuple(entry.axis for entry in seen)
    backwards = tuple(entry.backwards for entry in seen)
    return Target(Region(tuple(bounds)), axes, backwards, empty, reach)


def _within(seen: Sequence[_Axis], part: Part) -> list[_Axis] | None:
    """Axes after one has been cut between two places; None where it has steps."""
    axis, start, stop = part.axis, part.start, part.stop
    entry = seen[axis]
    if entry.step != 1 or part.step != 1:
        return None
    if entry.backwards:
        length = entry.stop - entry.start
        start, stop = length - stop, length - start
    found = _Axis(entry.axis, entry.start + start, entry.start + stop, entry.backwards)
    return [*seen[:axis], found, *seen[axis + 1 :]]


def _cut(tracing: Tracing, entry: _Axis, part: slice | int) -> tuple[_Axis, bool] | None:
    """One axis after one entry of an index, and whether nothing is left of it."""
    length = entry.stop - entry.start
    step = part.step or 1 if isinstance(part, slice) else 1
    if entry.step != 1:
        return (entry, False) if part == slice(None) else None
    if isinstance(part, int):
        low = _place(tracing, length, part)
        high: Dim = low + 1
    elif not 1 <= step <= STEP_LIMIT or (step > 1 and entry.backwards):
        if step != -1 or part.start is not None or part.stop is not None:
            return None
        return _Axis(entry.axis, entry.start, entry.stop, not entry.backwards), False
    else:
        low = 0 if part.start is None else _place(tracing, length, part.start)
        high = length if part.stop is None else _place(tracing, length, part.stop)
    empty = not _ordered(tracing, low, high)
    if empty:
        high = low
    if entry.backwards:
        low, high = length - high, length - low
    found = _Axis(entry.axis, entry.start + low, entry.start + high, entry.backwards, step)
    return found, empty


def _place(tracing: Tracing, length: Dim, bound: int) -> Dim:
    """A bound of a slice, or an integer, counted from the front; not beyond the ends."""
    reach = bound if bound >= 0 else -bound
    if tracing.size(length) < reach:
        if not isinstance(length, int):
            tracing.guard_value(f"({length}) >= {reach}", False)
        return length if bound >= 0 else 0
    tracing.hold_at_least(length, reach)
    return bound if bound >= 0 else length + bound


def reach_of(part: slice | int) -> int:
    """How far from the ends of an axis an entry of an index needs it to be long."""
    if isinstance(part, int):
        return part + 1 if part >= 0 else -part
    return max((abs(b) for b in (part.start, part.stop) if b is not None), default=0)


def note_reach(tracing: Tracing, length: Dim, part: slice | int, known: int) -> None:
    """Note that an axis is long, if it is: then places near both ends can be compared."""
    bound = reach_of(part) + known
    for wanted in (bound + 1, bound) if isinstance(part, slice) else (bound,):
        if known and tracing.size(length) >= wanted:
            tracing.hold_at_least(length, wanted)
            return


def note_parts(tracing: Tracing, joined: Node, parts: Sequence[slice | int | None]) -> None:
    """Note that joined arrays are as long as what an index drops from the ends of their join.

    Then the rest is known to be a join of parts of them (`passes.concatenations`), and not stored.
    """
    axis = joined.payload.axis
    entries = [part for part in parts if part is not None]
    if axis < len(entries):
        long_parts(tracing, joined, reach_of(entries[axis]))


def long_parts(tracing: Tracing, joined: Node, bound: int) -> None:
    """Note that joined arrays, those which are, are at least so long."""
    for part in joined.args:
        length = part.shape[joined.payload.axis]
        if tracing.size(length) >= bound:
            tracing.hold_at_least(length, bound)


def _ordered(tracing: Tracing, low: Dim, high: Dim) -> bool:
    """Whether low <= high in this call; a guard of the trace."""
    gap = high - low
    ordered = tracing.size(gap) >= 0
    if not isinstance(gap, int):
        if ordered:
            tracing.hold_at_least(gap, 0)
        else:
            tracing.guard_value(f"({gap}) >= 0", False)
    return ordered


def laid_out(tracing: Tracing, target: Target, value: Node) -> Node:
    """A value of the view's shape as it lies in the array: axes in order, from the front."""
    drop = [0 if axis is None else slice(None) for axis in target.axes]
    if 0 in drop:
        value = tracing.node("index", [value], Index.of_parts(drop))
    kept = [
        (axis, back)
        for axis, back in zip(target.axes, target.backwards, strict=True)
        if axis is not None
    ]
    if any(back for _, back in kept):
        flips = [slice(None, None, -1) if back else slice(None) for _, back in kept]
        value = tracing.node("index", [value], Index.of_parts(flips))
    order = sorted(range(len(kept)), key=lambda place: kept[place][0])
    if order != sorted(order):
        value = tracing.node("transpose", [value], Transpose(tuple(order)))
    present = {axis for axis, _ in kept}
    if len(present) < len(target.region.box):
        parts = [slice(None) if a in present else None for a in range(len(target.region.box))]
        value = tracing.node("index", [value], Index.of_parts(parts))
    return value
