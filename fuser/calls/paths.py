"""The short way of calls whose decisions lead along one path of several.

For arguments of known shapes each path is a chain of pieces of generated Python. A piece runs the
steps between two decisions, looks at the next outcome, and hands what is stored by then to the
piece that follows it. Paths of one function that agree up to a decision have the pieces up to it
in common, so a call runs what its own path needs, once. See `fuser.capture.decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.backend import PythonCall
from fuser.base import config, counters, trees
from fuser.base.call_keys import signature
from fuser.base.generated import define
from fuser.base.records import changed
from fuser.calls.owner import Owner
from fuser.calls.prepared import MISSED
from fuser.calls.program_fast_path import Steps, guards_of, has_short_way, late_lengths
from fuser.calls.specialisation import Call
from fuser.executor import is_hazardous
from fuser.ir import opaque_calls
from fuser.program_spec import Asked, Between, ElementLoop, Kind, Program
from fuser.programs import partition
from fuser.programs.straight_line import StraightLine

Piece = Callable[..., Any]
#: Paths that have nothing in common with the first one, at most.
APART = 7
#: Calls that decisions have led to NumPy, all of them, after which nothing is decided any more.
ENDED = 8


class _Line(StraightLine):
    """The lines of one piece, which begins with what the pieces before it have stored."""

    def begin(self) -> None:
        """Have nothing stored but what the piece is given."""
        self.alive = dict.fromkeys(self._parameters)

    def stage(
        self, stored: Sequence[str], function: Any, names: Sequence[str], into: str = ""
    ) -> None:
        """As `StraightLine.stage`."""
        super().stage(stored, function, names, into)
        self.alive.update(dict.fromkeys(map(self._name, stored)))

    def elements(
        self, step: ElementLoop, native: Callable[..., Any], code: Any,
        copied: Collection[int], last: bool = False,
    ) -> None:  # fmt: skip
        """As `StraightLine.elements`."""
        super().elements(step, native, code, copied, last)
        self.alive.update(dict.fromkeys(map(self._name, step.stored)))

    def opaque(self, step: Between, runner: Any = None) -> None:
        """As `StraightLine.opaque`; what is asked of values is a line of its own."""
        if not isinstance(step, Asked):
            super().opaque(step, runner)
            self.alive.update(dict.fromkeys(map(self._name, step.stored)))
            return
        call, (stored,) = step.nodes[0].payload, step.stored
        name = self._name(call.tells or stored)
        self.alive[name] = None
        if call.tells:
            ((value, chain),) = step.operands
            self._lines.append(f"{name} = {self._seen(value, chain)}.item()")
            self._numbers.append(call.tells)
        else:
            length = self._number(call.args[0].text)
            self._lines.append(f"{name} = {self._object(opaque_calls.counted)}({length})")
            symbol = str(step.nodes[0].shape[0])
            if symbol in self._late:
                self._lines.append(f"{symbol} = {name}.size")
                self._late[symbol] = True
            else:
                self._miss([f"{name}.size != {self._kinds[stored].shape[0]}"])
        self._check_guards()

    def forget(self, values: Sequence[str]) -> None:
        """As `StraightLine.forget`."""
        known = [value for value in values if self._name(value) in self.alive]
        super().forget(known)
        for value in known:
            del self.alive[self._name(value)]

    # -- pieces -----------------------------------------------------------------------------

    @property
    def held(self) -> list[str]:
        """The variables of what is stored, and of lengths that only functions have told."""
        return [*self.alive, *(name for name, known in self._late.items() if known)]

    def part(self, text: str, following: Mapping[Any, Piece]) -> Piece:
        """The piece up to a decision.

        Args:
            text: what is decided by, as a host expression.
            following: by outcome, what comes after it; it may grow.
        """
        lines = [*self._lines, f"follow = {self._object(following)}.get({self._number(text)})"]
        return self._defined(lines, [
            "if follow is None: return MISSED", f"return follow({', '.join(self.held)})",
        ])  # fmt: skip

    def _defined(self, lines: Sequence[str], after: Sequence[str]) -> Piece:
        """Lines as a function: what raises is met again on the long way, but for the last ones."""
        self._objects["Exception"] = Exception
        guarded = ["try:", *(f"    {line}" for line in lines), "except Exception: return MISSED"]
        whole = [*(guarded if lines else ()), *after]
        return define("piece", self._parameters, whole, dict(self._objects))

    def after(
        self, program: Program, sizes: Mapping[str, int], kinds: Mapping[str, Kind],
        late: Collection[str], guards: Sequence[tuple[str, Any]],
    ) -> _Line:  # fmt: skip
        """The lines of the next piece, of this path or of another; see `StraightLine`."""
        made = _Line(program, sizes, kinds, MISSED, late, guards)
        told = {name: True for name, known in self._late.items() if known}
        made._late.update(told)
        made._names = {**made._names, **self._names}
        made._objects = {**made._objects, **self._objects}
        for name in program.constants.keys() - self._names.keys():
            made._names[name] = made._object(program.constants[name])
        made._numbers = list(self._numbers)
        made._parameters = self.held
        made.alive = dict(self.alive)
        made._check_guards()
        return made

    def last(self, path: _Path) -> Piece:
        """The piece after the last decision: it gives what the function gives."""
        counted = f"{self._object(counters.add_soon)}({self._object(path.counts)})"
        if path.plain is not None:
            given = ", ".join(self._name(name) for name in path.names)
            call = f"found = {self._object(path.plain)}({given})"
            stops = f"{self._object(path.call.specialisation)}.stops += 1"
            return self._defined(self._lines, [stops, call, counted, "return found"])
        trace = path.call.specialisation.trace
        result = self._nested(trace.structure, [self._result(leaf) for leaf in trace.leaves])
        lines = [*self._lines, f"found = {result}", *self._writes]
        return self._defined(lines, [counted, "return found"])

    def checks(self, path: _Path) -> None:
        """Give up where a path does not hold for the arguments, beside its decisions."""
        trace, captured = path.call.specialisation.trace, path.call.specialisation.captured
        for name, array in captured.items():
            if name not in self._names:
                self.captured(name, array)
            self._compare(self._names[name], Kind.of(array))
        names = [parameter.name for parameter in trace.graph.parameters]
        for name in dict.fromkeys(names[place] for place, _, _ in trace.writes):
            self._miss([f"{self._object(is_hazardous)}({self._name(name)})"])
        for pair in dict.fromkeys(tuple(sorted(pair)) for pair in trace.hazards):
            one, other = (self._name(names[place]) for place in pair)
            share = self._object(np.may_share_memory)
            self._miss([f"{one} is {other} or {share}({one}, {other})"])


class _Path:
    """One path, as a call has run it.

    Attributes:
        call: the call, without its arrays.
        program: its steps.
        names: of its arguments' values, in order.
        counts: what each such call adds to the counters.
        plain: the plain function, where no kernels go on after the decisions.
        reason_counts: what each call of that adds to the counters.
    """

    def __init__(self, call: Call, program: Program, owner: Owner, count: int) -> None:
        """Look at it; `count`: of the arguments."""
        call = changed(call, arrays={})  # a path lives longer than they
        self.call, self.program = call, program
        found, trace = call.specialisation, call.specialisation.trace
        places = {place: name for name, place in (*found.array_leaves, *found.scalar_leaves)}
        self.names = [places.get(place, f"u{place}") for place in range(count)]
        self.counts = partition.break_counts(program)
        self.plain: Any = None if trace.stopped is None else owner.__wrapped__
        self.reason_counts: dict[str, int] = {}
        if trace.stopped is not None:
            self.reason_counts = {"fallbacks": 1, f"fallback.{trace.stopped.code}": 1}
            self.counts = {**self.counts, **self.reason_counts}
        scalars = dict(found.scalar_leaves)
        self.sizes = {name: size for name, size in call.sizes.items() if name not in scalars}
        self.late = late_lengths(program)
        self.steps = Steps(call, program, type(owner))
        count = trace.guards_before if trace.decisions else len(trace.value_guards)
        guards, before = guards_of(found, program), trace.value_guards[:count]
        self.first_guards = [guard for guard in guards if guard in before]
        self.guards = [guard for guard in guards if guard not in before]


class _Branch:
    """A decision in a tree of paths.

    Attributes:
        program: of the path that came first.
        place: of the decision among its steps.
        line: what stands before it.
        captured: arrays that are no arguments, of that path.
        following: by outcome, the pieces that come after it.
    """

    def __init__(self, path: _Path, place: int, line: _Line) -> None:
        """Nothing follows yet."""
        self.program, self.place, self.line = path.program, place, line
        self.captured = path.call.specialisation.captured
        self.following: dict[Any, Piece] = {}

    def leads_to(self, path: _Path) -> bool:
        """Whether a path has the same steps before the decision, on the same arrays."""
        steps, theirs = path.program.steps, path.call.specialisation.captured
        before = self.program.steps[: self.place]
        return (
            len(steps) > self.place
            and all(a is b for a, b in zip(before, steps, strict=False))
            and all(theirs[n] is self.captured[n] for n in theirs.keys() & self.captured.keys())
        )


class ReadyPaths(config.Standing):
    """How calls of known shapes run along one path, and along those that part from it.

    Attributes:
        call: for a backend that compares arguments natively.
        missed: how often such calls have missed others that were made before.
    """

    def __init__(self, path: _Path, known: Mapping[Any, Any], kind: Any) -> None:
        """Write the path down; see `made_ready`.

        Args:
            path: it.
            known: what is known of calls, by the kind of their arguments.
            kind: of these.
        """
        found = path.call.specialisation
        self._all_known, self._kind = known, kind
        super().__init__(found.names)
        self._branches: list[_Branch] = []
        self._roots: list[tuple[_Path, Piece]] = []
        self._known = {id(found): 0}
        self._ending: dict[int, _Path] = {}  # all paths, where NumPy runs each of them in the end
        self._fused = path.plain is None
        self.missed = 0
        self._guards = found.names
        self._where = dict(found.array_leaves)
        self._root(path)

    def native(self, leaves: Sequence[Any], names: tuple[str, ...], structure: Any) -> PythonCall:
        """What a backend needs that compares arguments natively."""
        return PythonCall(
            function=self.run_leaves, guards=self._guards, holds=self.holds, counts={},
            leaves=leaves, names=names, structure=structure, places=self._where,
        )  # fmt: skip

    def run(self, args: tuple[Any, ...]) -> Any:
        """What the function gives, or MISSED where the call has to be looked at again."""
        return self.run_leaves(*args)

    def run_leaves(self, *leaves: Any) -> Any:
        """The same, of arguments whose layouts have been compared.

        Where NumPy has run all of a number of such calls, whatever they had decided before, it
        runs the others at once.
        """
        ending = self._ending.values()
        if ending and sum(path.call.specialisation.stops for path in ending) >= ENDED:
            alike = self._all_known[self._kind].found  # whatever lengths these calls have
            if all(known.trace.stopped is not None for known in alike):
                path = next(iter(ending))
                counters.add_soon(path.reason_counts)
                return path.plain(*leaves)
        for _, piece in self._roots:
            found = piece(*leaves)
            if found is not MISSED:
                return found
        return MISSED

    # -- writing --------------------------------------------------------------------------------

    def add(self, path: _Path) -> bool:
        """Know another path, too, from the last decision on where it parts from one that is known.

        Whether that can be: its results may differ from call to call.
        """
        known = self._known.get(id(path.call.specialisation))
        self._known[id(path.call.specialisation)] = 0 if known is None else known + 1
        if known is not None and known >= APART:
            return False
        for branch in reversed(self._branches):
            if branch.leads_to(path):
                guards = [*path.first_guards, *path.guards]
                line = branch.line.after(
                    path.program, path.sizes, path.call.kinds, path.late, guards
                )
                holds = config.Standing(path.call.specialisation.names).holds
                line._miss([f"not {line._object(holds)}()"])
                line.checks(path)
                self._go_on(path, branch.place, line, branch)
                return True
        self._roots = [each for each in self._roots if each[0].call.specialisation
                       is not path.call.specialisation][: APART - 1]  # fmt: skip
        self._root(path)
        return True

    def _root(self, path: _Path) -> None:
        """Write a path from its first step on."""
        specialisation = path.call.specialisation
        line = _Line(
            path.program, path.sizes, path.call.kinds, MISSED, path.late, path.first_guards
        )
        for name, array in specialisation.captured.items():
            line.captured(name, array)
        line.arguments(path.names, dict(specialisation.scalar_leaves))
        line.begin()
        if self._roots:
            holds = config.Standing(specialisation.names).holds
            line._miss([f"not {line._object(holds)}()"])
        for name, array in specialisation.captured.items():
            line._compare(line._names[name], Kind.of(array))
        if not specialisation.trace.decisions:
            line.checks(path)
        self._go_on(path, 0, line, None)

    def _go_on(self, path: _Path, first: int, line: _Line, branch: _Branch | None) -> None:
        """Write the pieces of a path from a step on; it follows a branch, or is a root."""
        self._fused = self._fused or path.plain is None
        mine = {id(path.call.specialisation): path}
        self._ending = {} if self._fused else {**self._ending, **mine}
        made: list[tuple[_Branch | None, Any, Piece]] = []
        after, outcome = branch, None
        if branch is not None:
            outcome = self._question(path, first).args[1]
            path.steps.forget(line, first)
        for place in range(first if branch is None else first + 1, len(path.program.steps)):
            step = path.program.steps[place]
            if not (isinstance(step, Asked) and step.decides):
                path.steps.write(line, place)
                continue
            question, found = self._question(path, place), _Branch(path, place, line)
            made.append((after, outcome, line.part(question.args[0].text, found.following)))
            self._branches.append(found)
            first_one = after is None
            after, outcome = found, question.args[1]
            guards = path.guards if first_one else line._guards
            line = line.after(path.program, path.sizes, path.call.kinds, path.late, guards)
            if first_one:
                line.checks(path)
            path.steps.forget(line, place)
        path.steps.write_back(line)
        made.append((after, outcome, line.last(path)))
        for before, value, piece in reversed(made):
            if before is None:
                self._roots = [*self._roots, (path, piece)]
            else:
                before.following[value] = piece

    @staticmethod
    def _question(path: _Path, place: int) -> Any:
        """The decision that a step is."""
        step = path.program.steps[place]
        assert isinstance(step, Asked)
        return step.nodes[0].payload


def made_ready(
    known: Any, call: Call, owner: Owner, leaves: Sequence[Any], names: tuple[str, ...],
    structure: Any,
) -> ReadyPaths | None:  # fmt: skip
    """The short way of calls like this one, which `known` may be.

    Args:
        known: that of such calls so far, if there is one.
        call: one that a program has served, or stopped at the end of a path.
        owner: the function.
        leaves: its arguments.
        names: its keywords.
        structure: how its arguments nest.
    """
    program = call.specialisation.spec
    if not isinstance(program, Program) or not has_short_way(call, program):
        return None
    if program.graph.guards_of_integers:  # steps are written for lengths that all calls share
        return None
    positional = not names and structure == (tuple(map(trees.Leaf, range(len(leaves)))), {})
    if call.specialisation.trace.stopped is not None and not positional:
        return None
    path = _Path(call, program, owner, len(leaves))
    if isinstance(known, ReadyPaths):
        return known if known.add(path) else None
    return ReadyPaths(path, owner._signatures, signature(structure, list(leaves)))
