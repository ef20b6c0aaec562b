"""The main tables of a run as DataFrames: runs, summaries, what was left out, and their CSV.

Times are in seconds, traffic in bytes, ratios pure numbers above 1 where the variant is faster;
an interval stands in the columns `<name>_low` and `<name>_high`.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis, Row
from fuser.reports.labels import is_expected
from fuser.reports.scaling import calls_to_repay
from fuser.reports.statistics import Estimate, geometric_mean_ratio
from fuser.reports.verdicts import Verdict

IDENTITY = ("cell", "workload", "family", "dtype", "size", "elements")
"""The columns that say which cell a row is about."""

SUMMARY_SIZES = ("S", "M", "L")
"""Sizes with a summary; a mean over a sweep, from one element to millions, would mean nothing."""

SIZE_ORDER = (*SUMMARY_SIZES, "sweep")


def runs_table(analysis: Analysis) -> pd.DataFrame:
    """List every cell and variant: time, ratios, bandwidth, launches, first call.

    Args:
        analysis: of any record, also an interrupted or empty one.

    Returns:
        One row a cell and variant, in the record's order. `speedup` is eager / variant;
        `fusion_gain` is unfused / fused, only for fused rows that did fuse; a row with a `label`
        is left out of the summaries for the reason given. A variant that is absent everywhere
        has no rows here: it is one line of `left_out_table`.
    """
    eager_s = {
        row.cell.id: row.seconds.value
        for row in analysis.rows
        if row.variant.kind == "eager" and row.seconds is not None
    }
    absent = wholly_absent(analysis)
    shown = [row for row in analysis.rows if row.variant.name not in absent]
    lines = [_run_columns(row, eager_s.get(row.cell.id)) for row in shown]
    return pd.DataFrame(lines, columns=_RUN_COLUMNS)


def wholly_absent(analysis: Analysis) -> dict[str, str]:
    """Name the variants that no cell has a run of, with the reason: they are one line, not many."""
    by_variant: dict[str, list[Row]] = defaultdict(list)
    for row in analysis.rows:
        by_variant[row.variant.name].append(row)
    return {
        name: rows[0].variant.absent_reason or rows[0].label.reason
        for name, rows in by_variant.items()
        if all(row.run.status == "absent" for row in rows)
    }


_RUN_COLUMNS = [
    *IDENTITY, "variant", "kind", "label", "reason",
    "call_s", "call_s_low", "call_s_high",
    "speedup", "speedup_low", "speedup_high", "verdict",
    "fusion_gain", "fusion_gain_low", "fusion_gain_high",
    "bytes_per_second", "copy_share", "kernels", "first_call_s", "calls_to_repay",
    "max_error_ulp", "processes", "samples",
]  # fmt: skip


def identity(row: Row) -> dict[str, Any]:
    """Give the columns of `IDENTITY` for a row."""
    cell = row.cell
    return {name: getattr(cell, "id" if name == "cell" else name) for name in IDENTITY}


def spread(name: str, estimate: Estimate | None) -> dict[str, float]:
    """Spell an estimate as the columns `name`, `name_low`, `name_high`; NaN where unknown."""
    values = (None,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)
    keys = (name, f"{name}_low", f"{name}_high")
    return {
        key: math.nan if value is None else value for key, value in zip(keys, values, strict=True)
    }


def middle(values: Sequence[float]) -> float:
    """Give the median, or NaN of nothing."""
    return float(np.median(values)) if len(values) else math.nan


def _run_columns(row: Row, eager_s: float | None) -> dict[str, Any]:
    """One row of the runs table."""
    first_call_s = middle(row.run.first_call_s)
    repay = math.nan
    compiles = row.variant.kind not in ("eager", "fallback") and row.label.counts
    if (
        compiles
        and row.seconds is not None
        and eager_s is not None
        and not math.isnan(first_call_s)
    ):
        repay = calls_to_repay(first_call_s, row.seconds.value, eager_s)
    return {
        **identity(row),
        "variant": row.variant.name,
        "kind": row.variant.kind,
        "label": row.label.text,
        "reason": row.label.reason,
        **spread("call_s", row.seconds),
        **spread("speedup", row.speedup),
        "verdict": "" if row.variant.kind == "eager" else str(row.verdict),
        **spread("fusion_gain", row.fusion_gain),
        "bytes_per_second": row.bytes_per_second,
        "copy_share": row.copy_share,
        "kernels": row.run.kernels,
        "first_call_s": first_call_s,
        "calls_to_repay": repay,
        "max_error_ulp": row.run.max_error_ulp,
        "processes": len(set(row.run.samples.process)),
        "samples": len(row.run.samples.seconds),
    }


def summary_table(analysis: Analysis) -> pd.DataFrame:
    """Summarise each comparison by size: how many rows, the two geometric means, the verdicts.

    Returns:
        One row for each variant against eager, and one for unfused -> fused, at each size.
        `counted` of `rows` rows enter `speedup`; in `speedup_all` the rows that fell back or
        compiled while timed count at their measured time (`counted_all` of `rows`).
    """
    lines: list[dict[str, Any]] = []
    for size in SUMMARY_SIZES:
        sized = [row for row in analysis.rows if row.cell.size == size]
        for name in dict.fromkeys(row.variant.name for row in sized):
            rows = [row for row in sized if row.variant.name == name]
            if rows[0].variant.kind not in ("eager", "into"):
                ratios = {id(row): row.log_ratios for row in rows}
                lines.append(_summary("eager", rows, ratios, size, analysis.noise_log))
            if rows[0].variant.kind == "fused":
                gains = {id(row): row.fusion_log_ratios for row in rows}
                lines.append(_summary("unfused", rows, gains, size, analysis.noise_log))
    return pd.DataFrame(lines, columns=_SUMMARY_COLUMNS)


_SUMMARY_COLUMNS = [
    "size", "baseline", "variant", "rows", "counted", "speedup", "speedup_low", "speedup_high",
    "processes", "counted_all", "speedup_all",
    *(verdict.value.replace(" ", "_") for verdict in Verdict), "refused_as_expected", "left_out",
]  # fmt: skip


def _summary(
    baseline: str,
    rows: Sequence[Row],
    ratios: Mapping[int, Mapping[int, float]],
    size: str,
    noise_log: float,
) -> dict[str, Any]:
    """Summarise the rows of one variant at one size."""
    every = [row for row in rows if ratios[id(row)] and not is_expected(row.label)]
    counted = [row for row in every if row.label.counts]
    if baseline == "unfused":
        counted = [row for row in counted if row.fusion_gain is not None]
    chosen = geometric_mean_ratio([ratios[id(row)] for row in counted], noise_log=noise_log)
    whole = geometric_mean_ratio([ratios[id(row)] for row in every])
    verdicts = [row.verdict for row in counted] if baseline == "eager" else []
    line: dict[str, Any] = {
        "size": size,
        "baseline": baseline,
        "variant": rows[0].variant.name,
        "rows": len(rows),
        "counted": len(counted),
        **spread("speedup", chosen),
        "processes": 0 if chosen is None else chosen.processes,
        "counted_all": len(every),
        "speedup_all": math.nan if whole is None else whole.value,
        "refused_as_expected": sum(is_expected(row.label) for row in rows),
    }
    line["left_out"] = line["rows"] - line["counted"] - line["refused_as_expected"]
    for verdict in Verdict:
        key = verdict.value.replace(" ", "_")
        line[key] = verdicts.count(verdict) if baseline == "eager" else None
    return line


MOST_EXTREMES = 5


def extremes_table(analysis: Analysis) -> pd.DataFrame:
    """List the rows in which fusing wins most and least against eager: five of each at most.

    Returns:
        One row each, best first, of the fused rows that count in a summary: `place` is "best" or
        "worst". Of fewer than ten rows, half are best.
    """
    rows = [
        row
        for row in analysis.rows
        if row.variant.kind == "fused" and row.cell.size in SUMMARY_SIZES
        and row.label.counts and row.speedup is not None
    ]  # fmt: skip
    rows.sort(key=lambda row: -(row.speedup.value if row.speedup else 0.0))
    worst = min(MOST_EXTREMES, len(rows) // 2)
    best = min(MOST_EXTREMES, len(rows) - worst)
    chosen = [("best", row) for row in rows[:best]]
    chosen += [("worst", row) for row in rows[len(rows) - worst :]]
    eager = {
        row.cell.id: row.seconds for row in analysis.rows if row.variant.kind == "eager"
    }
    lines = [
        {
            "place": place,
            **identity(row),
            "variant": row.variant.name,
            **spread("speedup", row.speedup),
            "verdict": str(row.verdict),
            **spread("eager_s", eager.get(row.cell.id)),
            **spread("call_s", row.seconds),
            **spread("fusion_gain", row.fusion_gain),
        }
        for place, row in chosen
    ]
    ends = [f"{name}{end}" for name in ("eager_s", "call_s", "speedup", "fusion_gain")
            for end in ("", "_low", "_high")]  # fmt: skip
    return pd.DataFrame(lines, columns=["place", *IDENTITY, "variant", *ends, "verdict"])


def left_out_table(analysis: Analysis) -> pd.DataFrame:
    """List every row that enters no speed-up, with the reason.

    Returns:
        One row each: its label (fell back, compiled while timed, wrong result, failed, absent,
        not run, not timed, impossible number, refused as expected), the reason, whether that is
        what its workload is there to show, and its ratio to eager where a time was measured.
    """
    absent = wholly_absent(analysis)
    lines: list[dict[str, Any]] = [
        {
            "cell": row.cell.id,
            "variant": row.variant.name,
            "label": row.label.text,
            "expected": is_expected(row.label),
            "reason": row.label.reason,
            **spread("measured_ratio", row.speedup),
        }
        for row in analysis.rows
        if row.label.is_left_out and row.variant.name not in absent
    ]
    every = f"all {len(analysis.record.cells)}"
    lines += [
        {"cell": every, "variant": name, "label": "absent", "expected": False, "reason": reason}
        for name, reason in absent.items()
    ]
    columns = ["cell", "variant", "label", "expected", "reason"]
    ratio = ["measured_ratio", "measured_ratio_low", "measured_ratio_high"]
    table = pd.DataFrame(lines, columns=columns + ratio)
    return table.sort_values("expected", kind="stable", ignore_index=True)


def write_csv(tables: Mapping[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write each table as `<name>.csv` (UTF-8, one header line) and give the paths."""
    paths = []
    for name, table in tables.items():
        path = folder / f"{name}.csv"
        table.to_csv(path, index=False)
        paths.append(path)
    return paths
