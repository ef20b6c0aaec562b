"""Writes into a part of an array: which box of it a chain of views shows, and joins instead.

`out[1:-1] = value` makes a new value of `out`: a node `update{1:n0 - 1}` of the old value and of
what was written. Before kernels are planned it becomes a join of the part before, the value and
the part after, so each element of the array is computed and stored once, by one loop nest each.
`out[::2] = value` (`update{0:n0:2}`) interleaves the value and every second element of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuser import dims, infer
from fuser.dims import Dim
from fuser.graph import Graph, Node, intern
from fuser.ops import op
from fuser.planning import facts, parts
from fuser.records import record
from fuser.tracing.tracing import Tracing

#: Places start, start + step, … below stop along each axis.
Span = tuple[Dim, Dim, int]
Bounds = tuple[Span, ...]

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
class Region:
    """A box of an array, and how a view of it lies in it.

    Attributes:
        bounds: start, stop, step along each axis of the array.
        axes: for each axis of the view, the array's axis; None for a new axis.
        backwards: for each axis of the view, whether it runs from the end.
        empty: nothing is in it.
        reach: how far from the ends of axes its bounds are, at most.
    """

    bounds: Bounds
    axes: tuple[int | None, ...]
    backwards: tuple[bool, ...]
    empty: bool = False
    reach: int = 0

    @property
    def payload(self) -> str:
        """The region as an update node's payload: `1:n0 - 1; 0:n1`."""
        return spell(self.bounds)


def spell(bounds: Bounds) -> str:
    """Write bounds: `1:n0 - 1; 0:n1:2`."""
    return "; ".join(
        f"{start}:{stop}" + (f":{step}" if step != 1 else "") for start, stop, step in bounds
    )


def parse(payload: str) -> Bounds:
    """Read bounds back."""
    spans = [part.split(":") for part in payload.split(";") if part.strip()]
    return tuple(
        (dims.parse(start.strip()), dims.parse(stop.strip()), int(step[0]) if step else 1)
        for start, stop, *step in spans
    )


def rename(payload: str, names: Any) -> str:
    """Replace symbols."""
    return spell(
        tuple(
            (dims.substitute(start, names), dims.substitute(stop, names), step)
            for start, stop, step in parse(payload)
        )
    )


def rename_by(change: Any, payload: str) -> str:
    """Replace bounds, each by itself."""
    bounds = parse(payload)
    return spell(tuple((change(start), change(stop), step) for start, stop, step in bounds))


def is_full(payload: str, shape: Sequence[Dim]) -> bool:
    """Whether a region is all of an array."""
    return parse(payload) == tuple((0, length, 1) for length in shape)


def contains(outer: Bounds, inner: Bounds, known: facts.Bounds) -> bool:
    """Whether one box surely has all places of another, each of them."""
    return all(
        step == 1 and facts.at_most(start, first, known) and facts.at_most(last, stop, known)
        for (start, stop, step), (first, last, _) in zip(outer, inner, strict=True)
    )


def disjoint(one: Span, two: Span) -> bool:
    """Whether two spans of an axis surely have no place in common."""
    gaps = (one[0] - two[1], two[0] - one[1])
    if any(isinstance(gap, int) and gap >= 0 for gap in gaps):
        return True
    step, shift = one[2], one[0] - two[0]
    return step == two[2] and isinstance(shift, int) and shift % step != 0


def symbols(payload: str) -> set[str]:
    """The lengths that the bounds of a region speak of."""
    bounds = [bound for start, stop, _ in parse(payload) for bound in (start, stop)]
    return {name for bound in bounds for name in dims.symbols(bound)}


def slices(payload: str, sizes: Any) -> tuple[slice, ...]:
    """The index of a region in an array of given lengths."""
    return tuple(
        slice(dims.evaluate(start, sizes), dims.evaluate(stop, sizes), step)
        for start, stop, step in parse(payload)
    )


# -- while tracing --------------------------------------------------------------------------


def locate(
    tracing: Tracing, shape: Sequence[Dim], views: Sequence[tuple[str, str]], known: int = 0
) -> Region | None:
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
    for name, payload in views:
        if name == "transpose":
            seen = [seen[axis] for axis in infer.parse_axes(payload)]
            continue
        if name == "part" and (within := _within(seen, payload)):
            seen = within
            continue
        if name != "index":
            return None
        parts = infer.parse_index(payload)
        given = iter(seen)
        after: list[_Axis] = []
        for part in parts:
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
    return Region(tuple(bounds), axes, backwards, empty, reach)


def _within(seen: Sequence[_Axis], payload: str) -> list[_Axis] | None:
    """Axes after one has been cut between two places; None where it has steps."""
    axis, start, stop, step = infer.parse_part(payload)
    entry = seen[axis]
    if entry.step != 1 or step != 1:
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

    Then the rest is known to be a join of parts of them (`fuser.planning.joins`), and not stored.
    """
    axis = int(joined.payload)
    entries = [part for part in parts if part is not None]
    if axis < len(entries):
        long_parts(tracing, joined, reach_of(entries[axis]))


def long_parts(tracing: Tracing, joined: Node, bound: int) -> None:
    """Note that joined arrays, those which are, are at least so long."""
    for part in joined.args:
        length = part.shape[int(joined.payload)]
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


def laid_out(tracing: Tracing, region: Region, value: Node) -> Node:
    """A value of the view's shape as it lies in the array: axes in order, from the front."""
    drop = [0 if axis is None else slice(None) for axis in region.axes]
    if 0 in drop:
        value = _indexed(tracing, value, drop)
    kept = [
        (axis, back)
        for axis, back in zip(region.axes, region.backwards, strict=True)
        if axis is not None
    ]
    if any(back for _, back in kept):
        flips = [slice(None, None, -1) if back else slice(None) for _, back in kept]
        value = _indexed(tracing, value, flips)
    order = sorted(range(len(kept)), key=lambda place: kept[place][0])
    if order != sorted(order):
        value = tracing.node("transpose", [value], ", ".join(map(str, order)))
    present = {axis for axis, _ in kept}
    if len(present) < len(region.bounds):
        parts = [slice(None) if a in present else None for a in range(len(region.bounds))]
        value = _indexed(tracing, value, parts)
    return value


def _indexed(tracing: Tracing, value: Node, parts: Sequence[infer.IndexPart]) -> Node:
    """An index without entries at the end that change nothing."""
    kept = list(parts)
    while kept and kept[-1] == slice(None):
        kept.pop()
    return tracing.node("index", [value], infer.spell_index(kept))


# -- before planning ------------------------------------------------------------------------


def lower(graph: Graph) -> Graph:
    """Replace updates by joins of parts; the same graph where there is nothing to do.

    What only says in which memory order an array is goes, too: it says so in the traced graph.
    """
    bounds = facts.lower_bounds(graph.guards)
    if not bounds and not any(n.op.name == "update" or _only_orders(n) for n in graph.nodes):
        return graph
    lines = dict(graph.lines)
    new: dict[int, Node] = {}
    for node in graph.nodes:
        args = tuple(new[id(arg)] for arg in node.args)
        if node.op.name == "update":
            made = _joined(node, args[0], args[1], bounds, graph.equal)
        elif _only_orders(node):
            made = args[0]
        else:
            made = _spelled(node, args, bounds)
        new[id(node)] = made
        if line := graph.line_of(node):
            note_line(lines, made, args, line)
    return graph.with_outputs([new[id(node)] for node in graph.outputs], lines)


def _spelled(node: Node, args: tuple[Node, ...], bounds: facts.Bounds) -> Node:
    """A node of other operands, with its lengths spelled in one way: `n0 - 1` where n0 >= 1.

    Values of one shape then have one spelling of it, and share loops.
    """
    shape = tuple(facts.simplify(dim, bounds) for dim in node.shape)
    if shape == node.shape or not node.args or node.op.name in ("extern", "reshape"):
        return intern(node.op, args, node.shape, node.dtype, node.payload)
    if node.op.name != "broadcast_to":
        return intern(node.op, args, shape, node.dtype, node.payload)
    if args[0].shape == shape:
        return args[0]
    return intern(node.op, args, shape, node.dtype, ", ".join(map(str, shape)))


def _only_orders(node: Node) -> bool:
    """Whether a node computes nothing and copies nothing."""
    return node.op.name == "cast" and infer.only_orders(node.payload)


def note_line(
    lines: dict[int, str], made: Node, operands: Sequence[Node], line: str
) -> None:
    """Note the line of an operation for all nodes that it became."""
    known = set(map(id, operands))
    waiting = [made]
    while waiting:
        node = waiting.pop()
        if id(node) not in known and node.op.name != "input":
            known.add(id(node))
            lines.setdefault(id(node), line)
            waiting.extend(node.args)


def _joined(
    node: Node, base: Node, value: Node, known: facts.Bounds, equal: Mapping[str, Dim]
) -> Node:
    """The value between the parts of the base around it, axis by axis from the last.

    What is interleaved has one spelling of its length where guards say that all are equal: then
    one loop nest computes all.
    """
    whole = [facts.simplify(dim, known) for dim in node.shape]
    region = [
        (facts.simplify(start, known), facts.simplify(stop, known), step)
        for start, stop, step in parse(node.payload)
    ]
    spelled = [dims.steps(*span) for span in region]
    spelled = [
        equal.get(str(dim), dim) if step > 1 else dim
        for dim, (_, _, step) in zip(spelled, region, strict=True)
    ]
    inner = _relabelled(value, spelled)
    for axis in reversed(range(len(whole))):
        start, stop, step = region[axis]
        before, after = region[:axis], [(0, dim, 1) for dim in whole[axis + 1 :]]
        lead = [dims.steps(*span) for span in before]
        if step > 1:
            mine = 0  # which of the interleaved it is
            if isinstance(start, int) and start < step and stop == whole[axis]:
                start, mine = 0, start  # nothing before it, where it replaces what was interleaved
            turns = [
                inner
                if place == mine
                else _box(base, [*before, (start + place, stop, step), *after], known)
                for place in range(step)
            ]
            shape = (*lead, stop - start, *whole[axis + 1 :])
            inner = intern(op("interleave"), tuple(turns), shape, node.dtype, str(axis))
        if (start, stop) == (0, whole[axis]):
            continue
        pieces = [inner]
        if start != 0:
            pieces.insert(0, _box(base, [*before, (0, start, 1), *after], known))
        if stop != whole[axis]:
            pieces.append(_box(base, [*before, (stop, whole[axis], 1), *after], known))
        shape = (*lead, *whole[axis:])
        inner = intern(op("concatenate"), tuple(pieces), shape, node.dtype, str(axis))
    if inner.shape == node.shape:
        return inner
    if inner.op.joins:  # lengths spelled as the array's are
        return intern(inner.op, inner.args, node.shape, inner.dtype, inner.payload)
    return _relabelled(inner, node.shape)


def _relabelled(value: Node, lengths: Sequence[Dim]) -> Node:
    """The value with its lengths spelled as the box's are; equal numbers for every size."""
    for axis, length in enumerate(lengths):
        if value.shape[axis] != length:
            shape = (*value.shape[:axis], length, *value.shape[axis + 1 :])
            payload = f"{axis}; 0; {length}"
            value = intern(op("part"), (value,), shape, value.dtype, payload)
    return value


def _box(base: Node, box: Sequence[Span], known: facts.Bounds) -> Node:
    """A box of an array: a part along each axis that it does not span."""
    for axis, span in enumerate(box):
        base = parts.cut(base, axis, span, known, dims.steps(*span))
    return base
