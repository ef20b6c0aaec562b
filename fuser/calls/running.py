"""One call by a specialisation that holds for it: kernels, or operation by operation.

And the way from their results to what the function returns, and to the arrays of `out=`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from fuser import executor
from fuser.backend import array_module_of
from fuser.base import trees
from fuser.base.caches import memo
from fuser.base.errors import ArgumentError, DtypeError, Reason, Unsupported
from fuser.base.generated import define
from fuser.base.host_expressions import evaluate_scalar
from fuser.base.unexpected import internal_errors
from fuser.calls.specialisation import Call
from fuser.executor import CannotRun
from fuser.ir import dims, views
from fuser.ir.attributes import Region
from fuser.ir.opaque_calls import CallFailed
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Program
from fuser.runtime import aliasing
from fuser.tracing.trace_result import (
    OutAlias,
    OutNode,
    OutPython,
    OutScalar,
    OutView,
    Trace,
)


def check_hazards(call: Call) -> None:
    """Refuse arguments that share memory, where one is written before another is read.

    Raises:
        Unsupported: then only the function itself gives the right answer.
    """
    trace = call.specialisation.trace
    found = aliasing.conflict(call.arrays, [name for name, _, _ in trace.written], trace.hazards)
    if found:
        raise Unsupported("write-into-view", "assignment", found, "")


def copied_into(out: Any, result: Any) -> Any:
    """The arrays of `out=`, after what the plain function gave has been copied into them.

    Raises:
        ArgumentError: a wrong number of arrays.
        ShapeError: an array of another shape than its result.
    """
    _, found = trees.flatten(result)
    wanted = out if isinstance(out, tuple) else (out,)
    if len(found) != len(wanted):
        raise _wrong_count(len(wanted), len(found))
    for target, value in zip(wanted, found, strict=True):
        check_target(target, np.shape(value), np.result_type(value))
        np.copyto(target, value, casting="same_kind")
    return out


def _wrong_count(given: int, results: int) -> ArgumentError:
    """What is said of `out=` with too few or too many arrays."""
    wanted = "an array" if results == 1 else f"a tuple of {results} arrays"
    return ArgumentError(
        f"out has {given} array{'s' * (given != 1)}, the function gives {results}; pass {wanted}"
    )


def targets_of(trace: Trace, out: Any, sizes: Mapping[str, int]) -> dict[int, Any]:
    """Which graph outputs are written into which arrays of `out=`.

    Raises:
        ArgumentError: a wrong number of arrays, or an output that is no array.
        ShapeError: an array of another shape than its output.
    """
    if out is None:
        return {}
    wanted = out if isinstance(out, tuple) else (out,)
    if len(wanted) != len(trace.leaves):
        raise _wrong_count(len(wanted), len(trace.leaves))
    targets: dict[int, Any] = {}
    for target, leaf in zip(wanted, trace.leaves, strict=True):
        if isinstance(leaf, OutView) and hasattr(target, "dtype"):
            continue  # the value that it is a view of is computed, then the view is copied
        if not isinstance(leaf, OutNode):
            raise Unsupported("unsupported-argument", "out=", "an output that is an argument", "")
        node = trace.graph.outputs[leaf.index]
        if not hasattr(target, "dtype") or not hasattr(target, "strides"):
            raise ArgumentError(f"out takes an array, found {type(target).__name__}")
        if leaf.index in targets or target.dtype != node.dtype:
            raise Unsupported("unsupported-argument", "out=", f"dtype {target.dtype}", "")
        if all(symbol in sizes for dim in node.shape for symbol in dims.symbols(dim)):
            executor.check_shape(target, tuple(dims.evaluate(dim, sizes) for dim in node.shape))
        if aliasing.is_read_only(target):
            raise ValueError("output array is read-only")
        targets[leaf.index] = target
    return targets


def given_buffers(out: Any) -> dict[str, Any]:
    """The arrays of `out=` by the names of the results that are written into them."""
    targets = out if isinstance(out, tuple) else () if out is None else (out,)
    return {f"o{place}": target for place, target in enumerate(targets)}


def check_target(target: Any, shape: Any, dtype: Any) -> None:
    """Check an array of `out=` against a result.

    Raises:
        ShapeError, TypeError, ValueError: it cannot take the result.
    """
    executor.check_shape(target, shape)
    if not np.can_cast(dtype, target.dtype, "same_kind"):
        raise DtypeError(
            f"out has dtype {target.dtype}, the result has {dtype}; pass an array of that dtype"
        )


def result_of(
    leaf: Any,
    results: Sequence[Any],
    call: Call,
    names: Sequence[str],
    place: int,
    targets: Mapping[int, Any],
) -> Any:
    """One output as NumPy would give it."""
    if isinstance(leaf, OutNode):
        value = results[leaf.index]
        if leaf.generic and leaf.index not in targets and hasattr(value, "ndim"):
            return value[()]
        return np.asarray(value) if isinstance(value, np.generic) and not leaf.generic else value
    if isinstance(leaf, OutPython):
        return _python_of(leaf.text)(results[leaf.index])
    if isinstance(leaf, OutView):
        base = results[leaf.index]
        return views.apply_views(base, leaf.views, call.sizes, np)
    if isinstance(leaf, OutAlias):
        array = call.arrays[names[leaf.parameter]]
        if not leaf.views:
            return array
        return views.apply_views(array, leaf.views, call.sizes, array_module_of(call.arrays))
    if isinstance(leaf, OutScalar):
        return evaluate_scalar(leaf.text, call.numbers)
    value = leaf.value
    return value.copy("K") if type(value) is np.ndarray and leaf.fresh else value


@memo(4)
def _python_of(text: str) -> Callable[[Any], Any]:
    """What makes a Python number, or a list, of an array; see `OutPython`."""
    return define("made", ["array"], [f"return {text.format('array')}"], {})


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
        OutOfRangeError: a number does not fit.
    """
    trace, spec = call.specialisation.trace, call.specialisation.spec
    targets = targets_of(trace, out, call.sizes)
    check_hazards(call)
    given: dict[int, Any] = dict(targets)
    later: list[tuple[Any, Region, int]] = []
    names = [p.name for p in trace.graph.parameters]
    for parameter, output, region in trace.writes:
        array = call.arrays[names[parameter]]
        if aliasing.is_read_only(array):
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
    except OverflowError as error:  # nothing has been launched, and the function may catch it
        raise OutOfRangeError(*error.args) from None
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
