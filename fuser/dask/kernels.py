"""What runs on the chunks of one task: a graph that is known, or what a trace of the task gives.

A chunk function is pickled as what it is made of, and made again in the process that runs it.
Equal ones share their kernels there. Threads of Dask's run a chunk each, so kernels that they run
have one thread; in the main thread (Dask's synchronous scheduler) kernels have all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fuser import executor
from fuser.base import caches, config, notices, trees
from fuser.base.errors import DtypeError, Reason, ShapeError, Unsupported
from fuser.base.records import changed
from fuser.base.unexpected import internal_errors
from fuser.calls import native_call
from fuser.calls.fused_function import FusedFunction
from fuser.calls.specialisation import Call, Specialisation, specialise
from fuser.calls.trace_cache import Signature
from fuser.capture.effects import alone
from fuser.ir import graph_text
from fuser.ir.graph import Graph
from fuser.programs import partition
from fuser.tracing.trace_result import OutNode, OutStatic, Trace

#: Specialisations of one kind of chunks (dtypes and ranks): lengths that decide structure.
LIMIT = 16


class Kernel(FusedFunction[..., Any]):
    """A function of chunks that is traced in its own way, and depends on these alone."""

    def __init__(
        self, name: str, plain: Callable[..., Any], trace: Callable[[Any, list[Any]], Trace]
    ) -> None:
        """Know no kind of chunks yet.

        Args:
            name: for reasons.
            plain: the same operation by operation.
            trace: gives the trace for arguments: how they nest, and what they are.
        """
        super().__init__(plain, fallback="allow", kernel_name=name)
        self._trace = trace

    def _long_way(self, args: Any, kwargs: Any, fell: list[Reason]) -> Any:
        """As of any; chunks of other lengths than were promised are no error here."""
        try:
            return super()._long_way(args, kwargs, fell)
        except (ShapeError, DtypeError, OverflowError) as error:
            notices.record(Reason("shape-pattern", self._name, str(error)), "allow")
        return self.__wrapped__(*args)

    def _specialised(
        self, entry: Signature, structure: Any, leaves: list[Any], paused: Any = None
    ) -> Call:
        """Trace, and prepare what was traced."""
        try:
            made, call = self._made(entry, structure, leaves)
        except Unsupported as error:
            entry.refuse(error.reason, [])
            raise
        entry.found = [*entry.found, made]
        return call

    def _made(
        self, entry: Signature, structure: Any, leaves: list[Any]
    ) -> tuple[Specialisation, Call]:
        """A specialisation, and the call by it."""
        name = self._name
        if len(entry.found) >= LIMIT:
            raise Unsupported("value-guards", name, f"{len(entry.found)} kinds of lengths", "")
        try:
            with alone():
                trace = self._trace(structure, leaves)
        except Unsupported:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the operations one by one raise it again
            found = f"{type(error).__name__}: {error}"
            raise Unsupported("not-traceable", name, found, "") from None
        if trace.decisions:
            found = "the values in a chunk decide what is computed"
            raise Unsupported("control-flow", name, found, "")
        if trace.writes:
            raise Unsupported("write-into-view", name, "a chunk is written into", "")
        with internal_errors(name):
            spec = partition.prepare(trace.graph)
            made = specialise(trace, spec, [], {})
            if (call := made.match(leaves)) is None:
                found = "a value that it reads changed while it was traced"
                raise Unsupported("impure", name, found, "")
            made.spec = partition.planned(spec, executor.planned_for(call.arrays.values()))
        return made, call


native_call.enable_vectorcall(Kernel)


class ByThread:
    """A fused function in two copies: kernels that threads of Dask's run have one thread each."""

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        """Make both.

        Args:
            make: gives a fused function.
        """
        self._shared, self._alone = make(), make()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the copy that is for this thread."""
        if threading.current_thread() is threading.main_thread():
            return self._shared(*args, **kwargs)
        with config.single_threaded():
            return self._alone(*args, **kwargs)


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
        return _graph_kernels(self.text)(*chunks)

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
def _graph_kernels(text: str) -> ByThread:
    """The kernels of a graph."""
    graph = graph_text.parse(text)
    count = len(graph.outputs)
    structure = trees.Leaf(0) if count == 1 else tuple(map(trees.Leaf, range(count)))
    leaves = tuple(OutNode(place, not node.shape) for place, node in enumerate(graph.outputs))
    places = tuple(range(len(graph.parameters)))
    trace = Trace(graph, structure, leaves, (), (), places)
    return ByThread(lambda: Kernel("chunk", partial(_interpreted, graph), lambda *_: trace))


def _interpreted(graph: Graph, *chunks: Any) -> Any:
    """Run a graph on chunks operation by operation."""
    from fuser import fallback
    from fuser.backend import array_module_of

    arrays, numbers = executor.check_arguments(graph, list(chunks))
    numbers |= executor.sizes_of(graph, {k: v.shape for k, v in arrays.items()}, numbers) or {}
    found = fallback.interpret(graph, arrays, numbers, array_module_of(arrays))
    return found[0] if len(found) == 1 else found


def traced_by(function: Callable[..., Any]) -> Callable[[Any, list[Any]], Trace]:
    """What traces a function of chunks that depends on these alone."""
    from fuser.capture.purity import is_object
    from fuser.capture.tracer import trace_call

    def trace(structure: Any, leaves: list[Any]) -> Trace:
        found = trace_call(function, structure, leaves, named=False)
        if objects := [leaf.value for leaf in found.leaves if is_object(leaf, leaves)]:
            kind = type(objects[0]).__name__
            raise Unsupported("array-conversion", "a chunk", f"it returns a {kind}, made anew", "")
        parts = tuple(
            changed(leaf, fresh=True) if type(leaf) is OutStatic else leaf for leaf in found.leaves
        )
        return changed(found, leaves=parts)

    return trace
