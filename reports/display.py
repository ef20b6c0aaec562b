"""How a DataFrame becomes a table of the page: titles, units, intervals, sort keys, anchors."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fuser.reports.columns import COLUMNS, Column
from fuser.reports.plots.marks import SIZE_TITLES
from fuser.reports.spelling import bytes_text, count_text, rate_text, ratio_text, seconds_text
from fuser.reports.statistics import no_interval
from fuser.reports.tables import SIZE_ORDER
from fuser.reports.whole_programs import PROGRAMS


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in a table: what is read, its interval, and what it sorts by."""

    text: str
    interval: str = ""
    sort: str = ""
    link: str = ""
    is_number: bool = False
    is_code: bool = False
    is_long: bool = False  # a sentence, which may take several lines


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


def _tiny(value: float) -> str:
    """Spell a time far below the clock's: `0.0417 ns`, `24 ps`."""
    return f"{1e12 * value:.3g} ps" if value < 1e-10 else seconds_text(value)


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
    "operations": lambda value: f"{value / 1e9:.3g} G/s",
    "tiny": _tiny,
}
"""How a number of each form is spelled."""


def columns_of(name: str, table: pd.DataFrame) -> Sequence[Column]:
    """The columns that the page shows of a table, with those that are a run's own."""
    own: list[Column] = []
    if name == "compile":
        stages = [each for each in table.columns if each.endswith("_s") and each != "first_call_s"]
        own = [Column(each, each.removesuffix("_s").title(), "seconds") for each in stages]
    if name == "whole_programs":
        own = [Column(each, each, "ratio") for each in table.columns if each not in PROGRAMS]
    *first, last = COLUMNS[name]
    return [*first, *own, last] if last.form == "long" else [*first, last, *own]


def display(name: str, title: str, table: pd.DataFrame) -> Table:
    """Spell a table for the page; columns that are empty in every row are left out."""
    used = [each for each in columns_of(name, table) if _is_used(table[each.name])]
    lines = []
    seen: dict[str, int] = {}
    for record in table.to_dict("records"):
        anchor = anchor_of(name, record)
        seen[anchor] = seen.get(anchor, 0) + 1
        unique = anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}"
        entries = [_entry(each, record, name) for each in used]
        lines.append(Line(unique, entries, bool(record.get("label"))))
    return Table(name, title, used, lines)


def _is_used(values: "pd.Series[Any]") -> bool:
    """Whether a column says anything."""
    return bool((values.notna() & (values.astype(str) != "")).any())


def anchor_of(name: str, record: Mapping[Any, Any]) -> str:
    """Name a row stably: by its cell and variant, not by its place."""
    keys = (
        "cell", "workload", "dtype", "size", "stage", "operations", "name", "by", "threads", "path",
        "subject", "part", "state", "place", "term", "operation", "layout",
    )  # fmt: skip
    parts = [record["cell"]] if "cell" in record else [record.get(key) for key in keys]
    parts += [record.get(key) for key in ("variant", "baseline", "working_set_bytes")]
    if "cell" in record:
        parts = parts[:2] if name != "boundaries" else [record["cell"], record["array"]]
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
    if column.form in ("text", "code", "long"):
        text = "" if value is None or value != value else str(value)
        link = anchor_of("runs", record) if (table, column.name) == ("extremes", "workload") else ""
        return Entry(
            text, sort=text, link=link, is_code=column.form == "code", is_long=column.form == "long"
        )
    if value is None or value != value:
        return Entry("", is_number=True)
    spell = FORMS[column.form]
    link = ""
    if table == "runs" and column.name == "samples":
        link = anchor_of("samples", record)
    low, high = (record.get(f"{column.name}_{end}", math.nan) for end in ("low", "high"))
    interval = ""
    if low is not None and high is not None and low == low and high == high:
        interval = _interval(spell(low), spell(high))
    elif column.form == "ratio" and "processes" in record and f"{column.name}_low" in record:
        interval = no_interval(int(record["processes"]))
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
