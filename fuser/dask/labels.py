"""Which axes of a graph's values are divided alike: one label for all that go by the same chunks.

A value that is computed element by element from others has their labels. A slice from the front, or
up to some elements from the end (`x[1:]`, `x[:-2]`), keeps its label: position p of the result is
computed of positions p to p + d of the operand, wherever in the array p lies. So a kernel that runs
on a chunk with d further elements (a halo) gives a chunk of the result. A slice that meets no value
of another length along its axis needs no halo: it is Dask's own, which are views of chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.dims import Dim
from fuser.ir.graph import Graph, Node

#: Of an axis of length 1, which is in every chunk.
Label = int | None
Labels = tuple[Label, ...]
FULL = slice(None)


class AxisLabels:
    """The labels of all values of a graph.

    Attributes:
        crossing: values that are not computed chunk by chunk, whatever the chunks are.
        whole: values that need whole axes of their operand: these axes have to be one chunk.
    """

    def __init__(self, graph: Graph, blocks: Mapping[str, tuple[int, ...]]) -> None:
        """Label all axes.

        Args:
            graph: what is computed.
            blocks: how many chunks each array argument has along each axis.

        Raises:
            Unsupported: an operation of which nothing is known here, or an array that meets its own
                transposed.
        """
        self._graph = graph
        self._blocks = blocks
        self._alone: set[int] = set()
        self._label()
        self._alone = self._slices()
        while self._alone:
            self._label()
            if not (met := self._met()):
                break
            self._alone -= met
        else:
            self._label()
        for node in graph.nodes:
            known = [label for label in self.of(node) if label is not None]
            if len(set(known)) != len(known):
                raise refusal(graph, node, "an array meets itself with its axes in another order")

    def _label(self) -> None:
        """Label the axes of all values, slices that are alone anew."""
        forced: set[int] = set()
        while True:
            self._parents: list[int] = []
            self._several: set[int] = set()
            self._of: dict[int, Labels] = {}
            self.crossing: dict[int, Node] = {}
            self.whole: dict[int, Node] = {}
            for node in self._graph.nodes:
                self._of[id(node)] = self._labels(node, forced)
            wrong = {key for key, node in self.whole.items() if not self._fits(node)}
            if not wrong:
                return
            forced |= wrong

    def _cut(self, node: Node) -> list[Label]:
        """The labels of the axes at whose ends a slice leaves something out."""
        cut = (part not in (None, FULL) for part in node.payload.parts)
        return list(itertools.compress(self.of(node), cut))

    def _slices(self) -> set[int]:
        """Slices at the ends of divided axes."""
        others = self.crossing.keys() | self.whole
        return {
            id(node) for node in self._graph.nodes if node.op.indexes and id(node) not in others
            and any(map(self.is_divided, self._cut(node)))
        }  # fmt: skip

    def _met(self) -> set[int]:
        """Slices taken for alone that meet values of other lengths, or slices of other ends."""
        alone = [node for node in self._graph.nodes if id(node) in self._alone]
        lengths: dict[Label, set[Dim]] = {}
        ends: dict[Label, set[str]] = {}
        for node in self._graph.nodes:
            for label, length in zip(self.of(node), node.shape, strict=True):
                lengths.setdefault(label, set()).add(length)
        for node in alone:
            for label in self._cut(node):
                ends.setdefault(label, set()).add(node.text)
        return {
            id(node) for node in alone
            if any(len(lengths[label]) > 1 or len(ends[label]) > 1 for label in self._cut(node)
                   if label is not None)
        }  # fmt: skip

    def of(self, node: Node) -> Labels:
        """The labels of a value's axes."""
        return tuple(None if each is None else self._find(each) for each in self._of[id(node)])

    def is_divided(self, label: Label) -> bool:
        """Whether an axis may be in several chunks."""
        return label is not None and self._find(label) in {self._find(s) for s in self._several}

    def divided_axes(self, node: Node) -> list[int]:
        """The axes that a reduction reduces and that may be in several chunks."""
        labels = self.of(node.args[0])
        return [axis for axis in node.payload.axes if self.is_divided(labels[axis])]

    def _fits(self, node: Node) -> bool:
        """Whether what needs whole axes finds them."""
        operand, own = self._changed_axes(node)
        return not any(map(self.is_divided, (*operand, *own)))

    def _changed_axes(self, node: Node) -> tuple[list[Label], list[Label]]:
        """Labels of the axes that an index changes, of its operand and of its own."""
        before, after = [], []
        given, own = iter(self.of(node.args[0])), iter(self.of(node))
        for part in node.payload.parts:
            if part is None:
                next(own)
                continue
            label = next(given)
            kept = next(own) if isinstance(part, slice) else None
            if not (isinstance(part, slice) and keeps_label(part)):
                before.append(label)
                after.append(kept)
        return before, after

    def _new(self, several: bool = False) -> int:
        self._parents.append(len(self._parents))
        if several:
            self._several.add(len(self._parents) - 1)
        return len(self._parents) - 1

    def _find(self, label: int) -> int:
        while self._parents[label] != label:
            label = self._parents[label]
        return label

    def _join(self, one: Label, other: Label) -> Label:
        if one is None or other is None:
            return other if one is None else one
        self._parents[self._find(other)] = self._find(one)
        return one

    def _fresh(self, node: Node) -> Labels:
        """Labels of a value that is divided anew; how, nobody knows yet."""
        return tuple(None if dim == 1 else self._new(several=True) for dim in node.shape)

    def _labels(self, node: Node, forced: set[int]) -> Labels:
        """The labels of one value, from those of its operands."""
        row = node.op
        given = [self._of[id(arg)] for arg in node.args]
        if row.is_input:
            blocks = self._blocks[node.payload.name]
            return tuple(
                None if dim == 1 else self._new(count > 1)
                for dim, count in zip(node.shape, blocks, strict=True)
            )
        if row.uniform:
            return ()
        if row.is_opaque or row.pairs or row.interleaves or row.moves_apart:
            raise refusal(self._graph, node, "it does not go by chunks")
        if row.is_update:
            self.crossing[id(node)] = node
            return self._updated(node, given)
        if row.repeats and node.args[0].op.uniform:
            return tuple(None if dim == 1 else self._new() for dim in node.shape)
        if row.is_iota or row.reshapes or row.concatenates or row.repeats:
            self.crossing[id(node)] = node
            return self._fresh(node)
        if row.permutes:
            return tuple(given[0][axis] for axis in node.payload.order)
        if row.indexes:
            return self._indexed(node, given[0], forced)
        if row.reduction:
            gone = set(node.payload.axes)
            return tuple(label for axis, label in enumerate(given[0]) if axis not in gone)
        if row.structure:
            raise refusal(self._graph, node, "it does not go by chunks")
        rank = len(node.shape)
        found: list[Label] = [None] * rank
        for labels in given:
            for axis, label in enumerate(labels, rank - len(labels)):
                found[axis] = self._join(found[axis], label)
        return tuple(found)

    def _updated(self, node: Node, given: list[Labels]) -> Labels:
        """The labels of an array of which a part is written: what is written goes by them, too.

        Position p of what is written lies at position p + start, for whoever computes it to see to.
        """
        found = list(given[0])
        for axis, (label, (start, stop, step)) in enumerate(
            zip(given[1], node.payload.box, strict=True)
        ):
            left_out = isinstance(start, int) and isinstance(node.shape[axis] - stop, int)
            if left_out and step == 1 and label is not None and found[axis] is not None:
                self._join(found[axis], label)
        return tuple(found)

    def _indexed(self, node: Node, labels: Labels, forced: set[int]) -> Labels:
        """The labels of a view: slices at the ends keep them."""
        found: list[Label] = []
        rest = iter(labels)
        crosses = id(node) in forced
        for part in node.payload.parts:
            if part is None:
                found.append(None)
                continue
            label = next(rest)
            kept = isinstance(part, slice) and keeps_label(part)
            if id(node) in self._alone and part != FULL:
                label = self._new(several=True)
                self.crossing[id(node)] = node
            if not kept:
                self.whole[id(node)] = node
                if isinstance(part, slice):
                    found.append(self._new())
            else:
                found.append(label)
        if crosses:
            self.whole.pop(id(node), None)
            self.crossing[id(node)] = node
            return self._fresh(node)
        return (*found, *rest)


def keeps_label(part: slice) -> bool:
    """Whether a slice leaves out some elements at the front and some at the end, and no others."""
    start, stop, step = part.start, part.stop, part.step
    front = start is None or (isinstance(start, int) and start >= 0)
    back = stop is None or (isinstance(stop, int) and stop < 0)
    return front and back and step in (None, 1)


def refusal(graph: Graph, node: Node, found: str) -> Unsupported:
    """Why Dask runs a function operation by operation.

    Args:
        graph: of the function.
        node: an operation in it.
        found: what was found of it.
    """
    own = node.op.name
    known = f"np.{own}" if hasattr(np, own) else own.replace("_", " ")
    name = getattr(node.payload, "short_name", None) or known
    return Unsupported("lazy-array", str(name), found, graph.line_of(node))
