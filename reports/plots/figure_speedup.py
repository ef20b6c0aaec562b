"""The figure of speed-ups: how many times faster than eager each mode is, workload by workload."""

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import (
    dots,
    hollow_handle,
    name_rows,
    reference_line,
    row_height_in,
    rows_of,
    size_title,
    steps_apart,
    variant_legend,
    variants_in,
    workload_axis,
)
from fuser.reports.plots.style import (
    INK,
    MUTED,
    Layout,
    figure_of,
    log_ticks,
    panels,
    ratio_tick,
    text_box,
)
from fuser.reports.spelling import ratio_text
from fuser.reports.tables import SIZE_ORDER


def speedup_rows(collection: Collection) -> pd.DataFrame:
    """Select the rows that have a ratio to eager, outside the sweeps, with a `row` name."""
    runs = collection.tables["runs"]
    compared = ~runs["kind"].isin(["eager", "into"])
    chosen = runs[compared & (runs["size"] != "sweep") & runs["speedup"].notna()]
    return chosen.assign(row=name_rows(chosen)) if len(chosen) else chosen.assign(row="")


def ratio_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Give the ends of the ratio axis: all values, and intervals as far as they help to read.

    One row measured on a disturbed machine, with an interval over decades, would else squeeze the
    others together; its bar runs off the edge.
    """
    least, most = float(rows["speedup"].min()), float(rows["speedup"].max())
    lows = rows["speedup_low"].clip(lower=least / 3)
    highs = rows["speedup_high"].clip(upper=most * 3)
    low = min(0.9, least, lows.min(skipna=True) if lows.notna().any() else least)
    high = max(1.1, most, highs.max(skipna=True) if highs.notna().any() else most)
    span = math.log(high / low)
    return low * math.exp(-0.03 * span), high * math.exp(max(0.45, 0.16 * span))


def sorted_names(rows: pd.DataFrame) -> list[str]:
    """Order the rows by the best ratio of a fused variant at the largest size, best first."""
    last = rows[rows["size"] == max(rows["size"], key=SIZE_ORDER.index)]
    key: dict[str, float] = dict.fromkeys(rows["row"], -math.inf)
    for name, kind, ratio in zip(last["row"], last["kind"], last["speedup"], strict=True):
        if kind == "fused":
            key[name] = max(key[name], float(ratio))
    return sorted(key, key=lambda name: (-key[name], name))


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one panel a size; None where nothing has a ratio."""
    rows = speedup_rows(collection)
    if not len(rows):
        return None
    names = sorted_names(rows)
    sizes = [size for size in SIZE_ORDER if (rows["size"] == size).any()]
    variants = list(dict.fromkeys(rows["variant"]))
    height = 0.9 + row_height_in(len(variants)) * len(names)
    drawn = panels(layout, len(sizes), height, share_y=not layout.is_narrow, columns=3)
    low, high = ratio_limits(rows)
    for axes, size in zip(drawn, sizes, strict=True):
        sized = rows[rows["size"] == size]
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        _panel(axes, sized, names, variants, collection.peers())
        axes.set_title(size_title(sized, size, layout))
        label = "times as fast as eager"
        axes.set_xlabel(f"{label} (log)" if layout.is_narrow else f"{label} (log; right is faster)")
    extra = [hollow_handle("left out of summaries")] if (rows["label"] != "").any() else []
    variant_legend(figure_of(drawn[0]), variants_in(rows), collection.peers(), layout, extra)
    return figure_of(drawn[0])


def _panel(
    axes: Axes, rows: pd.DataFrame, names: list[str], variants: list[str], peers: list[str]
) -> None:
    """Draw the dots of one size."""
    reference_line(axes, 1.0)
    position = {name: index for index, name in enumerate(names)}
    points = pd.DataFrame(
        {
            "x": rows["speedup"],
            "y": rows["row"].map(position) + rows["variant"].map(steps_apart(variants)),
            "low": rows["speedup_low"],
            "high": rows["speedup_high"],
        }
    )
    left_out = rows["label"] != ""
    for (variant, kind, hollow), group in rows.groupby(["variant", "kind", left_out], sort=False):
        shown = points.loc[group.index]
        dots(axes, shown, str(kind), str(variant), peers, bool(hollow), size=4.6)
    _remarks(axes, rows, position)
    workload_axis(axes, names)
    log_ticks(axes.xaxis, ratio_tick)


def _remarks(axes: Axes, rows: pd.DataFrame, position: Mapping[str, int]) -> None:
    """Write the fused ratio right of each row, or why there is none."""
    edge = axes.get_xlim()[1]
    ends = rows[["speedup", "speedup_high"]].max(axis=1)
    right = ends.groupby(rows["row"]).max().to_dict()
    for each in rows_of(rows[rows["kind"] == "fused"]):
        meets_edge = right[each.row] > edge / 1.5  # a bar runs off: write outside the axes
        axes.annotate(
            each.label or ratio_text(float(each.speedup)),
            (1.0 if meets_edge else right[each.row], position[each.row]),
            xycoords=("axes fraction", "data") if meets_edge else "data",
            xytext=(4 if meets_edge else 7, 0), textcoords="offset points", va="center",
            fontsize=8.5, color=MUTED if each.label else INK, bbox=text_box(),
            fontstyle="italic" if each.label else "normal",
        )  # fmt: skip
