"""Arrays in chunks: eager Dask beside the fuser in two ways and numba, a row for each."""

from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis
from fuser.reports.best_peers import median_s
from fuser.reports.record import Cell, Record
from fuser.reports.statistics import geometric_mean

PRESET = "dask"
EAGER = "dask"
OURS = "dask_fused"
OPTIMISED = "dask_optimized"
SLOWER = 0.95
AIM = 3.0
AIMED = ("gelu_bias", "standard_columns", "softmax", "black_scholes")
"""Workloads whose fused function is to take at most a third of eager Dask's time."""
LEGEND = """\
Ratios are eager Dask's time over that of the row, medians over blocks. Tasks are those of the
optimised graph; the bytes between tasks are what tasks give, once for each task that needs it."""
CHUNKS = [
    "workload", "variant", "call_s", "speedup", "tasks", "handed_bytes", "peak_bytes", "note",
]  # fmt: skip


def chunks_table(analysis: Analysis) -> pd.DataFrame:
    """One row for each workload and variant; empty for runs of other presets."""
    record = analysis.record
    found = record.cells if record.preset == PRESET else ()
    return pd.DataFrame([line for cell in found for line in _lines(cell)], columns=CHUNKS)


def _lines(cell: Cell) -> list[dict[str, Any]]:
    times = {run.variant: median_s(run) for run in cell.runs}
    eager_s = times.get(EAGER, np.nan)
    return [
        {
            "workload": cell.workload, "variant": run.variant, "call_s": times[run.variant],
            "speedup": eager_s / times[run.variant], "tasks": run.tasks,
            "handed_bytes": run.handed_bytes, "peak_bytes": run.peak_bytes, "note": run.reason,
        }
        for run in cell.runs
    ]  # fmt: skip


def sentences(record: Record, table: pd.DataFrame) -> list[str]:
    """The table in a few lines; nothing where it has no rows."""
    timed = table[table["speedup"].notna()]
    if not len(timed):
        return []
    means = []
    for name, rows in timed.groupby("variant", sort=False):
        if name != EAGER:
            mean = geometric_mean(list(rows["speedup"]))
            means.append(f"{name} {mean:.2f} ({len(rows)} of {len(record.cells)})")
    ours = timed[timed["variant"].isin([OURS, OPTIMISED])]
    slower = [f"{each.workload} ({each.variant}, {each.speedup:.2f})"
              for each in ours[ours["speedup"] < SLOWER].itertuples()]  # fmt: skip
    aimed = timed[(timed["variant"] == OURS) & timed["workload"].isin(AIMED)]
    below = [f"{each.workload} ({each.speedup:.2f})"
             for each in aimed[aimed["speedup"] < AIM].itertuples()]  # fmt: skip
    asked = f"Fused functions below {AIM:g} times eager Dask among {', '.join(AIMED)}: "
    return [
        f"Geometric means of eager Dask's time over that of: {', '.join(means)}.",
        f"Slower than eager Dask (below {SLOWER}): {', '.join(slower) or 'none'}.",
        f"{asked}{', '.join(below) or 'none'}.",
    ]
