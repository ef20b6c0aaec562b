"""What a traced function returned becomes a canonical graph, and the way to its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.base.host_expressions import scalar_symbols
from fuser.base.protocols import is_a
from fuser.base.trees import changeable, flatten
from fuser.ir import dims
from fuser.ir.dims import Dim
from fuser.ir.graph import Node, walk
from fuser.ir.opaque_calls import DECIDED
from fuser.ir.views import Chain
from fuser.tracing.canonical import canonical, lengths_of, written
from fuser.tracing.late_lists import is_late
from fuser.tracing.late_numbers import LateNumber
from fuser.tracing.trace_result import (
    OutAlias,
    OutNode,
    OutPython,
    OutScalar,
    OutStatic,
    OutView,
    Trace,
    Write,
)
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


def finish(tracing: Tracing, result: Any) -> Trace:
    """Turn what the function returned into a canonical graph and the way to its outputs."""
    structure, found = flatten(result)
    tracing.returned = list(changeable(result))
    found = [tracing.original(leaf) for leaf in found]
    arrays = [leaf for leaf in found if is_a(leaf, TracedArray)]
    if any(leaf.storage.reshapes for leaf in arrays):
        from fuser.tracing.reshapes import check_results

        check_results(tracing, arrays)
    nodes: list[Node] = []
    whole: dict[int, int] = {}
    for leaf in found:  # values first, so that views of them can be real views
        if is_a(leaf, TracedArray) and not leaf.views and not _argument_of(tracing, leaf):
            if id(leaf.storage) not in whole:
                whole[id(leaf.storage)] = len(nodes)
                nodes.append(_computed(leaf)[0])
    made: dict[int, Any] = {}  # a view that is returned twice is one array
    for leaf in found:
        if id(leaf) not in made:
            made[id(leaf)] = _leaf(tracing, leaf, nodes, whole)
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
    if tracing.externs:
        nodes.extend(_unused(tracing, nodes))
    if tracing.raising:
        used = set(map(id, walk(nodes)))
        nodes.extend(node for node in tracing.raising.values() if id(node) not in used)
    if tracing.externs:
        nodes.extend(_telling(tracing, nodes, leaves, writes))
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
    """Results of calls that nothing needs: one of each, as it may raise and so runs all the same.

    Of those before a decision all: another path of the function, which needs others of them, runs
    the same calls up to there.
    """
    there = walk(nodes)
    used = {n.payload.number for n in there if n.op.is_opaque}
    calls = [node for node, _ in tracing.externs.values()]
    decided = max((n.payload.number for n in calls if n.payload.name == DECIDED), default=-1)
    known, found = set(map(id, there)), []
    for node in reversed(calls):  # a later one may need an earlier one
        number = node.payload.number
        if number not in used or (number < decided and id(node) not in known):
            found.append(node)
            needed = walk([node])
            used |= {n.payload.number for n in needed if n.op.is_opaque}
            known.update(map(id, needed))
    return found


def _telling(
    tracing: Tracing, nodes: Sequence[Node], leaves: Sequence[Any], writes: Sequence[Write]
) -> list[Node]:
    """Results of calls and loops that nothing needs but for their lengths.

    A result, a write, a guard or a node may speak of a length that such a call alone tells.
    """
    resolve = tracing.resolve
    guards = [dim for pair in tracing.guards if resolve(pair[0]) != resolve(pair[1])
              for dim in pair]  # fmt: skip
    there = walk(nodes)
    spoken = _lengths_told(leaves, writes).union(*map(scalar_symbols, tracing.value_guards))
    spoken.update(lengths_of(there), *map(dims.symbols, guards))
    spoken.update(s for node in there for s in node.payload.symbols)
    early = [dim for argument in tracing.arguments for dim in argument.initial.shape]
    wanted = _symbols(tracing, map(dims.symbol, spoken & tracing.sizes.keys()))
    wanted -= _symbols(tracing, [*early, *tracing.told.values()])
    told = {id(node) for node in there if node.op.is_opaque}
    calls = [node for node, _ in tracing.externs.values()]
    for node in sorted(calls, key=lambda node: id(node) not in told):
        tells = _symbols(tracing, node.shape) & wanted
        if id(node) in told or tells:
            wanted -= tells
            told.add(id(node))
    found = set(map(id, there))
    return [node for node in calls if id(node) in told and id(node) not in found]


def _symbols(tracing: Tracing, lengths: Iterable[Dim]) -> set[str]:
    """The symbols that lengths are spelled with, as they were found to be."""
    return {s for dim in map(tracing.resolve, lengths) for s in dims.symbols(dim)}


def _argument_of(tracing: Tracing, leaf: TracedArray) -> int | None:
    """1 + the parameter whose memory an output shares, or None."""
    for place, argument in enumerate(tracing.arguments):
        if leaf.storage is argument.storage:
            return place + 1
    return None


def _leaf(tracing: Tracing, leaf: Any, nodes: list[Node], whole: dict[int, int]) -> Any:
    """Describe one output."""
    from fuser.tracing.builtin_names import plain_builtin

    if type(leaf) is LateNumber:
        nodes.append(leaf.node)
        return OutPython(len(nodes) - 1, "{}.item()")
    if is_late(leaf):
        nodes.append(leaf.numbers().node)
        return OutPython(len(nodes) - 1, "[*{}]" if leaf.kind == "scalar" else "{}.tolist()")
    if is_a(leaf, HostScalar):
        return OutScalar(leaf.text, leaf.kind.__name__)
    if not is_a(leaf, TracedArray):
        if is_a(leaf, slice):  # its parts are told apart by their values
            leaf = slice(*map(_plain, (leaf.start, leaf.stop, leaf.step)))
        leaf = plain_builtin(leaf)
        fresh = is_a(leaf, np.ndarray) and id(leaf) not in tracing.captured
        if fresh and not leaf.flags.writeable:  # `np.ones(3).imag`: a copy could be written into
            raise Unsupported("array-conversion", "a result", "an array that is read-only")
        return OutStatic(leaf, fresh=fresh)
    for other in tracing.repeated:
        if leaf.storage is other.storage and leaf.views[: len(other.views)] == other.views:
            told = "NumPy warns where the array that it returns is written into"
            raise Unsupported("array-conversion", "np.broadcast_arrays", told)
    if place := _argument_of(tracing, leaf):
        if leaf.storage.reshapes:  # which may be a copy from before later writes
            tracing.note_read((place - 1,))
        return OutAlias(place - 1, leaf.views)
    if id(leaf.storage) not in whole:
        whole[id(leaf.storage)] = len(nodes)
        nodes.append(_computed(leaf)[0])
    place = whole[id(leaf.storage)]
    views = (*_computed(leaf)[1], *leaf.views)
    return OutView(place, views) if views else OutNode(place, leaf.generic)


def _plain(part: Any) -> Any:
    """A part of a slice: a number is guarded."""
    if is_a(part, TracedArray):
        raise Unsupported("array-conversion", "slice", "it returns a slice of what arrays hold", "")
    return part.kind(part) if is_a(part, HostScalar) else part


def _computed(leaf: TracedArray) -> tuple[Node, Chain]:
    """The value that an output's memory is computed as, and how it is seen."""
    node = leaf.storage.node
    if not leaf.storage.reshapes:
        return node, ()
    from fuser.tracing.reshapes import computed_as

    return computed_as(node)
