"""A graph of Dask arrays as kernels on chunks: divided at what crosses chunks.

What lies between is one kernel a chunk, which computes what it needs from arrays that are there:
the arguments, and results of what crossed chunks before. A reduction along a divided axis is a
kernel that reduces each chunk, a tree that joins these (`combining.py`), and is then there for
later kernels. Reductions of one shape that do not need one another are one pass. Slices at the ends
of an axis that meet other parts of it, and writes into all but some elements at its ends, are
computed of chunks that overlap. Reshapes, concatenations and other indexing are Dask's own.

Deciding all of this is most of a call. It depends on the graph, on chunks and on numbers alone, so
what it leads to is kept as a list of steps, and a later call of the same kind only takes these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from fuser.base.host_expressions import evaluate_scalar
from fuser.base.records import changed
from fuser.dask.combining import Combine, Partial
from fuser.dask.kernels import ChunkGraph
from fuser.dask.labels import AxisLabels, Label, refusal
from fuser.dask.optimization import read_once
from fuser.dask.regions import Region, Slot, recentred
from fuser.ir import dims, infer
from fuser.ir.dims import Dim
from fuser.ir.graph import (
    Graph,
    Node,
    constant_value,
    make,
)
from fuser.ir.views import Index, Reshape

#: Partial results that are joined at a time.
SPLIT_EVERY = 8
#: What the chunks of a value are: along each axis, their lengths.
Chunks = tuple[tuple[int, ...], ...]


#: The arrays of values that are there, by `id` of the value's node.
There = dict[int, Any]
#: Makes arrays of those that are there.
Maker = Callable[[There], list[Any]]


class Blocks:
    """A graph, and the steps that compute it by chunks: they hold no array."""

    def __init__(
        self, graph: Graph, arrays: Mapping[str, Any], numbers: Mapping[str, Any], name: str
    ) -> None:
        """Label axes, decide how each is divided, and what is done.

        Args:
            graph: what is computed.
            arrays: Dask's and NumPy's arrays by parameter name.
            numbers: scalars and lengths by name.
            name: of the function, for tasks.

        Raises:
            Unsupported: it cannot be computed by chunks.
        """
        self.graph = graph
        self.numbers = numbers
        self._name = name
        self.there: There = {}
        """While it is decided what is done: the arrays that there are at that point."""
        self.steps: list[str] = []
        """What is done, in words, and the graph of each kernel."""
        self._made: list[tuple[Sequence[Node], Maker]] = []
        """What is done: the values of each step, and what makes their arrays."""
        self.saved = 0
        """Arrays that kernels do not store, less Dask's own operations between kernels."""
        blocks = {
            key: array.numblocks if isinstance(array, da.Array) else (1,) * array.ndim
            for key, array in arrays.items()
        }
        self.labels = AxisLabels(graph, blocks)
        self._inputs = [node for node in graph.nodes if node.op.is_input]
        self.there = self._given(arrays)
        self._cuts: dict[int, list[int]] = {}
        self._axes = self._lengths()
        self._divide()
        self.rechunks = any(
            tuple(map(self.chunks, self.labels.of(node), self.lengths(node))) != array.chunks
            for node in self._inputs
            if isinstance(array := self.there[id(node)], da.Array)
        )
        """Whether an argument is given other chunks."""
        self._decide()
        self._outputs()
        self.there = {}

    def _given(self, arrays: Mapping[str, Any]) -> There:
        """The arguments as what is there."""
        return {id(node): arrays[node.payload.name] for node in self._inputs}

    def results(self, arrays: Mapping[str, Any]) -> list[da.Array]:
        """Dask arrays of the graph's outputs.

        Args:
            arrays: arguments, of the chunks that steps were decided for, by parameter name.
        """
        there = self._given(arrays)
        for nodes, arrays_of in self._made:
            there.update(zip(map(id, nodes), arrays_of(there), strict=True))
        return [self._array(node, there) for node in self.graph.outputs]

    def _step(self, nodes: Sequence[Node], arrays_of: Maker) -> None:
        """Have values be there."""
        self._made.append((nodes, arrays_of))
        self.there.update(zip(map(id, nodes), arrays_of(self.there), strict=True))
        self._divide()

    def number(self, node: Node) -> Any:
        """The value of a constant, or of a scalar that this call knows."""
        if node.op.is_constant:
            return constant_value(node)
        value = evaluate_scalar(node.payload.expression, self.numbers)
        return infer.convert_scalar(value, node.dtype)

    # -- how axes are divided ---------------------------------------------------------------

    def _length(self, dim: Dim) -> int:
        return dims.evaluate(dim, self.numbers)

    def lengths(self, node: Node) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(map(self._length, node.shape))

    def _lengths(self) -> dict[int, tuple[int, int]]:
        """The shortest and the longest axis of each label."""
        found: dict[int, tuple[int, int]] = {}
        for node in self.graph.nodes:
            for label, length in zip(self.labels.of(node), self.lengths(node), strict=True):
                if label is None:
                    continue
                if length == 0:
                    raise refusal(self.graph, node, "it has no elements")
                shortest, longest = found.get(label, (length, length))
                found[label] = min(shortest, length), max(longest, length)
        return found

    def _divide(self) -> None:
        """Cut axes where the arrays are cut that are there first, all counted from 0.

        Chunks are at least as long as the longest halo, so that one lies within the next chunk.
        """
        wanted: dict[int, set[int]] = {}
        for node in self.graph.nodes:
            array = self.there.get(id(node))
            if isinstance(array, da.Array):
                for label, lengths in zip(self.labels.of(node), array.chunks, strict=True):
                    if label is not None and label not in self._cuts:
                        wanted.setdefault(label, set()).update(itertools.accumulate(lengths))
        for label, cuts in wanted.items():
            shortest, longest = self._axes[label]
            least, kept = max(longest - shortest, 1), [0]
            for cut in sorted(cuts):
                if cut - kept[-1] >= least and shortest - cut >= least:
                    kept.append(cut)
            self._cuts[label] = kept[1:]

    def chunks(self, label: Label, length: int) -> tuple[int, ...]:
        """Lengths of the chunks of an axis."""
        if label is None:
            return (length,)
        ends = [*(cut for cut in self._cuts.get(label, ()) if cut < length), length]
        return tuple(end - start for start, end in itertools.pairwise([0, *ends]))

    # -- what is computed -------------------------------------------------------------------

    def _decide(self) -> None:
        """Have all that crosses chunks be there."""
        while True:
            waiting = [n for n in self.graph.nodes if self._crosses(n) and not self.is_there(n)]
            if not waiting:
                break
            crossing = [n for n in waiting if id(n) in self.labels.crossing and self._is_ready(n)]
            for node in crossing:
                self._step([node], self._by_dask(node))
            if not crossing:
                self._reduce(waiting)

    def _crosses(self, node: Node) -> bool:
        """Whether a value is computed of more than one chunk of its operand."""
        if id(node) in self.labels.crossing:
            return True
        return node.op.reduction and bool(self.labels.divided_axes(node))

    def is_there(self, node: Node) -> bool:
        """Whether a value is an array already."""
        return id(node) in self.there

    def needs(self, node: Node, local: Sequence[Node] = ()) -> Iterator[Node]:
        """What a value is computed of, down to what crosses chunks; `local` is computed, too."""
        allowed = set(map(id, local))
        stack, seen = list(node.args), set()
        while stack:
            each = stack.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            yield each
            if not self.is_there(each) and (id(each) in allowed or not self._crosses(each)):
                stack += each.args

    def _is_ready(self, node: Node, local: Sequence[Node] = ()) -> bool:
        """Whether all that crosses chunks below a value is there."""
        return all(
            self.is_there(each) or not self._crosses(each) or each in local
            for each in self.needs(node, local)
        )

    def _by_dask(self, node: Node) -> Maker:
        """What Dask itself computes: it crosses chunks."""
        if node.op.is_update and (written := self._updated(node)) is not None:
            return written
        sizes = {k: v for k, v in self.numbers.items() if isinstance(v, int)}
        for arg in node.args:
            if not (arg.op.uniform or self.is_there(arg)):
                self._step([arg], self._kernels([arg], arg))
        self.saved -= 1
        self.steps.append(f"Dask's own operation: {node.op.name}{{{node.text}}}")
        payload = node.payload

        def made(operands: list[da.Array]) -> da.Array:
            if node.op.is_iota:
                return da.arange(self._length(node.shape[0]), dtype=node.dtype)
            if node.op.is_update:
                changed = operands[0].copy()
                changed[payload.slices(sizes)] = operands[1]
                return changed
            if node.op.repeats:
                return da.broadcast_to(operands[0], self.lengths(node))
            if node.op.concatenates:
                return da.concatenate(operands, axis=payload.axis)
            if isinstance(payload, Reshape):
                return operands[0].reshape(self.lengths(node))
            if isinstance(payload, Index):
                return operands[0][payload.parts]
            raise refusal(self.graph, node, "it does not go by chunks")

        return lambda there: [made([self._array(arg, there) for arg in node.args])]

    def _updated(self, node: Node) -> Maker | None:
        """An array of which a part is written, by kernels on chunks that overlap.

        A kernel writes into all of a chunk but as many elements at its ends as the function leaves
        out of the whole array. So it is given that many more on either side, and those of its
        results are cut off. None where something else is met; Dask does it.
        """
        lengths, labels = self.lengths(node), self.labels.of(node)
        around: dict[int, tuple[int, int]] = {}
        for axis, (label, (start, stop, step)) in enumerate(
            zip(labels, node.payload.box, strict=True)
        ):
            chunks = self.chunks(label, lengths[axis])
            if label is None or len(chunks) == 1:
                continue
            first, behind = self._length(start), lengths[axis] - self._length(stop)
            if step != 1 or max(first, behind) > min(chunks):
                return None
            around[label] = first, behind
        bases = [each for each in self.needs(node, [node]) if self.is_there(each)]
        for base in bases:
            for label, length in zip(self.labels.of(base), self.lengths(base), strict=True):
                if label in around and length != lengths[labels.index(label)]:
                    return None
        if all(isinstance(self.there[id(base)], np.ndarray) for base in bases):
            return None
        kernels = self._kernels([node], node, local=[node], around=around)
        cut = {axis: around[label] for axis, label in enumerate(labels) if label in around}
        if not cut:
            return kernels
        return lambda there: [da.overlap.trim_internal(kernels(there)[0], cut, "none")]

    def _array(self, node: Node, there: There) -> da.Array:
        """A value that is there, or a number, as a Dask array."""
        if node.op.uniform:
            return da.from_array(np.asarray(self.number(node)), chunks=-1)
        array = there[id(node)]
        if isinstance(array, Slot):
            array = there[id(node)] = array.array()
        return array if isinstance(array, da.Array) else da.from_array(array.copy(), chunks=-1)

    def _outputs(self) -> None:
        """Have the graph's outputs be there; those of one shape are one pass."""
        together: dict[Any, list[Node]] = {}
        for node in self.graph.outputs:
            if not (node.op.uniform or self.is_there(node)):
                key = self.labels.of(node), self.lengths(node)
                together.setdefault(key, []).append(node)
        for nodes in together.values():
            unique = list({id(node): node for node in nodes}.values())
            self._step(unique, self._kernels(unique, unique[0]))

    # -- reductions -------------------------------------------------------------------------

    def _reduce(self, waiting: Sequence[Node]) -> None:
        """Compute the reductions that need nothing which is not there, one pass for each shape."""
        ready = [node for node in waiting if node.op.reduction and self._is_ready(node)]
        assert ready, "something is always ready: a graph has no circles"
        known = {id(node) for node in ready}
        follow: dict[int, list[Node]] = {}
        for node in waiting:
            if id(node) not in known and node.op.reduction:
                kind, before = recentred(node) or ("", node)
                if id(before) in known and self._is_ready(node, [before]):
                    if kind == "exponentials" or self._mean_is_whole(node, before):
                        follow[id(before)] = [*follow.get(id(before), ()), node]
        passes: dict[Any, list[Node]] = {}
        for node in ready:
            over = node.args[0]
            key = self.labels.of(over), self.lengths(over), node.payload.axes
            passes.setdefault(key, []).extend([node, *follow.get(id(node), ())])
        for nodes in passes.values():
            self._step(nodes, self._reduced(nodes))

    def _mean_is_whole(self, node: Node, before: Node) -> bool:
        """Whether the quotient that squares are around is the mean of all elements."""
        divisor = node.args[0].args[0].args[1].args[1]
        over = before.args[0]
        count = math.prod(self._length(over.shape[axis]) for axis in before.payload.axes)
        told = evaluate_scalar(divisor.payload.expression, self.numbers)
        return bool(told == count)

    def _reduced(self, nodes: Sequence[Node]) -> Maker:
        """Reduce chunks, join them in a tree; the whole results."""
        over, axes = nodes[0].args[0], nodes[0].payload.axes
        outputs: list[Node] = []
        partials: list[Partial] = []
        slots: dict[int, int] = {}
        local: list[Node] = []
        for node in nodes:
            kind, before = recentred(node) or ("", node)
            slots[id(node)] = place = len(outputs)
            outputs.append(node)
            wide = node.dtype.name
            if node.op.places:
                outputs.append(make(node.op.combine.replace("imum", ""), node.args[0],
                                    payload=node.payload))  # fmt: skip
                partials.append(Partial("place", place, wide, place + 1, node.op.greatest))
            elif id(before) in slots and before is not node:
                partials.append(Partial(kind, place, wide, slots[id(before)]))
                if kind == "squares":
                    inner = node.args[0].args[0]
                    partials[-1] = changed(partials[-1], rest=len(outputs))
                    outputs.append(make(node.op.name, inner, payload=node.payload))
                local.append(before)
            else:
                partials.append(Partial(node.op.combine, place, wide))
        kernels = self._kernels(outputs, over, axes, local, tuples=True)
        lengths = [
            self.chunks(label, length)
            for label, length in zip(self.labels.of(over), self.lengths(over), strict=True)
        ]
        return lambda there: self._joined(kernels(there)[0], lengths, axes, partials, nodes)

    def _joined(
        self, chunks: da.Array, lengths: Sequence[tuple[int, ...]], axes: tuple[int, ...],
        partials: list[Partial], nodes: Sequence[Node],
    ) -> list[Any]:  # fmt: skip
        """Join what chunks gave, some at a time."""
        starts = [[0, *itertools.accumulate(each)] for each in lengths]
        kept = [axis for axis in range(len(lengths)) if axis not in axes]
        token = tokenize(chunks.name, [(p.kind, p.slot) for p in partials], axes)
        name = f"{self._name}-reduce-{token}"
        graph: dict[Any, Any] = {}
        final = Combine(partials, axes, True, len(nodes) == 1)
        between = Combine(partials, axes, False, False)
        for place in itertools.product(*(range(len(lengths[axis])) for axis in kept)):
            level: list[tuple[Any, tuple[int, int]]] = []
            for inner in itertools.product(*(range(len(lengths[axis])) for axis in axes)):
                at = dict(zip((*kept, *axes), (*place, *inner), strict=True))
                where = tuple(at[axis] for axis in range(len(lengths)))
                count = math.prod(lengths[axis][at[axis]] for axis in axes)
                start = starts[axes[0]][at[axes[0]]] if len(axes) == 1 else 0
                level.append(((chunks.name, *where), (start, count)))
            depth = 0
            while True:
                first = depth == 0
                last = len(level) <= SPLIT_EVERY
                after = []
                for number, group in enumerate(_grouped(level)):
                    key = (name, *place) if last else (f"{name}-{depth}", *place, number)
                    known = {"chunks": [of for _, of in group]} if first else {}
                    refs = [TaskRef(each) for each, _ in group]
                    graph[key] = Task(key, final if last else between, *refs, **known)
                    after.append((key, (0, 0)))
                level, depth = after, depth + 1
                if last:
                    break
        out = tuple(lengths[axis] for axis in kept)
        whole = HighLevelGraph.from_collections(name, graph, dependencies=[chunks])
        dtype = nodes[0].dtype if len(nodes) == 1 else np.dtype(object)
        joined = da.Array(whole, name, out, meta=_meta(len(out), dtype))
        return [joined] if len(nodes) == 1 else self._taken_apart(joined, nodes, out)

    def _taken_apart(
        self, tuples: da.Array, nodes: Sequence[Node], chunks: Chunks
    ) -> list[Slot]:
        """The arrays of an array whose chunks are tuples."""
        return [
            Slot(tuples, place, f"{self._name}-{place}-{tokenize(tuples.name, place)}", chunks,
                 node.dtype)
            for place, node in enumerate(nodes)
        ]  # fmt: skip

    # -- kernels ----------------------------------------------------------------------------

    def _repeat(self, nodes: Sequence[Node], local: Sequence[Node]) -> None:
        """Have Dask repeat numbers along axes that no array beside them tells the chunks of."""
        needed = {id(each): each for node in nodes for each in (node, *self.needs(node, local))}
        bases = [each for each in needed.values() if self.is_there(each)]
        told = {label for base in bases for label in self.labels.of(base)}
        for each in needed.values():
            if each.op.repeats and not self.is_there(each) and not told.issuperset(
                label for label, length in zip(
                    self.labels.of(each), self.lengths(each), strict=True
                ) if len(self.chunks(label, length)) > 1
            ):  # fmt: skip
                self._step([each], self._by_dask(each))

    def _kernels(
        self, nodes: Sequence[Node], over: Node, axes: tuple[int, ...] = (),
        local: Sequence[Node] = (), tuples: bool = False,
        around: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    ) -> Maker:  # fmt: skip
        """Compute values chunk by chunk, in one pass: Dask arrays, or slots of one of tuples.

        Args:
            nodes: the values: all of one shape.
            over: whose chunks are gone through.
            axes: of `over` that `nodes` reduce; they are of length 1 in results.
            local: reductions that are those of a chunk.
            tuples: give what the kernel gives, whether that is a tuple or not.
            around: elements before and behind each chunk that kernels compute, too, by label.
        """
        self._repeat(nodes, local)
        if len(nodes) == 1 and self.is_there(nodes[0]):
            return lambda there: [there[id(nodes[0])]]
        region = Region(self, over, axes, local, around)
        graph = region.graph(nodes)
        labels, lengths = self.labels.of(over), self.lengths(over)
        operands = [region.operand(node) for node in region.bases]
        chunks: list[tuple[int, ...]] = []
        new_axes: dict[Any, int] = {}
        for axis, (label, length) in enumerate(zip(labels, lengths, strict=True)):
            found = self.chunks(label, length)
            if label is not None and label in around:
                found = _with_neighbours(found, around[label])
            chunks.append((1,) * len(found) if axis in axes else found)
            if label is None or label not in region.seen:
                new_axes[region.index(axis)] = chunks[-1][0]
        ind = tuple(map(region.index, range(len(labels))))
        one = len(nodes) == 1
        dtype = nodes[0].dtype if one else np.dtype(object)
        function = ChunkGraph(graph.text, self._name, region.places)
        count = math.prod(map(len, chunks))
        tree = ", whose results a tree joins" if axes else ""
        self.steps.append(f"kernels on {count} chunks{tree}:\n{graph.text}")
        self.saved += sum(not node.op.structure for node in graph.nodes) - len(graph.outputs)
        known = {
            region.index(axis): each for axis, each in enumerate(chunks)
            if region.index(axis) not in new_axes
        }  # fmt: skip
        token = tokenize(function, ind, [each.ind for each in operands], new_axes, known)
        meta = _meta(len(ind), dtype)

        def arrays_of(there: There) -> list[Any]:
            given = [read_once(each.array(there), count) for each in operands]
            pairs = [part for array, each in zip(given, operands, strict=True)
                     for part in (array, each.ind)]  # fmt: skip
            made = da.blockwise(
                function, ind, *pairs, new_axes=new_axes, adjust_chunks=known, align_arrays=False,
                dtype=dtype, meta=meta,
                name=f"{self._name}-{tokenize(token, [array.name for array in given])}",
            )  # fmt: skip
            return [made] if one or tuples else self._taken_apart(made, nodes, tuple(chunks))

        return arrays_of


def _meta(rank: int, dtype: Any) -> Any:
    """What a Dask array says of its chunks."""
    return np.empty((0,) * rank, dtype)


def _with_neighbours(chunks: tuple[int, ...], around: tuple[int, int]) -> tuple[int, ...]:
    """Lengths of chunks with elements of those beside them."""
    last = len(chunks) - 1
    return tuple(length + around[0] * (place > 0) + around[1] * (place < last)
                 for place, length in enumerate(chunks))  # fmt: skip


def _grouped(level: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Some neighbours at a time."""
    for start in range(0, len(level), SPLIT_EVERY):
        yield level[start : start + SPLIT_EVERY]
