"""How a loop nest is laid over threads: vector width, index width, grid and kernel arguments.

Everything here is plain arithmetic, so launch plans are made and tested without a device.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuser.backends.gpu.cxx import itemsize
from fuser.backends.gpu.variants import Variant
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT

#: Threads of a block.
BLOCK = 256
#: Bytes of the widest memory access.
ACCESS = 16
#: Bytes that a thread has under way from memory before it computes: with all threads of a
#: multiprocessor this covers the memory's latency times its speed.
IN_FLIGHT = 64
#: Bodies are unrolled over lanes up to this many operations, a costly one counting as several:
#: beyond, code grows and takes long to compile while memory no longer matters.
BODY_LIMIT, HEAVY_CODE = 512, 32
#: A grid holds at most this many times the blocks that run at once; threads loop over the rest.
WAVES = 8
#: Numbers of elements and byte offsets from here on need 64 bits.
SMALL = 1 << 31


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What a device holds of one kernel at a time."""

    multiprocessors: int
    blocks_each: int


@dataclass(frozen=True, slots=True)
class Resources:
    """What a device has.

    Attributes:
        multiprocessors: how many.
        shared_bytes: shared memory that one block may have.
        clusters: whether blocks may be launched together and read each other's shared memory.
    """

    multiprocessors: int
    shared_bytes: int
    clusters: bool = False


#: (variant, threads of a block, shared memory in bytes) -> blocks that run at once on each
Occupy = Callable[[Variant, int, int], int]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One loop nest's launch, without addresses and scalars.

    Attributes:
        variant: which kernel.
        grid: blocks.
        words: the kernel's arguments between addresses and scalars.
        block: threads of a block.
        shared: bytes of shared memory that a block gets.
        phases: launches, one after another.
        scratch_bytes: memory that the launches share.
        counters: of rows, or tables of columns, that several blocks share: the last one finishes.
        strategy: a name, for people.
    """

    variant: Variant
    grid: int
    words: bytes
    block: int = BLOCK
    shared: int = 0
    phases: int = 1
    scratch_bytes: int = 0
    counters: int = 0
    strategy: str = "map"


def vector_width(nest: LoopNest) -> int:
    """How many neighbours along the innermost loop one thread computes: a power of two.

    The widest contiguous operand moves 16 bytes at a time; narrow ones beside it at least 4
    elements or 16 bytes.
    """
    read = [d for d in nest.loads if not d.counted]
    sizes = [itemsize(d.dtype) for d in read if d.access == CONTIGUOUS]
    sizes += [itemsize(d.dtype) for _, d in nest.stores if d.access == CONTIGUOUS]
    if not sizes:
        return 1
    width = max(ACCESS // max(sizes), min(4, ACCESS // min(sizes)))
    weight = sum(HEAVY_CODE if step.row.heavy else 1 for step in nest.body)
    while width > 1 and weight * width > BODY_LIMIT:
        width //= 2
    return width


def unroll(nest: LoopNest) -> int:
    """How many vectors a thread loads before it computes."""
    if any(instruction.row.heavy for instruction in nest.body) or len(nest.body) > 32:
        return 1
    moving = [d for d in nest.loads if d.access != INVARIANT and not d.counted]
    loaded = vector_width(nest) * sum(itemsize(d.dtype) for d in moving)
    return max(1, min(4, IN_FLIGHT // loaded)) if loaded else 1


def divider(divisor: int, bits: int) -> tuple[int, int, int]:
    """Divisor, multiplier and shift: n // divisor is (high(n * multiplier) + n) >> shift.

    Source:
        Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI
        1994, figure 4.1. The sum cannot overflow for n < 2**(bits - 1), which the plan ensures.
    """
    shift = (divisor - 1).bit_length()
    magic = ((1 << bits) * ((1 << shift) - divisor)) // divisor + 1
    return divisor, magic, shift


#: Elements along a tile's sides, and bytes of shared memory that a block's tiles take at most.
TILE, TILES_BYTES = 32, 48 << 10
#: Loops of fewer elements are left alone: caches keep what is read across.
FEWEST_ACROSS = 16


def tile_slots(nest: LoopNest) -> dict[int, tuple[int, int]]:
    """Operands that may be read through tiles, by number: bytes of an element, where the tile lies.

    Args:
        nest: any; what reduces has none.
    """
    found: dict[int, tuple[int, int]] = {}
    taken = 0
    for k, desc in enumerate(nest.loads if nest.strategy == "map" and nest.rank > 1 else ()):
        size = itemsize(desc.dtype)
        room = -(-TILE * (TILE + 1) * size // ACCESS) * ACCESS
        if desc.picked and taken + room <= TILES_BYTES:
            found[k] = size, taken
            taken += room
    return found


def tiles_bytes(nest: LoopNest) -> int:
    """Shared memory of a block that reads through tiles."""
    *_, (size, offset) = tile_slots(nest).values()
    return offset + -(-TILE * (TILE + 1) * size // ACCESS) * ACCESS


def across(
    nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[int, int] | None:
    """The loop along which operands that lie across have their neighbours, and which these are.

    Args:
        nest: what runs.
        lengths: of the loops, outermost first.
        strides: in bytes, for each operand, for each loop.

    Returns:
        The loop's number and a bit for each such operand; None where there are none, or few
        elements.
    """
    best: tuple[int, int, int] | None = None
    slots = tile_slots(nest)
    for loop, length in enumerate(lengths[:-1]):
        there = [k for k, (size, _) in slots.items() if strides[k][loop] == size]
        if there and min(length, lengths[-1]) >= FEWEST_ACROSS:
            weight = sum(slots[k][0] for k in there)
            if best is None or weight > best[0]:
                best = weight, loop, sum(1 << k for k in there)
    return None if best is None else best[1:]


def needs_wide(lengths: Sequence[int], strides: Sequence[Sequence[int]]) -> bool:
    """Whether the number of elements or some byte offset does not fit 31 bits."""
    count = 1
    for length in lengths:
        count *= length
    farthest = max(
        (
            sum((length - 1) * abs(step) for length, step in zip(lengths, row, strict=True))
            for row in strides
        ),
        default=0,
    )
    return count >= SMALL or farthest + ACCESS >= SMALL


def plan(
    nest: LoopNest,
    lengths: Sequence[int],
    strides: Sequence[Sequence[int]],
    occupancy: Occupancy,
) -> LaunchPlan:
    """Lay one loop nest over threads.

    Args:
        nest: what runs.
        lengths: of the loops, outermost first; none is 0.
        strides: in bytes, for each operand, loads before stores, for each loop.
        occupancy: of the device and the kernel.
    """
    wide = needs_wide(lengths, strides)
    bits = 64 if wide else 32
    columns = -(-lengths[-1] // vector_width(nest))
    work = columns
    for length in lengths[:-1]:
        work *= length
    words = [work, lengths[-1]]
    if len(lengths) > 1:
        words += divider(columns, bits)
    for length in lengths[1:-1]:
        words += divider(length, bits)
    steps = [step for row, kept in zip(strides, _kept_strides(nest), strict=True)
             for step, keep in zip(row, kept, strict=True) if keep]  # fmt: skip
    packed = struct.pack(f"={len(words)}Q{len(steps)}q", *words, *steps)
    blocks = -(-work // (BLOCK * unroll(nest)))
    most = max(1, occupancy.multiprocessors * occupancy.blocks_each) * WAVES
    return LaunchPlan(Variant(wide), min(blocks, most), packed)


def plan_tiles(
    nest: LoopNest,
    lengths: Sequence[int],
    strides: Sequence[Sequence[int]],
    found: tuple[int, int],
    occupancy: Occupancy,
) -> LaunchPlan:
    """Lay one loop nest over tiles: the loop along which operands lie becomes the last but one.

    Args:
        nest: what runs.
        lengths: of the loops, outermost first; none is 0.
        strides: in bytes, for each operand, loads before stores, for each loop.
        found: what `across` gives.
        occupancy: of the device and the kernel.
    """
    loop, mask = found
    wide = needs_wide(lengths, strides)
    bits = 64 if wide else 32
    order = [d for d in range(nest.rank - 1) if d != loop] + [loop, nest.rank - 1]
    *outer, rows, length = (lengths[d] for d in order)
    columns, down = -(-length // TILE), -(-rows // TILE)
    work = columns * down * math.prod(outer)
    words = [work, length, rows, mask, *divider(columns, bits)]
    for by in [down, *outer[1:]] if outer else []:
        words += divider(by, bits)
    steps = [row[d] for row, kept in zip(strides, _kept_strides(nest), strict=True)
             for d, keep in zip(order, kept, strict=True) if keep]  # fmt: skip
    packed = struct.pack(f"={len(words)}Q{len(steps)}q", *words, *steps)
    most = max(1, occupancy.multiprocessors * occupancy.blocks_each) * WAVES
    return LaunchPlan(
        Variant(wide, tiles=True), min(work, most), packed, shared=tiles_bytes(nest),
        strategy="tiles",
    )  # fmt: skip


def _kept_strides(nest: LoopNest) -> list[list[bool]]:
    """Which strides are kernel arguments: those of outer loops, and innermost ones if strided."""
    descs = nest.operands
    return [
        [True] * (nest.rank - 1) + [desc.access not in (CONTIGUOUS, INVARIANT)] for desc in descs
    ]
