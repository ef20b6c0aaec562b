"""The steps of a program that a call has run, each written into a line of generated Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base import trees
from fuser.base.call_keys import signature
from fuser.base.host_expressions import scalar_symbols
from fuser.base.records import changed
from fuser.calls.specialisation import Call, Specialisation, of_kernels
from fuser.calls.trace_cache import Signature
from fuser.element_loops.region import CONTIGUOUS, ROWS, STRIDED, layout_of
from fuser.ir import dims, views
from fuser.ir.dims import Dim
from fuser.ir.opaque_calls import Operand, Unset
from fuser.ir.views import Chain
from fuser.program_spec import Asked, ElementLoop, LoopRegion, Program, Stage
from fuser.programs import run
from fuser.programs.straight_line import StraightLine
from fuser.runtime.aliasing import is_hazardous
from fuser.tracing.trace_result import OutNode, OutView, Write


class StageMissed(Exception):  # noqa: N818 - a signal, not a fault
    """A stage was called with arrays of another kind."""


def _unknown(*_: Any) -> Any:
    """What a stage does for arrays that its specialisation does not hold for."""
    raise StageMissed


def stage_function(
    stage: Stage, like: Sequence[Any], kind: Any, writes: Sequence[Write]
) -> Callable[..., Any]:
    """The kernels of one stage as a function of arrays and scalars, known without a trace.

    Args:
        stage: the first call of the function makes its native entry.
        like: values of the types, dtypes and ranks that it will be called with.
        kind: makes a fused function.
        writes: outputs that go into its arguments; it gives the others.
    """
    function: Any = kind(_unknown, mode=stage.spec.options.mode, fallback="allow")
    written = {output for _, output, _ in writes}
    given = [place for place in range(len(stage.spec.graph.outputs)) if place not in written]
    known = of_kernels(stage.spec, given, writes)
    function._signatures[signature(*trees.flatten((tuple(like), {})))] = Signature([known])
    return function  # type: ignore[no-any-return] # one that is called


def guards_of(specialisation: Specialisation, program: Program) -> list[tuple[str, Any]]:
    """Guards that are more than of shapes, which are compared as they are."""
    told = _early_lengths(program)  # a call has learned others, which may differ in the next
    early = (g for g in specialisation.early_guards if not scalar_symbols(g[0]) <= told)
    return [*early, *specialisation.late_guards]


class Steps:
    """Writes the steps of a program that a call has run, one after the other."""

    def __init__(self, call: Call, program: Program, kind: Any, in_place: bool = False) -> None:
        """Prepare.

        Args:
            call: the call.
            program: what it has run.
            kind: makes a fused function of each stage.
            in_place: loops may write into arguments.
        """
        self._program, self._kind, self._in_place = program, kind, in_place
        self._call = changed(call, arrays={})  # the steps live longer than they
        trace = call.specialisation.trace
        names = [parameter.name for parameter in trace.graph.parameters]
        self._writes = [
            (program.outputs[output], name, box) for name, output, box in trace.written
        ]
        self._kept = {*names, *program.constants}
        self._given = {program.outputs[leaf.index] for leaf in trace.leaves
                       if isinstance(leaf, (OutNode, OutView))}  # fmt: skip

    def write(self, line: StraightLine, place: int) -> None:
        """Add a step to the lines, and what is let go of after it."""
        step, call = self._program.steps[place], self._call
        if isinstance(step, Stage):
            wanted = [parameter.name for parameter in step.spec.graph.parameters]
            direct: list[Write] = []
            if step is self._program.steps[-1]:
                direct = _direct_writes(step, self._given, self._writes)
            like = [
                call.kinds[n].empty() if n in call.kinds else type(call.numbers[n])()
                for n in wanted
            ]
            made = stage_function(step, like, self._kind, direct)
            written = {step.stored[output] for _, output, _ in direct}
            line.stage([name for name in step.stored if name not in written], made, wanted)
            self._writes = [write for write in self._writes if write[0] not in written]
        elif isinstance(step, ElementLoop):
            self._elements(line, step)
        elif isinstance(step, LoopRegion):
            self._region(line, step)
        elif isinstance(step, Asked):
            line.asked(step)
        else:
            line.opaque(step)
        self.forget(line, place)

    def _region(self, line: StraightLine, step: LoopRegion) -> None:
        """Add a loop: the last step writes into arguments where nothing ends it early."""
        runner: Any = run.runner_of(step)
        direct = self._loop_writes(step, runner)
        if not direct:
            line.opaque(step, runner)
            return
        output = dict(zip(step.stored, (n.payload.output for n in step.nodes), strict=True))
        left = {array: output[name] for name, array, _ in self._writes if name in output}
        self._writes = [write for write in self._writes if write[1] not in direct.values()]
        places = {place: left[array] for place, array in direct.items()}
        line.loop_in_place(step, runner.in_place(places))

    def _loop_writes(self, step: LoopRegion, runner: Any) -> dict[int, str]:
        """The arguments that a loop may write into itself, by their places among its arrays.

        What it leaves for one is in that argument, in another one of them, or in memory of its own.
        """
        if not runner.never_ends_early:
            return {}
        from fuser.ir.loops import STATED  # most programs have no loops

        names, found = [name for name, _ in step.operands], dict[int, str]()
        for place, part in enumerate(step.nodes[0].payload.args[STATED + 1]):
            name, chain = step.operands[part.index]
            plain = runner.copied[place] and not chain and self._call.kinds[name].contiguous
            if plain and self._left_for(name, step, names):
                found[place] = name
        if len(found) < sum(runner.copied):  # then none of them changes places with another array
            found = {k: name for k, name in found.items() if not step.region.results[k]}
        return found

    def _left_for(
        self, array: str, step: LoopRegion | ElementLoop, names: Sequence[str]
    ) -> str:
        """The value that a loop leaves for an argument, if it may write there itself; else "".

        It is the last step, which writes all of the argument and has no other way to it, and
        nothing else takes the value.
        """
        writes = [write for write in self._writes if write[1] == array]
        last = self._in_place and step is self._program.steps[-1]
        if not last or names.count(array) != 1 or len(writes) != 1 or writes[0][2] is not None:
            return ""
        name = writes[0][0]
        alone = [value for value, _, _ in self._writes].count(name) == 1
        return name if alone and name in step.stored and name not in self._given else ""

    def _elements(self, line: StraightLine, step: ElementLoop) -> None:
        """Add a loop over elements: the last step writes into arguments, which nothing reads then.

        Where a run ends early, its kernel puts back what they held.
        """
        runner: Any = run.runner_of(step)
        code = runner.kernel.code
        parts = step.nodes[0].payload.args[4]
        seen = [step.operands[part.index] if type(part) is Operand else None for part in parts]
        names = [found[0] if found else "" for found in seen]
        kinds = [self._seen_kind(*found) if found else self._kind_of_unset(part, step)
                 for found, part in zip(seen, parts, strict=True)]  # fmt: skip
        direct: dict[int, str] = {}
        outputs = [place for place, array in enumerate(code.operands) if array.written]
        stored = {node.payload.output: name
                  for node, name in zip(step.nodes, step.stored, strict=True)}  # fmt: skip
        for output, place in enumerate(outputs):
            if place in runner.copied and kinds[place][1] == CONTIGUOUS:
                name = self._left_for(names[place], step, names)
                if name and name == stored.get(output):
                    direct[place] = name
        self._writes = [write for write in self._writes if write[0] not in direct.values()]
        copied = [place for place in runner.copied if place not in direct]
        kinds = [(dtype, STRIDED if place in copied and lies == ROWS else lies)
                 for place, (dtype, lies) in enumerate(kinds)]  # fmt: skip
        native = runner.kernel.native(kinds, runner.copied, restores=bool(direct))
        line.elements(step, native, code, copied, bool(direct))

    def _kind_of_unset(self, part: Unset, step: ElementLoop) -> tuple[np.dtype[Any], str]:
        """The dtype of an array that a step makes, and how it lies."""
        if type(part.like) is not Operand:
            return part.dtype, CONTIGUOUS
        name, chain = step.operands[part.like.index]
        lies = self._seen_kind(name, chain)[1]
        return part.dtype, lies if lies == CONTIGUOUS else STRIDED

    def _seen_kind(self, name: str, chain: Chain) -> tuple[np.dtype[Any], str]:
        """The dtype of an operand through its views, and how it lies."""
        kind = self._call.kinds[name]
        if chain and kind.contiguous:
            seen = views.apply_views(
                np.empty(kind.shape, kind.dtype), chain, self._call.sizes, np
            )
            return kind.dtype, layout_of(seen)
        if chain or not kind.is_array:
            return kind.dtype, STRIDED
        if kind.contiguous:
            return kind.dtype, CONTIGUOUS
        return kind.dtype, ROWS if kind.strides[-1] == kind.dtype.itemsize else STRIDED

    def forget(self, line: StraightLine, place: int) -> None:
        """Let go of what nothing needs after a step."""
        line.forget([name for name in self._program.dropped[place] if name not in self._kept])

    def write_back(self, line: StraightLine) -> None:
        """Write into arguments what kernels have not written there."""
        for name, array, box in self._writes:
            line.write(array, box, name)


def _direct_writes(
    stage: Stage, given: Collection[str], writes: Sequence[tuple[str, str, Any]]
) -> list[Write]:
    """What the last stage writes into arguments that it reads: nothing ends after it has begun.

    Writes into one argument are made in their order: where some of them wait until the end, all do.
    """
    names = [parameter.name for parameter in stage.spec.graph.parameters]
    found: list[Write] = []
    for place, name in enumerate(stage.stored):
        into = [(array, box) for written, array, box in writes if written == name]
        if len(into) != 1 or name in given:
            continue
        ((array, box),) = into
        lengths = () if box is None else box.lengths
        told = {symbol for dim in lengths for symbol in dims.symbols(dim)}
        if array in names and told <= _told(stage):
            found.append((names.index(array), place, box))
    direct = {stage.stored[place] for _, place, _ in found}
    waiting = {array for name, array, _ in writes if name not in direct}
    order = [name for name, _, _ in writes]
    found = [write for write in found if names[write[0]] not in waiting]
    return sorted(found, key=lambda write: order.index(stage.stored[write[1]]))


def integers_of(program: Program) -> frozenset[str]:
    """Integers among the arguments that are lengths: the steps are written for their values."""
    pairs = program.graph.guards_of_integers
    speaking = {name for _, told in pairs for name in dims.symbols(told)}
    return program.graph.integers & speaking


def told_by_integers(program: Program) -> Mapping[str, Dim]:
    """The lengths that integers among the arguments tell, where steps are written for any of them.

    None where a guard says more of an integer, or a loop over elements is made for its views.
    """
    graph = program.graph
    told: Mapping[str, Dim] = graph.scalar_lengths
    more = len(graph.guards_of_integers) > len(told)
    return {} if more or program.element_loops else told


def has_short_way(call: Call, program: Program) -> bool:
    """Whether calls like this one have a short way: every result is an array of its own."""
    trace = call.specialisation.trace
    if program.options.errstate or not (trace.leaves or trace.writes or trace.stopped):
        return False
    if not dict(call.specialisation.scalar_leaves).keys() >= integers_of(program):
        return False  # views that functions read are written for lengths that all calls share
    if any(is_hazardous(call.arrays[name]) for name, _, _ in trace.written):
        return False
    made = [name for step in program.steps for name in step.stored]
    given = [program.outputs[leaf.index] for leaf in trace.leaves if isinstance(leaf, OutNode)]
    indices = {leaf.index for leaf in trace.leaves if isinstance(leaf, (OutNode, OutView))}
    values = {program.outputs[index] for index in indices}  # two of one value are two arrays
    if len(set(given)) < len(given) or len(values) < len(indices):
        return False
    if not set(program.outputs) <= set(made):
        return False
    if trace.writes and any(_shares(node) for step in program.between for node in step.nodes):
        return False
    if not all(map(is_self_contained, program.stages)):
        return False
    late = {name for text, _ in call.specialisation.late_guards for name in scalar_symbols(text)}
    between = [node for step in program.between for node in step.nodes]
    told = {s for node in between for dim in node.shape for s in dims.symbols(dim)}
    return late <= {*call.numbers, *told}


def _early_lengths(program: Program) -> set[str]:
    """Lengths that arguments tell."""
    return {s for p in program.graph.parameters for dim in p.shape for s in dims.symbols(dim)}


def late_lengths(program: Program) -> set[str]:
    """Lengths that only functions between kernels tell, where only results and kernels have them.

    Views that such functions read are written for lengths that all calls share. Loops over
    elements tell none: they give arrays as long as those that they are given.
    """
    known = _early_lengths(program) | program.graph.scalar_lengths.keys()
    found = {
        str(dim) for step in program.between if not isinstance(step, ElementLoop)
        for node in step.nodes for dim in node.shape
        if not isinstance(dim, int) and dims.symbols(dim) == (str(dim),)
    }  # fmt: skip
    seen = [view for step in program.between for _, chain in step.operands for view in chain]
    used = {name for view in seen for dim in view.lengths for name in dims.symbols(dim)}
    return set() if used - known else found - known


def _shares(node: Any) -> bool:
    """Whether a function's result looks at an operand's memory."""
    return bool(node.payload.shares)


def _told(stage: Stage) -> set[str]:
    """The scalars and lengths that a stage's arguments tell."""
    known = {p.name for p in stage.spec.graph.parameters} | stage.spec.graph.scalar_lengths.keys()
    for parameter in stage.spec.graph.parameters:
        known |= {s for dim in parameter.shape for s in dims.symbols(dim)}
    return known


def is_self_contained(stage: Stage) -> bool:
    """Whether a stage's arrays and scalars tell every length that it uses."""
    known = _told(stage)
    for node in stage.spec.graph.nodes:
        if node.op.is_scalar and not known.issuperset(node.payload.symbols):
            return False
        if any(not set(dims.symbols(dim)) <= known for dim in node.shape):
            return False
    return True
