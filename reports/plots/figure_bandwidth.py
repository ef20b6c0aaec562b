"""The figure of bandwidth: what each row achieves against what this machine's memory can do."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import intervals, variant_legend, variants_in
from fuser.reports.plots.style import (
    GRID,
    INK,
    MUTED,
    Layout,
    color_of,
    figure_of,
    log_ticks,
    marker_of,
    panels,
)
from fuser.reports.spelling import bytes_text

LINES = {"copy": "-", "triad": (0, (6, 2)), "read": (0, (1.5, 1.5))}
LEAST_WORKING_SET_BYTES = 4096
"""Below this a call costs more than its memory: such rows are in the table alone."""

SHOWN_KINDS = ("eager", "unfused", "fused", "peer")


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw points over the ceilings; None where no row has a bandwidth."""
    table = collection.tables["bandwidth"]
    rows = table[
        table["kind"].isin(SHOWN_KINDS) & (table["working_set_bytes"] >= LEAST_WORKING_SET_BYTES)
    ]
    if not len(rows):
        return None
    axes = panels(layout, 1, 4.0)[0]
    axes.set(xscale="log", yscale="log")
    peers = collection.peers()
    for (name, kind), group in rows.groupby(["variant", "kind"], sort=False):
        ends = (group[f"bytes_per_second_{end}"].astype(float) / 1e9 for end in ("low", "high"))
        intervals(
            axes, group["working_set_bytes"].astype(float), *ends, upright=True,
            color=color_of(str(kind), str(name), peers), linewidth=1.0, alpha=0.45,
        )  # fmt: skip
        axes.plot(
            group["working_set_bytes"].astype(float), group["bytes_per_second"].astype(float) / 1e9,
            linestyle="none", marker=marker_of(str(kind), str(name), peers), markersize=5,
            color=color_of(str(kind), str(name), peers), alpha=0.85,
        )  # fmt: skip
    ceilings = collection.tables["ceilings"]
    handles = _ceilings(axes, ceilings)
    low = min(rows["working_set_bytes"].min(), *ceilings["working_set_bytes"], 1 << 40)
    high = max(rows["working_set_bytes"].max(), *ceilings["working_set_bytes"], 0)
    axes.set_xlim(low / 1.6, high * 1.6)
    rates = [*rows["bytes_per_second"], *ceilings["bytes_per_second"]]
    # values set the limits: an interval over decades runs off the edge
    axes.set_ylim(min(rates) / 1.8e9, max(rates) * 1.8 / 1e9)
    _cache_edges(axes, collection.analysis.record.machine.caches, low / 1.6, high * 1.6)
    log_ticks(axes.xaxis, bytes_text)
    log_ticks(axes.yaxis, lambda value: f"{value:g}")
    axes.set_xlabel("inputs and outputs of one call (log)")
    axes.set_ylabel("GB/s of least traffic (log)")
    variant_legend(figure_of(axes), variants_in(rows), peers, layout, handles)
    return figure_of(axes)


def _ceilings(axes: Axes, ceilings: pd.DataFrame) -> list[Line2D]:
    """Draw each anchor at its largest thread count, and the copy of one thread in grey.

    NumPy and our own kernels time the anchors: the faster of the two is the ceiling.
    """
    handles = []
    keys = ["name", "threads", "working_set_bytes"]
    best = ceilings.groupby(keys, sort=False)["bytes_per_second"].max().reset_index()
    for (name, threads), group in best.groupby(["name", "threads"], sort=False):
        is_most = threads == ceilings.loc[ceilings["name"] == name, "threads"].max()
        if not is_most and not (name == "copy" and threads == 1):
            continue
        group = group.sort_values("working_set_bytes")
        size = group["working_set_bytes"].astype(float)
        ends = [size.iloc[0] / 3, *size, size.iloc[-1] * 3]  # one size alone is a line too
        rate = group["bytes_per_second"] / 1e9
        plural = "" if threads == 1 else "s"
        handles += axes.plot(
            ends, [rate.iloc[0], *rate, rate.iloc[-1]],
            color=INK if is_most else MUTED, linestyle=LINES.get(str(name), "-"),
            linewidth=1.5 if is_most else 1.0, label=f"{name}, {threads} thread{plural}",
        )  # fmt: skip
        axes.plot(
            size, rate, linestyle="none", marker=".", color=INK if is_most else MUTED, markersize=4,
        )  # fmt: skip
    return handles


def _cache_edges(axes: Axes, caches: Mapping[str, int], low: float, high: float) -> None:
    """Mark the size of each data cache."""
    for name, size in caches.items():
        if low < size < high and not name.endswith("i"):
            axes.axvline(size, color=GRID, linewidth=1.2, zorder=0)
            axes.annotate(
                name, (size, 0), xycoords=("data", "axes fraction"), xytext=(-3, 3),
                textcoords="offset points", ha="right", va="bottom", fontsize=8.5, color=MUTED,
            )  # fmt: skip
