"""One attempt at a plan: stored values become units, units loop nests, and nests kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fuser.base.errors import Unsupported
from fuser.ir import costs
from fuser.ir.dims import Dim
from fuser.ir.graph import Graph, Node
from fuser.ir.specs import PartitionDesc
from fuser.ir.views import Chain, Component, Index, Part, Reshape, Transpose, View
from fuser.scheduling import inlining
from fuser.scheduling.clustering import Grouping, Pair, Store, Unit, nominal_bytes
from fuser.scheduling.inlining import (
    bits,
    computes,
    is_as_wide,
    stored_early,
    stored_values,
    through_views,
)
from fuser.scheduling.loop_nests import (
    RealiseError,
    Section,
    SectionMaker,
    Space,
    all_nearest,
    first_places,
    fit_node,
    space_of,
)
from fuser.scheduling.ordering import Ordering
from fuser.scheduling.plans import Buffer, Plan
from fuser.scheduling.row_tiles import Group

#: Loop nests that compute one value are counted up to so many, and one.
MOST_TIMES = 8
#: Plans made anew because a costly value turned out to be computed by several kernels.
COSTLY_ROUNDS = 4


def attempt(
    graph: Graph,
    mode: str,
    distance: int,
    budget: int,
    early: bool = False,
    stored: Mapping[int, str] | None = None,
) -> Plan:
    """A plan of a graph.

    Args:
        graph: as for `schedule.plan`.
        mode: as for `schedule.plan`.
        distance: how far apart in the graph values may be that are computed side by side.
        budget: the bytes that the graph holds at once when its operations run one by one.
        early: what needs several stored values is stored as well, so that those can be freed.
        stored: as for `schedule.plan`.
    """
    reasons = stored_values(graph, mode) | dict(stored or {})
    if early:
        reasons |= stored_early(graph, reasons)
    apart = {key for key, reason in reasons.items() if reason == "many-stages"}
    costly_rounds = 0 if mode == "unfused" else COSTLY_ROUNDS
    while True:
        planner = _Planner(graph, reasons, mode, apart, distance)
        known = len(apart)
        wanted = planner.build(costly_rounds > 0)
        costly_rounds -= "costly-shared" in wanted.values()
        if len(apart) > known:
            continue  # what is seen in two ways is not computed where it is needed
        if not wanted:
            return planner.plan(budget)
        if wanted.keys() <= reasons.keys():
            raise Unsupported(
                "not-traceable", "planning", "no loop nest can compute one of its values", ""
            )
        reasons.update(wanted)


class _Planner:
    """Plans a graph whose stored values are known."""

    def __init__(
        self, graph: Graph, reasons: dict[int, str], mode: str, apart: set[int], distance: int
    ) -> None:
        """Prepare.

        Args:
            graph: what is planned.
            reasons: why each stored value is stored, by `id(node)`.
            mode: "fused" or "unfused".
            apart: stored values that no nest computes for its own use; found ones are added.
            distance: as for `_plan`.
        """
        self.graph = graph
        self.apart = apart
        self.distance = distance
        self.reasons = reasons
        self.mode = mode
        self.names: dict[int, str] = {}
        self.bit: dict[int, int] = {}
        self.buffers: list[Node] = []
        self.reads: dict[int, int] = {}
        self.covers: dict[int, int] = {}
        self.turned: dict[int, int] = {}
        self.units: list[Unit] = []
        self.pairs: tuple[Pair, ...] = ()
        self.conflicts: dict[int, str] = {}
        self.made: list[Section] = []
        self.place = {id(node): k for k, node in enumerate(graph.nodes)}
        self.scans = sum(1 << k for k, node in enumerate(graph.nodes) if node.op.scans)
        self.output_places: dict[int, int] = {}
        for place, node in enumerate(graph.outputs):
            self.output_places.setdefault(id(node), place)
        self._name_buffers()
        self.nearest = all_nearest(graph.nodes, self.names)

    def _name_buffers(self) -> None:
        """Names of stored values, bits of all buffers; what each value reads, turns, computes."""
        temporaries = 0
        for node in self.graph.nodes:
            if node.op.is_input:
                self._add_buffer(node)
                continue
            reads = covers = turned = 0
            for arg in node.args:
                if id(arg) in self.bit:
                    reads |= 1 << self.bit[id(arg)]
                else:
                    reads |= self.reads[id(arg)]
                    covers |= self.covers[id(arg)]
                    turned |= self.turned[id(arg)]
            if computes(node):
                covers |= 1 << self.place[id(node)]
            elif type(node.payload) is Transpose:
                turned |= 1 << self.place[id(node)]
            self.reads[id(node)], self.covers[id(node)] = reads, covers
            self.turned[id(node)] = turned
            if id(node) in self.reasons:
                self._add_buffer(node)
                place = self.output_places.get(id(node))
                self.names[id(node)] = f"t{temporaries}" if place is None else f"o{place}"
                temporaries += place is None

    def _add_buffer(self, node: Node) -> None:
        self.bit[id(node)] = len(self.buffers)
        self.buffers.append(node)

    # -- units and sections -----------------------------------------------------------------

    def build(self, costly: bool) -> dict[int, str]:
        """Make all sections; values that have to be stored first, if there are any.

        Args:
            costly: costly values that several units compute are among them.
        """
        for node, name in self._stores():
            try:
                self._units_of(node, name)
            except RealiseError as wanted:
                self.conflicts[id(wanted.node)] = wanted.reason
        if self.conflicts:
            return self.conflicts
        if self.mode != "unfused":
            temporary = sum(
                1 << self.bit[key] for key in self.names if key not in self.output_places
            )
            apart = sum(1 << self.bit[key] for key in self.apart)
            grouping = Grouping(self.units, self.buffers, temporary, apart, self.distance)
            self.units, self.pairs = grouping.run()
        if costly and (again := self.costly_again()):
            return again
        needed = 0
        for unit in self.units:
            needed |= unit.reads
        for unit in self.units:
            stores = [store for store in unit.stores if self._wanted(store, needed)]
            own = {id(n) for n, part in unit.stores if self.names.get(id(n)) == part.buffer}
            try:
                self.made.append(self._section(unit, stores, own))
            except RealiseError as wanted:
                self.conflicts[id(wanted.node)] = wanted.reason
        return self.conflicts

    def _stores(self) -> Iterator[tuple[Node, str]]:
        """Every stored value and output with its buffer, in the order of the graph."""
        for node in self.graph.nodes:
            if id(node) in self.names:
                yield node, self.names[id(node)]
        for place, node in enumerate(self.graph.outputs):
            if self.names.get(id(node)) != f"o{place}":
                yield node, f"o{place}"

    def _wanted(self, store: Store, needed: int) -> bool:
        """Whether somebody reads what is stored: a temporary may have become superfluous."""
        buffer = store[1].buffer
        owner = next((key for key in (id(store[0]),) if self.names.get(key) == buffer), None)
        if owner is None or owner in self.output_places:
            return True
        return bool(needed >> self.bit[owner] & 1)

    def _units_of(self, node: Node, name: str) -> None:
        """The units that store one value: one for each shape of its parts."""
        by_space: dict[Space, list[Store]] = {}
        owned = self.names.get(id(node)) == name
        scatters = owned and node.op.scatters
        parts = self._parts(node.args[-1], False) if scatters else self._parts(node, owned)
        for part, views in parts:
            mine = owned and part is node
            known = part.op.is_input or (id(part) in self.names and not mine)
            space = (part.shape, ()) if known else space_of(part, self.names, self.nearest)[0]
            by_space.setdefault(space, []).append((part, PartitionDesc(name, views)))
        for space, stores in by_space.items():
            reads = covers = 0
            for part, _ in stores:
                if id(part) in self.bit and not (owned and part is node):
                    reads |= 1 << self.bit[id(part)]
                else:
                    reads |= self.reads[id(part)]
                    covers |= self.covers[id(part)]
            writes = 1 << self.bit[id(node)] if owned else 0
            place = max(self.place[id(part)] for part, _ in stores)
            unit = Unit(space, stores, reads, writes, covers, place)
            unit.scans = frozenset(
                self.graph.nodes[k].payload.axis for k in bits(covers & self.scans)
            )
            self.units.append(unit)
        if scatters:
            self.units.append(self._scatter(node, name))

    def _scatter(self, node: Node, name: str) -> Unit:
        """The unit that writes at computed places of a buffer, after those that begin it."""
        reads, covers = 1 << self.bit[id(node)], 1 << self.place[id(node)]
        for arg in node.args[:-1]:
            if id(arg) in self.bit:
                reads |= 1 << self.bit[id(arg)]
            else:
                reads |= self.reads[id(arg)]
                covers |= self.covers[id(arg)]
        shape = node.args[-2].shape
        stores = [(node, PartitionDesc(name, first_places(node.payload, shape)))]
        writes = 1 << self.bit[id(node)]
        unit = Unit((shape, ()), stores, reads, writes, covers, self.place[id(node)])
        unit.scatters = True
        return unit

    def _parts(self, node: Node, owned: bool) -> list[tuple[Node, Chain]]:
        """The pieces that a buffer is written in: one, or one an operand of a concatenation."""
        found: list[tuple[Node, Chain]] = []
        stack: list[tuple[Node, Chain, bool]] = [(node, (), owned)]
        while stack:
            current, views, mine = stack.pop()
            stored = id(current) in self.names and not mine
            if not stored and (back := self._undone(current, views)) is not None:
                stack.append((current.args[0], (*views, back), False))
                continue
            if not current.op.joins or stored:
                found.append((current, views))
                continue
            pieces: list[tuple[Node, Chain, bool]] = []
            if current.op.pairs:
                step = current.args[0].dtype.itemsize
                for place, arg in enumerate(current.args):
                    pieces.append((arg, (*views, Component(place * step)), False))
                stack.extend(reversed(pieces))
                continue
            axis = current.payload.axis
            start: Dim = 0
            for place, arg in enumerate(current.args):
                stop = start + arg.shape[axis]
                where = Part(axis, start, stop)
                if current.op.interleaves:
                    where = Part(axis, place, current.shape[axis], len(current.args))
                pieces.append((arg, (*views, where), False))
                start = stop
            stack.extend(reversed(pieces))
        return found

    def _undone(self, node: Node, views: Chain) -> View | None:
        """How what a view shows is stored through it; None where the view itself is computed.

        What reduces is stored as its loops have it, and axes that are only inserted are no loops.
        """
        view = node.payload
        if isinstance(view, Transpose) and self._reduces(node.args[0]):
            return view.inverse(node.args[0].shape)
        inserts = isinstance(view, Index) and view.only_inserts and view.parts
        return view.inverse(node.args[0].shape) if inserts else None

    def _reduces(self, node: Node) -> bool:
        """Whether a value that is not stored is computed in the loops of reductions."""
        return id(node) not in self.names and bool(self.nearest[id(node)][0])

    def _section(self, unit: Unit, stores: Sequence[Store], own: set[int]) -> Section:
        """The loop nest of one unit.

        Args:
            unit: its loops.
            stores: what it writes.
            own: by `id`, stored values that it computes itself.

        Raises:
            RealiseError: a reduction is needed in other loops than its own.
        """
        maker = SectionMaker(self.names, unit.space, own=own)
        finished = []
        try:
            for node, part in stores:
                widen = () if unit.scatters else _widen(node, unit.space)
                value = maker.value(node, widen)
                finished.append((value, PartitionDesc(part.buffer, (*part.views, *widen))))
        except RealiseError as wanted:
            if id(wanted.node) not in own:
                raise
            self.apart.add(id(wanted.node))
        self.apart |= maker.apart
        return maker.section(finished)

    # -- what is computed again -------------------------------------------------------------

    def costly_again(self) -> dict[int, str]:
        """Costly values that several units compute: each is better stored once."""
        heavy = sum(1 << self.place[id(n)] for n in self.graph.nodes if n.op.heavy)
        gathers = sum(1 << self.place[id(n)] for n in self.graph.nodes if n.op.gathers)
        nodes = self.graph.nodes
        found: dict[int, str] = {}
        done = 0
        seen = [0] * MOST_TIMES  # what one unit or more compute, what two or more do …
        for unit in self.units:
            edge = [node for node, _ in unit.stores]  # values that what is new here needs
            edge += [arg for k in bits(unit.covers & ~seen[0]) for arg in nodes[k].args]
            for node in map(through_views, edge):
                covers, reads = self.covers.get(id(node), 0) & ~done, self.reads.get(id(node), 0)
                place = self.place[id(node)]
                again = computes(node) and seen[0] >> place & 1
                if not again or not covers or id(node) in self.names:
                    continue
                weight = costs.planned_sum(covers, heavy) + costs.GATHER * (
                    covers & gathers
                ).bit_count()
                times = 1 + sum(units >> place & 1 for units in seen)
                arrays = sum(is_as_wide(self.buffers[bit], node) for bit in bits(reads))
                arrays += self.turned.get(id(node), 0).bit_count()
                if inlining.pays_to_store(weight, inlining.REALISE_WEIGHT, times) or (
                    inlining.pays_to_store(arrays, inlining.REALISE_READS, times)
                ):
                    found[id(node)] = "costly-shared"
                    done |= covers
            for k in range(MOST_TIMES - 1, 0, -1):
                seen[k] |= seen[k - 1] & unit.covers
            seen[0] |= unit.covers
        return found

    # -- the plan ---------------------------------------------------------------------------

    def plan(self, budget: int) -> Plan:
        """The finished plan; nests are put into one kernel where they hold no more than that."""
        outputs = tuple(Buffer(f"o{k}", node) for k, node in enumerate(self.graph.outputs))
        stored = {part.buffer for section in self.made for _, part in section.stores}
        kept = [
            Buffer(name, node)
            for node in self.graph.nodes
            if (name := self.names.get(id(node), "")) in stored and name.startswith("t")
        ]
        why = {
            name: self.reasons[key] for key, name in self.names.items() if name in stored
        }
        groups = tuple(self._groups([*kept, *outputs], budget))
        return Plan(self.graph, groups, tuple(kept), outputs, why, self.pairs)

    def _groups(self, buffers: Sequence[Buffer], budget: int) -> Iterator[Group]:
        """Kernels in order."""
        places = [unit.place for unit in self.units]
        if self.mode == "unfused":
            in_order = sorted(zip(places, self.made, strict=True), key=lambda entry: entry[0])
            yield from (Group((section,)) for _, section in in_order)
            return
        # Single numbers count nothing: they are no reason to run nests one after another.
        sizes = {b.name: nominal_bytes(b.node) if b.node.shape else 0 for b in buffers}
        kept = {name for name in sizes if name.startswith("o")}
        for sections in Ordering(self.made, places, sizes, kept, budget).kernels():
            yield Group(sections)


def _widen(node: Node, space: Space) -> Chain:
    """The views that widen a value to its nest's shape."""
    widen = fit_node(node, space)
    return (Reshape(space[0]),) if widen is None else widen
