"""Try the harness's own claims on this machine: `python tools/acceptance.py [--runs N]`.

Three questions, each answered with counts:

1. A/A: two rows of the same code. How often is one called faster or slower than the other, and how
   often does the interval of their ratio hold 1?
2. A delay of a known share is put into one row. How often is it found?
3. Cheats, each of which would look fast: are they all found?

Timings are real; the answers belong to the machine and to what else it does. docs/method.md has
the figures of one machine.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuser.reports.record import Record, Run
from fuser.reports.statistics import paired_log_ratios, ratio_of
from fuser.reports.verdicts import Verdict, noise_floor, verdict
from fuser.suites.engine import Engine
from fuser.suites.plan import CellPlan, Plan, variants_for
from fuser.suites.runners import Runner
from fuser.suites.workload import Arguments

DELAY = 0.03
CELLS = [
    CellPlan(name, "float32", elements, "sweep")
    for name in ("axpy", "polynomial", "silu_mul", "hypotenuse")
    for elements in (1 << 12, 1 << 14, 1 << 16, 1 << 18)
]
CHEATS = (
    "Remembering", "RememberingAddresses", "RememberingValues", "Skipping", "Background", "Lazy",
)


class Delayed(Runner):
    """NumPy, and then nothing for `DELAY` of what the call takes."""

    name = "delayed"
    kind = "fused"
    own_process = False

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the function with a wait as long as a share of its own time."""
        clock = time.perf_counter
        seconds = []
        for _ in range(50):
            start_s = clock()
            function(*arguments)
            seconds.append(clock() - start_s)
        delay_s = DELAY * statistics.median(seconds)

        def delayed(*given: Any) -> Any:
            result = function(*given)
            end_s = clock() + delay_s
            while clock() < end_s:
                pass
            return result

        return delayed


def measure(runners: Sequence[str], processes: int, budget_s: float, seed: int) -> Record:
    """Run the cells with eager, its twin and the runners."""
    plan = Plan(
        CELLS, variants_for(["eager", *runners]), processes=processes, budget_s=budget_s,
        seed=seed, ceilings=False,
    )
    return Engine(plan).run()


def row(runs: Sequence[Run], name: str) -> Run:
    """Return the run of a variant."""
    return next(each for each in runs if each.variant == name)


def false_alarms(records: Sequence[Record]) -> str:
    """Count verdicts on pairs of the same code."""
    total = called = covered = 0
    for record in records:
        pairs = [
            paired_log_ratios(row(c.runs, "eager").samples, row(c.runs, "eager_again").samples)
            for c in record.cells
        ]
        for index, pair in enumerate(pairs):
            # the floor of the others: a pair must not excuse itself
            floor = noise_floor(pairs[:index] + pairs[index + 1 :], len(pair))
            ratio = ratio_of(pair)
            if ratio is None or ratio.low is None or ratio.high is None:
                continue
            total += 1
            called += verdict(pair, floor) in (Verdict.FASTER, Verdict.SLOWER)
            covered += ratio.low <= 1 <= ratio.high
    return (
        f"A/A: {called} of {total} pairs called faster or slower ({called / total:.1%}; nominal "
        f"5%); the interval holds 1 in {covered} ({covered / total:.1%}; nominal 95%)"
    )


def found_delays(records: Sequence[Record]) -> str:
    """Count how often the injected delay is called slower."""
    total = slower = above = 0
    ratios = []
    for record in records:
        for cell in record.cells:
            eager = row(cell.runs, "eager")
            pair = paired_log_ratios(eager.samples, row(cell.runs, "delayed").samples)
            ratio = ratio_of(pair)
            if ratio is None:
                continue
            total += 1
            slower += verdict(pair) is Verdict.SLOWER
            above += ratio.value < 1
            ratios.append(ratio.value)
    middle = statistics.median(ratios)
    return (
        f"delay of {DELAY:.0%}: slower in {slower} of {total} cells, its ratio below 1 in {above}; "
        f"the median ratio is {middle:.4f} (expected {1 / (1 + DELAY):.4f})"
    )


def found_cheats() -> str:
    """List the cheats that got no speed, and those that did."""
    specs = [f"tests.suites.cheats:{name}" for name in CHEATS]
    plan = Plan(
        CELLS[4:8], variants_for(["eager", *specs]), processes=1, budget_s=30.0, ceilings=False
    )
    record = Engine(plan).run()
    kept = [
        f"{cell.id} {run.variant}"
        for cell in record.cells for run in cell.runs
        if run.variant not in ("eager", "eager_again") and run.samples.seconds
    ]
    count = len(CHEATS) * len(record.cells)
    return f"cheats: {count - len(kept)} of {count} rows got no speed" + (
        f"; with a speed: {', '.join(kept)}" if kept else ""
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Try the harness's own claims on this machine.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--budget-s", type=float, default=40.0, help="seconds of each run")
    chosen = parser.parse_args()
    records = [
        measure(["tools.acceptance:Delayed"], chosen.processes, chosen.budget_s, seed)
        for seed in range(chosen.runs)
    ]
    print(false_alarms(records))
    print(found_delays(records))
    print(found_cheats())


if __name__ == "__main__":
    main()
