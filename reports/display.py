"""How a DataFrame becomes a table of the page: titles, units, intervals, sort keys, anchors."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fuser.reports.marks import SIZE_TITLES
from fuser.reports.style import bytes_text, count_text, rate_text, ratio_text, seconds_text
from fuser.reports.tables import SIZE_ORDER


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table in the page."""

    name: str  # in the DataFrame
    title: str
    form: str = "text"
    hint: str = ""  # shown when the pointer rests on the title


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in a table: what is read, its interval, and what it sorts by."""

    text: str
    interval: str = ""
    sort: str = ""
    link: str = ""
    is_number: bool = False
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table, with the anchor that links to it."""

    anchor: str
    entries: Sequence[Entry]
    is_muted: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready for the template."""

    name: str
    title: str
    columns: Sequence[Column]
    lines: Sequence[Line]


def _repay(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:,.0f}"


FORMS: Mapping[str, Callable[[float], str]] = {
    "seconds": seconds_text,
    "ratio": ratio_text,
    "bytes": bytes_text,
    "rate": rate_text,
    "percent": lambda value: f"{100 * value:.1f}%",
    "count": lambda value: f"{value:,.0f}",
    "elements": count_text,
    "number": lambda value: f"{value:.3g}",
    "repay": _repay,
}
"""How a number of each form is spelled."""

_WORKLOAD = Column("workload", "Workload")
_DTYPE = Column("dtype", "Dtype")
_SIZE = Column("size", "Size", "size")
_ELEMENTS = Column("elements", "Elements", "elements", "of the largest input")
_VARIANT = Column("variant", "Variant")
_CELL = Column("cell", "Row", "code")

COLUMNS: Mapping[str, Sequence[Column]] = {
    "summary": (
        _SIZE,
        Column("variant", "Variant"),
        Column("baseline", "Against"),
        Column("speedup", "Geometric mean", "ratio", "above 1 the variant is faster"),
        Column("counted", "Rows", "of rows"),
        Column("speedup_all", "With left-out rows", "ratio", "at their measured time"),
        Column("counted_all", "Rows", "of rows"),
        Column("faster", "Faster", "count"),
        Column("slower", "Slower", "count"),
        Column("same_within_margin", "Same", "count", "within the margin"),
        Column("inconclusive", "Inconclusive", "count"),
        Column("refused_as_expected", "Refused as expected", "count"),
        Column("left_out", "Left out", "count"),
    ),
    "runs": (
        _WORKLOAD,
        _DTYPE,
        _ELEMENTS,
        _VARIANT,
        Column("call_s", "One call", "seconds"),
        Column("speedup", "Against eager", "ratio", "eager / variant"),
        Column("verdict", "Verdict", "verdict", "or why the row is left out"),
        Column("fusion_gain", "Fusion gains", "ratio", "unfused / fused"),
        Column("bytes_per_second", "Least traffic", "rate", "least bytes / time"),
        Column("copy_share", "Of copy", "percent", "share of the copy ceiling of this size"),
        Column("kernels", "Kernels", "count", "launched by one call"),
        Column("first_call_s", "First call", "seconds", "compilation included"),
        Column("calls_to_repay", "Repaid after", "repay", "calls, against eager"),
        Column("samples", "Samples", "count"),
    ),
    "left_out": (
        _CELL,
        _VARIANT,
        Column("label", "Why"),
        Column("reason", "Reason"),
        Column("measured_ratio", "Against eager as timed", "ratio", "not in the summaries"),
    ),
    "fresh_into": (
        _WORKLOAD,
        _DTYPE,
        _ELEMENTS,
        Column("eager_s", "Eager, fresh", "seconds"),
        Column("fused_s", "Fused, fresh", "seconds"),
        Column("fresh_ratio", "Fresh", "ratio", "eager / fused, new arrays"),
        Column("eager_into_s", "Eager, into", "seconds", "out= in the last operation"),
        Column("fused_into_s", "Fused, into", "seconds", "out="),
        Column("into_ratio", "Into", "ratio", "eager into / fused into"),
        Column("note", "Note"),
    ),
    "traffic": (
        _WORKLOAD,
        _DTYPE,
        _ELEMENTS,
        Column("unfused_bytes", "Unfused", "bytes"),
        Column("planned_bytes", "Planned", "bytes"),
        Column("least_bytes", "Least", "bytes"),
        Column("saving", "Unfused / planned", "ratio"),
        Column("least_share", "Least / planned", "percent"),
        Column("kernels_unfused", "Kernels unfused", "count"),
        Column("kernels_fused", "fused", "count"),
    ),
    "bandwidth": (
        _WORKLOAD,
        _DTYPE,
        _ELEMENTS,
        _VARIANT,
        Column("working_set_bytes", "Working set", "bytes"),
        Column("bytes_per_second", "Least traffic", "rate"),
        Column("copy_bytes_per_second", "Copy ceiling", "rate"),
        Column("copy_share", "Share", "percent"),
    ),
    "ceilings": (
        Column("name", "Anchor"),
        Column("by", "Code"),
        Column("threads", "Threads", "count"),
        Column("working_set_bytes", "Working set", "bytes"),
        Column("bytes_per_second", "Typical", "rate"),
        Column("fastest_bytes_per_second", "Fastest process", "rate"),
        Column("processes", "Processes", "count"),
    ),
    "break_even": (
        _WORKLOAD,
        _DTYPE,
        _VARIANT,
        Column("least_elements", "Smallest size", "elements"),
        Column("call_s", "One call there", "seconds"),
        Column("crossing_elements", "Overtakes eager at", "elements", "elements"),
        Column("note", "Note"),
    ),
    "compile_scaling": (
        Column("stage", "Stage"),
        Column("operations", "Operations", "count"),
        Column("compile_s", "Compile time", "seconds", "fastest to slowest repetition"),
    ),
    "accuracy": (
        _WORKLOAD,
        _DTYPE,
        _ELEMENTS,
        _VARIANT,
        Column("max_error_ulp", "Largest error, ulp", "number"),
        Column("max_relative_error", "Largest relative error", "number"),
        Column("tolerance", "Tolerance", "number"),
        Column("checked_calls", "Checked calls", "count"),
        Column("label", "Label"),
    ),
    "noise": (
        _WORKLOAD,
        _DTYPE,
        _ELEMENTS,
        Column("call_s", "One eager call", "seconds"),
        Column("ratio", "Eager / eager again", "ratio"),
    ),
    "compare_times": (
        _CELL,
        _VARIANT,
        Column("ratio", "Head / base", "ratio", "time of a call; above 1 is slower"),
        Column("verdict", "Verdict", "text"),
        Column("basis", "Basis", "text", "relative to eager in the same processes, or seconds"),
        Column("gated", "Gated"),
    ),
    "compare_counts": (
        _CELL,
        _VARIANT,
        Column("what", "What"),
        Column("base", "Base"),
        Column("head", "Head"),
        Column("finding", "Finding"),
    ),
    "samples": (
        _CELL,
        _VARIANT,
        Column("processes", "Processes", "count"),
        Column("blocks", "Blocks", "count"),
        Column("calls", "Calls", "count"),
        Column("fastest_s", "Fastest", "seconds"),
        Column("median_s", "Median", "seconds"),
        Column("slowest_s", "Slowest", "seconds"),
        Column("deviation", "Spread", "percent", "median absolute deviation of the blocks"),
        Column("reproduce", "Measure again", "code"),
    ),
}
"""What the page shows of each table; the CSV has every column. `compile` has its own stages."""


def compile_columns(table: pd.DataFrame) -> Sequence[Column]:
    """List the columns of the compile table: its stages are the run's own."""
    stages = [name for name in table.columns if name.endswith("_s") and name != "first_call_s"]
    shown = [Column(name, name.removesuffix("_s").title(), "seconds") for name in stages]
    return [_WORKLOAD, _DTYPE, _ELEMENTS, _VARIANT, Column("first_call_s", "First call", "seconds"),
            *shown]  # fmt: skip


def display(name: str, title: str, table: pd.DataFrame) -> Table:
    """Spell a table for the page; columns that are empty in every row are left out."""
    columns = compile_columns(table) if name == "compile" else COLUMNS[name]
    used = [each for each in columns if _is_used(table[each.name])]
    lines = []
    seen: dict[str, int] = {}
    for record in table.to_dict("records"):
        anchor = _anchor(name, record)
        seen[anchor] = seen.get(anchor, 0) + 1
        unique = anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}"
        entries = [_entry(each, record, name) for each in used]
        lines.append(Line(unique, entries, bool(record.get("label"))))
    return Table(name, title, used, lines)


def _is_used(values: "pd.Series[Any]") -> bool:
    """Whether a column says anything."""
    return bool((values.notna() & (values.astype(str) != "")).any())


def _anchor(name: str, record: Mapping[Any, Any]) -> str:
    """Name a row stably: by its cell and variant, not by its place."""
    keys = ("cell", "workload", "dtype", "size", "stage", "operations", "name", "by", "threads")
    parts = [record["cell"]] if "cell" in record else [record.get(key) for key in keys]
    parts += [record.get(key) for key in ("variant", "baseline", "working_set_bytes")]
    if "cell" in record:
        parts = parts[:2]
    text = "-".join(str(part) for part in [name, *parts] if part is not None)
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def _entry(column: Column, record: Mapping[Any, Any], table: str) -> Entry:
    """Spell one place."""
    value = record[column.name]
    if column.form == "size":
        return Entry(SIZE_TITLES.get(value, value), sort=str(SIZE_ORDER.index(value)))
    if column.form == "of rows":
        return Entry(f"{value} of {record['rows']}", sort=str(value), is_number=True)
    if column.form == "verdict":
        text = record["label"] or ("baseline" if record["kind"] == "eager" else str(value))
        return Entry(text, sort=text)
    if column.form in ("text", "code"):
        text = "" if value is None or value != value else str(value)
        return Entry(text, sort=text, is_code=column.form == "code")
    if value is None or value != value:
        return Entry("", is_number=True)
    spell = FORMS[column.form]
    link = ""
    if table == "runs" and column.name == "samples":
        link = _anchor("samples", record)
    low, high = (record.get(f"{column.name}_{end}", math.nan) for end in ("low", "high"))
    interval = ""
    if low is not None and high is not None and low == low and high == high:
        interval = _interval(spell(low), spell(high))
    text = spell(float(value))
    key = f"{float(value):.6g}"
    return Entry(text, interval, "" if key == text else key, link, True)


def _interval(low: str, high: str) -> str:
    """Join two ends; a unit that both have is said once, and a multiplication sign not at all."""
    times = "\N{MULTIPLICATION SIGN}"
    low, high = low.removesuffix(times), high.removesuffix(times)
    if " " in low and low.split(" ", 1)[1] == high.split(" ", 1)[-1]:
        low = low.split(" ", 1)[0]
    return f"{low} to {high}"
