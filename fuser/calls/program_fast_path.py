"""The short way of calls that run NumPy functions between kernels, for known shapes.

Each stage becomes a function of its own, which the backend's native entry serves; between them the
functions run as the user wrote them. The first run notes what their results are; after it all
steps are one Python function, which compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from fuser.base import counters, trees
from fuser.base.call_keys import signature
from fuser.base.host_expressions import evaluate_scalar, scalar_symbols
from fuser.calls.prepared import MISSED, Prepared
from fuser.calls.specialisation import Call, specialise
from fuser.calls.trace_cache import Signature
from fuser.ir import dims, layouts, opaque_calls
from fuser.ir.view_chains import apply_views
from fuser.program_spec import LoopRegion, Program, Seam, Stage
from fuser.programs import partition, run
from fuser.programs.straight_line import LEAVES, StraightLine
from fuser.tracing.trace_result import OutAlias, OutNode, OutScalar, OutStatic, Trace


class StageMissed(Exception):  # noqa: N818 - a signal, not a fault
    """A stage was called with arrays of another kind."""


def _unknown(*_: Any) -> Any:
    """What a stage does for arrays that its specialisation does not hold for."""
    raise StageMissed


class _StageStep:
    """The kernels of one stage as a function of arrays and scalars."""

    def __init__(self, stage: Stage, kind: Any) -> None:
        """Prepare it; the first call compiles its native entry."""
        self._step = stage
        self._names = tuple(p.name for p in stage.spec.graph.parameters)
        self._function = kind(_unknown, mode=stage.spec.mode, fallback="allow")

    def teach(self, args: tuple[Any, ...]) -> None:
        """Have the function know the stage for arguments like these."""
        graph = self._step.spec.graph
        count = len(graph.outputs)
        structure, _ = trees.flatten(0 if count == 1 else tuple(range(count)))
        leaves = tuple(OutNode(place, False) for place in range(count))
        places = tuple(range(len(graph.parameters)))
        known = specialise(Trace(graph, structure, leaves, (), (), places), self._step.spec, [], {})
        key = signature(*trees.flatten((args, {})))
        self._function._signatures[key] = Signature([known])

    def first(self, values: dict[str, Any], numbers: dict[str, Any]) -> None:
        """Add the stage's results to `values`."""
        args = [values[n] if n in values else numbers[n] for n in self._names]
        self.teach(tuple(args))
        result = self._function(*args)
        found = (result,) if len(self._step.stored) == 1 else result
        values.update(zip(self._step.stored, found, strict=True))

    def write(self, line: StraightLine, values: Mapping[str, Any]) -> None:
        """Add the step to the program's function; `values` are those of the first run."""
        line.stage(self._step, self._function, self._names)


def _array(value: Any) -> Any:
    """An array for a scalar."""
    return value if layouts.is_array(value) else np.asarray(value)


class _SeamStep:
    """One NumPy function, or loop, between kernels."""

    def __init__(self, seam: Seam | LoopRegion) -> None:
        """Keep what is to be called."""
        self._step = seam
        self._runner = run.runner_of(seam) if isinstance(seam, LoopRegion) else None

    def first(self, values: dict[str, Any], numbers: dict[str, Any]) -> None:
        """Add the function's results to `values`, and the lengths that they tell to `numbers`.

        Raises:
            PatternMiss, CallFailed: as `opaque_calls.run` does.
        """
        operands = [
            apply_views(_array(values[name]), chain, numbers, np) if chain else values[name]
            for name, chain in self._step.operands
        ]
        if isinstance(self._step, LoopRegion):
            results = run.run_loop(self._step, operands, numbers)
        else:
            results = opaque_calls.run(self._step.nodes, operands, numbers)
        values.update(zip(self._step.stored, results, strict=True))

    def write(self, line: StraightLine, values: Mapping[str, Any]) -> None:
        """Add the step to the program's function; `values` are those of the first run."""
        line.seam(self._step, [values[name] for name in self._step.stored], self._runner)


class ReadyProgram(Prepared):
    """How such calls run where NumPy functions stand between kernels."""

    knows_its_arguments = True

    def __init__(self, call: Call, program: Program, kind: Any) -> None:
        """Prepare every step; `kind` makes a fused function."""
        specialisation = call.specialisation
        super().__init__(call, specialisation.early_guards)
        told = _early_lengths(program)  # the call has learned others, which may differ in the next
        self._sizes = {name: size for name, size in self._sizes.items() if name in told}
        structure = specialisation.trace.structure
        self._structure = None if type(structure) is trees.Leaf else structure
        self._program = program
        self._specialisation = specialisation
        self._steps = tuple(
            _StageStep(step, kind) if isinstance(step, Stage) else _SeamStep(step)
            for step in program.steps
        )
        self._counts = partition.seam_counts(program)
        self._apart = self._hazards()
        self._line: Callable[[tuple[Any, ...]], Any] | None = None

    def _hazards(self) -> list[tuple[Callable[[tuple[Any, ...]], Any], ...]]:
        """Pairs of arrays that must not share memory, each as a function of the arguments."""
        trace, captured = self._specialisation.trace, self._specialisation.captured
        names = [parameter.name for parameter in trace.graph.parameters]
        places = dict(self._arrays)

        def getter(name: str) -> Callable[[tuple[Any, ...]], Any]:
            if name in places:
                return itemgetter(places[name])
            return lambda args: captured[name]

        pairs = dict.fromkeys(tuple(sorted(pair)) for pair in trace.hazards)
        return [tuple(getter(names[place]) for place in pair) for pair in pairs]

    def run(self, args: tuple[Any, ...]) -> Any:
        """The outputs, or MISSED where the call has to be looked at again."""
        try:
            for one, other in self._apart:
                first, then = one(args), other(args)
                if first is then or np.may_share_memory(first, then):
                    return MISSED
            if self._line is not None:
                found = self._line(args)
                if found is MISSED:
                    return MISSED
            elif (numbers := self._numbers(args)) is None:
                return MISSED
            else:
                found = self._first(args, dict(numbers))
        except Exception:  # noqa: BLE001 - the long way meets it again, and says it as NumPy does
            return MISSED
        counters.add_soon(self._counts)
        return found[0] if self._structure is None else trees.unflatten(self._structure, found)

    def try_again(self, args: tuple[Any, ...]) -> Any:
        """`run` where arguments may be others than those that this was made for."""
        if self._line is None or len(args) != self._count or not self.holds():
            return MISSED
        return self.run(args)

    def _first(self, args: tuple[Any, ...], numbers: dict[str, Any]) -> list[Any]:
        """The results, step by step; then the steps are written down."""
        program = self._program
        captured = self._specialisation.captured
        values = {**program.constants, **captured}
        for name, place in self._arrays:
            values[name] = args[place]
        names = [parameter.name for parameter in program.graph.parameters]
        for place, _, _ in self._specialisation.trace.writes:
            if not values[names[place]].flags.writeable:
                raise ValueError("output array is read-only")
        for step in self._steps:
            step.first(values, numbers)
            if isinstance(step, _SeamStep):
                opaque_calls.check_guards(program.graph, numbers)
                self._specialisation.check_late(numbers)
        scalar_names = {name for name, _ in self._scalars}
        sizes = {name: size for name, size in numbers.items() if name not in scalar_names}
        late = {name for text, _ in self._specialisation.late_guards
                for name in scalar_symbols(text)}  # fmt: skip
        if late <= sizes.keys():
            self._line = self._written(args, values, sizes)
        return self._results(args, values, numbers)

    def _results(
        self, args: tuple[Any, ...], values: Mapping[str, Any], numbers: Mapping[str, Any]
    ) -> list[Any]:
        """The leaves of the result; what belongs into arguments is written there, last of all."""
        trace = self._specialisation.trace
        outputs = [values[name] for name in self._program.outputs]
        found: list[Any] = []
        for leaf in trace.leaves:
            if isinstance(leaf, OutNode):
                found.append(outputs[leaf.index][()] if leaf.generic else outputs[leaf.index])
            elif isinstance(leaf, OutScalar):
                found.append(evaluate_scalar(leaf.text, numbers))
            elif isinstance(leaf, OutAlias):
                found.append(values[trace.graph.parameters[leaf.parameter].name])
            else:
                found.append(leaf.value)
        for place, output, region in trace.writes:
            array = values[trace.graph.parameters[place].name]
            array[region.slices(numbers) if region else ...] = outputs[output]
        return found

    def _written(
        self, args: tuple[Any, ...], values: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> Callable[[tuple[Any, ...]], Any]:
        """The steps as one function, after they have given these values once."""
        program, captured = self._program, self._specialisation.captured
        late = _late_lengths(program)
        guards = self._specialisation.late_guards
        line = StraightLine(program, sizes, MISSED, late, guards)
        for name, array in captured.items():
            line.captured(name, array)
        for name, place in (*self._arrays, *self._scalars):
            line.argument(name, place, args[place])
        if self._guards:
            line.condition(lambda args: self._numbers(args) is not None)
        trace = self._specialisation.trace
        names = [parameter.name for parameter in trace.graph.parameters]
        for name in dict.fromkeys(names[place] for place, _, _ in trace.writes):
            line.writable(name)
        kept = {name for name, _ in self._arrays} | set(program.constants) | set(captured)
        for step, dropped in zip(self._steps, program.dropped, strict=True):
            step.write(line, values)
            line.forget([name for name in dropped if name not in kept])
        for place, output, region in trace.writes:
            line.write(names[place], region, program.outputs[output])
        return line.function(trace.leaves)


def make_ready_program(call: Call, program: Program, kind: Any) -> ReadyProgram | None:
    """A short way for calls like this one, where every output is an array of its own."""
    trace = call.specialisation.trace
    if program.checked or not (trace.leaves or trace.writes):
        return None
    if program.graph.guards_of_integers:
        return None  # views that functions read are written for lengths that all calls share
    if not all(map(_is_plain, trace.leaves)):
        return None
    if any(not call.arrays[trace.graph.parameters[place].name].flags.writeable
           for place, _, _ in trace.writes):  # fmt: skip
        return None
    made = [name for step in program.steps for name in step.stored]
    if len(set(program.outputs)) < len(program.outputs) or not set(program.outputs) <= set(made):
        return None
    if not all(map(layouts.is_array, call.arrays.values())):
        return None
    if trace.writes and any(_shares(node) for step in program.between for node in step.nodes):
        return None
    if not all(map(_self_contained, program.stages)):
        return None
    return ReadyProgram(call, program, kind)


def _is_plain(leaf: Any) -> bool:
    """Whether a result is an array of its own, an argument, or a number."""
    if isinstance(leaf, OutStatic):
        return not leaf.fresh
    return isinstance(leaf, LEAVES) and not (isinstance(leaf, OutAlias) and leaf.views)


def _early_lengths(program: Program) -> set[str]:
    """Lengths that arguments tell."""
    return {s for p in program.graph.parameters for dim in p.shape for s in dims.symbols(dim)}


def _late_lengths(program: Program) -> set[str]:
    """Lengths that only functions between kernels tell, where only results and kernels have them.

    Views that such functions read are written for lengths that all calls share.
    """
    known = _early_lengths(program)
    found = {
        str(dim) for step in program.between for node in step.nodes for dim in node.shape
        if not isinstance(dim, int) and dims.symbols(dim) == (str(dim),)
    }  # fmt: skip
    seen = [view for step in program.between for _, chain in step.operands for view in chain]
    used = {name for view in seen for dim in view.lengths for name in dims.symbols(dim)}
    return set() if used - known else found - known


def _shares(node: Any) -> bool:
    """Whether a function's result looks at an operand's memory."""
    return bool(node.payload.shares)


def _self_contained(stage: Stage) -> bool:
    """Whether a stage's arrays and scalars tell every length that it uses."""
    graph = stage.spec.graph
    known = {p.name for p in graph.parameters}
    for parameter in graph.parameters:
        known |= {s for dim in parameter.shape for s in dims.symbols(dim)}
    for node in graph.nodes:
        if node.op.is_scalar and not known.issuperset(node.payload.symbols):
            return False
        if any(not set(dims.symbols(dim)) <= known for dim in node.shape):
            return False
    return True
