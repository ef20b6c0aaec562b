"""The short way of calls whose shapes and strides are known exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import executor
from fuser.backend import get_backend
from fuser.base import counters
from fuser.base.protocols import module_of
from fuser.calls.prepared import MISSED, Prepared
from fuser.calls.result_assembly import NotAssembled, assemble
from fuser.calls.specialisation import Call
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Program
from fuser.tracing.trace_result import OutNode

if TYPE_CHECKING:
    from fuser.calls.program_fast_path import ReadyProgram


class Ready(Prepared):
    """How such calls run where all is kernels."""

    def __init__(self, call: Call, launch: Any, writes: Writes) -> None:
        """Keep the bound launch, too."""
        trace = call.specialisation.trace
        super().__init__(call, trace.value_guards)
        self._assembly = assemble(trace, {}, writes.direct)
        self._run = launch.sequence.run
        self._kernels = launch.kernel_count
        self._writes = writes if trace.writes else None
        self._counts = {"launches": launch.kernel_count}
        self._straight: Any = None
        if not self._writes:
            wanted = [f"o{k}" for k in self._assembly.results]
            self._straight = self._one_function(call, launch, wanted, {})
        self.knows_its_arguments = self._straight is not None

    def try_again(self, args: tuple[Any, ...]) -> Any:
        """`run` where arguments may be others than those that this was made for."""
        if len(args) != self._count or not self.holds():
            return MISSED
        found = self._straight(args)
        if found is MISSED:
            return MISSED
        counters.add_soon(self._counts)
        made = self._assembly
        return made.function(*found, *[args[place] for place in made.leaves])

    def run(self, args: tuple[Any, ...]) -> Any:
        """The outputs, or MISSED where the call has to be looked at again."""
        numbers = self._numbers(args)
        if numbers is None:
            return MISSED
        arrays = {name: args[place] for name, place in self._arrays}
        if self._writes is not None and not self._writes.add_targets(arrays):
            return MISSED
        if self._run(arrays, numbers):
            return MISSED
        counters.count("launches", self._kernels)
        made = self._assembly
        results = [arrays[f"o{place}"] for place in made.results]
        return made.function(*results, *[args[place] for place in made.leaves])


class ReadyOut(Prepared):
    """How such calls with `out=` one array run, where one function does all."""

    def __init__(self, call: Call, launch: Any, name: str, out: Any) -> None:
        """Write that function.

        Raises:
            NotAssembled: it cannot be written.
        """
        super().__init__(call, call.specialisation.trace.value_guards)
        self._counts = {"launches": launch.kernel_count}
        self._straight = self._one_function(call, launch, [name], {name: out})
        if self._straight is None:
            raise NotAssembled

    def run(self, args: tuple[Any, ...], out: Any) -> Any:
        """`out`, written; or MISSED where the call has to be looked at again."""
        if len(args) != self._count or not self.holds():
            return MISSED
        if self._straight((*args, out)) is MISSED:
            return MISSED
        counters.add_soon(self._counts)
        return out


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
        names = [parameter.name for parameter in trace.graph.parameters]
        backend = get_backend(executor.device_of(call.arrays.values()))
        self._share = backend.array_module.may_share_memory
        self._written = tuple(names[place] for place, _, _ in trace.writes)
        self._apart = tuple((names[first], names[then]) for first, then in trace.hazards)
        parts = {
            output: (names[place], region.slices(call.sizes) if region else None)
            for place, output, region in trace.writes
        }
        given = {
            output: call.arrays[name] if index is None else call.arrays[name][index]
            for output, (name, index) in parts.items()
        }
        self.targets = executor.direct_targets(spec, call.arrays, given, call.sizes, backend)
        self.direct = frozenset(self.targets)
        self._parts = tuple((f"o{output}", *parts[output]) for output in self.targets)

    def add_targets(self, arrays: dict[str, Any]) -> bool:
        """Add the arrays to write into to those of a call; whether it may run so."""
        share = self._share
        for name in self._written:
            if executor.is_read_only(arrays[name]):
                return False
        for first, then in self._apart:
            if arrays[first] is arrays[then] or share(arrays[first], arrays[then]):
                return False
        targets = {}
        for output, name, index in self._parts:
            array = arrays[name]
            targets[output] = target = array if index is None else array[index]
            if any(share(target, other) for key, other in arrays.items() if key != name):
                return False
        arrays.update(targets)
        return True


#: Combinations of shapes and strides that one function remembers exactly.
READY_LIMIT = 256


def exact_key(args: tuple[Any, ...]) -> Any:
    """Dtypes, shapes and strides of arrays, types of numbers; None for other objects."""
    parts: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            parts.append((arg.dtype, arg.shape, arg.strides))
        elif kind is float or kind is int or kind is bool:
            parts.append(kind)
        elif _is_cupy(kind):
            parts.append((kind, arg.dtype, arg.shape, arg.strides))
        elif issubclass(kind, np.ndarray):
            parts.append((kind, arg.dtype, arg.shape, arg.strides))
        elif issubclass(kind, np.generic):
            parts.append((kind, arg.dtype))
        elif kind is complex or kind is str or arg is None:
            parts.append((kind, repr(arg)))
        else:
            return None
    return tuple(parts)


#: Parts of a tuple, list or dict that a refusal is known by; of longer ones the first.
_FEW = 8


def refusal_key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What refused calls are known by where `exact_key` has none for them.

    A call that is taken for another one's like is NumPy's, so it need not tell all calls apart:
    objects are known by identity, long containers by their length and first part.

    Args:
        args: of the call.
        kwargs: likewise.
    """
    return (_refusal_part(args), *[(name, _refusal_part(kwargs[name])) for name in kwargs])


def _refusal_part(value: Any, depth: int = 4) -> Any:
    """The part of one argument."""
    kind = type(value)
    if kind is np.ndarray:
        return (value.dtype, value.shape)
    if kind is float or kind is int or kind is bool:
        return kind
    if (kind is tuple or kind is list or kind is dict) and depth:
        parts = value.values() if kind is dict else value
        if len(value) > _FEW and depth < 4:
            parts = (next(iter(parts)),)
        return (kind, len(value), *[_refusal_part(part, depth - 1) for part in parts])
    return (id(kind), id(value))


def _is_cupy(kind: type[Any]) -> bool:
    """Whether arrays of a type are CuPy's."""
    return module_of(kind).partition(".")[0] == "cupy" and kind.__name__ == "ndarray"


def make_ready(call: Call, kind: Any) -> Ready | ReadyProgram | None:
    """A short way for calls like this one.

    Args:
        call: one that has been served.
        kind: makes a fused function, for each stage of a program.
    """
    spec = call.specialisation.spec
    if isinstance(spec, Program):
        from fuser.calls.program_fast_path import make_ready_program  # few functions are programs

        return make_ready_program(call, spec, kind)
    if not isinstance(spec, KernelSpec) or spec.checked:
        return None
    if spec.graph.guards_of_integers:
        return None  # another number is another layout
    if call.specialisation.captured:
        return None  # a captured array may be given another shape in place
    arrays = call.arrays.values()
    if any(type(array) is not np.ndarray and not _is_cupy(type(array)) for array in arrays):
        return None
    writes = Writes(call)
    given = {f"o{place}": target for place, target in writes.targets.items()}
    launch = executor.known_launch(spec, call.arrays, given, call.sizes)
    if launch is None or launch.sequence is None:
        return None
    try:
        return Ready(call, launch, writes)
    except NotAssembled:
        return None


def make_ready_out(call: Call, out: Any) -> ReadyOut | None:
    """A short way for calls like this one with `out=` one array, which kernels write into."""
    spec, trace = call.specialisation.spec, call.specialisation.trace
    if not isinstance(spec, KernelSpec) or spec.checked or trace.writes:
        return None
    if spec.graph.guards_of_integers:
        return None
    if call.specialisation.captured or len(trace.leaves) != 1:
        return None
    leaf = trace.leaves[0]
    if type(leaf) is not OutNode or not _is_cupy(type(out)):
        return None
    backend = get_backend(executor.device_of(call.arrays.values()))
    given = {leaf.index: out}
    if not executor.direct_targets(spec, call.arrays, given, call.sizes, backend):
        return None
    name = f"o{leaf.index}"
    launch = executor.known_launch(spec, call.arrays, {name: out}, call.sizes)
    if launch is None or launch.sequence is None:
        return None
    try:
        return ReadyOut(call, launch, name, out)
    except NotAssembled:
        return None
