"""The heat map: every workload and variant at once, ratio and absolute time together."""

import math
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fuser.reports.collection import Collection
from fuser.reports.plots.figure_speedup import sorted_names, speedup_rows
from fuser.reports.plots.marks import name_rows, rows_of, size_title
from fuser.reports.plots.style import (
    GRID,
    INK,
    MUTED,
    Layout,
    figure_of,
    panels,
)
from fuser.reports.spelling import ratio_text, seconds_text
from fuser.reports.tables import SIZE_ORDER
from fuser.reports.verdicts import Verdict

PALETTE = "RdBu"  # red is slower, blue faster
MOST_COLUMNS = {"wide": 9, "narrow": 3}
"""Variants of a panel that have room for their numbers, by layout."""
SURE = frozenset({Verdict.FASTER, Verdict.SLOWER, Verdict.SAME})
"""Verdicts that fill a cell; others outline it."""
LEAST_SHADE = 0.78
"""Where on the palette an outline is seen on white and on black."""
FEW_COLUMNS = 4
"""Up to so many, two panels stand beside each other on a desk."""


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one panel a size; None where nothing has a ratio."""
    rows = speedup_rows(collection)
    if not len(rows):
        return None
    names = sorted_names(rows)
    variants = list(dict.fromkeys(rows["variant"]))
    sizes = [size for size in SIZE_ORDER if (rows["size"] == size).any()]
    # side by side where a few columns fit, else below one another
    most = MOST_COLUMNS[layout.name]
    chunks = [variants[k : k + most] for k in range(0, len(variants), most)]
    shown = [(size, chunk) for size in sizes for chunk in chunks]
    beside = layout.columns if len(variants) <= FEW_COLUMNS else 1
    height = 0.8 + (0.4 if layout.is_narrow else 0.3) * len(names)
    drawn = panels(layout, len(shown), height, share_y=beside > 1, columns=beside)
    limit = max(2.0, *(max(ratio, 1 / ratio) for ratio in rows["speedup"]))
    norm = LogNorm(1 / limit, limit)
    runs = collection.tables["runs"]
    eager = runs[runs["kind"] == "eager"]
    eager = eager.assign(row=name_rows(eager))
    for index, (axes, (size, chunk)) in enumerate(zip(drawn, shown, strict=True)):
        sized = rows[rows["size"] == size]
        _cells(axes, sized[sized["variant"].isin(chunk)], names, chunk, norm, layout)
        compared = (runs["size"] == size) & ~runs["kind"].isin(["eager", "into"])
        untimed = runs[compared & runs["speedup"].isna()]
        _untimed(axes, untimed, names, chunk)
        _eager_column(axes, eager[eager["size"] == size], names, len(chunk))
        axes.set_title(size_title(sized, size, layout), pad=32)
        axes.set_xticks(range(len(chunk) + 1), [*chunk, "eager\ntakes"])
        axes.tick_params(
            axis="x", top=True, labeltop=True, bottom=False, labelbottom=False, length=0
        )
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", length=0, labelleft=index % beside == 0)
        axes.set_xlim(-0.5, len(chunk) + 0.5)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return figure_of(drawn[0])


def _cells(
    axes: Axes, rows: pd.DataFrame, names: list[str], variants: list[str], norm: LogNorm,
    layout: Layout,
) -> None:  # fmt: skip
    """Fill one rectangle a row and variant, with its ratio and half the interval's width."""
    colors: Colormap = mpl.colormaps[PALETTE]
    for each in rows_of(rows):
        x, y = variants.index(str(each.variant)), names.index(str(each.row))
        ratio = float(each.speedup)
        place = 0.08 + 0.84 * float(norm(ratio))
        shade = colors(place)
        ink = "#111111" if _luminance(shade) > 0.38 else "#ffffff"
        look: dict[str, Any] = {"facecolor": shade, "edgecolor": "none"}
        if each.verdict not in SURE:  # the colour's full strength would claim what nobody knows
            side = max(LEAST_SHADE, place) if ratio >= 1 else min(1 - LEAST_SHADE, place)
            look = {"facecolor": "none", "edgecolor": colors(side), "linewidth": 1.4}
            ink = INK
        if each.label:  # an outline alone: it does not count
            look = {"facecolor": "none", "edgecolor": GRID, "linestyle": (0, (3, 2))}
            ink = MUTED
        axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, **look))
        text = _cell_text(ratio, each.speedup_low, each.speedup_high, str(each.label))
        if layout.is_narrow:
            text = text.replace(" ", "\n")
        axes.text(x, y, text, ha="center", va="center", fontsize=8.5, color=ink, linespacing=1.1)


def _untimed(axes: Axes, runs: pd.DataFrame, names: list[str], variants: list[str]) -> None:
    """Say in the empty places why there is no ratio."""
    for row, variant, label in zip(name_rows(runs), runs["variant"], runs["label"], strict=True):
        if row in names and variant in variants:
            axes.text(
                variants.index(variant), names.index(row), str(label).replace(" ", "\n", 1),
                ha="center", va="center", fontsize=8, color=MUTED, fontstyle="italic",
            )  # fmt: skip


def _cell_text(ratio: float, low: float, high: float, label: str) -> str:
    """Spell the ratio with half the width of its interval, as `12.2x ±1%`."""
    if label or math.isnan(low) or math.isnan(high):
        return ratio_text(ratio) + ("*" if label else "")
    half = max(1, round(50 * (high - low) / ratio))
    return f"{ratio_text(ratio)} ±{half}%" if half <= 99 else f"{ratio_text(ratio)} ±>99%"


def _eager_column(axes: Axes, eager: pd.DataFrame, names: list[str], x: int) -> None:
    """Write the absolute time of the reference at the right of each row."""
    for row, seconds in zip(eager["row"], eager["call_s"], strict=True):
        if row in names and not math.isnan(seconds):
            axes.text(
                x,
                names.index(row),
                seconds_text(seconds),
                ha="center",
                va="center",
                fontsize=8.5,
                color=MUTED,
            )


def _luminance(color: tuple[float, float, float, float]) -> float:
    """Relative luminance of an sRGB colour, 0 to 1 (WCAG 2.1)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
