"""The figure of memory traffic: bytes a call moves unfused, as planned, and at the least."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import ROW_HEIGHT_IN, intervals, name_rows, rows_of, workload_axis
from fuser.reports.plots.style import (
    GRID,
    INK,
    KIND_COLORS,
    MUTED,
    Layout,
    figure_of,
    log_ticks,
    panels,
    text_box,
)
from fuser.reports.spelling import ratio_text

MARKS = (
    ("unfused_bytes", "one kernel per operation", KIND_COLORS["unfused"], "D"),
    ("planned_bytes", "fused, as planned", KIND_COLORS["fused"], "o"),
    ("least_bytes", "least possible: inputs and outputs once", INK, "|"),
)


def largest_of_each(traffic: pd.DataFrame) -> pd.DataFrame:
    """Keep the largest size of each workload and dtype, most saved first."""
    order = traffic.sort_values("elements", kind="stable")
    last = order.groupby(["workload", "dtype"], sort=False).tail(1)
    waste = last["unfused_bytes"].astype(float) / last["elements"]
    return last.assign(waste=waste).sort_values("waste", ascending=False, kind="stable")


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one row a workload; None where no ledger was counted."""
    traffic = collection.tables["traffic"]
    if not len(traffic):
        return None
    rows = largest_of_each(traffic)
    names = list(name_rows(rows))
    axes = panels(layout, 1, 1.1 + ROW_HEIGHT_IN * len(names))[0]
    axes.set_xscale("log")
    columns = [column for column, *_ in MARKS]
    per_element = rows[columns].astype(float).div(rows["elements"].astype(float), axis=0)
    axes.set_xlim(per_element.min().min() / 1.3, per_element.max().max() * 3.2)
    _marks(axes, per_element)
    for y, each in enumerate(rows_of(rows)):
        _remark(axes, y, each, float(per_element.iloc[y].max()), layout)
    workload_axis(axes, names)
    log_ticks(axes.xaxis, lambda value: f"{value:g}")
    whole = "bytes moved per element of the largest input (log; left is less)"
    axes.set_xlabel("bytes per element (log)" if layout.is_narrow else whole)
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="none", label=text, markersize=7)
        for _, text, color, marker in MARKS
    ]
    figure_of(axes).legend(
        handles=handles, loc="outside upper left", ncols=1 if layout.is_narrow else 3
    )
    return figure_of(axes)


def _marks(axes: Axes, per_element: pd.DataFrame) -> None:
    """Draw the three marks of each workload, joined by a line."""
    y = np.arange(len(per_element))
    ends = per_element.min(axis=1), per_element.max(axis=1)
    intervals(axes, y, *ends, color=GRID, linewidth=3, zorder=1)
    for column, _, color, marker in MARKS:
        size, width = (13, 2.2) if marker == "|" else (7, 1.0)
        axes.plot(
            per_element[column], y, marker=marker, color=color, markersize=size,
            markeredgewidth=width, linestyle="none", zorder=3,
        )  # fmt: skip


def _remark(axes: Axes, y: int, row: object, right: float, layout: Layout) -> None:
    """Write what fusing saves: `7.8x less, 6 → 1 kernels`; `7.8x` where there is no room."""
    saving = getattr(row, "saving", None)
    before, after = getattr(row, "kernels_unfused", None), getattr(row, "kernels_fused", None)
    parts = []
    if saving is not None and saving == saving:
        parts = [f"{ratio_text(saving)} less" if saving > 1.005 else "no less"]
    is_known = before == before and after == after
    if not layout.is_narrow and is_known and before is not None and after is not None:
        parts.append(f"{int(before)} → {int(after)} kernel{'' if after == 1 else 's'}")
    axes.annotate(
        ", ".join(parts),
        (right, y),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=MUTED,
        bbox=text_box(),
    )
