"""The roofline: how much each byte is used for, against what memory and arithmetic allow.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", CACM 52(4), 2009, pp. 65-76.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fuser.reports.collection import Collection
from fuser.reports.marks import name_rows, rows_of
from fuser.reports.style import (
    INK,
    KIND_COLORS,
    KIND_MARKERS,
    MUTED,
    Layout,
    figure_of,
    log_ticks,
    panels,
    rate_text,
)
from fuser.reports.traffic_tables import arithmetic_roof, largest_cells

MOST_NAMES = 14
GIGA = 1e9


def pairs_of(roofline: pd.DataFrame) -> pd.DataFrame:
    """Put the unfused and the fused row of each workload's largest size side by side."""
    last = largest_cells(roofline)
    both = last[last["kind"] == "unfused"].merge(
        last[last["kind"] == "fused"], on=["cell", "workload", "dtype", "elements"],
        suffixes=("_unfused", "_fused"),
    )  # fmt: skip
    return both.assign(row=name_rows(both)) if len(both) else both.assign(row="")


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw an arrow a workload; None where no operations were counted."""
    rows = pairs_of(collection.tables["roofline"])
    if not len(rows):
        return None
    axes = panels(layout, 1, 5.0 if not layout.is_narrow else 4.2)[0]
    axes.set(xscale="log", yscale="log")
    for each in rows_of(rows):
        axes.annotate(
            "", (each.intensity_fused, each.operations_per_s_fused / GIGA),
            xytext=(each.intensity_unfused, each.operations_per_s_unfused / GIGA),
            arrowprops={"arrowstyle": "-|>", "color": MUTED, "linewidth": 0.8, "shrinkA": 3,
                        "shrinkB": 3, "alpha": 0.7},
        )  # fmt: skip
    for kind in ("unfused", "fused"):
        axes.plot(
            rows[f"intensity_{kind}"], rows[f"operations_per_s_{kind}"] / GIGA, linestyle="none",
            marker=KIND_MARKERS[kind], color=KIND_COLORS[kind], markersize=6, label=kind,
        )  # fmt: skip
    _limits(axes, rows)
    points = axes.get_legend_handles_labels()[0]
    handles = _roofs(axes, collection, rows)
    _names(axes, rows, MOST_NAMES // 2 if layout.is_narrow else MOST_NAMES)
    log_ticks(axes.xaxis, lambda value: f"{value:g}")
    log_ticks(axes.yaxis, lambda value: f"{value:g}")
    axes.set_xlabel("operations a byte moved (log)")
    axes.set_ylabel("operations, 10⁹ a second (log)")
    figure_of(axes).legend(
        handles=[*points, *handles], loc="outside upper left",
        ncols=1 if layout.is_narrow else 4,
    )  # fmt: skip
    return figure_of(axes)


def _limits(axes: Axes, rows: pd.DataFrame) -> None:
    """Leave room for the arrows, the roofs and the names."""
    x = [*rows["intensity_unfused"], *rows["intensity_fused"]]
    y = [*rows["operations_per_s_unfused"], *rows["operations_per_s_fused"]]
    roofs = rows["roof_per_s_fused"].dropna()
    top = max([*y, *roofs]) / GIGA
    axes.set_xlim(min(x) / 1.8, max(x) * 3.0)
    axes.set_ylim(min(y) / GIGA / 2.0, top * 2.0)


def _roofs(axes: Axes, collection: Collection, rows: pd.DataFrame) -> list[Line2D]:
    """Draw the slope of the fastest memory anchor and the flat roofs of arithmetic."""
    handles = []
    x = np.geomspace(*axes.get_xlim(), 50)
    for (label, speed), style in zip(_memory_speeds(collection), ("-", (0, (5, 2))), strict=False):
        (line,) = axes.plot(x, speed * x / GIGA, color=INK, linewidth=1.2, linestyle=style)
        line.set_label(f"{label}: {rate_text(speed)}")
        handles.append(line)
    for dtype, style in zip(dict.fromkeys(rows["dtype"]), ("-.", ":"), strict=False):
        roof = arithmetic_roof(collection.analysis, str(dtype))
        if roof is not None:
            line = axes.axhline(roof / GIGA, color="#D55E00", linewidth=1.2, linestyle=style)
            line.set_label(f"{dtype} multiply and add: {roof / GIGA:.3g}·10⁹/s")
            handles.append(line)
    return handles


def _memory_speeds(collection: Collection) -> Sequence[tuple[str, float]]:
    """Give the fastest anchor beyond a core's cache and the fastest of all, bytes a second."""
    speeds = collection.analysis.speeds
    if not speeds:
        return []
    largest = max(each.working_set_bytes for each in speeds)
    far = max(each.typical for each in speeds if each.working_set_bytes > largest / 2)
    near = max(each.typical for each in speeds)
    return [("large arrays", far)] + ([("in a core's cache", near)] if near > 1.1 * far else [])


def _names(axes: Axes, rows: pd.DataFrame, most: int) -> None:
    """Name the fused points; of many, those that are used most and least."""
    chosen = rows.sort_values("intensity_fused")
    if len(chosen) > most:
        places = np.linspace(0, len(chosen) - 1, most).round().astype(int)
        chosen = chosen.iloc[sorted(set(places))]
    for index, each in enumerate(rows_of(chosen)):
        axes.annotate(
            str(each.row), (each.intensity_fused, each.operations_per_s_fused / GIGA),
            xytext=(6, 4 if index % 2 else -9), textcoords="offset points", fontsize=7.5,
            color=INK,
        )  # fmt: skip
