"""Upfront compilation makes a spec of a graph, runtime compilation a kernel of a group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fuser import kernel_cache
from fuser.backend import Backend, Kernel
from fuser.base import budget, config, counters, notices
from fuser.base.caches import digest
from fuser.base.records import changed
from fuser.base.timeline import phase
from fuser.codegen import LoopNest, loop_nests
from fuser.ir.graph import Graph
from fuser.ir.specs import ArgSpec
from fuser.kernel_spec import FUSED, KernelSpec, Options
from fuser.passes import length_facts
from fuser.passes.decompose import decompose
from fuser.passes.rewrite import Applied, rewrite, verify
from fuser.scheduling import schedule
from fuser.scheduling.capabilities import Capabilities
from fuser.scheduling.plans import Plan

if TYPE_CHECKING:
    from fuser.scheduling import in_place


def compile_upfront(graph: Graph, options: Options = FUSED) -> KernelSpec:
    """Look a graph's spec up; prepare it on a miss: decompose, rewrite, schedule.

    Args:
        graph: as traced or parsed.
        options: what `fuse` was told.
    """
    return kernel_cache.lookup(graph, options, lambda key: _prepare(key, graph, options))


def _prepare(key: int, graph: Graph, options: Options) -> KernelSpec:
    """Make the spec of a new graph."""
    mode = options.mode
    dump("graph", f"spec {key} ({mode})", graph.text)
    with phase("rewrite"):
        lowered, applied = _lowered(graph, options)
    dump("rules", f"spec {key}", "\n".join(f"{a.table}: {a.equation} {a.line}" for a in applied))
    with phase("schedule"):
        plan = schedule.plan(lowered, mode, source=graph)
    # A kernel of one operation is quickly made: four of them count as one.
    budget.spend("kernels", len(plan.groups) if mode == "fused" else len(plan.groups) // 4)
    spec = KernelSpec(key, graph.text, graph, options, plan, applied)
    dump("groups", f"spec {key}", describe(spec))
    return spec


def _lowered(graph: Graph, options: Options) -> tuple[Graph, tuple[Applied, ...]]:
    """The graph that is planned, and the rules that were applied."""
    # Unfused means: what NumPy would run, so only the operations themselves.
    lowered, applied = decompose(graph)
    if options.mode == "fused":
        lowered, rewritten = rewrite(lowered, options.fastmath)
        applied += rewritten
    if config.current().check:
        verify(lowered)
    # The passes below are imported for a graph that has what they rewrite.
    rows = [node.op for node in lowered.nodes]
    bounded = length_facts.lower_bounds(lowered.guards)
    if bounded or any(row.is_update or row.converts for row in rows):
        from fuser.passes import slice_updates

        lowered = slice_updates.lower(lowered)
    if options.mode != "fused":
        return lowered, applied
    if any(node.op.joins for node in lowered.nodes):
        from fuser.passes import concatenations

        lowered = concatenations.distribute(lowered)
    if any(node.op.reduction for node in lowered.nodes):
        from fuser.passes import transposes

        lowered = transposes.unturned(lowered)
    return lowered, applied


def planned(
    spec: KernelSpec, backend: Backend, writes: Sequence[in_place.Write] = ()
) -> KernelSpec:
    """A spec with the plan that a backend runs: made once, before anything is launched.

    Args:
        spec: as `compile_upfront` made it, for a backend that can do everything.
        backend: what its kernels cannot do is planned around.
        writes: what its kernels write into arguments.
    """
    key = backend.capabilities, tuple(writes)
    if key not in spec.planned:
        found = spec.planned_as(_plan_with(spec, writes)) if writes else spec
        if found.has_complex and not backend.capabilities.complex_values:
            from fuser.passes import complex_parts

            with phase("schedule"):
                plan = schedule.plan(complex_parts.lowered(found.plan.graph), spec.options.mode)
            found = found.planned_as(plan, in_parts=True)
        found = found.planned_as(_plan_for(found, backend.capabilities))
        spec.planned.setdefault(key, None if found is spec else found)
    return spec.planned[key] or spec


def _plan_for(spec: KernelSpec, able: Capabilities) -> Plan:
    """The plan of a spec, or another one for kernels that can do less."""
    plan = spec.plan
    parted = plan
    if any(group.turns for group in plan.groups):
        from fuser.scheduling.nest_sequences import apart

        parted = apart(plan)
    if able.row_tiles:
        return plan
    if all(group.rows is None for group in parted.groups):
        return plan if len(parted.groups) == len(plan.groups) else parted
    with phase("schedule"):
        return schedule.plan(plan.graph, spec.options.mode, with_rows=False, source=spec.graph)


def _plan_with(spec: KernelSpec, writes: Sequence[in_place.Write]) -> Plan:
    """The plan of kernels that write into arguments.

    Where kernels may meet an error, NumPy copies results when all is well.
    """
    if spec.options.mode != "fused" or spec.may_raise or spec.has_complex:
        return spec.plan
    return _writing_plan(spec, writes)


def _writing_plan(spec: KernelSpec, writes: Sequence[in_place.Write]) -> Plan:
    """The plan that moves the fewest bytes, what is copied at last counted.

    What has been written may as well be read by what comes after, as in a step of several fields:
    often nothing that is still to be read is written then.
    """
    from fuser.scheduling import in_place
    from fuser.traffic.moved_bytes import nominal_traffic

    graph = spec.plan.graph
    plan = in_place.aside(spec.plan, writes)
    again = in_place.used_again(graph, writes)
    if plan is spec.plan or not again:
        return plan
    found = [plan]
    for with_rows in (True, False):
        with phase("schedule"):
            other = schedule.plan(
                graph, spec.options.mode, with_rows=with_rows, source=spec.graph, stored=again
            )
            found.append(in_place.aside(other, writes))
        if found[-1] is other or all(group.rows is None for group in other.groups):
            break
    try:
        return min(found, key=nominal_traffic)
    except ValueError:  # a plan for arrays of fewer elements than the nominal ones, as of none
        return plan


def in_terms_of(spec: KernelSpec, graph: Graph) -> KernelSpec:
    """A spec with the names and source lines of `graph`, to describe it by.

    Equal graphs of several functions share one spec, which has the names and lines of the
    first. Equal values are one node, so the plan is told of in the terms of another graph by
    lowering that one too.
    """
    if graph is spec.graph:
        return spec
    lowered, applied = _lowered(graph, spec.options)
    if spec.in_parts:
        from fuser.passes import complex_parts

        lowered = complex_parts.lowered(lowered)
    plan = changed(spec.plan, graph=lowered)
    return KernelSpec(
        spec.key, spec.text, graph, spec.options, plan, applied, in_parts=spec.in_parts
    )  # fmt: skip


def describe(spec: KernelSpec) -> str:
    """The plan as text: kernels, their loops, what they read and write."""
    lines = []
    for number, group in enumerate(spec.plan.groups):
        lines.append(f"kernel {number}")
        for section in group.sections:
            reads = ", ".join(map(str, section.loads)) or "nothing"
            writes = ", ".join(str(part) for _, part in section.stores)
            lines.append(f"  loop {list(section.shape)}: reads {reads}; writes {writes}")
            lines.append("    " + " ".join(step.node.op.name for step in section.steps))
    return "\n".join(lines)


def kernel_for(spec: KernelSpec, group: int, arg_spec: ArgSpec, backend: Backend) -> Kernel:
    """The compiled kernel of one group; compiled on first use.

    Raises:
        Unsupported: the backend cannot spell an operation.
        CompileError: the compiler refused.
    """

    def build() -> Kernel:
        return compile_kernel(spec, group, arg_spec, backend)

    found = spec.kernel(group, arg_spec, build)
    assert isinstance(found, Kernel)
    return found


def emit_text(
    spec: KernelSpec, group: int, arg_spec: ArgSpec, backend: Backend
) -> tuple[str, str, tuple[LoopNest, ...]]:
    """A kernel's name, text and loop nests; the same graph always gives the same text."""
    nests = loop_nests(spec.plan.groups[group], arg_spec, spec.options.errstate, spec.plan.repeat)
    name = f"fused_{digest(repr(nests).encode()).hex()[:12]}"
    return name, backend.emit(nests, name), nests


def compile_kernel(spec: KernelSpec, group: int, arg_spec: ArgSpec, backend: Backend) -> Kernel:
    """Emit and compile one group, whatever is cached."""
    with phase("emit"):
        name, text, nests = emit_text(spec, group, arg_spec, backend)
    budget.spend("instructions", _compile_cost(text, nests))
    dump("llvm" if backend.name == "cpu" else "cuda", name, text)
    notices.note("compiling %s", name)
    with phase("compile", name):
        kernel = backend.compile(text, nests, name)
    if "asm" in config.current().dump:
        dump("asm", name, kernel.text("asm"))
    counters.count("kernels")
    return kernel


def _compile_cost(text: str, nests: Sequence[LoopNest]) -> int:
    """Instructions of a kernel; where it reads or writes many arrays, each counts for up to eight.

    Measured with LLVM on kernels of 2,000 to 45,000 lines: 40 µs a line, but 115 to 300 µs where
    more than 8,000 lines have 160 operands or more, for whose addresses there are no registers.
    """
    lines, operands = text.count("\n"), max(len(nest.loads) + len(nest.stores) for nest in nests)
    return int(lines * min(8.0, 1.0 + lines * operands / 1e6))


def dump(stage: str, title: str, text: str) -> None:
    """Print a stage when `FUSER_DUMP` asks for it."""
    if stage in config.current().dump and text:
        sys.stderr.write(f"-- {stage}: {title}\n{text}\n")
