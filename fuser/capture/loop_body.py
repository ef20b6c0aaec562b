"""The body of a loop as a graph of its own, and the text of the call that runs it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from fuser.base.host_expressions import evaluate_scalar, rename_scalars, scalar_symbols
from fuser.capture.before import NotALoop, isinstance_of
from fuser.capture.choices import as_truth
from fuser.capture.loop_carried import Carried
from fuser.capture.loop_lengths import Lengths
from fuser.capture.loop_passes import Pass
from fuser.capture.loop_values import Slot, is_plain, is_written, text_of
from fuser.capture.results import finish
from fuser.ir import dims, loops, opaque_calls
from fuser.ir.graph import Node, intern, make_input, make_scalar, walk
from fuser.tracing.canonical import lengths_of
from fuser.tracing.trace_result import OutAlias, OutNode, Trace
from fuser.tracing.trace_state import Argument, Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


class Body:
    """The body of a loop as a graph of its own: what it takes from outside is cut off."""

    def __init__(self, found: Pass, carried: Carried, lengths: Lengths) -> None:
        """Begin with what passes have found."""
        self._carried, self._lengths = carried, lengths
        self._pass, self._tracing, self._before = found, found.tracing, found.before
        self.operands: list[Node] = [slot.initial for slot in found.slots]
        self._fixed: list[Node] = []
        self._numbers: dict[str, str] = {}  # names in the body, by text outside
        self._kinds: list[Any] = []
        self._arguments: list[Argument] = []
        self._new: dict[int, Node] = {}
        self._of_loop = {found.index.text, *(n.text for n in found.numbers.values())}
        self._changing = self._of_loop | lengths.moving | lengths.told_inside

    def build(self, guards: Sequence[tuple[str, bool]]) -> None:
        """Make the graph; `guards`: what holds in every iteration."""
        found, tracing = self._pass, self._tracing
        for number in (found.index, *found.numbers.values()):
            self._named(number.text, number.hint)
        for place, slot in enumerate(found.slots):
            self._add_array(slot.placeholder, place)
        calls = [n for n, _ in tracing.externs.values() if id(n) not in
                 {id(old) for old, _ in self._before._saved["externs"].values()}]  # fmt: skip
        news = [t for t in self._carried.targets if not isinstance(t, Slot)]
        finals = [slot.storage.node for slot in found.slots]
        finals += [new.storage.node for new in news] + calls
        self._cut(finals)
        self._rebuild(finals)
        self._guards = tuple((self._spelled(text), truth) for text, truth in guards)
        self._updates = {
            self._numbers[number.text]: self._after(found.env[name])
            for name, number in found.numbers.items()
        }
        tests = tuple(self._spelled(f"({value.text}) != 0" if value.kind is not bool
                                    else value.text) for value in self._carried.tests)  # fmt: skip
        counted = self._carried.early and (
            found.source.index_read or any(name in found.source.kept for name in found.numbers)
        )
        going = len(self._carried.targets) - 1 if self._carried.data else -1
        least = self._carried.least if self._carried.early else 0
        if counted and found.source.index_read:
            least = max(least, 1)
        self.leaving = loops.Leaving(going, tests, least, counted)
        self._check_lengths()
        if self._before.unused(self._new):
            raise NotALoop("an operation in it may raise, and nothing uses what it gives")
        inner = self._inner(calls)
        for slot, argument in zip(found.slots, self._arguments, strict=False):
            if not self._is_own(slot):
                argument.storage.node = self._new[id(slot.storage.node)]
        results = [self._result(inner, target) for target in self._carried.targets]
        self.trace: Trace = finish(inner, tuple(results))
        if self.trace.value_guards or self.trace.in_order:
            raise NotALoop("its arrays have to be of a kind that only a call tells")

    def _result(self, inner: Any, target: Any) -> Any:
        """What an iteration leaves in one place, in terms of the body's own trace."""
        if isinstance(target, Slot) and self._is_own(target):
            storage = Storage(self._new[id(target.storage.node)])
            return TracedArray.make(inner, storage, (), target.generic)
        if isinstance(target, Slot):
            place = self._pass.slots.index(target)
            return TracedArray.make(inner, self._arguments[place].storage, (), target.generic)
        storage = Storage(self._new[id(target.storage.node)])
        return TracedArray.make(inner, storage, target.views, target.generic)

    def _is_own(self, slot: Slot) -> bool:
        """Whether an iteration writes into a new array, whose memory no other name has."""
        return bool(slot.names) and slot.names[0] in self._pass.own

    def _named(self, text: str, hint: Any) -> str:
        """The body's name of a number."""
        known = self._numbers.get(text)
        if known is None:
            if type(hint) not in (bool, int, float):
                raise NotALoop(f"a number of type {type(hint).__name__}")
            known = self._numbers[text] = f"s{len(self._numbers)}"
            self._kinds.append(hint)
        return known

    def _add_array(self, node: Node, leaf: int) -> None:
        """A parameter for an array."""
        shape = tuple(map(self._tracing.resolve, node.shape))
        made = make_input(f"x{len(self._arguments)}", node.dtype, shape)
        self._arguments.append(Argument(Storage(made, len(self._arguments)), None, made, leaf))
        self._new[id(node)] = made

    def _cut(self, finals: Sequence[Node]) -> None:
        """Find what iterations take from outside: arrays and costly values alike in all of them."""
        changes: dict[int, bool] = {}
        plain: dict[int, bool] = {}  # made of numbers alone
        mine = set(map(id, finals))
        for node in walk(finals):
            below = any(changes[id(arg)] for arg in node.args)
            texts = _texts(node)
            below = below or any(not self._changing.isdisjoint(scalar_symbols(t)) for t in texts)
            below = below or not self._changing.isdisjoint(self._lengths_in(node))
            ours = id(node) in self._new or (node.op.is_opaque and id(node) in mine)
            changes[id(node)] = below or ours
            leaf = node.op.is_scalar or node.op.is_constant
            plain[id(node)] = leaf or (
                bool(node.args) and all(plain[id(a)] for a in node.args)
                and not node.op.is_opaque
            )  # fmt: skip
        stack, seen = list(finals), set()
        while stack:
            node = stack.pop()
            if id(node) in seen or id(node) in self._new:
                continue
            seen.add(id(node))
            known = id(node) in self._before.lines or node.op.is_input or node.op.is_opaque
            costly = node.op.heavy or node.op.reduction
            if not changes[id(node)] and not plain[id(node)] and (known or costly):
                self._fixed.append(node)
                self._add_array(node, len(self._arguments))
                continue
            stack.extend(node.args)
        self.operands += self._fixed

    def _lengths_in(self, node: Node) -> set[str]:
        """The lengths that a node speaks of, as they were found to be."""
        symbols = map(dims.symbol, lengths_of([node]))
        return {s for dim in map(self._tracing.resolve, symbols) for s in dims.symbols(dim)}

    def _rebuild(self, finals: Sequence[Node]) -> None:
        """Make the body's nodes again, of its own parameters."""
        lines: dict[int, str] = {}
        stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(finals)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self._new:
                continue
            if node.args and not ready:
                stack.append((node, True))
                stack.extend((arg, False) for arg in node.args)
                continue
            args = tuple(self._new[id(arg)] for arg in node.args)
            made = self._made(node, args)
            self._new[id(node)] = made
            if id(node) in self._tracing.lines:
                lines.setdefault(id(made), self._tracing.lines[id(node)])
        self.lines = lines

    def _made(self, node: Node, args: tuple[Node, ...]) -> Node:
        """One node in terms of the body's parameters."""
        if node.op.is_scalar:
            return make_scalar(self._spelled(node.payload.expression, True), node.dtype)
        if node.op.is_input:
            raise NotALoop("it reads an array of a loop around it")
        payload = node.payload
        if node.op.is_opaque:
            payload = opaque_calls.read(opaque_calls.respell(payload.text, self._spelled))
        return intern(node.op, args, node.shape, node.dtype, payload)

    def _spelled(self, text: str, in_kernel: bool = False) -> str:
        """A host expression in the body's terms: what iterations have in common is one number.

        Lengths that calls in the body tell are known to kernels after them alone.
        """
        text = self._lengths.spelled(text)
        symbols = scalar_symbols(text)
        numbers = self._tracing.numbers()
        inside = symbols & self._lengths.told_inside
        if inside and not in_kernel:
            raise NotALoop("a length that only a call in it tells is a number in it")
        if not inside and self._of_loop.isdisjoint(symbols):
            return self._named(text, evaluate_scalar(text, numbers))
        for symbol in sorted(symbols - inside):
            self._named(symbol, numbers[symbol])
        return rename_scalars(text, self._numbers)

    def _check_lengths(self) -> None:
        """Refuse lengths that no array of the body tells."""
        resolve = self._tracing.resolve
        of_arrays = {str(dim) for a in self._arguments for dim in a.initial.shape}
        told = set(of_arrays)
        news = list(self._new.values())
        told |= {str(resolve(dim)) for n in news if n.op.is_opaque for dim in n.shape}
        symbols = {s for name in lengths_of(news) for s in dims.symbols(resolve(dims.symbol(name)))}
        asked = (dim for pair in self._tracing.guards for dim in map(resolve, pair))
        symbols |= self._lengths.moving.intersection(s for dim in asked for s in dims.symbols(dim))
        self._told: dict[str, tuple[str, int]] = {}  # integers in lengths: their names in the body
        for symbol in sorted(symbols & self._lengths.integers.keys()):
            name, sign = self._lengths.integers[symbol]
            if name not in self._of_loop and symbol in of_arrays:
                continue  # an array of that length is there
            if name not in self._of_loop:
                self._named(name, self._tracing.numbers()[name])
            self._told[symbol] = self._numbers[name], sign
        told |= self._told.keys()
        for symbol in sorted(symbols - told):  # of arrays outside: a number of the loop
            if symbol in self._changing or symbol in self._tracing.late:
                raise NotALoop("a length in it is that of no array in it")
            self._told[symbol] = self._named(symbol, self._tracing.numbers()[symbol]), 1

    def _inner(self, calls: Sequence[Node]) -> Any:
        """A trace of the body alone."""
        tracing = self._tracing
        inner = copy.copy(tracing)
        inner.arguments = self._arguments
        count = len(self._arguments)
        used = {s for n in self._new.values() for t in _texts(n) for s in scalar_symbols(t)}
        used |= {name for name, _ in self._told.values()}
        numbers = zip(self._numbers.values(), self._kinds, strict=True)
        inner.scalars = [
            (HostScalar(inner, name, hint), count + place)
            for place, (name, hint) in enumerate(each for each in numbers if each[0] in used)
        ]
        known = {s for n in self._new.values() for dim in n.shape for s in dims.symbols(dim)}
        known |= {s for dim in map(tracing.resolve, map(dims.symbol, known))
                  for s in dims.symbols(dim)}  # fmt: skip
        told = {s for a in self._arguments for dim in a.initial.shape for s in dims.symbols(dim)}
        told |= {s for n in self._new.values() if n.op.is_opaque for dim in n.shape
                 for s in dims.symbols(tracing.resolve(dim))}  # fmt: skip
        told |= self._told.keys()
        inner.guards = [
            (dims.symbol(symbol), dims.symbol(name) * sign)
            for symbol, (name, sign) in self._told.items()
        ]  # fmt: skip
        integers = {name for name, _ in self._lengths.integers.values()}
        for pair in tracing.guards:
            spoken = {s for dim in pair for s in dims.symbols(tracing.resolve(dim))}
            if not integers.isdisjoint(spoken):
                continue  # which length a number is: said above
            if spoken <= told:
                inner.guards.append(pair)
            elif not spoken.isdisjoint(self._changing):
                raise NotALoop("a length that changes has to be that of no array in it")
        inner.value_guards, inner.hazards, inner.written = {}, {}, {}
        inner.in_order, inner.optional, inner.captured, inner.raising = {}, {}, {}, {}
        inner.told = {
            name: dims.symbol(symbol) * sign for symbol, (name, sign) in self._told.items()
        }
        inner.spare, inner.seen = set(), set()
        values = {id(n): v for n, v in tracing.externs.values()}
        inner.externs = {
            id(self._new[id(n)]): (self._new[id(n)], values[id(n)]) for n in calls
        }
        inner.lines, inner.kept = dict(self.lines), list(self._new.values())
        inner.names = [*(self._title(k) for k in range(count))]
        inner.names += [scalar.text for scalar, _ in inner.scalars]
        return inner

    def _title(self, place: int) -> str:
        """What the user calls an array of the body."""
        slots = self._pass.slots
        if place < len(slots):
            return slots[place].names[0] if slots[place].names else f"array {place}"
        node = self._fixed[place - len(slots)]
        for name in self._pass.source.read:
            value: Any = self._pass.env.get(name)
            if isinstance_of(value, TracedArray) and value.storage.node is node:
                return name
        return f"value {place}"

    def text(self) -> str:
        """The call of the region."""
        found, trace = self._pass, self.trace
        results = [self._left(leaf, place) for place, leaf in enumerate(trace.leaves)]
        written = {id(slot) for slot in found.slots if is_written(slot)}
        rooms = {id(array.storage) for array in found.rooms.values()}
        copied = tuple(
            loops.UNSET if id(slot.storage) in rooms else
            any(id(each) in written for each in self._carried.cycle.get(id(slot), ()))
            for slot in found.slots
        )  # fmt: skip
        writes = [(k, output, region.text if region else "") for k, output, region in trace.writes]
        index = self._numbers[found.index.text]
        body = loops.spell(
            trace.graph, results, writes, index, self._updates, self._guards, copied, self.leaving
        )
        span = ", ".join(_host(bound) for bound in (found.span.start, found.span.stop))
        marks = ["[()]" if slot.generic else "" for slot in found.slots]
        roles = "".join(f"a{k}{mark}, " for k, mark in enumerate(marks))
        fixed = "".join(f"a{k}, " for k in range(len(marks), len(self.operands)))
        firsts = {n.text: text_of(found.given[name]) for name, n in found.numbers.items()}
        given = ", ".join(
            f"{name}=host({firsts.get(text, text)!r})"
            for text, name in self._numbers.items() if text != found.index.text
        )  # fmt: skip
        holds = "".join(f"{text}, " for text in self._first())
        return (f"{opaque_calls.LOOP}({body}, ({span}, {found.span.step}), ({roles}), ({fixed}), "
                f"dict({given}), ({holds}))")  # fmt: skip

    def _first(self) -> Iterator[str]:
        """Yield what has to be true for the first iteration."""
        for value in self._pass.first:
            if type(value) is HostScalar:
                yield f"host({value.text!r})"
            elif not is_plain(value):
                yield f"a{len(self.operands)}[()]"
                self.operands.append(as_truth(value).node)

    def _after(self, left: Any) -> str:
        """What the next iteration has for a number."""
        return self._spelled(left.text) if type(left) is HostScalar else repr(left)

    def _left(self, leaf: Any, place: int) -> str:
        """What an iteration leaves in one place, see `loops.Region.results`."""
        if isinstance(leaf, OutAlias) and not leaf.views:
            name = str(self.trace.graph.parameters[leaf.parameter].name)
            return "" if leaf.parameter == place else name
        if isinstance(leaf, OutNode):
            return f"{leaf.index}{'[()]' if leaf.generic else ''}"
        raise NotALoop("what it leaves is a view of a new array")


def _texts(node: Node) -> list[str]:
    """The host expressions in a node."""
    if node.op.is_scalar:
        return [node.payload.expression]
    return list(node.payload.numbers) if node.op.is_opaque else []


def _host(bound: Any) -> str:
    """A bound of the range as the call's text has it."""
    return f"host({bound.text!r})" if type(bound) is HostScalar else repr(bound)
