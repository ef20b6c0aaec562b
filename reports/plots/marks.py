"""Marks that several figures share: one row a workload, a dot with its interval, a legend."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fuser.reports.plots.style import GRID, INK, Layout, color_of, marker_of

SIZE_TITLES = {"S": "Small", "M": "Medium", "L": "Large", "sweep": "Sweep"}
ROW_HEIGHT_IN = 0.25


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """Walk over the rows, whose columns are attributes."""
    return iter(table.itertuples())


def name_rows(table: pd.DataFrame) -> "pd.Series[str]":
    """Name each row by its workload, and by its dtype too where a workload has several."""
    several = table.groupby("workload")["dtype"].transform("nunique") > 1
    return table["workload"].where(~several, table["workload"] + " " + table["dtype"])


def size_title(table: pd.DataFrame, size: str, layout: Layout) -> str:
    """Title a panel by its size class and the range of elements in it, short where it is narrow."""
    elements = table["elements"]
    low, high = f"{elements.min():,.0f}", f"{elements.max():,.0f}"
    span = low if low == high else f"{low} to {high}"
    return f"{SIZE_TITLES.get(size, size)}: {span}{'' if layout.is_narrow else ' elements'}"


def intervals(
    axes: Axes, at: Any, low: Any, high: Any, *, upright: bool = False, **looks: Any
) -> None:
    """Draw a line from low to high at each place; none where an end is NaN.

    One path with gaps: a path for each interval would make the page many times larger.
    """
    ends = np.column_stack([low, high, [math.nan] * len(at)]).ravel()
    places = np.repeat(at, 3)
    axes.plot(*((places, ends) if upright else (ends, places)), **looks)


def dots(
    axes: Axes, points: pd.DataFrame, kind: str, name: str, peers: list[str], hollow: bool = False,
    size: float = 6.5,
) -> None:  # fmt: skip
    """Draw the values of one variant with their intervals; hollow where they do not count.

    Args:
        axes: where to draw.
        points: columns `x`, `y`, `low`, `high`; NaN ends where there is no interval.
        kind: of the variant.
        name: of the variant.
        peers: names of all peers, which share a palette.
        hollow: whether the points are left out of summaries.
        size: of the marks, points.
    """
    color = color_of(kind, name, peers)
    intervals(
        axes, points["y"], points["low"], points["high"], color=color,
        linewidth=min(2.2, size / 3), solid_capstyle="butt", zorder=2,
    )  # fmt: skip
    axes.plot(
        points["x"], points["y"], marker=marker_of(kind, name, peers), color=color, markersize=size,
        markerfacecolor="none" if hollow else color, markeredgewidth=1.3, linestyle="none",
        zorder=3,
    )  # fmt: skip


def workload_axis(axes: Axes, names: Sequence[str]) -> None:
    """Put one name a row, the first on top, with a light line to follow."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def reference_line(axes: Axes, x: float) -> None:
    """Draw the line at which nothing is gained."""
    axes.axvline(x, color=INK, linewidth=1.2, zorder=1)


def variant_legend(
    figure: Figure, variants: Sequence[tuple[str, str]], peers: list[str], layout: Layout,
    extra: Sequence[Line2D] = (), lines: bool = False,
) -> None:  # fmt: skip
    """Put a legend of (name, kind) pairs above the panels."""
    handles = [
        Line2D(
            [], [], label=name, color=color_of(kind, name, peers), markersize=6.5,
            marker=marker_of(kind, name, peers), linestyle="-" if lines else "none",
        )
        for name, kind in variants
    ]  # fmt: skip
    above(figure, [*handles, *extra], 3 if layout.is_narrow else 6)


def above(figure: Figure, handles: Sequence[Artist], most: int) -> None:
    """Put a legend above the panels, in rows of nearly the same length.

    Args:
        figure: of the panels.
        handles: the entries, which are labelled.
        most: how many entries there is room for in a row.
    """
    rows = -(-len(handles) // most)
    figure.legend(
        handles=list(handles), loc="outside upper left", ncols=-(-len(handles) // max(rows, 1)),
        handletextpad=0.5, columnspacing=1.2, borderpad=0.2,
    )  # fmt: skip


def steps_apart(names: Sequence[str], height: float | None = None) -> dict[str, float]:
    """Give each name its place in a row, so that equal values do not hide one another.

    Args:
        names: from the top of the row to its bottom.
        height: of them all, as a share of the row's; many take more than few.
    """
    height = (0.5 if len(names) < 4 else 0.7) if height is None else height
    step = min(0.25, height / max(1, len(names) - 1))
    return {name: step * (k - (len(names) - 1) / 2) for k, name in enumerate(names)}


def row_height_in(marks: int) -> float:
    """Give the height of a row that holds so many marks above one another."""
    return max(ROW_HEIGHT_IN, 0.085 * marks)


def hollow_handle(text: str) -> Line2D:
    """Make the legend entry of rows that do not count."""
    return Line2D(
        [], [], label=text, color=INK, marker="o", markerfacecolor="none", linestyle="none"
    )


def variants_in(table: pd.DataFrame) -> list[tuple[str, str]]:
    """List the (name, kind) pairs of a table in its order."""
    pairs = table[["variant", "kind"]].drop_duplicates()
    return list(zip(pairs["variant"], pairs["kind"], strict=True))
