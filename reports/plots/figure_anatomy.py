"""The anatomy of a call: its parts one after another, and the whole that was measured apart."""

from textwrap import fill

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fuser.reports.call_tables import SUM, WHOLE
from fuser.reports.collection import Collection
from fuser.reports.plots.marks import ROW_HEIGHT_IN, rows_of, workload_axis
from fuser.reports.plots.style import INK, KIND_COLORS, Layout, new_figure, text_box
from fuser.reports.spelling import seconds_text

TITLES = {
    "native": "Served by native code; each part timed by leaving it out (ablation)",
    "python": "Served through Python; parts read off a clock within the call",
    "fallback": "Run by NumPy, as the fallback; parts read off a clock within the call",
    "gpu": "On the GPU; parts read off a clock within the call",
}
NARROW_LETTERS, WIDE_LETTERS = 34, 80
"""Of a title's line, on a telephone and on a desk."""
PART_COLOR = KIND_COLORS["unfused"]
NAMES = {SUM: "= all parts", WHOLE: "the whole"}


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one panel a path; None where no call was taken apart."""
    table = collection.tables["anatomy"]
    if not len(table):
        return None
    paths = list(dict.fromkeys(zip(table["path"], table["subject"], strict=True)))
    chosen = [table[(table["path"] == path) & (table["subject"] == name)] for path, name in paths]
    around_in = 1.75 if layout.is_narrow else 1.3  # titles and axes
    heights = [around_in + 0.85 * ROW_HEIGHT_IN * len(rows) for rows in chosen]
    figure = new_figure(layout, sum(heights))
    drawn = figure.subplots(len(paths), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (path, subject), rows in zip(drawn, paths, chosen, strict=True):
        _panel(axes, rows, layout)
        note = str(rows.loc[rows["part"] == SUM, "closes"].iloc[0])
        title = f"{TITLES.get(str(path), path)}\n{subject}: the parts add up to {note}"
        letters = NARROW_LETTERS if layout.is_narrow else WIDE_LETTERS
        title = "\n".join(fill(line, letters) for line in title.splitlines())
        axes.set_title(title, fontsize=9 if layout.is_narrow else 10)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, layout: Layout) -> None:
    """Draw the parts as steps, each beginning where the one before ends, then sum and whole."""
    left = 0.0
    for y, each in enumerate(rows_of(rows)):
        width, is_part = max(0.0, float(each.part_s)), each.part not in (SUM, WHOLE)
        start = left if is_part else 0.0
        color = PART_COLOR if is_part else KIND_COLORS["fused" if each.part == SUM else "eager"]
        axes.barh(y, width, left=start, height=0.62, color=color)
        right = start + width
        if each.part_s_high == each.part_s_high:  # there is a range
            low, high = start + max(0.0, float(each.part_s_low)), start + float(each.part_s_high)
            axes.plot([low, high], [y, y], color=INK, linewidth=1.4, solid_capstyle="butt")
            right = max(right, high)
        axes.annotate(
            seconds_text(width), (right, y), xytext=(5, 0), va="center",
            textcoords="offset points", fontsize=8.5, bbox=text_box(),
        )  # fmt: skip
        left += width if is_part else 0.0
    workload_axis(axes, [NAMES.get(str(part), str(part)) for part in rows["part"]])
    most = max(left, float(rows["part_s_high"].max()))
    axes.set_xlim(0, most * (1.3 if layout.is_narrow else 1.12))
    axes.xaxis.set_major_locator(MaxNLocator(3 if layout.is_narrow else 8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    axes.set_xlabel("time of one call (linear)")
