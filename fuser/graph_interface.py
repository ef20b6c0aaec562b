"""Graphs as values: trace, register and run them, ask what was considered, debug."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import executor, fallback, kernel_cache
from fuser.backend import array_module_of, get_backend
from fuser.base import budget, notices, trees
from fuser.base.errors import (
    ArgumentError,
    FuserError,
    FusionError,
    Reason,
    ShapeError,
    Unsupported,
)
from fuser.calls.fused_function import MODES, FusedFunction, check_option
from fuser.executor import CannotRun
from fuser.ir import opaque_calls
from fuser.ir.graph import Graph
from fuser.kernel_spec import KernelSpec, Options

if TYPE_CHECKING:
    from fuser.program_spec import Program


def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """The graph of a function for arguments of these dtypes, ranks and broadcast patterns.

    Args:
        function: ordinary NumPy code, or a fused function; it runs once, on stand-ins.
        args: arrays and Python scalars as for a call.
        kwargs: likewise.

    Returns:
        A Graph: `str(graph)` is its canonical text, `parse` reads it back.

    Raises:
        FusionError: the function cannot be traced, with the reason.
        Exception: what the function itself raises.
    """
    from fuser.capture.tracer import trace_call
    from fuser.programs import partition
    from fuser.tracing.canonical import whole_graph

    plain = function.__wrapped__ if isinstance(function, FusedFunction) else function
    try:
        structure, leaves = trees.flatten((args, kwargs))
        with budget.limited(str(getattr(plain, "__name__", "function"))):
            found = trace_call(plain, structure, leaves)
            if any(node.op.is_opaque and node.payload.is_inner for node in found.graph.nodes):
                asked = "values of arrays are asked for: that takes a call, no graph alone has it"
                raise Unsupported("array-conversion", "trace", asked)
            graph = whole_graph(found)
    except Unsupported as error:
        if error.reason.code == "runtime-check" and error.__cause__ is not None:
            raise error.__cause__ from None
        raise FusionError(error.reason) from None
    reason = partition.nothing_fuses(graph)
    if reason is not None:
        raise FusionError(reason)
    return graph


def register_fusion(graph: Graph) -> int:
    """Prepare a graph for `run_fusion`, whose calls tell the lengths.

    Args:
        graph: from `trace` or `parse`.

    Returns:
        A key for `run_fusion`; graphs that are equal up to names share one.

    Raises:
        ArgumentError: it is no graph.
        FusionError: it cannot be planned within the limits of a first call.
    """
    from fuser.programs import partition

    with _within_limits():
        return kernel_cache.keep(partition.prepare(_graph(graph)))


@contextmanager
def _within_limits() -> Iterator[None]:
    """Plan and compile a graph within the limits of a first call.

    Raises:
        FusionError: it takes more, or cannot be fused.
    """
    try:
        with budget.limited("graph"):
            yield
    except Unsupported as error:
        raise FusionError(error.reason) from None


def _graph(graph: Any) -> Graph:
    """Check that an argument is a graph.

    Raises:
        ArgumentError: it is not.
    """
    if not isinstance(graph, Graph):
        raise ArgumentError(
            f"a Graph is wanted, found {type(graph).__name__}; fuser.trace(fn, *args) makes one"
        )
    return graph


def run_fusion(key: int, args: Sequence[Any], mode: str = "fused") -> tuple[Any, ...]:
    """Run a registered graph; what cannot be fused runs operation by operation, with a warning.

    Args:
        key: from `register_fusion`.
        args: arrays and Python scalars in the order of the graph's parameters.
        mode: "fused", "unfused" or "fallback".

    Returns:
        One array for each output of the graph.

    Raises:
        ArgumentError, DtypeError, ShapeError: the arguments do not fit the graph, or nothing is
            registered under the key.
    """
    from fuser.programs import partition

    spec = kernel_cache.retrieve(key)
    check_option("mode", mode, MODES)
    if mode == "unfused":
        with _within_limits():
            spec = partition.prepare(spec.graph, Options(mode, spec.options.fastmath))
    arrays, numbers = executor.check_arguments(spec.graph, args)
    sizes = _sizes(spec.graph, arrays, numbers)
    if sizes is None:
        return _run_other_pattern(spec.graph, args, arrays, mode)
    numbers.update(sizes)
    try:
        with budget.limited("graph"):
            return _run_fitting(spec, arrays, numbers, sizes, mode)
    except (IndexError, ZeroDivisionError, ValueError) as error:  # lengths that the trace excludes
        ours = isinstance(error, FuserError) or spec.graph.has_externs
        if ours or (type(error) is ValueError and "shape" not in str(error)):
            raise
        raise executor.misfit(spec.graph, arrays, f": {error}") from None


def _run_fitting(
    spec: KernelSpec | Program, arrays: dict[str, Any], numbers: dict[str, Any],
    sizes: dict[str, int], mode: str,
) -> tuple[Any, ...]:  # fmt: skip
    """Run a graph on arguments of its pattern."""
    from fuser.programs import partition

    if mode == "fallback":
        return _interpreted(spec.graph, arrays, numbers)
    try:
        spec = partition.planned(spec, executor.planned_for(arrays.values()))
        if not isinstance(spec, KernelSpec):
            return _run_program(spec, arrays, numbers)
        return tuple(executor.execute(spec, arrays, numbers, sizes))
    except CannotRun as error:
        if error.reason.code != "runtime-check":
            notices.record(error.reason, "warn")
        return _interpreted(spec.graph, arrays, numbers)


def _run_program(
    program: Program, arrays: dict[str, Any], numbers: dict[str, Any]
) -> tuple[Any, ...]:
    """Run a graph with functions that do not fuse; they are counted, and said once.

    Raises:
        ShapeError: a function gave a result that the graph was not made for.
    """
    from fuser.programs import partition, run

    partition.count_breaks(program)
    for one in program.graph_breaks:
        notices.say(one.reason, "warn")
    try:
        return _as_arrays(run.execute(program, arrays, numbers))
    except opaque_calls.PatternMiss as error:
        raise ShapeError(f"{error}; trace again with such arguments") from None


def _interpreted(
    graph: Graph, arrays: dict[str, Any], numbers: dict[str, Any]
) -> tuple[Any, ...]:
    """Run a graph operation by operation.

    Raises:
        ShapeError: as `_run_program` does.
    """
    try:
        return _as_arrays(fallback.interpret(graph, arrays, numbers, array_module_of(arrays)))
    except opaque_calls.CallFailed as error:
        raise error.cause from None
    except opaque_calls.PatternMiss as error:
        raise ShapeError(f"{error}; trace again with such arguments") from None


def _as_arrays(values: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays for NumPy's scalars."""
    return tuple(np.asarray(v) if isinstance(v, np.generic) else v for v in values)


def _sizes(
    graph: Graph, arrays: dict[str, Any], numbers: dict[str, Any]
) -> dict[str, int] | None:
    """Values of symbols, or None where the arguments break the graph's pattern."""
    shapes = {name: array.shape for name, array in arrays.items()}
    numbers |= executor.integers_of(graph, arrays)
    try:
        return executor.sizes_of(graph, shapes, numbers)
    except ZeroDivisionError:  # a length that others are divided by
        return None


def _run_other_pattern(
    graph: Graph, args: Sequence[Any], arrays: dict[str, Any], mode: str
) -> tuple[Any, ...]:
    """Shapes that broadcast in another way than the traced ones: trace the graph again.

    Raises:
        ShapeError: the shapes do not broadcast at all.
    """
    given = list(args)
    if len(given) < len(graph.parameters):
        given += list(graph.captured)

    def again(*values: Any) -> tuple[Any, ...]:
        named = dict(zip((p.name for p in graph.parameters), values, strict=True))
        return fallback.interpret(graph, named, named)

    if graph.has_externs or graph.scalar_lengths or any(_uses_lengths(graph)):
        raise executor.misfit(graph, arrays, "")
    try:
        fresh = trace(again, *given)
    except ShapeError:
        raise
    except (IndexError, ValueError) as error:
        raise executor.misfit(graph, arrays, f": {error}") from None
    return run_fusion(register_fusion(fresh), given, mode)


def _uses_lengths(graph: Graph) -> Any:
    """Whether something in a graph is spelled with lengths, which another pattern changes."""
    for op, payload in ((node.op, node.payload) for node in graph.nodes):
        yield op.reshapes or op.repeats or op.is_iota or op.slices
        yield op.is_scalar and any(name.startswith("n") for name in payload.symbols)


# -- debugging ------------------------------------------------------------------------------


def _launchable(graph: Graph, args: Sequence[Any]) -> tuple[KernelSpec, Any, Any, dict[str, int]]:
    """Prepare a launch that must not fall back.

    Raises:
        FusionError: the shapes break the graph's pattern, or it has a function that NumPy runs.
    """
    from fuser.compiler import compile_upfront, planned
    from fuser.programs import partition

    for reason in partition.break_reasons(_graph(graph)):
        raise FusionError(reason)
    arrays, numbers = executor.check_arguments(graph, args)
    with _within_limits():
        spec = compile_upfront(graph)
        spec = planned(spec, executor.planned_for(arrays.values()))
    sizes = _sizes(graph, arrays, numbers)
    if sizes is None:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise FusionError(Reason("shape-pattern", "arguments", shapes))
    numbers.update(sizes)
    return spec, arrays, numbers, sizes


def debug_launch_graph(graph: Graph, args: Sequence[Any]) -> tuple[Any, ...]:
    """Run a graph fused, or raise: never falls back.

    Args:
        graph: without functions that NumPy runs between kernels.
        args: arrays and Python scalars in the order of the graph's parameters.

    Returns:
        One array for each output of the graph.

    Raises:
        ArgumentError, DtypeError: the arguments do not fit the graph.
        FusionError: it cannot be fused, with the reason.
    """
    spec, arrays, numbers, sizes = _launchable(graph, args)
    try:
        return tuple(executor.execute(spec, arrays, numbers, sizes))
    except CannotRun as error:
        raise FusionError(error.reason) from None


def debug_get_fused_kernel_code(graph: Graph, args: Sequence[Any]) -> str:
    """The generated text of a graph's kernels for these arguments.

    Args:
        graph: as for `debug_launch_graph`.
        args: likewise; nothing is run.

    Returns:
        The kernels' texts, one after another.

    Raises:
        ArgumentError, DtypeError: the arguments do not fit the graph.
        FusionError: it cannot be fused, with the reason.
    """
    spec, arrays, _, sizes = _launchable(graph, args)
    try:
        name = executor.device_of(arrays.values())
        with budget.limited("graph"):
            launch = executor.bound(spec, _plain(arrays), sizes, name)
    except CannotRun as error:
        raise FusionError(error.reason) from None
    return "\n".join(kernel.text("source") for kernel in launch.kernels)


def _plain(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays for NumPy scalars."""
    return {k: np.asarray(v) if isinstance(v, np.generic) else v for k, v in arrays.items()}


def generate_code(graph: Graph, backend: str = "cpu") -> dict[str, str]:
    """The text of a graph's kernels for contiguous arguments; no device or compiler is needed.

    Args:
        graph: what to spell.
        backend: "cpu", "gpu", or a registered backend.

    Returns:
        Kernel name -> text.

    Raises:
        FusionError: the backend cannot spell an operation, or the graph was traced for lengths of
            a kind that is not found.
        BackendError: there is no such backend.
    """
    from fuser.compiler import emit_text, planned
    from fuser.programs import partition
    from fuser.runtime.launch import contiguous_specs

    spelled: dict[str, str] = {}
    with _within_limits():
        prepared = partition.prepare(_graph(graph))
        for spec in partition.specs_of(prepared):
            served = planned(spec, get_backend(backend))
            for number, arg_spec in enumerate(contiguous_specs(served, backend)):
                name, text, _ = emit_text(served, number, arg_spec, get_backend(backend))
                spelled[name] = text
    return spelled


def fusion_candidates(
    graph: Graph, sizes: dict[str, int] | None = None, backend: str = "cpu"
) -> Any:
    """Every pair of operations that was considered for fusing.

    Args:
        graph: the graph.
        sizes: lengths by symbol, for bytes; 1024 for each symbol by default.
        backend: "cpu", "gpu", or a registered backend: they may fuse differently.

    Returns:
        A DataFrame, the best pair first: first, second, kind, score, bytes_saved, fused, reason,
        verdict, distance and kind_bonus, as `fuser.explain.candidates.COLUMNS` tells of them.

    Raises:
        ArgumentError: it is no graph, or `sizes` are no lengths by name.
        BackendError: there is no such backend.
        FusionError: planning takes more than the limits of a first call.
    """
    from fuser.explain.graph_breaks import candidates
    from fuser.programs import partition

    graph = _graph(graph)
    if sizes is not None:
        executor.check_sizes(sizes, graph)
    with _within_limits():
        prepared = partition.prepare(graph)
        described = partition.in_terms_of(prepared, graph)
        return candidates(partition.planned(described, get_backend(backend)), sizes)
