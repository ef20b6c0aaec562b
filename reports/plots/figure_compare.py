"""The forest plot of two runs: each row's change in time with its interval, over the noise."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fuser.reports.collection import Collection
from fuser.reports.comparison import Comparison
from fuser.reports.plots.marks import ROW_HEIGHT_IN, above, reference_line, rows_of, workload_axis
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
from fuser.reports.spelling import percent_text, ratio_text

MOST_ROWS = 40
LOOKS = {
    "slower": ("#D55E00", "o"),
    "faster": ("#0072B2", "D"),
    "same": ("#8c8c8c", "s"),
    "inconclusive": ("#8c8c8c", "v"),
    "not measured": ("#8c8c8c", "x"),
}
"""Colour and marker of each verdict, by Okabe and Ito."""


def farthest(times: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows whose ratio is farthest from 1, in the table's order: slowest first."""
    known = times[times["ratio"].notna()]
    distance = known["ratio"].map(lambda ratio: abs(math.log(ratio)))
    kept = distance.sort_values(ascending=False, kind="stable").index[:MOST_ROWS]
    return known.loc[sorted(kept)]


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one row a row of both runs; None where no base is given or nothing was timed."""
    comparison = collection.comparison
    rows = farthest(collection.tables["compare_times"])
    if comparison is None or not len(rows):
        return None
    row_in = (1.5 if layout.is_narrow else 1.0) * ROW_HEIGHT_IN  # two lines a name
    axes = panels(layout, 1, 1.3 + row_in * len(rows))[0]
    axes.set_xscale("log")
    _limits(axes, rows, comparison)
    _band(axes, comparison)
    reference_line(axes, 1.0)
    for y, each in enumerate(rows_of(rows)):
        color, marker = LOOKS[str(each.verdict)]
        if not math.isnan(each.ratio_low):
            axes.plot([each.ratio_low, each.ratio_high], [y, y], color=color, linewidth=2.0)
        axes.plot(
            each.ratio, y, marker=marker, color=color, markersize=6, linestyle="none",
            markerfacecolor="none" if each.verdict in ("inconclusive", "not measured") else color,
        )  # fmt: skip
        axes.annotate(
            ratio_text(float(each.ratio)), (1, y), xycoords=("axes fraction", "data"),
            xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK,
        )  # fmt: skip
    workload_axis(axes, [_name(each, layout) for each in rows_of(rows)])
    log_ticks(axes.xaxis, ratio_tick)
    whole = "time of a call against the base's, head / base (log; left of 1 is faster)"
    axes.set_xlabel("head / base (log; left is faster)" if layout.is_narrow else whole)
    _legend(axes, rows, comparison, layout)
    return figure_of(axes)


def _name(row: object, layout: Layout) -> str:
    cell, variant = str(getattr(row, "cell", "")), str(getattr(row, "variant", ""))
    return f"{cell}\n{variant}" if layout.is_narrow else f"{cell}  {variant}"


def _limits(axes: Axes, rows: pd.DataFrame, comparison: Comparison) -> None:
    """Show all values and the band; an interval over decades runs off the edge."""
    least, most = float(rows["ratio"].min()), float(rows["ratio"].max())
    room = math.exp(1.6 * max(comparison.floor, math.log(1 + comparison.margin)))
    low = min(1 / room, least, rows["ratio_low"].clip(lower=least / 1.5).min())
    high = max(room, most, rows["ratio_high"].clip(upper=most * 1.5).max())
    axes.set_xlim(low / 1.02, high * 1.02)


def _band(axes: Axes, comparison: Comparison) -> None:
    """Shade what equal things differ by, and mark the margin that is still the same."""
    if comparison.floor > 0:
        axes.axvspan(
            math.exp(-comparison.floor), math.exp(comparison.floor),
            color=KIND_COLORS["unfused"], alpha=0.25, linewidth=0,
        )  # fmt: skip
    for edge in (1 / (1 + comparison.margin), 1 + comparison.margin):
        axes.axvline(edge, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)


def _legend(axes: Axes, rows: pd.DataFrame, comparison: Comparison, layout: Layout) -> None:
    """Name the verdicts that occur, the band and the margin."""
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=color, marker=marker, label=verdict)
        for verdict, (color, marker) in LOOKS.items()
        if (rows["verdict"] == verdict).any()
    ]
    if comparison.floor > 0:
        noise = f"noise ±{percent_text(math.expm1(comparison.floor))}"
        handles.append(Patch(color=KIND_COLORS["unfused"], alpha=0.25, label=noise))
    handles.append(
        Line2D(
            [], [], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)),
            label=f"margin ±{percent_text(comparison.margin)}",
        )
    )  # fmt: skip
    above(figure_of(axes), handles, 2 if layout.is_narrow else 6)
