"""Bytes that a plan moves: beside the unfused and the least possible, and boundary by boundary.

And how much a graph computes: element operations, counted from the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fuser.ir import dims
from fuser.ir.graph import Graph, Node
from fuser.ir.labels import labels_of
from fuser.kernel_spec import KernelSpec
from fuser.scheduling import verdicts
from fuser.scheduling.loop_nests import value_of
from fuser.scheduling.nest_sequences import settled
from fuser.scheduling.plans import Plan
from fuser.traffic.moved_bytes import elements_of, group_reads, group_writes, traffic


def count(graph: Graph, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Count the operations on elements that a graph asks for.

    Args:
        graph: composites already decomposed.
        sizes: lengths by symbol.

    Returns:
        Simple operations (each processor instruction or few: + - * / min max compare select), and
        elementary functions (exp, log, sin, power and the like). A reduction counts one operation
        for each element that it reads; conversions, copies and views count nothing.
    """
    simple, elementary = 0, 0
    for node in graph.nodes:
        if node.op.structure or node.op.converts:
            continue
        source = node.args[0] if node.op.reduction else node
        elements = dims.evaluate(dims.product(source.shape), sizes)
        if node.op.heavy:
            elementary += elements
        else:
            simple += elements
    return simple, elementary


@dataclass(frozen=True, slots=True)
class Ledger:
    """Bytes a call moves between memory and the processor, counted from the graph.

    Attributes:
        unfused_bytes: every operation reads its operands and writes its result.
        planned_bytes: what the planned kernels read and write; a buffer that a loop nest reads
            through several views counts once.
        least_bytes: what is used of every argument read once, every output written once.
        kernels_unfused: operations that compute.
        kernels_fused: kernels planned.
        operations: simple operations on elements, as `count` counts them.
        elementary: elementary functions of elements.
    """

    unfused_bytes: int
    planned_bytes: int
    least_bytes: int
    kernels_unfused: int
    kernels_fused: int
    operations: int = 0
    elementary: int = 0


def ledger(spec: KernelSpec, sizes: Mapping[str, int]) -> Ledger:
    """Count the bytes of a spec for given lengths.

    Args:
        spec: the prepared graph.
        sizes: lengths by symbol.
    """
    planned, kernels, unfused, operations = moved(spec, sizes)
    plan = settled(spec.plan, sizes)
    crossing = sum(
        entry["bytes_written"] + entry["bytes_read"] for entry in _crossings(plan, sizes)
    )
    computed = count(spec.graph, sizes)
    return Ledger(unfused, planned, planned - crossing, operations, kernels, *computed)


def moved(spec: KernelSpec, sizes: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Bytes and kernels of a spec as it is planned; bytes and operations of it unfused.

    Args:
        spec: the prepared graph.
        sizes: lengths by symbol.
    """
    plan = settled(spec.plan, sizes)
    return traffic(plan, sizes), len(plan.groups), *_unfused(spec.graph, sizes)


def _unfused(graph: Graph, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes and operations when each operation runs alone.

    Of a table that is indexed, as many elements are read as are picked. A conversion of an operand
    belongs to the operation that wants it, as in NumPy; a conversion that is an output, or is used
    twice, is an operation of its own.
    """
    inlined = _operand_casts(graph)
    total, operations = 0, 0
    for node in graph.nodes:
        if node.op.is_update:  # what is written is read and written once
            operations += 1
            total += 2 * elements_of(node.args[1], sizes) * node.dtype.itemsize
            continue
        if (node.op.structure and not node.op.joins) or id(node) in inlined:
            continue
        operations += 1
        total += elements_of(node, sizes) * node.dtype.itemsize
        for arg in {id(a): a for a in node.args}.values():
            source = arg.args[0] if id(arg) in inlined else arg
            if not (source.op.uniform or source.op.is_iota):
                picked = node.op.gathers and arg is node.args[-1]
                total += elements_of(node if picked else source, sizes) * source.dtype.itemsize
    return total, operations


def _operand_casts(graph: Graph) -> set[int]:
    """Conversions that are done inside the one operation that uses them."""
    uses: dict[int, int] = {}
    for node in (*graph.nodes,):
        for arg in node.args:
            uses[id(arg)] = uses.get(id(arg), 0) + 1
    outputs = {id(node) for node in graph.outputs}
    return {
        id(node)
        for node in graph.nodes
        if node.op.converts
        and (
            node.payload.like
            or (
                not node.payload.order
                and uses.get(id(node), 0) == 1
                and id(node) not in outputs
            )
        )
    }


#: Bytes a second that a boundary's estimated cost is reckoned with where no ceiling was measured:
#: a round figure for the memory of small servers, so costs compare with each other.
BYTES_PER_S = 2.0e10


def boundaries(
    spec: KernelSpec, sizes: Mapping[str, int], bytes_per_s: float = BYTES_PER_S
) -> list[dict[str, Any]]:
    """What crosses the borders between kernels: the least bytes plus these are the planned ones.

    Args:
        spec: the prepared graph.
        sizes: lengths by symbol.
        bytes_per_s: the memory's speed, for the estimated costs.

    Returns:
        Plain data, one dict for each array that is stored between loop nests or read by more than
        one of them, in the order of the plan:

        - array: the buffer, "t0" (stored between kernels), "o0" (an output) or "x0" (an argument);
        - value: what it holds in the user's terms, "exp#3 (model.py:12)", or an argument's name;
        - kind: "stored" (written for a later kernel), "read-again" (an argument or an output);
        - shape, dtype: texts, lengths by symbol;
        - written_by: the kernel's number, None for an argument; read_by: kernels' numbers;
        - bytes_written, bytes_read, bytes (their sum): beyond the least possible;
        - reason: a code of `fuser.scheduling.verdicts.VERDICTS`; meaning: its sentence;
        - estimated_cost_s: bytes / bytes_per_s.
    """
    found = []
    for entry in _crossings(settled(spec.plan, sizes), sizes):
        moved = entry["bytes_written"] + entry["bytes_read"]
        cost = {"bytes": moved, "estimated_cost_s": moved / bytes_per_s}
        found.append({**entry, **cost, "meaning": verdicts.meaning(entry["reason"])})
    return found


def _read_again(nests: int) -> str:
    """Why what is stored nowhere between kernels is read more than once."""
    return "other-loops" if nests > 1 else "long-rows"


def _crossings(plan: Plan, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """The boundaries without their costs."""
    label = labels_of(plan.graph)
    written: dict[str, tuple[int, int]] = {}
    reads: dict[str, list[tuple[int, int]]] = {}
    nodes: dict[str, Node] = {}
    held = plan.held
    for number, group in enumerate(plan.groups):
        for read in group_reads(group, held, sizes):
            for name, size in read.items():
                reads.setdefault(name, []).append((number, size))
        for section in group.sections:
            for part, node in zip(section.loads, section.load_nodes, strict=True):
                nodes.setdefault(part.buffer, value_of(node))
        for name, size in group_writes(group, held, sizes).items():
            written[name] = (number, written.get(name, (0, 0))[1] + size)
    stored = {buffer.name for buffer in plan.temporaries}
    found = []
    for name, entries in reads.items():
        whole = elements_of(nodes[name], sizes) * nodes[name].dtype.itemsize
        total = sum(size for _, size in entries)
        argument = name not in written
        extra = total - min(whole, total) if argument else total
        if not extra and name not in stored:
            continue
        found.append({
            "array": name,
            "value": label[id(nodes[name])],
            "kind": "stored" if name in stored else "read-again",
            "shape": ", ".join(map(str, nodes[name].shape)),
            "dtype": nodes[name].dtype.name,
            "written_by": None if argument else written[name][0],
            "read_by": sorted({number for number, _ in entries}),
            "bytes_written": written[name][1] if name in stored else 0,
            "bytes_read": extra,
            "reason": plan.realised.get(name, _read_again(len(entries))),
        })  # fmt: skip
    return found
