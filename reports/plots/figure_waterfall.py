"""The waterfall of memory traffic: from the least possible to the planned, array by array."""

from textwrap import fill, shorten
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import ROW_HEIGHT_IN, above, name_rows, rows_of, workload_axis
from fuser.reports.plots.style import INK, KIND_COLORS, MUTED, Layout, figure_of, panels, text_box
from fuser.reports.spelling import bytes_text, seconds_text
from fuser.reports.tables import largest_cells

MOST_WORKLOADS = 10
MOST_ARRAYS = 5
COLORS = {"stored": "#D55E00", "read-again": "#E69F00", "graph-break": "#0072B2"}
TITLES = {"stored": "stored between kernels", "read-again": "read again by another kernel",
          "graph-break": "read or written by a function that NumPy runs"}  # fmt: skip
LEAST_COLOR = KIND_COLORS["fused"]


def most_crossed(boundaries: pd.DataFrame) -> pd.DataFrame:
    """Keep the largest size of the workloads in which most crosses, most first."""
    last = largest_cells(boundaries[boundaries["of_least"].notna()])
    if not len(last):
        return last.assign(row="")
    last = last.assign(row=name_rows(last))
    share = last.groupby("row", sort=False)["of_least"].sum().sort_values(ascending=False)
    kept = list(share.index[:MOST_WORKLOADS])
    chosen = last[last["row"].isin(kept)]
    order = chosen["row"].map(kept.index)
    return chosen.assign(order=order).sort_values(
        ["order", "of_least"], ascending=[True, False], kind="stable"
    )


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one step an array; None where every plan moves only the least."""
    rows = most_crossed(collection.tables["boundaries"])
    if not len(rows):
        return None
    names, bars = _steps(rows)
    row_in = (2.1 if layout.is_narrow else 0.9) * ROW_HEIGHT_IN
    axes = panels(layout, 1, 1.2 + row_in * len(names))[0]
    _bars(axes, bars, layout)
    workload_axis(axes, names)
    axes.set_ylim(len(names) - (0.2 if layout.is_narrow else 0.4), -0.6)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        if name[0] not in "+=":
            label.set_fontweight("bold")
    short = "bytes moved, least possible = 1"
    whole = "bytes moved by a call, as a multiple of the least possible (left is less)"
    axes.set_xlabel(short if layout.is_narrow else whole)
    handles = [Patch(color=LEAST_COLOR, label="least possible")]
    kinds = set(rows["kind"])
    handles += [Patch(color=COLORS[k], label=TITLES[k]) for k in COLORS if k in kinds]
    handles.append(Patch(color=KIND_COLORS["unfused"], label="all that a call moves"))
    above(figure_of(axes), handles, 1 if layout.is_narrow else 5)
    return figure_of(axes)


def _steps(rows: pd.DataFrame) -> tuple[list[str], list[tuple[float, float, str, str]]]:
    """Give the names and the bars: start, width, colour, remark.

    What NumPy's functions read and write is no kernel's, so no part of the planned bytes.
    """
    names: list[str] = []
    bars: list[tuple[float, float, str, str]] = []
    for name, group in rows.groupby("row", sort=False):
        names.append(str(name))
        bars.append((0.0, 1.0, LEAST_COLOR, "least possible"))
        start = 1.0
        for each in rows_of(group.head(MOST_ARRAYS)):
            names.append(f"+ {_short(str(each.value))}")
            bars.append((start, float(each.of_least), COLORS[str(each.kind)], _remark(each)))
            start += float(each.of_least)
        rest = group.iloc[MOST_ARRAYS:]["of_least"]
        if len(rest):
            names.append(f"+ {len(rest)} smaller ones")
            bars.append((start, float(rest.sum()), MUTED, ""))
            start += float(rest.sum())
        names.append("= in all" if "graph-break" in set(group["kind"]) else "= planned")
        bars.append((0.0, start, KIND_COLORS["unfused"], f"{start:.2f} times the least"))
    return names, bars


def _short(value: str) -> str:
    """Leave the file's folder out: `max#1 (softmax.py:12)` fits beside the axis."""
    return value if len(value) <= 26 else f"{value[:25]}…"


def _remark(row: object) -> str:
    """Say how much it is and why: `512 B, ≈12 ns: a reduction that is used over other axes`."""
    cost_s = getattr(row, "cost_s", None)
    parts = [bytes_text(float(getattr(row, "moved_bytes", 0)))]
    if cost_s is not None and cost_s == cost_s:
        parts.append(f"≈{seconds_text(float(cost_s))}")
    return f"{', '.join(parts)}: {getattr(row, 'meaning', '')}"


def _bars(axes: Axes, bars: list[tuple[float, float, str, str]], layout: Layout) -> None:
    """Draw the steps, each beginning where the one before ends, with its remark at its right."""
    right = max(start + width for start, width, *_ in bars)
    for y, (start, width, color, remark) in enumerate(bars):
        height = 0.34 if layout.is_narrow else 0.62
        axes.barh(y, width, left=start, height=height, color=color)
        if width < 0.004 * right:  # else a small one could not be seen at all
            ends = [y - height / 2, y + height / 2]
            axes.plot([start, start], ends, color=color, linewidth=2)
        if layout.is_narrow:  # below its bar, from the axis on
            text = fill(remark, 38, max_lines=2, placeholder="…")
            place: dict[str, Any] = {"xy": (0, y + 0.2), "xytext": (2, 0), "va": "top"}
        else:
            text = shorten(remark, 76, placeholder="…")
            place = {"xy": (start + width, y), "xytext": (5, 0), "va": "center"}
        axes.annotate(
            text, textcoords="offset points", fontsize=8, linespacing=1.05,
            color=INK if color == LEAST_COLOR else MUTED, bbox=text_box(), **place,
        )  # fmt: skip
    axes.set_xlim(0, right * (1.05 if layout.is_narrow else 1.9))
