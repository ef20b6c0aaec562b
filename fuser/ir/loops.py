"""A loop region: the body of a loop as one graph, run once for each index.

In the graph around it a region is a call between kernels, `fuser.loop('graph(…)…', …)`: its
operands are what the first iteration finds, its results what the last one leaves. `Region` is what
the text of that call says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base.caches import memo
from fuser.base.errors import GraphError
from fuser.base.host_expressions import evaluate_scalar
from fuser.base.records import record
from fuser.ir import attribute_text, layouts
from fuser.ir.attributes import Region as Box
from fuser.ir.graph import Graph

#: So many arguments of the call say what the region is; the others are an `Entry`.
STATED = 8
#: With its number, the name of how often a loop has run that something may end early.
TRIPS = "trips"
#: In a text that stands in another one, numbers of the inner one are spelled so.
_INNER = "number_of_a_loop"
#: Of a carried array that has no values yet, see `Region.copied`.
UNSET = "unset"
_NUMBER = re.compile(r"s[0-9]+")


class IterationFailed(Exception):  # noqa: N818 - a signal: the plain function is run instead
    """An iteration goes another way than the one that was traced; arguments are as they were."""


@record
class Leaving:
    """When a loop ends before its range does.

    Attributes:
        result: the number of the result that is true where it goes on; -1 for none.
        tests: host expressions that are true where it goes on, of an iteration's numbers.
        least: iterations at least: with fewer, results are what a region does not know.
        counted: its last result is an array as long as there were iterations.
    """

    result: int = -1
    tests: tuple[str, ...] = ()
    least: int = 0
    counted: bool = False

    @property
    def is_early(self) -> bool:
        """Whether anything but the range ends it."""
        return self.result >= 0 or bool(self.tests)


@record(slots=False, eq=False)
class Region:
    """A loop whose body is a graph.

    Attributes:
        graph: one iteration. Its parameters are the carried arrays, those that all iterations read,
            and numbers.
        carried: how many carried arrays there are.
        results: for each carried array, and each array that only the last iteration leaves, what
            an iteration leaves there: "" the same array, "x1" a parameter's array, else the number
            of an output, `2`, `2[()]` for a NumPy scalar.
        writes: (parameter, output, region) of what an iteration writes into arrays; None is all.
        index: the name of the loop's index among the numbers.
        updates: numbers that iterations change: what the next one has, by name.
        guards: (host expression, truth) pairs that hold in every iteration.
        copied: for each carried array, whether the region works on a copy of the first one; or
            `UNSET`, where that has no values: on a new one of its shape.
        leaving: when it ends before its range does, and what it says of that.
    """

    graph: Graph
    carried: int
    results: tuple[str, ...]
    writes: tuple[tuple[int, int, Box | None], ...]
    index: str
    updates: Mapping[str, str]
    guards: tuple[tuple[str, bool], ...]
    copied: tuple[bool | str, ...]
    leaving: Leaving = Leaving()

    @property
    def names(self) -> list[str]:
        """The parameters' names."""
        return [parameter.name for parameter in self.graph.parameters]


@record(slots=False, eq=False)
class Entry:
    """What one run of a region begins with.

    Attributes:
        span: start, stop and step of the index.
        carried: the carried arrays.
        fixed: arrays that all iterations read.
        numbers: numbers by parameter, but for the index.
        first: what has to be true for the first iteration.
    """

    span: tuple[int, int, int]
    carried: Sequence[Any]
    fixed: Sequence[Any]
    numbers: Mapping[str, Any]
    first: Sequence[Any] = ()


def spell(
    graph: Graph, results: Sequence[str], writes: Sequence[tuple[int, int, str]], index: str,
    updates: Mapping[str, str], guards: Sequence[tuple[str, bool]],
    copied: Sequence[bool | str], leaving: Leaving,
) -> str:  # fmt: skip
    """The part of a region's call that says what it is: see `Region`."""
    body = re.sub(rf"\b(host|{_INNER}_*)\(", _deeper, graph.text)
    left = leaving.result, leaving.tests, leaving.least, leaving.counted
    parts = tuple(results), tuple(writes), index, dict(updates), tuple(guards), tuple(copied), left
    return ", ".join([repr(body), *(_dict(p) if type(p) is dict else repr(p) for p in parts)])


def _dict(value: Mapping[str, str]) -> str:
    """A mapping as a call's text has it."""
    return f"dict({', '.join(f'{name}={text!r}' for name, text in value.items())})"


def _deeper(found: re.Match[str]) -> str:
    """A number's call as it is spelled one text further in: no renaming reaches it there."""
    return f"{_INNER}(" if found[1] == "host" else f"{found[1]}_("


def _nearer(found: re.Match[str]) -> str:
    """The reverse of `_deeper`."""
    return "host(" if found[1] == _INNER else f"{found[1][:-1]}("


@memo(512)
def _region(
    body: str, results: tuple[str, ...], writes: tuple[tuple[int, int, str], ...], index: str,
    updates: tuple[tuple[str, str], ...], guards: tuple[tuple[str, bool], ...],
    copied: tuple[bool | str, ...], leaving: tuple[int, tuple[str, ...], int, bool],
) -> Region:  # fmt: skip
    """A region by the parts of its text.

    Raises:
        GraphError: they are no region.
    """
    from fuser.ir.graph_text import parse  # most functions have no loops

    graph = parse(re.sub(rf"\b({_INNER}_*)\(", _nearer, body))
    names = [p.name for p in graph.parameters]
    arrays = {p.name for p in graph.parameters if p.dtype is not None}
    outputs = {f"{k}{form}" for k in range(len(graph.outputs)) for form in ("", "[()]")}
    known = arrays | outputs | {""}
    sound = known.issuperset(results) and len(copied) <= min(len(results), len(arrays))
    sound = sound and all(_NUMBER.fullmatch(name) for name in (index, *dict(updates)))
    sound = sound and all(
        names[place] in arrays and output < len(graph.outputs) for place, output, _ in writes
    )
    left = Leaving(*leaving)
    sound = sound and left.result < len(results) and type(left.least) is int
    if not sound:
        raise GraphError("the text of a loop names what its graph has not")
    read = attribute_text.read
    boxes = tuple((k, output, read("update", text) if text else None) for k, output, text in writes)
    return Region(graph, len(copied), results, boxes, index, dict(updates), guards, copied, left)


def region_of(args: Sequence[Any]) -> Region:
    """The region that a call with these arguments runs.

    Raises:
        GraphError: its text is none of a region.
    """
    try:
        body, results, writes, index, updates, guards, copied, leaving = args[:STATED]
        changes = tuple(updates.items())
        return _region(body, results, writes, index, changes, guards, copied, leaving)
    except (ValueError, TypeError, AttributeError) as error:
        raise GraphError(f"a loop's text is not understood: {error}") from None


def iterate(
    region: Region, entry: Entry, step: Callable[[list[Any], dict[str, Any]], Sequence[Any]]
) -> list[Any]:
    """Run a region; what its last iteration leaves.

    Args:
        region: the loop.
        entry: what it begins with.
        step: runs the body on arrays and numbers by name, writes included; gives what `results`
            says, None for the same array.

    Raises:
        IterationFailed: an iteration goes another way.
    """
    state = started(region, entry) + [None] * (len(region.results) - region.carried)
    numbers = dict(entry.numbers)
    leaving, trips = region.leaving, 0
    for index in range(*entry.span) if all(entry.first) else ():
        numbers[region.index] = index
        for text, truth in region.guards:
            if evaluate_scalar(text, numbers) is not truth:
                raise IterationFailed(f"{text} is not {truth}")
        found = step([*state[: region.carried], *entry.fixed], numbers)
        state = [old if new is None else new for old, new in zip(state, found, strict=True)]
        goes_on = all(evaluate_scalar(text, numbers) for text in leaving.tests)
        if region.updates:
            new = {k: evaluate_scalar(text, numbers) for k, text in region.updates.items()}
            numbers.update(new)
        trips += 1
        if not goes_on or (leaving.result >= 0 and not state[leaving.result]):
            break
    return ended(region, state, trips) if leaving.is_early else state


def ended(region: Region, state: list[Any], trips: int) -> list[Any]:
    """The results of a region that something may end early, after so many iterations; then these.

    Raises:
        IterationFailed: there were fewer than it knows the results of.
    """
    if trips < region.leaving.least:
        raise IterationFailed(f"{trips} iterations, where it was traced for more")
    return [*state, np.empty(trips, bool) if region.leaving.counted else trips]


def started(region: Region, entry: Entry) -> list[Any]:
    """The carried arrays of the first iteration: copies of those that are written."""
    return [
        value.copy("K") if copied and layouts.is_array(value) else value
        for value, copied in zip(entry.carried, region.copied, strict=True)
    ]
