"""A graph as kernels: what is stored, what shares a loop nest, and which nests share a launch.

`inlining` says which values are stored; each is a unit at first, and so is each output. `grouping`
fuses units that share arrays. What is left becomes loop nests (`sections`); nests that need
nothing of each other are one kernel. `planner` does all of that once; here it is asked again until
no more memory is held than by the operations one by one: `planned_peak_bytes` and
`unfused_peak_bytes` say what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fuser.ir import dims
from fuser.ir.graph import Graph, Node, size_bytes
from fuser.scheduling.clustering import MAX_DISTANCE, NOMINAL_LENGTH, nominal_bytes
from fuser.scheduling.planner import attempt
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
        graph: its nodes run in their order; views hold no memory of their own. What is written into
            parts of an array lies in that array, which begins with the first write where it is one
            number everywhere; of what is written into in two ways there are two.
        sizes: lengths by symbol.
    """
    size: dict[str, int] = {}
    steps = []
    lies: dict[int, Node] = {}  # whose memory a node is seen in, by `id`
    written: set[int] = set()
    for node in graph.nodes:
        shown = node.op.structure and not node.op.joins and node.args
        begins = False
        if node.op.is_update:
            begins = lies[id(node.args[0])].op.uniform or id(node.args[0]) in written
            written.add(id(node.args[0]))
        lies[id(node)] = lies[id(node.args[0])] if shown and not begins else node
        if node.op.given or (lies[id(node)] is not node and not node.op.is_update):
            continue
        name = str(id(lies[id(node)]))
        size.setdefault(name, 0 if lies[id(node)].op.given else size_bytes(node, sizes))
        steps.append(([str(id(lies[id(arg)])) for arg in node.args], [name]))
    outputs = {str(id(lies[id(node)])) for node in graph.outputs}
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


#: How far apart in the graph values may be that are computed side by side, whether values are
#: stored early, and whether joined parts may be a few elements more than the operations hold: tried
#: in this order until no more is held at once than by the operations one by one; else that which
#: holds least.
ATTEMPTS = (
    (MAX_DISTANCE, False, True), (16, False, True), (0, False, True), (0, True, True),
    (0, True, False),
)  # fmt: skip
#: ... times this: rows and columns that are kept to compute an array again are small beside it.
PEAK_SLACK = 1.0625
NOTHING: Mapping[int, str] = {}
#: Where even the last attempt holds more than this many times as much, nothing is fused.
PEAK_LIMIT = 1.5


def plan(
    graph: Graph,
    mode: str = "fused",
    *,
    with_rows: bool = True,
    source: Graph | None = None,
    stored: Mapping[int, str] = NOTHING,
) -> Plan:
    """Divide a graph into kernels.

    Args:
        graph: rewritten and decomposed.
        mode: "fused": as few kernels as possible; "unfused": one a NumPy operation.
        with_rows: whether nests may hand rows to each other in the cache (`row_tiles`).
        source: what the graph was made from: joined arrays that it does without count as held.
        stored: further values that are stored, by `id(node)`: codes of `verdicts`.

    Returns:
        The plan; it depends on these alone.
    """
    if mode == "unfused":
        return attempt(graph, mode, MAX_DISTANCE, 0)
    lengths = dict.fromkeys(_symbols(graph), NOMINAL_LENGTH)
    # What arguments are written with is held by the plan alone.
    written = sum(nominal_bytes(node) for node in graph.outputs)
    budget = max(unfused_peak_bytes(graph, lengths), written)
    if source is not None and any(node.op.joins for node in source.nodes):
        lengths |= dict.fromkeys(_symbols(source), NOMINAL_LENGTH)
        budget = max(budget, unfused_peak_bytes(source, lengths))
    slack = max(NOMINAL_LENGTH, budget // 128)
    best: tuple[int, Plan] | None = None
    for distance, early, loose in ATTEMPTS:
        room = budget + slack * loose
        found = attempt(graph, mode, distance, room, early, stored)
        if with_rows and sum(len(group.sections) for group in found.groups) > 1:
            from fuser.scheduling.row_tiling import by_rows  # it needs two nests

            found = by_rows(found)
        peak = planned_peak_bytes(found, lengths)
        if best is None or peak < best[0]:
            best = peak, found
        if peak <= budget * PEAK_SLACK:
            break
    assert best is not None
    if best[0] > budget * PEAK_LIMIT:
        return attempt(graph, "unfused", 0, 0)
    return best[1]


def _symbols(graph: Graph) -> set[str]:
    """The lengths that a graph's values are spelled with."""
    shapes = {node.shape for node in graph.nodes}
    return {symbol for shape in shapes for dim in shape for symbol in dims.symbols(dim)}
