"""One call by a specialisation that holds for it: kernels, or operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from fuser import executor
from fuser.backend import array_module_of
from fuser.base import trees
from fuser.base.errors import Reason
from fuser.base.unexpected import internal_errors
from fuser.calls.outputs import check_hazards, check_target, result_of, targets_of
from fuser.calls.specialisation import Call
from fuser.executor import CannotRun
from fuser.ir import dims
from fuser.ir.attributes import Region
from fuser.ir.opaque_calls import CallFailed
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Program
from fuser.tracing.trace_result import OutView


class ReadOnlyError(ValueError):
    """A function writes into an argument that is read-only; nothing has been written yet.

    Which statement meets it, and what is written before, the plain function knows.
    """


class OutOfRangeError(OverflowError):
    """A Python integer does not fit the dtype that it meets; the same as `ReadOnlyError` says."""


def run_call(call: Call, leaves: Sequence[Any], out: Any, paused: Any = None) -> Any:
    """Compute the outputs of one call and put them together.

    Args:
        call: the call, by the specialisation that holds for it.
        leaves: its arguments.
        out: arrays for the results, or None.
        paused: where another path has ended in this call, see `programs.run.Paused`.

    Raises:
        CannotRun, Unsupported: the plain function has to be run.
        PatternMiss: the specialisation does not hold after all.
        ReadOnlyError: an argument cannot be written into.
        OutOfRangeError: a number does not fit, and the function writes or calls before it meets it.
    """
    trace, spec = call.specialisation.trace, call.specialisation.spec
    targets = targets_of(trace, out, call.sizes)
    check_hazards(call)
    given: dict[int, Any] = dict(targets)
    later: list[tuple[Any, Region, int]] = []
    names = [p.name for p in trace.graph.parameters]
    for parameter, output, region in trace.writes:
        array = call.arrays[names[parameter]]
        if executor.is_read_only(array):
            raise ReadOnlyError("output array is read-only")
        if region is None:
            given[output] = array
        elif {name for dim in region.lengths for name in dims.symbols(dim)} <= call.sizes.keys():
            given[output] = array[region.slices(call.sizes)]
        else:  # of a length that is told by a function between kernels
            later.append((array, region, output))
    try:
        if spec is None:
            results = _interpreted(call, given)
        elif not isinstance(spec, KernelSpec):
            from fuser.programs import partition, run

            check = call.specialisation.check_late
            partition.count_breaks(spec)
            learned: dict[str, Any] = {}
            results = run.execute(
                spec, call.arrays, call.numbers, given, check, learned=learned, kinds=call.kinds,
                paused=paused,
            )
            call.learn(learned)
        else:
            results = executor.execute(spec, call.arrays, call.numbers, call.sizes, given)
    except OverflowError as error:  # nothing has been launched
        if trace.writes or not isinstance(spec, KernelSpec):
            raise OutOfRangeError(*error.args) from None
        raise
    if trace.stopped is not None:
        call.specialisation.stops += 1
        raise CannotRun(trace.stopped, call)
    for array, region, output in later:
        array[region.slices(call.sizes)] = results[output]
    made: dict[int, Any] = {}  # what is returned twice is one object
    written = bool(trace.writes) or out is not None  # then nothing may run again
    with nullcontext() if written else internal_errors("a result"):
        for place, leaf in enumerate(trace.leaves):
            if id(leaf) not in made:
                made[id(leaf)] = result_of(leaf, results, call, names, place, targets)
    leaves_out = [made[id(leaf)] for leaf in trace.leaves]
    if out is None:
        return trees.unflatten(trace.structure, leaves_out)
    wanted = out if isinstance(out, tuple) else (out,)
    for target, leaf, value in zip(wanted, trace.leaves, leaves_out, strict=True):
        if isinstance(leaf, OutView):
            check_target(target, value.shape, value.dtype)
            np.copyto(target, value, casting="same_kind")
    return out


def look(call: Call, paused: Any = None) -> None:
    """Run what the decisions of a call need, if it has any; nothing is written.

    Args:
        call: the call, by the specialisation that may hold for it.
        paused: as for `run_call`.

    Raises:
        CannotRun: the plain function has to be run.
        PatternMiss: the specialisation does not hold after all.
    """
    trace, spec = call.specialisation.trace, call.specialisation.spec
    if trace.decisions and isinstance(spec, Program):
        from fuser.programs import run

        check = call.specialisation.check_late
        learned: dict[str, Any] = {}
        run.execute(spec, call.arrays, call.numbers, {}, check, learned=learned, paused=paused)
        call.learn(learned)


def _interpreted(call: Call, given: Mapping[int, Any]) -> list[Any]:
    """Mode "fallback": NumPy or CuPy, operation by operation."""
    from fuser import fallback

    module = array_module_of(call.arrays)
    graph = call.specialisation.trace.graph
    try:
        check = call.specialisation.check_late
        learned: dict[str, Any] = {}
        results = list(
            fallback.interpret(graph, call.arrays, call.numbers, module, check, learned)
        )
        call.learn(learned)
    except CallFailed as error:
        raise CannotRun(error.reason) from None
    except (ValueError, ArithmeticError) as error:  # the plain function raises it, after its writes
        raise CannotRun(Reason("runtime-check", "call", str(error))) from None
    for place, target in given.items():
        executor.check_shape(target, np.shape(results[place]))
    for place, target in given.items():
        module.copyto(target, results[place], casting="same_kind")
        results[place] = target
    return results
