"""Loop interchange: all iterations of a loop run for one block of elements after another.

A loop over steps runs kernels that pass through whole arrays, once for each iteration. Where an
element of what an iteration leaves depends on that element alone of what it finds, the loops may
change places: the outer one goes over blocks of elements, the inner one over iterations, and what
goes around stays in registers. Each element goes through the same operations in the same order, so
results have the same bits.

What is heavy (an exponential) takes longer than memory, and several blocks in turn keep units
busier than one: there loops stay as they are. Else it is done where it is legal, which is where

- an iteration is one loop nest that reads and writes element by element: no reduction, and no view
  of what goes around. What all iterations read may be seen in any way, also where the index says;
- no number but the index changes. What it says is its own value, sums, products, quotients,
  remainders and comparisons of it and constants, and which element of an array all elements read.
  (With a row for each iteration, memory would be read in another order.)
- the loop goes through its range, or ends where no element holds a condition any more, or where all
  do, of which an iteration asks before it changes anything. Then blocks end by themselves, which
  tells nobody: where an element is done, an iteration leaves it as it found it. That is what
  the rewrite rules have to find, given that the condition does not hold.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fuser import compiler, kernel_cache
from fuser.backend import Backend
from fuser.base import host_expressions
from fuser.base.records import changed, record
from fuser.ir import dims
from fuser.ir.attributes import Cast
from fuser.ir.dims import Dim
from fuser.ir.graph import (
    Graph,
    Node,
    Parameter,
    constant_value,
    intern,
    make,
    make_constant,
    make_input,
    make_scalar,
    rebuild,
)
from fuser.ir.loops import STATED, Leaving, Region
from fuser.ir.ops import COMPARISONS, OPERATORS
from fuser.ir.views import Part
from fuser.kernel_spec import KernelSpec
from fuser.passes.rewrite import rewrite
from fuser.program_spec import Interchange, LoopRegion, Phase
from fuser.programs.phases import value_name
from fuser.scheduling.plans import Plan, Repeat

#: Floats count exactly to twice as many.
_MOST_INDEX = 1 << 52
#: What computes numbers has as much room.
_MOST_NUMBER = 1 << 62


@record
class _Condition:
    """A reduction of truths that says when a loop ends.

    Attributes:
        node: the reduction.
        going: what it is where the loop goes on: True of any, False of all.
    """

    node: Node
    going: bool

    @property
    def elements(self) -> Node:
        """The truths: an element that has `going` goes on."""
        return self.node.args[0]


def interchanged(step: LoopRegion, backend: Backend) -> LoopRegion:
    """A loop as one kernel that runs all iterations, where that is legal; else as it is.

    Args:
        step: the loop, planned for the backend.
        backend: what runs it.
    """
    (phase, *more), region = step.phases, step.region
    span = step.nodes[0].payload.args[STATED]
    if (
        more or not isinstance(phase.body, KernelSpec) or phase.body.options.mode != "fused"
        or phase.writes or phase.parts or phase.twins or region.updates
        or not all(_always(text, value, region.index) for text, value in region.guards)
        or any(box is not None or view is not None for _, _, box, view in phase.moved)
        or region.leaving.tests or region.leaving.counted or type(span[2]) is not int
    ):  # fmt: skip
        return step
    made = _Body(region, phase, phase.body, span[2]).made(backend)
    if made is None:
        return step
    phases, interchange = made
    return changed(step, phases=phases, interchange=interchange, runners={})


def once(region: Region) -> Region:
    """An interchanged loop as a region of one iteration, which the kernel repeats."""
    taken = len(region.graph.outputs)
    results = [str(taken + place) if text in region.names else text
               for place, text in enumerate(region.results)]  # fmt: skip
    if region.leaving.result >= 0:
        results[region.leaving.result] = ""
    leaving = Leaving(least=region.leaving.least)
    return changed(region, results=tuple(results), leaving=leaving)


class _Body:
    """An iteration, as what a kernel repeats."""

    def __init__(self, region: Region, phase: Phase, spec: KernelSpec, step: int) -> None:
        """Prepare; `step`: by how much the index rises."""
        self.region, self.phase, self.spec = region, phase, spec
        self.graph = _with_numbers(spec.graph, region.index)
        self.step = step
        self.handed_on: dict[str, Node] = {}  # what the next iteration finds elsewhere, by name
        told = self.graph.scalar_lengths.items()
        rises = {name: dims.rise(dim, {region.index: step}) for name, dim in told}
        self.rises = {name: rise for name, rise in rises.items() if rise}

    def made(self, backend: Backend) -> tuple[tuple[Phase, ...], Interchange] | None:
        """The phases of the loop, and how they are run; None where it is not legal."""
        after = self._after()
        condition = self._condition() if self.region.leaving.result >= 0 else None
        if after is None or (self.region.leaving.result >= 0 and condition is None):
            return None
        stored = dict(zip(self.phase.stored, self.graph.outputs, strict=True)) | self.handed_on
        names = [name for name in stored if name in after.values()]
        outputs = [stored[name] for name in names]
        if condition is not None:
            if not self._stays(dict(zip(names, outputs, strict=True)), after, condition):
                return None
            outputs = _assumed(self.graph, outputs, {condition.node: condition.going})
            elements = condition.elements
            outputs.append(elements if condition.going else make("logical_not", elements))
        shapes, ends = {node.shape for node in outputs}, self._ends()
        if len(shapes) != 1 or () in shapes or ends is None or not self._is_local(outputs, after):
            return None
        return self._planned(backend, outputs, names, after, condition, ends)

    def _after(self) -> dict[str, str] | None:
        """What the next iteration finds of each carried array; what stays the same is left out."""
        region, moved = self.region, {name: value for name, value, _, _ in self.phase.moved}
        arrays = {p.name: p for p in self.graph.parameters if p.dtype is not None}
        after: dict[str, str] = {}
        for place, text in enumerate(region.results):
            if place == region.leaving.result or (not text and place >= region.carried):
                continue
            if text.endswith("[()]") or place >= region.carried:
                return None  # numbers, and what only the last one leaves
            name = region.names[place]
            if text in region.names:
                if not self._ends_new(place) or text not in arrays or moved:
                    return None
                after[name] = value_name(region, len(region.graph.outputs) + place)
                given = arrays[text]
                self.handed_on[after[name]] = make_input(text, given.dtype, given.shape)
            elif text or name in moved:
                after[name] = value_name(region, int(text)) if text else moved[name]
        return after if len(moved.keys() - after.keys()) == 0 else None

    def _ends_new(self, place: int) -> bool:
        """Whether arrays that change places come to hold what iterations compute."""
        region, seen = self.region, {place}
        while (text := region.results[place]) in region.names[: region.carried]:
            place = region.names.index(text)
            if place in seen:
                return False
            seen.add(place)
        return text.isdigit()

    def _is_local(self, outputs: Sequence[Node], after: Mapping[str, str]) -> bool:
        """Whether elements of what is left depend on those at their places of what goes around."""
        shape, rising = outputs[0].shape, {*self.rises, self.region.index}
        around: dict[int, bool] = {}
        seen: dict[int, bool] = {}  # views that the index moves
        for node in Graph((), tuple(outputs)).nodes:
            if node.op.is_opaque or node.op.is_update or node.op.joins:
                return False
            around[id(node)] = any(around[id(arg)] for arg in node.args) or (
                node.op.is_input and node.payload.name in after
            )
            if around[id(node)]:
                if not (node.op.is_input or node.op.is_elementwise) or node.shape != shape:
                    return False
            elif node.op.reduction or node.op.moves_apart:
                return False
            speaks = not rising.isdisjoint(node.payload.symbols)
            seen[id(node)] = node.op.is_view and (speaks or any(seen[id(a)] for a in node.args))
            if speaks and not (node.op.is_view or self._is_index(node)):
                return False
            if not node.op.is_view and any(seen[id(a)] and {*a.shape} - {1} for a in node.args):
                return False
        return not any(seen[id(node)] for node in outputs)

    def _is_index(self, node: Node) -> bool:
        """Whether a node is the index itself, which kernels can count."""
        if not (node.op.is_scalar and node.payload.expression == self.region.index):
            return False
        return node.dtype in (np.dtype(np.int64), np.dtype(np.float64))

    def _condition(self) -> _Condition | None:
        """The reduction of truths that ends the loop, if one does."""
        graph = self.graph
        place = self.phase.stored.index(value_name(
            self.region, int(self.region.results[self.region.leaving.result].removesuffix("[()]"))
        ))  # fmt: skip
        for node in graph.nodes:
            if node.op.reduction and node.dtype == np.dtype(bool) and not node.shape:
                for going in (True, False):
                    ends = [_assumed(graph, [graph.outputs[place]], {node: known})[0]
                            for known in (going, not going)]  # fmt: skip
                    if [_truth(end) for end in ends] == [True, False] and node.op.selects:
                        if node.op.greatest == going and node.args[0].dtype == node.dtype:
                            return _Condition(node, going)
        return None

    def _stays(
        self, left: Mapping[str, Node], after: Mapping[str, str], condition: _Condition
    ) -> bool:
        """Whether an iteration leaves elements that are done as it finds them.

        Those are elements of blocks that have ended, and all of them when the loop ends.

        Args:
            left: what an iteration leaves, by name.
            after: the names of what the next one finds.
            condition: when the loop ends.
        """
        for going in (True, False):
            known = {condition.elements: not condition.going, condition.node: going}
            found = _assumed(self.graph, list(left.values()), known)
            node_of = dict(zip(left, found, strict=True))
            for name, value in after.items():
                node = node_of[value]
                if not (node.op.is_input and node.payload.name == name):
                    return False
        return True

    def _ends(self) -> tuple[tuple[Dim, Dim], ...] | None:
        """Pairs of lengths, of which the left must not be larger in the last iteration.

        None where the index says more than where arrays are read.
        """
        found: list[tuple[Dim, Dim]] = [(0, dims.symbol(name)) for name in self.rises]
        index = dims.symbol(self.region.index)
        found += [(index, _MOST_INDEX), (-_MOST_INDEX, index)]
        for node in self.graph.nodes:
            spoken = {s for dim in node.shape for s in dims.symbols(dim)}
            if not spoken.isdisjoint(self.rises):
                return None
            used = self.rises.keys() & (set() if node.op.is_scalar else set(node.payload.symbols))
            if not used:
                continue
            view = node.payload
            if not isinstance(view, Part) or not all(map(self._is_sum, (view.start, view.stop))):
                return None
            if dims.rise(view.start, self.rises) != dims.rise(view.stop, self.rises):
                return None
            found += [(0, view.start), (view.stop, node.args[0].shape[view.axis])]
        return tuple(found)

    def _is_sum(self, dim: Dim) -> bool:
        """Whether a length is a sum in which the loop's index stands in no product or quotient."""
        return all(
            names in [(name,) for name in self.rises] or self.rises.keys().isdisjoint(
                s for name in names for s in dims.symbols(dims.parse(name))
            )
            for names, _ in dims.terms_of(dim)
        )  # fmt: skip

    def _planned(
        self, backend: Backend, outputs: Sequence[Node], names: Sequence[str],
        after: Mapping[str, str], condition: _Condition | None, ends: tuple[tuple[Dim, Dim], ...],
    ) -> tuple[tuple[Phase, ...], Interchange] | None:  # fmt: skip
        """The kernels, if an iteration is one loop nest."""
        graph, options = self.graph, self.spec.options
        body = compiler.planned(
            compiler.compile_upfront(graph.with_outputs(outputs), options), backend
        )
        numbers = [self.region.index, *(n for n in self.region.names if n.startswith("s"))]
        spoken = [name for node in graph.nodes for d in node.shape for name in dims.symbols(d)]
        spoken += [*graph.scalar_lengths]
        spoken += [s for p in graph.parameters for d in p.shape for s in dims.symbols(d)]
        lengths = [int(name[1:]) for name in spoken if name[1:].isdigit()]
        trips = f"s{1 + max(int(name[1:]) for name in numbers)}"
        symbol = f"n{1 + max(lengths, default=-1)}"
        goes_on = f"o{len(names)}" if condition is not None else ""
        pairs = tuple((name, f"o{names.index(value)}") for name, value in after.items())
        rises = tuple(self.rises.items())
        repeat = Repeat(symbol, self.region.index, self.step, pairs, rises, goes_on)
        if not _is_one_map(body.plan, repeat):
            return None
        graph, told = body.graph, (dims.symbol(symbol), dims.symbol(trips))
        parameters = (*graph.parameters, Parameter(trips, None, (), "int"))
        titles = (*graph.names, "iterations")
        graph = Graph(parameters, graph.outputs, (told, *graph.guards), titles, graph.lines)
        repeated = KernelSpec(
            kernel_cache.new_key(), graph.text, graph, options,
            changed(body.plan, repeat=repeat), body.applied, in_parts=body.in_parts,
        )  # fmt: skip
        stored = (*names, *[""] * (condition is not None))
        phases = [Phase(repeated, stored, (), self.phase.moved)]
        asked = None
        if condition is not None and self.region.leaving.least > 1:
            asked = "asked", condition.going
            (found,) = _assumed(self.graph, [condition.node], {})
            first = compiler.compile_upfront(self.graph.with_outputs([found]), options)
            phases.insert(0, Phase(compiler.planned(first, backend), ("asked",), ()))
        rises = (*rises, (self.region.index, self.step))
        ordered: bool | None = True if len(outputs[0].shape) == 1 else None
        if ordered is None and any(node.op.reorders for node in self.graph.nodes):
            ordered = False
        least = max(self.region.leaving.least, 1 + len(self.handed_on))  # all arrays are new then
        return tuple(phases), Interchange(trips, ends, rises, ordered, least, asked)


def _is_one_map(plan: Plan, repeat: Repeat) -> bool:
    """Whether a plan is one light loop nest, which reads what goes around as it stores it."""
    if len(plan.groups) != 1 or plan.temporaries or len(plan.groups[0].sections) != 1:
        return False
    (section,), left = plan.groups[0].sections, dict(repeat.carried)
    if section.axes or section.scatters or section.scan is not None:
        return False
    if any(step.node.op.heavy for step in section.steps):
        return False
    stored = {part for _, part in section.stores}
    around = [part for part in section.loads if part.buffer in left]
    return {part.buffer for part in around} == left.keys() and all(
        changed(part, buffer=left[part.buffer]) in stored for part in around
    )


class _Number(NamedTuple):
    """A number that the index tells: what computes it, and what it is at least and at most."""

    node: Node
    least: int
    most: int


def _with_numbers(graph: Graph, index: str) -> Graph:
    """A graph that computes the numbers that the index tells, of the index alone."""

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op.is_scalar and index in node.payload.symbols:
            found = _number(host_expressions.parsed(node.payload.expression, "a number"), index)
            limit = 1 << (63 if node.dtype.kind == "i" else 1 + np.finfo(node.dtype).nmant)
            if found is not None and -limit < found.least and found.most < limit:
                same = node.dtype == found.node.dtype
                return found.node if same else make("cast", found.node, payload=Cast(node.dtype))
        return intern(node.op, args, node.shape, node.dtype, node.payload)

    told = [n for n in graph.nodes if n.op.is_scalar and index in n.payload.symbols]
    if all(node.payload.expression == index for node in told):
        return graph
    return graph.with_outputs(rebuild(graph.outputs, change))


def _number(tree: ast.expr, index: str) -> _Number | None:
    """What an expression is for any index that floats count exactly; None for other expressions."""
    if isinstance(tree, ast.Name) and tree.id == index:
        return _Number(make_scalar(index, np.int64), -_MOST_INDEX, _MOST_INDEX)
    value = _constant(tree)
    if value is not None and abs(value) <= _MOST_NUMBER:
        return _Number(make_constant(value, np.int64), value, value)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _number(ast.BinOp(ast.Constant(0), ast.Sub(), tree.operand), index)
    if isinstance(tree, ast.BinOp):
        sides, row = (tree.left, tree.right), OPERATORS.get(type(tree.op))
    elif isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        sides, row = (tree.left, tree.comparators[0]), COMPARISONS.get(type(tree.ops[0]))
    else:
        return None
    left, right = (_number(side, index) for side in sides)
    if left is None or right is None or row is None:
        return None
    made = make(row, left.node, right.node)
    if made.dtype == np.dtype(bool):
        return _Number(make("cast", made, payload=Cast(np.dtype(np.int64))), 0, 1)
    if row in ("floor_divide", "remainder"):
        divisor = right.least
        if right.most != divisor or divisor < 1:
            return None
        ends = [left.least // divisor, left.most // divisor]
        ends = [0, divisor - 1] if row == "remainder" else ends
    elif row == "multiply":
        ends = [a * b for a in left[1:] for b in right[1:]]
    elif row == "add":
        ends = [left.least + right.least, left.most + right.most]
    elif row == "subtract":
        ends = [left.least - right.most, left.most - right.least]
    else:
        return None
    if max(map(abs, ends)) > _MOST_NUMBER:
        return None
    return _Number(made, min(ends), max(ends))


def _always(text: str, value: object, index: str) -> bool:
    """Whether a number that the index tells lies within limits for any index."""
    tree = host_expressions.parsed(text, "a guard")
    if value is not True or not isinstance(tree, ast.Compare) or len(tree.ops) != 2:
        return False
    number = _number(tree.comparators[0], index)
    if number is None or not all(isinstance(each, ast.LtE) for each in tree.ops):
        return False
    low, high = (_constant(end) for end in (tree.left, tree.comparators[1]))
    return low is not None and high is not None and low <= number.least <= number.most <= high


def _constant(tree: ast.expr) -> int | None:
    """The integer that an expression spells, if it spells one."""
    negative = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub)
    one = tree.operand if isinstance(tree, ast.UnaryOp) and negative else tree
    if not isinstance(one, ast.Constant) or type(one.value) is not int:
        return None
    return -one.value if negative else one.value


def _assumed(graph: Graph, outputs: Sequence[Node], known: Mapping[Node, bool]) -> list[Node]:
    """Outputs, rewritten, given that some truths are known."""
    constants = {id(node): make_constant(value, bool) for node, value in known.items()}

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        return constants.get(id(node)) or intern(
            node.op, args, node.shape, node.dtype, node.payload
        )

    found, _ = rewrite(graph.with_outputs(rebuild(outputs, change)))
    return list(found.outputs)


def _truth(node: Node) -> bool | None:
    """The truth that a node is known to be."""
    return bool(constant_value(node)) if node.op.is_constant else None
