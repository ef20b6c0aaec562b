"""The short way of calls whose shapes and strides are known exactly."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser import executor
from fuser.backend import MISSED, Compared, PythonCall, get_backend
from fuser.base import config, counters
from fuser.base.call_keys import is_cupy
from fuser.base.generated import define
from fuser.base.host_expressions import evaluate_scalar, scalar_symbols
from fuser.base.records import changed
from fuser.calls import adopted_arrays
from fuser.calls.result_assembly import NotAssembled, assemble, prepare
from fuser.calls.specialisation import Call
from fuser.capture import captures
from fuser.ir import dims
from fuser.kernel_spec import KernelSpec
from fuser.runtime import aliasing
from fuser.tracing.trace_result import OutNode


class Prepared(config.Standing):
    """What is known of calls with exactly these shapes and strides: only values differ."""

    def __init__(self, call: Call, guards: Sequence[tuple[str, Any]]) -> None:
        """Keep what does not change from call to call.

        Args:
            call: one that has been served.
            guards: (host expression, value) pairs; those of lengths alone hold for all such calls.
        """
        specialisation = call.specialisation
        super().__init__(specialisation.names)
        self._arrays = specialisation.array_leaves
        self._scalars = specialisation.scalar_leaves
        self._sizes = dict(call.sizes)
        self._counts: Mapping[str, int] = {}
        fixed = self._sizes.keys()
        self._guards = [each for each in guards if not scalar_symbols(each[0]) <= fixed]
        self._count = len(self._arrays) + len(self._scalars)

    def _numbers(self, args: Sequence[Any]) -> dict[str, Any] | None:
        """Values of lengths and scalars by name, or None where a guard does not hold."""
        numbers = self._sizes
        if not self._scalars:
            return numbers
        numbers = numbers | {name: args[place] for name, place in self._scalars}
        for text, value in self._guards:
            if not captures.same_value(evaluate_scalar(text, numbers), value):
                return None
        return numbers


    def _one_function(
        self, known: Mapping[str, Any], numbers: Mapping[str, Any], captured: Mapping[str, Any],
        sequence: Any, wanted: Sequence[str], given: Mapping[str, Any],
        adopted: Mapping[int, tuple[type, Any]] | None = None,
        compared: Compared | None = None,
    ) -> Any:  # fmt: skip
        """All of it as one function of the arguments, where the backend writes that.

        Args:
            known: arrays of a call that has been served, by name.
            numbers: likewise.
            captured: arrays that the function reaches by names.
            sequence: what the call ran.
            wanted: names of the results.
            given: by name, an array to write into: it comes after the arguments, and after all
                leaves of these where they have been compared.
            adopted: other libraries' arrays among the arguments, see `adopted_arrays.takers`.
            compared: of calls whose arguments have been compared, how their results come about.
        """
        write = getattr(sequence, "straight", None)
        if write is None or self._guards:
            return None
        arrays, values = self._placed(known, numbers, captured)
        behind = self._count if compared is None else compared.count - 1
        targets = {name: (behind, array) for name, array in given.items()}
        return write(arrays, values, wanted, MISSED, targets, adopted, compared)

    def _placed(
        self, known: Mapping[str, Any], numbers: Mapping[str, Any], captured: Mapping[str, Any]
    ) -> tuple[dict[str, tuple[int | None, Any]], dict[str, tuple[int, Any]]]:
        """Arrays and numbers of a call by name, each with its place among the arguments."""
        arrays: dict[str, tuple[int | None, Any]]
        arrays = {name: (place, known[name]) for name, place in self._arrays}
        arrays |= {name: (None, array) for name, array in captured.items()}
        return arrays, {name: (place, numbers[name]) for name, place in self._scalars}

    def _python_call(
        self, call: Call, leaves: Sequence[Any], names: tuple[str, ...], structure: Any,
        sequence: Any, wanted: Sequence[str], together: Callable[..., Any] | None,
        taken: Sequence[int] = (), out: Any = None,
    ) -> PythonCall | None:  # fmt: skip
        """What a backend needs that compares arguments natively, of a call that is kernels alone.

        Args:
            call: one that has been served.
            leaves: its arguments.
            names: its keywords in their order.
            structure: how positional arguments and keywords nest.
            sequence: what it ran.
            wanted: names of the results.
            together: what makes them the call's; None where they are.
            taken: places of the arguments that it takes behind them.
            out: the array to write into, the only one that is wanted, or None.
        """
        fields = get_backend(executor.device_of(call.arrays.values())).device_fields
        if fields is None:
            return None
        captured, given = call.specialisation.captured, {} if out is None else {wanted[0]: out}
        compared = Compared(len(leaves) + len(given), together, taken)
        function = self._one_function(
            call.arrays, call.numbers, captured, sequence, wanted, given, None, compared
        )
        natively = None
        if "launch" in fields:
            arrays, numbers = self._placed(call.arrays, call.numbers, captured)
            arrays |= {name: (len(leaves), array) for name, array in given.items()}
            natively = sequence.natively(arrays, numbers, wanted, compared)
        return PythonCall(
            function=function, guards=call.specialisation.names, holds=self.holds,
            counts=self._counts, leaves=leaves, names=names, structure=structure,
            places=dict(self._arrays), captured=captured, device_fields=fields, out=out,
            apart=tuple(
                (target, name) for target in given for name, array in call.arrays.items()
                if not isinstance(array, np.generic)
            ),
            natively=natively,
        )  # fmt: skip


class Ready(Prepared):
    """How such calls run where all is kernels.

    Attributes:
        knows_its_arguments: whether there is `try_again`.
        try_again: `run`, or MISSED, for any arguments.
    """

    try_again: Callable[[tuple[Any, ...]], Any]

    def __init__(self, call: Call, launch: Any, writes: Writes) -> None:
        """Keep the bound launch, too."""
        trace = call.specialisation.trace
        super().__init__(call, trace.value_guards)
        self._captured = dict(call.specialisation.captured)
        self._layouts = {name: _layout(array) for name, array in self._captured.items()}
        self._assembly = assemble(trace, self._captured, writes.direct)
        if self._assembly.containers:
            raise NotAssembled
        graph = trace.graph
        self._integers = tuple(graph.integer_arrays if graph.guards_of_integers else ())
        if graph.guards_of_integers and not any(is_cupy(type(a)) for a in call.arrays.values()):
            more = (k for k, a in call.arrays.items() if isinstance(a, np.generic))
            self._integers += tuple(name for name in more if name not in self._integers)
        self._launch = launch.sequence.run, launch.kernel_count
        self._writes = writes if trace.writes else None
        self._counts = {"launches": launch.kernel_count}
        self._straight: Any = None
        if not self._writes and not trace.graph.guards_of_integers:
            wanted = [f"o{k}" for k in self._assembly.results]
            self._straight = self._one_function(
                call.arrays, call.numbers, self._captured, launch.sequence, wanted, {}
            )
        self.knows_its_arguments = self._straight is not None
        if self.knows_its_arguments:
            self.try_again = self._whole()
        self._sequence, self._in_order = launch.sequence, bool(trace.in_order)

    def adopting(
        self, leaves: Sequence[Any], taken: Sequence[Any], give: Callable[[Any], Any] | None
    ) -> Ready | None:
        """The same where some arguments are other libraries' arrays; None where it cannot be.

        Args:
            leaves: the arguments.
            taken: likewise, with the backend's arrays in place of other libraries'.
            give: makes results those of such a library.
        """
        adopted = adopted_arrays.takers(leaves, taken)
        assembly = self._assembly
        apart = adopted.keys().isdisjoint(assembly.leaves)
        if not self.knows_its_arguments or self._in_order or not apart:
            return None
        made = copy.copy(self)
        arrays = {name: taken[place] for name, place in self._arrays}
        numbers = {name: taken[place] for name, place in self._scalars}
        wanted = [f"o{k}" for k in assembly.results]
        made._straight = self._one_function(
            arrays, numbers, self._captured, self._sequence, wanted, {}, adopted
        )
        if give is not None:
            made._assembly = changed(assembly, function=_then(assembly.function, give))
        made.try_again = made._whole()
        return made

    def native(
        self, call: Call, leaves: Sequence[Any], names: tuple[str, ...], structure: Any
    ) -> PythonCall | None:
        """What a backend needs that compares arguments natively; None: one function is not all.

        Args:
            call: one that has been served.
            leaves: its arguments.
            names: its keywords in their order.
            structure: how positional arguments and keywords nest.
        """
        there = any(is_cupy(type(array)) for array in call.arrays.values())
        if not self.knows_its_arguments or self._in_order or not there:
            return None
        made = self._assembly
        return self._python_call(
            call, leaves, names, structure, self._sequence, [f"o{k}" for k in made.results],
            None if made.bare else made.function, made.leaves,
        )  # fmt: skip

    def _whole(self) -> Callable[[tuple[Any, ...]], Any]:
        """`run` for any arguments, as one function."""
        made = self._assembly
        known: dict[str, Any] = {
            "MISSED": MISSED, "straight": self._straight, "assembled": made.function,
            "count": counters.add_soon, "counts": self._counts,
        }  # fmt: skip
        parts = [f"found[{k}]" for k in range(len(made.results))]
        parts += [f"args[{place}]" for place in made.leaves]
        return define("known_call", ["args"], [
            f"if len(args) != {self._count} or not ({self.condition(known)}): return MISSED",
            "found = straight(args)",
            "if found is MISSED: return MISSED",
            "count(counts)",
            f"return assembled({', '.join(parts)})",
        ], known)  # fmt: skip

    def _launch_of(self, numbers: Mapping[str, Any]) -> tuple[Any, int] | None:
        """What runs the kernels for these numbers, and how many these are; None where unknown."""
        return self._launch

    def run(self, args: tuple[Any, ...]) -> Any:
        """The outputs, or MISSED where the call has to be looked at again."""
        if self.knows_its_arguments and not self._in_order:
            found = self.try_again(args)
            if found is not MISSED:
                return found
        numbers = self._numbers(args)
        if numbers is None:
            return MISSED
        arrays = {name: args[place] for name, place in self._arrays}
        for name, array in self._captured.items():
            if _layout(array) != self._layouts[name]:  # changed in place
                return MISSED
            arrays[name] = array
        for name in self._integers:
            arrays[name] = np.asarray(arrays[name])
        if self._writes is not None and not self._writes.add_targets(arrays, numbers):
            return MISSED
        launch = self._launch_of(numbers)
        if launch is None or launch[0](arrays, numbers):
            return MISSED
        counters.count("launches", launch[1])
        made = self._assembly
        results = [arrays[f"o{place}"] for place in made.results]
        return made.function(*results, *[args[place] for place in made.leaves])


class ReadyForIntegers(Ready):
    """How such calls run where integer arguments are indices, bounds or lengths.

    It serves one class of numbers. Those in shapes have a launch each, others move what is read
    and written.
    """

    def __init__(self, call: Call, launch: Any, writes: Writes) -> None:
        """Write a function that checks the class, and tells the lengths that integers are."""
        super().__init__(call, launch, writes)
        trace, spec = call.specialisation.trace, call.specialisation.spec
        assert isinstance(spec, KernelSpec)
        told = trace.graph.scalar_lengths
        fixed = self._sizes.keys() - told.keys()
        guards: list[tuple[str, Any]] = [(f"({dim}) >= 0", True) for dim in told.values()]
        guards += [
            (f"({left}) == ({right})", True)
            for left, right in trace.graph.guards
            if told.get(str(left)) != right
            and not fixed >= {*dims.symbols(left), *dims.symbols(right)}
        ]
        self._told = prepare(trace, [*guards, *self._guards], [(name, int) for name in told])
        self._lengths = tuple(told)
        self._specialisation = call.specialisation
        self._shaping = spec.shaping
        self._launches = {self._shape_of(self._sizes): self._launch}

    def _shape_of(self, numbers: Mapping[str, Any]) -> tuple[int, ...]:
        """The numbers that are in shapes."""
        return tuple(numbers[name] for name in self._shaping)

    def _launch_of(self, numbers: Mapping[str, Any]) -> tuple[Any, int] | None:
        """That of other calls with the same numbers in shapes."""
        return self._launches.get(self._shape_of(numbers))

    def take(self, other: ReadyForIntegers) -> bool:
        """Know the launch of another call, too, if it is of the same class."""
        if other._specialisation is not self._specialisation or self._writes or other._writes:
            return False
        if len(self._launches) >= executor.BOUND_LIMIT:
            self._launches = {}
        self._launches |= other._launches
        return True

    def _numbers(self, args: Sequence[Any]) -> dict[str, Any] | None:
        """Values of lengths and scalars by name, or None where a guard does not hold."""
        found = self._told.function(*[args[place] for place in self._told.leaves])
        if found is None:
            return None
        numbers = self._sizes | {name: args[place] for name, place in self._scalars}
        numbers.update(zip(self._lengths, found, strict=True))
        return numbers


class Ways:
    """Short ways of calls that are alike but for their numbers: one for each class of these."""

    def __init__(self, first: ReadyForIntegers) -> None:
        """Know one."""
        self._ways = [first]

    def add(self, way: ReadyForIntegers) -> None:
        """Know one more; the oldest are forgotten."""
        if any(known.holds() and known.take(way) for known in self._ways):
            return
        self._ways = [way, *self._ways[: WAYS_LIMIT - 1]]

    def holds(self) -> bool:
        """Whether some way stands still."""
        return any(way.holds() for way in self._ways)

    def run(self, args: tuple[Any, ...]) -> Any:
        """The outputs, or MISSED where the call has to be looked at again."""
        for way in self._ways:
            if way.holds() and (found := way.run(args)) is not MISSED:
                return found
        return MISSED


class ReadyOut(Prepared):
    """How such calls with `out=` one array run, where one function does all."""

    def __init__(self, call: Call, launch: Any, name: str, out: Any) -> None:
        """Write that function.

        Raises:
            NotAssembled: it cannot be written.
        """
        super().__init__(call, call.specialisation.trace.value_guards)
        self._counts = {"launches": launch.kernel_count}
        self._straight = self._one_function(
            call.arrays, call.numbers, call.specialisation.captured, launch.sequence, [name],
            {name: out},
        )  # fmt: skip
        if self._straight is None:
            raise NotAssembled
        self._sequence, self._name, self._out = launch.sequence, name, out

    def native(
        self, call: Call, leaves: Sequence[Any], names: tuple[str, ...], structure: Any
    ) -> PythonCall | None:
        """As `Ready.native`."""
        return self._python_call(
            call, leaves, names, structure, self._sequence, [self._name], None, (), self._out
        )

    def run(self, args: tuple[Any, ...], out: Any) -> Any:
        """`out`, written; or MISSED where the call has to be looked at again."""
        if len(args) != self._count or not self.holds():
            return MISSED
        if self._straight((*args, out)) is MISSED:
            return MISSED
        counters.add_soon(self._counts)
        return out


def _speaks_of(lengths: Sequence[dims.Dim], names: frozenset[str]) -> bool:
    """Whether some length is spelled with one of these symbols."""
    return any(not names.isdisjoint(dims.symbols(dim)) for dim in lengths)


class Writes:
    """What a function writes into its arguments.

    Attributes:
        direct: graph outputs that kernels write there themselves; others are copied.
        targets: those arrays, or parts of them, in the call that has been served.
    """

    def __init__(self, call: Call) -> None:
        """Look at a call that has been served."""
        trace, spec = call.specialisation.trace, call.specialisation.spec
        assert isinstance(spec, KernelSpec)
        backend = get_backend(executor.device_of(call.arrays.values()))
        self._share = backend.array_module.may_share_memory
        self._asked = tuple(name for name, _, _ in trace.written), trace.hazards
        parts = {
            output: (name, region.slices(call.sizes) if region else None)
            for name, output, region in trace.written
        }
        given = {
            output: call.arrays[name] if index is None else call.arrays[name][index]
            for output, (name, index) in parts.items()
        }
        self.targets = aliasing.direct_targets(spec, call.arrays, given, call.sizes, backend)
        self.direct = frozenset(self.targets)
        self._parts = tuple((f"o{output}", *parts[output]) for output in self.targets)
        self._indices = parts
        self._moving = {
            output: region
            for _, output, region in trace.writes
            if region is not None and _speaks_of(region.lengths, spec.moving)
        }
        self._again = (spec, backend) if spec.moving else None

    def _moved(
        self, arrays: Mapping[str, Any], numbers: Mapping[str, Any]
    ) -> tuple[tuple[str, str, Any], ...] | None:
        """The parts to write into where integers move them; None where kernels may not do it."""
        assert self._again is not None
        spec, backend = self._again
        indices = dict(self._indices)
        for output, region in self._moving.items():
            indices[output] = indices[output][0], region.slices(numbers)
        given = {
            output: arrays[name] if index is None else arrays[name][index]
            for output, (name, index) in indices.items()
        }
        found = aliasing.direct_targets(spec, arrays, given, dict(numbers), backend)
        if found.keys() != self.direct:
            return None
        return tuple((f"o{output}", *indices[output]) for output in found)

    def add_targets(self, arrays: dict[str, Any], numbers: Mapping[str, Any]) -> bool:
        """Add the arrays to write into to those of a call; whether it may run so."""
        if not aliasing.may_write(arrays, *self._asked):
            return False
        share = self._share
        parts = self._parts if self._again is None else self._moved(arrays, numbers)
        if parts is None:
            return False
        targets = {}
        for output, name, index in parts:
            array = arrays[name]
            targets[output] = target = array if index is None else array[index]
            if any(share(target, other) for key, other in arrays.items() if key != name):
                return False
        arrays.update(targets)
        return True


def _then(first: Callable[..., Any], second: Callable[[Any], Any]) -> Callable[..., Any]:
    """One function after another."""
    return lambda *parts: second(first(*parts))


#: Classes of numbers, and numbers in shapes, that one combination of these remembers.
WAYS_LIMIT = 16


def _layout(array: Any) -> tuple[Any, ...]:
    """What a captured array may be given anew in place."""
    return array.dtype, array.shape, array.strides


def make_ready(call: Call) -> Ready | None:
    """A short way for calls like this one, which has been served."""
    spec = call.specialisation.spec
    if not isinstance(spec, KernelSpec) or spec.options.errstate:
        return None
    trace, captured = call.specialisation.trace, call.specialisation.captured
    if captured and (trace.writes or spec.graph.guards_of_integers):
        return None
    numbers = spec.graph.integer_arrays if spec.graph.guards_of_integers else ()
    arrays = [array for name, array in call.arrays.items() if name not in numbers]
    there = any(is_cupy(type(array)) for array in arrays)
    if captured and not there:
        return None  # served natively
    integers = bool(spec.graph.guards_of_integers)
    made = there or integers  # NumPy's scalars are moved there, or become arrays
    kinds = [type(array) for array in arrays if not (made and isinstance(array, np.generic))]
    if any(kind is not np.ndarray and not is_cupy(kind) for kind in kinds):
        return None
    writes = Writes(call)
    given = {f"o{place}": target for place, target in writes.targets.items()}
    launch = executor.known_launch(spec, call.arrays, given, call.sizes)
    if launch is None or launch.sequence is None:
        return None
    try:
        return (ReadyForIntegers if integers else Ready)(call, launch, writes)
    except NotAssembled:
        return None


def make_ready_out(call: Call, out: Any) -> ReadyOut | None:
    """A short way for calls like this one with `out=` one array, which kernels write into."""
    spec, trace = call.specialisation.spec, call.specialisation.trace
    if not isinstance(spec, KernelSpec) or spec.options.errstate or trace.writes:
        return None
    if spec.graph.guards_of_integers:
        return None
    if call.specialisation.captured or len(trace.leaves) != 1:
        return None
    leaf = trace.leaves[0]
    if type(leaf) is not OutNode or not is_cupy(type(out)):
        return None
    backend = get_backend(executor.device_of(call.arrays.values()))
    given = {leaf.index: out}
    if not aliasing.direct_targets(spec, call.arrays, given, call.sizes, backend):
        return None
    name = f"o{leaf.index}"
    launch = executor.known_launch(spec, call.arrays, {name: out}, call.sizes)
    if launch is None or launch.sequence is None:
        return None
    try:
        return ReadyOut(call, launch, name, out)
    except NotAssembled:
        return None
