"""The figure of what repays compiling: after how many calls the first one is made up for."""

import math

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import (
    ROW_HEIGHT_IN,
    SIZE_TITLES,
    above,
    name_rows,
    rows_of,
    workload_axis,
)
from fuser.reports.plots.style import INK, KIND_COLORS, MUTED, Layout, figure_of, log_ticks, panels
from fuser.reports.spelling import count_text

SIZE_MARKERS = {"S": "o", "M": "s", "L": "D"}
SIZE_OFFSETS = {"S": -1, "M": 0, "L": 1}


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw the calls that repay the fused function's first one; None where not known."""
    table = collection.tables["repay"]
    kinds = {each.name: each.kind for each in collection.analysis.record.variants}
    fused = table[(table["variant"].map(kinds) == "fused") & table["size"].isin(SIZE_MARKERS)]
    if not len(fused):
        return None
    rows = fused.assign(row=name_rows(fused))
    finite = rows[rows["calls_to_repay"].map(math.isfinite)]
    top = float(finite["calls_to_repay"].max()) if len(finite) else 10.0
    names = _sorted_names(rows)
    axes = panels(layout, 1, 1.1 + ROW_HEIGHT_IN * len(names))[0]
    axes.set_xscale("log")
    axes.set_xlim(0.7, top * 6)
    for each in rows_of(rows):
        never = math.isinf(each.calls_to_repay)
        y = names.index(str(each.row)) + 0.22 * SIZE_OFFSETS[str(each.size)]
        x = top * 3.5 if never else float(each.calls_to_repay)
        if each.calls_to_repay_low == each.calls_to_repay_low and not never:
            ends = [each.calls_to_repay_low, min(float(each.calls_to_repay_high), top * 6)]
            axes.plot(ends, [y, y], color=KIND_COLORS["fused"], linewidth=1.4)
        axes.plot(
            x, y, marker=">" if never else SIZE_MARKERS[str(each.size)], linestyle="none",
            color=MUTED if never else KIND_COLORS["fused"], markersize=6,
            markerfacecolor="none" if each.size == "S" else None,
        )  # fmt: skip
        if each.disk_calls_to_repay == each.disk_calls_to_repay and not never:
            disk = each.disk_calls_to_repay
            if disk is not None and math.isfinite(disk):
                axes.plot(disk, y, marker="|", color=INK, markersize=10, markeredgewidth=1.6)
    workload_axis(axes, names)
    log_ticks(axes.xaxis, count_text)
    whole = "calls after which compiling is repaid (log; left is sooner)"
    axes.set_xlabel("calls that repay compiling (log)" if layout.is_narrow else whole)
    handles = [
        Line2D([], [], color=KIND_COLORS["fused"], marker=marker, linestyle="none",
               markerfacecolor="none" if size == "S" else None,
               label=f"{SIZE_TITLES[size].lower()} size")
        for size, marker in SIZE_MARKERS.items() if (rows["size"] == size).any()
    ]  # fmt: skip
    handles += [
        Line2D([], [], color=INK, marker="|", linestyle="none", markersize=10,
               label="machine code on disk"),
        Line2D([], [], color=MUTED, marker=">", linestyle="none", markerfacecolor="none",
               label="never: no faster than eager"),
    ]  # fmt: skip
    above(figure_of(axes), handles, 2 if layout.is_narrow else 5)
    return figure_of(axes)


def _sorted_names(rows: pd.DataFrame) -> list[str]:
    """Order the rows by the calls that their largest size needs, fewest first."""
    last = rows.sort_values("elements", kind="stable").groupby("row", sort=False).tail(1)
    order = last.sort_values("calls_to_repay", kind="stable")["row"]
    return [str(name) for name in order]
