"""The short way of calls that run NumPy functions between kernels, for known shapes.

Each stage becomes a function of its own, which the backend's native entry serves; between them the
functions run as the user wrote them (`program_steps`). All steps are one Python function, which
compares what they give with what they gave before. A backend that compares arguments natively
calls it itself.

Decisions lead along one path of several: each is a chain of such functions, its pieces. A piece
runs the steps between two decisions, looks at the next outcome, and hands what is stored by then
to the piece that follows it. Paths of one function that agree up to a decision have the pieces up
to it in common, so a call runs what its own path needs, once. See `fuser.capture.decisions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fuser.backend import MISSED, PythonCall, elsewhere
from fuser.base import config, counters, notices, trees
from fuser.base.call_keys import is_cupy, signature
from fuser.base.records import changed
from fuser.calls.owner import Owner
from fuser.calls.program_steps import (
    Steps,
    guards_of,
    has_short_way,
    integers_of,
    late_lengths,
    told_by_integers,
)
from fuser.calls.specialisation import Call
from fuser.program_spec import Asked, Kind, Program
from fuser.programs import partition
from fuser.programs.straight_line import StraightLine
from fuser.runtime import aliasing

Piece = Callable[..., Any]
#: Paths that have nothing in common with the first one, at most.
APART = 7
#: Calls that decisions have led to NumPy, all of them, after which nothing is decided any more.
ENDED = 8


class _Path:
    """One path, as a call has run it.

    Attributes:
        call: the call, without its arrays.
        program: its steps.
        there: its arrays are in a device's memory.
        alone: it asks nothing of values, so there are no others beside it.
        names: of its arguments' values, in order.
        integers: those among them that its steps are written for the values of.
        counts: what each such call adds to the counters.
        plain: the plain function, where no kernels go on after the decisions.
        reason_counts: what each call of that adds to the counters.
        written: arguments that it writes into.
        apart: pairs of arrays that must not share memory.
    """

    def __init__(self, call: Call, program: Program, owner: Owner, count: int) -> None:
        """Look at it; `count`: of the arguments."""
        self.call, self.program = changed(call, arrays={}), program  # it lives longer than they
        self.there = any(is_cupy(type(array)) for array in call.arrays.values())
        found, trace = call.specialisation, call.specialisation.trace
        self.alone = not any(isinstance(step, Asked) for step in program.steps)
        self.scalars = dict(found.scalar_leaves)
        places = {place: name for name, place in (*found.array_leaves, *self.scalars.items())}
        self.names = [places.get(place, f"u{place}") for place in range(count)]
        self.counts = partition.break_counts(program)
        self.plain: Any = None if trace.stopped is None else owner.__wrapped__
        self.reason_counts: dict[str, int] = {}
        if trace.stopped is not None:
            self.reason_counts = notices.counts_of(trace.stopped)
            self.counts = {**self.counts, **self.reason_counts}
        self.sizes = {name: size for name, size in call.sizes.items() if name not in self.scalars}
        # decisions follow one another for lengths that all calls share
        self.told = told_by_integers(program) if self.alone else {}
        pinned = sorted(integers_of(program)) if not self.told else ()
        self.integers = {name: call.numbers[name] for name in pinned}
        self.late = {**dict.fromkeys(late_lengths(program)), **self.told}
        self.steps = Steps(call, program, owner.stage_kind, in_place=self.alone)
        count = trace.guards_before if trace.decisions else len(trace.value_guards)
        guards, before = guards_of(found, program), trace.value_guards[:count]
        self.first_guards = [guard for guard in guards if guard in before]
        self.guards = [guard for guard in guards if guard not in before]
        self.written = tuple(dict.fromkeys(name for name, _, _ in trace.written))
        self.apart = trace.hazards

    def first(self) -> StraightLine:
        """The lines of its first piece: they take the arguments, and arrays that are none."""
        line = StraightLine(
            self.program, self.sizes, self.call.kinds, MISSED, self.late, self.first_guards
        )
        for name, array in self.call.specialisation.captured.items():
            line.captured(name, array)
        line.arguments(self.names, self.scalars, self.told)
        for name, value in self.integers.items():
            line.same(name, value)
        return line

    def compare(self, line: StraightLine) -> None:
        """Give up where arrays that are no arguments lie in memory as they did not."""
        for name, array in self.call.specialisation.captured.items():
            if name not in line._names:
                line.captured(name, array)
            line._compare(line._names[name], Kind.of(array))

    def check(self, line: StraightLine) -> None:
        """Give up where it does not hold for the arguments, beside its decisions."""
        for name in self.written:
            line._miss([f"{line._object(aliasing.is_hazardous)}({line._name(name)})"])
        for one, other in (map(line._name, pair) for pair in self.apart):
            line._miss([f"{line._object(aliasing.share)}({one}, {other})"])

    def last(self, line: StraightLine) -> Piece:
        """The piece after the last decision: it gives what the function gives."""
        counted = f"{line._object(counters.add_soon)}({line._object(self.counts)})"
        specialisation = self.call.specialisation
        if self.plain is not None:
            stops = f"{line._object(specialisation)}.stops += 1"
            return line.instead(self.plain, self.names, (stops, counted))
        trace = specialisation.trace
        return line.function(trace.structure, trace.leaves, () if self.alone else (counted,))


class _Branch:
    """A decision in a tree of paths.

    Attributes:
        program: of the path that came first.
        place: of the decision among its steps.
        line: what stands before it.
        captured: arrays that are no arguments, of that path.
        integers: among the arguments, of that path.
        following: by outcome, the pieces that come after it.
    """

    def __init__(self, path: _Path, place: int, line: StraightLine) -> None:
        """Nothing follows yet."""
        self.program, self.place, self.line = path.program, place, line
        self.captured = path.call.specialisation.captured
        self.integers = path.integers
        self.following: dict[Any, Piece] = {}

    def leads_to(self, path: _Path) -> bool:
        """Whether a path has the same steps before the decision, on the same arrays."""
        steps, theirs = path.program.steps, path.call.specialisation.captured
        before = self.program.steps[: self.place]
        return (
            len(steps) > self.place
            and self.integers == path.integers
            and all(a is b for a, b in zip(before, steps, strict=False))
            and all(theirs[n] is self.captured[n] for n in theirs.keys() & self.captured.keys())
        )


class ReadyProgram(config.Standing):
    """How calls of known shapes run along one path, and along those that part from it.

    A path without decisions is alone: a backend that compares arguments natively compares for it
    what others do as they run.

    Attributes:
        missed: how often such calls have missed others that were made before.
    """

    def __init__(self, path: _Path, known: Mapping[Any, Any], kind: Any) -> None:
        """Write the path down; see `make_ready_program`.

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
        self._alone = path if path.alone else None
        self.missed = 0
        self._where = dict(found.array_leaves)
        self._captured = [(array, Kind.of(array)) for array in found.captured.values()]
        self._there = path.there
        self._watched = {
            name: self._where.get(name, found.captured.get(name))
            for name in itertools.chain(path.written, *path.apart)
        }
        self._root(path)

    def native(self, leaves: Sequence[Any], names: tuple[str, ...], structure: Any) -> PythonCall:
        """What a backend needs that compares arguments natively."""
        path = self._roots[0][0]
        found = path.call.specialisation
        call = PythonCall(
            function=self.run_leaves, guards=found.names, holds=self.holds, counts={},
            leaves=leaves, names=names, structure=structure, places=self._where,
        )  # fmt: skip
        if self._alone is None:
            return call
        return changed(
            call, function=self.line, counts=path.counts, captured=found.captured,
            written=path.written, apart=path.apart,
        )  # fmt: skip

    @property
    def line(self) -> Piece:
        """All steps of a path that is alone, as a function of the arguments."""
        return self._roots[0][1]

    def run(self, args: tuple[Any, ...]) -> Any:
        """What the function gives, or MISSED where the call has to be looked at again."""
        if self._there and elsewhere(args) is not None:
            return MISSED
        if self._alone is None:
            return self.run_leaves(*args)
        if any(Kind.of(array) != kind for array, kind in self._captured):
            return MISSED
        written, pairs = self._alone.written, self._alone.apart
        arrays = {k: args[at] if type(at) is int else at for k, at in self._watched.items()}
        if not aliasing.may_write(arrays, written, pairs):
            return MISSED
        found = self.line(*args)
        if found is not MISSED:
            counters.add_soon(self._alone.counts)
        return found

    def run_leaves(self, *leaves: Any) -> Any:
        """Run the paths of a program with decisions; the arguments' layouts have been compared.

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
                path.compare(line)
                path.check(line)
                self._go_on(path, branch.place, line, branch)
                return True
        self._roots = [each for each in self._roots if each[0].call.specialisation
                       is not path.call.specialisation][: APART - 1]  # fmt: skip
        self._root(path)
        return True

    def _root(self, path: _Path) -> None:
        """Write a path from its first step on."""
        specialisation = path.call.specialisation
        line = path.first()
        if self._roots:
            holds = config.Standing(specialisation.names).holds
            line._miss([f"not {line._object(holds)}()"])
        if not path.alone:
            path.compare(line)
        if not (path.alone or specialisation.trace.decisions):
            path.check(line)
        self._go_on(path, 0, line, None)

    def _go_on(
        self, path: _Path, first: int, line: StraightLine, branch: _Branch | None
    ) -> None:
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
            guards = path.guards if first_one else None
            line = line.after(path.program, path.sizes, path.call.kinds, path.late, guards)
            if first_one:
                path.check(line)
            path.steps.forget(line, place)
        path.steps.write_back(line)
        made.append((after, outcome, path.last(line)))
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


def make_ready_program(
    known: Any, call: Call, owner: Owner, leaves: Sequence[Any], names: tuple[str, ...],
    structure: Any,
) -> ReadyProgram | None:  # fmt: skip
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
    path = _Path(call, program, owner, len(leaves))
    if path.alone:
        return ReadyProgram(path, {}, None)
    positional = not names and structure == (tuple(map(trees.Leaf, range(len(leaves)))), {})
    if call.specialisation.trace.stopped is not None and not positional:
        return None
    if isinstance(known, ReadyProgram) and known._alone is None:
        return known if known.add(path) else None
    return ReadyProgram(path, owner._signatures, signature(structure, list(leaves)))
