"""What a row costs by each way to run it: the cost model by which `choose_reduction` compares.

A cost is a sum of products: how often something is done for a row, times what that takes. The first
follows from the nest and the row's length and is counted here; the second is a weight of
`tuning.ROW_COSTS`. Orders of sums differ between these schedules, so weights are the same on every
machine, and choices depend on the nest and its lengths alone. All is in integers: with lengths that
are expressions, each comparison is a guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fuser.backends.cpu import tuning
from fuser.backends.cpu.reducing.reduction_stages import native_lanes, stages_of
from fuser.backends.cpu.reducing.row_batches import moving_of
from fuser.base.caches import memo
from fuser.codegen import LoopNest
from fuser.ir.costs import LIGHT, ROOT, time_of

#: Bytes of a vector, whatever the processor has: choices are the same everywhere.
VECTOR_BYTES = 64
#: Ways that have vectors of neighbouring rows, one element of each: `tuning.ROW_COSTS` names them.
BESIDE = frozenset({"gathered", "deinterleaved"})
#: Ways that find in registers what an earlier stage has loaded or computed.
ONCE = frozenset({"unrolled", "unrolled batches", "deinterleaved"})


class Work(NamedTuple):
    """What a nest does for a row; operations are counted as light ones, roots and heavy ones.

    Attributes:
        lanes: elements of a vector.
        stages: loops over a row.
        moving: loads of each element.
        stored: stores of each element.
        each: operations on an element in all stages; roots and heavy ones by the width of their
            numbers, in units of four bytes.
        once: the same where no stage repeats what an earlier one did.
        reductions: results of a row that lanes are joined for.
        results: operations on results, and their stores.
    """

    lanes: int
    stages: int
    moving: int
    stored: int
    each: tuple[int, int, int]
    once: tuple[int, int, int]
    reductions: int
    results: tuple[int, int, int]


@memo(1024)
def work_of(nest: LoopNest) -> Work:
    """Count what a nest that reduces does for each row."""
    stages = stages_of(nest)
    width = max(4, nest.itemsize) // 4
    running = sum(len(stages.reductions_of(stage)) for stage in stages.loops)

    def counted(numbers: Sequence[int], light: int) -> tuple[int, int, int]:
        times = [
            time_of(i.row, "float" in i.operand_dtype)
            for i in (nest.body[number - stages.first] for number in numbers)
        ]
        roots = sum(time == ROOT for time in times)
        return light + times.count(LIGHT), width * roots, width * sum(t > ROOT for t in times)

    every = [number for stage in stages.loops for number in stages.computed(stage)]
    of_results = [
        number for number, i in enumerate(nest.body, stages.first)
        if stages.levels[number] == 1 and not i.row.reduction
    ]  # fmt: skip
    stored = sum(stages.store_level(place) == 2 for place in range(len(nest.stores)))
    return Work(
        native_lanes(nest, VECTOR_BYTES), len(stages.loops), len(moving_of(nest)), stored,
        counted(every, running), counted(sorted(set(every)), running), running,
        counted(of_results, len(nest.stores) - stored),
    )  # fmt: skip


def counts_of(way: str, nest: LoopNest, length: int) -> tuple[int, ...]:
    """How often each thing is done that `tuning.ROW_COSTS` has a weight for, times the lanes.

    Args:
        way: to run rows, as there.
        nest: what is computed.
        length: of a row.
    """
    work = work_of(nest)
    light, roots, heavy = work.once if way in ONCE else work.each
    if way in BESIDE:  # a vector has as many rows as lanes
        passes = 1 if way in ONCE else work.stages
        loaded = length * work.moving * passes * work.lanes
        stored = length * work.stored * work.lanes
        times, several = length, 1
    else:
        vectors = -(-length // work.lanes) * work.lanes
        loaded, stored = vectors * work.moving, vectors * work.stored
        times, several = vectors, work.lanes
    done = (times * light, times * roots, times * heavy)
    results = (each * several for each in (work.reductions, *work.results))
    return (work.stages * work.lanes, loaded, stored, *done, *results)


def cost_of(way: str, nest: LoopNest, length: int) -> int:
    """What a row takes, in hundredths of a nanosecond times the lanes of a vector.

    Args:
        way: one of `tuning.ROW_COSTS`.
        nest: rows.
        length: of one, a number or an expression.
    """
    weighted = zip(counts_of(way, nest, length), tuning.ROW_COSTS[way], strict=True)
    return sum(count * weight for count, weight in weighted if weight)
