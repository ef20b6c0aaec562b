"""The figures of trust: how large the errors are, and how large the noise is."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import (
    ROW_HEIGHT_IN,
    dots,
    intervals,
    name_rows,
    variant_legend,
    variants_in,
    workload_axis,
)
from fuser.reports.plots.style import (
    INK,
    KIND_COLORS,
    MUTED,
    Layout,
    figure_of,
    log_ticks,
    panels,
    ratio_tick,
)
from fuser.reports.spelling import percent_text, seconds_text

RATIO_COLUMNS = ("ratio", "ratio_low", "ratio_high")


def draw_accuracy(collection: Collection, layout: Layout) -> Figure | None:
    """Draw the largest error in ulp of each workload and variant; None where none was checked."""
    table = collection.tables["accuracy"]
    rows = table[table["max_error_ulp"].notna()]
    if not len(rows):
        return None
    rows = _nearest_to_wrong(rows.assign(row=name_rows(rows)))
    keys = ["row", "variant", "kind"]
    worst = rows.assign(error=rows["max_error_ulp"].astype(float))
    worst = worst.groupby(keys, sort=False)["error"].max().reset_index()
    order = worst.groupby("row")["error"].max().sort_values(ascending=False, kind="stable")
    names = [str(name) for name in order.index]
    axes = panels(layout, 1, 1.1 + ROW_HEIGHT_IN * len(names))[0]
    admitted = _admitted(rows)
    largest = max(4.0, float(worst["error"].max()), *admitted.values())
    is_wide_range = largest > 50
    if is_wide_range:
        axes.set_xscale("symlog", linthresh=1.0)
    shown = ("eager", "unfused", "fused", "peer")
    for (variant, kind), group in worst.groupby(["variant", "kind"], sort=False):
        if kind not in shown:
            continue
        # Equal errors lie on one another: a small step apart shows that both are there.
        y = [names.index(row) + 0.22 * (shown.index(str(kind)) - 1) for row in group["row"]]
        points = pd.DataFrame({"x": group["error"], "y": y, "low": math.nan, "high": math.nan})
        dots(axes, points, str(kind), str(variant), collection.peers())
    handles = _draw_admitted(axes, names, admitted)
    workload_axis(axes, names)
    axes.set_xlim(0, largest * (2.0 if is_wide_range else 1.1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    scale = " (linear to 1, then log)" if is_wide_range else ""
    whole = f"largest error against float64, ulp of the dtype{scale}"
    axes.set_xlabel("largest error, ulp" if layout.is_narrow else whole)
    known = [pair for pair in variants_in(worst) if pair[1] in shown]
    variant_legend(figure_of(axes), known, collection.peers(), layout, handles)
    return figure_of(axes)


def _nearest_to_wrong(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep of each row of the figure the size whose largest error is the most of what is admitted.

    What is admitted grows with the terms of a sum: errors and bounds of different sizes do not
    belong beside one another.
    """
    bound = rows["tolerance"].astype(float)
    share = rows["max_error_ulp"].astype(float) / bound.where(bound > 0, 1.0)
    largest = share.groupby([rows["row"], rows["elements"]]).transform("max")
    elements = rows["elements"].where(largest == largest.groupby(rows["row"]).transform("max"))
    kept = elements.groupby(rows["row"]).transform("max")
    return rows[rows["elements"] == kept]


def _admitted(rows: pd.DataFrame) -> dict[str, float]:
    """Give the error that is still right in each row of the figure, ulp.

    A tolerance is a share of the result; one ulp is at most the dtype's epsilon of it.
    """
    found: dict[str, float] = {}
    for row, dtype, tolerance in zip(rows["row"], rows["dtype"], rows["tolerance"], strict=True):
        is_float = str(dtype).startswith("float")
        if tolerance is None or not is_float or not 0 < float(tolerance) < math.inf:
            continue
        ulp = float(tolerance) / float(np.finfo(str(dtype)).eps)
        found[str(row)] = min(ulp, found.get(str(row), math.inf))
    return found


def _draw_admitted(axes: Axes, names: list[str], admitted: dict[str, float]) -> list[Line2D]:
    """Draw a mark in each row at the error from which on a result is wrong."""
    if not admitted:
        return []
    places = [names.index(row) for row in admitted]
    return axes.plot(
        list(admitted.values()), places, linestyle="none", marker="|", markersize=11,
        markeredgewidth=1.8, color=INK, label="admitted",
    )  # fmt: skip


def draw_noise(collection: Collection, layout: Layout) -> Figure | None:
    """Draw the A/A ratio of each cell over the noise floor; None where there is no pair."""
    table = collection.tables["noise"]
    if not len(table):
        return None
    axes = panels(layout, 1, 3.2)[0]
    axes.set(xscale="log", yscale="log")
    floor = collection.analysis.floor
    if floor is not None:
        axes.axhspan(
            1 / floor.ratio, floor.ratio, color=KIND_COLORS["unfused"], alpha=0.25, linewidth=0
        )
        axes.annotate(
            f"band: noise floor ±{percent_text(floor.ratio - 1)}", (0, 1),
            xycoords="axes fraction", xytext=(0, 5), textcoords="offset points", fontsize=8.5,
            color=MUTED,
        )  # fmt: skip
    axes.axhline(1.0, color=INK, linewidth=1.2, zorder=1)
    ratios = [table[name].astype(float) for name in RATIO_COLUMNS]
    intervals(
        axes, table["call_s"], *ratios[1:], upright=True, color=KIND_COLORS["eager"],
        linewidth=1.2, alpha=0.7,
    )  # fmt: skip
    axes.plot(
        table["call_s"], ratios[0], linestyle="none", marker="s", markersize=4.5,
        color=KIND_COLORS["eager"],
    )  # fmt: skip
    band = math.log(floor.ratio) if floor else 0.0
    logs = [np.abs(np.log(each)) for each in ratios]
    widest = max(float(logs[0].max()), band, 0.01)
    reach = float(np.nanmax([*logs[1], *logs[2], widest]))
    limit = math.exp(min(reach * 1.08, widest * 4))  # a few wide bars run off the edge
    axes.set_ylim(1 / limit, limit)
    log_ticks(axes.xaxis, seconds_text)
    log_ticks(axes.yaxis, ratio_tick)
    axes.set_xlabel("time of one eager call (log)")
    axes.set_ylabel("eager / eager again (log)")
    return figure_of(axes)
