"""Loop nests: the loops that a value is computed in, and what one nest loads, computes, stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base import budget
from fuser.base.errors import Unsupported
from fuser.base.records import record
from fuser.ir.attributes import Places
from fuser.ir.dims import Shape
from fuser.ir.graph import Node, intern
from fuser.ir.ops import component, op
from fuser.ir.specs import PartitionDesc, counted_name
from fuser.ir.views import (
    Address,
    Broadcast,
    Chain,
    Component,
    Measure,
    Reshape,
    compose,
    insert_axes,
    spans,
)

#: Loops: their shape, and the axes of it that are reduced.
Space = tuple[Shape, tuple[int, ...]]
#: Reductions that a value needs, and (from, to) of the reshapes on the way.
Nearest = tuple[tuple[Node, ...], frozenset[tuple[Shape, Shape]]]


@record
class Step:
    """One computed value of a section.

    Attributes:
        node: the graph node that it computes.
        operands: indices of earlier steps, loads, or leaves: see `Section.values`.
    """

    node: Node
    operands: tuple[int, ...]


@record
class Section:
    """One loop nest: every element of `shape` is computed from the loads and stored.

    Values are numbered: loads first, then leaves (scalars and constants), then steps.

    Attributes:
        shape: the iteration shape.
        axes: axes of it that are reduced; values of a result's shape are constant along them.
        loads: parts of buffers, each of this shape.
        leaves: scalar and constant nodes.
        steps: computations in order.
        stores: (value, part of a buffer) pairs.
    """

    shape: Shape
    loads: tuple[PartitionDesc, ...]
    load_nodes: tuple[Node, ...]
    leaves: tuple[Node, ...]
    steps: tuple[Step, ...]
    stores: tuple[tuple[int, PartitionDesc], ...]
    axes: tuple[int, ...] = ()

    @property
    def scatters(self) -> bool:
        """Whether it writes at computed places: then one element after another, in C order."""
        return any(step.node.op.scatters for step in self.steps)

    @property
    def scan(self) -> int | None:
        """The axis along which results run; None where each is computed by itself."""
        found = (step.node.payload.axis for step in self.steps if step.node.op.scans)
        return next(found, None)

    def node_of(self, value: int) -> Node:
        """The graph node behind a value's number."""
        if value < len(self.loads):
            return self.load_nodes[value]
        value -= len(self.loads)
        if value < len(self.leaves):
            return self.leaves[value]
        return self.steps[value - len(self.leaves)].node


def value_of(load_node: Node) -> Node:
    """The value that a nest reads: what lies at an address that it computes with is read there."""
    return load_node.args[0] if load_node.op.locates else load_node


class RealiseError(Exception):
    """A value has to be stored before it can be used here: a signal to the scheduler."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


def is_leaf(node: Node) -> bool:
    """Scalars and constants are the same for every element."""
    return node.op.uniform


def space_of(
    node: Node, stored: Mapping[int, Any], known: Mapping[int, Nearest] | None = None
) -> tuple[Space, Chain]:
    """The loops that compute a value, and the views that widen the value to their shape.

    A value that depends on reductions is computed in the loops of one of them, if it has the
    shape of their operand (perhaps with axes of it merged), or of their result with or without
    the reduced axes.

    Args:
        node: the value.
        stored: by `id`, values that are read and not computed.
        known: what `all_nearest` gave for these.

    Raises:
        RealiseError: it fits the loops of none of its reductions.
    """
    if node.op.scatters:
        return (node.args[-2].shape, ()), ()
    nearest, reshaped = known[id(node)] if known else nearest_reductions(node, stored)
    spaces = [(r.args[0].shape, r.payload.axes) for r in nearest]
    for space in spaces:
        if node.shape == space[0]:
            return space, ()
    for space in spaces:
        if (widen := fit_node(node, space)) is not None:
            return space, widen
    for space in spaces:
        if (space[0], node.shape) in reshaped and splits_one_axis(node.shape, space[0]):
            return space, (Reshape(space[0]),)
    if nearest:
        raise RealiseError(nearest[0], "reduction-elsewhere")
    return (node.shape, ()), ()


def fit(shape: Shape, space: Space) -> Chain | None:
    """The views that widen a value of `shape` to the shape of loops; None where it does not fit.

    It fits where it has an element for each of the loops' elements, or one for each result.
    """
    whole, axes = space
    if shape == whole:
        return ()
    if not axes:
        return None
    if shape == tuple(1 if axis in axes else dim for axis, dim in enumerate(whole)):
        return (Broadcast(whole),)
    if shape == tuple(dim for axis, dim in enumerate(whole) if axis not in axes):
        return _put_back(whole, axes)
    return None


def fit_node(node: Node, space: Space) -> Chain | None:
    """As `fit`; what the loops themselves reduce fits them, however its lengths are spelled."""
    found = fit(node.shape, space)
    if found is not None or not node.op.reduction:
        return found
    whole, axes = space
    if node.args[0].shape != whole or node.payload.axes != axes:
        return None
    return _put_back(whole, axes)


def _put_back(whole: Shape, axes: tuple[int, ...]) -> Chain:
    """The views that repeat a result without the reduced axes along them.

    They are spelled as a use of the result spells them (`mean[:, None]`), so that both are seen to
    meet the same element.
    """
    return compose((insert_axes(len(whole), axes),), (Broadcast(whole),))


def splits_one_axis(shape: Shape, target: Shape) -> bool:
    """Whether a reshape to `target` only splits one axis: it is a view of every memory.

    Args:
        shape: a value's shape.
        target: a shape of the same number of elements.
    """
    same = zip(shape, target, strict=False)
    lead = next((k for k, (a, b) in enumerate(same) if a != b), min(len(shape), len(target)))
    rest = len(shape) - lead - 1  # axes after the one that is split
    tail = shape[lead + 1 :] == target[len(target) - rest :] if rest > 0 else rest == 0
    return tail and len(target) - rest - lead >= 2


def all_nearest(nodes: Iterable[Node], stored: Mapping[int, Any]) -> dict[int, Nearest]:
    """`nearest_reductions` of all nodes of a graph at once, by `id`.

    Args:
        nodes: each after its operands.
        stored: by `id`, values that are read and not computed.
    """
    none: Nearest = (), frozenset()
    found: dict[int, Nearest] = {}
    for node in nodes:
        if node.op.reduction:
            found[id(node)] = (node,), none[1]
            continue
        if node.op.scatters:
            found[id(node)] = none
            continue
        below = [found[id(arg)] for arg in node.args if id(arg) not in stored]
        below = [one for one in below if one != none]
        reductions, reshaped = below[0] if below else none
        for more, others in below[1:]:
            if more is not reductions:
                reductions = tuple({id(r): r for r in (*reductions, *more)}.values())
            reshaped |= others
        if node.op.reshapes:
            reshaped |= {(node.args[0].shape, node.shape)}
        found[id(node)] = reductions, reshaped
    return found


def nearest_reductions(
    node: Node, stored: Mapping[int, Any]
) -> tuple[list[Node], set[tuple[Shape, Shape]]]:
    """Reductions that a value needs, without looking behind them or behind stored values.

    Returns:
        The reductions, and (from, to) of the reshapes on the way.
    """
    found: list[Node] = []
    reshaped: set[tuple[Shape, Shape]] = set()
    seen: set[int] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if id(current) in seen or (id(current) in stored and current is not node):
            continue
        seen.add(id(current))
        if current.op.reduction:
            found.append(current)
            continue
        if current.op.reshapes:
            reshaped.add((current.args[0].shape, current.shape))
        if not current.op.scatters:
            stack.extend(reversed(current.args))
    return found, reshaped


class SectionMaker:
    """Collects what one loop nest needs, walking from its stores towards its loads."""

    def __init__(
        self,
        buffers: Mapping[int, str],
        space: Space,
        *,
        own: Collection[int] = (),
    ) -> None:
        """Prepare a nest.

        Args:
            buffers: names of the buffers that hold stored values, by `id(node)`.
            space: the loops.
            own: by `id`, stored values that the nest computes itself.
        """
        self.buffers, self.own = buffers, own
        self.shape, self.axes = space
        self.reduced: dict[tuple[str, tuple[Any, ...]], Any] = {}
        self.loads: dict[PartitionDesc, int] = {}
        self.load_nodes: list[Node] = []
        self.leaves: dict[int, Node] = {}
        self.leaf_places: dict[int, int] = {}
        self.steps: list[tuple[Node, tuple[Any, ...]]] = []
        self.known: dict[tuple[int, Chain], Any] = {}
        self.seen_own: dict[int, Chain] = {}
        self.scan: int | None = None
        """The axis along which results run."""
        self.apart: set[int] = set()
        """By `id`, values of `own` that are seen in several ways: the section is not right then."""

    def value(self, node: Node, chain: Chain) -> Any:
        """The value of `node` seen through `chain`; never recursive.

        Raises:
            RealiseError: a reduction on the way belongs to other loops.
        """
        stack: list[tuple[Node, Chain, Any]] = [(node, chain, None)]
        while stack:
            current, views, needed = stack.pop()
            budget.spend("steps")
            key = (id(current), views)
            if key in self.known:
                continue
            if needed is None:
                if self._is_apart(current, views):
                    self.known[key] = ("leaf", 0)
                    continue
                needed = self._needs(current, views)
                missing = [
                    (*need, None) for need in needed if (id(need[0]), need[1]) not in self.known
                ]
                if missing:
                    stack.append((current, views, needed))
                    stack += missing[::-1]
                    continue
            self.known[key] = self._make(current, views, needed)
        return self.known[(id(node), chain)]

    def _is_apart(self, node: Node, views: Chain) -> bool:
        """Whether a stored value that the nest computes itself is seen in a second way, too.

        The nest is made again without it, so nothing behind it is looked at in that way: what is
        seen in two ways at each of k steps would be seen in 2 ** k.
        """
        if id(node) not in self.own or node.op.scatters:
            return False
        if not _locates(views) and self.seen_own.setdefault(id(node), views) == views:
            return False
        self.apart.add(id(node))
        return True

    def _stored(self, node: Node, views: Chain) -> str | None:
        """The buffer that holds a node already, or where a scatter writes it."""
        if node.op.is_input:
            return str(node.payload.name)
        if node.op.is_iota:
            return counted_name(node.text)
        own = id(node) in self.own and not (node.op.scatters and _locates(views))
        return None if own else self.buffers.get(id(node))

    def _needs(self, node: Node, views: Chain) -> Sequence[tuple[Node, Chain]]:
        """The operands of a node, each with the views to see it through."""
        if self._stored(node, views) is not None or is_leaf(node):
            return ()
        if node.op.reduction:
            operand = node.args[0]
            ours = operand.shape == self.shape and node.payload.axes == self.axes
            if not ours or not spans(node.shape, views, self.shape, self.axes):
                raise RealiseError(node, "reduction-elsewhere")
            return [(operand, ())]
        if node.op.scans:
            self._claim(node, views)
        if node.op.gathers and any(view.drops for view in views):
            raise RealiseError(node, "gathered-part")
        return operands_through(node, views)

    def _claim(self, node: Node, views: Chain) -> None:
        """Have the nest's loops run along the axis of a scan.

        Raises:
            RealiseError: they reduce, or run along another one, or the scan has another shape.
        """
        axis = node.payload.axis
        own = not views and not self.axes and node.shape == self.shape
        if not own or self.scan not in (None, axis):
            raise RealiseError(node, "scan-elsewhere")
        self.scan = axis

    def _make(self, node: Node, views: Chain, needed: Sequence[tuple[Node, Chain]]) -> Any:
        """Number the value: a load, a leaf or a step; views are their operand's value."""
        if (buffer := self._stored(node, views)) is not None:
            part = PartitionDesc(buffer, views)
            if part not in self.loads:
                self.loads[part] = len(self.loads)
                self.load_nodes.append(_element(node, views))
            return ("load", self.loads[part])
        if is_leaf(node):
            place = self.leaf_places.setdefault(id(node), len(self.leaves))
            self.leaves.setdefault(id(node), node)
            return ("leaf", place)
        operands = tuple(self.known[(id(arg), chain)] for arg, chain in needed)
        if node.op.structure:
            return operands[0]
        if not node.op.reduction:
            self.steps.append((node, operands))
            return ("step", len(self.steps) - 1)
        key = (node.op.name, operands)
        if key not in self.reduced:
            self.reduced[key] = ("step", len(self.steps))
            self.steps.append((node, operands))
        return self.reduced[key]

    def section(self, stores: Iterable[tuple[Any, PartitionDesc]]) -> Section:
        """The finished section with all values numbered."""
        base = {"load": 0, "leaf": len(self.loads), "step": len(self.loads) + len(self.leaves)}
        loads = self._together()
        where = {self.loads[part]: new for new, part in enumerate(loads)}

        def number(value: tuple[str, int]) -> int:
            kind, which = value
            if kind == "load":
                return where[which]
            return base[kind] + which

        return Section(
            self.shape,
            tuple(loads),
            tuple(self.load_nodes[self.loads[part]] for part in loads),
            tuple(self.leaves.values()),
            tuple(Step(node, tuple(map(number, operands))) for node, operands in self.steps),
            tuple((number(value), part) for value, part in stores),
            self.axes,
        )

    def _together(self) -> list[PartitionDesc]:
        """The loads, with both parts of the same complex numbers beside each other."""
        found: dict[PartitionDesc, None] = {}
        for part in self.loads:
            found[part] = None
            if part.views and isinstance(part.views[0], Component):
                for other in self.loads:
                    if other.buffer == part.buffer and other.views[1:] == part.views[1:]:
                        found[other] = None
        return list(found)


def _locates(views: Chain) -> bool:
    """Whether views show where elements lie."""
    return any(isinstance(view, (Address, Measure)) for view in views)


def _element(node: Node, views: Chain) -> Node:
    """What is read of a stored value: it, a part of its complex numbers, or where it lies."""
    for view in views:
        if isinstance(view, (Address, Measure)):
            return intern(op("address"), (node,), node.shape, np.dtype(np.int64), view)
    if not views or not isinstance(views[0], Component):
        return node
    return intern(op("component"), (node,), node.shape, component(node.dtype), views[0])


def operands_through(node: Node, views: Chain) -> Sequence[tuple[Node, Chain]]:
    """The operands of a node that is no reduction, each with the views to see it through.

    Args:
        node: an elementwise node or a view.
        views: how the node itself is seen.

    Raises:
        Unsupported: a concatenation inside a view, which the scheduler stores first.
    """
    if node.op.structure:
        if node.op.joins:
            raise Unsupported(
                "unsupported-argument", f"np.{node.op.name}", "an assignment inside a view"
            )
        (arg,) = node.args
        chain = compose((node.payload,), views)
        if chain == (Reshape(arg.shape),):
            chain = ()  # there and back again
        return [(arg, chain)]
    found: list[tuple[Node, Chain]] = []
    if node.op.gathers:
        return _gathered(node, node.args[:-1], node.args[-1], node.shape, views)
    if node.op.scatters:
        *indices, value, _ = node.args
        return [*_gathered(node, indices, node, value.shape, ()), (value, ())]
    if node.op.scans:
        return [(node.args[0], ())]
    for arg in node.args:
        if arg.shape == node.shape:
            found.append((arg, () if is_leaf(arg) else views))
        elif is_leaf(arg):
            found.append((arg, ()))
        else:
            found.append((arg, compose((Broadcast(node.shape),), views)))
    return found


def _gathered(
    node: Node, indices: Sequence[Node], table: Node, shape: Shape, views: Chain
) -> Sequence[tuple[Node, Chain]]:
    """What the kernel of a gather takes: index, length and stride of each axis, and an address.

    The address is that of the first element along the axes that are indexed. What is read has to
    be stored.

    Args:
        node: a gather, or a scatter, which takes what is written besides.
        indices: its indices.
        table: what is read or written.
        shape: of the loops.
        views: how the result is seen.
    """
    wide: Chain = compose((Broadcast(shape),), views)
    found: list[tuple[Node, Chain]] = []
    for index, axis in zip(indices, node.payload.indexed, strict=True):
        seen = views if index.shape == shape else wide
        found.append((index, () if is_leaf(index) else seen))
        found += ((table, (Measure(axis, what), *wide)) for what in ("length", "stride"))
    return [*found, (table, compose(first_places(node.payload, shape), views))]


def first_places(places: Places, shape: Shape) -> Chain:
    """The views that show where the first elements along indexed axes lie, for all loops."""
    rank = len(shape)
    first: Chain = (Address(places.kept),)
    if places.kept:
        first = (*first, insert_axes(rank, places.inserted(rank)))
    return (*first, Broadcast(shape))
