"""One pass over chunks: the graph of its kernel, and the arrays that the kernel is given.

A kernel computes its values from arrays that are there. Their lengths are symbols of its own, one
for all axes of one label and length, so numbers of elements that the function asks for are
constants here: they are those of the whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import getitem
from types import MappingProxyType
from typing import Any, Protocol

import dask.array as da
import numpy as np

from fuser.base.errors import GraphError, ShapeError
from fuser.base.records import record
from fuser.dask.labels import AxisLabels, Label, refusal
from fuser.ir import dims
from fuser.ir.attributes import Cast
from fuser.ir.attributes import Region as Part
from fuser.ir.dims import Dim
from fuser.ir.graph import Graph, Node, Parameter, make, make_constant, make_input, make_scalar
from fuser.ir.views import Broadcast, Index


class Divided(Protocol):
    """What a pass asks of the graph that it is part of."""

    graph: Graph
    labels: AxisLabels
    numbers: Mapping[str, Any]
    there: dict[int, Any]

    def is_there(self, node: Node) -> bool:
        """Whether a value is an array already."""
        ...

    def needs(self, node: Node, local: Sequence[Node] = ()) -> Iterator[Node]:
        """What a value is computed of, down to what crosses chunks."""
        ...

    def lengths(self, node: Node) -> tuple[int, ...]:
        """The shape of a value."""
        ...

    def chunks(self, label: Label, length: int) -> tuple[int, ...]:
        """Lengths of the chunks of an axis."""
        ...

    def number(self, node: Node) -> Any:
        """The value of a constant, or of a scalar that this call knows."""
        ...


@record
class Slot:
    """An array that is one of several results: the chunks of another array are tuples of these.

    Attributes:
        tuples: that array.
        place: which result of each tuple.
        name: what Dask calls it, if it is an array of Dask's at last.
        chunks: lengths of its chunks.
        dtype: of its elements.
    """

    tuples: da.Array
    place: int
    name: str
    chunks: tuple[tuple[int, ...], ...]
    dtype: Any

    def array(self) -> da.Array:
        """It as an array of Dask's own, with tasks that take results from tuples."""
        ind = tuple(range(len(self.chunks)))
        return da.blockwise(
            getitem, ind, self.tuples, ind, self.place, None, dtype=self.dtype,
            meta=np.empty((0,) * len(ind), self.dtype), name=self.name, align_arrays=False,
            adjust_chunks=dict(zip(ind, self.chunks, strict=True)),
        )  # fmt: skip


@record
class Operand:
    """An array that a kernel is given, in chunks that suit it.

    Attributes:
        node: of which value it is.
        ind: the names of its axes.
        chunks: lengths of its chunks.
        depth: elements of the chunks beside each that it has, too, by axis.
        place: which of the tuples that it is given as, if it is.
    """

    node: Node
    ind: tuple[str, ...]
    chunks: tuple[tuple[int, ...], ...]
    depth: Mapping[int, tuple[int, int]]
    place: int | None

    def array(self, there: Mapping[int, Any]) -> da.Array:
        """It, of the arrays that are there.

        Args:
            there: by `id` of the value's node.
        """
        array = there[id(self.node)]
        if isinstance(array, Slot):
            array = array.array() if self.place is None else array.tuples
        if self.place is not None:
            return array
        if not isinstance(array, da.Array):
            array = da.from_array(np.array(array), chunks=self.chunks)
        elif array.chunks != self.chunks:
            array = array.rechunk(self.chunks)
        if self.depth:
            every = {axis: self.depth.get(axis, (0, 0)) for axis in range(len(self.chunks))}
            array = da.overlap.overlap(array, every, "none", allow_rechunk=False)
        return array


class Region:
    """What one pass computes on each chunk."""

    def __init__(
        self, blocks: Divided, over: Node, axes: tuple[int, ...], local: Sequence[Node],
        around: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Say what is gone through.

        Args:
            blocks: the graph that this is part of.
            over: the value whose chunks are gone through.
            axes: of it that are reduced; they are of length 1 in results.
            local: values that are those of a chunk: reductions, and writes into parts.
            around: elements before and behind each chunk that the kernel is given, too, by label.
        """
        self._blocks = blocks
        self._around = around
        self._axes = axes
        self._local = local
        self._labels = blocks.labels.of(over)
        self._lengths = dict(zip(self._labels, blocks.lengths(over), strict=True))
        self._symbols: dict[tuple[Label, int], Dim] = {}
        self._made: dict[int, Node] = {}
        self._guards: list[tuple[Dim, Dim]] = []
        self.bases: list[Node] = []
        self.places: list[int | None] = []
        """Of each operand: its place in the tuples that it is given as, if it is."""
        self.seen: set[int] = set()

    def index(self, axis: int) -> str:
        """What an axis of the results is called."""
        return f"i{axis}"

    def operand(self, node: Node) -> Operand:
        """An array that the kernel is given, in chunks that suit it."""
        labels, lengths = self._blocks.labels.of(node), self._blocks.lengths(node)
        array = self._blocks.there[id(node)]
        chunks: list[tuple[int, ...]] = []
        ind: list[str] = []
        depth: dict[int, tuple[int, int]] = {}
        for axis, (label, length) in enumerate(zip(labels, lengths, strict=True)):
            if label is None or label not in self._lengths:
                ind.append(f"one{len(self.bases)}{id(node)}{axis}")  # of one chunk
                chunks.append((length,))
                continue
            self.seen.add(label)
            ind.append(self.index(self._labels.index(label)))
            own = self._lengths[label]
            found = list(self._blocks.chunks(label, own))
            found[-1] += length - own
            chunks.append(tuple(found))
            if len(found) > 1 and (length > own or label in self._around):
                depth[axis] = self._around.get(label, (0, length - own))
        wanted = tuple(chunks)
        one_of_several = isinstance(array, Slot) and array.chunks == wanted and not depth
        place = array.place if one_of_several else None
        self.places.append(place)
        return Operand(node, tuple(ind), wanted, depth, place)

    def graph(self, nodes: Sequence[Node]) -> Graph:
        """The graph of these values, with the arrays that are there as parameters.

        Raises:
            Unsupported: it is none.
        """
        needs = self._blocks.needs
        needed = [each for node in nodes for each in (node, *needs(node, self._local))]
        axes = {
            (label, length) for each in needed if self._blocks.is_there(each)
            for label, length in zip(
                self._blocks.labels.of(each), self._blocks.lengths(each), strict=True
            ) if label is not None
        }  # fmt: skip
        for label, length in sorted(axes, key=lambda axis: (axis[0], -axis[1])):
            self._dim(label, length)
        try:
            outputs = [self._output(node) for node in nodes]
        except (ShapeError, GraphError) as error:  # lengths that are equal, and are not seen to be
            raise refusal(self._blocks.graph, nodes[0], str(error)) from None
        parameters = tuple(
            Parameter(f"x{place}", node.dtype, self._made[id(node)].shape)
            for place, node in enumerate(self.bases)
        )
        return Graph(parameters, tuple(outputs), tuple(self._guards))

    def _output(self, node: Node) -> Node:
        """A value; reduced axes have length 1."""
        made = self._value(node)
        if self._axes:
            if made.dtype.name == "float16" and node.op.accumulates:
                wide = make("cast", self._value(node.args[0]), payload=Cast(np.dtype("float32")))
                made = make(node.op.name, wide, payload=node.payload)
            rank = len(made.shape) + len(self._axes)
            parts = [None if axis in self._axes else slice(None) for axis in range(rank)]
            made = make("index", made, payload=Index.of_parts(parts))
        return made

    def _value(self, wanted: Node) -> Node:
        """A value in terms of the kernel's own parameters."""
        stack = [wanted]
        while stack:
            node = stack[-1]
            if id(node) in self._made:
                stack.pop()
                continue
            if id(node) in self._blocks.there:
                self._made[id(node)] = self._parameter(node)
                continue
            missing = [arg for arg in node.args if id(arg) not in self._made]
            if missing:
                stack += reversed(missing)
                continue
            self._made[id(node)] = self._copied(node)
        return self._made[id(wanted)]

    def _parameter(self, node: Node) -> Node:
        """An array that the kernel is given."""
        self.bases.append(node)
        shape = tuple(
            1 if label is None else self._dim(label, length)
            for label, length in zip(
                self._blocks.labels.of(node), self._blocks.lengths(node), strict=True
            )
        )
        return make_input(f"x{len(self.bases) - 1}", node.dtype, shape)

    def _dim(self, label: int, length: int) -> Dim:
        """The length of a chunk along an axis: one symbol for axes of one label and length."""
        key = label, length
        if key not in self._symbols:
            longer = next((k for k in self._symbols if k[0] == label and k[1] > length), None)
            if longer is not None:
                part = slice(None, length - longer[1])
                self._symbols[key] = dims.slice_length(self._symbols[longer], part)
            else:
                self._symbols[key] = dims.symbol(f"n{len(self._symbols)}")
        return self._symbols[key]

    def _copied(self, node: Node) -> Node:
        """A value with the kernel's own operands."""
        if node.op.is_constant:
            return node
        if node.op.is_scalar:
            return make_constant(self._blocks.number(node), node.dtype)
        args = [self._made[id(arg)] for arg in node.args]
        payload = node.payload
        if node.op.converts:
            payload = Cast(payload.dtype)
        if node.op.is_update:
            payload = self._part(node, args[0])
        if node.op.repeats:
            payload = Broadcast(self._repeated(node))
        if self._is_mean(node):
            over = self._made[id(_reduction_below(node).args[0])]
            count = dims.product(tuple(over.shape[axis] for axis in self._axes))
            args[1] = make_scalar(str(count), node.dtype)
        return make(node.op.name, *args, payload=payload)

    def _part(self, node: Node, base: Node) -> Part:
        """Which part of a chunk is written: it leaves out as many at its ends as in the whole."""
        numbers, box = self._blocks.numbers, []
        for (start, stop, step), length, own in zip(
            node.payload.box, self._blocks.lengths(node), base.shape, strict=True
        ):
            first = dims.evaluate(start, numbers)
            behind = length - dims.evaluate(stop, numbers)
            box.append((first, own - behind, step))
            if not isinstance(own, int):
                self._guards.append((own, dims.maximum(own, first + behind)))
        return Part(tuple(box))

    def _repeated(self, node: Node) -> tuple[Dim, ...]:
        """The shape of a number that is repeated: that of a chunk."""
        labels, lengths = self._blocks.labels.of(node), self._blocks.lengths(node)
        known = {label for label, _ in self._symbols}
        return tuple(
            self._dim(label, length) if label is not None and label in known else length
            for label, length in zip(labels, lengths, strict=True)
        )

    def _is_mean(self, node: Node) -> bool:
        """Whether a value is the mean that elements of a chunk are taken around."""
        return node.op.is_quotient and any(_reduction_below(node) is each for each in self._local)


def _reduction_below(node: Node) -> Any:
    """The reduction whose result a quotient is of, if it is one of such."""
    return _kept(node.args[0])


def _kept(node: Node) -> Node:
    """The value behind axes that are only put in."""
    while node.op.indexes and node.payload.only_inserts:
        node = node.args[0]
    return node


def _around(node: Node, axes: tuple[int, ...], over: Node, operand: Node) -> bool:
    """Whether an operand is a reduction of `over` along axes, with these of length 1."""
    if not (node.op.reduction and node.payload.axes == axes and node.args[0] is over):
        return False
    if not operand.shape:
        return len(axes) == len(over.shape)
    alike = (dim == (1 if axis in axes else over.shape[axis])
             for axis, dim in enumerate(operand.shape))  # fmt: skip
    return len(operand.shape) == len(over.shape) and all(alike)


#: Sums of these functions of `x - e` that are made up for where e is another one: see `combining`.
RECENTRED = {"exp": "exponentials", "square": "squares"}


def recentred(node: Node) -> tuple[str, Node] | None:
    """What a sum is recentred by: `sum(exp(x - max(x)))`, `sum(square(x - sum(x) / n))`.

    Args:
        node: a reduction.

    Returns:
        What `combining` calls it, and the maximum or the sum of x. Who asks looks at n.
    """
    kind = RECENTRED.get(node.args[0].op.name)
    if kind is None or not node.op.adds or node.dtype.kind != "f" or node.dtype.itemsize == 2:
        return None
    inner = node.args[0].args[0]
    if not inner.op.subtracts:
        return None
    over, operand = inner.args
    if kind == "squares":
        if not (operand.op.is_quotient and operand.args[1].op.is_scalar):
            return None
        found = _kept(operand.args[0])
        alike = found.op.adds
    else:
        found = _kept(operand)
        alike = found.op.is_extreme and found.op.greatest
    return (kind, found) if alike and _around(found, node.payload.axes, over, operand) else None
