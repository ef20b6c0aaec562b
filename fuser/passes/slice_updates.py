"""Writes into a part of an array become joins: of the part before, what is written, and the rest.

Each element of the array is then computed and stored once, by one loop nest each. What is read of
such an array is joined of what it shows of each write: a read that meets one write alone is a view
of the value written, and one that meets none is a view of what was there before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from fuser.ir import dims
from fuser.ir.attributes import Axis, Box, Span, full_box
from fuser.ir.dims import Dim
from fuser.ir.graph import Graph, Node, intern
from fuser.ir.ops import op
from fuser.ir.views import FULL, Index, IndexPart, Part, seen_of_box
from fuser.passes import length_facts, slices

#: Loop nests of joins, for each write and beside them, above which joins are stored.
PIECES, FEW_PIECES = 2, 4


def contains(outer: Box, inner: Box, known: length_facts.Bounds) -> bool:
    """Whether one box surely has all places of another, each of them."""
    return all(
        step == 1
        and length_facts.at_most(start, first, known)
        and length_facts.at_most(last, stop, known)
        for (start, stop, step), (first, last, _) in zip(outer, inner, strict=True)
    )


def lower(graph: Graph) -> Graph:
    """Replace updates by joins of parts; the same graph where there is nothing to do.

    What only says in which memory order an array is goes, too: it says so in the traced graph.
    Where parts of joins, of each operand one, would be many, joins are stored, and parts copied.
    """
    made = _lowered(graph, looks_through=True)
    if made is graph:
        return graph
    written = sum(node.op.is_update for node in graph.nodes)
    if _pieces(made) <= PIECES * written + FEW_PIECES:
        return made
    return min(made, _lowered(graph, looks_through=False), key=_pieces)


def _pieces(graph: Graph) -> int:
    """How many loop nests joins ask for, about: one for each operand that is no join itself."""
    return sum(not arg.op.joins for node in graph.nodes if node.op.joins for arg in node.args)


def _lowered(graph: Graph, looks_through: bool) -> Graph:
    """As `lower`; whether parts of joins are those of their operands."""
    bounds = length_facts.lower_bounds(graph.guards)
    if not bounds and not any(n.op.is_update or _only_orders(n) for n in graph.nodes):
        return graph
    lines = dict(graph.lines)
    new: dict[int, Node] = {}
    for node in graph.nodes:
        args = tuple(new[id(arg)] for arg in node.args)
        if node.op.is_update:
            region = _simple(node.payload.box, bounds)
            made = _joined(node, region, args[0], args[1], bounds, graph.equal, looks_through)
        elif _only_orders(node):
            made = args[0]
        else:
            made = _read(node, new, bounds, graph.equal) or _spelled(node, args, bounds)
        new[id(node)] = made
        if line := graph.line_of(node):
            note_line(lines, made, args, line)
    return graph.with_outputs([new[id(node)] for node in graph.outputs], lines)


def _spelled(node: Node, args: tuple[Node, ...], bounds: length_facts.Bounds) -> Node:
    """A node of other operands, with its lengths spelled in one way: `n0 - 1` where n0 >= 1.

    Values of one shape then have one spelling of it, and share loops.
    """
    shape = tuple(length_facts.simplify(dim, bounds) for dim in node.shape)
    if shape == node.shape or not node.args or node.op.is_opaque or node.op.reshapes:
        return intern(node.op, args, node.shape, node.dtype, node.payload)
    if node.op.repeats:
        return slices.repeated(args[0], shape)
    return intern(node.op, args, shape, node.dtype, node.payload)


def _simple(box: Box, known: length_facts.Bounds) -> Box:
    """A box with its bounds spelled in one way."""
    return tuple(
        (length_facts.simplify(start, known), length_facts.simplify(stop, known), step)
        for start, stop, step in box
    )


def _read(
    node: Node, new: Mapping[int, Node], known: length_facts.Bounds, equal: Mapping[str, Dim]
) -> Node | None:
    """What an index shows of an array that was written into; None where it is not known.

    Args:
        node: the index.
        new: what nodes of the graph have become, by `id`.
        known: lower bounds of lengths.
        equal: lengths that guards make equal to others.
    """
    if not node.op.indexes or not node.args[0].op.is_update:
        return None
    base = node.args[0]
    seen = seen_of_box(full_box(base.shape), (node.payload,))
    if seen is None or seen.box is None:
        return None
    box = _simple(seen.box, known)
    if not all(step == 1 and length_facts.at_most(a, b, known) for a, b, step in box):
        return None
    writes: list[tuple[Node, Box, Box]] = []
    while base.op.is_update and not (writes and writes[-1][2] == box):
        written = _simple(base.payload.box, known)
        if not length_facts.apart(written, box, known):
            common = _common(written, box, known)
            if common is None:
                break
            writes.append((base.args[1], written, common))
        base = base.args[0]
    if base is node.args[0]:
        return None
    seen_before = not (writes and writes[-1][2] == box)
    found = _spelled(node, (new[id(base)],), known) if seen_before else None
    for value, written, common in reversed(writes):
        part = new[id(value)]
        for axis, ((lead, _, _), (start, stop, _)) in enumerate(zip(written, common, strict=True)):
            part = slices.cut(part, axis, (start - lead, stop - lead, 1), known, stop - start)
        region, entries = _as_indexed(node.payload, common, box)
        if entries:
            shape = tuple(dims.steps(*span) for span in region)
            part = intern(node.op, (part,), shape, node.dtype, Index.of_parts(entries))
        found = part if found is None else _joined(node, region, found, part, known, equal)
    return found


def _common(one: Box, other: Box, known: length_facts.Bounds) -> Box | None:
    """The places that two boxes have in common; None where it is not known which."""
    found: list[Span] = []
    for (first, last, step), (start, stop, _) in zip(one, other, strict=True):
        low = first if length_facts.at_most(start, first, known) else start
        high = last if length_facts.at_most(last, stop, known) else stop
        sure = (first, low), (start, low), (high, last), (high, stop), (low, high)
        if step != 1 or not all(length_facts.at_most(*pair, known) for pair in sure):
            return None
        found.append((low, high, 1))
    return tuple(found)


def _as_indexed(index: Index, part: Box, whole: Box) -> tuple[Box, list[IndexPart]]:
    """Where an index of a box has a part of it, and the index of that part by itself.

    Returns:
        The part's box in what the index shows; the entries of its index, none where all are slices.
    """
    region: list[Span] = []
    entries: list[IndexPart] = []
    spans = iter(zip(part, whole, strict=True))
    for entry in (*index.parts, *[FULL] * (len(whole) - len(index.entries))):
        if entry is None:
            region.append((0, 1, 1))
            entries.append(None)
            continue
        (start, stop, _), (lead, _, _) = next(spans)
        if isinstance(entry, slice):
            region.append((start - lead, stop - lead, 1))
        entries.append(FULL if isinstance(entry, slice) else 0)
    return tuple(region), [] if all(entry == FULL for entry in entries) else entries


def _only_orders(node: Node) -> bool:
    """Whether a node computes nothing and copies nothing."""
    return node.op.converts and bool(node.payload.like)


def note_line(
    lines: dict[int, str], made: Node, operands: Sequence[Node], line: str
) -> None:
    """Note the line of an operation for all nodes that it became."""
    known = set(map(id, operands))
    waiting = [made]
    while waiting:
        node = waiting.pop()
        if id(node) not in known and not node.op.is_input:
            known.add(id(node))
            lines.setdefault(id(node), line)
            waiting.extend(node.args)


def _joined(
    node: Node, region: Box, base: Node, value: Node, known: length_facts.Bounds,
    equal: Mapping[str, Dim], looks_through: bool = True,
) -> Node:  # fmt: skip
    """The value between the parts of the base around it, axis by axis from the last.

    What is interleaved has one spelling of its length where guards say that all are equal: then
    one loop nest computes all.

    Args:
        node: has the shape and dtype.
        region: where the value lies.
        base: what is around it.
        value: what is written.
        known: lower bounds of lengths.
        equal: lengths that guards make equal to others.
        looks_through: whether parts of a base that is a join are those of its operands.
    """
    whole = [length_facts.simplify(dim, known) for dim in node.shape]
    spelled = [dims.steps(*span) for span in region]
    spelled = [
        equal.get(str(dim), dim) if step > 1 else dim
        for dim, (_, _, step) in zip(spelled, region, strict=True)
    ]
    inner = _relabelled(value, spelled)
    box_of = partial(_box, base, known, looks_through)
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
                else box_of([*before, (start + place, stop, step), *after])
                for place in range(step)
            ]
            shape = (*lead, stop - start, *whole[axis + 1 :])
            inner = intern(op("interleave"), tuple(turns), shape, node.dtype, Axis(axis))
        if (start, stop) == (0, whole[axis]):
            continue
        pieces = [inner]
        if start != 0:
            pieces.insert(0, box_of([*before, (0, start, 1), *after]))
        if stop != whole[axis]:
            pieces.append(box_of([*before, (stop, whole[axis], 1), *after]))
        shape = (*lead, *whole[axis:])
        inner = intern(op("concatenate"), tuple(pieces), shape, node.dtype, Axis(axis))
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
            value = intern(op("part"), (value,), shape, value.dtype, Part(axis, 0, length))
    return value


def _box(
    base: Node, known: length_facts.Bounds, looks_through: bool, box: Sequence[Span]
) -> Node:
    """A box of an array: a part along each axis that it does not span."""
    for axis, span in enumerate(box):
        base = slices.cut(base, axis, span, known, dims.steps(*span), looks_through)
    return base
