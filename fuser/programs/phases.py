"""One iteration of a loop as phases: kernels that write, and kernels that read what was written.

`b[1:-1] = f(a)` and then `a[1:-1] = g(b)` is one graph, in which the second statement reads an
update of `b`. One kernel of both would compute `f` anew for each neighbour that `g` looks at. Where
an update is read at other places than where it was written, the iteration is divided there: the
first phase writes into `b` itself, the second one reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from fuser.base.records import record
from fuser.ir import dims
from fuser.ir.attributes import Region as Box
from fuser.ir.attributes import full_box
from fuser.ir.graph import Graph, Node, Parameter, intern, make_input
from fuser.ir.loops import Region
from fuser.ir.opaque_calls import LOOPS
from fuser.ir.views import FULL, Broadcast, Chain, Index, Part, Transpose, View, seen_of_box
from fuser.passes import length_facts, slice_updates
from fuser.tracing.canonical import lengths_of

#: Arrays that a phase leaves for later ones at most, beside those that it writes into.
_KEPT = 4


@record(slots=False, eq=False)
class PhaseGraph:
    """Kernels of one iteration that read before they write.

    Attributes:
        graph: its parameters are named as the region's values are.
        stored: the values that its outputs are; "" for one that is only written.
        writes: (value, output, box) of what its kernels write into arrays; None is all.
        moved: (value, stored value, box, view) of what is written where numbers of the iteration
            say: the stored value through the view.
        parts: parameters that are parts of arrays, where numbers of the iteration say.
        twins: (array, twin, repeated): kernels read the one and write into the other, which differs
            from it in that part alone; then they change places. Where something else writes into
            the array, too, the rest of it is repeated in the twin each time.
    """

    graph: Graph
    stored: tuple[str, ...]
    writes: tuple[tuple[str, int, Box | None], ...]
    moved: tuple[Moved, ...] = ()
    parts: tuple[Seen, ...] = ()
    twins: tuple[Twin, ...] = ()


#: A value, the stored one that is written into a part of it, which part, and how it is seen there;
#: without a part the stored one takes its place.
Moved = tuple[str, str, Box | None, Index | None]
#: An array, its twin, and whether what lies around the written part is repeated each time.
Twin = tuple[str, str, bool]
#: A parameter, the array that it is a part of, and how it is seen; copied if kernels write there.
Seen = tuple[str, str, Chain, bool]


class _Undivided(Exception):  # noqa: N818 - a signal: the iteration is one phase
    """What a later phase needs is gone by then."""


def phases_of(region: Region) -> tuple[PhaseGraph, ...]:
    """The phases of an iteration, in order."""
    found = _divided(region)
    first = 1 + max(
        int(name[1:]) for phase in found
        for name in (*phase.stored, *region.names, *(p.name for p in phase.graph.parameters), "x0")
        if name.startswith("x")
    )  # fmt: skip
    made = []
    for phase in found:
        each = _with_moved(phase, region.graph, first)
        first += len(phase.stored)
        made.append(_with_twins(each, region, first))
        first += len(each.writes)
    return tuple(made)


def _with_twins(phase: PhaseGraph, region: Region, first: int) -> PhaseGraph:
    """A phase that writes into a twin of an array which it reads beside what it writes.

    Else its kernels would store results aside, and copy them. All iterations write into the same
    part, so the twin, a copy of what the first one finds, is right everywhere else, as long as
    nothing but this write changes the array. Else what lies around the part is copied from the
    array before they change places, so that later phases find all of it: some places at the ends
    of one axis, or the array has no twin.
    """
    arrays = {p.name: p for p in phase.graph.parameters if p.dtype is not None}
    added: dict[str, Parameter] = {}
    repeated = set()
    writes = []
    here = [name for name, _, _ in phase.writes]
    for name, output, box in phase.writes:
        place = region.names.index(name)
        stays = place < region.carried and not region.results[place]
        alone = [each for each, _, _ in region.writes].count(place) == 1
        seen = any(name == base for _, base, _, _ in phase.parts)
        free = stays and not seen and (alone or here.count(name) == 1)
        if box and free and _reads_beside(phase.graph, name, box) and (
            alone or _is_most(box, arrays[name].shape)
        ):
            if not alone:
                repeated.add(name)
            twin = f"x{first + len(added)}"
            added[name] = Parameter(twin, arrays[name].dtype, arrays[name].shape)
            name = twin
        writes.append((name, output, box))
    if not added:
        return phase
    graph, numbers = phase.graph, [p for p in phase.graph.parameters if p.dtype is None]
    titles = dict(zip((p.name for p in graph.parameters), graph.names, strict=False))
    titles |= {twin.name: titles.get(name, name) for name, twin in added.items()}
    parameters = (*arrays.values(), *added.values(), *numbers)
    shown = tuple(titles.get(p.name, p.name) for p in parameters)
    graph = Graph(parameters, graph.outputs, graph.guards, shown, graph.lines)
    twins = tuple((name, twin.name, name in repeated) for name, twin in added.items())
    return PhaseGraph(graph, phase.stored, tuple(writes), phase.moved, phase.parts, twins)


def _is_most(box: Box, shape: Sequence[dims.Dim]) -> bool:
    """Whether a box is all of an array but some places, as many for every length, of one axis."""
    around = [
        (start, length - stop)
        for (start, stop, step), length in zip(box.box, shape, strict=True)
        if step != 1 or start != 0 or stop != length
    ]
    dense = all(step == 1 for _, _, step in box.box)
    return dense and len(around) == 1 and all(isinstance(count, int) for count in around[0])


def _reads_beside(graph: Graph, name: str, box: Box) -> bool:
    """Whether an array is read in another part than one."""
    for node in graph.nodes:
        for arg in node.args:
            if arg.op.is_input and arg.payload.name == name:
                seen = None
                if isinstance(node.payload, (Part, Index, Transpose)):
                    seen = seen_of_box(full_box(arg.shape), (node.payload,), arg.shape)
                if seen is None or seen.box != box.box:
                    return True
    return False


def _with_moved(phase: PhaseGraph, graph: Graph, first: int) -> PhaseGraph:
    """A phase that leaves writes into places which numbers tell to the loop around it.

    A value that goes to several of them is stored once, without the axes that a place adds; one
    that the iteration leaves by a name, too, is that.
    """
    arrays = _moved_arrays(graph, phase.writes)
    if not arrays:
        return phase
    moving = {output for name, output, _ in phase.writes if name in arrays}
    outputs: list[Node] = []
    stored: list[str] = []
    seen: list[Index | None] = []
    place_of: list[int] = []
    known: dict[int, int] = {}
    for output, (node, name) in enumerate(zip(phase.graph.outputs, phase.stored, strict=True)):
        alone = output in moving and not name
        value, view = _without_new_axes(node) if alone else (node, None)
        place = known.get(id(value), len(outputs)) if alone else len(outputs)
        if place == len(outputs):
            outputs.append(value)
            stored.append(name or (f"x{first + place}" if output in moving else ""))
            if alone or (name and _is_own(node)):
                known[id(value)] = place
        place_of.append(place)
        seen.append(view)
    moved = tuple((name, stored[place_of[output]], box, seen[output])
                  for name, output, box in phase.writes if name in arrays)  # fmt: skip
    kept = tuple((name, place_of[output], box)
                 for name, output, box in phase.writes if name not in arrays)  # fmt: skip
    made = phase.graph.with_outputs(outputs)
    return PhaseGraph(made, tuple(stored), kept, (*phase.moved, *moved), phase.parts)


def _without_new_axes(node: Node) -> tuple[Node, Index | None]:
    """The value that an output repeats, and how it is seen where it is written.

    An assignment repeats along axes, and adds axes in front, by itself.
    """
    view, value = None, node
    if isinstance(node.payload, Index) and all(p is None or p == FULL for p in node.payload.parts):
        parts = list(node.payload.parts)
        while parts and parts[0] is None:
            del parts[0]
        value, view = node.args[0], Index.of_parts(parts) if None in parts else None
    if isinstance(value.payload, Broadcast) and len(value.args[0].shape) == len(value.shape):
        value = value.args[0]
    return (value, view) if _is_own(value) else (node, None)


def _is_own(value: Node) -> bool:
    """Whether a value has memory of its own; else that may be what is written."""
    if value.op.is_opaque:
        return not value.payload.shares and value.payload.name not in LOOPS
    return not value.op.structure


def _moved_arrays(graph: Graph, writes: Iterable[tuple[str, int, Box | None]]) -> set[str]:
    """Arrays of which parts are written that numbers tell."""
    moving = graph.scalar_lengths.keys()
    return {
        name for name, _, box in writes
        if box and not moving.isdisjoint(s for dim in box.lengths for s in dims.symbols(dim))
    }  # fmt: skip


def _divided(region: Region) -> tuple[PhaseGraph, ...]:
    """The phases of an iteration, whose kernels do all writes."""
    if not region.graph.has_externs:
        try:
            return _Division(region).phases()
        except _Undivided:
            pass
    outputs = region.graph.outputs
    used = {number for text in region.results if (number := _output(text)) is not None}
    kept = {id(outputs[k]): (value_name(region, k), outputs[k]) for k in sorted(used)}
    names = region.names
    wanted = [(names[array], outputs[output], box) for array, output, box in region.writes]
    moved: list[Moved] = []
    for array, output, box in region.writes:
        if (node := _replacement(region, array, output, box)) is not None:
            name = value_name(region, output)
            kept[id(node)] = name, node
            moved.append((names[array], name, None, None))
    replaced = {name for name, _, _, _ in moved}
    wanted = [write for write in wanted if write[0] not in replaced]
    found, stored, writes = _laid_out(kept.values(), wanted)
    return (PhaseGraph(region.graph.with_outputs(found), stored, writes, tuple(moved)),)


def _replacement(region: Region, array: int, output: int, box: Box | None) -> Node | None:
    """The new array that takes the place of one which an iteration writes as a whole, if one does.

    It is a kernel's own, and nothing else is, or looks at, either array.
    """
    if region.results[array] or region.names[array] in region.results:
        return None
    if any(each.op.is_opaque and each.payload.shares for each in region.graph.nodes):
        return None
    outputs, shape = region.graph.outputs, region.graph.parameters[array].shape
    node = outputs[output]
    if isinstance(node.payload, Broadcast) and node.args[0].shape == node.shape:
        node = node.args[0]
    own = bool(node.args) and not (node.op.structure or node.op.is_opaque or node.op.is_update)
    own = own and bool(shape) and node.shape == shape and node.dtype == outputs[output].dtype
    used = [k for text in region.results if (k := _output(text)) is not None]
    used += [each for _, each, _ in region.writes]
    alone = sum(outputs[k] in (node, outputs[output]) for k in used) == 1
    alone = alone and [each for each, _, _ in region.writes].count(array) == 1
    whole = box is None or box.box == full_box(shape)
    return node if own and alone and whole else None


def _laid_out(
    kept: Iterable[tuple[str, Node]], writes: Iterable[tuple[str, Node, Box | None]]
) -> tuple[list[Node], tuple[str, ...], tuple[tuple[str, int, Box | None], ...]]:
    """The outputs of a phase, what they are called, and its writes.

    A value is stored once, but each write has an output of its own: kernels write an output to one
    place, and a value may go to several (`a[0] = a[-1] = 0`).
    """
    names, outputs = [], []
    for name, node in kept:
        names.append(name)
        outputs.append(node)
    done = []
    for name, node, box in writes:
        done.append((name, len(outputs), box))
        names.append("")
        outputs.append(node)
    return outputs, tuple(names), tuple(done)


def value_name(region: Region, output: int) -> str:
    """What the value of an output of a region's graph is called; equal ones are one value."""
    outputs = region.graph.outputs
    if output < len(outputs):
        output = next(k for k, node in enumerate(outputs) if node is outputs[output])
    taken = [int(name[1:]) for name in region.names if name.startswith("x")]
    return f"x{max(taken, default=-1) + 1 + output}"


def _output(result: str) -> int | None:
    """The number of the output that a result is, see `Region.results`; None for an array."""
    number = result.removesuffix("[()]")
    return int(number) if number.isdigit() else None


class _Division:
    """The phases of one iteration, while they are found."""

    def __init__(self, region: Region) -> None:
        """Find the phase of each node, and until which phase it can be computed."""
        self.region, self.graph = region, region.graph
        self.bounds = length_facts.lower_bounds(self.graph.guards)
        self.memory: dict[int, tuple[str, int]] = {}  # an array's name and how many writes it has
        names = region.names
        self.writes: dict[str, list[tuple[int, Box | None]]] = {}
        for place, output, box in region.writes:
            self.writes.setdefault(names[place], []).append((output, box))
        self._find_memory()
        found = self._read_elsewhere()
        self.barriers = {id(node): node for node in found}
        self.phase: dict[int, int] = {}
        for node in self.graph.nodes:
            level = max((self.phase[id(arg)] for arg in node.args), default=0)
            self.phase[id(node)] = level + (id(node) in self.barriers)
        self.last = max(self.phase.values(), default=0)
        self._time_writes()
        self.until: dict[int, float] = {}
        self.costly: dict[int, bool] = {}
        for node in self.graph.nodes:
            below = [self.until[id(arg)] for arg in node.args if id(node) not in self.barriers]
            own = self._overwritten(node)
            self.until[id(node)] = min([own, *below])
            self.costly[id(node)] = node.op.heavy or node.op.reduction or any(
                self.costly[id(arg)] for arg in node.args
            )

    def _find_memory(self) -> None:
        """Nodes that are what an array holds after so many of its writes."""
        for node in self.graph.nodes:
            if node.op.is_input and node.payload.name in self.writes:
                self.memory[id(node)] = (node.payload.name, 0)
            elif node.op.is_update and id(node.args[0]) in self.memory:
                name, count = self.memory[id(node.args[0])]
                if count < len(self.writes[name]):
                    output, box = self.writes[name][count]
                    if self.graph.outputs[output] is node.args[1] and box == node.payload:
                        self.memory[id(node)] = (name, count + 1)

    def _read_elsewhere(self) -> Iterator[Node]:
        """Yield updates of arrays that are read at places where they did not write."""
        for node in self.graph.nodes:
            for arg in node.args:
                if arg.op.is_update and id(arg) in self.memory and not node.op.is_update:
                    seen = None
                    if node.op.structure:
                        seen = seen_of_box(full_box(arg.shape), (node.payload,), arg.shape)
                    box = seen.box if seen is not None else None
                    whole = box == full_box(arg.shape) or not node.op.structure
                    if whole:
                        continue
                    if box is None or not self._within(arg, box):
                        yield arg

    def _within(self, update: Node, box: Sequence[tuple[dims.Dim, dims.Dim, int]]) -> bool:
        """Whether a box lies in what an update writes."""
        bounds = self.bounds
        spans = tuple(
            (length_facts.simplify(low, bounds), length_facts.simplify(high, bounds), step)
            for low, high, step in box
        )
        return slice_updates.contains(update.payload.box, spans, self.bounds)

    def _time_writes(self) -> None:
        """The phase that does each write: after all that reads what was there, or with it."""
        self.when: dict[str, list[int]] = {}
        nodes = self.graph.nodes
        for name, writes in self.writes.items():
            versions = {key: count for key, (array, count) in self.memory.items() if array == name}
            read = [
                (versions[id(arg)], self.phase[id(node)]) for node in nodes for arg in node.args
                if id(arg) in versions and id(node) not in self.barriers
            ]  # fmt: skip
            times: list[int] = []
            for place, (output, _) in enumerate(writes):
                after = [self.phase[key] - 1 for key, count in versions.items()
                         if key in self.barriers and count > place]  # fmt: skip
                value = self.phase[id(self.graph.outputs[output])]
                readers = [phase for count, phase in read if count <= place]
                times.append(min(after) if after else max([value, *readers, *times]))
            self.when[name] = times

    def _overwritten(self, node: Node) -> float:
        """The last phase that finds a version of an array in it; any phase for other nodes."""
        if id(node) not in self.memory:
            return math.inf
        name, count = self.memory[id(node)]
        if count and id(node) not in self.barriers:
            return math.inf  # computed from what is below it
        times = self.when[name]
        return times[count] if count < len(times) else math.inf

    # -- building ---------------------------------------------------------------------------

    def phases(self) -> tuple[PhaseGraph, ...]:
        """The phases, in order.

        Raises:
            _Undivided: a later one needs what an earlier one has overwritten.
        """
        outputs = self.graph.outputs
        kept: list[dict[int, Node]] = [{} for _ in range(self.last + 1)]
        self.names: dict[int, str] = {}
        for text in self.region.results:
            if (number := _output(text)) is not None:
                self.names[id(outputs[number])] = value_name(self.region, number)
                kept[self.phase[id(outputs[number])]][id(outputs[number])] = outputs[number]
        self.next = int(value_name(self.region, len(outputs))[1:])
        written: list[list[tuple[str, int, Box | None]]] = [[] for _ in kept]
        for name, writes in self.writes.items():
            for (output, box), time in zip(writes, self.when[name], strict=True):
                written[time].append((name, output, box))
        order = [(place, output) for place, output, _ in self.region.writes]
        names = self.region.names
        for each in written:
            each.sort(key=lambda write: order.index((names.index(write[0]), write[1])))
        self.kept = kept
        found = [self._phase(q, written[q]) for q in reversed(range(self.last + 1))]
        if sum(len(each) for each in kept) > _KEPT + len(self.region.results):
            raise _Undivided
        return tuple(found[::-1])

    def _phase(self, number: int, writes: Sequence[tuple[str, int, Box | None]]) -> PhaseGraph:
        """One phase; what it needs of earlier ones is noted for them."""
        values = [self.graph.outputs[output] for _, output, _ in writes]
        wanted = list({id(n): n for n in (*self.kept[number].values(), *values)}.values())
        new: dict[int, Node] = {}
        parts: list[Seen] = []
        touched = {name for name, _, _ in writes} - _moved_arrays(self.graph, writes)
        stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(wanted)]
        lines: dict[int, str] = {}
        while stack:
            node, ready = stack.pop()
            if id(node) in new:
                continue
            if self._is_given(node, number):
                new[id(node)] = make_input(self._name(node), node.dtype, node.shape)
                continue
            if touched and (seen := self._part(node, number)) is not None:
                name, base, chain = f"x{self.next}", *seen
                self.next += 1
                new[id(node)] = make_input(name, node.dtype, node.shape)
                parts.append((name, base, chain, base in touched))
                continue
            if not ready and node.args:
                stack.append((node, True))
                stack.extend((arg, False) for arg in reversed(node.args))
                continue
            args = tuple(new[id(arg)] for arg in node.args)
            made = new[id(node)] = intern(node.op, args, node.shape, node.dtype, node.payload)
            if line := self.graph.line_of(node):
                lines.setdefault(id(made), line)
        outputs, stored, done = _laid_out(
            [(self.names[key], new[key]) for key in self.kept[number]],
            [
                (name, new[id(value)], box)
                for (name, _, box), value in zip(writes, values, strict=True)
            ],
        )
        written = {name for name, _, _ in writes} - _moved_arrays(self.graph, writes)
        graph = self._graph(outputs, list(new.values()), written, lines)
        return PhaseGraph(graph, stored, done, (), tuple(parts))

    def _part(self, node: Node, number: int) -> tuple[str, Chain] | None:
        """The array that a node is a part of, where numbers of the iteration say which part."""
        moving = self.graph.scalar_lengths.keys()
        if not node.op.structure or moving.isdisjoint(node.payload.symbols):
            return None
        if not moving.isdisjoint(s for dim in node.shape for s in dims.symbols(dim)):
            return None
        chain: list[View] = []
        while isinstance(node.payload, (Part, Index, Transpose)):
            chain.insert(0, node.payload)
            (node,) = node.args
            if (node.op.is_input or id(node) in self.barriers) and self._is_given(node, number):
                return self._name(node), tuple(chain)
        return None

    def _is_given(self, node: Node, number: int) -> bool:
        """Whether a phase finds a value; it is kept for it where it has to be.

        Raises:
            _Undivided: it is gone by then.
        """
        if node.op.is_input or id(node) in self.barriers:
            if self.phase[id(node)] <= number <= self.until[id(node)]:
                return True
            if node.op.is_input or self.phase[id(node)] <= number:
                raise _Undivided
        own = self.phase[id(node)]
        if own >= number or node.op.is_scalar or node.op.is_constant:
            return False
        if self.until[id(node)] >= number and not self.costly[id(node)]:
            return False
        if self.until[id(node)] < own:
            raise _Undivided
        self.kept[own][id(node)] = node
        return True

    def _name(self, node: Node) -> str:
        """The name of a value that phases find."""
        if node.op.is_input:
            return str(node.payload.name)
        if id(node) in self.barriers and id(node) not in self.names:
            return self.memory[id(node)][0]
        if id(node) not in self.names:
            self.names[id(node)] = f"x{self.next}"
            self.next += 1
        return self.names[id(node)]

    def _graph(
        self, outputs: Sequence[Node], nodes: Sequence[Node], written: Set[str],
        lines: Mapping[int, str],
    ) -> Graph:  # fmt: skip
        """The graph of a phase: arrays that it reads or writes, and those that tell its lengths."""
        graph = self.graph
        arrays = {p.name: p for p in graph.parameters if p.dtype is not None}
        used = {
            node.payload.name: Parameter(node.payload.name, node.dtype, node.shape)
            for node in nodes if node.op.is_input
        }  # fmt: skip
        used |= {name: arrays[name] for name in written}
        if not used:  # some array has to say which device it is
            used = dict(list(arrays.items())[:1])
        told = {s for p in used.values() for s in p.binds} | graph.scalar_lengths.keys()
        for symbol in lengths_of(nodes):
            if symbol not in told:
                teller = next((p for p in arrays.values() if symbol in p.binds), None)
                if teller is None:
                    raise _Undivided
                used[teller.name] = teller
                told |= set(teller.binds)
        spoken = {name for node in nodes for name in node.payload.symbols} | {*lengths_of(nodes)}
        spoken |= {
            name for symbol, length in graph.scalar_lengths.items() if symbol in spoken
            for name in dims.symbols(length)
        }  # fmt: skip
        told |= spoken
        numbers = [p for p in graph.parameters if p.dtype is None and p.name in spoken]
        ordered = sorted(used.values(), key=lambda p: int(p.name[1:]))
        told -= graph.scalar_lengths.keys() - spoken
        guards = tuple(
            pair for pair in graph.guards if all(s in told for d in pair for s in dims.symbols(d))
        )
        titles = dict(zip((p.name for p in graph.parameters), graph.names, strict=False))
        parameters = (*ordered, *numbers)
        shown = tuple(titles.get(p.name, p.name) for p in parameters)
        return Graph(parameters, tuple(outputs), guards, shown, lines)
