"""Which legal schedule a loop nest is given: by its lengths and strides alone.

Each function below says whether one kind of schedule is worth it for these lengths, and with which
fields; `choose` asks them in turn. What is compared with lengths stands in `tuning`. The machine
decides only among schedules that give the same bits: by the size of its last cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Features
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.section import lanes_of, packs, streams
from fuser.codegen import LoopNest
from fuser.ir.specs import INVARIANT

Lengths = Sequence[int]
Strides = Sequence[Sequence[int]]


def choose(
    nest: LoopNest, lengths: Lengths, strides: Strides, features: Features, turns: int = 0
) -> Schedule:
    """Choose a schedule for these lengths.

    Args:
        nest: what is computed.
        lengths: of all loops; the reduced ones are the last.
        strides: of loads, then of stores, in bytes; without them operands are met as they are.
        features: what the processor can do.
        turns: where these are the rows of one block of so many that run after one another, how
            many: such a block is never split.
    """
    if nest.strategy == "repeat" and nest.rank > 2:  # short rows would leave most of them empty
        short = lengths[-1] < lanes_of(nest, features) // 4
        return Schedule(vectors=1) if short else DEFAULT
    if nest.strategy != "map" and not nest.reduced:
        return DEFAULT
    if nest.strategy != "map":
        from fuser.backends.cpu.scheduling.choose_reduction import (
            choose_reduction,  # many kernels need none
        )

        return choose_reduction(nest, lengths, strides, turns)
    if nest.rank < 2:
        return DEFAULT
    lanes = lanes_of(nest, features)
    found = choose_flattened_loops(nest, lengths, strides, lanes)
    if found is None and lanes > lanes_of(nest, features, 1):
        found = choose_narrow_vectors(nest, lengths, lanes)
    return found or DEFAULT


def choose_flattened_loops(
    nest: LoopNest, lengths: Lengths, strides: Strides, lanes: int
) -> Schedule | None:
    """Rows too short for a vector are one long row; rows of whole vectors are well served."""
    from fuser.backends.cpu import flattened_loops

    if math.prod(lengths) < tuning.FLATTENED_ELEMENTS:
        return None
    if not 0 < lengths[-1] <= tuning.FLATTENED_LONGEST:
        return None
    if lengths[-1] % lanes == 0 and not packs(nest):
        return None
    for loops in (2, 1):
        if flattened_loops.can_be_flattened(nest, loops, lengths, strides):
            return Schedule(flattened=loops)
    return None


def choose_narrow_vectors(nest: LoopNest, lengths: Lengths, lanes: int) -> Schedule | None:
    """Short rows whose last vectors would be half empty: a third of 38 in twice 8 lanes is."""
    if packs(nest) or not streams(nest) or math.prod(lengths) < tuning.FLATTENED_ELEMENTS:
        return None
    row = lengths[-1]
    if not lanes // 2 < row <= tuning.NARROW_VECTORS * lanes:
        return None
    return Schedule(vectors=1) if row < lanes or 0 < row % lanes <= lanes // 2 else None


def writes_past_caches(nest: LoopNest, elements: int) -> bool:
    """Whether a map's results would not stay in the last cache, and are dense.

    In one loop, that is where all that is touched is larger than it: no operand is repeated; nor
    mostly where some are transposed.
    """
    moved = [desc for _, desc in nest.stores]
    if nest.rank == 1 or packs(nest):
        read = [desc for desc in nest.loads if not desc.counted]
        moved += [desc for desc in read if desc.access != INVARIANT]
    element_bytes = sum(conversion.bytes_of(desc.dtype) for desc in moved)
    return streams(nest) and elements * element_bytes >= stream_bytes()
