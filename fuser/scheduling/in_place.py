"""Plans that write into their arguments: no element is written that is still to be read.

A kernel may write a result into an argument where all that reads the argument has run before, or
reads it in the same loop nest at the very element that it writes. Other results are stored aside
and copied by a last kernel, when everything has been read: on all threads, and in memory that the
next call finds in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuser.base.records import changed
from fuser.ir.attributes import Box, Region, full_box
from fuser.ir.graph import Graph
from fuser.ir.specs import PartitionDesc
from fuser.ir.views import Chain, Transpose, seen_of_box
from fuser.passes import length_facts
from fuser.scheduling.loop_nests import Section
from fuser.scheduling.nest_sequences import joined
from fuser.scheduling.plans import Buffer, Plan
from fuser.scheduling.row_tiles import Group

#: (parameter's name, number of the output, region): what is written back into an argument.
Write = tuple[str, int, Region | None]


def reads_beside(
    plan: Plan, output: int, *, stores_last: bool = True, several: bool = True
) -> Iterator[tuple[PartitionDesc, Sequence[PartitionDesc]]]:
    """What is read while an output is written, or after its first elements are.

    Args:
        plan: kernels in order.
        output: its number.
        stores_last: kernels store an element after they have read all that it needs.
        several: so do kernels of several nests, each where it writes.

    Yields:
        A part of a buffer, and where the nest that reads it writes the output: what is read may be
        one of these, element by element.
    """
    name, begun = f"o{output}", False
    for part in (part for group in plan.groups for part in group.parts):
        begun = begun or any(d.buffer == name for s in part.sections for _, d in s.stores)
        for section in part.sections if begun else ():
            own: Sequence[PartitionDesc] = ()
            # Rows that take turns: the last ones begin early, and some are computed once more.
            if part.rows is None and (several or len(part.sections) == 1):
                own = _own_stores(section, name, stores_last)
            for load in section.loads:
                yield load, own


def _own_stores(section: Section, name: str, stores_last: bool) -> Sequence[PartitionDesc]:
    """The stores of a nest into a buffer, where they come after all that they need is read."""
    found = [desc for _, desc in section.stores if desc.buffer == name]
    if any(isinstance(view, Transpose) for desc in found for view in desc.views):
        return ()
    if section.axes and any(desc.views for desc in found):
        return ()  # a result: when it is stored others may still be computed from it
    if len(section.stores) > 1:
        whole = all(section.node_of(value).shape == section.shape for value, _ in section.stores)
        if section.axes or not whole or not stores_last:
            return ()
    return found


def aside(plan: Plan, writes: Sequence[Write]) -> Plan:
    """A plan that can write into its arguments: what cannot be written at once is copied at last.

    Args:
        plan: of a graph.
        writes: what is written. Of an argument that is written in parts which may have elements in
            common nothing is known to come last: then the plan stays as it is.
    """
    bounds = length_facts.lower_bounds(plan.graph.guards)
    if not all(_apart(one, two, bounds) for k, one in enumerate(writes) for two in writes[:k]):
        return plan
    shapes = {p.name: p.shape for p in plan.graph.parameters if p.dtype is not None}
    late = {}
    for parameter, output, region in writes:
        whole = full_box(shapes[parameter])
        written = region.box if region else whole
        for load, own in reads_beside(plan, output):
            if load.buffer == parameter and not _may_run(load, own, whole, written, bounds):
                late[plan.outputs[output].name] = plan.outputs[output]
                break
    if not late:
        return plan
    first = 1 + max((int(buffer.name[1:]) for buffer in plan.temporaries), default=-1)
    names = {name: f"t{first + k}" for k, name in enumerate(late)}
    copies = tuple(_copy(names[name], buffer) for name, buffer in late.items())
    groups = [_renamed(group, names) for group in plan.groups]
    tail = joined([*groups[-1].parts, Group(copies)])  # small ones are no kernel of their own
    groups[-1:] = tail if len(tail) == 1 else [groups[-1], Group(copies)]
    kept = tuple(Buffer(names[name], buffer.node) for name, buffer in late.items())
    realised = plan.realised | dict.fromkeys(names.values(), "read-before")
    return changed(
        plan, groups=tuple(groups), temporaries=(*plan.temporaries, *kept), realised=realised
    )


def _apart(one: Write, two: Write, known: length_facts.Bounds) -> bool:
    """Whether two writes surely have no element in common."""
    if one[0] != two[0]:
        return True
    if not one[2] or not two[2]:
        return False
    return length_facts.apart(one[2].box, two[2].box, known)


def _may_run(
    load: PartitionDesc,
    own: Sequence[PartitionDesc],
    whole: Box,
    written: Box,
    known: length_facts.Bounds,
) -> bool:
    """Whether what is read is surely not written, or written by the same nest at the same time."""
    seen = _box(load.views, whole, known)
    if seen is None:
        return False
    if length_facts.apart(seen, written, known):
        return True
    return any(_box(desc.views, written, known) == seen for desc in own)


def _box(views: Chain, box: Box, known: length_facts.Bounds) -> Box | None:
    """The places of an array's box that are seen through views; None where they are no box.

    An axis of one element that is repeated is seen as it is: the call's memory tells it apart.
    """
    seen = seen_of_box(box, views)
    if seen is None or seen.box is None:
        return None
    return tuple(
        (length_facts.simplify(start, known), length_facts.simplify(stop, known), step)
        for start, stop, step in seen.box
    )


def used_again(graph: Graph, writes: Sequence[Write]) -> dict[int, str]:
    """Written values that other values need, by `id`, and why they are stored."""
    written = {id(graph.outputs[output]): graph.outputs[output] for _, output, _ in writes}
    used = {id(arg) for node in graph.nodes for arg in node.args}
    return {
        key: "read-back"
        for key, node in written.items()
        if key in used and not node.op.structure
    }


def _copy(name: str, buffer: Buffer) -> Section:
    """The loop nest that copies a temporary into an output."""
    shape = buffer.node.shape
    stores = ((0, PartitionDesc(buffer.name)),)
    return Section(shape, (PartitionDesc(name),), (buffer.node,), (), (), stores)


def _renamed(group: Group, names: dict[str, str]) -> Group:
    """A kernel that uses other buffers."""

    def part(desc: PartitionDesc) -> PartitionDesc:
        return changed(desc, buffer=names.get(desc.buffer, desc.buffer))

    sections = tuple(
        changed(
            section,
            loads=tuple(map(part, section.loads)),
            stores=tuple((value, part(desc)) for value, desc in section.stores),
        )
        for section in group.sections
    )
    rows = group.rows
    if rows is not None:
        handed = tuple((names.get(name, name), axes) for name, axes in rows.handed)
        rows = changed(rows, handed=handed)
    turns = tuple(_renamed(turn, names) for turn in group.turns)
    return changed(group, sections=sections, rows=rows, turns=turns)
