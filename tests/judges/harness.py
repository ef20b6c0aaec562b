"""Try the harness's own claims on this machine: `python -m tests.judges.harness`.

Each claim is a line of the table that is printed, in Markdown, with what was found:

1. A/A: two rows of the same code. How often is one called faster or slower than the other, and how
   often does the interval of their ratio hold 1? How often does a run land where another did?
2. A delay of a known share is put into one row. How often is it found?
3. A cheat that only the speed of memory tells: is it found?
4. The parts of a call against the whole.
5. The page of 1,000 rows in Chromium: its first view within two seconds.

Timings are real; the answers belong to the machine and to what else it does. docs/method.md has
the figures of one machine. It takes about four minutes; `--only resident,anatomy` tries some. What
needs no quiet machine is tried by the tests: cheats, planned bytes, exit codes.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuser.reports.analysis import analyse
from fuser.reports.call_tables import Unexplained, unexplained
from fuser.reports.record import Record, Run
from fuser.reports.statistics import paired_log_ratios, ratio_of
from fuser.reports.verdicts import Verdict, noise_floor, verdict
from fuser.suites.commands.reproduce import repeated
from fuser.suites.engine import Engine
from fuser.suites.plan import CellPlan, Plan, variants_for
from fuser.suites.probes import anatomy
from fuser.suites.probes.findings import Findings
from fuser.suites.runners import Runner
from fuser.suites.workload import Arguments

DELAY = 0.03
CELLS = [
    CellPlan(name, "float32", elements, "sweep")
    for name in ("axpy", "polynomial", "silu_mul", "hypotenuse")
    for elements in (1 << 12, 1 << 14, 1 << 16, 1 << 18)
]
LARGE = CellPlan("axpy", "float32", 1 << 24, "L")
ANATOMIES = 6


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the table."""

    claim: str
    found: str
    held: bool


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
        most_processes=2 * processes, seed=seed, ceilings=False,
    )
    return Engine(plan).run()


def row(runs: Sequence[Run], name: str) -> Run:
    """Return the run of a variant."""
    return next(each for each in runs if each.variant == name)


def false_alarms(records: Sequence[Record]) -> Iterator[Claim]:
    """Count verdicts on pairs of the same code, and intervals that hold 1."""
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
    yield Claim(
        "A/A: at most 5% called faster or slower",
        f"{called} of {total} pairs ({called / total:.1%})",
        called <= at_most(total, 0.05),
    )
    yield Claim(
        "the interval of an A/A ratio holds 1 in 95%",
        f"{covered} of {total} ({covered / total:.1%})",
        total - covered <= at_most(total, 0.05),
    )


def at_most(total: int, share: float) -> int:
    """Return the count that chance exceeds in one of forty tries, where `share` is the truth.

    Source: the 97.5% quantile of the binomial distribution.
    """
    from scipy.stats import binom

    return int(binom.ppf(0.975, total, share))


def found_again(records: Sequence[Record]) -> Iterator[Claim]:
    """Count the rows that a run finds where another of the same machine found them."""
    inside = [
        each.inside
        for before, now in itertools.pairwise(records)
        for each in repeated(before, now)
        if each.inside is not None
    ]
    if inside:
        missed = len(inside) - sum(inside)
        yield Claim(
            "a row measured again is inside the recorded interval in 95%",
            f"{sum(inside)} of {len(inside)} rows", missed <= at_most(len(inside), 0.05),
        )


def found_delays(records: Sequence[Record]) -> Iterator[Claim]:
    """Count how often the injected delay is called slower."""
    ratios, verdicts = [], []
    for record in records:
        for cell in record.cells:
            eager = row(cell.runs, "eager")
            pair = paired_log_ratios(eager.samples, row(cell.runs, "delayed").samples)
            if (ratio := ratio_of(pair)) is not None:
                verdicts.append(verdict(pair))
                ratios.append(ratio.value)
    slower = verdicts.count(Verdict.SLOWER)
    yield Claim(
        f"a delay of {DELAY:.0%} is found",
        f"called slower in {slower} of {len(ratios)} cells, the ratio below 1 in "
        f"{sum(each < 1 for each in ratios)}; its median {statistics.median(ratios):.4f}, "
        f"injected {1 / (1 + DELAY):.4f}",
        slower > 0.95 * len(ratios),
    )


def found_resident() -> Iterator[Claim]:
    """Try the cheat that only shows against the speed of memory."""
    variants = variants_for(["eager", "tests.suites.more_cheats:resident"])
    record = Engine(Plan([LARGE], variants, processes=2, budget_s=30.0)).run()
    label = next(
        each.label for each in analyse(record).rows if each.variant.name == "resident"
    )
    yield Claim(
        "a cache's speed is not sold as memory's", f"{label.text or 'no label'}: {label.reason}",
        not label.counts,
    )


def closed_anatomies() -> Iterator[Claim]:
    """Add up the parts of a call: native within 15 ns or 10%, stamped within 5%, at most 1 us."""
    found: dict[str, list[tuple[Unexplained, float]]] = {}
    for _ in range(ANATOMIES):
        gathered = Findings()
        for each in anatomy.measure():
            gathered.add({"event": "anatomy", **each})
        for one in gathered.fields()["anatomy"]:
            rest = unexplained(one)
            found.setdefault(one.path, []).append((rest, rest.share * one.whole_s[0]))
    for path, rests in found.items():
        closed = sum(rest.closes for rest, _ in rests)
        worst_s = max((seconds for _, seconds in rests), key=abs)
        yield Claim(
            f"the parts of a call add up: {path}",
            f"{closed} of {len(rests)} times; unexplained {worst_s * 1e9:+.0f} ns at most",
            closed == len(rests),
        )


def quick_page() -> Iterator[Claim]:
    """Open a page of 1,000 rows, and let the browser say how long it took."""
    from tests.reports.browser import ask
    from tests.reports.test_page import thousand_rows
    from tests.requirements import find

    if (chromium := find("chromium")) is None:
        yield Claim("the first view of 1,000 rows takes less than 2 s", "no Chromium here", False)
        return
    questions = {
        "rows": "document.querySelectorAll('#table-runs tbody tr').length",
        "loaded_ms": "performance.timing.domContentLoadedEventEnd - "
        "performance.timing.navigationStart",
    }
    with tempfile.TemporaryDirectory() as folder:
        page = thousand_rows(Path(folder))
        found = [ask(chromium, page, questions)["results"] for _ in range(3)]
        size_mb = page.stat().st_size / 1e6
    loaded_ms = [int(each["loaded_ms"]) for each in found]
    yield Claim(
        "the first view of 1,000 rows takes less than 2 s",
        f"{found[0]['rows']} rows, {size_mb:.1f} MB: {', '.join(map(str, loaded_ms))} ms",
        max(loaded_ms) < 2000,
    )


def statistics_of(runs: int, processes: int, budget_s: float) -> Iterator[Claim]:
    """Measure a few times, and ask all that several runs of the same cells can tell."""
    records = [
        measure(["tests.judges.harness:Delayed"], processes, budget_s, seed) for seed in range(runs)
    ]
    yield from false_alarms(records)
    yield from found_again(records)
    yield from found_delays(records)


def main() -> int:
    """Measure and print; 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description="Try the harness's own claims on this machine.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--budget-s", type=float, default=60.0, help="seconds of each run")
    parser.add_argument("--only", default="", help="by comma: see the names below")
    parser.add_argument("--json", help="write the claims there too")
    chosen = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[Claim]]] = {
        "anatomy": closed_anatomies, "resident": found_resident, "page": quick_page,
        "statistics": lambda: statistics_of(chosen.runs, chosen.processes, chosen.budget_s),
    }
    wanted = chosen.only.split(",") if chosen.only else list(parts)
    if unknown := set(wanted) - parts.keys():
        parser.error(f"--only: no {', '.join(sorted(unknown))}; there is {', '.join(parts)}")
    claims = []
    print("| claim | found | |\n|---|---|---|", flush=True)
    for name in wanted:
        for each in parts[name]():
            claims.append(each)
            held = "holds" if each.held else "**does not hold**"
            print(f"| {each.claim} | {each.found} | {held} |", flush=True)
    if chosen.json:
        rows = [[each.claim, each.found, each.held] for each in claims]
        Path(chosen.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if all(each.held for each in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
