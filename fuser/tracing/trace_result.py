"""What one trace of a function found: a graph, and the way from its outputs to the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fuser.base.errors import Reason
from fuser.base.records import field, record
from fuser.base.trees import Path
from fuser.ir.attributes import Region
from fuser.ir.graph import Graph
from fuser.ir.views import View

#: A parameter, a graph output, and where in the parameter's array it is written back.
Write = tuple[int, int, Region | None]


@record
class OutNode:
    """An output computed by the graph; `generic`: NumPy gives a scalar, not a 0-d array."""

    index: int
    generic: bool


@record
class OutView:
    """A view of another output."""

    index: int
    views: tuple[View, ...]


@record
class OutAlias:
    """An output that is a parameter itself, or a view of it."""

    parameter: int
    views: tuple[View, ...]


@record
class OutScalar:
    """An output that is a Python scalar computed on the host."""

    text: str
    kind: str


@record
class OutPython:
    """An output that is a Python number, or a list, made of an array that the graph computes.

    `text`: how it is made of that, `{}`.
    """

    index: int
    text: str


@record
class OutStatic:
    """An output that does not depend on the arguments' values.

    `fresh`: the function makes a new array at every call, so callers get copies.
    """

    value: Any
    fresh: bool = False


@record(slots=False, eq=False)
class Trace:
    """What one trace found.

    Attributes:
        graph: the canonical graph; its outputs are OutNodes first, then values written back.
        structure: how outputs nest; leaves are indices into `leaves`.
        leaves: OutNode, OutAlias, OutScalar, OutPython or OutStatic.
        writes: (parameter, graph output, region) of what is written back into arguments, in
            order; None is the whole array.
        value_guards: (host expression, value) pairs that this trace holds for.
        parameter_leaves: for each parameter, the index of the argument leaf; None if captured.
        hazards: pairs of parameters, by name, that must not share memory: one is written before
            the other is read or written.
        hints: lengths in the traced call that only functions run between kernels tell.
        in_order: parameters that have to be contiguous in C order.
        by_identity: where the function may ask whether two arrays are one: arguments that it has
            reached by a name, too; None where it does not ask.
        decisions: (host expression, outcome, `file:line`) of what numbers that were read decided.
        stopped: why the function cannot go on as a graph after the last of them; None where it
            can.
        guards_before: how many of the value guards are older than the first of them.
        given_back: where lists and dicts of the arguments are in the result, and among those.
    """

    graph: Graph
    structure: Any
    leaves: tuple[Any, ...]
    writes: tuple[Write, ...]
    value_guards: tuple[tuple[str, Any], ...]
    parameter_leaves: tuple[int | None, ...]
    hazards: tuple[tuple[str, str], ...] = ()
    hints: Mapping[str, int] = field(default_factory=dict)
    in_order: tuple[str, ...] = ()
    by_identity: tuple[Any, ...] | None = None
    decisions: tuple[tuple[str, Any, str], ...] = ()
    stopped: Reason | None = None
    guards_before: int = 0
    given_back: tuple[tuple[Path, Path], ...] = ()

    @property
    def written(self) -> tuple[tuple[str, int, Region | None], ...]:
        """`writes` with the parameters' names."""
        names = [parameter.name for parameter in self.graph.parameters]
        return tuple((names[place], output, region) for place, output, region in self.writes)


@record(frozen=False)
class Record:
    """One call while tracing: its text, its operands' types, and what it gave.

    Attributes:
        kinds: of each result, that of a Python number (`late_numbers.KINDS`), else "".
    """

    text: str
    types: tuple[str, ...]
    structure: Any
    values: list[Any]
    shares: list[bool]
    kinds: list[str]


@record(frozen=False)
class Replay:
    """Calls of the first trace of a function, which the second one need not run again."""

    records: list[Record] = field(default_factory=list)
    place: int = 0
    again: bool = False
    """Whether it is the second trace."""
    lists: bool = True
    """Whether loops that append to lists may be regions."""
    numbers: list[Any] = field(default_factory=list)
    """The numbers that were read off values, in their order."""
    settle: Callable[[], None] | None = None
    """Refuses what the function has changed so far, before code runs that is not undone."""
    remembering: Sequence[Any] = ()
    """What the function reaches that keeps its results (`functools.lru_cache`)."""
    look: Callable[[], None] | None = None
    """Takes what there is from now on for what the function has found."""

    def take(self, text: str, types: tuple[str, ...]) -> Record | None:
        """What the same call gave in the first trace."""
        if self.place >= len(self.records):
            return None
        found = self.records[self.place]
        self.place += 1
        return found if (found.text, found.types) == (text, types) else None

    def add(self, record: Record) -> None:
        """Note a call."""
        self.records.append(record)
        self.place = len(self.records)
