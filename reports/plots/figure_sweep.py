"""The figure of time against size: the flat left end is the call, the slope the memory."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import name_rows, rows_of, variant_legend, variants_in
from fuser.reports.plots.style import (
    INK,
    MUTED,
    Layout,
    color_of,
    figure_of,
    log_ticks,
    marker_of,
    panels,
)
from fuser.reports.spelling import count_text, seconds_text

MOST_CROSSINGS = 3
LINE_PT = 10
WIDE = 10.0
"""An interval whose ends are further apart than by this factor would hide the other lines."""
MOST_PANELS = 9
"""The first swept workloads; a panel is about 60 KB of SVG in each of its two forms."""


def swept(collection: Collection) -> pd.DataFrame:
    """Select the timed rows of workloads with at least three sizes, with a `row` name."""
    runs = collection.tables["runs"]
    timed = runs[runs["call_s"].notna() & (runs["elements"] > 0) & (runs["kind"] != "into")]
    sizes = timed.groupby(["workload", "dtype"])["elements"].transform("nunique")
    chosen = timed[sizes >= 3]
    return chosen.assign(row=name_rows(chosen)) if len(chosen) else chosen.assign(row="")


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one panel a swept workload, 9 at most; None where no workload has three sizes."""
    rows = swept(collection)
    if not len(rows):
        return None
    # beyond these the page grows past what anyone looks at; the table has every row
    names = list(dict.fromkeys(rows["row"]))[:MOST_PANELS]
    rows = rows[rows["row"].isin(names)]
    drawn = panels(layout, len(names), 3.3, columns=3)
    crossings = collection.tables["break_even"]
    for axes, name in zip(drawn, names, strict=True):
        panel = rows[rows["row"] == name]
        axes.set(xscale="log", yscale="log")
        _lines(axes, panel, collection.peers())
        # Values set the limits: a band over decades runs off the edge.
        axes.set_ylim(panel["call_s"].min() / 2.5, panel["call_s"].max() * 2.5)
        _call_overhead(axes, panel[~panel["variant"].isin(collection.peers())])
        first = panel.iloc[0]
        same = (crossings["workload"] == first["workload"]) & (crossings["dtype"] == first["dtype"])
        here = crossings[same & (crossings["kind"] != "into")]
        crossed = int(here.loc[here["kind"] != "fused", "crossing_elements"].notna().sum())
        axes.set_title(name, pad=16 + LINE_PT * min(crossed, MOST_CROSSINGS - 1))
        _crossings(axes, here, collection.peers())
        log_ticks(axes.xaxis, lambda value: count_text(value) if value >= 1 else "")
        log_ticks(axes.yaxis, seconds_text)
        axes.set_xlabel("elements (log)")
        axes.set_ylabel("time of one call (log)")
    order = ["eager", "fallback", "unfused", "fused"]
    known = sorted(
        variants_in(rows),
        key=lambda pair: order.index(pair[1]) if pair[1] in order else len(order),
    )
    variant_legend(figure_of(drawn[0]), known, collection.peers(), layout, lines=True)
    return figure_of(drawn[0])


def _lines(axes: Axes, panel: pd.DataFrame, peers: list[str]) -> None:
    """Draw a line with its interval for each variant."""
    for (name, kind), group in panel.groupby(["variant", "kind"], sort=False):
        group = group.sort_values("elements")
        color, mark = (of(str(kind), str(name), peers) for of in (color_of, marker_of))
        known = group["call_s_high"] <= WIDE * group["call_s_low"]  # not where there is none
        axes.fill_between(
            group["elements"], group["call_s_low"], group["call_s_high"], where=known,
            color=color, alpha=0.25, linewidth=0,
        )  # fmt: skip
        order = 3 if kind == "fused" else 2
        axes.plot(group["elements"], group["call_s"], color=color, linewidth=1.6, zorder=order)
        for points, fill in ((group[known], color), (group[~known], "none")):
            axes.plot(
                points["elements"], points["call_s"], color=color, markersize=5, marker=mark,
                markerfacecolor=fill, linestyle="none", zorder=order,
            )  # fmt: skip


def _call_overhead(axes: Axes, panel: pd.DataFrame) -> None:
    """Write the time of the smallest call left of the eager and the fused line."""
    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    axes.set_xlim(low / (high / low) ** 0.22, high)
    smallest = panel[panel["elements"] == panel["elements"].min()]
    chosen = smallest[smallest["kind"].isin(["eager", "fused"])].sort_values("call_s")
    times = [float(value) for value in chosen["call_s"]]
    is_crowded = len(times) > 1 and times[-1] / times[0] < (top / bottom) ** 0.07
    for index, each in enumerate(rows_of(chosen)):
        place = ("top" if index == 0 else "bottom") if is_crowded else "center"
        axes.annotate(
            seconds_text(float(each.call_s)), (float(each.elements), float(each.call_s)),
            xytext=(-6, 0), textcoords="offset points", fontsize=8.5, color=INK,
            ha="right", va=place,
        )  # fmt: skip


def _crossings(axes: Axes, crossings: pd.DataFrame, peers: list[str]) -> None:
    """Mark the size from which each variant stays faster than eager; of fused say why it is none.

    The first lines stand above the panel; those of further variants are in the table.
    """
    found = crossings[crossings["crossing_elements"].notna()].sort_values("crossing_elements")
    others = rows_of(found[found["kind"] != "fused"])
    told = [*rows_of(crossings[crossings["kind"] == "fused"].head(1)), *others][:MOST_CROSSINGS]
    for line, each in enumerate(reversed(told)):
        color = color_of(str(each.kind), str(each.variant), peers)
        text = str(each.note)
        if not math.isnan(each.crossing_elements):
            text = f"faster from {count_text(each.crossing_elements)}"
            axes.axvline(each.crossing_elements, color=color, linewidth=1.2, linestyle=(0, (4, 3)))
            if not math.isnan(each.crossing_elements_low):
                ends = (each.crossing_elements_low, each.crossing_elements_high)
                text = f"{text} [{', '.join(count_text(end) for end in ends)}]"
                axes.axvspan(*ends, ymax=0.03, color=color, alpha=0.6, linewidth=0)
        written = axes.annotate(
            f"{each.variant}: {text}", (0, 1), xycoords="axes fraction",
            xytext=(0, 4 + LINE_PT * line), textcoords="offset points", fontsize=8, color=MUTED,
        )  # fmt: skip
        written.set_in_layout(False)  # else a long line would make the panels narrow
