"""From kernels' results to what the function returns, and the arrays of `out=`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuser import executor
from fuser.backend import array_module_of
from fuser.base import trees
from fuser.base.errors import ArgumentError, DtypeError, Unsupported
from fuser.base.host_expressions import evaluate_scalar
from fuser.calls.specialisation import Call
from fuser.ir import dims, view_chains
from fuser.tracing.trace_result import OutAlias, OutNode, OutNumber, OutScalar, OutView, Trace


def check_hazards(call: Call) -> None:
    """Refuse arguments that share memory, where one is written before another is read.

    Raises:
        Unsupported: then only the function itself gives the right answer.
    """
    trace = call.specialisation.trace
    names = [parameter.name for parameter in trace.graph.parameters]
    for place, _, _ in trace.writes:
        if executor.overlaps_itself(call.arrays[names[place]]):
            found = "an argument whose elements share memory"
            raise Unsupported("write-into-view", "assignment", found, "")
    for pair in trace.hazards:
        first, then = (call.arrays[names[place]] for place in pair)
        if first is then or np.may_share_memory(first, then):
            raise Unsupported("write-into-view", "assignment", "arguments that share memory", "")


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
        if executor.is_read_only(target):
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
    if isinstance(leaf, OutNumber):
        return results[leaf.index].item()
    if isinstance(leaf, OutView):
        base = results[leaf.index]
        return view_chains.apply_views(base, leaf.views, call.sizes, np)
    if isinstance(leaf, OutAlias):
        array = call.arrays[names[leaf.parameter]]
        if not leaf.views:
            return array
        return view_chains.apply_views(array, leaf.views, call.sizes, array_module_of(call.arrays))
    if isinstance(leaf, OutScalar):
        return evaluate_scalar(leaf.text, call.numbers)
    value = leaf.value
    return value.copy("K") if type(value) is np.ndarray and leaf.fresh else value
