"""A fused function called with Dask arrays: lazy Dask arrays, one kernel a chunk.

The function is traced on stand-ins of the arrays' dtypes and shapes, nothing is computed, and the
graph is divided at what crosses chunks. Where that cannot be done, the plain function runs on the
Dask arrays, so that each operation is Dask's own; what is elementwise in between becomes kernels,
too, and the reason says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from numpy.lib.stride_tricks import as_strided

from fuser import executor
from fuser.backend import MISSED
from fuser.base import budget, caches, notices, trees
from fuser.base.call_keys import READY_LIMIT, refusal_key, signature
from fuser.base.error_states import noted
from fuser.base.errors import FusionError, Reason, ShapeError, Unsupported
from fuser.base.host_expressions import evaluate_scalar, scalar_symbols
from fuser.base.records import changed, record
from fuser.base.unexpected import internal_errors
from fuser.calls.owner import Owner
from fuser.calls.specialisation import specialise
from fuser.calls.trace_cache import VALUE_LIMIT, Signature, given_back
from fuser.capture import captures
from fuser.capture.effects import Surroundings, alone
from fuser.capture.purity import trace_purely
from fuser.dask.blocks import Blocks
from fuser.dask.forms import by_identity, by_value
from fuser.dask.optimization import EXPRESSIONS, are_expressions, with_kernels
from fuser.executor import CannotRun
from fuser.ir import dims
from fuser.ir.graph import Graph
from fuser.ir.views import apply_views
from fuser.tracing.trace_result import OutAlias, OutNode, OutScalar, OutView, Trace
from fuser.tracing.valueless import valueless


def call(function: Owner, structure: Any, leaves: list[Any], out: Any) -> Any:
    """Run a fused function on Dask arrays.

    Args:
        function: what is called.
        structure: how its arguments nest.
        leaves: the arguments; some are Dask arrays.
        out: arrays of `out=`, or None.

    Raises:
        FusionError: `out=` is given, the function writes into its arguments, or it cannot be fused
            and the policy is "error".
    """
    if out is not None:
        raise FusionError(Reason("lazy-write", function._name, "out= with Dask arrays"))
    entry = _entry(function, structure, leaves)
    try:
        return by_chunks(function, structure, leaves, entry)
    except (CannotRun, Unsupported) as error:
        reason = error.reason
    if reason.code == "lazy-write":
        raise FusionError(reason)
    if reason is entry.refused and entry.refused_orders is None:
        _remember(function, structure, leaves, Ended(reason, entry.refused_names))
    result = _fallen_back(function, structure, leaves, reason)
    if entry.suspected is not None:
        entry.refuse(*entry.suspected)  # it cannot be traced, and runs
        entry.suspected = None
    return result


def _fallen_back(function: Owner, structure: Any, leaves: Sequence[Any], reason: Reason) -> Any:
    """What a call gives that cannot be computed by chunks."""
    function.note_reason(reason)
    notices.record(reason, function.fallback, function._name)
    return operation_by_operation(function, structure, leaves)


@record(eq=False)
class Ended:
    """How calls of a kind ended, which the next ones are not looked at for.

    A call that is taken for another one's like runs operation by operation, which is never wrong.

    Attributes:
        reason: why they cannot be computed by chunks; None where it would save nothing.
        guards: of names that this depends on.
        exactly: chunks and numbers that it depends on, or None.
    """

    reason: Reason | None
    guards: Sequence[Any]
    exactly: tuple[Any, ...] | None = None


def _remember(function: Owner, structure: Any, leaves: Sequence[Any], ended: Ended) -> None:
    """Have calls like one that ended operation by operation end there at once."""
    if function._lazily is None:
        function._lazily = partial(_as_before, {})
    known = function._lazily.args[0]
    if len(known) >= READY_LIMIT:
        known.clear()
    known[refusal_key(*trees.unflatten(structure, list(leaves)))] = ended


def _as_before(
    known: Mapping[Any, Ended], function: Owner, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a call gives that ends as one before it did; MISSED for others."""
    ended = known.get(refusal_key(args, kwargs))
    if ended is None or not all(guard.holds() for guard in ended.guards):
        return MISSED
    structure, leaves = trees.flatten((args, kwargs))
    if ended.exactly is not None and ended.exactly != _exactly(leaves):
        return MISSED
    if ended.reason is None:
        return operation_by_operation(function, structure, leaves)
    return _fallen_back(function, structure, leaves, ended.reason)


def _exactly(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Chunks of arrays, and numbers."""
    return tuple(
        leaf.chunks if isinstance(leaf, da.Array) else by_identity(leaf) for leaf in leaves
    )


def explained(function: Owner, structure: Any, leaves: list[Any]) -> tuple[list[str], list[Reason]]:
    """What a call with Dask arrays is: its steps in words, and why it is not computed by chunks.

    Args:
        function: what would be called; nothing is computed.
        structure: how its arguments nest.
        leaves: the arguments.
    """
    steps: list[str] = []
    try:
        by_chunks(function, structure, leaves, _entry(function, structure, leaves), steps)
    except (CannotRun, Unsupported) as error:
        return [], [error.reason]
    return steps, []


def by_chunks(
    function: Owner, structure: Any, leaves: Sequence[Any], entry: Signature,
    steps: list[str] | None = None,
) -> Any:  # fmt: skip
    """Trace a function on stand-ins, and have kernels compute what it gives, chunk by chunk.

    Args:
        function: what is called.
        structure: how its arguments nest.
        leaves: the arguments.
        entry: what is known of calls of this kind.
        steps: takes what is done, in words.

    Raises:
        Unsupported: why that cannot be done.
    """
    name = function._name
    if are_expressions():
        raise Unsupported("lazy-array", name, EXPRESSIONS, "")
    for leaf in leaves:
        _check_array(leaf, name)
    trace = _traced(function, structure, _given(leaves), entry)
    if trace.writes:
        raise Unsupported("lazy-write", name, "it writes into an argument", "")
    graph = trace.graph
    captured = iter(graph.captured)
    arrays: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for parameter, place in zip(graph.parameters, trace.parameter_leaves, strict=True):
        value = next(captured) if place is None else leaves[place]
        if parameter.dtype is None:
            numbers[parameter.name] = value
        else:
            arrays[parameter.name] = value if isinstance(value, da.Array) else np.asarray(value)
    _check_integers(trace, arrays, name)
    plain = {key: each for key, each in arrays.items() if isinstance(each, np.ndarray)}
    numbers |= {
        key: int(plain[key]) for key in graph.integer_arrays if key in plain
    }  # fmt: skip
    sizes = executor.sizes_of(graph, {k: each.shape for k, each in arrays.items()}, numbers)
    if sizes is None:
        raise Unsupported("lazy-array", name, "lengths other than those that it was traced for", "")
    numbers |= sizes
    blocks = _blocks(graph, arrays, numbers, name if name.isidentifier() else "fused")
    if sum(each.saved for _, each in blocks) < 0:
        if steps is not None:
            steps.append("Dask's own operations alone: kernels between them would save nothing")
        for known in entry.found:
            if known.trace is trace:
                ended = Ended(None, known.names, _exactly(leaves))
                _remember(function, structure, leaves, ended)
        return operation_by_operation(function, structure, leaves)
    results: list[Any] = [None] * len(graph.outputs)
    for places, each in blocks:
        for place, result in zip(places, each.results(arrays), strict=True):
            results[place] = result
        if steps is not None:
            steps += each.steps
    return trees.unflatten(trace.structure, [
        _result(leaf, results, arrays, numbers, graph) for leaf in trace.leaves
    ])  # fmt: skip


def _blocks(
    graph: Graph, arrays: Mapping[str, Any], numbers: Mapping[str, Any], name: str
) -> list[tuple[Sequence[int], Blocks]]:
    """How outputs of a graph are computed by chunks: decided once for calls of the same kind."""
    chunks = tuple(
        each.chunks if isinstance(each, da.Array) else each.shape for each in arrays.values()
    )
    known = tuple((key, by_value(value)) for key, value in numbers.items())
    settings = repr(dask.config.get("array"))  # Dask's own operations choose chunks by these
    found = _kept(graph.text, chunks, known, settings, name)
    if not found:
        found += _decided(changed(graph, captured=()), arrays, numbers, name)
    return found


def _decided(
    graph: Graph, arrays: Mapping[str, Any], numbers: Mapping[str, Any], name: str
) -> list[tuple[Sequence[int], Blocks]]:
    """All outputs together; apart, by what they are computed of, where arrays of other chunks meet.

    So what is computed of one such array alone keeps its chunks.
    """
    whole = Blocks(graph, arrays, numbers, name)
    of: dict[int, frozenset[int]] = {}
    for node in graph.nodes:
        own = {id(node)} if node.op.is_input else ()
        of[id(node)] = frozenset(own).union(*(of[id(arg)] for arg in node.args))
    groups: dict[frozenset[int], list[int]] = {}
    for place, node in enumerate(graph.outputs):
        groups.setdefault(of[id(node)], []).append(place)
    if not whole.rechunks or len(groups) == 1:
        return [(range(len(graph.outputs)), whole)]
    return [
        (places, Blocks(
            changed(graph, outputs=tuple(graph.outputs[place] for place in places)),
            arrays, numbers, name,
        )) for places in groups.values()
    ]  # fmt: skip


@caches.memo(128)
def _kept(*_: Any) -> list[tuple[Sequence[int], Blocks]]:
    """Where that is kept: graph, chunks, numbers, settings and name are all that it depends on."""
    return []


def _check_array(leaf: Any, name: str) -> None:
    """Refuse Dask arrays of which too little is known."""
    if not isinstance(leaf, da.Array):
        return
    if any(map(np.isnan, leaf.shape)):
        raise Unsupported("lazy-array", name, "an array of unknown length (NaN)", "")
    if type(leaf._meta) is not np.ndarray:
        kind = type(leaf._meta).__name__
        raise Unsupported("lazy-array", name, f"chunks of type {kind}", "")


def _given(leaves: Sequence[Any]) -> list[Any]:
    """Arguments with arrays of the same dtypes and shapes, all of one element, for Dask's."""
    found = {
        id(leaf): as_strided(np.zeros(1, leaf.dtype), leaf.shape, (0,) * leaf.ndim)
        for leaf in leaves if isinstance(leaf, da.Array)
    }  # fmt: skip
    return [found.get(id(leaf), leaf) for leaf in leaves]


def _entry(function: Owner, structure: Any, leaves: Sequence[Any]) -> Signature:
    """What is known of calls with Dask arrays of these dtypes and ranks."""
    given = [np.empty((0,) * leaf.ndim, leaf.dtype) if isinstance(leaf, da.Array) else leaf
             for leaf in leaves]  # fmt: skip
    key = "lazily", signature(structure, given)
    found: Signature = function._signatures.setdefault(key, Signature())
    return found


def _traced(function: Owner, structure: Any, leaves: list[Any], entry: Signature) -> Trace:
    """The trace of a function, for arguments whose values nobody may ask for: it may be known."""
    entry.check(leaves)
    entry.suspected = None
    if (call := entry.match(leaves, ())) is not None:
        known: Trace = call.specialisation.trace
        return known
    plain, name = function.__wrapped__, function._name
    objects = [leaf for leaf in leaves if not isinstance(leaf, (np.ndarray, np.generic))]
    names: list[Any] = []
    try:
        with budget.limited(name), internal_errors(name, (ShapeError, OverflowError)), alone():
            names, met = captures.look_around(plain, objects, frozenset())
            around = Surroundings(names, met, frozenset())
            with valueless(), noted(function.errstate):
                trace, _ = trace_purely(plain, structure, leaves, name, around)
    except Unsupported as error:
        if error.reason.code not in ("scalar-range", "runtime-check"):  # these are of values
            entry.suspected = error.reason, names
        raise
    held = [*names, *around.further, *around.held, *around.read]
    made = specialise(trace, None, held, {})
    made.given_back = given_back(trace, leaves)
    if trace.by_identity is not None:
        made.identities = made.identities_in(leaves)
    if len(entry.found) < VALUE_LIMIT and made.match(leaves) is not None:
        entry.found = [*entry.found, made]
    return trace


def _check_integers(trace: Trace, arrays: Mapping[str, Any], name: str) -> None:
    """Refuse integers of Dask's as indices and lengths: nobody knows them yet."""
    later = {key for key, each in arrays.items() if isinstance(each, da.Array)}
    asked = {key for node in trace.graph.nodes for key in getattr(node.payload, "symbols", ())}
    asked |= {key for text, _ in trace.value_guards for key in scalar_symbols(text)}
    asked |= {key for pair in trace.graph.guards for dim in pair for key in dims.symbols(dim)}
    if later & asked:
        raise Unsupported("lazy-array", name, "an integer of Dask's as an index or a length", "")


def _result(
    leaf: Any, results: Sequence[Any], arrays: Mapping[str, Any], numbers: Mapping[str, Any],
    graph: Graph,
) -> Any:  # fmt: skip
    """One result of the function."""
    sizes = {key: value for key, value in numbers.items() if isinstance(value, int)}
    if isinstance(leaf, OutNode):
        result = results[leaf.index]
        return result if leaf.generic or result.ndim else result.map_blocks(np.asarray)
    if isinstance(leaf, OutView):
        return apply_views(results[leaf.index], leaf.views, sizes, da)
    if isinstance(leaf, OutAlias):
        array = arrays[graph.parameters[leaf.parameter].name]
        return apply_views(array, leaf.views, sizes, da if isinstance(array, da.Array) else np)
    if isinstance(leaf, OutScalar):
        return evaluate_scalar(leaf.text, numbers)
    return leaf.value.copy() if type(leaf.value) is np.ndarray and leaf.fresh else leaf.value


def operation_by_operation(function: Owner, structure: Any, leaves: Sequence[Any]) -> Any:
    """Run the plain function on Dask arrays, with kernels for what is elementwise.

    Args:
        function: what is called.
        structure: how its arguments nest.
        leaves: the arguments.

    Raises:
        FusionError: it has written into an argument.
    """
    given = [leaf for leaf in leaves if isinstance(leaf, da.Array)]
    parts = ["_expr"] if are_expressions() else ["dask", "_name", "_chunks", "_meta"]
    before = [(each.name, [getattr(each, part) for part in parts]) for each in given]
    args, kwargs = trees.unflatten(structure, list(leaves))
    try:
        result = function.__wrapped__(*args, **kwargs)
    finally:
        written = [pair for pair in zip(given, before, strict=True) if pair[0].name != pair[1][0]]
        for each, (_, values) in written:
            for part, value in zip(parts, values, strict=True):
                setattr(each, part, value)
    if written:
        raise FusionError(Reason("lazy-write", function._name, "an argument is written into"))
    if are_expressions():
        return result
    nested, found = trees.flatten(result)
    return trees.unflatten(nested, optimized(found, given))


def optimized(results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Results with kernels for what is elementwise between the given arrays and them.

    Args:
        results: Dask arrays, and anything else, which stays as it is.
        given: Dask arrays that stay whole: others may use them, too.
    """
    arrays = [each for each in results if isinstance(each, da.Array)]
    names = {each.name for each in given}
    if not arrays:
        return list(results)
    whole = HighLevelGraph.merge(*(each.dask for each in arrays)) if arrays[1:] else arrays[0].dask
    keys = (key for each in (*arrays, *given) for key in flatten(each.__dask_keys__()))
    graph = with_kernels(whole, (key for key in keys if key[0] in whole.layers or key[0] in names))
    if graph is whole:
        return list(results)
    return [  # none holds what is computed of it: Dask would fuse it away
        da.Array(graph.cull_layers([each.name]), each.name, each.chunks, meta=each._meta)
        if isinstance(each, da.Array) and each.name not in names
        else each
        for each in results
    ]
