"""What a traced function returned becomes a canonical graph, and the way to its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.base.host_expressions import scalar_symbols
from fuser.base.protocols import is_a
from fuser.base.trees import flatten
from fuser.ir import dims
from fuser.ir.graph import Node, walk
from fuser.ir.views import Chain
from fuser.tracing.canonical import canonical, written
from fuser.tracing.late_numbers import LateNumber
from fuser.tracing.memory_views import ComplexPart
from fuser.tracing.reshapes import computed_as
from fuser.tracing.trace_result import (
    OutAlias,
    OutNode,
    OutNumber,
    OutScalar,
    OutStatic,
    OutView,
    Trace,
    Write,
)
from fuser.tracing.trace_state import LATER, Storage, Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: What an array shows that is a part of complex numbers.
PARTS = ((ComplexPart("real"),), (ComplexPart("imag"),))


def finish(tracing: Tracing, result: Any) -> Trace:
    """Turn what the function returned into a canonical graph and the way to its outputs."""
    structure, found = flatten(result)
    found = [tracing.original(leaf) for leaf in found]
    nodes: list[Node] = []
    whole: dict[int, int] = {}
    for leaf in found:  # values first, so that views of them can be real views
        if is_a(leaf, TracedArray) and not leaf.views and not _argument_of(tracing, leaf):
            if id(leaf.storage) not in whole:
                whole[id(leaf.storage)] = len(nodes)
                nodes.append(_computed(leaf)[0])
    shown = [leaf.storage for leaf in found if is_a(leaf, TracedArray)]
    alone = [each for each in shown if shown.count(each) == 1 and not each.reshapes]
    made: dict[int, Any] = {}  # a view that is returned twice is one array
    for leaf in found:
        if id(leaf) not in made:
            made[id(leaf)] = _leaf(tracing, leaf, nodes, whole, alone)
    leaves = [made[id(leaf)] for leaf in found]
    writes: list[Write] = []
    for place, argument in enumerate(tracing.arguments):
        if argument.storage.node is not argument.initial:
            if argument.leaf is None:
                raise Unsupported("side-effect", "captured array", "it is written into", "")
            for region, node in written(tracing, argument):
                writes.append((place, len(nodes), region))
                nodes.append(node)
    if tracing.optional:
        from fuser.tracing.selections import drop_unneeded

        drop_unneeded(tracing, nodes, _lengths_told(leaves, writes))
    nodes.extend(_unused(tracing, nodes))
    nodes.extend(_telling(tracing, nodes, leaves))
    return canonical(tracing, structure, leaves, nodes, writes)


def _lengths_told(leaves: Sequence[Any], writes: Sequence[Write]) -> set[str]:
    """The lengths that results and writes speak of beside the graph."""
    told: set[str] = set()
    for leaf in leaves:
        if isinstance(leaf, OutScalar):
            told |= scalar_symbols(leaf.text)
        for view in getattr(leaf, "views", ()):
            told |= {name for dim in getattr(view, "lengths", ()) for name in dims.symbols(dim)}
    for _, _, region in writes:
        if region is not None:
            told |= {name for dim in region.lengths for name in dims.symbols(dim)}
    return told


def _unused(tracing: Tracing, nodes: Sequence[Node]) -> list[Node]:
    """A result of each call that nothing needs: the call may raise, so it runs all the same."""
    used = {n.payload.number for n in walk(nodes) if n.op.is_opaque}
    found: dict[int, Node] = {}
    for node, _ in reversed(tracing.externs.values()):  # a later one may need an earlier one
        number = node.payload.number
        if number not in used:
            found[number] = node
            used |= {
                n.payload.number for n in walk([node]) if n.op.is_opaque
            }
    return list(found.values())


def _telling(tracing: Tracing, nodes: Sequence[Node], leaves: Sequence[Any]) -> list[Node]:
    """Results of loops whose lengths are numbers that the function returns, or that are guarded."""
    texts = [leaf.text for leaf in leaves if isinstance(leaf, OutScalar)]
    wanted = {s for text in (*texts, *tracing.value_guards) for s in scalar_symbols(text)}
    wanted |= {s for node in walk(nodes) for s in node.payload.symbols}
    if wanted.isdisjoint(tracing.late):
        return []
    there = set(map(id, walk(nodes)))
    return [
        node for node, value in tracing.externs.values()
        if value is LATER and id(node) not in there
        and not wanted.isdisjoint(s for dim in node.shape for s in dims.symbols(dim))
    ]  # fmt: skip


def _argument_of(tracing: Tracing, leaf: TracedArray) -> int | None:
    """1 + the parameter whose memory an output shares, or None."""
    for place, argument in enumerate(tracing.arguments):
        if leaf.storage is argument.storage:
            return place + 1
    return None


def _leaf(
    tracing: Tracing, leaf: Any, nodes: list[Node], whole: dict[int, int], alone: Sequence[Storage]
) -> Any:
    """Describe one output; `alone`: memory that no other output looks at."""
    from fuser.tracing.builtin_names import plain_builtin

    if type(leaf) is LateNumber:
        nodes.append(leaf.node)
        return OutNumber(len(nodes) - 1)
    if is_a(leaf, HostScalar):
        return OutScalar(leaf.text, leaf.kind.__name__)
    if not is_a(leaf, TracedArray):
        leaf = plain_builtin(leaf)
        known = id(leaf) in tracing.captured
        return OutStatic(leaf, fresh=is_a(leaf, np.ndarray) and not known)
    if place := _argument_of(tracing, leaf):
        if leaf.storage.reshapes:  # which may be a copy from before later writes
            tracing.note_read((place - 1,))
        return OutAlias(place - 1, leaf.views)
    if id(leaf.storage) not in whole:
        if leaf.views[:1] in PARTS and leaf.storage in alone:  # the rest is not needed
            nodes.append(leaf.node)
            return OutNode(len(nodes) - 1, leaf.generic)
        whole[id(leaf.storage)] = len(nodes)
        nodes.append(_computed(leaf)[0])
    place = whole[id(leaf.storage)]
    views = (*_computed(leaf)[1], *leaf.views)
    return OutView(place, views) if views else OutNode(place, leaf.generic)


def _computed(leaf: TracedArray) -> tuple[Node, Chain]:
    """The value that an output's memory is computed as, and how it is seen."""
    node = leaf.storage.node
    return computed_as(node) if leaf.storage.reshapes else (node, ())
