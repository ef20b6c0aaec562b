"""The tables behind the figures: traffic, bandwidth, break-even, compile time, accuracy, noise."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis, Row, least_bytes
from fuser.reports.record import Cell
from fuser.reports.scaling import Growth, crossing_size, growth_exponent
from fuser.reports.statistics import Estimate, block_seconds, ratio_of, reported_range
from fuser.reports.tables import identity, middle, spread


def traffic_table(analysis: Analysis) -> pd.DataFrame:
    """Give the memory traffic of each cell as counted from its graph, in bytes a call.

    Returns:
        One row a cell whose ledger counts anything: unfused, planned and least bytes, what
        fusing saves (unfused / planned) and how near the plan is to the floor (least / planned).
    """
    lines = []
    for cell in analysis.record.cells:
        ledger, least = cell.ledger, least_bytes(cell)
        unfused, planned = ledger.unfused_bytes, ledger.planned_bytes
        if unfused is None and planned is None:
            continue
        lines.append(
            {
                **_cell_identity(cell),
                "unfused_bytes": unfused,
                "planned_bytes": planned,
                "least_bytes": least,
                "saving": unfused / planned if unfused and planned else None,
                "least_share": least / planned if least and planned else None,
                "kernels_unfused": ledger.kernels_unfused,
                "kernels_fused": ledger.kernels_fused,
            }
        )
    measures = ["unfused_bytes", "planned_bytes", "least_bytes", "saving", "least_share"]
    kernels = ["kernels_unfused", "kernels_fused"]
    return pd.DataFrame(lines, columns=[*_CELL_COLUMNS, *measures, *kernels])


_CELL_COLUMNS = ["cell", "workload", "dtype", "size", "elements"]


def _cell_identity(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, "id" if name == "cell" else name) for name in _CELL_COLUMNS}


def bandwidth_table(analysis: Analysis) -> pd.DataFrame:
    """Give the effective bandwidth (least bytes / time) of every timed row and its ceiling.

    Returns:
        Bytes a second, the copy ceiling of the same working-set class, and the share of it; rows
        without a ceiling in their class have NaN there. Wrong or impossible rows are not in it.
    """
    lines = [
        {
            **_cell_identity(row.cell),
            "variant": row.variant.name,
            "kind": row.variant.kind,
            "working_set_bytes": row.cell.input_bytes + row.cell.output_bytes,
            **_rate(row),
            "copy_bytes_per_second": row.ceiling.typical if row.ceiling else None,
            "copy_share": row.copy_share,
        }
        for row in analysis.rows
        if row.label.timed and row.bytes_per_second is not None
    ]
    rate = ["bytes_per_second", "bytes_per_second_low", "bytes_per_second_high"]
    measures = ["working_set_bytes", *rate, "copy_bytes_per_second", "copy_share"]
    return pd.DataFrame(lines, columns=[*_CELL_COLUMNS, "variant", "kind", *measures])


def _rate(row: Row) -> dict[str, float | None]:
    """Spell the bandwidth with its interval, which is that of the time."""
    rate, seconds = row.bytes_per_second, row.seconds
    low = high = None
    if rate is not None and seconds is not None and seconds.low and seconds.high:
        low, high = rate * seconds.value / seconds.high, rate * seconds.value / seconds.low
    name = "bytes_per_second"
    return {name: rate, f"{name}_low": low, f"{name}_high": high}


def ceilings_table(analysis: Analysis) -> pd.DataFrame:
    """Give the measured memory speed of this machine: bytes a second by anchor and working set."""
    names = ["name", "by", "threads", "working_set_bytes", "typical", "fastest", "processes"]
    lines = [{name: getattr(each, name) for name in names} for each in analysis.speeds]
    return pd.DataFrame(lines, columns=names).rename(
        columns={"typical": "bytes_per_second", "fastest": "fastest_bytes_per_second"}
    )


def break_even_table(analysis: Analysis) -> pd.DataFrame:
    """Find, for each workload with at least three sizes, where each variant overtakes eager.

    Rows with other axes than the default ones are no size of it.

    Returns:
        `call_s` is the time at the smallest size: what a call costs when there is nothing to do.
        `crossing_elements` has an interval; where it is NaN, `note` says why.
    """
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in analysis.rows:
        if row.label.timed and row.seconds is not None and not row.cell.axes:
            groups[row.cell.workload, row.cell.dtype, row.variant.name].append(row)
    lines = []
    for (workload, dtype, variant), rows in groups.items():
        rows.sort(key=lambda row: row.cell.elements)
        if len({row.cell.elements for row in rows}) < 3:
            continue
        crossing: Estimate | str = "the baseline"
        if rows[0].variant.kind != "eager":
            sizes = [row.cell.elements for row in rows]
            crossing = crossing_size(sizes, [row.log_ratios for row in rows])
        lines.append(
            {
                "workload": workload,
                "dtype": dtype,
                "variant": variant,
                "kind": rows[0].variant.kind,
                "least_elements": rows[0].cell.elements,
                **spread("call_s", rows[0].seconds),
                **spread("crossing_elements", None if isinstance(crossing, str) else crossing),
                "note": crossing if isinstance(crossing, str) else "",
            }
        )
    call = ["call_s", "call_s_low", "call_s_high"]
    crossings = ["crossing_elements", "crossing_elements_low", "crossing_elements_high"]
    columns = ["workload", "dtype", "variant", "kind", "least_elements", *call, *crossings, "note"]
    return pd.DataFrame(lines, columns=columns)


def compile_table(analysis: Analysis) -> pd.DataFrame:
    """Give the first call of each compiled row by stages, in seconds (medians over processes).

    Returns:
        One row a compiled cell and variant; one column `<stage>_s` a stage, in recorded order;
        `other_s` is what of the first call no stage accounts for.
    """
    rows = [
        row
        for row in analysis.rows
        if row.run.first_call_s
        and row.variant.kind in ("fused", "unfused", "peer")
        and row.run.status in ("ok", "compiled_inside")
    ]
    stages = list(dict.fromkeys(stage for row in rows for stage in row.run.compile_stages_s))
    lines = []
    for row in rows:
        known = {name: middle(values) for name, values in row.run.compile_stages_s.items()}
        first_call_s = middle(row.run.first_call_s)
        accounted = sum(value for value in known.values() if not math.isnan(value))
        line = {**identity(row), "variant": row.variant.name, "first_call_s": first_call_s}
        low, high = reported_range(row.run.first_call_s)
        line |= {"first_call_s_low": low, "first_call_s_high": high}
        line |= {f"{stage}_s": known.get(stage, math.nan) for stage in stages}
        lines.append(line | {"other_s": max(0.0, first_call_s - accounted) if known else math.nan})
    stage_columns = [f"{stage}_s" for stage in stages]
    columns = ["cell", "workload", "family", "dtype", "size", "elements", "variant"]
    columns += ["first_call_s", "first_call_s_low", "first_call_s_high"]
    return pd.DataFrame(lines, columns=[*columns, *stage_columns, "other_s"])


def scaling_table(analysis: Analysis) -> pd.DataFrame:
    """Give compile time against operations: median seconds for each stage and graph size."""
    columns = ["stage", "operations", "compile_s", "compile_s_low", "compile_s_high"]
    lines = [
        (each.stage, each.operations, middle(each.seconds), *reported_range(each.seconds))
        for each in analysis.record.compile_scaling
        if each.seconds and each.operations > 0
    ]
    return pd.DataFrame(lines, columns=columns).sort_values(
        ["stage", "operations"], kind="stable", ignore_index=True
    )


def fitted_growth(scaling: pd.DataFrame) -> dict[str, Growth]:
    """Fit the exponent of each stage of `scaling_table`; stages without a fit are not in it."""
    fits = {}
    for stage, group in scaling.groupby("stage", sort=False):
        positive = group[group["compile_s"] > 0]
        fit = growth_exponent(list(positive["operations"]), list(positive["compile_s"]))
        if fit is not None:
            fits[str(stage)] = fit
    return fits


def accuracy_table(analysis: Analysis) -> pd.DataFrame:
    """Give the largest error of each checked row against the float64 reference."""
    lines = [
        {
            **_cell_identity(row.cell),
            "variant": row.variant.name,
            "kind": row.variant.kind,
            "max_error_ulp": row.run.max_error_ulp,
            "max_relative_error": row.run.max_relative_error,
            "tolerance": row.run.tolerance,
            "checked_calls": row.run.checked_calls,
            "label": row.label.text,
        }
        for row in analysis.rows
        if row.run.max_error_ulp is not None or row.run.max_relative_error is not None
    ]
    errors = ["max_error_ulp", "max_relative_error", "tolerance", "checked_calls", "label"]
    return pd.DataFrame(lines, columns=[*_CELL_COLUMNS, "variant", "kind", *errors])


def noise_table(analysis: Analysis) -> pd.DataFrame:
    """Give the A/A ratio of each cell: eager against itself, where the truth is 1."""
    lines = [
        {
            **_cell_identity(row.cell),
            "call_s": row.seconds.value,
            **spread("ratio", ratio_of(analysis.noise[row.cell.id], noise_log=analysis.noise_log)),
        }
        for row in analysis.rows
        if row.variant.kind == "eager" and row.seconds and row.cell.id in analysis.noise
    ]
    ratio = ["ratio", "ratio_low", "ratio_high"]
    return pd.DataFrame(lines, columns=[*_CELL_COLUMNS, "call_s", *ratio])


def samples_table(analysis: Analysis) -> pd.DataFrame:
    """Describe the raw samples of each row, and give the command that measures it again."""
    lines = [
        {
            "cell": row.cell.id,
            "variant": row.variant.name,
            "processes": len(set(row.run.samples.process)),
            "blocks": len(block_seconds(row.run.samples)),
            "samples": len(row.run.samples.seconds),
            "calls": int(sum(row.run.samples.calls)),
            "checked_calls": row.run.checked_calls,
            "fastest_s": float(np.min(times)) if len(times) else math.nan,
            "median_s": middle(times),
            "slowest_s": float(np.max(times)) if len(times) else math.nan,
            "deviation": _deviation(times),
            "reproduce": reproduce_command(analysis, row.cell),
        }
        for row in analysis.rows
        for times in [list(block_seconds(row.run.samples).values())]
    ]
    counts = ["processes", "blocks", "samples", "calls", "checked_calls"]
    times_columns = ["fastest_s", "median_s", "slowest_s", "deviation", "reproduce"]
    return pd.DataFrame(lines, columns=["cell", "variant", *counts, *times_columns])


def _deviation(times: Sequence[float]) -> float:
    """Median absolute deviation as a share of the median, a pure number; NaN of nothing."""
    if not times:
        return math.nan
    centre = float(np.median(times))
    return float(np.median(np.abs(np.asarray(times) - centre))) / centre


def reproduce_command(analysis: Analysis, cell: Cell) -> str:
    """Spell the command that measures one cell again with the same inputs."""
    return f"fuser-bench run {cell.id} --seed {analysis.record.seed}"
