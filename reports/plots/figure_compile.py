"""The figures of compile time: first calls by stages, cold and with machine code on disk."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fuser.reports.collection import Collection
from fuser.reports.plots.marks import ROW_HEIGHT_IN, above, name_rows, workload_axis
from fuser.reports.plots.style import INK, MUTED, PAPER, Layout, figure_of, panels, text_box
from fuser.reports.spelling import seconds_text

STAGE_COLORS = {
    "trace": "#009E73", "schedule": "#56B4E9", "bind": "#E69F00", "emit": "#CC79A7",
    "parse": "#D55E00", "llvm": "#0072B2", "disk": "#B8A800", "compile": "#882255",
}  # fmt: skip
"""Okabe and Ito's colours, and one of Tol's: a stage has the same one in every figure."""
STAGE_HATCHES = {"bind": "xxxx", "emit": "....", "compile": "////", "disk": "\\\\\\\\"}
"""Patterns of those that look like a neighbour to people who see two primary colours."""
SHORTER, OTHER = "shorter stages", "the rest, with the run itself"
GREYS = {SHORTER: "#bdbdbd", OTHER: "#8c8c8c"}
MOST_BARS = len(STAGE_COLORS)
WHOLE = "first call"
REST = ("rest_s", "other_s")
"""Columns of the compile table that name no stage."""


def stage_colors(labels: Sequence[str]) -> list[str]:
    """Give each stage its colour; those without one take what the others leave, in order."""
    left = [color for name, color in STAGE_COLORS.items() if name not in labels]
    own = STAGE_COLORS | GREYS
    unknown = [label for label in labels if label not in own]
    taken = dict(zip(unknown, [*left, *[MUTED] * len(unknown)], strict=False))
    return [own.get(label) or taken[label] for label in labels]


def bar_style(label: str, color: str) -> dict[str, Any]:
    """Give the looks of one stage's part of a bar: its own fill, and an edge to its neighbours."""
    style = {"facecolor": color, "edgecolor": PAPER, "linewidth": 0.5, "label": label}
    return {"height": 0.66, "hatch": STAGE_HATCHES.get(label), **style}


def stages_of(table: pd.DataFrame) -> list[str]:
    """Name the stage columns of the compile table that hold anything, `other` last."""
    columns = [name for name in table.columns if name.endswith("_s") and name != "first_call_s"]
    return [name for name in columns if table[name].notna().any()]


def bars_of(rows: pd.DataFrame) -> list[tuple[str, list[float]]]:
    """Give the stages to stack: the longest ones by name in recorded order, the others as one.

    Args:
        rows: of the compile table.

    Returns:
        (label, seconds a row), at most as many as there are colours to tell apart.
    """
    stages = [name for name in stages_of(rows) if name not in REST]
    sums = {name: float(rows[name].sum()) for name in stages}
    named = sorted(stages, key=lambda name: -sums[name])[: MOST_BARS - 2]
    bars = [(name.removesuffix("_s"), name) for name in stages if name in named]
    groups = [(label, [name]) for label, name in bars]
    groups.append((SHORTER, [name for name in stages if name not in named]))
    groups.append((OTHER, [name for name in REST if name in rows]))
    return [
        (label, list(rows[columns].fillna(0.0).sum(axis=1)))
        for label, columns in groups
        if columns and float(rows[columns].fillna(0.0).to_numpy().sum()) > 0
    ]


def smallest_fused(collection: Collection) -> pd.DataFrame:
    """Keep the fused row of each workload's smallest size, where the kernel's own run is least."""
    table = collection.tables["compile"]
    kinds = {each.name: each.kind for each in collection.analysis.record.variants}
    fused = table[table["variant"].map(kinds) == "fused"]
    order = fused.sort_values("elements", kind="stable")
    first = order.groupby(["workload", "dtype"], sort=False).head(1)
    return first.sort_values("first_call_s", ascending=False, kind="stable")


def draw(collection: Collection, layout: Layout) -> Figure | None:
    """Draw the first call as a stacked bar a workload; None where none was recorded."""
    rows = smallest_fused(collection)
    if not len(rows):
        return None
    bars, calls = bars_of(rows), [*rows["first_call_s"]]
    ends = zip(calls, rows["first_call_s_low"], rows["first_call_s_high"], strict=True)
    return stacked(layout, list(name_rows(rows)), bars or [("first call", calls)], list(ends))


def draw_states(collection: Collection, layout: Layout) -> Figure | None:
    """Draw the stages of first calls, cold and from disk; None where not measured."""
    table = collection.tables["first_calls"]
    if not len(table):
        return None
    stages = table[table["stage"] != WHOLE]
    stages = stages.assign(stage_s=_adding_up(table, stages))
    spent = stages.groupby("stage", sort=False)["stage_s"].sum().sort_values(ascending=False)
    longest = [str(each) for each in spent.index if each != "rest"][: MOST_BARS - 1]
    shown = [each for each in dict.fromkeys(stages["stage"]) if each in longest]
    whole = table[table["stage"] == WHOLE].set_index(["workload", "state"])
    named = stages.assign(stage=stages["stage"].where(stages["stage"].isin(shown), SHORTER))
    parts = named.pivot_table("stage_s", ["workload", "state"], "stage", "sum", 0.0)
    bars = [(name, list(parts.loc[whole.index, name])) for name in (*shown, SHORTER)
            if name in parts]  # fmt: skip
    ends = zip(whole["stage_s"], whole["stage_s_low"], whole["stage_s_high"], strict=True)
    return stacked(layout, [f"{name}, {state}" for name, state in whole.index], bars, list(ends))


def stacked(
    layout: Layout, names: Sequence[str], bars: Sequence[tuple[str, Sequence[float]]],
    calls: Sequence[tuple[float, float, float]],
) -> Figure:  # fmt: skip
    """Draw calls as bars of their stages.

    Args:
        layout: wide or narrow.
        names: of the calls.
        bars: a stage's name and its seconds in each call.
        calls: the seconds of each whole call, and the ends of their range or interval.
    """
    axes = panels(layout, 1, 1.2 + 1.1 * ROW_HEIGHT_IN * len(names))[0]
    left = [0.0] * len(names)
    for (label, seconds), color in zip(bars, stage_colors([name for name, _ in bars]), strict=True):
        widths = [1e3 * value for value in seconds]
        axes.barh(range(len(names)), widths, left=left, **bar_style(label, color))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    most = 1.8 * max(1e3 * max(whole for whole, *_ in calls), *left)  # longer ranges run off
    for y, (value, low, high) in enumerate(calls):
        reach = min(high * 1e3, most) if high == high else 0.0
        axes.plot([low * 1e3, reach], [y, y], color=INK, linewidth=1.4, solid_capstyle="butt")
        axes.annotate(
            seconds_text(value), (min(max(value * 1e3, left[y], reach), most), y), xytext=(5, 0),
            textcoords="offset points", va="center", fontsize=8.5, bbox=text_box(),
        )  # fmt: skip
    workload_axis(axes, names)
    longest = max(*left, *(1e3 * each for call in calls for each in call if each == each))
    axes.set_xlim(0, most if longest > most else 1.18 * longest)
    axes.set_xlabel("first call, milliseconds (left is sooner)")
    above(figure_of(axes), axes.get_legend_handles_labels()[0], 3 if layout.is_narrow else 7)
    return figure_of(axes)


def _adding_up(table: pd.DataFrame, stages: pd.DataFrame) -> "pd.Series[float]":
    """Scale the stages of each call so that they fill its bar: medians do not add up to a median.

    The table has them as they are.
    """
    keys = ["workload", "state"]
    whole = table[table["stage"] == WHOLE].set_index(keys)["stage_s"]
    known = pd.Series([whole[key] for key in zip(*(stages[k] for k in keys), strict=True)],
                      index=stages.index, dtype=float)  # fmt: skip
    sums = stages.groupby(keys)["stage_s"].transform("sum")
    scaled: pd.Series[float] = stages["stage_s"] * (known / sums.where(sums > 0, 1.0))
    return scaled
