"""What a function's graph is prepared as: kernels, or a program where functions do not fuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fuser import compiler, kernel_cache
from fuser.backend import Backend
from fuser.base import counters
from fuser.base.errors import GraphError, Reason
from fuser.base.records import changed
from fuser.compiler import compile_upfront
from fuser.ir import opaque_calls
from fuser.ir.graph import (
    Graph,
    Node,
)
from fuser.kernel_spec import FUSED, KernelSpec, Options
from fuser.program_spec import (
    Asked,
    LoopRegion,
    Program,
    Stage,
    Step,
)

if TYPE_CHECKING:
    from fuser.scheduling.in_place import Write

def prepare(
    graph: Graph, options: Options = FUSED, others: Sequence[Program] = ()
) -> KernelSpec | Program:
    """Compile a graph upfront: as one spec, or as a program where functions do not fuse.

    Args:
        graph: as traced or parsed.
        options: what `fuse` was told.
        others: other paths of the same function, planned: what stands before the decision where
            this one parts from one of them is that one's.

    Raises:
        GraphError: two arguments have one name.
    """
    names = [parameter.name for parameter in graph.parameters]
    if len(set(names)) < len(names):  # kernels would read one array with the lengths of another
        raise GraphError(f"two arguments of a graph have one name: {', '.join(names)}")
    if not graph.has_externs:
        return compile_upfront(graph, options)
    from fuser.passes import reshapes  # most graphs have none
    from fuser.programs import splitting

    graph = reshapes.behind(graph)
    counts = [splitting.common_steps(other, graph) for other in others]
    if best := max(counts, default=0):
        other = others[counts.index(best)]
        made = splitting.Splitter(graph, options, prepare)
        return made.program(kernel_cache.new_key(), other, best)
    return kernel_cache.lookup(
        graph, options, lambda key: splitting.Splitter(graph, options, prepare).program(key)
    )


def in_terms_of(prepared: KernelSpec | Program, graph: Graph) -> KernelSpec | Program:
    """What was prepared, with the names and source lines of an equal graph, to describe it by."""
    if isinstance(prepared, KernelSpec):
        return compiler.in_terms_of(prepared, graph)  # stages may be those of other functions
    from fuser.passes import reshapes
    from fuser.programs import splitting

    graph = reshapes.behind(graph)
    splitter = splitting.Splitter(graph, prepared.options, prepare, describing=True)
    return splitter.program(prepared.key)


def planned(
    prepared: KernelSpec | Program, backend: Backend, writes: Sequence[Write] = ()
) -> KernelSpec | Program:
    """What was prepared, with the plans that a backend runs: see `compiler.planned`.

    Args:
        prepared: of any backend.
        backend: which runs it; all stages of a program are planned for it, before the first runs.
        writes: what kernels write into arguments; stages of programs write into none.
    """
    if isinstance(prepared, KernelSpec):
        return compiler.planned(prepared, backend, writes)
    own = (_planned_step(step, backend) for step in prepared.steps[prepared.shared :])
    return changed(prepared, steps=(*prepared.steps[: prepared.shared], *own))


def _planned_step(step: Step, backend: Backend) -> Step:
    """A step with the plans that a backend runs."""
    if isinstance(step, Stage):
        return Stage(compiler.planned(step.spec, backend), step.stored)
    if isinstance(step, LoopRegion):
        phases = tuple(
            changed(each, body=planned(each.body, backend, each.writes)) for each in step.phases
        )
        return _interchanged_step(changed(step, phases=phases, runners={}), backend)
    return step


def interchanged(program: Program, backend: Backend) -> Program:
    """A program whose loops run as a backend runs them."""
    steps = (_interchanged_step(step, backend) for step in program.steps)
    return changed(program, steps=tuple(steps))


def _interchanged_step(step: Step, backend: Backend) -> Step:
    """A loop as one kernel for all iterations, where that is legal; other steps as they are."""
    if not (isinstance(step, LoopRegion) and backend.capabilities.repeats):
        return step
    from fuser.programs import interchange  # most programs have no loops

    return interchange.interchanged(step, backend)


def settled(prepared: KernelSpec | Program, sizes: Mapping[str, int]) -> KernelSpec | Program:
    """What was prepared as it is for given lengths: see `nest_sequences.settled`."""
    from fuser.scheduling import nest_sequences

    if isinstance(prepared, KernelSpec):
        return prepared.planned_as(nest_sequences.settled(prepared.plan, sizes))
    steps = tuple(
        changed(step, spec=step.spec.planned_as(nest_sequences.settled(step.spec.plan, sizes)))
        if isinstance(step, Stage)
        else step
        for step in prepared.steps
    )
    return changed(prepared, steps=steps)


def nothing_fuses(graph: Graph) -> Reason | None:
    """Why no kernel would run: all that the function does, NumPy does. None where one would."""
    if not graph.has_externs or any(not node.op.structure for node in graph.nodes):
        return None
    calls = [node for node in graph.nodes if node.op.is_opaque]
    if any(_is_loop(call) or call.payload.takes_less for call in calls):
        return None
    reasons = break_reasons(graph)
    found = "it reads numbers off arrays, and computes nothing"
    return reasons[0] if reasons else Reason("no-gain", "the function", found)


def break_reasons(graph: Graph) -> list[Reason]:
    """Why each function that NumPy runs between kernels is not fused, in order."""
    if not graph.has_externs:
        return []
    calls = [call[0] for call in opaque_calls.calls_of(graph)]
    between = [c for c in calls if not (_is_loop(c) or c.payload.is_inner)]
    return [opaque_calls.reason_of(c, graph.line_of(c)) for c in between]


def _is_loop(call: Node) -> bool:
    """Whether a call stands for a loop, of which kernels run the iterations."""
    return call.payload.name in opaque_calls.LOOPS


def specs_of(prepared: KernelSpec | Program) -> list[KernelSpec]:
    """The specs that have kernels, in the order of execution."""
    if isinstance(prepared, Program):
        return [stage.spec for stage in prepared.stages]
    return [prepared]


def break_counts(program: Program) -> dict[str, int]:
    """What one call adds to the counters: functions run in NumPy, in all and by reason."""
    counts = Counter(f"fallback.{each.reason.code}" for each in program.graph_breaks)
    found = {"graph_breaks": len(program.graph_breaks), **counts}
    if count := len(program.loops) + len(program.element_loops):
        found["loops"] = count
    if decisions := sum(isinstance(step, Asked) and step.decides for step in program.steps):
        found["decisions"] = decisions
    return found


def count_breaks(program: Program) -> None:
    """Count the functions that a call runs in NumPy, by reason."""
    counters.add(break_counts(program))
