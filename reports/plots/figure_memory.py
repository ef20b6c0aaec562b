"""The figure of memory held: how much a call needs beside its arguments, mode by mode."""

import math

import pandas as pd
from matplotlib.figure import Figure

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import (
    ROW_HEIGHT_IN,
    dots,
    name_rows,
    steps_apart,
    variant_legend,
    variants_in,
    workload_axis,
)
from fuser.reports.plots.style import Layout, figure_of, log_ticks, panels
from fuser.reports.tables import largest_cells

SHOWN_KINDS = ("eager", "unfused", "fused")
LEAST_ELEMENTS = 1024
"""Of fewer elements what a call holds is Python's own objects; such rows are in the table."""
LEAST = 0.01
"""Bytes an element; less is Python's own objects and no array, and is drawn here."""


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw one row a workload at its largest size; None where nothing was measured."""
    table = collection.tables["memory"]
    rows = largest_cells(table[table["kind"].isin(SHOWN_KINDS)])
    rows = rows[rows["elements"] >= LEAST_ELEMENTS]
    if not len(rows):
        return None
    rows = rows.assign(row=name_rows(rows))
    order = rows.groupby("row")["per_element"].max().sort_values(ascending=False, kind="stable")
    names = [str(name) for name in order.index]
    axes = panels(layout, 1, 1.1 + ROW_HEIGHT_IN * len(names))[0]
    axes.set_xscale("log")
    steps = steps_apart(list(dict.fromkeys(rows["variant"])), height=0.44)
    for (variant, kind), group in rows.groupby(["variant", "kind"], sort=False):
        y = [names.index(row) + steps[str(variant)] for row in group["row"]]
        gap = [math.nan] * len(group)
        held = group["per_element"].clip(lower=LEAST)
        points = pd.DataFrame({"x": held, "y": y, "low": gap, "high": gap})
        dots(axes, points, str(kind), str(variant), collection.peers(), size=5.5)
    shown = rows["per_element"].clip(lower=LEAST)
    axes.set_xlim(shown.min() / 1.5, shown.max() * 1.5)
    workload_axis(axes, names)
    log_ticks(axes.xaxis, lambda value: f"{value:g}")
    whole = "most bytes held at once during a call, per element of the largest input (log)"
    axes.set_xlabel("bytes held per element (log)" if layout.is_narrow else whole)
    variant_legend(figure_of(axes), variants_in(rows), collection.peers(), layout)
    return figure_of(axes)
