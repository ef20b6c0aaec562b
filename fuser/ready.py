"""The short way of calls whose shapes and strides are known exactly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import captures, counters, executor, native_call, scalars, trees
from fuser.program import Program
from fuser.specs import KernelSpec
from fuser.trace_result import OutNode

if TYPE_CHECKING:
    from fuser.ready_program import ReadyProgram
    from fuser.specialisation import Call


class Ready:
    """How calls with exactly these shapes and strides run: only values differ."""

    def __init__(self, call: Call, launch: Any, guards: list[tuple[str, Any]]) -> None:
        """Keep what does not change from call to call."""
        self._mode = native_call.MODE_WORD.value
        self._names = call.specialisation.names
        self._arrays = call.specialisation.array_leaves
        self._scalars = call.specialisation.scalar_leaves
        self._sizes = call.sizes
        self._guards = guards
        self._launch = launch
        self._kernels = launch.kernel_count
        trace = call.specialisation.trace
        self._outputs = tuple((f"o{leaf.index}", leaf.generic) for leaf in trace.leaves)
        self._structure = None if type(trace.structure) is trees.Leaf else trace.structure

    def holds(self) -> bool:
        """Whether settings and captured names are as they were."""
        if self._mode != native_call.MODE_WORD.value:
            return False
        return not self._names or all(guard.holds() for guard in self._names)

    def run(self, args: tuple[Any, ...]) -> Any:
        """The outputs, or MISSED where the call has to be looked at again."""
        numbers = self._sizes
        if self._scalars:
            numbers = numbers.copy()
            for name, place in self._scalars:
                numbers[name] = args[place]
            for text, value in self._guards:
                if not captures.same_value(scalars.evaluate(text, numbers), value):
                    return MISSED
        arrays = {name: args[place] for name, place in self._arrays}
        try:
            if self._launch.run(arrays, numbers):
                return MISSED
        except OverflowError:
            return MISSED
        counters.count("launches", self._kernels)
        values = [
            arrays[name][()] if generic else arrays[name] for name, generic in self._outputs
        ]
        return values[0] if self._structure is None else trees.unflatten(self._structure, values)


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
    fixed = set(call.sizes)
    guards = [
        (text, value)
        for text, value in trace.value_guards
        if any(name not in fixed for name in _SCALAR_NAME.findall(text))
    ]
    return Ready(call, launch, guards)


_SCALAR_NAME = re.compile(r"\b[ns]\d+\b")
