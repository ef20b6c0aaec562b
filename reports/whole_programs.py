"""Whole programs beside NumPy and the best of the peers, one row a program.

Every program counts: where ours has no time, because it failed, was wrong or took too long, its
ratio in the mean is 1, that is NumPy's. A peer that has no time for a program counts 1 there, too.
"""

from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis
from fuser.reports.best_peers import median_s
from fuser.reports.record import Cell, Record
from fuser.reports.side_by_side import OURS
from fuser.reports.statistics import geometric_mean

PRESET = "programs"
EAGER = "eager"
BEHIND = 0.95
"""Of the best peer's speed: below it a program is listed as behind."""
PROGRAMS = ["program", "numpy_s", "ours", "best", "best_ratio", "first_call_s", "note"]
LEGEND = """\
Each figure is NumPy's time over that of another, medians over blocks: above 1 it is faster than
NumPy. Our first call is with tracing and compiling. A dash: not
finished, wrong, refused, or not written; such a one counts 1 in the means. *Behind* is below 0.95
of the best peer."""


def programs_table(analysis: Analysis) -> pd.DataFrame:
    """One row a program: NumPy's seconds, our ratio to them, each peer's, and the best of them.

    Programs that the run had no time for have none. Empty for runs of other presets.
    """
    record = analysis.record
    peers = peers_of(record)
    lines = [_row(cell, peers) for cell in record.cells] if record.preset == PRESET else []
    lines = [line for line in lines if not np.isnan(line["numpy_s"])]  # the time ran out before it
    return pd.DataFrame(lines, columns=[*PROGRAMS, *peers])


def peers_of(record: Record) -> list[str]:
    """The names of the peers in a run."""
    return [each.name for each in record.variants if each.kind == "peer"]


def _row(cell: Cell, peers: list[str]) -> dict[str, Any]:
    runs = {run.variant: run for run in cell.runs}
    timed = {name: median_s(run) for name, run in runs.items() if run.samples.seconds}
    numpy_s = timed.get(EAGER, np.nan)
    ratios = {name: numpy_s / timed.get(name, np.nan) for name in peers}
    best = max(peers, key=lambda name: np.nan_to_num(ratios[name]), default="")
    ours = runs.get(OURS)
    first_s = list(ours.first_call_s) if ours is not None else []
    return {
        "program": cell.workload, "numpy_s": numpy_s, "ours": numpy_s / timed.get(OURS, np.nan),
        "best": best if best and not np.isnan(ratios[best]) else "",
        "best_ratio": ratios.get(best, np.nan), "note": ours.reason if ours is not None else "",
        "first_call_s": float(np.median(first_s)) if first_s else np.nan, **ratios,
    }  # fmt: skip


def mean_over_all(ratios: "pd.Series[float]") -> float:
    """The geometric mean over all programs; what has no ratio counts 1."""
    return geometric_mean(list(ratios.fillna(1.0)))


def sentences(record: Record, table: pd.DataFrame) -> list[str]:
    """The table in a few lines; nothing where it has no rows."""
    if not len(table):
        return []
    count = len(table)
    means = "".join(
        f"; {name} {mean_over_all(table[name]):.2f} ({table[name].notna().sum()} ran)"
        for name in peers_of(record)
    )
    ours, best = table["ours"].fillna(1.0), table["best_ratio"].fillna(1.0)
    behind = table["program"][ours < BEHIND * best]
    lists: dict[str, pd.Series[str]] = {
        f"Ahead of the best peer: {count - len(behind)} of {count}. Behind": behind,
        "Slower than NumPy": table["program"][ours < BEHIND],
        "Not finished, and counted as NumPy": table["program"][table["ours"].isna()],
    }
    first_s = table["first_call_s"]
    unmeasured = [c.workload for c in record.cells if c.workload not in set(table["program"])]
    lists["No time was left for"] = pd.Series(unmeasured, dtype=object)
    both = f"ours {mean_over_all(ours):.2f}; the best peer of each {mean_over_all(best):.2f}"
    return [
        f"Geometric means over NumPy, {count} programs: {both}{means}.",
        *(f"{title}: {', '.join(names) or 'none'}." for title, names in lists.items()),
        f"Our first calls: median {first_s.median():.2f} s, longest {first_s.max():.2f} s.",
    ]
