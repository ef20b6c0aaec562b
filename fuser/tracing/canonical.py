"""The canonical graph of a trace: symbols named in order, equal lengths merged."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base.errors import ShapeError, Unsupported
from fuser.base.host_expressions import rename_scalars
from fuser.base.records import changed
from fuser.ir import dims, infer
from fuser.ir.attributes import Axes, Box, Cast, Region, full_box
from fuser.ir.dims import Dim
from fuser.ir.graph import (
    Graph,
    Node,
    Parameter,
    make,
    make_constant,
    make_input,
    make_scalar,
    rebuild,
    walk,
)
from fuser.ir.graph import intern as intern_node
from fuser.ir.views import Broadcast, Part
from fuser.tracing.admitted_dtypes import check_dtype
from fuser.tracing.memory_views import Contiguous
from fuser.tracing.trace_result import (
    OutAlias,
    OutNode,
    OutPython,
    OutScalar,
    OutStatic,
    OutView,
    Trace,
    Write,
)
from fuser.tracing.trace_state import Tracing

if TYPE_CHECKING:
    from fuser.passes import length_facts


def canonical(
    tracing: Tracing,
    structure: Any,
    leaves: list[Any],
    nodes: list[Node],
    writes: list[Write],
) -> Trace:
    """Rename symbols in order of appearance and rebuild all nodes with equal lengths merged."""
    order = _interleave(tracing, _used(tracing, leaves, nodes))
    arrays = [a for place, a in enumerate(tracing.arguments) if place in order]
    resolved = [tuple(map(tracing.resolve, a.initial.shape)) for a in arrays]
    names: dict[str, Dim] = {}
    known = {symbol for shape in resolved for dim in shape for symbol in dims.symbols(dim)}
    resolved += [tuple(map(tracing.resolve, node.shape)) for node, _ in tracing.externs.values()]
    given = [tuple(map(tracing.resolve, tracing.told.values()))]
    known |= {symbol for dim in given[0] for symbol in dims.symbols(dim)}
    for shape in resolved + given:
        for dim in shape:
            for symbol in dims.symbols(dim):
                names.setdefault(symbol, dims.symbol(f"n{len(names)}"))
    full = {
        name: dims.substitute(tracing.resolve(dims.symbol(name)), names) for name in tracing.sizes
    }
    guards = [(dims.substitute(a, full), dims.substitute(b, full)) for a, b in tracing.guards]
    told = {str(names[symbol]) for symbol in known}
    guards = [_early_first(pair, told) for pair in dict.fromkeys(guards) if pair[0] != pair[1]]
    guards.sort(key=lambda pair: not told.isdisjoint(s for dim in pair for s in dims.symbols(dim)))
    equal = dims.representatives(guards)
    lines: dict[int, str] = {}

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        try:
            new = _renamed(node, args, full, equal)
        except ShapeError as error:  # NumPy took these shapes: lengths not seen to be equal
            raise Unsupported("not-traceable", node.op.name, str(error), "") from None
        if id(node) in tracing.lines:
            lines.setdefault(id(new), tracing.lines[id(node)])
        return new

    outputs = rebuild(nodes, change)
    parameters, parameter_leaves, captured = _parameters(tracing, full, order)
    shown = tuple(_shown(tracing, parameter_leaves))
    graph = Graph(
        tuple(parameters), tuple(outputs), tuple(guards), shown, lines, tuple(captured)
    )
    value_guards = tuple(
        (rename_scalars(text, full), value) for text, value in tracing.value_guards.items()
    )
    hints = {
        str(full[name]): size
        for name, size in tracing.sizes.items()
        if name not in known and full[name] == names.get(name)
    }
    place_of = {place: new for new, place in enumerate(order)}
    title = {place: parameters[new].name for place, new in place_of.items()}
    apart = [sorted(pair) for pair in tracing.hazards if title.keys() >= set(pair)]
    renamed = {id(leaf): _renamed_leaf(leaf, full, place_of) for leaf in leaves}
    leaves = [renamed[id(leaf)] for leaf in leaves]
    return Trace(
        graph,
        structure,
        tuple(leaves),
        tuple(
            (place_of[place], output, region and region.renamed(full))
            for place, output, region in writes
        ),
        value_guards,
        tuple(parameter_leaves),
        tuple(dict.fromkeys((title[one], title[other]) for one, other in apart)),
        hints,
        tuple(tracing.arguments[place].initial.payload.name for place in tracing.in_order),
        tuple(tracing.named_arguments.values()) if tracing.by_identity else None,
        tuple(
            (rename_scalars(text, full), *decided) for text, decided in tracing.decisions.items()
        ),
        guards_before=tracing.guards_before,
    )


def _renamed_leaf(leaf: Any, names: dict[str, Dim], place_of: Mapping[int, int]) -> Any:
    """One output with its lengths, numbers and parameter renamed."""
    if isinstance(leaf, OutScalar):
        return changed(leaf, text=rename_scalars(leaf.text, names))
    if not isinstance(leaf, (OutAlias, OutView)):
        return leaf
    views = tuple(view.renamed(names) for view in leaf.views)
    if isinstance(leaf, OutAlias):
        return OutAlias(place_of[leaf.parameter], views)
    return changed(leaf, views=views)


def _early_first(pair: tuple[Dim, Dim], known: set[str]) -> tuple[Dim, Dim]:
    """Two equal lengths: one that arguments tell before one that only a call between kernels does.

    The first stands for both: what is computed before the call must not be spelled by its lengths.
    Pairs of the second kind alone come before all others, so that none of them stands for a class.
    """
    left, right = (known.issuperset(dims.symbols(dim)) for dim in pair)
    return pair[::-1] if right and not left else pair


def whole_graph(trace: Trace) -> Graph:
    """The trace as one graph: every array that the function returns, then what it writes.

    Calls need less: arguments that are returned, and views, are no kernel's work. A returned
    Python number becomes a 0-d array; what else is returned (None, text) is no array.
    """
    graph = trace.graph
    inputs = {p.name: make_input(p.name, p.dtype, p.shape) for p in graph.parameters if p.dtype}
    outputs: list[Node] = []
    for leaf in trace.leaves:
        if isinstance(leaf, (OutNode, OutPython)):
            outputs.append(graph.outputs[leaf.index])
        elif isinstance(leaf, OutScalar):
            outputs.append(make_scalar(leaf.text, np.dtype(leaf.kind)))
        elif isinstance(leaf, (OutView, OutAlias)):
            node = (
                graph.outputs[leaf.index]
                if isinstance(leaf, OutView)
                else inputs[graph.parameters[leaf.parameter].name]
            )
            for view in leaf.views:
                if isinstance(view, Contiguous):
                    node = make("cast", node, payload=Cast(node.dtype, "C"))
                else:
                    node = make(view.op, node, payload=view.attribute, equal=graph.equal)
            outputs.append(node)
        elif isinstance(leaf.value, (bool, int, float, np.generic)):
            dtype = infer.dtype_of(np.asarray(leaf.value).dtype)
            check_dtype(dtype, "returned value")
            outputs.append(make_constant(leaf.value, dtype))
    written: dict[int, Node] = {}
    for parameter, output, region in trace.writes:
        node = graph.outputs[output]
        if region is not None:
            old = written.get(parameter, inputs[graph.parameters[parameter].name])
            node = make("update", old, node, payload=region)
        written[parameter] = node
    outputs += list(written.values())
    return graph.with_outputs(_told(graph, outputs))


def _told(graph: Graph, outputs: Sequence[Node]) -> list[Node]:
    """Outputs that need the calls which tell their lengths, where nothing else needs those.

    Such an output is written over all of a value of the call, of which no kernel computes a thing.
    """
    known = {s for p in graph.parameters for dim in p.shape for s in dims.symbols(dim)}
    tellers: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op.is_opaque and node.dtype.kind in "biuf":
            for symbol in (s for dim in node.shape for s in dims.symbols(dim)):
                tellers.setdefault(symbol, node)
    found = list(outputs)
    for place, output in enumerate(outputs) if tellers else ():
        needed = walk([output]) if output.dtype.kind in "biuf" else ()
        told = set(lengths_of([node for node in needed if node.op.is_opaque]))
        for symbol in lengths_of(needed):
            if symbol not in known | told and symbol in tellers:
                call = tellers[symbol]
                axes = Axes(tuple(range(len(call.shape))))
                old = make("sum", make("cast", call, payload=Cast(np.dtype("int64"))), payload=axes)
                old = make("cast", old, payload=Cast(output.dtype))
                old = make("broadcast_to", old, payload=Broadcast(output.shape))
                whole = Region(full_box(output.shape))
                found[place] = make("update", old, found[place], payload=whole)
                told.update(lengths_of([call]))
    return found


def lengths_of(nodes: Iterable[Node]) -> list[str]:
    """The symbolic lengths in the shapes and attributes of nodes, each once."""
    found: dict[str, None] = {}
    for node in nodes:
        for dim in node.shape:
            found.update(dict.fromkeys(dims.symbols(dim)))
        if not (node.op.is_input or node.op.is_opaque):
            names = node.payload.symbols
            found.update(dict.fromkeys(name for name in names if name.startswith("n")))
    return list(found)


def _used(tracing: Tracing, leaves: Sequence[Any], nodes: Sequence[Node]) -> set[int]:
    """Captured arrays by their place, but for those that nothing depends on.

    Of many in a container, a function may use few.
    """
    if not tracing.spare:
        return set(range(len(tracing.arguments)))
    needed = walk(nodes)
    inputs = {id(node) for node in needed}
    shown = [(node.shape, node.text) for node in needed if not node.op.is_input]
    told = [leaf for leaf in leaves if not isinstance(leaf, OutStatic)]  # the user's own are not
    text = repr((told, shown, tracing.guards, list(tracing.value_guards)))
    lengths = set(re.findall(r"\bn\d+\b", text))
    for symbol in tracing.sizes:  # one length may be spelled by another's symbol
        lengths |= {*dims.symbols(tracing.resolve(dims.symbol(symbol)))} - {symbol}
    used = {leaf.parameter for leaf in leaves if isinstance(leaf, OutAlias)} | {*tracing.in_order}
    for place, argument in enumerate(tracing.arguments):
        own = {symbol for dim in argument.initial.shape for symbol in dims.symbols(dim)}
        spare = id(argument.array) in tracing.spare
        if not spare or id(argument.initial) in inputs or not lengths.isdisjoint(own):
            used.add(place)
    return used


def _interleave(tracing: Tracing, used: Collection[int]) -> list[int]:
    """Order of parameters: arguments and scalars by leaf, then captured arrays that are used.

    Array k is entry k; scalar k is entry -1 - k.
    """
    arrays = [(a.leaf, k) for k, a in enumerate(tracing.arguments) if a.leaf is not None]
    numbers = [(leaf, -1 - k) for k, (_, leaf) in enumerate(tracing.scalars)]
    hidden = [k for k, a in enumerate(tracing.arguments) if a.leaf is None and k in used]
    return [place for _, place in sorted([*arrays, *numbers])] + hidden


def _shown(tracing: Tracing, leaves: Sequence[int | None]) -> Iterator[str]:
    """What parameters are called; captured arrays have no leaf, and a number from the second on."""
    count = 0
    for leaf in leaves:
        if leaf is not None:
            yield tracing.names[leaf]
            continue
        count += 1
        yield "captured array" if count == 1 else f"captured array {count}"


def _parameters(
    tracing: Tracing, names: dict[str, Dim], order: Sequence[int]
) -> tuple[list[Parameter], list[int | None], list[Any]]:
    """The graph's parameters, the argument leaf of each, and the captured arrays."""
    parameters: list[Parameter] = []
    leaves: list[int | None] = []
    captured: list[Any] = []
    for place in order:
        if place < 0:
            scalar, leaf = tracing.scalars[-1 - place]
            parameters.append(Parameter(scalar.text, None, (), scalar.kind.__name__))
            leaves.append(leaf)
            continue
        argument = tracing.arguments[place]
        node = argument.initial
        shape = tuple(dims.substitute(dim, names) for dim in node.shape)
        hidden = argument.leaf is None
        parameters.append(Parameter(node.payload.name, node.dtype, shape, "", hidden))
        leaves.append(argument.leaf)
        if hidden:
            captured.append(argument.array)
    return parameters, leaves, captured


def _renamed(
    node: Node, args: tuple[Node, ...], names: dict[str, Dim], equal: dict[str, Dim]
) -> Node:
    """One node with its lengths renamed."""
    row, payload = node.op, node.payload.renamed(names)
    if row.is_opaque or row.given:
        shape = tuple(dims.substitute(dim, names) for dim in node.shape)
        return intern_node(row, args, shape, node.dtype, payload)
    return make(row.name, *args, payload=payload, equal=equal)


def written(tracing: Tracing, argument: Any) -> list[tuple[Region | None, Node]]:
    """What was written into an argument, and where, in order, but for what was overwritten."""
    from fuser.passes import length_facts

    found: dict[Region, Node] = {}
    node = argument.storage.node
    full = tuple(tracing.resolve(dim) for dim in node.shape)
    while node is not argument.initial and node.op.is_update:
        region = node.payload.changed(tracing.resolve)
        found.setdefault(region, node.args[1])
        if region.is_full(full):  # nothing is seen of earlier writes
            break
        node = node.args[0]
    else:
        if node is not argument.initial:
            return [(None, argument.storage.node)]
    final = argument.storage.node
    if final.op.is_update:
        found = _without_contained(found, final, length_facts.lower_bounds(tracing.guards))
    return [(region if region.box else None, value) for region, value in found.items()][::-1]


def _without_contained(
    found: dict[Region, Node], final: Node, bounds: length_facts.Bounds
) -> dict[Region, Node]:
    """Writes, the last one first, but for those of which later ones leave nothing.

    Those that lie in one before them are written by that one, where all that come after it lie in
    it, or surely have no element in common with it.
    """
    from fuser.passes import length_facts, slice_updates

    regions = list(found)
    kept: dict[Region, Node] = {}
    gone: set[Region] = set()
    for place, region in enumerate(regions):
        value, later = found[region], regions[:place]
        if _is_covered(region.box, [other.box for other in later], bounds):
            continue
        inside = [
            other for other in later if slice_updates.contains(region.box, other.box, bounds)
        ]
        apart = [
            other for other in later if length_facts.apart(region.box, other.box, bounds)
        ]
        if inside and {*inside, *apart} == set(later):
            gone.update(inside)
            value = final
            for axis, (start, stop, _) in enumerate(region.box):
                if (start, stop) != (0, final.shape[axis]):
                    value = make("part", value, payload=Part(axis, start, stop))
        kept[region] = value
    return {region: value for region, value in kept.items() if region not in gone}


def _is_covered(box: Box, others: Sequence[Box], bounds: length_facts.Bounds) -> bool:
    """Whether boxes surely have all places of one: one of them, or some beside each other."""
    from fuser.passes import length_facts, slice_updates

    for axis, (start, stop, _) in enumerate(box):
        spans = [
            other[axis] for other in others
            if slice_updates.contains(
                (*other[:axis], (start, stop, 1), *other[axis + 1 :]), box, bounds
            )
        ]  # fmt: skip
        reached, before = start, None
        while spans and reached != before:
            before = reached
            for first, last, step in spans:
                begun = length_facts.at_most(first, reached, bounds) and step == 1
                if begun and length_facts.at_most(reached, last, bounds):
                    reached = last
            if length_facts.at_most(stop, reached, bounds):
                return True
    return False
