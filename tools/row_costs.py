"""Measures the weights of `tuning.ROW_COSTS`: what rows cost by each way to run them.

`python tools/row_costs.py [--seconds 600] [--seed 1]` times the legal schedules of loop nests of
the suites that reduce rows, on one thread, and finds weights that predict them: first those that
fit the times, then such nearby that what is chosen by them is fast. It prints the weights, and the
regret of choosing by them on the half of the nests that was not fitted, and on all.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling.row_costs import counts_of, work_of
from fuser.suites.presets import NORMALISATIONS, PER_ROW
from fuser.suites.registry import workloads
from fuser.tuner import Timer, launches_of

LENGTHS = (5, 8, 12, 16, 24, 48, 64, 127, 257, 1023, 4097)
ELEMENTS = (1 << 14, 1 << 18)
SAMPLES = 7
#: What keeps weights near those that fit the times: the price of doubling one.
NEAR = 1e-4
Weights = dict[str, np.ndarray]


class Cell(NamedTuple):
    """A loop nest: by way, what it counts for a row, and nanoseconds of one."""

    counts: Mapping[str, np.ndarray]
    row_ns: Mapping[str, float]


def way_of(schedule: Schedule) -> str:
    """The way to run rows that a schedule is, as `ROW_COSTS` has it; an empty text: none."""
    if schedule.passes == "online" or schedule.split != "none" or schedule.layout == "pack":
        return ""
    if schedule.layout != "direct":
        return {"gather": "gathered", "deinterleave": "deinterleaved"}[schedule.layout]
    batched = schedule.combine == "lane_transpose"
    if schedule.unroll:
        return "unrolled batches" if batched else "unrolled"
    return "batches" if batched else "rows"


def measured(seconds: float, seed: int) -> Iterator[Cell]:
    """Nests of the suites' rows, in an order that is drawn, while there is time."""
    end, chance = time.perf_counter() + seconds, random.Random(seed)
    cells = [(name, dtype, elements, length) for name in (*NORMALISATIONS, *PER_ROW)
             for dtype in ("float32", "float64") for elements in ELEMENTS for length in LENGTHS
             if "hidden" in workloads()[name].axes]  # fmt: skip
    chance.shuffle(cells)
    for name, dtype, elements, length in cells:
        if time.perf_counter() > end:
            return
        workload = workloads()[name]
        arguments = workload.inputs(elements, dtype, seed, (("hidden", length),))
        fused = fuser.fuse(workload.function)
        for backend, launch, arrays, numbers in launches_of(fused, arguments):
            for choice in backend.choices(launch):
                nest, lengths = choice.nest.nest, choice.nest.lengths
                if nest.strategy != "row" or nest.rank < 2 or nest.reduced != 1:
                    continue
                timers = {each: Timer(backend.bound_by(launch, choice, each), arrays, numbers)
                          for each in choice.legal if way_of(each)}  # fmt: skip
                for _ in range(SAMPLES):
                    for timer in chance.sample(list(timers.values()), len(timers)):
                        timer.sample()
                yield _cell(nest, lengths, timers)


def _cell(nest: object, lengths: tuple[int, ...], timers: Mapping[Schedule, Timer]) -> Cell:
    rows, length, best = math.prod(lengths[:-1]), lengths[-1], dict[str, float]()
    for schedule, timer in timers.items():
        way, each_ns = way_of(schedule), timer.median_s * 1e9 / rows
        if way != "gathered" or length <= tuning.GATHERED_LONGEST:
            best[way] = min(each_ns, best.get(way, math.inf))
    lanes = work_of(nest).lanes
    return Cell({way: np.array(counts_of(way, nest, length)) / lanes for way in best}, best)


def fitted(cells: list[Cell]) -> Weights:
    """Weights, none of them below 0.05 ns, whose sums come near the times, relative to these."""
    found = {}
    for way in tuning.ROW_COSTS:
        some = [cell for cell in cells if way in cell.row_ns]
        rows = np.array([cell.counts[way] / cell.row_ns[way] for cell in some])
        weights = np.full(rows.shape[1] if some else 10, 0.5)
        for _ in range(2000 if some else 0):  # multiplicative steps keep weights positive
            weights *= rows.sum(0) / np.maximum(rows.T @ (rows @ weights), 1e-12)
        found[way] = np.maximum(weights, 0.05)
    return found


def regrets(weights: Weights, cells: list[Cell], sharpness: float = math.inf) -> list[float]:
    """The time of what is chosen over that of the best; softened, of what is nearly chosen."""
    found = []
    for cell in cells:
        ways, best = list(cell.row_ns), min(cell.row_ns.values())
        costs = np.array([cell.counts[way] @ weights[way] for way in ways])
        times = np.log(np.array([cell.row_ns[way] for way in ways]) / best)
        if math.isinf(sharpness):
            found.append(float(times[costs.argmin()]))
        else:
            shares = np.exp(-(costs / costs.min() - 1) * sharpness)
            found.append(float(shares @ times / shares.sum()))
    return found


def improved(weights: Weights, cells: list[Cell], seconds: float) -> Weights:
    """Weights near those given that choose better: one after another is made larger or smaller."""
    end, first = time.perf_counter() + seconds, {way: w.copy() for way, w in weights.items()}
    weights = {way: w.copy() for way, w in weights.items()}

    def worth() -> float:
        moved = sum(float(abs(np.log2(weights[way] / first[way])).sum()) for way in weights)
        return float(np.mean(regrets(weights, cells, 12.0))) + NEAR * moved

    best, step = worth(), 2.0
    while step > 1.1 and time.perf_counter() < end:
        before = best
        for some in weights.values():
            for k in range(len(some)):
                for factor in (step, 1 / step):
                    old, some[k] = some[k], some[k] * factor
                    now = worth()
                    best, some[k] = (now, some[k]) if now < best else (best, old)
        if best == before:
            step = 1 + (step - 1) / 2
    return weights


def summary(weights: Weights, cells: list[Cell]) -> str:
    """The regret of choosing by some weights."""
    logs = regrets(weights, cells)
    high = math.exp(float(np.quantile(logs, 0.95)))
    return f"{math.exp(float(np.mean(logs))):.3f}, at the 95th percentile {high:.2f}"


def main() -> None:
    """Measure, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for measuring and for fits")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    fuser.set_num_threads(1)
    cells = [c for c in measured(given.seconds * 0.7, given.seed) if len(c.row_ns) > 1]
    each_s = given.seconds * 0.15
    half = improved(fitted(cells[::2]), cells[::2], each_s)
    print(f"{len(cells)} loop nests; regret of half: {summary(half, cells[::2])}; "
          f"of the other half: {summary(half, cells[1::2])}")  # fmt: skip
    weights = improved(fitted(cells), cells, each_s)
    now = {way: np.array(some) / 100 for way, some in tuning.ROW_COSTS.items()}
    print(f"regret of all: {summary(weights, cells)}; by the present ones {summary(now, cells)}")
    for way, some in weights.items():
        print(f'    "{way}": {tuple(round(100 * each) for each in some)},')


if __name__ == "__main__":
    main()
