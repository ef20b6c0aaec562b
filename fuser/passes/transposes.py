"""An operation on turned arrays is the turned result of that operation on the arrays themselves.

`((x.T - x.mean(1)) / x.std(1)).T` is a common way to spare `keepdims`. Its means belong to loops
over rows and columns, its differences to loops over columns and rows. The pass moves transposes
towards the outputs, through elementwise operations and reductions; what turns back cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.ir import infer
from fuser.ir.attributes import Axes
from fuser.ir.graph import Graph, Node, intern, make
from fuser.ir.views import Index, Transpose

Order = tuple[int, ...]


def unturned(graph: Graph) -> Graph:
    """Move transposes behind what reads them; the same graph where nothing is reduced or turned.

    Args:
        graph: rewritten; equal lengths are spelled alike or are in `graph.equal`.
    """
    names = [node.op.name for node in graph.nodes]
    if "transpose" not in names or not any(node.op.reduction for node in graph.nodes):
        return graph
    pass_ = _Turning(graph)
    outputs = pass_.run()
    if not pass_.moved:
        return graph
    return graph.with_outputs(outputs, pass_.lines)


class _Turning:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lines = dict(graph.lines)
        self.new: dict[int, Node] = {}
        self.turned: dict[int, tuple[Node, Order]] = {}
        """By `id` of a new node, what it is a transpose of."""
        self.reduced: dict[int, tuple[Order, Order]] = {}
        """By `id` of a reduction of what was turned: how, and the axes reduced there."""
        self.kept: set[int] = set()
        """By `id`, transposes of such reductions with their axes put back (`keepdims`)."""
        self.moved = False

    def run(self) -> list[Node]:
        """The new outputs."""
        for node in self.graph.nodes:
            args = tuple(self.new[id(arg)] for arg in node.args)
            found = self._turned_back(node, args)
            if found is None:
                same = all(a is b for a, b in zip(args, node.args, strict=True))
                found = (
                    node if same else intern(node.op, args, node.shape, node.dtype, node.payload)
                )
            if found is not node and (line := self.graph.line_of(node)) is not None:
                for made in (found, *found.args[: found.op.permutes]):
                    self.lines.setdefault(id(made), line)
            self.new[id(node)] = found
        return [self.new[id(node)] for node in self.graph.outputs]

    def _turned_back(self, node: Node, args: tuple[Node, ...]) -> Node | None:
        """The node with transposes behind it; None where it stays as it is."""
        if node.op.permutes:
            return self._turn(args[0], node.payload.order)
        if node.op.indexes and id(args[0]) in self.reduced:
            return self._put_back(node, args[0])
        if not (node.op.is_elementwise or node.op.reduction):
            return None
        found = self._reduced(node, args[0]) if node.op.reduction else self._each(node, args)
        self.moved |= found is not None
        return found

    def _turn(self, node: Node, order: Order) -> Node:
        """A transpose of what may be one."""
        base, inner = self.turned.get(id(node), (node, tuple(range(len(order)))))
        merged = tuple(inner[axis] for axis in order)
        if merged == tuple(range(len(merged))):
            return base
        made = make("transpose", base, payload=Transpose(merged))
        self.turned[id(made)] = base, merged
        return made

    def _put_back(self, node: Node, arg: Node) -> Node | None:
        """Axes put back where they were reduced, in the order of the array itself, turned."""
        order, axes = self.reduced[id(arg)]
        parts = [*node.payload.parts]
        parts += [slice(None)] * (len(node.shape) - len(parts))
        back = [None if axis in axes else slice(None) for axis in range(len(order))]
        if parts != back:
            return None
        own = [back[order.index(axis)] for axis in range(len(order))]
        made = self._turn(make("index", arg, payload=Index.of_parts(own)), order)
        self.kept.add(id(made))
        return made

    def _each(self, node: Node, args: Sequence[Node]) -> Node | None:
        """An elementwise operation whose operands of its own shape are all turned alike."""
        orders = {
            self.turned[id(arg)][1] if id(arg) in self.turned else None
            for arg in args
            if arg.shape == node.shape
        }
        if len(orders) != 1 or (order := orders.pop()) is None:
            return None
        kept_axes = any(id(arg) in self.kept and arg.shape == node.shape for arg in args)
        if 1 in node.shape and not kept_axes:
            return None  # axes of one element have loops of their own
        operands = [self._met(arg, node, order) for arg in args]
        if any(operand is None for operand in operands):
            return None
        kept = [operand for operand in operands if operand is not None]
        shape = [node.shape[order.index(axis)] for axis in range(len(order))]
        made = intern(node.op, tuple(kept), tuple(shape), node.dtype, node.payload)
        turned = self._turn(made, order)
        if kept_axes:
            self.kept.add(id(turned))
        return turned

    def _met(self, arg: Node, node: Node, order: Order) -> Node | None:
        """An operand as the operation behind the transpose meets it."""
        if not arg.shape:
            return arg
        if id(arg) in self.turned and arg.shape == node.shape:
            return self.turned[id(arg)][0]
        if id(arg) in self.kept and self.turned[id(arg)][1] == order:
            return self.turned[id(arg)][0]
        lead = len(order) - len(arg.shape)
        places = [order[lead + axis] for axis in range(len(arg.shape))]
        if places != sorted(places):
            return None
        parts = [slice(None) if axis in places else None for axis in range(len(order))]
        index = Index.of_parts(parts)
        return make("index", arg, payload=index) if index.parts else arg

    def _reduced(self, node: Node, arg: Node) -> Node | None:
        """A reduction of a turned array along the same axes of the array itself."""
        if id(arg) not in self.turned or 1 in arg.shape:
            return None
        base, order = self.turned[id(arg)]
        axes = node.payload.axes
        if len(axes) > 1 and node.op.places:
            return None  # a place is counted in the order of the axes
        own = sorted(order[axis] for axis in axes)
        kept = [order[axis] for axis in range(len(order)) if axis not in axes]
        if kept != sorted(kept):
            return None
        shape = infer.reduced_shape(node.op.name, base.shape, own)
        made = intern(node.op, (base,), shape, node.dtype, Axes(tuple(own)))
        if made.shape != node.shape:
            return None
        self.reduced[id(made)] = order, axes
        return made
