"""The short way of calls whose shapes and strides are known exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import captures, counters, executor, native_call, scalars, trees
from fuser.program import Program
from fuser.specs import KernelSpec
from fuser.trace_result import OutNode

if TYPE_CHECKING:
    from fuser.ready_program import ReadyProgram
    from fuser.specialisation import Call


class Prepared:
    """What is known of calls with exactly these shapes and strides: only values differ.

    Attributes:
        knows_its_arguments: whether `try_again` may be asked with any arguments.
    """

    knows_its_arguments = False

    def __init__(
        self,
        call: Call,
        guards: Sequence[tuple[str, Any]],
        outputs: tuple[tuple[str, bool], ...],
    ) -> None:
        """Keep what does not change from call to call.

        Args:
            call: one that has been served.
            guards: (host expression, value) pairs; those of lengths alone hold for all such calls.
            outputs: (name, whether NumPy gives a scalar) of each result.
        """
        specialisation = call.specialisation
        self._mode = native_call.MODE_WORD.value
        self._names = specialisation.names
        self._arrays = specialisation.array_leaves
        self._scalars = specialisation.scalar_leaves
        self._sizes = dict(call.sizes)
        fixed = self._sizes.keys()
        self._guards = [each for each in guards if not scalars.symbols(each[0]) <= fixed]
        self._outputs = outputs
        structure = specialisation.trace.structure
        self._structure = None if type(structure) is trees.Leaf else structure

    def holds(self) -> bool:
        """Whether settings and captured names are as they were."""
        if self._mode != native_call.MODE_WORD.value:
            return False
        return not self._names or all(guard.holds() for guard in self._names)

    def _numbers(self, args: tuple[Any, ...]) -> dict[str, Any] | None:
        """Values of lengths and scalars by name, or None where a guard does not hold."""
        numbers = self._sizes
        if not self._scalars:
            return numbers
        numbers = numbers | {name: args[place] for name, place in self._scalars}
        for text, value in self._guards:
            if not captures.same_value(scalars.evaluate(text, numbers), value):
                return None
        return numbers

    def _together(self, values: Mapping[str, Any]) -> Any:
        """The results as the function returns them."""
        found = [values[name][()] if generic else values[name] for name, generic in self._outputs]
        return found[0] if self._structure is None else trees.unflatten(self._structure, found)


class Ready(Prepared):
    """How such calls run where all is kernels."""

    def __init__(self, call: Call, launch: Any) -> None:
        """Keep the bound launch, too."""
        trace = call.specialisation.trace
        outputs = tuple((f"o{leaf.index}", leaf.generic) for leaf in trace.leaves)
        super().__init__(call, trace.value_guards, outputs)
        self._run = launch.sequence.run
        self._kernels = launch.kernel_count

    def run(self, args: tuple[Any, ...]) -> Any:
        """The outputs, or MISSED where the call has to be looked at again."""
        numbers = self._numbers(args)
        if numbers is None:
            return MISSED
        arrays = {name: args[place] for name, place in self._arrays}
        try:
            if self._run(arrays, numbers):
                return MISSED
        except OverflowError:
            return MISSED
        counters.count("launches", self._kernels)
        return self._together(arrays)


MISSED = object()

#: Combinations of shapes and strides that one function remembers exactly.
READY_LIMIT = 256


def exact_key(args: tuple[Any, ...]) -> Any:
    """Dtypes, shapes and strides of plain arrays and types of Python scalars; else None."""
    parts: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            parts.append((arg.dtype, arg.shape, arg.strides))
        elif kind is float or kind is int or kind is bool:
            parts.append(kind)
        elif _is_cupy(kind):
            parts.append((kind, arg.dtype, arg.shape, arg.strides))
        else:
            return None
    return tuple(parts)


def _is_cupy(kind: type[Any]) -> bool:
    """Whether arrays of a type are CuPy's."""
    return kind.__module__.partition(".")[0] == "cupy" and kind.__name__ == "ndarray"


def make_ready(call: Call) -> Ready | ReadyProgram | None:
    """A short way for calls like this one, where every output is an array of its own."""
    trace, spec = call.specialisation.trace, call.specialisation.spec
    if isinstance(spec, Program):
        from fuser.ready_program import make_ready_program

        return make_ready_program(call, spec)
    if not isinstance(spec, KernelSpec) or trace.writes or not trace.leaves or spec.checked:
        return None
    if call.specialisation.captured:
        return None  # a captured array may be given another shape in place
    if any(type(leaf) is not OutNode for leaf in trace.leaves):
        return None
    launch = executor.known_launch(spec, call.arrays, {})
    if launch is None or launch.sequence is None:
        return None
    arrays = call.arrays.values()
    if any(type(array) is not np.ndarray and not _is_cupy(type(array)) for array in arrays):
        return None
    return Ready(call, launch)
