"""A graph as kernels: what is stored, what shares a loop nest, and which nests share a launch.

`inlining` says which values are stored; each is a unit at first, and so is each output.
`grouping` fuses units that share arrays. What is left becomes loop nests (`sections`); nests that
need nothing of each other are one kernel. `planner` does all of that once; here it is asked again
until no more memory is held than by the operations one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

from fuser.ir import dims
from fuser.ir.graph import Graph
from fuser.scheduling.clustering import MAX_DISTANCE, NOMINAL_LENGTH, nominal_bytes
from fuser.scheduling.peak_memory import planned_peak_bytes, unfused_peak_bytes
from fuser.scheduling.planner import attempt
from fuser.scheduling.plans import Plan

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
