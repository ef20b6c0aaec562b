"""Upfront compilation makes a spec of a graph, runtime compilation a kernel of a group."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fuser import kernel_cache
from fuser.backend import Backend, Kernel
from fuser.base import budget, config, counters
from fuser.base.digest import sha256
from fuser.base.records import changed
from fuser.base.timeline import phase
from fuser.codegen import LoopNest, loop_nests
from fuser.ir.graph import Graph
from fuser.ir.specs import ArgSpec
from fuser.kernel_spec import KernelSpec
from fuser.passes import complex_parts, slice_updates
from fuser.passes.concatenations import distribute
from fuser.passes.decompose import decompose
from fuser.passes.rewrite import Applied, rewrite, verify
from fuser.passes.transposes import unturned
from fuser.scheduling import in_place, row_reductions, schedule
from fuser.scheduling.nest_sequences import apart
from fuser.scheduling.plans import Plan


def compile_upfront(
    graph: Graph, mode: str = "fused", fastmath: bool = False, checked: bool = False
) -> KernelSpec:
    """Look a graph's spec up; prepare it on a miss: decompose, rewrite, schedule.

    Args:
        graph: as traced or parsed.
        mode: "fused" or "unfused".
        fastmath: allow the FAST rules.
        checked: kernels note floating-point exceptions.
    """
    return kernel_cache.lookup(
        graph,
        (mode, fastmath, checked),
        lambda key: _prepare(key, graph, mode, fastmath, checked),
    )


def _prepare(key: int, graph: Graph, mode: str, fastmath: bool, checked: bool) -> KernelSpec:
    """Make the spec of a new graph."""
    dump("graph", f"spec {key} ({mode})", graph.text)
    with phase("rewrite"):
        lowered, applied = _lowered(graph, mode, fastmath)
    dump("rules", f"spec {key}", "\n".join(f"{a.table}: {a.equation} {a.line}" for a in applied))
    with phase("schedule"):
        plan = schedule.plan(lowered, mode, source=graph)
    # A kernel of one operation is quickly made: four of them count as one.
    budget.spend("kernels", len(plan.groups) if mode == "fused" else len(plan.groups) // 4)
    spec = KernelSpec(key, graph.text, graph, mode, fastmath, plan, applied, checked)
    dump("groups", f"spec {key}", describe(spec))
    return spec


def _lowered(graph: Graph, mode: str, fastmath: bool) -> tuple[Graph, tuple[Applied, ...]]:
    """The graph that is planned, and the rules that were applied."""
    # Unfused means: what NumPy would run, so only the operations themselves.
    lowered, applied = decompose(graph)
    if mode == "fused":
        lowered, rewritten = rewrite(lowered, fastmath)
        applied += rewritten
    if config.current().check:
        verify(lowered)
    lowered = slice_updates.lower(lowered)
    if mode != "fused":
        return lowered, applied
    return row_reductions.reuse(unturned(distribute(lowered))), applied


def served_by(spec: KernelSpec, backend: Backend) -> KernelSpec:
    """A spec as a backend runs it: planned anew, once, where it has nests that it cannot spell."""
    if not backend.complex_values and spec.has_complex:
        if spec.in_components is None:
            with phase("schedule"):
                graph = complex_parts.lowered(spec.plan.graph)
                spec.in_components = spec.planned_as(schedule.plan(graph, spec.mode))
        spec = spec.in_components
    parted = apart(spec.plan)
    groups = parted.groups
    sections = (section for group in groups for section in group.sections)
    totals = not backend.totals and any(section.totals for section in sections)
    if not totals and (backend.rows or all(group.rows is None for group in groups)):
        if backend.rows or len(groups) == len(spec.plan.groups):
            return spec
        if spec.without_totals is None:
            spec.without_totals = spec.planned_as(parted)
        return spec.without_totals
    if spec.without_totals is None:
        with phase("schedule"):
            plan = schedule.plan(
                spec.plan.graph, spec.mode, with_totals=False, with_rows=False, source=spec.graph
            )
        spec.without_totals = spec.planned_as(plan)
    return spec.without_totals


def writing(spec: KernelSpec, writes: Sequence[in_place.Write]) -> KernelSpec:
    """A spec whose kernels write into arguments.

    Where kernels may meet an error, NumPy copies results when all is well.
    """
    if spec.mode != "fused" or spec.may_raise or spec.has_complex:
        return spec
    key = tuple(writes)
    if key not in spec.writing:
        spec.writing[key] = spec.planned_as(_writing_plan(spec, key))
    return spec.writing[key]


def _writing_plan(spec: KernelSpec, writes: Sequence[in_place.Write]) -> Plan:
    """The plan that moves the fewest bytes, what is copied at last counted.

    What has been written may as well be read by what comes after, as in a step of several fields:
    often nothing that is still to be read is written then.
    """
    graph = spec.plan.graph
    plan = in_place.aside(spec.plan, writes)
    again = in_place.used_again(graph, writes)
    if plan is spec.plan or not again:
        return plan
    with phase("schedule"):
        other = schedule.plan(graph, spec.mode, source=spec.graph, stored=again)
        other = in_place.aside(other, writes)
    try:
        fewer = in_place.nominal_traffic(other) < in_place.nominal_traffic(plan)
    except ValueError:  # a plan for arrays of fewer elements than the nominal ones, as of none
        return plan
    return other if fewer else plan


def in_terms_of(spec: KernelSpec, graph: Graph) -> KernelSpec:
    """A spec with the names and source lines of `graph`, to describe it by.

    Equal graphs of several functions share one spec, which has the names and lines of the
    first. Equal values are one node, so the plan is told of in the terms of another graph by
    lowering that one too.
    """
    if graph is spec.graph:
        return spec
    lowered, applied = _lowered(graph, spec.mode, spec.fastmath)
    plan = changed(spec.plan, graph=lowered)
    return KernelSpec(
        spec.key, spec.text, graph, spec.mode, spec.fastmath, plan, applied, spec.checked
    )


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
    nests = loop_nests(spec.plan.groups[group], arg_spec, checked=spec.checked)
    digest = sha256(repr(nests).encode()).hexdigest()[:12]
    name = f"fused_{digest}"
    return name, backend.emit(nests, name), nests


def compile_kernel(spec: KernelSpec, group: int, arg_spec: ArgSpec, backend: Backend) -> Kernel:
    """Emit and compile one group, whatever is cached."""
    with phase("emit"):
        name, text, nests = emit_text(spec, group, arg_spec, backend)
    budget.spend("instructions", _compile_cost(text, nests))
    dump("llvm" if backend.name == "cpu" else "cuda", name, text)
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
