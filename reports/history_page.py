"""The page of many runs: each row over commits, where it changed, and what got slower."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.ticker import LogLocator, NullFormatter

from fuser.reports.history import Line, Slower, Step
from fuser.reports.page import filled, resource
from fuser.reports.plots import style
from fuser.reports.plots.figures import to_svg

CHARTS = 24
"""Rows that are drawn for each machine: those that changed most; the table has all."""


def page(lines: Sequence[Line], slower: Sequence[Slower], release: str = "") -> str:
    """Fill the template.

    Args:
        lines: as `fuser.reports.history.histories` gives them.
        slower: as `slower_since` gives them.
        release: since when; an empty text leaves that table out.

    Returns:
        One HTML text without any reference that needs a network.
    """
    machines = list(dict.fromkeys(line.machine for line in lines))
    return filled(
        "history.html.j2",
        machines=[_machine(number, name, [each for each in lines if each.machine == name])
                  for number, name in enumerate(machines)],
        slower=[_slower(each) for each in slower], release=release, rows=len(lines),
        style=resource("page.css"),
    )  # fmt: skip


def _machine(number: int, name: str, lines: Sequence[Line]) -> dict[str, Any]:
    """What the template wants of one machine."""
    runs = {point.run: point for line in lines for point in line.points}
    ordered = sorted(runs.values(), key=lambda each: each.created_utc)
    changed = sorted((line for line in lines if line.steps), key=_largest)
    steps = [_step(line, step) for line in changed for step in line.steps]
    return {
        "name": name, "runs": len(runs), "first": ordered[0].created_utc[:10],
        "last": ordered[-1].created_utc[:10], "rows": len(lines),
        "steps": sorted(steps, key=lambda each: each["ratio"]),
        "charts": [(f"{each.cell}, {each.variant}", chart(each, f"{number}-{k}"))
                   for k, each in enumerate(changed[:CHARTS])],
        "left_out": max(0, len(changed) - CHARTS),
        "lines": [_line(line) for line in lines],
    }  # fmt: skip


def _largest(line: Line) -> float:
    """Order rows by their worst step: those that got slower come first."""
    return min(step.ratio for step in line.steps)


def _step(line: Line, step: Step) -> dict[str, Any]:
    return {
        "row": f"{line.cell}, {line.variant}", "ratio": step.ratio, "commit": line.dated(step),
        "text": f"{step.before:.3g} to {step.after:.3g}", "change": change_of(step.ratio),
        "is_slower": step.ratio < 1,
    }  # fmt: skip


def _slower(each: Slower) -> dict[str, str]:
    return {
        "row": f"{each.line.cell}, {each.line.variant}", "machine": each.line.machine,
        "then": f"{each.then:.3g}", "now": f"{each.now:.3g}", "change": change_of(each.ratio),
    }  # fmt: skip


def _line(line: Line) -> dict[str, Any]:
    last = line.points[-1]
    interval = "" if last.low is None or last.high is None else f"{last.low:.3g}-{last.high:.3g}"
    return {
        "cell": line.cell, "variant": line.variant, "runs": len(line.points),
        "first": f"{line.points[0].speedup:.3g}", "last": f"{last.speedup:.3g}",
        "interval": interval, "steps": len(line.steps),
    }  # fmt: skip


def change_of(ratio: float) -> str:
    """Spell a ratio of speeds: `1.25 times as fast`, or `1.25 times as slow` below 1."""
    word = "fast" if ratio >= 1 else "slow"
    return f"{max(ratio, 1 / ratio):.2f} times as {word}"


def chart(line: Line, name: str) -> str:
    """Draw one row over its runs as SVG: points with their intervals, levels between steps.

    Args:
        line: the row.
        name: unique in the page.
    """
    with style.drawing():
        figure = style.new_figure(style.Layout("history", 4.6, 1), 2.0)
        axes = figure.subplots()
        places = range(len(line.points))
        middle = [point.speedup for point in line.points]
        known = [k for k, p in enumerate(line.points) if p.low is not None and p.high is not None]
        axes.vlines(
            known, [line.points[k].low or 0 for k in known],
            [line.points[k].high or 0 for k in known], color=style.KIND_COLORS["fused"], alpha=0.5,
        )  # fmt: skip
        axes.plot(places, middle, "o", markersize=3.5, color=style.KIND_COLORS["fused"])
        bounds = [0, *(step.place for step in line.steps), len(line.points)]
        for first, last in pairwise(bounds):
            level = line.level_at(first)
            axes.hlines(level, first - 0.4, last - 0.6, color=style.INK, linewidth=1.4)
        axes.axhline(1, color=style.GRID, linewidth=1, linestyle="--")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("speed-up over NumPy")
        marks = _marks(len(line.points))
        axes.set_xticks(marks, [_name_of(line, k) for k in marks])
        axes.set_xlabel("commit")
        return to_svg(figure, f"row-{name}", _told(line))


def _told(line: Line) -> str:
    """What the drawing shows, in words."""
    steps = "; ".join(f"{change_of(step.ratio)} at {line.dated(step)}" for step in line.steps)
    return f"{line.cell}, {line.variant}: {steps}"


def _marks(count: int) -> list[int]:
    """Five places of an axis at most: the first, the last, and some between."""
    wanted = min(count, 5)
    return sorted({round(k * (count - 1) / max(1, wanted - 1)) for k in range(wanted)})


def _name_of(line: Line, place: int) -> str:
    point = line.points[place]
    return point.commit[:7] or point.created_utc[5:10]
