"""What each limit of the scheduler costs: `python tools/scheduler_limits.py [name …]`.

Each limit that is a choice is set to several values, with a program for which it matters. Shown
are kernels, loop nests, planned bytes, and medians of planning and of running; the value in force
is marked. The values take turns, some calls each, in one process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import fuser
from fuser.ir import costs
from fuser.scheduling import clustering, inlining, ordering, planner
from fuser.traffic.ledger import ledger

SIDE = 1024
#: Calls of one turn.
CALLS = 5


def many_results(x: Any) -> Any:
    """96 arrays of one, of the same shape: they may share loops."""
    return tuple(x[:256] * k + 1 for k in range(96))


def many_shapes(x: Any) -> Any:
    """48 arrays of one, each of another shape: they may share a launch."""
    return tuple(x[k:256, k:] * k + 1 for k in range(48))


def far_apart(x: Any) -> Any:
    """Values near the beginning and near the end of a long chain that read the same array."""
    y = x
    for k in range(700):
        y = (y + k) * 0.5
    return x * 3, y.sum(1), x.sum(1)


def stencils(x: Any) -> Any:
    """Six smoothings, one after another: each may be computed again for the views of the next."""
    for _ in range(6):
        x = x[1:-1, 1:-1] + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
    return x


def shared_by_loops(light: int, heavy: int) -> Callable[[Any], Any]:
    """A value of so many operations that rows need and columns need."""

    def function(x: Any) -> Any:
        y = x
        for k in range(light):
            y = y * 0.9 + k
        for _ in range(heavy):
            y = np.exp(-y * y)
        return y.sum(0), (y / y.max(1, keepdims=True)).sum(0), y.max(1)

    return function


def shared_reads(*arrays: Any) -> Any:
    """A value that reads so many arrays, and that rows need and columns need."""
    y = sum(arrays[1:], arrays[0])
    return y.sum(0), (y / y.max(1, keepdims=True)).sum(0)


@dataclass(frozen=True)
class Limit:
    """One limit: where it is, the values to try, and a program with so many arguments."""

    modules: tuple[Any, ...]
    name: str
    values: tuple[int, ...]
    program: Callable[..., Any]
    arguments: int = 1


LIMITS = (
    Limit((clustering,), "WINDOW", (1, 4, 8, 32), many_results),
    Limit((clustering,), "MAX_ROUNDS", (1, 3, 10), many_results),
    Limit((clustering,), "MAX_OPERANDS", (8, 32, 128), many_results),
    Limit((clustering,), "MAX_OPERATIONS", (64, 1024, 4096), far_apart),
    Limit((clustering,), "MAX_DISTANCE", (0, 64, 512, 4096), far_apart),
    Limit((ordering,), "MAX_SECTIONS", (1, 4, 16, 64), many_shapes),
    Limit((inlining,), "RECOMPUTE_FLOOR", (0, 64, 512, 4096), stencils),
    Limit((inlining,), "RECOMPUTE_LIMIT", (1, 6, 1000), stencils),
    Limit((inlining, planner), "REALISE_WEIGHT", (5, 20, 40, 80, 1000), shared_by_loops(4, 3)),
    Limit((inlining, planner), "REALISE_READS", (1, 4, 16), shared_reads, 8),
    Limit((inlining, planner), "REALISE_READS", (1, 4, 16), shared_reads, 3),
    Limit((costs,), "PLANNED", (1, 10, 40), shared_by_loops(0, 4)),
)


def measure(limit: Limit, runs: int, side: int = SIDE) -> list[tuple[Any, ...]]:
    """Kernels, nests, planned bytes, planning and running times for each value of a limit."""
    random = np.random.default_rng(0)
    arrays = [random.random((side, side), dtype=np.float32) for _ in range(limit.arguments)]
    before = [getattr(module, limit.name) for module in limit.modules]
    graph = fuser.trace(limit.program, *arrays)
    planned: dict[int, tuple[int, int, int]] = {}
    planning_s: dict[int, list[float]] = {value: [] for value in limit.values}
    running_s: dict[int, list[float]] = {value: [] for value in limit.values}
    for _ in range(max(1, runs // CALLS)):
        for value in limit.values:
            for module in limit.modules:
                setattr(module, limit.name, value)
            fuser.clear_caches()  # functions forget their plans as well: each turn plans anew
            start = perf_counter()
            spec = fuser.compiler.compile_upfront(graph)
            planning_s[value].append(perf_counter() - start)
            groups = spec.plan.groups
            book = ledger(spec, {"n0": side, "n1": side})
            nests = sum(len(group.sections) for group in groups)
            planned[value] = len(groups), nests, book.planned_bytes
            function = fuser.fuse(limit.program, fallback="error")
            for _ in range(2):
                function(*arrays)
            for _ in range(CALLS):
                start = perf_counter()
                function(*arrays)
                running_s[value].append(perf_counter() - start)
    for module, value in zip(limit.modules, before, strict=True):
        setattr(module, limit.name, value)
    return [
        (value, *planned[value], median(planning_s[value]), median(running_s[value]))
        for value in limit.values
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="limits to measure; all by default")
    parser.add_argument("--runs", type=int, default=15, help="calls for each value")
    options = parser.parse_args(arguments)
    for limit in LIMITS:
        if options.names and limit.name not in options.names:
            continue
        print(f"{limit.modules[0].__name__}.{limit.name}")
        print(f"  {'value':>8} {'kernels':>8} {'nests':>6} {'MB':>8} {'plan ms':>8} {'run ms':>8}")
        for value, kernels, nests, size, planning_s, running_s in measure(limit, options.runs):
            mark = " <" if value == getattr(limit.modules[0], limit.name) else ""
            print(
                f"  {value:>8} {kernels:>8} {nests:>6} {size / 1e6:>8.1f} "
                f"{planning_s * 1e3:>8.1f} {running_s * 1e3:>8.2f}{mark}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
