"""Bytes that kernels read from memory and write to it, buffer by buffer.

A loop nest that reduces may read an operand more than once. Where what belongs to one result fits
the cache, everything is read once. A longer row is read once for all of its reductions where parts
of it tell what the whole is (`online_reductions`), else once for each of them that needs another
one's result; and once more where elements are stored at last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from fuser.base.caches import memo
from fuser.base.contexts import assigned
from fuser.codegen import LoopNest, loop_nest
from fuser.ir import dims, layouts, views
from fuser.ir.attributes import dtype_name
from fuser.ir.graph import Node
from fuser.ir.specs import CONTIGUOUS, INVARIANT, SectionSpec, TensorDesc, is_counted
from fuser.ir.views import Chain, Measure, Reshape
from fuser.scheduling.clustering import NOMINAL_LENGTH
from fuser.scheduling.loop_nests import Section
from fuser.scheduling.plans import Plan
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES, Group, kept_buffers, runs_by_rows
from fuser.traffic.stages import Stages

#: (rows, bytes of operands of one) -> whether a row stays near from one run to the next
Keeps = Callable[[int, int], bool]


def on_a_cpu(rows: int, row_bytes: int) -> bool:
    """In the caches."""
    return row_bytes <= ROW_CACHE_BYTES


_keeps: ContextVar[Keeps] = ContextVar("what keeps rows", default=on_a_cpu)


def kept_by(keeps: Keeps) -> AbstractContextManager[None]:
    """Count reads as on a backend whose `keeps_rows` is given; else as on a CPU."""
    return assigned(_keeps, keeps)


def times_read(section: Section, sizes: Mapping[str, int]) -> list[int]:
    """How often each load of a section is read from memory.

    Args:
        section: one loop nest.
        sizes: lengths by symbol.
    """
    once = [1] * len(section.loads)
    if not section.axes:
        return once
    steady = {
        k
        for k, (part, node) in enumerate(zip(section.loads, section.load_nodes, strict=True))
        if views.repeats(node.shape, part.views, section.axes)
    }
    row = dims.evaluate(dims.product(tuple(section.shape[a] for a in section.axes)), sizes)
    each = sum(n.dtype.itemsize for k, n in enumerate(section.load_nodes) if k not in steady)
    rows = dims.evaluate(
        dims.product(tuple(n for a, n in enumerate(section.shape) if a not in section.axes)), sizes
    )
    if _keeps.get()(rows, row * each):
        return once
    return list(_long_row(_bare(section, steady)))


def _bare(section: Section, steady: set[int]) -> LoopNest:
    """A section as one row of contiguous memory."""
    nodes = [*section.load_nodes, *(section.node_of(value) for value, _ in section.stores)]
    tensors = tuple(
        TensorDesc(dtype_name(node.dtype), INVARIANT if k in steady else CONTIGUOUS)
        for k, node in enumerate(nodes)
    )
    return loop_nest(section, SectionSpec(1, tensors, "row", 1))


@memo(256)
def _long_row(nest: LoopNest) -> tuple[int, ...]:
    """Reads of each operand of a row that is longer than the cache."""
    stages = Stages(nest)
    reduced: dict[int, set[int]] = {}
    for number, instruction in stages.reducing:
        elements = stages.elements_of(instruction.operands[:1])
        reduced.setdefault(stages.stage_of[number] - 1, set()).update(elements)
    stored: dict[int, set[int]] = {}
    for number, _ in nest.stores:
        if stages.levels[number] == 2:
            elements = stages.elements_of([number])
            stored.setdefault(stages.stage_of[number], set()).update(elements)
    last = max(reduced, default=-1)
    if len(reduced) > 1 and all(stage > last for stage in stored):
        from fuser.traffic.online_reductions import merging  # most first calls need none

        if merging(nest) is not None:
            reduced = {0: set().union(*reduced.values())}
    found = [reduced.get(s, set()) | stored.get(s, set()) for s in reduced.keys() | stored.keys()]
    return tuple(max(1, sum(k in loads for loads in found)) for k in range(len(nest.loads)))


def elements_of(node: Node, sizes: Mapping[str, int]) -> int:
    """How many elements a value has."""
    return dims.evaluate(dims.product(node.shape), sizes)


def group_reads(
    group: Group, nodes: Mapping[str, Node], sizes: Mapping[str, int]
) -> list[dict[str, int]]:
    """Bytes that each run through a kernel's loops reads from memory, by buffer.

    Nests that run by rows, or in turn on small arrays, are one run: what they hand to each other
    stays in the cache, and what several of them read is read once.
    """
    reads = [section_reads(section, sizes) for section in group.sections]
    if not group.turns and not runs_by_rows(group, nodes, sizes):
        return reads
    written = {part.buffer for section in group.sections for _, part in section.stores}
    total: dict[str, int] = {}
    for section, read in zip(group.sections, reads, strict=True):
        held = {
            part.buffer: elements_of(node, sizes) * node.dtype.itemsize
            for part, node in zip(section.loads, section.load_nodes, strict=True)
        }
        for name, size in read.items():
            if name not in written:
                most = max(held[name], size, total.get(name, 0))
                total[name] = min(total.get(name, 0) + size, most)
    return [total]


def group_writes(
    group: Group, nodes: Mapping[str, Node], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Bytes that a kernel writes to memory, by buffer."""
    written: dict[str, int] = {}
    kept = kept_buffers(group, nodes, sizes)
    for section in group.sections:
        for name, size in section_writes(section, nodes, sizes).items():
            if name not in kept:
                written[name] = written.get(name, 0) + size
    return written


def section_reads(section: Section, sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes that one loop nest reads, by buffer: at most the whole buffer in each run through it.

    Rows longer than the cache are run through more than once: see `times_read`.
    """
    read: dict[str, int] = {}
    runs = times_read(section, sizes)
    most: dict[str, int] = {}
    known: dict[tuple[str, Any], int] = {}
    for part, node, times in zip(section.loads, section.load_nodes, runs, strict=True):
        if is_counted(part.buffer):
            continue
        if node.op.locates:
            most.setdefault(part.buffer, 1)
            more = 0 if isinstance(node.payload, Measure) else gathered_bytes(node, section, sizes)
            read[part.buffer] = read.get(part.buffer, 0) + more
            continue
        whole = elements_of(node, sizes) * node.dtype.itemsize
        most[part.buffer] = max(times, most.get(part.buffer, 1))
        place, size = _seen(part.views, node, sizes)
        before = known.get((part.buffer, place), 0)  # the same elements in another spelling
        known[part.buffer, place] = max(before, times)
        seen = read.get(part.buffer, 0) + max(times - before, 0) * size
        read[part.buffer] = min(seen, most[part.buffer] * whole)
    return read


def gathered_bytes(node: Node, section: Section, sizes: Mapping[str, int]) -> int:
    """Bytes that a nest reads at computed places of a buffer: no more than it has.

    Args:
        node: the address of the first element.
        section: the nest.
        sizes: lengths by symbol.
    """
    (table,) = node.args
    count = dims.evaluate(dims.product(section.shape), sizes)
    return min(count, elements_of(table, sizes)) * table.dtype.itemsize


def section_writes(
    section: Section, nodes: Mapping[str, Node], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Bytes that one loop nest writes, by buffer."""
    written: dict[str, int] = {}
    for _, part in section.stores:
        _, size = _seen(part.views, nodes[part.buffer], sizes)
        written[part.buffer] = written.get(part.buffer, 0) + size
    return written


def _seen(chain: Chain, node: Node, sizes: Mapping[str, int]) -> tuple[Any, int]:
    """Which elements of a buffer are seen through views, and their bytes; repeated ones once."""
    shape = tuple(dims.evaluate(dim, sizes) for dim in node.shape)
    layout = layouts.contiguous(shape, node.shape, node.dtype.itemsize)
    elements, merged = math.prod(layout.shape), None
    for view in chain:
        if isinstance(view, Reshape):
            merged = chain
            break
        layout = view.layout(layout, sizes)
        own = zip(layout.shape, layout.strides, strict=True)
        elements = min(elements, math.prod(n for n, step in own if step or not n))
    own = zip(layout.shape, layout.strides, strict=True)
    place = layout.offset, tuple((n, step) for n, step in own if n != 1), merged
    return place, elements * node.dtype.itemsize


def traffic(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Bytes that a plan moves."""
    held, total = plan.held, 0
    for group in plan.groups:
        total += sum(group_writes(group, held, sizes).values())
        total += sum(sum(read.values()) for read in group_reads(group, held, sizes))
    return total


def nominal_traffic(plan: Plan) -> int:
    """Bytes that a plan moves where every length is the nominal one."""
    return traffic(plan, plan.graph.with_lengths_of(NOMINAL_LENGTH))
