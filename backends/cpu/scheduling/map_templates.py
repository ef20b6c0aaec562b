"""Kinds of schedules of nests that reduce nothing, and what emits them."""

from __future__ import annotations

import math

from fuser.backends.cpu import costs, tuning
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.machine import workers
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling.templates import Kind, Lengths, Strides, Template
from fuser.backends.cpu.section import beside, lanes_of, packs, streams
from fuser.backends.cpu.vector_loop import emit_section
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.runtime.symbolic import value_of

Launch = tuple[list[int], Extent]


def _emit_loops(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest as its loops are; strided operands are packed."""
    if not packs(nest):
        _emit_section(module, nest, name, schedule, "")
        return
    from fuser.backends.cpu.wrappers import Packing

    inner = f"{name}.packed"
    module.functions.append(Packing(module, nest, name, "").emit(inner))
    loads = tuple(map(beside, nest.loads))
    _emit_section(module, changed(nest, loads=loads), inner, schedule, "internal ")


def _emit_section(
    module: Module, nest: LoopNest, name: str, schedule: Schedule, linkage: str
) -> None:
    """Append the function of a nest whose loads are not packed."""
    if schedule.store == "normal":
        lanes = lanes_of(nest, module.features, schedule.vectors)
        emit_section(module, nest, name, linkage, lanes=lanes)
        return
    from fuser.backends.cpu.wrappers import Streaming

    plain, past = f"{name}.plain", f"{name}.past"
    lanes = emit_section(module, nest, past, "internal ", stream=True)
    emit_section(module, nest, plain, "internal ")
    module.functions.append(Streaming(module, nest, name, linkage).emit(plain, past, lanes))


def _emit_flattened(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest whose innermost loops are one."""
    from fuser.backends.cpu import flattened_loops

    inner = flattened_loops.emit_flattened(module, nest, name, deep=schedule.flattened > 1)
    emit_section(module, flattened_loops.flat(nest), inner, "internal ")


def _emit_row(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest whose results run along its one loop."""
    emit_section(module, nest, name)


def _emit_repeated(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest that runs all iterations of a loop."""
    emit_section(module, nest, name, lanes=lanes_of(nest, module.features, schedule.vectors))


def _launch_whole(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    *outside, inner = lengths
    outer = math.prod(outside)
    return [], Extent(outer, inner, outer * inner, outer, inner, schedule)


def _emit_scatter(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest that writes at computed places."""
    from fuser.backends.cpu.scatter_loop import emit_scatter  # most kernels have none

    emit_scatter(module, nest, name)


def _emit_scan(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a nest whose results run along a loop."""
    from fuser.backends.cpu.scan_loop import emit_scan  # most kernels have none

    emit_scan(module, nest, name)


def _launch_scan(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    *outside, along, inner = lengths
    outer, elements = math.prod(outside), math.prod(lengths)
    columns = max(1, _chunk(nest, lengths) // max(along, 1))
    rows = max(1, columns // max(inner, 1))
    whole = -(-columns // tuning.SCAN_COLUMNS) * tuning.SCAN_COLUMNS
    return [], Extent(outer, inner, elements, rows, whole, schedule)


def _launch_repeated(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    trips, *outside, inner = lengths
    outer = math.prod(outside)
    elements = outer * inner
    chunk = costs.chunk_elements(elements, costs.cost_ns(nest) * value_of(trips))
    chunks = workers.chunking(outer, inner, False, chunk)
    return [], Extent(outer, inner, elements * trips, *chunks, schedule)


def _chunk(nest: LoopNest, lengths: Lengths) -> int:
    return costs.chunk_elements(math.prod(lengths), costs.cost_ns(nest))


def _launch_loops(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    *outside, inner = lengths
    outer = math.prod(outside)
    chunks = workers.chunking(outer, inner, packs(nest), _chunk(nest, lengths))
    return [], Extent(outer, inner, outer * inner, *chunks, schedule)


def _launch_flattened(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides, turns: int
) -> Launch:
    elements, inner = math.prod(lengths), math.prod(lengths[-schedule.flattened :])
    outer, rows = elements // inner, max(1, _chunk(nest, lengths) // inner)
    return [], Extent(outer, inner, elements, rows, inner, schedule)


def _can_be_flattened(
    nest: LoopNest, schedule: Schedule, lengths: Lengths, strides: Strides
) -> bool:
    from fuser.backends.cpu.flattened_loops import can_be_flattened

    return can_be_flattened(nest, schedule.flattened, lengths, strides)


def _has_loops(nest: LoopNest, schedule: Schedule) -> bool:
    if schedule.store == "streaming":
        return streams(nest) and schedule.vectors == 2
    return schedule.vectors == 2 or (nest.rank > 1 and streams(nest) and not packs(nest))


TEMPLATES: dict[Kind, Template] = {
    Kind("map"): Template(
        _emit_loops, _launch_loops, _has_loops,
        parameters={"store": ("normal", "streaming"), "vectors": (2, 1)},
    ),
    Kind("repeat"): Template(
        _emit_repeated, _launch_repeated, parameters={"vectors": (2, 1)},
    ),
    Kind("scan"): Template(_emit_scan, _launch_scan),
    Kind("scan row"): Template(_emit_row, _launch_whole),
    Kind("scatter"): Template(_emit_scatter, _launch_whole),
    Kind("map", is_flattened=True): Template(
        _emit_flattened, _launch_flattened,
        lambda nest, s: nest.rank > s.flattened and streams(nest),
        _can_be_flattened,
        {"flattened": (1, 2)},
    ),
}  # fmt: skip
