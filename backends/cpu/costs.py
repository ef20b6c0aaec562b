"""What work costs, and how it is shared among threads: one model, measured.

An element's cost is a sum over bytes moved and operations, with operands in the second cache,
where the choice matters: larger work is shared whatever it costs. The figures are those of a
2.5 GHz processor with 512-bit vectors; slower ones share a little late, and lose little by it.

Waking was measured with kernels of 5 to 350 us and two threads, in medians. With workers that
still spin after the last call, sharing 12 us gains a factor 1.5, 22 us 1.75. With parked ones,
20 us take as long as before (the helper comes when little is left), 45 us gain 1.3, 90 us 1.5.
The caller itself loses less than 1 us by waking (on a virtual machine of another kind 9 us), and
never waits for a helper that has not begun. So two threads take work from 15 us on, and each
further one wants half of that; but sleeping ones are not woken for less than 100 us.

Chunks are those of one call (`value_of`): what serves many lengths shares no work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fuser.backends.cpu import tuning
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.codegen import Instruction, LoopNest
from fuser.ir.costs import time_of
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc
from fuser.runtime.symbolic import value_of


class Extent(NamedTuple):
    """How one loop nest is run.

    Attributes:
        outer: outer iterations.
        inner: elements of the innermost shared loop.
        elements: elements that are computed.
        ochunk: outer iterations of one chunk.
        ichunk: inner elements of one chunk.
        schedule: how its text was emitted.
        room_bytes: memory that it wants for one call, at the last address in the block.
    """

    outer: int
    inner: int
    elements: int
    ochunk: int
    ichunk: int
    schedule: Schedule = DEFAULT
    room_bytes: int = 0


def schedule_of(extent: object) -> Schedule:
    """The schedule of a loop nest; one whose extent says no more than its lengths has the usual."""
    return extent.schedule if isinstance(extent, Extent) else DEFAULT


def counts_parts(extent: object) -> bool:
    """Whether a loop nest counts its finished parts in its block of arguments."""
    return schedule_of(extent).split != "none"


def in_order(extent: object) -> bool:
    """Whether later chunks of a loop nest wait for earlier ones."""
    return schedule_of(extent).split == "await"


def cost_ns(nest: LoopNest) -> float:
    """Estimated nanoseconds for each element of a nest on one thread."""
    reduces, total = nest.reduced > 0, 0.0
    for desc in _moved(nest) if reduces else nest.operands:
        factor = 0 if desc.counted else 1 if desc.access == CONTIGUOUS else tuning.APART
        total += factor * tuning.BYTE_NS * np.dtype(desc.dtype).itemsize
    for instruction in per_element(nest) if reduces else nest.body:
        total += operation_ns(instruction, reduces)
    return total


def _moved(nest: LoopNest) -> list[TensorDesc]:
    """Operands of a reduction that have elements of their own, no number for each result."""
    from fuser.backends.cpu.reducing.reduction_stages import stages_of  # many kernels need none

    stages = stages_of(nest)
    found = [desc for k, desc in enumerate(nest.loads) if stages.levels[k] == 2]
    stored = enumerate(stages.nest.stores)
    found += [desc for place, (_, desc) in stored if stages.store_level(place) == 2]
    return [desc for desc in found if desc.access != INVARIANT]


def operation_ns(instruction: Instruction, reduces: bool = False) -> float:
    """Estimated nanoseconds of one operation on one element."""
    width = np.dtype(instruction.operand_dtype).itemsize / 4
    floating = "float" in instruction.operand_dtype
    row, spent_ns = instruction.row, tuning.LIGHT_NS * time_of(instruction.row, floating)
    if row.slow:  # half as many at once, and each takes twice as long; of integers one at a time
        return spent_ns * (width * width if floating else 1)
    light = not (row.heavy or row.structure)
    return (tuning.REDUCED_NS if light and reduces and floating else spent_ns) * width


def per_element(nest: LoopNest) -> list[Instruction]:
    """The instructions that a reduction runs for each element, once for each stage."""
    from fuser.backends.cpu.reducing.reduction_stages import stages_of  # many kernels need none

    stages = stages_of(nest)
    found = []
    for stage in stages.loops:
        numbers = [a.number for a in stages.reductions_of(stage)]
        numbers += stages.computed(stage)
        found += [nest.body[number - stages.first] for number in numbers]
    return found


def chunk_elements(elements: int, each_ns: float) -> int:
    """Elements of one chunk of a map: a power of two, whatever the number of threads."""
    wanted = max(tuning.CHUNK_NS / max(each_ns, 1e-3), value_of(elements) / tuning.MANY_CHUNKS)
    power = 1 << max(0, int(wanted) - 1).bit_length()
    return min(tuning.MOST_CHUNK, max(tuning.LEAST_CHUNK, power))


def row_chunk(elements: int, least: int) -> int:
    """Elements of one chunk of rows that are reduced, at least `least`."""
    return max(least, min(tuning.MOST_ROW_CHUNK, value_of(elements) // tuning.MANY_CHUNKS))


def helpers(work_ns: float, chunks: int, threads: int) -> int:
    """How many threads help the caller, of `threads` in all."""
    return max(0, min(threads, int(work_ns / tuning.THREAD_NS), chunks, 256) - 1)
