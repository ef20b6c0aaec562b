"""The coverage map: every operation, dtype and layout, and how it is held to account."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import above
from fuser.reports.plots.style import GRID, KIND_COLORS, Layout, figure_of, panels

LOOKS = {"timed": KIND_COLORS["fused"], "verified": KIND_COLORS["unfused"]}
TITLES = {"timed": "timed in this run", "verified": "verified by a test", "never": "never (empty)"}
SHORT = {
    "bool": "b", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4",
    "float64": "f8",
}  # fmt: skip
ROW_IN = 0.15
NAME_SIZE_PT = 7.5


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one panel a layout, a row an operation; None where the run has no map."""
    table = collection.tables["coverage"]
    if not len(table):
        return None
    operations = list(dict.fromkeys(table["operation"]))
    dtypes = [name for name in SHORT if (table["dtype"] == name).any()]
    layouts = list(dict.fromkeys(table["layout"]))
    if layout.is_narrow:  # an empty panel is as long as a full one
        known = table[table["proof"] != "never"]["layout"]
        layouts = [name for name in layouts if (known == name).any()]
    beside = 2 if layout.is_narrow else len(layouts)
    height = 0.9 + ROW_IN * len(operations)
    drawn = _grid(layout, len(layouts), beside, height)
    for index, (axes, name) in enumerate(zip(drawn, layouts, strict=True)):
        _panel(axes, table[table["layout"] == name], operations, dtypes)
        axes.set_title(name, fontsize=9)
        first = index % beside == 0
        axes.tick_params(axis="y", length=0, labelsize=NAME_SIZE_PT, labelleft=first)
        axes.set_xlabel("dtype (NumPy's codes)", fontsize=8)
    handles = [
        Patch(facecolor=LOOKS.get(proof, "none"), edgecolor=GRID, label=title)
        for proof, title in TITLES.items()
    ]
    above(figure_of(drawn[0]), handles, 2 if layout.is_narrow else 3)
    return figure_of(drawn[0])


def _grid(layout: Layout, count: int, beside: int, height_in: float) -> list[Axes]:
    """Make the panels; on a telephone two stand beside each other, not one."""
    return panels(Layout("grid", layout.width_in, beside), count, height_in, share_y=True)


def _panel(
    axes: Axes, rows: pd.DataFrame, operations: Sequence[str], dtypes: Sequence[str]
) -> None:
    """Fill the cells of one layout, all of one proof as one path: there are thousands."""
    for proof, color in LOOKS.items():
        chosen = rows[rows["proof"] == proof]
        places = sorted(
            (operations.index(name), dtypes.index(dtype))
            for name, dtype in zip(chosen["operation"], chosen["dtype"], strict=True)
        )
        if places:
            axes.add_patch(PathPatch(_bars(places), facecolor=color, edgecolor="none"))
    axes.set_xlim(-0.5, len(dtypes) - 0.5)
    axes.set_ylim(len(operations) - 0.5, -0.5)
    axes.set_xticks(range(len(dtypes)), [SHORT[name] for name in dtypes], fontsize=NAME_SIZE_PT)
    axes.tick_params(axis="x", rotation=90)
    axes.set_yticks(range(len(operations)), operations)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="y")
    for spine in axes.spines.values():
        spine.set_visible(False)


def _bars(places: Sequence[tuple[int, int]]) -> Path:
    """One path of rectangles; dtypes beside each other are one."""
    vertices: list[tuple[float, float]] = []
    codes: list[np.uint8] = []
    runs: list[list[int]] = []
    for row, column in places:
        if runs and runs[-1][0] == row and runs[-1][2] == column - 1:
            runs[-1][2] = column
        else:
            runs.append([row, column, column])
    for row, first, last in runs:
        left, right, top, bottom = first - 0.45, last + 0.45, row - 0.38, row + 0.38
        vertices += [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(vertices, codes)
