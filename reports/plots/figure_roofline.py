"""The roofline: how much each byte is used for, against what memory and arithmetic allow.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", CACM 52(4), 2009, pp. 65-76.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import above, name_rows, rows_of
from fuser.reports.plots.style import (
    INK,
    KIND_COLORS,
    KIND_MARKERS,
    MUTED,
    Layout,
    figure_of,
    log_ticks,
    panels,
    text_box,
)
from fuser.reports.spelling import rate_text
from fuser.reports.tables import arithmetic_roof, largest_cells

NAME_SIZE_PT = 8.0
LETTER_WIDTH = 0.6
"""Of a letter of DejaVu Sans, as a share of its size: a little more than it needs."""
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
    log_ticks(axes.xaxis, lambda value: f"{value:g}")
    log_ticks(axes.yaxis, lambda value: f"{value:g}")
    axes.set_xlabel("operations a byte moved (log)")
    axes.set_ylabel("operations, 10⁹ a second (log)")
    above(figure_of(axes), [*points, *handles], 1 if layout.is_narrow else 3)
    _names(axes, rows, layout)
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


def _names(axes: Axes, rows: pd.DataFrame, layout: Layout) -> None:
    """Name the fused points where there is room: beside the point, else farther with a line."""
    figure = figure_of(axes)
    figure.draw_without_rendering()  # finds the size of the axes
    to_points = 72 / figure.dpi
    frame = axes.get_window_extent()
    taken = [
        (x - 4, y - 4, x + 4, y + 4)
        for kind in ("unfused", "fused")
        for x, y in _places(axes, rows, kind) * to_points
    ]
    bounds = tuple(to_points * end for end in (frame.x0, frame.y0, frame.x1, frame.y1))
    height = NAME_SIZE_PT * 1.15
    points = _places(axes, rows, "fused") * to_points
    for (x, y), each in zip(points, rows_of(rows), strict=True):
        width = LETTER_WIDTH * NAME_SIZE_PT * len(str(each.row))
        for right, up in _offsets(layout):
            left = x + (right if right > 0 else right - width)
            box = (left, y + up - height / 2, left + width, y + up + height / 2)
            if _is_inside(box, bounds) and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                _name(axes, each, (right, up))
                break


def _name(axes: Axes, row: Any, offset: tuple[float, float]) -> None:
    """Write a name at an offset, in points, from its mark; a thin line joins far ones."""
    is_far = abs(offset[1]) > NAME_SIZE_PT or abs(offset[0]) > NAME_SIZE_PT
    line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    name = axes.annotate(
        str(row.row), (row.intensity_fused, row.operations_per_s_fused / GIGA), xytext=offset,
        textcoords="offset points", fontsize=NAME_SIZE_PT, color=INK, va="center",
        ha="left" if offset[0] > 0 else "right", arrowprops=line if is_far else None,
        bbox=text_box(),
    )  # fmt: skip
    name.set_in_layout(False)  # the places hold only while the layout stays as it is


def _places(axes: Axes, rows: pd.DataFrame, kind: str) -> npt.NDArray[np.float64]:
    """Give the points of one kind in pixels, float64[n, 2]."""
    x, y = rows[f"intensity_{kind}"], rows[f"operations_per_s_{kind}"] / GIGA
    found: npt.NDArray[np.float64] = axes.transData.transform(np.column_stack([x, y]))
    return found


def _offsets(layout: Layout) -> Sequence[tuple[float, float]]:
    """List offsets of a name from its point, points of length, the nearest first."""
    far = 60 if layout.is_narrow else 110
    near = [(right, up) for right in (6.0, -6.0) for up in (0.0, 5.0, -5.0)]
    others = [
        (float(right * side), float(up))
        for right in range(8, far, 12)
        for up in range(-far, far + 1, 10)
        for side in (1, -1)
    ]
    return [*near, *sorted(others, key=lambda place: math.hypot(*place))]


Box = tuple[float, float, float, float]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _is_inside(box: Box, bounds: tuple[float, ...]) -> bool:
    low = box[0] >= bounds[0] and box[1] >= bounds[1]
    return low and box[2] <= bounds[2] and box[3] <= bounds[3]
