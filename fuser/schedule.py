"""Which nodes share a kernel: views become index arithmetic, the rest is grouped into sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuser import infer
from fuser.chains import Chain, compose, insert_axes, spans
from fuser.dims import Dim
from fuser.errors import Unsupported
from fuser.graph import Graph, Node
from fuser.specs import PartitionDesc

Shape = tuple[Dim, ...]

#: A value seen through views is computed anew for each different view, up to this many computed
#: elements for each node of the graph; beyond it the value is stored once and read back.
RECOMPUTE_LIMIT = 6
#: ... but graphs below this size never hit the limit: a two-level stencil is one kernel.
RECOMPUTE_FLOOR = 512


@dataclass(frozen=True, slots=True)
class Step:
    """One computed value of a section.

    Attributes:
        node: the graph node that it computes.
        operands: indices of earlier steps, loads, or leaves: see `Section.values`.
    """

    node: Node
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
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

    def node_of(self, value: int) -> Node:
        """The graph node behind a value's number."""
        if value < len(self.loads):
            return self.load_nodes[value]
        value -= len(self.loads)
        if value < len(self.leaves):
            return self.leaves[value]
        return self.steps[value - len(self.leaves)].node


@dataclass(frozen=True, slots=True)
class Group:
    """Sections that one kernel computes; none needs what another of them writes."""

    sections: tuple[Section, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The graph nodes computed here, each once, in order."""
        found = {id(s.node): s.node for section in self.sections for s in section.steps}
        return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Buffer:
    """A temporary or output array: its name, the node that it holds, shape and dtype."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph as kernels to launch in order.

    Attributes:
        graph: after rewriting.
        groups: one a kernel.
        temporaries: buffers that live during one call.
        outputs: the buffer of each graph output.
        realised: why each temporary exists, by its name: a code of `verdicts`.
    """

    graph: Graph
    groups: tuple[Group, ...]
    temporaries: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    realised: dict[str, str] = field(default_factory=dict)


def plan(graph: Graph, mode: str = "fused") -> Plan:
    """Divide a graph into kernels.

    Args:
        graph: rewritten and decomposed.
        mode: "fused": as few kernels as possible; "unfused": one a NumPy operation.

    Returns:
        The plan; it depends on the graph and the mode alone.
    """
    reasons: dict[int, str] = {}
    if mode == "unfused":
        for node in graph.nodes:
            if _computes(node) and not _cast_inside(node):
                reasons[id(node)] = "unfused-mode"
    else:
        reasons.update(_broadcast_heavy(graph))
    reasons.update(_joined_inside(graph))
    while True:
        builder = _Builder(graph, reasons)
        try:
            finished = builder.build()
        except _Realise as wanted:
            reasons[id(wanted.node)] = wanted.reason
            continue
        if finished:
            return builder.plan()
        # Too much would be computed again: keep the values that are seen through most views.
        new = builder.most_recomputed()
        if new is None:
            return builder.plan()
        reasons[id(new)] = "many-views"


def _computes(node: Node) -> bool:
    """Whether a node does elementwise work."""
    return not node.op.structure


def _cast_inside(node: Node) -> bool:
    """A conversion of an operand belongs to the operation that wants it, as in NumPy."""
    return node.op.name == "cast" and not infer.copy_order(node.payload)


def _is_leaf(node: Node) -> bool:
    """Scalars and constants are the same for every element."""
    return node.op.name in ("scalar", "constant")


def _broadcast_heavy(graph: Graph) -> dict[int, str]:
    """Values with costly operations that broadcasting would repeat: compute them once.

    A value that is constant along the innermost axis is hoisted out of the inner loop by the
    code generator, so only values that lack leading axes, or have ones there, count.
    """
    cost: dict[int, bool] = {}
    found: dict[int, str] = {}
    after: set[int] = set()  # values that belong to a reduction's loops
    for node in graph.nodes:
        if node.op.reduction or any(id(arg) in after for arg in node.args):
            after.add(id(node))
            cost[id(node)] = False
            continue
        below = any(cost[id(arg)] for arg in node.args)
        cost[id(node)] = (node.op.heavy or below) and node.op.name not in ("input",)
        for arg in node.args:
            repeated = _repeats_rows(arg.shape, node.shape) or node.op.name == "broadcast_to"
            repeated = repeated and node.op.name != "concatenate"  # each part is computed once
            if repeated and cost[id(arg)] and arg.shape and arg.shape != node.shape:
                source = _through_views(arg)
                found[id(source)] = "heavy-broadcast"
                cost[id(arg)] = False
        if id(node) in found:
            cost[id(node)] = False
    return found


def _repeats_rows(small: Shape, large: Shape) -> bool:
    """Whether broadcasting repeats whole rows, not elements within a row."""
    return bool(small) and small[-1] != 1 and len(large) > 0 and small != large


def _through_views(node: Node) -> Node:
    """The value behind views."""
    while node.op.structure and node.op.name != "concatenate" and node.args:
        node = node.args[0]
    return node


def _joined_inside(graph: Graph) -> dict[int, str]:
    """Concatenations that something else reads are stored; the last ones write into outputs."""
    inside: dict[int, str] = {}
    for node in graph.nodes:
        for arg in node.args:
            if arg.op.name == "concatenate" and node.op.name != "concatenate":
                inside[id(arg)] = "joined"
    for node in graph.outputs:
        source = _through_views(node)
        if source.op.name == "concatenate" and source is not node:
            inside[id(source)] = "joined"
    return inside


class _Realise(Exception):  # noqa: N818 - a signal, not a fault
    """A value has to be stored before it can be used; scheduling starts again."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


class _Builder:
    """Turns a graph and the set of realised nodes into sections and groups."""

    def __init__(self, graph: Graph, reasons: dict[int, str]) -> None:
        self.graph = graph
        self.reasons = reasons
        self.steps_made = 0
        self.times: dict[int, int] = {}
        self.buffers: dict[int, str] = {}
        self.temporaries: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.levels: dict[str, int] = {}
        self.by_level: dict[int, list[Section]] = {}
        self.limit = max(RECOMPUTE_LIMIT * len(graph.nodes), RECOMPUTE_FLOOR)

    def build(self) -> bool:
        """Make all sections; False when too much is computed again and again."""
        wanted: dict[tuple[Any, ...], list[tuple[Node, PartitionDesc]]] = {}
        for node in self.graph.nodes:
            if id(node) in self.reasons and not self._is_output(node):
                name = f"t{len(self.temporaries)}"
                self.temporaries.append(Buffer(name, node))
                self._store(node, name, wanted=None)
                self.buffers[id(node)] = name
                if self.steps_made > self.limit:
                    return False
            elif id(node) in self.reasons:
                self._store_output(node)
                if self.steps_made > self.limit:
                    return False
        for place, node in enumerate(self.graph.outputs):
            name = f"o{place}"
            self.outputs.append(Buffer(name, node))
            if name in self.levels:
                continue
            for key, entry in self._parts(node, name):
                wanted.setdefault(key, []).append(entry)
        for key, entries in _join_pointwise(wanted).items():
            self._section(key, entries)
            if self.steps_made > self.limit:
                return False
        return True

    def _is_output(self, node: Node) -> bool:
        """Whether a realised node is an output itself: it needs no temporary."""
        return any(node is output for output in self.graph.outputs)

    def _store_output(self, node: Node) -> None:
        """A realised node that is an output is computed into it and read from it."""
        place = next(k for k, output in enumerate(self.graph.outputs) if output is node)
        name = f"o{place}"
        self._store(node, name, wanted=None)
        self.buffers[id(node)] = name

    def _store(self, node: Node, name: str, wanted: None) -> None:
        """Compute one realised node into its buffer."""
        by_shape: dict[tuple[Any, ...], list[tuple[Node, PartitionDesc]]] = {}
        for key, entry in self._parts(node, name):
            by_shape.setdefault(key, []).append(entry)
        for key, entries in by_shape.items():
            self._section(key, entries)

    def _parts(
        self, node: Node, name: str, views: Chain = ()
    ) -> list[tuple[tuple[Any, ...], tuple[Node, PartitionDesc]]]:
        """The pieces that a buffer is written in: one, or one an operand of a concatenation."""
        if node.op.name != "concatenate" or id(node) in self.buffers:
            shape, axes, widen = self._space(node)
            return [((shape, axes), (node, PartitionDesc(name, (*views, *widen))))]
        axis = int(node.payload)
        pieces = []
        start: Dim = 0
        for arg in node.args:
            stop = start + arg.shape[axis]
            payload = f"{axis}; {start}; {stop}"
            pieces.extend(self._parts(arg, name, (*views, ("part", payload))))
            start = stop
        return pieces

    def _space(self, node: Node) -> tuple[Shape, tuple[int, ...], Chain]:
        """The loops that compute a value: shape, reduced axes, and views that widen it to them.

        A value that depends on reductions is computed in the loops of one of them, if it has
        the shape of their operand, or of their result with or without the reduced axes.
        """
        nearest = self._nearest_reductions(node)
        for reduction in nearest:
            shape, axes = reduction.args[0].shape, infer.parse_axes(reduction.payload)
            if node.shape == shape:
                return shape, axes, ()
        for reduction in nearest:
            shape, axes = reduction.args[0].shape, infer.parse_axes(reduction.payload)
            kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
            widen = ("broadcast_to", ", ".join(map(str, shape)))
            if node.shape == kept:
                return shape, axes, (widen,)
            if node.shape == reduction.shape:
                return shape, axes, (insert_axes(len(shape), axes), widen)
        if nearest:
            raise _Realise(nearest[0], "reduction-elsewhere")
        return node.shape, (), ()

    def _nearest_reductions(self, node: Node) -> list[Node]:
        """Reductions that a value needs, without looking behind them or behind stored values."""
        found: list[Node] = []
        seen: set[int] = set()
        stack = [node]
        while stack:
            current = stack.pop()
            if id(current) in seen or id(current) in self.buffers:
                continue
            seen.add(id(current))
            if current.op.reduction:
                found.append(current)
                continue
            stack.extend(reversed(current.args))
        return found

    def _section(
        self, key: tuple[Any, ...], entries: Sequence[tuple[Node, PartitionDesc]]
    ) -> None:
        """One loop nest for stores of one space."""
        shape, axes = key
        maker = _SectionMaker(self, shape, axes)
        stores = []
        for node, part in entries:
            widen = self._space(node)[2] if axes and node.shape != shape else ()
            stores.append((maker.value(node, widen), part))
        section = maker.section(stores)
        level = 0
        for load in section.loads:
            level = max(level, self.levels.get(load.buffer, -1) + 1)
        for _, part in section.stores:
            self.levels[part.buffer] = max(level, self.levels.get(part.buffer, 0))
        self.by_level.setdefault(level, []).append(section)

    def plan(self) -> Plan:
        """The finished plan."""
        groups: list[Group] = []
        for level in sorted(self.by_level):
            sections = self.by_level[level]
            if any(reason == "unfused-mode" for reason in self.reasons.values()):
                groups.extend(Group((section,)) for section in sections)
            else:
                groups.append(Group(tuple(sections)))
        why = {b.name: self.reasons[id(b.node)] for b in self.temporaries}
        return Plan(self.graph, tuple(groups), tuple(self.temporaries), tuple(self.outputs), why)

    def most_recomputed(self) -> Node | None:
        """The computed value that was made for the largest number of different views."""
        nodes = {id(node): node for node in self.graph.nodes}
        counted = [
            (times, place)
            for place, (key, times) in enumerate(self.times.items())
            if times > 1 and key not in self.reasons
        ]
        if not counted:
            return None
        _, place = max(counted)
        return nodes[list(self.times)[place]]


class _SectionMaker:
    """Collects what one loop nest needs, walking from its stores towards its loads."""

    def __init__(self, builder: _Builder, shape: Shape, axes: tuple[int, ...]) -> None:
        self.builder = builder
        self.shape = shape
        self.axes = axes
        self.loads: dict[PartitionDesc, int] = {}
        self.load_nodes: list[Node] = []
        self.leaves: dict[int, Node] = {}
        self.steps: list[tuple[Node, tuple[Any, ...]]] = []
        self.known: dict[tuple[int, Chain], Any] = {}

    def value(self, node: Node, chain: Chain) -> Any:
        """The value of `node` seen through `chain`; never recursive."""
        stack: list[tuple[Node, Chain]] = [(node, chain)]
        while stack:
            current, views = stack[-1]
            key = (id(current), views)
            if key in self.known:
                stack.pop()
                continue
            needed = self._needs(current, views)
            missing = [need for need in needed if (id(need[0]), need[1]) not in self.known]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.known[key] = self._make(current, views, needed)
            stack.pop()
        return self.known[(id(node), chain)]

    def _stored(self, node: Node) -> str | None:
        """The buffer that holds a node already."""
        if node.op.name == "input":
            return node.payload
        return self.builder.buffers.get(id(node))

    def _needs(self, node: Node, views: Chain) -> list[tuple[Node, Chain]]:
        """The operands of a node, each with the views to see it through."""
        if self._stored(node) is not None or _is_leaf(node):
            return []
        if node.op.structure:
            if node.op.name == "concatenate":
                raise Unsupported("unsupported-argument", "np.concatenate", "inside a view")
            return [(node.args[0], compose(((node.op.name, node.payload),), views))]
        if node.op.reduction:
            operand = node.args[0]
            ours = operand.shape == self.shape and infer.parse_axes(node.payload) == self.axes
            if not ours or not spans(node.shape, views, self.shape, self.axes):
                raise _Realise(node, "reduction-elsewhere")
            return [(operand, ())]
        found = []
        for arg in node.args:
            if _is_leaf(arg) or arg.shape == node.shape:
                found.append((arg, () if _is_leaf(arg) else views))
            else:
                widen = ("broadcast_to", ", ".join(map(str, node.shape)))
                found.append((arg, compose((widen,), views)))
        return found

    def _make(self, node: Node, views: Chain, needed: list[tuple[Node, Chain]]) -> Any:
        """Number the value: a load, a leaf or a step; views are their operand's value."""
        if (buffer := self._stored(node)) is not None:
            part = PartitionDesc(buffer, views)
            if part not in self.loads:
                self.loads[part] = len(self.loads)
                self.load_nodes.append(node)
            return ("load", self.loads[part])
        if _is_leaf(node):
            self.leaves.setdefault(id(node), node)
            return ("leaf", list(self.leaves).index(id(node)))
        operands = tuple(self.known[(id(arg), chain)] for arg, chain in needed)
        if node.op.structure:
            return operands[0]
        self.builder.steps_made += 1
        times = self.builder.times
        times[id(node)] = times.get(id(node), 0) + 1
        self.steps.append((node, operands))
        return ("step", len(self.steps) - 1)

    def section(self, stores: Iterable[tuple[Any, PartitionDesc]]) -> Section:
        """The finished section with all values numbered."""
        base = {"load": 0, "leaf": len(self.loads), "step": len(self.loads) + len(self.leaves)}

        def number(value: tuple[str, int]) -> int:
            return base[value[0]] + value[1]

        return Section(
            self.shape,
            tuple(self.loads),
            tuple(self.load_nodes),
            tuple(self.leaves.values()),
            tuple(Step(node, tuple(map(number, operands))) for node, operands in self.steps),
            tuple((number(value), part) for value, part in stores),
            self.axes,
        )


def _join_pointwise(
    wanted: dict[tuple[Any, ...], list[tuple[Node, PartitionDesc]]],
) -> dict[tuple[Any, ...], list[tuple[Node, PartitionDesc]]]:
    """Stores of the whole shape of a reduction's loops join those loops."""
    joined = dict(wanted)
    for shape, axes in wanted:
        if axes and (shape, ()) in joined:
            joined[(shape, axes)] = joined[(shape, axes)] + joined.pop((shape, ()))
    return joined
