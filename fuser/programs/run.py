"""Runs a program: its kernels, and NumPy's functions between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from fuser import executor
from fuser.backend import Kernel, chosen_name
from fuser.base import budget
from fuser.base.errors import Reason, Unsupported
from fuser.base.records import changed, record
from fuser.base.timeline import phase
from fuser.executor import CannotRun
from fuser.ir import dims, layouts, opaque_calls, views
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import (
    Asked,
    Between,
    ElementLoop,
    Kind,
    LoopRegion,
    Program,
    Stage,
    made_by,
)


@record
class Paused:
    """A program that has ended at a decision which has another outcome than the program's.

    Attributes:
        program: it.
        place: of the decision among its steps.
        values: what is stored.
        numbers: what is known.
        kinds: what each value was, those that are stored no more, too.
    """

    program: Program
    place: int
    values: dict[str, Any]
    numbers: dict[str, Any]
    kinds: dict[str, Kind]

    @property
    def told(self) -> list[Any]:
        """The numbers that it has read off values, in their order."""
        names = [step.nodes[0].payload.tells for step in self.program.steps[: self.place]
                 if isinstance(step, Asked)]  # fmt: skip
        return [self.numbers[name] for name in names if name]

    def leads_to(self, other: Program, arrays: Mapping[str, Any]) -> bool:
        """Whether another path begins with the same steps, on the same arrays."""
        steps = self.program.steps[: self.place]
        return (
            len(other.steps) > self.place
            and all(a is b for a, b in zip(steps, other.steps, strict=False))
            and all(self.values.get(name, array) is array for name, array in arrays.items())
        )


def execute(
    program: Program,
    arrays: Mapping[str, Any],
    numbers: Mapping[str, Any],
    given: Mapping[int, Any] | None = None,
    check: Callable[[Mapping[str, Any]], None] | None = None,
    seen: Callable[[KernelSpec, Mapping[str, Any]], None] | None = None,
    learned: dict[str, Any] | None = None,
    kinds: dict[str, Kind] | None = None,
    paused: Paused | None = None,
) -> list[Any]:
    """Run a program's steps.

    Args:
        program: the prepared graph.
        arrays: array arguments by parameter name.
        numbers: scalar arguments and lengths by name.
        given: arrays to write outputs into, by output number; written after everything else.
        check: called with all numbers known so far after each graph break.
        seen: called with each stage's spec and arrays after it ran.
        learned: takes all numbers that are known at the end.
        kinds: takes what each value was.
        paused: where another path of the same function has ended in this call: its steps are not
            run again where they are this program's.

    Returns:
        One array, or NumPy scalar, for each output.

    Raises:
        CannotRun: with the reason; nothing has been written into arguments or given arrays.
        PatternMiss: a function gave a result that this graph was not made for; nothing has been
            written.
    """
    values: dict[str, Any] = {**program.constants, **arrays}
    known, first = dict(numbers), 0
    if paused is not None and paused.leads_to(program, arrays):
        values, known = {**values, **paused.values}, {**paused.numbers, **known}
        first = paused.place
        if kinds is not None:
            kinds.update(paused.kinds)
    direct, last = _direct(program, given or {}), program.steps[-1]
    steps = zip(program.steps, program.dropped, strict=True)
    for place, (step, dropped) in islice(enumerate(steps), first, None):
        if not isinstance(step, Stage):
            try:
                _run_between(step, values, known)
            except opaque_calls.PatternMiss as miss:
                miss.paused = Paused(program, place, dict(values), dict(known), dict(kinds or ()))
                raise
            opaque_calls.check_guards(program.graph, known)
            if check is not None:
                check(known)
        else:
            arrays_ = _run_stage(step, values, known, direct if step is last else {})
            if seen is not None:
                seen(step.spec, arrays_)
        if kinds is not None:
            kinds.update((name, Kind.of(value)) for name, value in values.items()
                         if name not in kinds)  # fmt: skip
        for name in dropped:
            del values[name]
    if learned is not None:
        learned.update(known)
    return _outputs(program, values, given or {})


def _direct(program: Program, given: Mapping[int, Any]) -> dict[int, Any]:
    """Arrays that the last stage may write into itself, by its own output's number."""
    last = program.steps[-1]
    if len(given) != 1 or not isinstance(last, Stage):
        return {}
    between = [node for step in program.between for node in step.nodes]
    if any(node.payload.shares for node in between):
        return {}
    ((place, target),) = given.items()
    name = program.outputs[place]
    if name not in last.stored or program.outputs.count(name) > 1:
        return {}
    return {last.stored.index(name): target}


def _run_stage(
    stage: Stage, values: dict[str, Any], numbers: dict[str, Any], given: Mapping[int, Any]
) -> dict[str, Any]:
    """Launch the kernels of a stage; what they read."""
    spec = stage.spec
    arrays = {p.name: values[p.name] for p in spec.graph.parameters if p.dtype is not None}
    sizes = {name: size for name, size in numbers.items() if name.startswith("n")}
    for place, target in given.items():
        shape = spec.graph.outputs[place].shape
        executor.check_shape(target, tuple(dims.evaluate(dim, sizes) for dim in shape))
    results = executor.execute(spec, arrays, numbers, sizes, given)
    values.update(zip(stage.stored, results, strict=True))
    return arrays


def kernels_of(
    program: Program, arrays: Mapping[str, Any], numbers: Mapping[str, Any]
) -> list[Kernel]:
    """The compiled kernels that these arguments run: the program runs once to know.

    Of loops these are all that were compiled for them.

    Raises:
        CannotRun, PatternMiss: as `execute` does.
    """
    found: list[Kernel] = []

    def note(spec: KernelSpec, given: Mapping[str, Any]) -> None:
        launch = executor.known_launch(spec, given, {}, numbers)
        found.extend(group.kernel for group in (launch.groups if launch else ()))

    execute(program, arrays, numbers, seen=note)
    for spec in program.repeated:
        planned = [each for each in spec.planned.values() if each is not None]
        found.extend(kernel for each in (spec, *planned) for kernel in each.kernels)
    for step in program.all_element_loops:
        found.extend(runner_of(step).kernel.kernels)
    return list({id(kernel): kernel for kernel in found}.values())  # some run in parts


def runner_of(step: LoopRegion | ElementLoop) -> Any:
    """What runs a loop on the backend that is chosen."""
    name = chosen_name()
    found = step.runners.get(name)
    if found is None:
        kind = "loop" if isinstance(step, LoopRegion) else "element loop"
        found = step.runners[name] = made_by[kind](step)
    return found


def _run_between(
    step: Between, values: dict[str, Any],
    numbers: dict[str, Any],
) -> None:  # fmt: skip
    """Run a function in NumPy, or a loop.

    Raises:
        CannotRun: it raised; the plain function will raise the same.
        PatternMiss: its result is of another kind.
    """
    operands = []
    for name, chain in step.operands:
        value = values[name]
        if chain:
            sizes = {key: n for key, n in numbers.items() if key.startswith("n")}
            value = value if layouts.is_array(value) else np.asarray(value)
            value = views.apply_views(value, chain, sizes, np)
        operands.append(value)
    try:
        if isinstance(step, (LoopRegion, ElementLoop)):
            results = run_loop(step, operands, numbers)
        elif isinstance(step, Asked):
            results = opaque_calls.run(step.nodes, operands, numbers)
        else:
            with phase("numpy", step.reason.operation), budget.unclocked():
                results = opaque_calls.run(step.nodes, operands, numbers)
    except opaque_calls.CallFailed as error:
        raise CannotRun(error.reason) from None
    values.update(zip(step.stored, results, strict=True))


def run_loop(
    step: LoopRegion | ElementLoop, operands: Sequence[Any], numbers: dict[str, Any]
) -> list[Any]:
    """Run a loop; its results that are used.

    Raises:
        CannotRun: an iteration cannot run; no argument has been written into.
    """
    args = opaque_calls.filled(step.nodes[0].payload.args, operands, numbers)
    try:
        results = runner_of(step)(*args)
    except CannotRun:
        raise
    except Unsupported as error:
        raise CannotRun(changed(error.reason, where=step.where)) from None
    except Exception as error:  # noqa: BLE001 - the plain function decides what it means
        found = f"{type(error).__name__}: {error}"
        raise CannotRun(Reason("runtime-check", "loop", found, step.where)) from None
    if isinstance(step, LoopRegion) and step.region.leaving.is_early and not step.interchange:
        from fuser.ir.loops import TRIPS  # most programs have no loops

        name = f"{TRIPS}{step.nodes[0].payload.number}"
        numbers[name] = len(results[-1]) if step.region.leaving.counted else results[-1]
    # They may give memory that was handed over to them.
    owned = {step.operands[place][0] for place in step.owned}
    operands = [each for (name, _), each in zip(step.operands, operands, strict=True)
                if name not in owned]  # fmt: skip
    return opaque_calls.run(step.nodes, operands, numbers, results)


def _outputs(
    program: Program, values: Mapping[str, Any], given: Mapping[int, Any]
) -> list[Any]:
    """The outputs, each an array of its own, in the arrays where they are wanted."""
    for place, target in given.items():
        executor.check_shape(target, np.shape(values[program.outputs[place]]))
    results: list[Any] = []
    taken: set[str] = set()
    for place, name in enumerate(program.outputs):
        value = values[name]
        if place in given and given[place] is not value:
            np.copyto(given[place], value, casting="same_kind")
            value = given[place]
        elif name in taken and layouts.is_array(value):
            value = value.copy("K")
        taken.add(name)
        results.append(value)
    return results
