"""Memory that a program holds at once beside its arguments: as planned, and unfused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fuser.ir.graph import Graph, size_bytes
from fuser.scheduling.inlining import through_views
from fuser.scheduling.plans import Plan
from fuser.scheduling.row_tiles import kept_buffers

#: A program step by step: what each reads and what it writes, by name.
Steps = Sequence[tuple[Iterable[str], Iterable[str]]]


def planned_peak_bytes(plan: Plan, sizes: Mapping[str, int]) -> int:
    """The most that temporaries and outputs take while the kernels of a plan run in order.

    A temporary lives from the kernel that writes it first to the last that reads it, an output
    until the end.

    Args:
        plan: the kernels.
        sizes: lengths by symbol.
    """
    buffers = (*plan.temporaries, *plan.outputs)
    size = {buffer.name: size_bytes(buffer.node, sizes) for buffer in buffers}
    nodes = {buffer.name: buffer.node for buffer in buffers}
    groups = [part for group in plan.groups for part in group.parts]
    for group in groups:
        size.update(dict.fromkeys(kept_buffers(group, nodes, sizes), 0))
    steps = [
        (
            [part.buffer for section in group.sections for part in section.loads],
            [part.buffer for section in group.sections for _, part in section.stores],
        )
        for group in groups
    ]
    return _peak(steps, size, {buffer.name for buffer in plan.outputs})


def unfused_peak_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """The most that results take when operations run one by one, each freed after its last use.

    Args:
        graph: its nodes run in their order; views hold no memory of their own.
        sizes: lengths by symbol.
    """
    size: dict[str, int] = {}
    steps = []
    for node in graph.nodes:
        if node.op.given or through_views(node) is not node:
            continue
        name = str(id(node))
        size[name] = size_bytes(node, sizes)
        steps.append(([str(id(through_views(arg))) for arg in node.args], [name]))
    outputs = {str(id(through_views(node))) for node in graph.outputs}
    return _peak(steps, size, outputs)


def _peak(steps: Steps, size: Mapping[str, int], kept: set[str]) -> int:
    """The most bytes alive in any step; what a step reads and writes is alive in it."""
    last = {name: k for k, step in enumerate(steps) for part in step for name in part}
    ends: dict[int, list[str]] = {}
    for name, place in last.items():
        if name not in kept:
            ends.setdefault(place, []).append(name)
    live: set[str] = set()
    held = peak = 0
    for place, (_, writes) in enumerate(steps):
        for name in writes:
            if name not in live:
                live.add(name)
                held += size[name]
        peak = max(peak, held)
        held -= sum(size[name] for name in ends.get(place, ()) if name in live)
    return peak
