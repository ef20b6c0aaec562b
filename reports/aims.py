"""Figures beside what is asked of them: small calls beside NumPy's same line, and first calls."""

import math
from collections.abc import Mapping
from statistics import linear_regression
from typing import Any

import pandas as pd

from fuser.reports.analysis import Analysis
from fuser.reports.record import Cell, Record
from fuser.reports.side_by_side import FORMS, OURS
from fuser.reports.statistics import (
    Estimate,
    geometric_mean_ratio,
    paired_log_ratios,
    ratio_of,
    seconds_per_call,
)
from fuser.reports.tables import spread, with_ends

AIMS = with_ends(
    ("cell", "variant", "call_s", "eager_ratio", "aim", "verdict"), ("call_s", "eager_ratio")
)
PRESETS = ("calls", "compile")
LEGEND = ""
CHAIN = "chain_"
"""Functions of so many operations, called one after another in one process."""


def aims_table(analysis: Analysis) -> pd.DataFrame:
    """One row a figure of the presets `calls` and `compile`.

    Returns:
        Seconds with their interval over processes; for calls our time over that of NumPy's line,
        below 1 where fusing pays; the aim, for calls that ratio, else seconds; and whether the
        whole interval is within it.
    """
    record = analysis.record
    found = [] if record.preset not in PRESETS else [
        _line(cell, suffix, record.settings.get("aims", {}))
        for cell in record.cells
        for suffix in FORMS
        if any(run.variant == f"{OURS}{suffix}" and run.samples.seconds for run in cell.runs)
    ]
    return pd.DataFrame(found, columns=AIMS)


def _line(cell: Cell, suffix: str, aims: Mapping[str, float]) -> dict[str, Any]:
    runs = {run.variant: run for run in cell.runs}
    ours, eager = runs[f"{OURS}{suffix}"], runs.get(f"eager{suffix}")
    seconds = seconds_per_call(ours.samples)
    ratio = None if eager is None else ratio_of(paired_log_ratios(ours.samples, eager.samples))
    aim = aims.get(cell.id, math.nan)
    judged = seconds if eager is None else ratio
    return {
        "cell": cell.id, "variant": ours.variant, **spread("call_s", seconds),
        **spread("eager_ratio", ratio), "aim": aim, "verdict": _verdict(judged, aim),
    }  # fmt: skip


def _verdict(found: Estimate | None, aim: float) -> str:
    if found is None or math.isnan(aim):
        return ""
    high = found.value if found.high is None else found.high
    if high <= aim:
        return "reached"
    return "missed" if (found.low or found.value) > aim else "not shown"


def sentences(record: Record, table: pd.DataFrame) -> list[str]:
    """The exponent of first calls over length; the mean of calls over NumPy's lines."""
    lines = []
    chains = {
        int(cell.workload.removeprefix(CHAIN)): found.value
        for cell in record.cells
        if cell.workload.removeprefix(CHAIN).isdecimal()
        and (found := seconds_per_call(cell.runs[0].samples)) is not None
    }
    if len(chains) > 1:
        slope = linear_regression(
            [math.log(n) for n in chains], [math.log(s) for s in chains.values()]
        ).slope
        lines.append(
            f"From {min(chains)} to {max(chains)} operations the first call grows with their "
            f"number to the power of {slope:.2f}: at most 1.2 is asked for."
        )
    if record.preset == "calls":
        rows = [
            paired_log_ratios(runs[OURS].samples, runs["eager"].samples)
            for cell in record.cells
            if {OURS, "eager"} <= (runs := {run.variant: run for run in cell.runs}).keys()
        ]
        if (mean := geometric_mean_ratio(rows)) is not None:
            lines.append(f"A call takes {mean.as_text()} of NumPy's time, the geometric mean.")
    return lines
