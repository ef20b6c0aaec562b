"""What runs on the chunks of one task: a graph that is known, or what a trace of the task gives.

A chunk function is pickled as what it is made of, and made again in the process that runs it.
Equal ones share their kernels there. Threads of Dask's run a chunk each, so kernels that they run
have one thread; in the main thread (Dask's synchronous scheduler) kernels have all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from fuser import executor
from fuser.backend import backend_of
from fuser.base import budget, caches, config, forks, trees
from fuser.base.call_keys import signature
from fuser.base.errors import BackendError, DtypeError, Reason, ShapeError, Unsupported
from fuser.base.records import changed
from fuser.base.unexpected import internal_errors
from fuser.calls import running
from fuser.calls.specialisation import Call, Specialisation, specialise
from fuser.capture.effects import alone, tracing_here
from fuser.executor import CannotRun
from fuser.ir import graph_text
from fuser.ir.opaque_calls import PatternMiss
from fuser.programs import partition
from fuser.tracing.trace_result import OutNode, OutStatic, Trace

#: Specialisations of one kind of chunks (dtypes and ranks): lengths that decide structure.
LIMIT = 16
#: Kinds of chunks that one kernel remembers.
KINDS_LIMIT = 256
#: What a kernel may raise for chunks that it cannot take; the operations run one by one then.
REFUSALS = (CannotRun, Unsupported, PatternMiss, ShapeError, DtypeError, OverflowError)


class Kernel:
    """Kernels by the kind of the chunks that they are given: dtypes, ranks, patterns."""

    def __init__(self, name: str, trace: Callable[[Any, list[Any]], Trace]) -> None:
        """Know no kind yet.

        Args:
            name: for reasons.
            trace: gives the trace for arguments: how they nest, and what they are.
        """
        self.name = name
        self._trace = trace
        self._found: dict[Any, list[Specialisation]] = {}
        self._refused: dict[Any, Reason] = {}
        self._lock = forks.lock()

    def __call__(self, *args: Any) -> Any:
        """Run the kernels.

        Raises:
            CannotRun, Unsupported, PatternMiss: they cannot take such chunks; nothing has changed.
        """
        structure, leaves = trees.flatten((args, {}))
        try:
            backend_of(leaf for leaf in leaves if hasattr(leaf, "dtype"))
        except BackendError as error:
            raise CannotRun(Reason("unsupported-array", self.name, str(error))) from None
        if budget.is_open() or tracing_here() or forks.imports_here():
            found = "another function is being traced on this thread"
            raise CannotRun(Reason("reentered", self.name, found))
        main = threading.current_thread() is threading.main_thread()
        with nullcontext() if main else config.single_threaded(), budget.limited(self.name):
            return running.run_call(self._call(structure, leaves), leaves, None)

    def _call(self, structure: Any, leaves: list[Any]) -> Call:
        """A specialisation that holds for the chunks, traced and planned where there is none."""
        key = signature(structure, leaves)
        if (call := self._match(key, leaves)) is not None:
            return call
        if forks.held_here(self._lock):
            raise CannotRun(Reason("reentered", self.name, "a call of it is running already"))
        with self._lock:  # another thread may have made it meanwhile
            if (call := self._match(key, leaves)) is not None:
                return call
            if (reason := self._refused.get(key)) is not None:
                raise CannotRun(reason)
            try:
                return self._specialised(key, structure, leaves)
            except (CannotRun, Unsupported) as error:
                if len(self._refused) >= KINDS_LIMIT:
                    self._refused.clear()
                self._refused[key] = error.reason
                raise

    def _match(self, key: Any, leaves: list[Any]) -> Call | None:
        """The call by the first specialisation that holds."""
        calls = (known.match(leaves) for known in self._found.get(key, ()))
        return next((call for call in calls if call is not None), None)

    def _specialised(self, key: Any, structure: Any, leaves: list[Any]) -> Call:
        """Trace, and prepare what was traced."""
        known = self._found.get(key, [])
        if len(known) >= LIMIT:
            raise Unsupported("value-guards", self.name, f"{len(known)} kinds of lengths", "")
        try:
            with alone():
                trace = self._trace(structure, leaves)
        except Unsupported:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the operations one by one raise it again
            found = f"{type(error).__name__}: {error}"
            raise Unsupported("not-traceable", self.name, found, "") from None
        if trace.decisions:
            raise Unsupported(
                "control-flow", self.name, "the values in a chunk decide what is computed", ""
            )
        if trace.writes:
            raise Unsupported("write-into-view", self.name, "a chunk is written into", "")
        with internal_errors(self.name):
            spec = partition.prepare(trace.graph)
            made = specialise(trace, spec, [], {})
            if (call := made.match(leaves)) is None:
                raise Unsupported(
                    "impure", self.name, "a value that it reads changed while it was traced", ""
                )
            made.spec = partition.planned(spec, executor.planned_for(call.arrays.values()))
        if len(self._found) >= KINDS_LIMIT:
            self._found.clear()
        self._found[key] = [*known, made]
        return call


class ChunkGraph:
    """A graph as a function of chunks; it gives one array, or a tuple of several."""

    def __init__(self, text: str, name: str, places: Sequence[int | None] = ()) -> None:
        """Keep the text; kernels are made by the first call in a process.

        Args:
            text: of the graph.
            name: what Dask shows for its tasks.
            places: of each chunk that is given in a tuple: its place there, else None.
        """
        self.text = text
        self.__name__ = name
        self.places = tuple(places) if set(places) - {None} else ()

    def __call__(self, *chunks: Any) -> Any:
        """Run it on chunks; where no kernel can, operation by operation."""
        chunks = tuple(map(_only, chunks))
        if self.places:
            pairs = zip(chunks, self.places, strict=True)
            chunks = tuple(each if place is None else each[place] for each, place in pairs)
        kernel = _graph_kernel(self.text)
        try:
            return kernel(*chunks)
        except REFUSALS as error:
            return _interpreted(self.text, chunks, error)

    def __reduce__(self) -> tuple[Any, ...]:
        """By its text."""
        return type(self), (self.text, self.__name__, self.places)

    def __dask_tokenize__(self) -> Any:
        """The text, and which chunks are in tuples."""
        return type(self).__name__, self.text, self.places

    def __repr__(self) -> str:
        """The name."""
        return self.__name__


def _only(chunk: Any) -> Any:
    """A chunk out of lists of one: along axes that results have not, Dask gives lists of chunks."""
    while type(chunk) is list:
        (chunk,) = chunk
    return chunk


@caches.memo(512)
def _graph_kernel(text: str) -> Kernel:
    """The kernels of a graph."""
    graph = graph_text.parse(text)
    count = len(graph.outputs)
    structure = trees.Leaf(0) if count == 1 else tuple(map(trees.Leaf, range(count)))
    leaves = tuple(OutNode(place, False) for place in range(count))
    places = tuple(range(len(graph.parameters)))
    trace = Trace(graph, structure, leaves, (), (), places)
    return Kernel("chunk", lambda *_: trace)


def _interpreted(text: str, chunks: Sequence[Any], error: Exception) -> Any:
    """Run a graph on chunks operation by operation; the reason is counted."""
    from fuser import fallback
    from fuser.backend import array_module_of

    note(error)
    graph = graph_text.parse(text)
    arrays, numbers = executor.check_arguments(graph, list(chunks))
    numbers |= executor.sizes_of(graph, {k: v.shape for k, v in arrays.items()}, numbers) or {}
    found = fallback.interpret(graph, arrays, numbers, array_module_of(arrays))
    return found[0] if len(found) == 1 else found


def note(error: Exception) -> None:
    """Count why chunks are not fused."""
    from fuser.base import notices

    found = error.reason if isinstance(error, (CannotRun, Unsupported)) else None
    notices.record(found or Reason("shape-pattern", "chunk", str(error)), "allow")


def traced_by(function: Callable[..., Any]) -> Callable[[Any, list[Any]], Trace]:
    """What traces a function of chunks that depends on these alone."""
    from fuser.capture.tracer import trace_call

    def trace(structure: Any, leaves: list[Any]) -> Trace:
        found = trace_call(function, structure, leaves, named=False)
        parts = tuple(
            changed(leaf, fresh=True) if type(leaf) is OutStatic else leaf for leaf in found.leaves
        )
        return changed(found, leaves=parts)

    return trace
