"""Runs what cannot be fused, operation by operation. Loaded when something is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.backend import array_module_of, backend_of, chosen_name, get_backend
from fuser.base import budget, caches
from fuser.base.host_expressions import evaluate_scalar
from fuser.element_loops import region
from fuser.ir import dims, infer, layouts, loops, opaque_calls
from fuser.ir.graph import Graph, Node, constant_value, walk
from fuser.ir.opaque_calls import Unset
from fuser.ir.ops import op
from fuser.program_spec import ElementLoop


def interpret(
    graph: Graph,
    arrays: Mapping[str, Any],
    numbers: Mapping[str, Any],
    module: Any = np,
    check: Callable[[Mapping[str, Any]], None] | None = None,
    learned: dict[str, Any] | None = None,
) -> tuple[Any, ...]:
    """Compute a graph with the array module, one operation at a time.

    Args:
        graph: what to compute.
        arrays: arguments by parameter name.
        numbers: values of scalars and lengths by name.
        module: NumPy or CuPy.
        check: called with all numbers after each function without a fused form.
        learned: takes all numbers that are known at the end.

    Returns:
        One array or scalar for each output, as the module gives it.

    Raises:
        CallFailed, PatternMiss: as `opaque_calls.run` does.
    """
    values: dict[int, Any] = {}
    remaining = _uses(graph)
    numbers = dict(numbers)
    called: dict[int, Any] = {}
    nodes: Sequence[Node] = graph.nodes
    if graph.has_externs:
        calls = opaque_calls.calls_of(graph)
        for call in calls:
            called.update(dict.fromkeys(map(id, call), call))
        # Calls in their order first: other nodes may need lengths that they tell.
        nodes = walk([*(node for call in calls for node in call), *graph.outputs])
    for node in nodes:
        if node.op.is_opaque:
            if id(node) not in values:
                _run_call(called[id(node)], values, numbers)
                opaque_calls.check_guards(graph, numbers)
                if check is not None:
                    check(numbers)
        else:
            values[id(node)] = _value(node, values, arrays, numbers, module)
        for arg in node.args:  # free temporaries as early as NumPy's own code does
            remaining[id(arg)] -= 1
            if not remaining[id(arg)]:
                del values[id(arg)]
    if learned is not None:
        learned.update(numbers)
    return tuple(_owned(node, values[id(node)]) for node in graph.outputs)


def _run_call(call: Sequence[Node], values: dict[int, Any], numbers: dict[str, Any]) -> None:
    """Run a function without a fused form, for all of its results."""
    operands = [values[id(arg)] for arg in call[0].args]
    for node, value in zip(call, opaque_calls.run(call, operands, numbers), strict=True):
        values[id(node)] = value


def evaluate(
    wanted: Node, known: Mapping[int, Any], arrays: Mapping[str, Any], numbers: Mapping[str, Any],
    found: dict[int, Any] | None = None,
) -> Any:  # fmt: skip
    """Compute one node.

    Args:
        wanted: the node.
        known: values of nodes, by id: those of extern nodes at least.
        arrays: arguments by name.
        numbers: values of scalars and lengths by name.
        found: takes the values that were computed, by id.
    """
    values: dict[int, Any] = dict(known)
    for node in walk([wanted], lambda node: id(node) in known):
        if id(node) in known:
            continue
        budget.spend("steps")
        values[id(node)] = _value(node, values, arrays, numbers, array_module_of(arrays))
        if found is not None:
            found[id(node)] = values[id(node)]
    return values[id(wanted)]


def run_loop(*args: Any) -> list[Any]:
    """Run a loop region, operation by operation: what its call, `opaque_calls.LOOP`, means."""
    region = loops.region_of(args)
    entry = loops.Entry(*args[loops.STATED :])
    graph, names = region.graph, region.names

    def step(given: list[Any], numbers: dict[str, Any]) -> list[Any]:
        """One iteration."""
        arrays = dict(zip(names, given, strict=False))
        sizes = {
            str(dim): size
            for p in graph.parameters if p.dtype is not None
            for dim, size in zip(p.shape, np.shape(arrays[p.name]), strict=True)
        }  # fmt: skip
        sizes |= {k: dims.evaluate(dim, numbers) for k, dim in graph.scalar_lengths.items()}
        found = interpret(graph, arrays, {**numbers, **sizes}, array_module_of(arrays))
        for place, output, box in region.writes:
            arrays[names[place]][box.slices(sizes) if box else ...] = found[output]
        return [_left(name, arrays, found) for name in region.results]

    return loops.iterate(region, entry, step)


def _left(name: str, arrays: Mapping[str, Any], found: Sequence[Any]) -> Any:
    """What an iteration leaves, see `loops.Region.results`."""
    if not name or name in arrays:
        return arrays[name] if name else None
    value = found[int(name.removesuffix("[()]"))]
    return value[()] if name.endswith("[()]") else np.asarray(value)


def run_elements(*args: Any) -> list[Any]:
    """What a call that stands for a loop over elements gives, where no program has prepared it."""
    return element_runner(args[:4])(*args)


@caches.memo(64)
def _elements(args: tuple[Any, ...], name: str) -> Callable[..., list[Any]]:
    """What runs such a call, on a backend."""
    return region.Runner(args, get_backend(name).element_kernel)


def steps_runner(step: ElementLoop) -> Callable[..., list[Any]]:
    """What runs a loop over elements of a program, on the backend that is chosen."""
    kernel = get_backend(chosen_name() or "cpu").element_kernel
    args = step.nodes[0].payload.args
    owned = frozenset(
        place for place, part in enumerate(args[4])
        if type(part) is Unset or part.index in step.owned
    )  # fmt: skip
    return region.Runner(args, kernel, owned)


def element_runner(args: Sequence[Any]) -> Callable[..., list[Any]]:
    """What runs a loop over elements on the backend that is chosen, by what its text says."""
    return _elements(tuple(args), chosen_name() or "cpu")


def _converted(value: Any, dtype: np.dtype[Any], module: Any) -> Any:
    """An operand in another dtype that repeats what it repeated: layouts stay as NumPy's."""
    if not hasattr(value, "strides") or all(value.strides):
        return value.astype(dtype)
    if not value.size:
        return value.astype(dtype)
    first = tuple(slice(0, 1) if not step else slice(None) for step in value.strides)
    return module.broadcast_to(value[first].astype(dtype), value.shape)


def _owned(node: Node, value: Any) -> Any:
    """An output that is an argument, or a view of some value, as an array of its own."""
    seen = node.op.structure and not node.op.joins and not node.op.is_opaque
    return value.copy("K") if seen and hasattr(value, "strides") else value


def _uses(graph: Graph) -> dict[int, int]:
    """How often each value is still wanted."""
    uses: dict[int, int] = {}
    for node in graph.nodes:
        for arg in node.args:
            uses[id(arg)] = uses.get(id(arg), 0) + 1
    for node in graph.outputs:
        uses[id(node)] = uses.get(id(node), 0) + 1
    return uses


def _value(
    node: Node,
    values: Mapping[int, Any],
    arrays: Mapping[str, Any],
    numbers: Mapping[str, Any],
    module: Any,
) -> Any:
    """One node's value."""
    row = node.op
    if row.is_input:
        return arrays[node.payload.name]
    if row.is_constant:
        return constant_value(node)
    if row.is_scalar:
        text = node.payload.expression
        value = numbers[text] if text in numbers else evaluate_scalar(text, numbers)
        return infer.convert_scalar(value, node.dtype)
    if row.is_iota:
        return module.arange(dims.evaluate(node.shape[0], numbers), dtype=node.dtype)
    operands = [values[id(arg)] for arg in node.args]
    if row.converts:
        order = node.payload.order
        if not order:
            return _converted(operands[0], node.dtype, module)
        return operands[0].astype(node.dtype, order=order)
    if row.concatenates:
        return module.concatenate(operands, axis=node.payload.axis)
    if row.is_update:
        new = operands[0].copy("K") if layouts.is_array(operands[0]) else operands[0].copy()
        new[node.payload.slices(numbers)] = operands[1]
        return new
    if row.scans:
        return row.numpy(operands[0], node.payload.axis)
    if row.gathers:
        *indices, table = operands
        return node.payload.read(indices, table, module)
    if row.scatters:
        *indices, value, table = operands
        ufunc = op(row.combine).numpy if row.combine else None
        return node.payload.write(indices, value, table, ufunc, module)
    if row.structure:
        sizes = {key: n for key, n in numbers.items() if key.startswith("n")}
        operand = module.asarray(operands[0])
        return node.payload.of(operand, sizes, module)
    function = row.numpy
    if module is not np:
        function = get_backend(backend_of(arrays.values())).meaning(row)
    if row.reduction:
        return function(operands[0], node.payload.axes)
    return function(*operands)
