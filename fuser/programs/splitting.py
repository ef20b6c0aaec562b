"""Graphs with functions that do not fuse: kernels before, between and after them.

A program is a list of steps: stages, each a graph of its own with its kernels, and graph breaks,
each a NumPy function that runs on values stored by the stages before it. A stage computes what the
next functions need; everything else is computed where it is used, so it fuses with its consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fuser import compiler
from fuser.base import budget
from fuser.compiler import compile_upfront
from fuser.ir import dims, opaque_calls
from fuser.ir.graph import (
    Graph,
    Node,
    Parameter,
    constant_value,
    intern,
    make_input,
    walk,
)
from fuser.ir.labels import labels_of, named_line
from fuser.ir.views import Chain, View
from fuser.kernel_spec import KernelSpec, Options
from fuser.program_spec import (
    Asked,
    Between,
    ElementLoop,
    GraphBreak,
    LoopRegion,
    Phase,
    Program,
    Stage,
    Step,
)
from fuser.tracing.canonical import lengths_of

#: The number of the first value that a program stores where decisions make it one path of several.
FIRST_STORED = 1000


def common_steps(other: Program, graph: Graph) -> int:
    """How many steps of another path stand before the decision where a graph parts from it."""
    calls = {call[0].payload.number: call for call in opaque_calls.calls_of(graph)}
    parameters = {parameter.name: parameter for parameter in graph.parameters}
    theirs = {parameter.name: parameter for parameter in other.graph.parameters}
    waiting = iter(calls)
    for place, step in enumerate(other.steps):
        if isinstance(step, Stage):
            needed = [p.name for p in step.spec.graph.parameters]
            if not set(step.spec.graph.guards) <= set(graph.guards):
                return 0
        else:
            ours = calls.get(step.nodes[0].payload.number, [])
            if next(waiting, None) != step.nodes[0].payload.number:
                return 0  # a call before it whose result only this path needs, or the other
            if list(map(id, ours)) != list(map(id, step.nodes)):
                asks = _is_decision(step) and len(ours) == 1
                question = step.nodes[0].payload.args[:1]
                return place if asks and ours[0].payload.args[:1] == question else 0
            needed = [name for name, _ in step.operands]
        if any(parameters.get(name) != theirs[name] for name in needed if name in theirs):
            return 0
    return 0


class Splitter:
    """Divides one graph into steps."""

    def __init__(
        self, graph: Graph, options: Options, prepare: Callable[..., KernelSpec | Program],
        describing: bool = False,
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            graph: what is divided.
            options: what `fuse` was told.
            prepare: compiles the graphs of which the body of a loop consists.
            describing: stages are told of in the terms of this very graph, and not run.
        """
        self.graph = graph
        self.describing = describing
        self.shown = labels_of(graph)
        self.titles = dict(zip((p.name for p in graph.parameters), graph.names, strict=False))
        self.options, self.prepare = options, prepare
        self.calls = opaque_calls.calls_of(graph)
        self.call_of = {call[0].payload.number: call for call in self.calls}
        self.steps: list[Step] = []
        self.used: list[tuple[str, ...]] = []
        self.told = {c[0].payload.tells: c[0] for c in self.calls if c[0].payload.tells}
        self.names: dict[int, str] = {}
        self.alive: list[Node] = []  # so that an id in `names` stays this node's
        self.constants: dict[str, Any] = {}
        arrays = [p for p in graph.parameters if p.dtype is not None]
        self.values: dict[str, Parameter] = {p.name: p for p in arrays}
        for parameter in arrays:
            node = make_input(parameter.name, parameter.dtype, parameter.shape)
            self.alive.append(node)
            self.names[id(node)] = parameter.name
        self.next = max((int(p.name[1:]) + 1 for p in arrays), default=0)
        self.decisions = [c[0].payload.number for c in self.calls if _decides(c[0])]
        if self.decisions:  # other paths may have more arrays
            self.next = max(self.next, FIRST_STORED)
        self.stored: dict[str, Node] = {}
        self.last_call = self._last_calls()

    def _last_calls(self) -> dict[int, int]:
        """For each node, the last call that it depends on; -1 for none."""
        found: dict[int, int] = {}
        told: dict[str, int] = {}  # lengths that only calls tell
        for call in self.calls:
            number = call[0].payload.number
            for symbol in lengths_of(call):
                told.setdefault(symbol, number)
        for parameter in self.values.values():
            for symbol in parameter.binds:
                told.pop(symbol, None)
        for symbol in self.graph.scalar_lengths:
            told.pop(symbol, None)
        told |= {name: node.payload.number for name, node in self.told.items()}
        for node in self.graph.nodes:
            last = max((found[id(arg)] for arg in node.args), default=-1)
            if node.op.is_scalar:
                last = max([last, *(told.get(s, -1) for s in node.payload.symbols)])
            if not node.op.is_opaque:
                last = max([last, *(told.get(s, -1) for s in lengths_of([node]))])
            if node.op.is_opaque:
                last = max(last, node.payload.number)
            found[id(node)] = last
        return found

    def _name(self, node: Node) -> str:
        """A name for a value that is stored from now on."""
        name = f"x{self.next}"
        self.next += 1
        self._know(name, node)
        return name

    def _know(self, name: str, node: Node) -> None:
        """Note that a value is stored."""
        self.names[id(node)] = name
        self.titles[name] = self.shown.get(id(node), name)
        self.values[name] = Parameter(name, node.dtype, node.shape)
        self.stored[name] = node

    def program(self, key: int, other: Program | None = None, count: int = 0) -> Program:
        """The steps of the whole graph.

        Args:
            key: its number.
            other: another path of the same function.
            count: how many steps of that one this one has, too.
        """
        done = -1 if other is None else self._take(other, count)
        for call in self.calls:
            if call[0].payload.number <= done:
                continue
            sources = [self._source(call[0], arg) for arg in call[0].args]
            if any(self._is_missing(base) for base, _ in sources):
                self._stage(self._wanted_later(done))
            operands = tuple((self._operand(base), chain) for base, chain in sources)
            stored = tuple(self._name(node) for node in call)
            self.steps.append(self._between(call, operands, stored))
            self.used.append(tuple(name for name, _ in operands))
            done = call[0].payload.number
        last = [node for node in self.graph.outputs if not self._is_stored(node)]
        if last:
            self._stage(last)
        outputs = tuple(self.names[id(node)] for node in self.graph.outputs)
        dropped = self._dropped(outputs, other, count)
        self._give_away(dropped, count)
        return Program(
            key, self.graph.text, self.graph, self.options, tuple(self.steps), outputs,
            self.constants, dropped, self.stored, count,
        )  # fmt: skip

    def _give_away(self, dropped: Sequence[tuple[str, ...]], count: int) -> None:
        """Have loops own what kernels made for them alone; the first ones are another path's."""
        makers = Stage, ElementLoop
        made = {name for step in self.steps if isinstance(step, makers) for name in step.stored}
        for step, last in list(zip(self.steps, dropped, strict=True))[count:]:
            if isinstance(step, (LoopRegion, ElementLoop)):
                names = [name for name, _ in step.operands]
                copied = step.region.copied if isinstance(step, LoopRegion) else ()
                step.owned = frozenset(
                    place for place, (name, chain) in enumerate(step.operands)
                    if name in made and name in last and not chain
                    and _is_handed_over(names, place, copied)
                )  # fmt: skip

    def _take(self, other: Program, count: int) -> int:
        """Begin with the first steps of another path; the number of the last call in them."""
        done = -1
        self.constants = dict(other.constants)
        for step, dropped in zip(other.steps[:count], other.dropped, strict=False):
            self.steps.append(step)
            if isinstance(step, Stage):
                read = [p.name for p in step.spec.graph.parameters if p.dtype is not None]
            else:
                read = [name for name, _ in step.operands]
                done = step.nodes[0].payload.number
            self.used.append(tuple(read))
            for name in step.stored:
                self._know(name, other.values[name])
                self.next = max(self.next, int(name[1:]) + 1)
            for name in dropped:
                if (node := self.stored.get(name)) is not None:
                    if self.names.get(id(node)) == name:  # one node may have two
                        del self.names[id(node)]
                    del self.values[name]
        return done

    def _between(
        self, call: list[Node], operands: tuple[tuple[str, Chain], ...], stored: tuple[str, ...]
    ) -> Between:
        """The step of one call."""
        line = self.graph.line_of(call[0])
        if call[0].payload.is_inner:
            return Asked(tuple(call), operands, stored, line)
        if call[0].payload.name == opaque_calls.ELEMENT_LOOP:
            return ElementLoop(tuple(call), operands, stored, line)
        if call[0].payload.name != opaque_calls.LOOP:
            return GraphBreak(tuple(call), operands, stored, opaque_calls.reason_of(call[0], line))
        from fuser.ir import loops  # most programs have none
        from fuser.programs.phases import phases_of

        region = loops.region_of(call[0].payload.args)
        divided = phases_of(region)
        phases = tuple(
            Phase(
                self.prepare(each.graph, self.options), each.stored, each.writes, each.moved,
                each.parts, each.twins,
            )
            for each in divided
        )
        return LoopRegion(tuple(call), operands, stored, region, phases, line)

    def _is_stored(self, node: Node) -> bool:
        """Whether an output is there already; an argument is no array of its own."""
        return id(node) in self.names and not node.op.is_input

    def _dropped(
        self, outputs: Sequence[str], other: Program | None, count: int
    ) -> tuple[tuple[str, ...], ...]:
        """Which values nothing needs after each step.

        What a function gave stays until the last decision: another path that parts there cannot
        compute it. What other paths have kept goes where this one parts from them.
        """
        last: dict[str, int] = {}
        for place, names in enumerate(self.used):
            last.update(dict.fromkeys(names, place))
        asked = [place for place, step in enumerate(self.steps) if _is_decision(step)]
        for step in self.steps if asked else ():
            for name in () if isinstance(step, Stage) else step.stored:
                last[name] = max(last.get(name, 0), asked[-1])
        found: list[list[str]] = [[] for _ in self.steps]
        gone: set[str] = set(outputs)
        if asked:  # other paths may read the arguments later
            gone.update(p.name for p in self.graph.parameters)
        for place in range(count if other else 0):
            found[place] += other.dropped[place] if other else ()
            gone.update(found[place])
        for name, place in last.items():
            if name not in gone:
                found[max(place, count)].append(name)
        return tuple(map(tuple, found))

    # -- operands ---------------------------------------------------------------------------

    def _source(self, call: Node, operand: Node) -> tuple[Node, Chain]:
        """The value to store for an operand, and the views that the function sees it through."""
        chain: list[View] = []
        node = operand
        shares = any(n.payload.shares for n in self._call_of(call))
        while node.op.is_view and id(node) not in self.names:
            inner = node.args[0]
            behind = self._behind(inner)
            seen = node.op.permutes or node.op.repeats or node.op.reshapes  # without a copy
            if not shares and id(behind) not in self.names and not seen:
                break  # computed as it is seen
            chain.insert(0, node.payload)
            node = inner
        return node, tuple(chain)

    def _is_missing(self, base: Node) -> bool:
        """Whether kernels have to compute a value before a function can have it."""
        return id(base) not in self.names and not base.op.is_constant

    def _operand(self, base: Node) -> str:
        """The name of an operand's value."""
        if not base.op.is_constant:
            return self.names[id(base)]
        name = f"k{len(self.constants)}"
        self.constants[name] = constant_value(base)
        return name

    def _behind(self, node: Node) -> Node:
        """The value behind views."""
        while node.op.is_view:
            if id(node) in self.names:
                break
            node = node.args[0]
        return node

    def _call_of(self, node: Node) -> list[Node]:
        """All nodes of one call."""
        return self.call_of[node.payload.number]

    def _wanted_later(self, done: int) -> list[Node]:
        """Operands of later calls that can be computed now, by the same kernel."""
        found: list[Node] = []
        budget.spend("steps", len(self.calls))
        for call in self.calls:
            if call[0].payload.number <= done:
                continue
            if _decides(call[0]):
                break  # what comes after it may not be needed
            for arg in call[0].args:
                base, _ = self._source(call[0], arg)
                if self._is_missing(base) and self.last_call[id(base)] <= done:
                    found.append(base)
        return found

    # -- stages -----------------------------------------------------------------------------

    def _stage(self, wanted: Iterable[Node]) -> None:
        """One more stage: these values, and costly ones below them that are needed again."""
        outputs = list({id(node): node for node in wanted}.values())
        outputs += self._kept(outputs)
        outputs += self._reductions(outputs)
        taken: dict[int, Node] = {}
        inside = _walk_to(outputs, self.names, taken)
        parameters = self._parameters(inside, taken)
        new: dict[int, Node] = {
            key: make_input(self.names[key], node.dtype, node.shape) for key, node in taken.items()
        }
        lines: dict[int, str] = {}
        for node in inside:
            args = tuple(new[id(arg)] for arg in node.args)
            made = new[id(node)] = intern(node.op, args, node.shape, node.dtype, node.payload)
            line = self.graph.line_of(node)
            lines.setdefault(id(made), named_line(line, self.shown[id(node)]))
        known = {s for p in parameters for dim in p.shape for s in dims.symbols(dim)}
        used = lengths_of((*taken.values(), *inside))
        known |= self.graph.integers | {s for s in self.graph.scalar_lengths if s in used}
        guards = tuple(
            pair
            for pair in self.graph.guards
            if all(s in known for dim in pair for s in dims.symbols(dim))
        )
        titles = tuple(self.titles.get(p.name, p.name) for p in parameters)
        graph = Graph(
            tuple(parameters), tuple(new[id(node)] for node in outputs), guards, titles, lines
        )
        spec = compile_upfront(graph, self.options)
        if self.describing:
            spec = compiler.in_terms_of(spec, graph)
        self.used.append(tuple(p.name for p in parameters if p.dtype is not None))
        self.steps.append(Stage(spec, tuple(self._name(node) for node in outputs)))

    def _kept(self, outputs: Sequence[Node]) -> list[Node]:
        """Costly values inside a stage that something outside of it needs as well."""
        inside = {id(node): node for node in _walk_to(outputs, self.names, {})}
        costly: dict[int, bool] = {}
        for key, node in inside.items():
            below = any(costly.get(id(arg), False) for arg in node.args)
            costly[key] = below or node.op.heavy or node.op.reduction
        stored = {id(node) for node in outputs}
        found: dict[int, Node] = {}
        for node in self.graph.nodes:
            if id(node) in inside or node.op.is_opaque:
                continue
            for arg in node.args:
                base = self._behind(arg)
                if id(base) in inside and costly[id(base)] and id(base) not in stored:
                    found[id(base)] = base
            if node.op.reduction and all(id(arg) in inside for arg in node.args):
                found[id(node)] = node  # its operand passes by here: no second look at it
        for node in self.graph.outputs:
            if id(node) in inside and costly[id(node)] and id(node) not in stored:
                found[id(node)] = node
        return list(found.values())

    def _reductions(self, outputs: Sequence[Node]) -> list[Node]:
        """Numbers that a stage before a decision has reduced arrays to: other paths may need them.

        They are small, and what they are computed of is not.
        """
        done = max((step.nodes[0].payload.number for step in self.steps
                    if not isinstance(step, Stage)), default=-1)  # fmt: skip
        if not self.decisions or done >= self.decisions[-1]:
            return []
        stored = set(map(id, outputs))
        inside = _walk_to(outputs, self.names, {})
        return [
            node for node in inside
            if node.op.reduction and not node.shape and id(node) not in stored
        ]  # fmt: skip

    def _parameters(self, inside: Sequence[Node], taken: Mapping[int, Node]) -> list[Parameter]:
        """Scalars, the arrays that a stage reads, and those that bind its lengths."""
        names = {self.names[key] for key in taken}
        bound = {s for name in names for s in self.values[name].binds}
        bound |= self.graph.scalar_lengths.keys()
        for symbol in lengths_of((*taken.values(), *inside)):
            if symbol not in bound:
                name = next((n for n, p in self.values.items() if symbol in p.binds), None)
                if name is not None:
                    names.add(name)
                    bound |= set(self.values[name].binds)
        pairs = self.graph.guards_of_integers
        speaking = {name for _, told in pairs for name in dims.symbols(told)}
        names |= self.graph.integer_arrays & speaking
        if not names:  # some array has to say which device it is
            names |= set(list(self.values)[:1])
        numbers = [p for p in self.graph.parameters if p.dtype is None]
        spoken = {s for node in inside if node.op.is_scalar for s in node.payload.symbols}
        for name, node in self.told.items():
            if name in spoken:
                numbers.append(Parameter(name, None, (), _KINDS[node.dtype.kind]))
        arrays = [
            Parameter(p.name, p.dtype, p.shape) for n, p in self.values.items() if n in names
        ]
        return [*numbers, *arrays]


#: Python's types of the numbers that are read off values, by the kind of their dtypes.
_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float"}


def _decides(call: Node) -> bool:
    """Whether a call is a decision."""
    return bool(call.payload.name == opaque_calls.DECIDED)


def _is_decision(step: Step) -> bool:
    """Whether a step is one."""
    return isinstance(step, Asked) and step.decides



def _walk_to(
    outputs: Sequence[Node], names: Mapping[int, str], taken: dict[int, Node]
) -> list[Node]:
    """Nodes that have to be computed for the outputs; `taken` is filled with stored ones."""
    order = walk(outputs, lambda node: id(node) in names)
    taken.update((id(node), node) for node in order if id(node) in names)
    return [node for node in order if id(node) not in names]


def _is_handed_over(names: Sequence[str], place: int, copied: Sequence[bool | str]) -> bool:
    """Whether a loop that takes operands of some names may write into one that nothing else needs.

    Where it takes one value several times, it is the first of them, if all others are copied before
    the loop begins.
    """
    same = [each for each, name in enumerate(names) if name == names[place]]
    return same == [place] or (
        same[0] == place and all(each < len(copied) and bool(copied[each]) for each in same)
    )
