"""An operation on joined arrays is the join of that operation on their parts.

`x - np.roll(x, 1)` reads a concatenation of two parts of x. Computed part by part, nothing has to
be stored first: each part is a loop nest of its own, in one kernel. The pass moves joins towards
the outputs, through elementwise operations and reductions; one over the axis of a join reduces the
parts and combines their results (`concatenated_reductions`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.base import budget
from fuser.ir.attributes import Axis
from fuser.ir.dims import Dim
from fuser.ir.graph import Graph, Node, intern, make, put_on_line
from fuser.ir.ops import Op, op
from fuser.ir.views import Broadcast, Index, IndexPart
from fuser.passes import concatenated_reductions, length_facts, slices

#: A value is divided into at most this many parts: each is a loop nest. Rolls along three axes in
#: both directions give 27.
PARTS_LIMIT = 32
#: What dividing an operation for one part costs, in steps of the budget: places are compared.
PART_STEPS = 16


def distribute(graph: Graph) -> Graph:
    """Move joins behind the operations that read them; the same graph where none is read.

    Args:
        graph: rewritten. Lengths that its guards bound are compared (`fuser.passes.length_facts`).
    """
    if not any(node.op.joins for node in graph.nodes):
        return graph
    pass_ = _Distribution(graph)
    outputs = pass_.run()
    if all(new is old for new, old in zip(outputs, graph.outputs, strict=True)):
        return graph
    return graph.with_outputs(outputs, pass_.lines)


class _Distribution:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.bounds = length_facts.lower_bounds(graph.guards)
        ones = [length for pair in graph.guards if 1 in pair for length in pair]
        self.ones = {str(one) for one in ones}
        self.ones |= {str(length_facts.simplify(one, self.bounds)) for one in ones}
        self.lines = dict(graph.lines)
        self.stored = _stored_anyway(graph)

    def run(self) -> list[Node]:
        """The new outputs."""
        new: dict[int, Node] = {}
        for node in self.graph.nodes:
            args = tuple(new[id(arg)] for arg in node.args)
            joins = [
                arg.op.joins and id(old) not in self.stored
                for arg, old in zip(args, node.args, strict=True)
            ]
            found = self._through(node, args, joins) if any(joins) else None
            if found is None:
                same = all(a is b for a, b in zip(args, node.args, strict=True))
                found = (
                    node if same else intern(node.op, args, node.shape, node.dtype, node.payload)
                )
            line = self.graph.line_of(node)
            if line:
                put_on_line((found,), line, self.lines)
            new[id(node)] = found
        return [new[id(node)] for node in self.graph.outputs]

    def _through(self, node: Node, args: tuple[Node, ...], joins: Sequence[bool]) -> Node | None:
        """The join of the parts of `node`; None where it stays as it is."""
        if node.op.joins or node.op.moves_apart:
            return None
        for arg, joined in zip(args, joins, strict=True):
            if joined and not _has_few_parts(arg):
                return None
        if node.op.reduction:
            return concatenated_reductions.reduced(node, args[0], self._is_one)
        if node.op.structure:
            found = self._seen(node, args[0])
        else:
            found = self._zipped(node, args, joins)
        return found if found is not None and _has_few_parts(found) else None

    def _seen(self, node: Node, joined: Node) -> Node | None:
        """A view of a join as the join of views."""
        axis = joined.payload.axis
        if node.op.reshapes:
            return concatenated_reductions.interleaved(node, joined)
        if node.op.permutes:
            turned = [make("transpose", part, payload=node.payload) for part in joined.args]
            return self._join(turned, node, node.payload.order.index(axis), joined.op)
        if node.op.repeats:
            return self._widened(node, joined, axis + len(node.shape) - len(joined.shape))
        if not joined.op.concatenates:
            return None
        if node.op.slices:
            along, span = node.payload.axis, node.payload.span
            return slices.part_of_join(joined, along, span, self.bounds, node.shape[along])
        if not node.op.indexes:
            return None
        entries: list[IndexPart] = list(node.payload.parts)
        place = _entry_of(entries, axis)
        if place is None:  # the index ends before it: the whole axis
            place = len(entries)
            entries += [slice(None)] * (axis - sum(entry is not None for entry in entries) + 1)
            place = len(entries) - 1
        window = entries[place]
        if isinstance(window, int):
            return self._element(joined, axis, entries, place)
        assert isinstance(window, slice)
        if window.step not in (None, 1):
            return None
        cut = self._window(joined, axis, window)
        if cut is None:
            return None
        entries[place] = slice(None)
        payload = Index(tuple(entries))
        plain = all(entry == slice(None) for entry in entries)
        after = place - sum(type(entry) is int for entry in entries[:place])
        if not cut.op.concatenates or cut.payload.axis != axis:
            return cut if plain else self._index(cut, payload)
        if plain:
            return self._join(cut.args, node, axis)
        return self._join([self._index(part, payload) for part in cut.args], node, after)

    def _element(
        self, joined: Node, axis: int, entries: list[IndexPart], place: int
    ) -> Node | None:
        """A join at one place of its axis: that place of one part."""
        at = entries[place]
        assert isinstance(at, int)
        cut = self._window(joined, axis, slice(at, at + 1 or None))
        if cut is None or (cut.op.concatenates and cut.payload.axis == axis):
            return None
        return self._index(cut, Index((*entries[:place], 0, *entries[place + 1 :])))

    def _index(self, value: Node, payload: Index) -> Node:
        """An index of a value that may be a join again."""
        plain = make("index", value, payload=payload)
        found = self._seen(plain, value) if value.op.concatenates else None
        return plain if found is None else found

    def _window(self, joined: Node, axis: int, window: slice) -> Node | None:
        """Some of the elements along the axis of a join; None where it is not known which."""
        whole = length_facts.simplify(joined.shape[axis], self.bounds)
        ends = []
        for bound, default in ((window.start, 0), (window.stop, whole)):
            ends.append(default if bound is None else bound if bound >= 0 else whole + bound)
        start, stop = ends
        inside = self._before(0, start) and self._before(start, stop) and self._before(stop, whole)
        if not inside:
            return None
        if start == 0 and stop == whole:
            return joined
        return slices.part_of_join(joined, axis, (start, stop, 1), self.bounds, stop - start)

    def _widened(self, node: Node, joined: Node, axis: int) -> Node | None:
        """A join that is repeated along other axes than its own."""
        if node.shape[axis] != joined.shape[joined.payload.axis]:
            return None
        pieces = []
        for part in joined.args:
            length = part.shape[joined.payload.axis]
            shape = (*node.shape[:axis], length, *node.shape[axis + 1 :])
            pieces.append(intern(node.op, (part,), shape, node.dtype, Broadcast(shape)))
        return self._join(pieces, node, axis, joined.op)

    def _join(
        self, pieces: Sequence[Node], whole: Node, axis: int, row: Op | None = None
    ) -> Node:
        """Pieces joined to the value that `whole` stands for, one after another if not told."""
        row = row or op("concatenate")
        return intern(row, tuple(pieces), whole.shape, whole.dtype, Axis(axis))

    def _zipped(self, node: Node, args: Sequence[Node], joins: Sequence[bool]) -> Node | None:
        """An elementwise operation along the parts of its first joined operand.

        Of concatenations and interleavings, along the parts of the first concatenation.
        """
        leads = [a for a, joined in zip(args, joins, strict=True) if joined]
        if not leads:
            return None
        lead = next((a for a in leads if a.op.concatenates), leads[0])
        rank = len(node.shape)
        axis = lead.payload.axis + rank - len(lead.shape)
        if self._is_one(lead.shape[lead.payload.axis]) and not self._is_one(node.shape[axis]):
            return None  # its one element is repeated: no part of the result is its part's
        if lead.op.interleaves:
            return self._turn_by_turn(node, args, lead, axis)
        edges = slices.edges(lead, self.bounds)
        pieces = []
        budget.spend("steps", PART_STEPS * len(lead.args))
        for place, part in enumerate(lead.args):
            start, stop = edges[place], edges[place + 1]
            length = length_facts.simplify(part.shape[lead.payload.axis], self.bounds)
            operands = []
            for arg in args:
                own = axis - (rank - len(arg.shape))
                if arg is lead:
                    operands.append(part)
                elif own < 0 or self._is_one(arg.shape[own]):
                    operands.append(arg)
                else:
                    operands.append(slices.cut(arg, own, (start, stop, 1), self.bounds, length))
            shape = (*node.shape[:axis], length, *node.shape[axis + 1 :])
            piece = self._lifted(node, part, operands, shape, axis)
            if piece is None:
                piece = intern(node.op, tuple(operands), shape, node.dtype, node.payload)
            pieces.append(self._deeper(piece))
        return self._join(pieces, node, axis)

    def _lifted(
        self, node: Node, part: Node, operands: Sequence[Node], shape: Sequence[Dim], axis: int
    ) -> Node | None:
        """An operation on one layer of a stack, with the layer's axis put there behind it.

        What is computed of layers then has the loops of what they are combined to.
        """
        rank = len(shape)
        own = axis - (rank - len(part.shape))
        if not concatenated_reductions.is_layer(part, own) or any(arg.op.joins for arg in operands):
            return None
        flat = []
        for arg in operands:
            own = axis - (rank - len(arg.shape))
            flat.append(arg if own < 0 else concatenated_reductions.layer(arg, own))
        kept = (*shape[:axis], *shape[axis + 1 :])
        value = intern(node.op, tuple(flat), kept, node.dtype, node.payload)
        return make("index", value, payload=Index((*[slice(None)] * axis, None)))

    def _turn_by_turn(
        self, node: Node, args: Sequence[Node], lead: Node, axis: int
    ) -> Node | None:
        """An elementwise operation on arrays that are interleaved alike, or repeated there."""
        own = [axis - len(node.shape) + len(arg.shape) for arg in args]
        alike = [
            arg.op is lead.op and arg.payload.axis == k and len(arg.args) == len(lead.args)
            for arg, k in zip(args, own, strict=True)
        ]
        for arg, k, same in zip(args, own, alike, strict=True):
            if not (same or k < 0 or self._is_one(arg.shape[k])):
                return None
        pieces = []
        for turn in range(len(lead.args)):
            length = lead.args[turn].shape[lead.payload.axis]  # of an odd length, one is longer
            shape = (*node.shape[:axis], length, *node.shape[axis + 1 :])
            operands = tuple(
                arg.args[turn] if same else arg for arg, same in zip(args, alike, strict=True)
            )
            pieces.append(
                self._deeper(intern(node.op, operands, shape, node.dtype, node.payload))
            )
        return self._join(pieces, node, axis, lead.op)

    def _deeper(self, piece: Node) -> Node:
        """A part of an operation, along the parts of its operands where these are joins too."""
        inner = [operand.op.joins for operand in piece.args]
        found = self._zipped(piece, piece.args, inner) if any(inner) else None
        return piece if found is None else found

    def _is_one(self, length: Dim) -> bool:
        """Whether a length is 1, as guards say: what has it is repeated."""
        simplified = length_facts.simplify(length, self.bounds)
        return length == 1 or str(length) in self.ones or str(simplified) in self.ones

    def _before(self, left: Dim, right: Dim) -> bool:
        """Whether one place is never behind another."""
        return length_facts.at_most(left, right, self.bounds)


def _has_few_parts(node: Node) -> bool:
    """Whether a value takes no more loop nests than it may; joins of joins are many soon."""
    found, stack = 0, [node]
    while stack and found + len(stack) <= PARTS_LIMIT:
        current = stack.pop()
        if current.op.joins:
            stack += current.args
        else:
            found += 1
    return not stack


def _stored_anyway(graph: Graph) -> set[int]:
    """By `id`, values that a view wants as one array."""
    reshapes = [node for node in graph.nodes if node.op.reshapes]
    interleaved = concatenated_reductions.interleaved
    return {id(node.args[0]) for node in reshapes if interleaved(node, node.args[0]) is None}


def _entry_of(entries: Sequence[IndexPart], axis: int) -> int | None:
    """Where an index speaks of an axis; None where it ends before."""
    seen = -1
    for place, entry in enumerate(entries):
        seen += entry is not None
        if seen == axis:
            return place
    return None
