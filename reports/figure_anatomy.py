"""The anatomy of a call: its parts on one another, beside the whole that was measured apart."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fuser.reports.call_tables import SUM, WHOLE
from fuser.reports.collection import Collection
from fuser.reports.figure_compile import STAGE_COLORS
from fuser.reports.marks import rows_of
from fuser.reports.style import INK, Layout, figure_of, panels, seconds_text

TITLES = {
    "native": "Served in native code, by ablation",
    "python": "Through Python, by stamps",
    "fallback": "Run by the fallback, by stamps",
    "gpu": "On the GPU, by stamps",
}
HATCHES = ("", "//", "..", "xx", "\\\\", "--", "oo", "++")


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one panel a path; None where no call was taken apart."""
    table = collection.tables["anatomy"]
    if not len(table):
        return None
    paths = list(dict.fromkeys(zip(table["path"], table["subject"], strict=True)))
    height = 4.3 if layout.is_narrow else 2.9
    drawn = panels(layout, len(paths), height, columns=1)
    for axes, (path, subject) in zip(drawn, paths, strict=True):
        chosen = table[(table["path"] == path) & (table["subject"] == subject)]
        _panel(axes, chosen, layout)
        note = str(chosen.loc[chosen["part"] == SUM, "closes"].iloc[0])
        title = f"{TITLES.get(str(path), path)}\n{subject}: the sum {note}"
        axes.set_title(title, fontsize=8.5 if layout.is_narrow else 10)
    return figure_of(drawn[0])


def _panel(axes: Axes, rows: pd.DataFrame, layout: Layout) -> None:
    """Stack the parts in one bar, and put the whole with its range below."""
    parts = rows[~rows["part"].isin([SUM, WHOLE])]
    left = 0.0
    for index, each in enumerate(rows_of(parts)):
        width = max(0.0, float(each.part_s))
        axes.barh(
            0, width, left=left, height=0.6, edgecolor="white", linewidth=0.5,
            color=STAGE_COLORS[index % len(STAGE_COLORS)],
            hatch=HATCHES[index // len(STAGE_COLORS)],
            label=f"{each.part} {seconds_text(max(0.0, float(each.part_s)))}",
        )  # fmt: skip
        left += width
    whole = rows[rows["part"] == WHOLE].iloc[0]
    axes.barh(1, whole["part_s"], height=0.6, color="none", edgecolor=INK, linewidth=1.2)
    axes.plot(
        [whole["part_s_low"], whole["part_s_high"]], [1, 1], color=INK, linewidth=2.2,
        solid_capstyle="butt",
    )  # fmt: skip
    axes.set_yticks([0, 1], ["parts", "whole"])
    axes.set_ylim(1.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.04 * max(left, float(whole["part_s_high"])))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    axes.set_xlabel("time of one call (linear)")
    axes.legend(
        loc="upper left", bbox_to_anchor=(0, -0.34), ncols=1 if layout.is_narrow else 4,
        fontsize=8, handlelength=1.2, columnspacing=1.0, borderaxespad=0,
    )  # fmt: skip
