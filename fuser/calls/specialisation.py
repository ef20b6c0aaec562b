"""One way to run a function: its trace, its spec, and the calls that it holds for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import executor
from fuser.base import trees
from fuser.base.errors import FuserError
from fuser.base.host_expressions import evaluate_scalar, scalar_symbols
from fuser.base.protocols import is_array
from fuser.base.records import field, record
from fuser.capture import captures
from fuser.capture.contents import Contents
from fuser.ir import dims
from fuser.ir.graph import Graph, Node
from fuser.ir.opaque_calls import LOOP, LOOPS, PatternMiss, filled
from fuser.ir.views import Broadcast
from fuser.kernel_spec import KernelSpec
from fuser.tracing.trace_result import OutNode, OutScalar, OutStatic, OutView, Trace, Write

if TYPE_CHECKING:
    from fuser.program_spec import Kind, Program

_LONG_ENOUGH = r"\(.*\) (?:>= \d+|!= 0)"


@record(frozen=False, slots=False, eq=False)
class Specialisation:
    """One way to run the function: its trace, its spec, and when it holds."""

    trace: Trace
    spec: KernelSpec | Program | None
    names: list[captures.NameGuard]
    array_leaves: tuple[tuple[str, int], ...]
    scalar_leaves: tuple[tuple[str, int], ...]
    captured: dict[str, Any]
    constants: dict[str, Any]
    captured_dtypes: dict[str, Any] = field(default_factory=dict)
    by_contents: bool = False
    """Whether it holds for what some arrays hold that are no arguments."""
    given_back: tuple[tuple[int, Any], ...] = ()
    """Arguments that are results, with their places: another one that is equal is not the same."""
    identities: tuple[int, ...] = ()
    """Which arrays are one, where the function may ask: see `identities_in`."""
    repeated: bool = False
    """Whether it has run before."""
    tried: dict[Any, Any] = field(default_factory=dict)
    """What it gives for the first elements of arguments with labels, see `wrapped_arrays`."""
    stops: int = 0
    """How often NumPy has run a call that it held for."""
    early_guards: tuple[tuple[str, Any], ...] = ()
    late_guards: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Sort guards: some speak of lengths that only functions between kernels tell."""
        known = {p.name for p in self.trace.graph.parameters}
        for parameter in self.trace.graph.parameters:
            known |= {s for dim in parameter.shape for s in dims.symbols(dim)}
        known |= self.trace.graph.scalar_lengths.keys()
        guards = self.trace.value_guards
        self.early_guards = tuple(g for g in guards if scalar_symbols(g[0]) <= known)
        self.late_guards = tuple(g for g in guards if not scalar_symbols(g[0]) <= known)

    @property
    def by_value(self) -> bool:
        """Whether other values of arguments may need other specialisations, without end.

        That an axis is long enough for an index, or a divisor not 0, is no such thing: where it is
        not, NumPy raises.
        """
        guards = self.trace.value_guards
        enough = all(value is True and re.fullmatch(_LONG_ENOUGH, text) for text, value in guards)
        by_object = self.by_contents or bool(self.given_back or self.identities)
        by_object = by_object or bool(self.trace.decisions)
        return by_object or bool(self.trace.hints or self.trace.in_order) or not enough

    @property
    def looking_ns(self) -> float:
        """Nanoseconds, by estimate, that Python takes at each call beside kernels and functions.

        It compares what names hold, reads numbers off values, decides, and repeats results. What
        is done before the plain function runs a call in the end is in vain.
        """
        if self.trace.stopped is not None:
            return IN_VAIN_NS
        held = [guard.expected for guard in self.names
                if type(guard) is captures.NameGuard and guard.by_value]  # fmt: skip
        looks = sum(map(_look_ns, held)) + LOOK_NS * sum(
            type(guard) is captures.NameGuard and type(guard.scope) is captures.Asked
            and not guard.asks for guard in self.names
        )
        looks += ENTER_NS * (looks > 0) + CALLED_NS * sum(guard.asks for guard in self.names)
        calls = {node.payload.number: node.payload for node in self.trace.graph.nodes
                 if node.op.is_opaque}.values()  # fmt: skip
        asked = sum(call.is_inner for call in calls)
        loops = sum(call.name == LOOP for call in calls)
        steps: float = BREAK_NS * (len(calls) - asked - loops) + LOOP_NS * loops
        steps += sum(OURS_NS.get(call.name, 0) for call in calls)
        steps += READ_NS * (0 < asked == len(calls)) + ASKED_NS * max(asked - 2, 0)
        steps += HELD_NS * len(self.captured) * (asked > 0)
        written = [self.trace.graph.outputs[output] for _, output, _ in self.trace.writes]
        steps += COPY_NS * sum(map(_is_called, written))
        seen = [view for leaf in self.trace.leaves if type(leaf) is OutView for view in leaf.views]
        repeats = any(type(view) is Broadcast for view in seen)
        told = [leaf.text for leaf in self.trace.leaves if type(leaf) is OutScalar]
        steps += BOUND_NS * sum(text.count("min(") + text.count("max(") for text in told)
        return looks + steps + REPEAT_NS * repeats

    def match(self, leaves: Sequence[Any]) -> Call | None:
        """The call's arrays and numbers if this specialisation holds for it."""
        asking = [guard for guard in self.names if guard.asks]  # last: they run code of the user's
        if not all(guard.holds() for guard in self.names if not guard.asks):
            return None
        for place, value in self.given_back:
            if leaves[place] is not value:
                return None
        if self.identities and self.identities != self.identities_in(leaves):
            return None
        arrays = {name: leaves[place] for name, place in self.array_leaves}
        for name, array in self.captured.items():
            if array.dtype != self.captured_dtypes[name]:
                return None  # its dtype was changed in place
            arrays[name] = array
        if not all(arrays[name].flags.c_contiguous for name in self.trace.in_order):
            return None
        numbers: dict[str, Any] = {name: leaves[place] for name, place in self.scalar_leaves}
        numbers |= executor.integers_of(self.trace.graph, arrays)
        shapes = {name: array.shape for name, array in arrays.items()}
        sizes = executor.sizes_of(self.trace.graph, shapes, numbers)
        if sizes is None:
            return None
        numbers.update(sizes)
        for text, value in self.early_guards:
            now = evaluate_scalar(text, numbers)
            if not captures.same_value(now, value):
                return None
        if not all(guard.holds() for guard in asking):
            return None
        return Call(self, arrays, numbers, sizes)

    def identities_in(self, leaves: Sequence[Any]) -> tuple[int, ...]:
        """For each array, of arguments and by names, the place of the first that is the same.

        Nothing for fewer than two: there is no other that one of them could be.
        """
        places: dict[int, int] = {}
        named = self.trace.by_identity or ()
        arrays = [*filter(is_array, leaves), *self.captured.values(), *named]
        found = tuple(places.setdefault(id(array), place) for place, array in enumerate(arrays))
        return found if len(found) > 1 else ()

    def alike(self, leaves: Sequence[Any]) -> list[tuple[Any, Any, bool]]:
        """Pairs of arrays that tell `identities`, and whether they are one.

        An array is the place of an argument, or the array itself where it is none.
        """
        given = [place for place, leaf in enumerate(leaves) if is_array(leaf)]
        arrays = [*given, *self.captured.values(), *(self.trace.by_identity or ())]
        firsts = sorted(set(self.identities))
        pairs = []
        for place, first in enumerate(self.identities):
            if place != first:
                pairs.append((arrays[place], arrays[first], True))
            else:
                pairs += [(arrays[k], arrays[place], False) for k in firsts if k < place]
        return pairs

    def check_late(self, numbers: Mapping[str, Any]) -> None:
        """Check what only functions between kernels tell, as soon as it is known.

        Raises:
            PatternMiss: something is not as it was while tracing.
        """
        for text, value in self.late_guards:
            if scalar_symbols(text) <= numbers.keys():
                if not captures.same_value(evaluate_scalar(text, numbers), value):
                    raise PatternMiss(f"{text} is not {value!r}")


@record(frozen=False)
class Call:
    """A specialisation and what it runs on."""

    specialisation: Specialisation
    arrays: dict[str, Any]
    numbers: dict[str, Any]
    sizes: dict[str, int]
    kinds: dict[str, Kind] = field(default_factory=dict)
    """What a program's values were, once it has run."""

    def learn(self, numbers: Mapping[str, Any]) -> None:
        """Know the lengths, too, that functions between kernels have told, and numbers read."""
        known = {name: n for name, n in numbers.items() if name.startswith("n")}
        self.numbers, self.sizes = {**self.numbers, **numbers}, {**self.sizes, **known}


#: Nanoseconds that Python takes to look at a call of which no short way is known.
LONG_WAY_NS = 50_000
#: Those of one NumPy operation, of one that gathers, of a view, of one number, and of an element.
OPERATION_NS, GATHER_NS, VIEW_NS, NUMBER_NS, ELEMENT_NS = 400, 150, 100, 50, 0.5
#: Those of handing attributes in, and of assigning what came out.
FRAME_NS = 3500
#: Those of a way of known shapes and strides that finds integers, or what to write into, each time.
READY_NS = 20_000
#: Those of a look at a list or a set that a name leads to (a dict takes twice as long: its keys,
#: and its values), and of each value in it; those of finding what a container of another class
#: holds; and those of native code calling Python for all of them.
LOOK_NS, PART_NS, OTHER_NS, ENTER_NS = 300, 20, 500, 400
#: Those of a function that keeps its results, which is asked for one.
CALLED_NS = 600
#: Those of numbers that are read off values, of each further one and each decision, of an array
#: that is no argument and is compared beside them, of results that are read-only views, and of each
#: minimum of lengths in a number that is a result.
READ_NS, ASKED_NS, HELD_NS, REPEAT_NS, BOUND_NS = 600, 60, 300, 3000, 80
#: Those around a function that NumPy runs between kernels, around a loop over arrays, and of what
#: such a function gives, which is an array of its own, being written into an argument.
BREAK_NS, LOOP_NS, COPY_NS = 180, 4000, 700
#: Those of what is done beside such a function: arrays that it changes are copies, and an object
#: of np.vectorize is made at each call.
OURS_NS = {"fuser.updated": 1000, "fuser.changed": 1000, "fuser.vectorized": 25_000}
#: That of a call of BLAS for one row times a small matrix.
ROW_NS = 80
#: NumPy's operations up to which what is in vain beside them is more than a twentieth.
IN_VAIN_NS = 5000
_COMPARED = (list, dict, set)
#: How an expression ends of whose numbers some are not known.
_UNKNOWN = (FuserError, LookupError, NameError, TypeError, ArithmeticError)


def _look_ns(held: Any) -> float:
    """Nanoseconds of a look at a copy of a container that may change, and at those in it."""
    found, changes, waiting = 0.0, False, [held]
    while waiting:
        parts = waiting.pop()
        changes = changes or type(parts) in _COMPARED or type(parts) is Contents
        if type(parts) is Contents:
            found, parts = found + OTHER_NS, parts.parts
        if type(parts) in (*_COMPARED, tuple):
            found += (1 + (type(parts) is dict)) * LOOK_NS + PART_NS * len(parts)
            waiting += parts.values() if type(parts) is dict else parts
    return found if changes else 0.0


def _is_called(node: Node) -> bool:
    """Whether NumPy gives a value, and no kernel."""
    while node.op.is_view:
        (node,) = node.args
    return node.op.is_opaque


def is_brief(call: Call, limit_ns: float = LONG_WAY_NS) -> bool:
    """Whether NumPy's operations take less, by estimate, than a look at the call by Python.

    Those of CuPy take as long.

    Args:
        call: one that has been served.
        limit_ns: nanoseconds of the look.
    """
    if not all(isinstance(array, np.ndarray | np.generic) for array in call.arrays.values()):
        return False
    sizes = [int(np.prod(np.shape(array))) for array in call.arrays.values()]
    graph = call.specialisation.trace.graph
    return _operations_ns(graph, call.numbers, max(sizes, default=1), call.sizes) < limit_ns


def _operations_ns(
    graph: Graph, numbers: Mapping[str, Any], most: int, sizes: Mapping[str, int]
) -> float:
    """Nanoseconds of NumPy's operations; those of loops, too.

    Each is on as many elements as lengths say, or on `most` where one of them is not known.

    Infinite where how often a loop runs is not known: of one in a loop the code has to say it, as
    names in there are the loop's own. Of one that something may end early a run has told it.
    """
    found, loops = 0.0, dict[int, Any]()
    for node in graph.nodes:
        if node.op.is_opaque and node.payload.name in LOOPS:
            loops[node.payload.number] = node.payload
        elif node.op.is_opaque and node.payload.takes_less:
            found += ROW_NS * _elements(node.shape[:-1], most, sizes)
        elif node.op.is_view and node.shape:
            found += VIEW_NS
        elif not (node.op.is_input or node.op.is_opaque or node.op.uniform):
            whole = GATHER_NS if node.op.gathers else OPERATION_NS
            parts = [part for part in (node, *node.args) if part.shape]
            size = max((_elements(part.shape, most, sizes) for part in parts), default=0)
            found += whole + ELEMENT_NS * size if node.shape or _reduces(node) else NUMBER_NS
    for loop in loops.values():
        if loop.name != LOOP:
            return math.inf
        from fuser.ir.loops import STATED, TRIPS, region_of  # most functions have no loops

        region = region_of(loop.args)
        try:
            if region.leaving.is_early:
                trips = numbers[f"{TRIPS}{loop.number}"]
            else:
                trips = len(range(*filled(loop.args[STATED], (), numbers)))
        except _UNKNOWN:  # it is known in an iteration of another loop, or between kernels
            return math.inf
        found += trips * _operations_ns(region.graph, {}, most, {})
    return found


def _elements(shape: Sequence[dims.Dim], most: int, sizes: Mapping[str, int]) -> int:
    """The elements of an array of a graph, `most` where that is not known."""
    if any(symbol not in sizes for dim in shape for symbol in dims.symbols(dim)):
        return most
    return math.prod(dims.evaluate(dim, sizes) for dim in shape)


def _reduces(node: Node) -> bool:
    """Whether a number is what is left of an array."""
    return any(arg.shape for arg in node.args) and not node.op.is_view


def specialise(
    trace: Trace,
    spec: KernelSpec | Program | None,
    names: list[captures.NameGuard],
    constants: dict[str, Any],
) -> Specialisation:
    """Sort a trace's parameters into arrays, scalars and captured arrays."""
    arrays, numbers, captured = [], [], {}
    hidden = iter(trace.graph.captured)
    for parameter, leaf in zip(trace.graph.parameters, trace.parameter_leaves, strict=True):
        if leaf is None:
            array = next(hidden)
            captured[parameter.name] = constants.get(parameter.name, array)
        elif parameter.dtype is None:
            numbers.append((parameter.name, leaf))
        else:
            arrays.append((parameter.name, leaf))
    dtypes = {name: array.dtype for name, array in captured.items()}
    return Specialisation(
        trace, spec, names, tuple(arrays), tuple(numbers), captured, constants, dtypes
    )


def of_kernels(
    spec: KernelSpec | Program, given: Sequence[int], writes: Sequence[Write]
) -> Specialisation:
    """Kernels as a function of what they read, known without a trace.

    Args:
        spec: they, or a program of them.
        given: the outputs that the function gives.
        writes: outputs that go into its arguments.
    """
    structure, _ = trees.flatten(0 if len(given) < 2 else tuple(given))
    leaves = tuple(OutNode(place, False) for place in given) or (OutStatic(None),)
    places = tuple(range(len(spec.graph.parameters)))
    return specialise(Trace(spec.graph, structure, leaves, tuple(writes), (), places), spec, [], {})
