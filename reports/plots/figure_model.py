"""The figures of the cost model: what fusing saves, split into causes, and its predictions."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import (
    ROW_HEIGHT_IN,
    above,
    name_rows,
    rows_of,
    size_title,
    workload_axis,
)
from fuser.reports.plots.style import (
    INK,
    MUTED,
    Layout,
    figure_of,
    log_ticks,
    panels,
    text_box,
)
from fuser.reports.spelling import seconds_text
from fuser.reports.tables import SUMMARY_SIZES

NOT_FITTED = "not fitted: too few rows of this cache level, or left out"
LAUNCHES, BYTES = "#E69F00", "#0072B2"


def draw_split(collection: Collection, layout: Layout) -> Figure | None:
    """Draw launches and bytes beside what was saved; None where nothing could be fitted."""
    table = collection.tables["split"]
    rows = table[table["size"].isin(SUMMARY_SIZES)]
    if not len(rows):
        return None
    rows = rows.assign(row=name_rows(rows))
    sizes = [size for size in SUMMARY_SIZES if (rows["size"] == size).any()]
    last = rows[rows["size"] == sizes[-1]].sort_values("saved", ascending=False, kind="stable")
    names = list(dict.fromkeys([*last["row"], *rows["row"]]))
    every = collection.tables["runs"]
    every = every[every["workload"].isin(rows["workload"])]
    height = 1.0 + ROW_HEIGHT_IN * len(names)
    drawn = panels(layout, len(sizes), height, share_y=not layout.is_narrow)
    for axes, size in zip(drawn, sizes, strict=True):
        sized = rows[rows["size"] == size]
        _panel(axes, sized, names, layout)
        whole = every[every["size"] == size]  # what is not fitted has its row, too
        axes.set_title(size_title(whole, size, layout))
    handles: list[Patch | Line2D] = [
        Patch(color=LAUNCHES, label="launches, by the model"),
        Patch(facecolor=BYTES, hatch="//", edgecolor="white", label="bytes, by the model"),
        Line2D([], [], color=INK, marker="o", linewidth=1.6, label="saved, as measured"),
        Line2D([], [], color=MUTED, linewidth=1.5, linestyle=(0, (2, 1)), label="not explained"),
    ]
    above(figure_of(drawn[0]), handles, 2 if layout.is_narrow else 4)
    return figure_of(drawn[0])


def _panel(axes: Axes, rows: pd.DataFrame, names: list[str], layout: Layout) -> None:
    """Draw the model's two parts as a bar, the measured saving as a dot, the gap between them."""
    for each in rows_of(rows):
        y, end = names.index(str(each.row)), float(each.launches + each.bytes)
        axes.barh(y, each.launches, height=0.6, color=LAUNCHES)
        axes.barh(
            y, each.bytes, left=each.launches, height=0.6, facecolor=BYTES, hatch="//",
            edgecolor="white", linewidth=0,
        )  # fmt: skip
        axes.plot([end, each.saved], [y, y], color=MUTED, linewidth=1.5, linestyle=(0, (2, 1)))
        axes.plot([each.saved_low, each.saved_high], [y, y], color=INK, linewidth=1.6, zorder=3)
        axes.plot(each.saved, y, marker="o", color=INK, markersize=5.5, zorder=3)
    for name in names:
        if name not in set(rows["row"]):
            axes.annotate(
                "not fitted" if layout.is_narrow else NOT_FITTED,
                (0, names.index(name)), xytext=(5, 0), textcoords="offset points", va="center",
                fontsize=8, color=MUTED, fontstyle="italic", bbox=text_box(),
            )  # fmt: skip
    axes.axvline(0, color=INK, linewidth=1.0)
    workload_axis(axes, names)
    low = min(0.0, float(rows["saved"].min()) - 0.05)
    axes.set_xlim(max(low, -1.0), 1.15)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("saved of the unfused time, percent")


def draw_prediction(collection: Collection, layout: Layout) -> Figure | None:
    """Draw predicted against measured times of fused calls; None where nothing was fitted."""
    rows = collection.tables["split"]
    if not len(rows):
        return None
    axes = panels(layout, 1, 3.6)[0]
    axes.set(xscale="log", yscale="log")
    low = float(rows[["fused_s", "predicted_s"]].replace(0, None).min().min()) / 2
    high = float(rows[["fused_s", "predicted_s"]].max().max()) * 2
    axes.plot([low, high], [low, high], color=INK, linewidth=1.2)
    ends = [low, high]
    axes.fill_between(ends, [low / 2, high / 2], [low * 2, high * 2], color=MUTED, alpha=0.15)
    places = list(dict.fromkeys(rows["place"]))
    for place, color, marker in zip(places, (LAUNCHES, BYTES, "#009E73"), "osD", strict=False):
        group = rows[rows["place"] == place]
        axes.plot(
            group["fused_s"], group["predicted_s"], linestyle="none", marker=marker, color=color,
            markersize=5.5, label=place,
        )  # fmt: skip
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        log_ticks(axis, seconds_text)
    axes.set_xlabel("time of a fused call, measured (log)")
    axes.set_ylabel("predicted (log)")
    figure_of(axes).legend(loc="outside upper left", ncols=1 if layout.is_narrow else 3)
    return figure_of(axes)
