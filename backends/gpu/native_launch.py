"""A known call as the host's dispatcher launches it: by CuPy's C functions, without Python."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import Compared, DeviceCall
from fuser.base.host_expressions import scalar_symbols
from fuser.runtime.launch import FORMATS, pack_scalars

if TYPE_CHECKING:
    from fuser.backends.gpu.device import CudaDevice
    from fuser.backends.gpu.step import Steps


def device_call(
    sequence: Steps,
    device: CudaDevice,
    here: int,
    arrays: Mapping[str, tuple[int | None, Any]],
    numbers: Mapping[str, tuple[int, Any]],
    sizes: Mapping[str, int],
    wanted: Sequence[str],
    compared: Compared,
) -> DeviceCall | None:
    """What the dispatcher launches for a call; None where something is Python's.

    Args:
        sequence: loop nests, prepared for the device.
        device: what launches.
        here: its number.
        arrays: by name, the place of each array among the arguments, and one like it.
        numbers: likewise for Python numbers.
        sizes: lengths by name: those of all such calls.
        wanted: names of the arrays that the function gives.
        compared: what makes them its result.
    """
    if any(isinstance(array, np.generic) for _, array in arrays.values()):
        return None  # it becomes an array first
    made = {}
    for name, make in sequence.made:
        if name in arrays:
            continue
        if make.keywords or len(make.args) != 2:
            return None  # of another order
        made[name] = make.args
    template: list[int] = []
    operands: list[tuple[int, str]] = []
    scalars: list[tuple[int, int, np.dtype[Any]]] = []
    launches: list[Mapping[str, int]] = []
    unread = sum(len(step.prepared.template) // 8 for step in sequence.steps)
    for step in sequence.steps:
        prepared, first = step.prepared, len(template)
        words = list(struct.unpack(f"={len(prepared.template) // 8}q", prepared.template))
        heads = prepared.heads - len(step.operands)
        if step.scratch is not None:
            words[0] = step.scratch
            operands += [(first, "")] * bool(sequence.scratch_bytes)
            operands += [(first + 1, "counters")] * bool(sequence.counters)
        for at, (operand, offset) in enumerate(step.operands, heads):
            words[at] = offset + sequence.rooms.get(str(operand), 0)
            if operand is not None:
                operands.append((first + at, "" if operand in sequence.rooms else operand))
        for at, (text, dtype) in enumerate(step.scalars, prepared.scalars_at // 8):
            if scalar_symbols(text) <= sizes.keys():
                packed = pack_scalars([(text, dtype)], sizes)
                words[at] = int.from_bytes(packed, "little", signed=True)
                continue
            if text not in numbers or dtype.name not in FORMATS:
                return None
            place, number = numbers[text]
            if type(number) is bool and dtype.kind != "b":
                return None
            scalars.append((first + at, place, dtype))
        grid, threads, shared = prepared.sizes
        launches += [
            {"handle": prepared.handle, "blocks": grid, "threads": threads, "shared": shared,
             "block": first,
             "phase_at": unread if step.scratch is None else first + prepared.phase_at // 8,
             "phase": phase}
            for phase in (0, *prepared.phases)
        ]  # fmt: skip
        template += words
    template.append(0)
    counters = partial(_counters, device, sequence.counters, here) if sequence.counters else None
    return DeviceCall(
        here, template, operands, scalars, made, sequence.scratch_bytes, counters, launches,
        wanted, compared,
    )  # fmt: skip


def _counters(device: CudaDevice, count: int, here: int, stream: int) -> int:
    """Zeros for a stream."""
    return device.counters(count, stream, here)
