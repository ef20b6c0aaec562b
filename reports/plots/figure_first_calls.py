"""The figures of the first call: what a disk cache saves, and after how many calls it is repaid."""

import math

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from fuser.reports.collection import Collection
from fuser.reports.plots.figure_compile import MOST_BARS, SHORTER, bar_style, stage_colors
from fuser.reports.plots.marks import (
    ROW_HEIGHT_IN,
    SIZE_TITLES,
    above,
    name_rows,
    rows_of,
    workload_axis,
)
from fuser.reports.plots.style import (
    INK,
    KIND_COLORS,
    MUTED,
    Layout,
    count_text,
    figure_of,
    log_ticks,
    panels,
    seconds_text,
    text_box,
)

WHOLE = "first call"
REST = "rest"
SIZE_MARKERS = {"S": "o", "M": "s", "L": "D"}
SIZE_OFFSETS = {"S": -1, "M": 0, "L": 1}


def draw_states(collection: Collection, layout: Layout) -> Figure | None:
    """Draw the stages of first calls, cold and from disk; None where not measured."""
    table = collection.tables["first_calls"]
    if not len(table):
        return None
    stages = table[table["stage"] != WHOLE]
    stages = stages.assign(stage_s=_adding_up(table, stages))
    spent = stages.groupby("stage", sort=False)["stage_s"].sum().sort_values(ascending=False)
    longest = [str(each) for each in spent.index if each != REST][: MOST_BARS - 1]
    shown = [each for each in dict.fromkeys(stages["stage"]) if each in longest]
    keys = list(dict.fromkeys(zip(table["workload"], table["state"], strict=True)))
    axes = panels(layout, 1, 1.3 + 1.3 * ROW_HEIGHT_IN * len(keys))[0]
    left = [0.0] * len(keys)
    names = [*shown, SHORTER]
    for name, color in zip(names, stage_colors(names), strict=True):
        same = ~stages["stage"].isin(shown) if name not in shown else stages["stage"] == name
        chosen = stages[same]
        sums = chosen.groupby(["workload", "state"])["stage_s"].sum().to_dict()
        widths = [float(sums.get(key, 0.0)) for key in keys]
        axes.barh(range(len(keys)), widths, left=left, **bar_style(name, color))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    whole = table[table["stage"] == WHOLE].set_index(["workload", "state"])
    most = 1.2 * max(left)
    for y, key in enumerate(keys):
        each = whole.loc[key]
        low, high = float(each["stage_s_low"]), float(each["stage_s_high"])
        if high == high:  # an interval over decades runs off the edge
            high = min(high, most)
            axes.plot([low, high], [y, y], color=INK, linewidth=1.4, solid_capstyle="butt")
        axes.annotate(
            seconds_text(float(each["stage_s"])), (max(left[y], high), y), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=8.5, bbox=text_box(),
        )  # fmt: skip
    workload_axis(axes, [f"{workload}, {state}" for workload, state in keys])
    axes.set_xlim(0, most)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{1e3 * value:g}"))
    axes.set_xlabel("first call, milliseconds (left is sooner)")
    above(figure_of(axes), axes.get_legend_handles_labels()[0], 3 if layout.is_narrow else 8)
    return figure_of(axes)


def _adding_up(table: pd.DataFrame, stages: pd.DataFrame) -> "pd.Series[float]":
    """Scale the stages of each call so that they fill its bar: medians do not add up to a median.

    The table has them as they are.
    """
    keys = ["workload", "state"]
    whole = table[table["stage"] == WHOLE].set_index(keys)["stage_s"]
    known = pd.Series([whole[key] for key in zip(*(stages[k] for k in keys), strict=True)],
                      index=stages.index, dtype=float)  # fmt: skip
    sums = stages.groupby(keys)["stage_s"].transform("sum")
    scaled: pd.Series[float] = stages["stage_s"] * (known / sums.where(sums > 0, 1.0))
    return scaled


def draw_repay(collection: Collection, layout: Layout) -> Figure | None:
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
