"""How often a loop nest that reduces reads each operand from memory.

Where what belongs to one result fits the cache, everything is read once. A longer row is read once
for all of its reductions where parts of it tell what the whole is (`online_reductions`), else
once for each of them that needs another one's result; and once more where elements are stored at
last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar

from fuser.base.caches import memo
from fuser.base.contexts import assigned
from fuser.codegen import LoopNest, loop_nest
from fuser.ir import dims, view_chains
from fuser.ir.attributes import dtype_name
from fuser.ir.specs import CONTIGUOUS, INVARIANT, SectionSpec, TensorDesc
from fuser.scheduling.loop_nests import Section
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES
from fuser.traffic.reduction_passes import classify

#: (rows, bytes of operands of one) -> whether a row stays near from one run to the next
Keeps = Callable[[int, int], bool]


def on_a_cpu(rows: int, row_bytes: int) -> bool:
    """In the caches."""
    return row_bytes <= ROW_CACHE_BYTES


_keeps: ContextVar[Keeps] = ContextVar("what keeps rows", default=on_a_cpu)


def kept_by(keeps: Keeps) -> AbstractContextManager[None]:
    """Count reads as on a backend whose `keeps_rows` is given; else as on a CPU."""
    return assigned(_keeps, keeps)


def runs(section: Section, sizes: Mapping[str, int]) -> list[int]:
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
        if view_chains.repeats(node.shape, part.views, section.axes)
    }
    row = dims.evaluate(dims.product(tuple(section.shape[a] for a in section.axes)), sizes)
    each = sum(n.dtype.itemsize for k, n in enumerate(section.load_nodes) if k not in steady)
    rows = dims.evaluate(
        dims.product(tuple(n for a, n in enumerate(section.shape) if a not in section.axes)), sizes
    )
    if _keeps.get()(rows, row * each):
        return once
    return list(_long_row(_bare(section, steady), tuple(sorted(steady))))


def _bare(section: Section, steady: set[int]) -> LoopNest:
    """A section as one row of contiguous memory."""
    nodes = [*section.load_nodes, *(section.node_of(value) for value, _ in section.stores)]
    tensors = tuple(
        TensorDesc(dtype_name(node.dtype), INVARIANT if k in steady else CONTIGUOUS)
        for k, node in enumerate(nodes)
    )
    return loop_nest(section, SectionSpec(1, tensors, "row", 1))


@memo(256)
def _long_row(nest: LoopNest, steady: tuple[int, ...]) -> tuple[int, ...]:
    """Reads of each operand of a row that is longer than the cache."""
    levels, stages = classify(nest, steady)
    first = nest.value_count - len(nest.body)
    reduced: dict[int, set[int]] = {}
    for place, instruction in enumerate(nest.body):
        if instruction.row.reduction:
            operands = reduced.setdefault(stages[first + place] - 1, set())
            operands.update(_loads(nest, levels, instruction.operands[0]))
    stored: dict[int, set[int]] = {}
    for number, _ in nest.stores:
        if levels[number] == 2:
            stored.setdefault(stages[number], set()).update(_loads(nest, levels, number))
    last = max(reduced, default=-1)
    after = {stage for stage in stored if stage > last}
    late = stored.keys() <= after
    if len(reduced) > 1 and late:
        from fuser.traffic.online_reductions import merging  # most first calls need none

        if merging(nest, steady) is not None:
            reduced = {0: set().union(*reduced.values())}
    found = [reduced.get(s, set()) | stored.get(s, set()) for s in reduced.keys() | stored.keys()]
    return tuple(max(1, sum(k in loads for loads in found)) for k in range(len(nest.loads)))


def _loads(nest: LoopNest, levels: list[int], number: int) -> set[int]:
    """The operands whose elements a value needs."""
    found: set[int] = set()
    stack, seen = [number], {number}
    first = nest.value_count - len(nest.body)
    while stack:
        current = stack.pop()
        if levels[current] < 2:
            continue
        if current < len(nest.loads):
            found.add(current)
            continue
        for operand in nest.body[current - first].operands:
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return found
