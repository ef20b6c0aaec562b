"""The tables of a run as DataFrames, under the names of their CSV files.

Most are tables of rows: a row is one variant on one cell, judged, and what a column shows of it
stands once, in `FIELDS`. Times are in seconds, traffic in bytes, ratios pure numbers above 1 where
the variant is faster; an interval stands in the columns `<name>_low` and `<name>_high`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fuser.reports.analysis import Analysis, Row, least_bytes, working_set_bytes
from fuser.reports.break_even import calls_to_repay, crossing_size
from fuser.reports.ceilings import Speed, ceiling_for
from fuser.reports.comparison import Comparison
from fuser.reports.labels import is_expected
from fuser.reports.record import Cell
from fuser.reports.statistics import (
    Estimate,
    block_seconds,
    geometric_mean_ratio,
    paired_log_ratios,
    ratio_of,
    reported_range,
)
from fuser.reports.verdicts import Verdict

CELL = ("cell", "workload", "dtype", "size", "elements")
"""The columns that say which cell a row is about."""
IDENTITY = ("cell", "workload", "family", "dtype", "size", "elements")

SUMMARY_SIZES = ("S", "M", "L")
"""Sizes with a summary; a mean over a sweep, from one element to millions, would mean nothing."""

SIZE_ORDER = (*SUMMARY_SIZES, "sweep")
MOST_EXTREMES = 5
PAIRS = (("eager", "eager_into"), ("fused", "fused_into"))
"""A variant, and the same one writing into a given array."""


def middle(values: "Sequence[float] | Vector") -> float:
    """Give the median, or NaN of nothing."""
    return float(np.median(values)) if len(values) else math.nan


Vector = npt.NDArray[np.float64]
Field = Callable[[Row], Any]
FIELDS: Mapping[str, Field] = {
    "cell": attrgetter("cell.id"),
    **{name: attrgetter(f"cell.{name}") for name in IDENTITY[1:]},
    "variant": attrgetter("variant.name"),
    "kind": attrgetter("variant.kind"),
    "label": attrgetter("label.text"),
    "reason": attrgetter("label.reason"),
    "expected": lambda row: is_expected(row.label),
    "call_s": attrgetter("seconds"),
    "speedup": attrgetter("speedup"),
    "measured_ratio": attrgetter("speedup"),
    "fusion_gain": attrgetter("fusion_gain"),
    "verdict": lambda row: "" if row.variant.kind == "eager" else str(row.verdict),
    "first_call_s": lambda row: middle(row.run.first_call_s),
    "processes": lambda row: len(set(row.run.samples.process)),
    "samples": lambda row: len(row.run.samples.seconds),
    "calls": lambda row: int(sum(row.run.samples.calls)),
    "working_set_bytes": lambda row: row.cell.input_bytes + row.cell.output_bytes,
    **{name: attrgetter(name) for name in ("bytes_per_second", "copy_share")},
    **{
        name: attrgetter(f"run.{name}")
        for name in ("kernels", "max_error_ulp", "max_relative_error", "tolerance", "checked_calls",
                     "peak_bytes")
    },
}  # fmt: skip
"""What a column shows of a row; an estimate may have its ends beside it."""


def row_table(
    rows: Iterable[Row], names: Sequence[str], ends: Collection[str] = (), **own: Field
) -> pd.DataFrame:
    """Make a table of rows.

    Args:
        rows: in the order of the table.
        names: of its columns.
        ends: names of estimates that have columns for their ends, too.
        own: what columns of this table alone show.
    """
    fields = {**FIELDS, **own}
    lines = []
    for row in rows:
        line: dict[str, Any] = {}
        for name in names:
            value = fields[name](row)
            if name in ends:
                line |= spread(name, value)
            else:
                line[name] = value.value if isinstance(value, Estimate) else value
        lines.append(line)
    return pd.DataFrame(lines, columns=with_ends(names, ends))


def with_ends(names: Iterable[str], ends: Collection[str]) -> list[str]:
    """Name columns, each of `ends` followed by those of its interval."""
    suffixes = {True: ("", "_low", "_high"), False: ("",)}
    return [f"{name}{end}" for name in names for end in suffixes[name in ends]]


def of_cell(cell: Cell, names: Sequence[str] = CELL) -> dict[str, Any]:
    """Give the columns that say which cell something is about."""
    return {name: getattr(cell, "id" if name == "cell" else name) for name in names}


def spread(name: str, estimate: Estimate | None) -> dict[str, float]:
    """Spell an estimate as the columns `name`, `name_low`, `name_high`; NaN where unknown."""
    values = (None,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)
    keys = (name, f"{name}_low", f"{name}_high")
    return {
        key: math.nan if value is None else value for key, value in zip(keys, values, strict=True)
    }


def eager_seconds(analysis: Analysis) -> dict[str, Estimate]:
    """Give the time of eager in each cell that has one, by the cell's id."""
    return {
        row.cell.id: row.seconds
        for row in analysis.rows
        if row.variant.kind == "eager" and row.seconds is not None
    }


def repaid_after(row: Row, eager: Mapping[str, Estimate]) -> float:
    """Count the calls that repay a row's first one, which compiles; NaN where that is not known."""
    first_call_s, eager_s = middle(row.run.first_call_s), eager.get(row.cell.id)
    compiles = row.variant.kind not in ("eager", "fallback") and row.label.counts
    if not compiles or row.seconds is None or eager_s is None or math.isnan(first_call_s):
        return math.nan
    return calls_to_repay(first_call_s, row.seconds.value, eager_s.value)


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
    absent, eager = wholly_absent(analysis), eager_seconds(analysis)
    return row_table(
        [row for row in analysis.rows if row.variant.name not in absent],
        (*IDENTITY, "variant", "kind", "label", "reason", "call_s", "speedup", "verdict",
         "fusion_gain", "bytes_per_second", "copy_share", "kernels", "first_call_s",
         "calls_to_repay", "max_error_ulp", "processes", "samples"),
        ("call_s", "speedup", "fusion_gain"),
        calls_to_repay=lambda row: repaid_after(row, eager),
    )  # fmt: skip


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
    eager, times = eager_seconds(analysis), ("eager_s", "call_s", "speedup", "fusion_gain")
    table = row_table(
        [*rows[:best], *rows[len(rows) - worst :]],
        (*IDENTITY, "variant", *times, "verdict"), times,
        eager_s=lambda row: eager.get(row.cell.id),
    )  # fmt: skip
    table.insert(0, "place", ["best"] * best + ["worst"] * worst)
    return table


def left_out_table(analysis: Analysis) -> pd.DataFrame:
    """List every row that enters no speed-up, with the reason.

    Returns:
        One row each: its label (fell back, compiled while timed, wrong result, failed, absent,
        not run, not timed, impossible number, refused as expected), the reason, whether that is
        what its workload is there to show, and its ratio to eager where a time was measured.
    """
    absent = wholly_absent(analysis)
    rows = [
        row for row in analysis.rows
        if row.label.is_left_out and row.variant.name not in absent
    ]  # fmt: skip
    names = ("cell", "variant", "label", "expected", "reason", "measured_ratio")
    table = row_table(rows, names, ("measured_ratio",))
    every = f"all {len(analysis.record.cells)}"
    lines = [*table.to_dict("records")]
    lines += [
        {"cell": every, "variant": name, "label": "absent", "expected": False, "reason": reason}
        for name, reason in absent.items()
    ]
    table = pd.DataFrame(lines, columns=table.columns)
    return table.sort_values("expected", kind="stable", ignore_index=True)


def fresh_into_table(analysis: Analysis) -> pd.DataFrame:
    """List the cells that were timed both in new arrays and into arrays that are there already.

    The page faults of a large new array cost whoever makes it; with a buffer given, they are gone
    for both sides. So the ratio of what is left stands beside the ratio of new arrays.

    Returns:
        Seconds a call of all four; `fresh_ratio` is eager / fused, `into_ratio` is eager_into /
        fused_into, pure numbers above 1 where the fuser is faster. `note` says what is missing.
    """
    by_cell: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in analysis.rows:
        by_cell[row.cell.id][row.variant.name] = row
    names = [name for pair in PAIRS for name in pair]

    def ratio(rows: Mapping[str, Row], baseline: str, candidate: str) -> Estimate | None:
        if not all(
            name in rows and rows[name].seconds is not None and rows[name].label.counts
            for name in (baseline, candidate)
        ):
            return None
        samples = (rows[name].run.samples for name in (baseline, candidate))
        return ratio_of(paired_log_ratios(*samples), noise_log=analysis.noise_log)

    lines = []
    for rows in by_cell.values():
        if not any(into in rows for _, into in PAIRS):
            continue
        line = of_cell(next(iter(rows.values())).cell, IDENTITY)
        for name in names:
            line |= spread(f"{name}_s", rows[name].seconds if name in rows else None)
        line |= spread("fresh_ratio", ratio(rows, "eager", "fused"))
        line |= spread("into_ratio", ratio(rows, "eager_into", "fused_into"))
        missing = [f"{name}: {rows[name].label.reason}" for name in names
                   if name in rows and rows[name].seconds is None]  # fmt: skip
        lines.append(line | {"note": "; ".join(missing)})
    figures = (*(f"{name}_s" for name in names), "fresh_ratio", "into_ratio")
    return pd.DataFrame(lines, columns=[*IDENTITY, *with_ends(figures, figures), "note"])


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
        if unfused is not None or planned is not None:
            lines.append((
                *of_cell(cell).values(), unfused, planned, least,
                unfused / planned if unfused and planned else None,
                least / planned if least and planned else None,
                ledger.kernels_unfused, ledger.kernels_fused,
            ))  # fmt: skip
    measures = ("unfused_bytes", "planned_bytes", "least_bytes", "saving", "least_share")
    return pd.DataFrame(lines, columns=[*CELL, *measures, "kernels_unfused", "kernels_fused"])


def boundaries_table(analysis: Analysis) -> pd.DataFrame:
    """List every array that crosses the kernels of a fused plan, most bytes first in its cell.

    Returns:
        `moved_bytes` is what is written and read because it crosses, `of_least` the same as a
        share of the cell's least bytes; the least and all of these together are the planned
        bytes. `cost_s` is an estimate: the bytes at the speed of a copy in the same cache level,
        or where none was timed in it, of the copy with the nearest working set.
    """
    lines = []
    for cell in analysis.record.cells:
        least = cell.ledger.least_bytes
        copy = _copy_speed(cell, analysis)
        for each in sorted(cell.ledger.boundaries, key=lambda one: -one.moved_bytes):
            readers = ", ".join(map(str, each.read_by))
            maker = "argument" if each.written_by is None else f"{each.written_by}"
            lines.append((
                *of_cell(cell).values(), each.value, each.kind, f"{maker} → {readers}",
                each.moved_bytes, each.moved_bytes / least if least else None,
                each.moved_bytes / copy.typical if copy else None, each.meaning or each.reason,
                each.reason, each.array,
            ))  # fmt: skip
    return pd.DataFrame(lines, columns=[
        *CELL, "value", "kind", "kernels", "moved_bytes", "of_least", "cost_s", "meaning", "reason",
        "array",
    ])  # fmt: skip


def _copy_speed(cell: Cell, analysis: Analysis) -> Speed | None:
    caches = analysis.record.machine.caches
    working_set = working_set_bytes(cell)
    copies = [each for each in analysis.speeds if each.name == "copy"]
    found = ceiling_for(working_set, copies, caches, ("copy",))
    if found is None and copies and working_set > 0:
        found = min(copies, key=lambda each: (
            abs(math.log(max(each.working_set_bytes, 1) / working_set)), -each.typical
        ))  # fmt: skip
    return found


def memory_table(analysis: Analysis) -> pd.DataFrame:
    """List the memory that one call of each row holds at its peak, beyond what was held before.

    Returns:
        `temporary_bytes` is the peak without the results; `per_element` the peak for each element
        of the largest input. Rows that were not measured (peers) are not in it.
    """
    return row_table(
        [row for row in analysis.rows if row.run.peak_bytes is not None],
        (*CELL, "variant", "kind", "peak_bytes", "temporary_bytes", "per_element"),
        temporary_bytes=lambda row: max(0, (row.run.peak_bytes or 0) - row.cell.output_bytes),
        per_element=lambda row: (row.run.peak_bytes or 0) / max(row.cell.elements, 1),
    )


def arithmetic_roof(analysis: Analysis, dtype: str) -> float | None:
    """Give the operations a second of arithmetic that needs no memory: the fastest process.

    Args:
        analysis: of a run.
        dtype: of the operands; others have no roof.
    """
    found = (each for each in analysis.record.arithmetic if each.dtype == dtype and each.seconds)
    return max((each.operations / middle(each.seconds) for each in found), default=None)


def roofline_table(analysis: Analysis) -> pd.DataFrame:
    """Place every compiled row under the roof that memory and arithmetic set.

    Returns:
        `intensity` is operations a byte that the row's kernels move; `roof_per_s` the operations
        a second possible at it, by the fastest of copy, triad and read in the same cache level
        and by arithmetic; `limit` which of the two is lower. Elementary functions count as one
        operation each, so rows with many of them stay far below the arithmetic roof.
    """

    def memory(row: Row) -> float:
        caches, every = analysis.record.machine.caches, ("copy", "triad", "read")
        speed = ceiling_for(working_set_bytes(row.cell), analysis.speeds, caches, every)
        return math.nan if speed is None else speed.typical

    table = row_table(
        [
            row for row in analysis.rows
            if row.variant.kind in ("unfused", "fused") and row.label.counts and row.seconds
            and row.run.planned_bytes
        ],
        (*CELL, "variant", "kind", "operations", "moved_bytes", "call_s", "memory", "arithmetic"),
        operations=lambda row: sum(
            count or 0 for count in (row.cell.ledger.operations, row.cell.ledger.elementary)
        ),
        moved_bytes=attrgetter("run.planned_bytes"), memory=memory,
        arithmetic=lambda row: arithmetic_roof(analysis, row.cell.dtype),
    )  # fmt: skip
    table = table[table["operations"] > 0].reset_index(drop=True)
    intensity, rate = (table["operations"] / table[name] for name in ("moved_bytes", "call_s"))
    roofs = pd.DataFrame(
        {"memory": table.pop("memory") * intensity, "arithmetic": table.pop("arithmetic")}
    ).astype(float)
    roof = roofs.min(axis=1)
    limit = pd.Series("arithmetic", table.index).where(roofs["arithmetic"] == roof, "memory")
    return table.drop(columns="call_s").assign(
        intensity=intensity, operations_per_s=rate, roof_per_s=roof, roof_share=rate / roof,
        limit=limit.where(roof.notna(), ""),
    )  # fmt: skip


def largest_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of the largest size of each workload and dtype."""
    most = table.groupby(["workload", "dtype"])["elements"].transform("max")
    return table[np.asarray(table["elements"] == most)]


def bandwidth_table(analysis: Analysis) -> pd.DataFrame:
    """Give the effective bandwidth (least bytes / time) of every timed row and its ceiling.

    Returns:
        Bytes a second with the interval of the time, the copy ceiling of the same working-set
        class, and the share of it; rows without a ceiling in their class have NaN there. Wrong or
        impossible rows are not in it.
    """

    def rate(row: Row) -> Estimate:
        found, time = row.bytes_per_second or math.nan, row.seconds
        if time is None or not time.low or not time.high:
            return Estimate(found, None, None, 0)
        low, high = (found * time.value / end for end in (time.high, time.low))
        return Estimate(found, low, high, time.processes)

    rows = [row for row in analysis.rows if row.label.timed and row.bytes_per_second is not None]
    return row_table(
        rows,
        (*CELL, "variant", "kind", "working_set_bytes", "bytes_per_second",
         "copy_bytes_per_second", "copy_share"),
        ("bytes_per_second",), bytes_per_second=rate,
        copy_bytes_per_second=lambda row: row.ceiling.typical if row.ceiling else None,
    )  # fmt: skip


def ceilings_table(analysis: Analysis) -> pd.DataFrame:
    """Give the measured memory speed of this machine: bytes a second by anchor and working set."""
    names = ["name", "by", "threads", "working_set_bytes", "typical", "fastest", "processes"]
    return pd.DataFrame(list(analysis.speeds), columns=names).rename(
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
        none = isinstance(crossing, str)
        lines.append((
            workload, dtype, variant, rows[0].variant.kind, rows[0].cell.elements,
            *spread("call_s", rows[0].seconds).values(),
            *spread("crossing", None if isinstance(crossing, str) else crossing).values(),
            crossing if none else "",
        ))  # fmt: skip
    ends = ("call_s", "crossing_elements")
    names = ("workload", "dtype", "variant", "kind", "least_elements", *ends, "note")
    return pd.DataFrame(lines, columns=with_ends(names, ends))


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
        lines.append((
            *of_cell(row.cell, IDENTITY).values(), row.variant.name, first_call_s,
            *reported_range(row.run.first_call_s),
            *(known.get(stage, math.nan) for stage in stages),
            max(0.0, first_call_s - accounted) if known else math.nan,
        ))  # fmt: skip
    names = with_ends((*IDENTITY, "variant", "first_call_s"), ("first_call_s",))
    return pd.DataFrame(lines, columns=[*names, *(f"{stage}_s" for stage in stages), "other_s"])


def accuracy_table(analysis: Analysis) -> pd.DataFrame:
    """Give the largest error of each checked row against the float64 reference."""
    rows = [
        row for row in analysis.rows
        if row.run.max_error_ulp is not None or row.run.max_relative_error is not None
    ]  # fmt: skip
    return row_table(rows, (
        *CELL, "variant", "kind", "max_error_ulp", "max_relative_error", "tolerance",
        "checked_calls", "label",
    ))  # fmt: skip


def noise_table(analysis: Analysis) -> pd.DataFrame:
    """Give the A/A ratio of each cell: eager against itself, where the truth is 1."""
    pairs, noise_log = analysis.noise, analysis.noise_log
    return row_table(
        [
            row for row in analysis.rows
            if row.variant.kind == "eager" and row.seconds and row.cell.id in pairs
        ],
        (*CELL, "call_s", "ratio"), ("ratio",),
        ratio=lambda row: ratio_of(pairs[row.cell.id], noise_log=noise_log),
    )  # fmt: skip


def samples_table(analysis: Analysis) -> pd.DataFrame:
    """Describe the raw samples of each row, and give the command that measures it again."""
    times = {
        id(row): np.asarray(list(block_seconds(row.run.samples).values())) for row in analysis.rows
    }
    return row_table(
        analysis.rows,
        ("cell", "variant", "processes", "blocks", "samples", "calls", "checked_calls",
         "fastest_s", "median_s", "slowest_s", "deviation", "reproduce"),
        blocks=lambda row: len(times[id(row)]),
        fastest_s=lambda row: min(times[id(row)], default=math.nan),
        median_s=lambda row: middle(times[id(row)]),
        slowest_s=lambda row: max(times[id(row)], default=math.nan),
        deviation=lambda row: _deviation(times[id(row)]),
        reproduce=lambda row: reproduce_command(analysis, row.cell),
    )  # fmt: skip


def _deviation(times: Vector) -> float:
    """Median absolute deviation as a share of the median, a pure number; NaN of nothing."""
    centre = middle(times)
    return middle(np.abs(times - centre)) / centre


def reproduce_command(analysis: Analysis, cell: Cell) -> str:
    """Spell the command that measures one cell again with the same inputs."""
    return f"fuser-bench run {cell.id} --seed {analysis.record.seed}"


def times_table(comparison: Comparison | None) -> pd.DataFrame:
    """List every row that both runs timed, the most slowed first.

    Returns:
        `ratio` is head / base, a pure number above 1 where the head is slower; NaN where a side
        has no time. `gated` says whether the row decides the gate: a peer's does not.
    """
    lines = [
        (
            row.cell, row.variant, *spread("ratio", row.ratio).values(),
            0 if row.ratio is None else row.ratio.processes, row.verdict, row.basis,
            "yes" if row.gated else "no",
        )
        for row in (comparison.timed if comparison else ())
    ]  # fmt: skip
    names = ("cell", "variant", "ratio", "processes", "verdict", "basis", "gated")
    table = pd.DataFrame(lines, columns=with_ends(names, ("ratio",)))
    return table.sort_values("ratio", ascending=False, kind="stable", ignore_index=True)


def counts_table(comparison: Comparison | None) -> pd.DataFrame:
    """List what needs no clock and differs: wrong and missing rows, counts, emitted text."""
    names = ["cell", "variant", "what", "base", "head", "finding"]
    if comparison is None:
        return pd.DataFrame(columns=names)
    lines = [(*found[:2], "result", "", found[2], "wrong") for found in comparison.wrong]
    lines += [(*found[:2], "row", "measured", found[2], "missing") for found in comparison.missing]
    lines += [
        (each.cell, each.variant, each.what, each.base, each.head, each.kind)
        for each in comparison.changes
    ]
    return pd.DataFrame(lines, columns=names)


def write_csv(tables: Mapping[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write each table as `<name>.csv` (UTF-8, one header line) and give the paths."""
    paths = []
    for name, table in tables.items():
        path = folder / f"{name}.csv"
        table.to_csv(path, index=False)
        paths.append(path)
    return paths
