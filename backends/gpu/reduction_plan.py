"""How a reducing nest is laid over threads: who shares a row, and what is kept beside them.

Strategies, chosen by lengths at launch: rows within part of a warp ("lanes"), within a block
("block"), within a cluster of blocks ("cluster") or several on their own ("split"); columns within
a table of threads ("columns"), or several ("split columns"). Where parts of a row tell what the
whole is ("long"), it is read once for all reductions, else once for each. Rows are held in
registers, and what is too much for these in shared memory. Nothing here needs a device.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fuser.backends.gpu.cxx import itemsize
from fuser.backends.gpu.geometry import (
    ACCESS,
    BLOCK,
    LaunchPlan,
    Occupy,
    Resources,
    divider,
    needs_wide,
)
from fuser.backends.gpu.long_rows import LongRows, long_rows
from fuser.backends.gpu.stages import HELD_COUNTS, Stages
from fuser.backends.gpu.variants import Variant
from fuser.base.errors import Unsupported
from fuser.ir.specs import CONTIGUOUS

#: Threads of a block that has one row for itself, at most.
ROW_BLOCK = 512
#: Rows of up to this many vectors are left to one warp or less.
WARP_VECTORS = 256
#: Vectors that a thread of a row takes at least, where there are rows enough.
VECTORS_EACH = 4
#: Threads side by side in a row at least: what they move with one access is whole sectors.
TOGETHER = 4
#: Threads a multiprocessor should have, to cover the memory's latency.
BUSY = 1024
#: Off until a device has run them: whether clusters of blocks share long rows, where a device has
#: them; whether blocks copy the next row while they compute one.
CLUSTERS = AHEAD = False
#: Blocks of a cluster, at most: what every such device runs.
MOST_CLUSTER = 8
#: Waves of blocks that columns are cut into, at most; what is as good as the best.
MOST_WAVES, NEARLY_FULL = 4, 0.95
#: Blocks that share a row, at most: every one of them reads the states of all.
MOST_CHUNKS = 512
#: Bytes of shared memory that a block of many rows keeps, so that several blocks have room.
SHARED_SMALL = 48 * 1024


@dataclass(frozen=True, slots=True)
class _Shape:
    """One launch before it is packed: threads, and how the work is cut."""

    strategy: str
    block: int
    team: int
    chunks: int
    chunk: int
    units: int
    """Blocks wanted for one of everything."""
    kept: int = 0
    shared: int = 0
    held: int = 0
    tail: bool = False
    phases: int = 1
    scratch: int = 0


def plan(
    stages: Stages,
    lengths: Sequence[int],
    strides: Sequence[Sequence[int]],
    resources: Resources,
    occupy: Occupy,
) -> LaunchPlan:
    """Lay one reducing nest over threads.

    Args:
        stages: of the nest.
        lengths: of the loops, the reduced ones last; only these may be 0.
        strides: in bytes, for each operand, loads before stores, for each loop.
        resources: of the device.
        occupy: how many blocks of a kernel a multiprocessor runs at once.

    Raises:
        Unsupported: the reductions of one pass are more than shared memory has room for.
    """
    wide = needs_wide([max(length, 1) for length in lengths], strides)
    first = len(lengths) - stages.nest.reduced
    *around, length = lengths[first:]
    kept = list(lengths[:first])
    columns = kept.pop() if stages.column else 1
    rows = math.prod(kept)
    inner = list(lengths[first + 1 :])
    odd = not stages.column and _is_odd(stages, length, strides)
    if stages.column:
        length *= math.prod(around)
        shape = _column_shape(stages, rows, columns, length, resources)
    else:
        vectors = -(-length // stages.width)
        if inner:
            inner[-1] = vectors
        shape = _row_shape(stages, rows, vectors * math.prod(around), resources)
    ahead = sum(map(stages.vector_bytes, stages.ahead)) * shape.held * shape.block
    if not AHEAD or shape.strategy != "block" or shape.tail or odd:
        ahead = 0
    if ahead and shape.shared + ahead <= resources.shared_bytes:
        shape = replace(shape, shared=shape.shared + ahead, strategy="ahead")
    if shape.shared > resources.shared_bytes:
        found = f"{shape.shared} bytes of running values a block, the device has room for"
        raise Unsupported("too-large", "reductions", f"{found} {resources.shared_bytes}")
    split = shape.scratch > 0
    cluster = shape.chunks if shape.strategy == "cluster" else 1
    variant = Variant(wide, split, shape.held, shape.tail, odd, cluster=cluster,
                      ahead=shape.strategy == "ahead")  # fmt: skip
    words = [rows, columns, length, shape.team, shape.chunks, shape.chunk, shape.kept]
    if around and not stages.column:
        words.append(math.prod(around))
    for by in [*kept[1:], *inner]:
        words += divider(max(1, by), 64 if wide else 32)
    steps = [step for row in strides for step in row]
    packed = struct.pack(f"={len(words)}Q{len(steps)}q", *words, *steps)
    most = resources.multiprocessors * max(1, occupy(variant, shape.block, shape.shared))
    waves = 1 if variant.ahead else 8  # what is copied ahead is of the block that comes next there
    grid = shape.units if split else min(shape.units, most * waves // cluster * cluster)
    return LaunchPlan(
        variant,
        grid,
        packed,
        block=shape.block,
        shared=shape.shared,
        phases=shape.phases,
        scratch_bytes=shape.scratch,
        counters=shape.units // shape.chunks if shape.scratch else 0,
        strategy=shape.strategy,
    )


def _is_odd(stages: Stages, length: int, strides: Sequence[Sequence[int]]) -> bool:
    """Whether some rows are not of whole vectors, or begin between the words that memory moves."""
    if length % stages.width:
        return True
    for desc, steps in zip(stages.nest.operands, strides, strict=True):
        if desc.access == CONTIGUOUS and not desc.counted:
            size = min(ACCESS, itemsize(desc.dtype) * stages.width)
            if any(step % size for step in steps[:-1]):
                return True
    return False


def _up(number: int) -> int:
    """The next power of two."""
    return 1 << max(0, number - 1).bit_length()


def _row_shape(stages: Stages, rows: int, vectors: int, resources: Resources) -> _Shape:
    """Threads for rows of so many vectors."""
    vectors = max(1, vectors)
    busy = resources.multiprocessors * BUSY
    most_held = stages.most_held
    wanted = _up(-(-vectors // max(VECTORS_EACH, most_held)))
    if vectors <= WARP_VECTORS:
        team = min(32, max(min(TOGETHER, _up(vectors)), wanted))
    else:
        team = min(ROW_BLOCK, max(64, wanted))
    while team < min(ROW_BLOCK, _up(vectors)) and rows * team < busy:
        team *= 2
    room = stages.state_bytes * 32
    while most_held and team < ROW_BLOCK and vectors > team * most_held:
        team *= 2
    held = next((n for n in HELD_COUNTS if vectors <= team * n <= team * most_held), 0)
    if held and team <= 32:
        units = -(-rows // (BLOCK // team))
        return _Shape("lanes", BLOCK, team, 1, vectors, units, held=held)
    if team <= 32:
        teams = BLOCK // team
        kept, shared = _kept(stages, vectors, teams, room, SHARED_SMALL)
        return _Shape("lanes", BLOCK, team, 1, vectors, -(-rows // teams), kept, shared)
    chunks = min(busy // (rows * team), vectors // (team * VECTORS_EACH), MOST_CHUNKS)
    cluster = _up(-(-vectors // (ROW_BLOCK * max(1, most_held))))
    there = CLUSTERS and resources.clusters and most_held and chunks <= 1
    if there and 1 < cluster <= MOST_CLUSTER:
        chunk = -(-vectors // cluster)
        held = next(n for n in HELD_COUNTS if ROW_BLOCK * n >= chunk)
        room += stages.state_bytes
        units = rows * cluster
        return _Shape("cluster", ROW_BLOCK, ROW_BLOCK, cluster, chunk, units, 0, room, held)
    long = long_rows(stages.nest) if most_held else None
    if long is not None:
        beyond = _kept(stages, vectors, 1, room, resources.shared_bytes)[0] + team * most_held
        if chunks > 1 or vectors > beyond:
            return _long_shape(stages, long, rows, vectors, team, chunks)
    if chunks > 1:
        chunk = -(-vectors // chunks)
        chunks = -(-vectors // chunk)
        scratch = rows * chunks * _states(stages)
        return _Shape("split", team, team, chunks, chunk, rows * chunks, 0, room,
                      phases=stages.last + 1, scratch=scratch)  # fmt: skip
    if held:
        return _Shape("block", team, team, 1, vectors, rows, 0, room, held)
    if most_held:
        tail = vectors - team * most_held
        kept, shared = _kept(stages, tail, 1, room, resources.shared_bytes)
        return _Shape("block", team, team, 1, vectors, rows, kept, shared, most_held, tail=True)
    kept, shared = _kept(stages, vectors, 1, room, resources.shared_bytes)
    return _Shape("block", team, team, 1, vectors, rows, kept, shared)


def _long_shape(
    stages: Stages, long: LongRows, rows: int, vectors: int, team: int, chunks: int
) -> _Shape:
    """Rows in parts that their blocks hold."""
    most = team * long.most_held
    chunk = min(most, -(-vectors // max(1, chunks)))
    chunks = -(-vectors // chunk)
    held = next(n for n in HELD_COUNTS if team * n >= chunk)
    shared = 32 * max(stages.state_bytes, long.state_bytes)
    return _Shape("long", team, team, chunks, chunk, rows * chunks, 0, shared, held,
                  phases=long.phases, scratch=long.scratch_bytes(rows, chunks))  # fmt: skip


def _full_waves(units: int, busy: int, most: int) -> int:
    """In how many parts units are cut so that blocks fill the device, in one wave or few.

    Args:
        units: blocks where nothing is cut.
        busy: blocks that run at once.
        most: parts, at most.
    """
    def filled(parts: int) -> float:
        return units * parts / (-(-units * parts // busy) * busy)

    counts = range(1, max(1, min(most, MOST_WAVES * busy // units)) + 1)
    best = max(map(filled, counts))
    return next(parts for parts in counts if filled(parts) >= NEARLY_FULL * best)


def _states(stages: Stages) -> int:
    """Bytes of running values that a block leaves."""
    return sum(found.size for found in stages.states if found.parts)


def _column_shape(
    stages: Stages, rows: int, columns: int, length: int, resources: Resources
) -> _Shape:
    """Threads for columns: as many beside each other as a warp has, fewer for narrow tables."""
    block = BLOCK
    while block > 32 and stages.state_bytes * block > resources.shared_bytes:
        block //= 2  # every thread's state has a place in shared memory
    vectors = -(-columns // stages.width)
    across = min(32, _up(vectors))
    while across < block and block // across > max(1, length) and across < vectors:
        across *= 2  # short columns: more of them in a block
    down = block // across
    tables = rows * -(-vectors // across)
    busy = resources.multiprocessors * BUSY // block
    room = stages.state_bytes * block
    chunks = _full_waves(tables, busy, min(length // (down * VECTORS_EACH), MOST_CHUNKS))
    if chunks > 1:
        chunk = -(-length // chunks)
        chunks = -(-length // chunk)
        scratch = rows * columns * chunks * _states(stages)
        return _Shape("split columns", block, across, chunks, chunk, tables * chunks, 0, room,
                      phases=stages.last + 1, scratch=scratch)  # fmt: skip
    kept, shared = _kept(stages, length, across, room, max(SHARED_SMALL, room))
    return _Shape("columns", block, across, 1, max(1, length), tables, kept, shared)


def _kept(
    stages: Stages, vectors: int, units: int, room: int, limit: int
) -> tuple[int, int]:
    """Vectors of each row or column that stay in shared memory, and the bytes of a block."""
    each = stages.kept_bytes * units
    kept = min(vectors, (limit - room) // each) if each else 0
    return kept, room + kept * each
