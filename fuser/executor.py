"""Runs a prepared graph: shapes, device, kernels, launch, outputs.

Every view of a graph has to lie within what it looks at. Graphs that were traced say so by their
guards. A graph's text may come from anywhere, and kernels check no bounds: so each combination of
lengths is looked at once (`outside`), before kernels are bound to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import Backend, CompileError, available, backend_for, get_backend
from fuser.base import budget, config, counters
from fuser.base.errors import (
    ArgumentError,
    BackendError,
    DtypeError,
    Reason,
    ShapeError,
    Unsupported,
)
from fuser.base.timeline import phase
from fuser.base.unexpected import internal_errors
from fuser.ir import dims
from fuser.ir.dims import Dim, symbols
from fuser.ir.graph import Graph, Node
from fuser.ir.views import View
from fuser.kernel_spec import KernelSpec
from fuser.runtime import aliasing

if TYPE_CHECKING:
    from fuser.runtime.launch import Launch

#: How many combinations of shapes and strides a spec remembers.
BOUND_LIMIT = 512
#: What binding raises of arguments: NumPy would, too, or the machine is too small.
PASSING = (CompileError, ArithmeticError, ValueError, IndexError, MemoryError)
#: Reasons that hold for every layout: the kernels are not made again.
LASTING = ("unrolled-loop", "too-large", "internal-error")


class CannotRun(Exception):  # noqa: N818 - a signal from the executor to the interface
    """The executor says no; the interface falls back with the reason."""

    def __init__(self, reason: Reason, call: Any = None) -> None:
        """Carry the reason.

        Args:
            reason: why.
            call: one whose decisions have led to where no kernels go on.
        """
        super().__init__(str(reason))
        self.reason = reason
        self.call = call


def execute(
    spec: KernelSpec,
    arrays: Mapping[str, Any],
    numbers: Mapping[str, Any],
    sizes: dict[str, int],
    given: Mapping[int, Any] | None = None,
) -> list[Any]:
    """Compute a spec's outputs with compiled kernels.

    Args:
        spec: the prepared graph, planned for the backend of the arrays.
        arrays: array arguments by parameter name, checked against the graph.
        numbers: scalar arguments and lengths by name.
        sizes: lengths by symbol.
        given: arrays to write outputs into, by output number; they may overlap the inputs.

    Returns:
        One array for each output.

    Raises:
        CannotRun: with the reason; nothing has been written into arguments or given arrays.
        OverflowError: a Python integer does not fit the dtype that it meets.
    """
    backend_name = device_of(arrays.values(), given)
    backend = get_backend(backend_name)
    buffers = {
        name: array if isinstance(array, np.ndarray) else _as_array(array, backend)
        for name, array in arrays.items()
    }
    direct = aliasing.direct_targets(spec, buffers, given or {}, sizes, backend)
    copies = {place: target for place, target in (given or {}).items() if place not in direct}
    buffers.update((f"o{place}", target) for place, target in direct.items())
    launch = bound(spec, buffers, sizes, backend_name)
    with phase("launch", str(spec.key)), budget.unclocked():
        status = launch.run(buffers, numbers)
    if status:
        raise CannotRun(
            Reason("runtime-check", "kernel", "a negative exponent, or a floating-point exception")
        )
    outputs = [buffers[buffer.name] for buffer in spec.plan.outputs]
    for place, target in copies.items():
        backend.array_module.copyto(target, outputs[place])
        outputs[place] = target
    counters.count("launches", launch.kernel_count)
    return outputs


def _as_array(value: Any, backend: Backend) -> Any:
    """A 0-d array of the backend's for a NumPy scalar; other arrays as they are."""
    return backend.scalar(value) if isinstance(value, np.generic) else value


def bound(
    spec: KernelSpec, buffers: Mapping[str, Any], sizes: dict[str, int], backend_name: str
) -> Launch:
    """The spec bound to these layouts, from its memory or anew.

    Raises:
        CannotRun: a kernel cannot be made.
    """
    key = _launch_key(spec, backend_name, buffers, sizes)
    found: Launch | None = spec.launches.get(key)
    if found is not None and not spec.moving:
        return found
    try:
        with internal_errors("kernel", PASSING):
            wrong = outside(spec.graph, sizes)
        if found is not None and not wrong:
            return found
        if spec.refused is not None:
            raise CannotRun(spec.refused)
        from fuser.runtime.launch import bind  # `import fuser` does without

        if wrong:
            raise CannotRun(Reason("shape-pattern", "call", wrong))
        with phase("bind", str(spec.key)), internal_errors("kernel", PASSING):
            backend = get_backend(backend_name)
            found = bind(spec, buffers, sizes, backend)
    except Unsupported as error:
        if error.reason.code in LASTING and budget.is_final(spec.late):
            spec.refused = error.reason
        raise CannotRun(error.reason) from None
    except CompileError as error:
        raise CannotRun(Reason(error.code, "kernel", str(error))) from None
    if len(spec.launches) >= BOUND_LIMIT:
        spec.launches.clear()
    spec.launches[key] = found
    return found


def _launch_key(
    spec: KernelSpec, backend: str, buffers: Mapping[str, Any], sizes: Mapping[str, int]
) -> tuple[Any, ...]:
    """What calls with one bound launch have in common."""
    layouts = ((name, array.shape, array.strides) for name, array in buffers.items())
    number = get_backend(backend).device_number()
    return (backend, number, *layouts, *(sizes[name] for name in spec.shaping))


def known_launch(
    spec: KernelSpec,
    arrays: Mapping[str, Any],
    given: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> Launch | None:
    """The bound launch that a call with these arguments and given outputs has used."""
    buffers = {**arrays, **given}
    if any(type(array) is tuple for array in given.values()):
        return None
    return spec.launches.get(_launch_key(spec, device_of(buffers.values()), buffers, sizes))


def device_of(arrays: Any, given: Mapping[int, Any] | None = None) -> str:
    """The backend that runs a call.

    Raises:
        CannotRun: arrays on several devices, a backend that cannot run, or one switched off.
    """
    everything = [*arrays, *(given or {}).values()]
    try:
        name = backend_for(everything)
    except BackendError as error:
        raise CannotRun(Reason("mixed-devices", "arguments", str(error))) from None
    if not config.current().can_fuse.get(name, True):
        raise CannotRun(Reason("switched-off", "call", f"backend {name}"))
    missing = available(name)
    if missing:
        raise CannotRun(Reason("backend-unavailable", f"backend {name}", missing))
    return name


def planned_for(arrays: Iterable[Any]) -> Backend:
    """The backend that a call is planned for, whether it can run here or not."""
    try:
        return get_backend(backend_for(arrays))
    except BackendError:  # arrays on several devices: running them says so
        return get_backend("cpu")


def check_shape(target: Any, shape: tuple[int, ...]) -> None:
    """Check an array of `out=` against the shape of its result.

    Raises:
        ShapeError: they differ.
    """
    if target.shape != shape:
        raise ShapeError(
            f"out has shape {target.shape}, the result has {shape}; pass an array of that shape"
        )


def check_arguments(graph: Graph, args: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Match positional arguments with a graph's parameters.

    Args:
        graph: its captured arrays may be left out; they are taken from the graph.
        args: arrays and Python scalars in the order of the parameters.

    Returns:
        Arrays and scalars, by parameter name.

    Raises:
        ArgumentError: a wrong number or kind of arguments.
        DtypeError: an array of another dtype.
        ShapeError: an array of another rank.
    """
    hidden = [p for p in graph.parameters if p.captured]
    if not isinstance(args, (list, tuple)):
        raise ArgumentError(f"args is a list or tuple of arguments, found {type(args).__name__}")
    values = list(args)
    if len(values) == len(graph.parameters) - len(hidden):
        values += list(graph.captured)
    if len(values) != len(graph.parameters):
        wanted = ", ".join(map(str, graph.parameters))
        raise ArgumentError(
            f"the graph takes {len(graph.parameters)} arguments ({wanted}), found {len(args)}"
        )
    arrays: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    kinds = {"float": float, "int": int, "bool": bool}
    for parameter, value in zip(graph.parameters, values, strict=True):
        if parameter.dtype is None:
            if type(value) is not kinds[parameter.kind]:
                raise ArgumentError(
                    f"argument {parameter.name} is a Python {parameter.kind}, found "
                    f"{type(value).__name__}"
                )
            numbers[parameter.name] = value
            continue
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            raise ArgumentError(
                f"argument {parameter} is an array, found {type(value).__name__}; pass an array"
            )
        if value.dtype != parameter.dtype:
            raise DtypeError(
                f"argument {parameter.name} is {value.dtype}, the graph was made for "
                f"{parameter.dtype}; convert it with .astype, or trace again"
            )
        if len(value.shape) != len(parameter.shape):
            raise ShapeError(
                f"argument {parameter.name} has rank {len(value.shape)}, the graph was made for "
                f"{len(parameter.shape)}; reshape it, or trace again"
            )
        arrays[parameter.name] = value
    return arrays, numbers


def misfit(graph: Graph, arrays: Mapping[str, Any], found: str) -> ShapeError:
    """The error of lengths that a graph cannot have; `found`: what else is known of it."""
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    return ShapeError(
        f"shapes {shapes} do not fit the graph's pattern "
        f"({', '.join(map(str, graph.parameters))}){found}; trace again with such arguments"
    )


def check_sizes(sizes: Any, graph: Graph) -> None:
    """Check lengths by symbol, as users give them for a graph.

    Raises:
        ArgumentError: they are none, or the graph has no such symbol.
    """
    whole = isinstance(sizes, Mapping) and all(
        isinstance(name, str) and isinstance(length, int) and length >= 0
        for name, length in sizes.items()
    )
    if not whole:
        raise ArgumentError(f"sizes are lengths by symbol, such as {{'n0': 1024}}; found {sizes!r}")
    known = graph.with_lengths_of(1)
    for name in sizes:
        if name not in known:
            from fuser.base.near import near_it  # only for the message

            raise ArgumentError(f"sizes: the graph has no length {name!r}; {near_it(name, known)}")


def integers_of(graph: Graph, arrays: Mapping[str, Any]) -> dict[str, int]:
    """The values of NumPy's integer scalars among the arguments, by name.

    Of an array without axes it is the value where NumPy has the array; no device is asked.
    """
    return {
        name: int(arrays[name])
        for name in graph.integer_arrays
        if isinstance(arrays[name], (np.generic, np.ndarray))
    }


def sizes_of(
    graph: Graph,
    shapes: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, int] | None:
    """Values of symbols for actual shapes, or None where they break the graph's pattern.

    Args:
        graph: its parameters' shapes bind symbols, and so do its integer arguments.
        shapes: actual shapes by parameter name.
        numbers: scalar arguments by name.
    """
    sizes: dict[str, int] = {}
    for name, told in graph.scalar_lengths.items():
        sizes[name] = dims.evaluate(told, numbers)
        if sizes[name] < 0:
            return None
    checks: list[tuple[Dim, Dim]] = []
    for parameter in graph.parameters:
        if parameter.dtype is None:
            continue
        shape = shapes[parameter.name]
        if len(shape) != len(parameter.shape):
            return None
        for dim, length in zip(parameter.shape, shape, strict=True):
            if isinstance(dim, int):
                if dim != length:
                    return None
            elif dim.text not in sizes and dim.text.isalnum():
                sizes[dim.text] = length
            else:
                checks.append((dim, length))
    checks.extend((left, right) for left, right in graph.guards)
    values = {**numbers, **sizes} if graph.integers else sizes
    for left, right in checks:
        if graph.has_externs and not all(s in values for d in (left, right) for s in symbols(d)):
            continue  # a function between kernels tells this length: it is checked then
        try:
            if dims.evaluate(left, values) != dims.evaluate(right, values):
                return None
        except ZeroDivisionError:  # a length that NumPy would have to find, of nothing
            return None
    return sizes


def outside(graph: Graph, sizes: Mapping[str, int]) -> str:
    """What does not fit, in words; "" where all does.

    Args:
        graph: the graph, whose guards hold.
        sizes: lengths by symbol.
    """
    for node in graph.nodes:
        if not _fits(node, sizes):
            operands = " and ".join(arg.type for arg in node.args)
            return f"{node.op.name}{{{node.text}}} of {operands} for {dict(sizes)}"
    return ""


def _fits(node: Node, sizes: Mapping[str, int]) -> bool:
    """Whether the elements of a node are elements of its operands."""
    if not (isinstance(node.payload, View) or node.op.is_update or node.op.is_iota):
        return True  # its shape follows from those of its operands
    shape = _lengths(node.shape, sizes)
    operands = [_lengths(arg.shape, sizes) for arg in node.args]
    if any(length < 0 for length in shape):
        return False
    if node.op.is_update:
        return bool(node.payload.fits(*operands, sizes))
    return node.op.is_iota or bool(node.payload.fits(operands[0], shape, sizes))


def _lengths(shape: Sequence[dims.Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape's lengths."""
    return tuple(dims.evaluate(dim, sizes) for dim in shape)
