"""The flame graph of a first call: its phases over time, each under the one that it is part of."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fuser.reports.collection import Collection
from fuser.reports.plots.figure_compile import STAGE_COLORS, STAGE_HATCHES
from fuser.reports.plots.marks import rows_of
from fuser.reports.plots.style import GRID, INK, Layout, figure_of, panels, text_box
from fuser.reports.spelling import seconds_text

OTHERS = "#bdbdbd"
LETTER_IN = 0.075
"""Width of a letter of a label, about; a label that is wider than its phase is left out."""
ROW_IN = 0.4


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one bar a phase, the call's own level on top; None where no trace was kept."""
    table = collection.tables["phases"]
    if not len(table):
        return None
    levels = int(table["level"].max()) + 1
    axes = panels(layout, 1, 0.9 + ROW_IN * levels)[0]
    whole_s = float((table["start_s"] + table["elapsed_s"]).max())
    width_in = layout.width_in - 0.6
    for each in rows_of(table):
        color = STAGE_COLORS.get(str(each.phase), OTHERS)
        axes.barh(
            each.level, each.elapsed_s, left=each.start_s, height=0.92, color=color,
            hatch=STAGE_HATCHES.get(str(each.phase)), edgecolor="white", linewidth=0.5,
        )  # fmt: skip
        _label(axes, each, each.elapsed_s / whole_s * width_in)
    axes.set_ylim(levels - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_xlim(0, whole_s)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(4 if layout.is_narrow else 8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: seconds_text(seconds)))
    axes.set_xlabel("time since the call began (linear)")
    axes.grid(color=GRID, axis="x")
    return figure_of(axes)


def _label(axes: Axes, phase: Any, room_in: float) -> None:
    """Name a phase, with its time where there is room; nothing where there is none."""
    name = str(phase.phase)
    for text in (f"{name} {seconds_text(phase.elapsed_s)}", name):
        if LETTER_IN * len(text) < room_in:
            axes.text(
                phase.start_s + phase.elapsed_s / 2, phase.level, text, ha="center", va="center",
                fontsize=8.5, color=INK, bbox=text_box(),
            )  # fmt: skip
            return
