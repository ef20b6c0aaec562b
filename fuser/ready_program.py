"""The short way of calls that run NumPy functions between kernels, for known shapes.

Each stage becomes a function of its own, which the backend's native entry serves; between them the
functions run as the user wrote them, and their results are compared with those of the first run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import counters, dims, externs, partition, scalars, trees, views
from fuser.externs import Operand, PatternMiss
from fuser.program import Program, Seam, Stage
from fuser.ready import MISSED, Prepared
from fuser.trace_result import OutNode, Trace

if TYPE_CHECKING:
    from fuser.specialisation import Call


class StageMissed(Exception):  # noqa: N818 - a signal, not a fault
    """A stage was called with arrays of another kind."""


def _unknown(*_: Any) -> Any:
    """What a stage does for arrays that its specialisation does not hold for."""
    raise StageMissed


class _StageStep:
    """The kernels of one stage as a function of arrays and scalars."""

    def __init__(self, stage: Stage) -> None:
        """Prepare it; the first call compiles its native entry."""
        from fuser.fused_function import FusedFunction

        self._spec = stage.spec
        self._names = tuple(p.name for p in stage.spec.graph.parameters)
        self._stored = stage.stored
        self._function = FusedFunction(_unknown, mode=stage.spec.mode, fallback="allow")

    def teach(self, args: tuple[Any, ...]) -> None:
        """Have the function know the stage for arguments like these."""
        from fuser.call_keys import signature
        from fuser.fused_function import _Signature
        from fuser.specialisation import specialise

        graph = self._spec.graph
        count = len(graph.outputs)
        structure, _ = trees.flatten(0 if count == 1 else tuple(range(count)))
        leaves = tuple(OutNode(place, False) for place in range(count))
        places = tuple(range(len(graph.parameters)))
        known = specialise(Trace(graph, structure, leaves, (), (), places), self._spec, [], {})
        key = signature(*trees.flatten((args, {})), self._function._keep)
        self._function._signatures[key] = _Signature([known])

    def run(self, values: dict[str, Any], numbers: dict[str, Any], first: bool) -> None:
        """Add the stage's results to `values`.

        Raises:
            StageMissed: the arrays are of another kind than in the first run.
        """
        args = [values[n] if n in values else numbers[n] for n in self._names]
        if first:
            self.teach(tuple(args))
        result = self._function(*args)
        if len(self._stored) == 1:
            values[self._stored[0]] = result
        else:
            values.update(zip(self._stored, result, strict=True))


class _SeamStep:
    """One NumPy function between kernels."""

    def __init__(self, seam: Seam) -> None:
        """Look the function up."""
        self._seam = seam
        self._call = externs.read(seam.nodes[0].payload)
        self._function = externs.resolve(self._call.name)
        self._places = tuple(externs.read(node.payload).output for node in seam.nodes)
        plain = [part.index for part in self._call.args if _is_plain(part)]
        simple = len(plain) == len(self._call.args) and not self._call.kwargs
        self._plain = tuple(plain) if simple else None
        self._expected: list[tuple[Any, ...]] = []

    def run(self, values: dict[str, Any], numbers: dict[str, Any], first: bool) -> None:
        """Add the function's results to `values`.

        Raises:
            PatternMiss: a result is of another kind than in the first run.
            Exception: what the function raises.
        """
        operands = []
        for name, chain in self._seam.operands:
            value = values[name]
            if chain:
                value = views.apply_views(np.asarray(value), chain, numbers, np)
            operands.append(value)
        if first:
            results = externs.run(self._seam.nodes, operands, numbers)
            self._expected = [_kind(value) for value in results]
        else:
            results = self._results(operands, numbers)
            for value, expected in zip(results, self._expected, strict=True):
                if _kind(value) != expected:
                    raise PatternMiss(f"{self._call.short_name}: another kind of result")
        values.update(zip(self._seam.stored, results, strict=True))

    def _results(self, operands: list[Any], numbers: dict[str, Any]) -> list[Any]:
        """The results that are used."""
        if self._plain is not None:
            result = self._function(*[operands[place] for place in self._plain])
            if type(result) is np.ndarray:
                return [result]
            found = trees.flatten(result)[1]
        else:
            found = externs.invoke(self._call, operands, numbers)
        return [found[place] for place in self._places]


def _is_plain(part: Any) -> bool:
    """Whether an argument is an array as it is."""
    return type(part) is Operand and not part.scalar


def _kind(value: Any) -> tuple[Any, ...]:
    """What must be the same again: type, dtype, shape, strides, and whether it is a view."""
    if type(value) is np.ndarray:
        return np.ndarray, value.dtype, value.shape, value.strides, value.base is None
    return type(value), getattr(value, "dtype", None), np.shape(value), (), True


class ReadyProgram(Prepared):
    """How such calls run where NumPy functions stand between kernels."""

    def __init__(self, call: Call, program: Program) -> None:
        """Prepare every step."""
        specialisation = call.specialisation
        leaves = specialisation.trace.leaves
        outputs = tuple((program.outputs[leaf.index], leaf.generic) for leaf in leaves)
        super().__init__(call, specialisation.early_guards, outputs)
        self._program = program
        self._specialisation = specialisation
        self._steps = tuple(
            _SeamStep(step) if isinstance(step, Seam) else _StageStep(step)
            for step in program.steps
        )
        self._counts = partition.seam_counts(program)
        self._first = True

    def run(self, args: tuple[Any, ...]) -> Any:
        """The outputs, or MISSED where the call has to be looked at again."""
        numbers = self._numbers(args)
        if numbers is None:
            return MISSED
        if self._first:
            numbers = dict(numbers)  # lengths that functions tell are added
        values = dict(self._program.constants)
        for name, place in self._arrays:
            values[name] = args[place]
        try:
            for step in self._steps:
                step.run(values, numbers, self._first)
                if self._first and isinstance(step, _SeamStep):
                    externs.check_guards(self._program.graph, numbers)
                    self._specialisation.check_late(numbers)
        except Exception:  # noqa: BLE001 - the long way meets it again, and says it as NumPy does
            return MISSED
        if self._first:
            scalar_names = {name for name, _ in self._scalars}
            self._sizes = {k: v for k, v in numbers.items() if k not in scalar_names}
            self._first = False
        counters.add(self._counts)
        return self._together(values)


def make_ready_program(call: Call, program: Program) -> ReadyProgram | None:
    """A short way for calls like this one, where every output is an array of its own."""
    trace = call.specialisation.trace
    if trace.writes or trace.hazards or not trace.leaves or program.checked:
        return None
    if call.specialisation.captured or call.specialisation.late_guards:
        return None
    if any(type(leaf) is not OutNode for leaf in trace.leaves):
        return None
    made = [name for step in program.steps for name in step.stored]
    if len(set(program.outputs)) < len(program.outputs) or not set(program.outputs) <= set(made):
        return None
    if any(not isinstance(array, np.ndarray) for array in call.arrays.values()):
        return None
    if any(node for seam in program.seams for node in seam.nodes if _shares(node)):
        return None
    if not all(map(_self_contained, program.stages)):
        return None
    return ReadyProgram(call, program)


def _shares(node: Any) -> bool:
    """Whether a function's result looks at an operand's memory."""
    return externs.read(node.payload).shares


def _self_contained(stage: Stage) -> bool:
    """Whether a stage's arrays and scalars tell every length that it uses."""
    graph = stage.spec.graph
    known = {p.name for p in graph.parameters}
    for parameter in graph.parameters:
        known |= {s for dim in parameter.shape for s in dims.symbols(dim)}
    for node in graph.nodes:
        if node.op.name == "scalar" and not scalars.symbols(node.payload) <= known:
            return False
        if any(not set(dims.symbols(dim)) <= known for dim in node.shape):
            return False
    return True
