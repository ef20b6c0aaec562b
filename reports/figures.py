"""The list of figures, and how each becomes SVG for the page and PNG for a file.

Each figure has the question it answers as its title, a table twin, and two forms of SVG: one for
wide and one for narrow windows. A figure with nothing to show is left out.
"""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import imsave

from fuser.reports import (
    figure_accuracy,
    figure_bandwidth,
    figure_compile,
    figure_heatmap,
    figure_speedup,
    figure_sweep,
    figure_traffic,
)
from fuser.reports.collection import Collection
from fuser.reports.style import GRID, INK, MUTED, NARROW, WIDE, Layout, drawing, new_figure

PNG_DOTS_PER_INCH = 150


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the page."""

    name: str  # of the PNG, and of the anchor in the page
    section: str
    question: str
    reading: str  # one sentence: how to read it
    table: str  # the table that says the same
    draw: Callable[[Collection, Layout], Figure | None]


CHARTS: Sequence[Chart] = (
    Chart(
        "speedup",
        "overview",
        "How many times faster than eager NumPy is each mode?",
        "One row a workload, sorted by the fused ratio at the largest size. A bar is the 95% "
        "interval over processes; one that meets the edge goes on. Hollow marks are left out of "
        "the summaries.",
        "runs",
        figure_speedup.draw,
    ),
    Chart(
        "heatmap",
        "overview",
        "Which mode wins where, how surely, and how long does the work take?",
        "Ratio to eager with half the width of its interval; blue is faster, red slower. Cells "
        "with a star and no colour are left out of the summaries. The last column is eager's time.",
        "runs",
        figure_heatmap.draw,
    ),
    Chart(
        "traffic",
        "traffic",
        "How many bytes does a call move, and how few could it?",
        "Counted from the graph and the schedule, not measured. The bar at the left end is the "
        "least that any implementation must move.",
        "traffic",
        figure_traffic.draw,
    ),
    Chart(
        "bandwidth",
        "traffic",
        "How near does each row come to the speed of this machine's memory?",
        "Least bytes divided by time, against copy and triad measured in the same run. A point "
        "at the line moves memory as fast as a plain copy does. Calls on less than 4 KiB are in "
        "the table alone: they cost more than their memory.",
        "bandwidth",
        figure_bandwidth.draw,
    ),
    Chart(
        "sweep",
        "overhead",
        "What does a call cost when there is little to do, and when does fusing start to pay?",
        "The flat left end of a line is the cost of the call itself; where it rises, memory and "
        "arithmetic take over. Shaded: the 95% interval, of the lines and of the crossing. Of more "
        "than nine workloads the first nine are drawn; the table has all.",
        "break_even",
        figure_sweep.draw,
    ),
    Chart(
        "compile",
        "overhead",
        "What does the first call cost, and where does its time go?",
        "The first call of the fused function at its smallest size, median over processes.",
        "compile",
        figure_compile.draw_stages,
    ),
    Chart(
        "compile_scaling",
        "overhead",
        "Does compile time stay linear as the graph grows?",
        "An exponent of 1 is linear. It is fitted on the upper half of the sizes (dashed). "
        "Shaded: fastest to slowest repetition.",
        "compile_scaling",
        figure_compile.draw_scaling,
    ),
    Chart(
        "accuracy",
        "evidence",
        "How large are the errors?",
        "The largest error of any element in the checked calls, against a float64 reference.",
        "accuracy",
        figure_accuracy.draw_accuracy,
    ),
    Chart(
        "noise",
        "evidence",
        "How large a difference does this machine show between equal things?",
        "Eager timed against itself in the same blocks. Ratios inside the band are called the "
        "same or inconclusive, never faster or slower.",
        "noise",
        figure_accuracy.draw_noise,
    ),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure ready for the page."""

    chart: Chart
    wide_svg: str
    narrow_svg: str
    png: Path


def draw_all(collection: Collection, folder: Path) -> list[Drawn]:
    """Draw every figure that has something to show and write its PNG into a folder.

    Args:
        collection: the tables of a run.
        folder: where `<name>.png` are written; made where missing.

    Returns:
        The figures in the order of `CHARTS`, with their SVG text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with drawing():
        for chart in CHARTS:
            wide = chart.draw(collection, WIDE)
            narrow = chart.draw(collection, NARROW)
            if wide is None or narrow is None:
                continue
            wide_svg = to_svg(wide, f"{chart.name}-wide", chart.question)
            narrow_svg = to_svg(narrow, f"{chart.name}-narrow", chart.question)
            png = folder / f"{chart.name}.png"
            _write_png(wide, chart.question, png)
            drawn.append(Drawn(chart, wide_svg, narrow_svg, png))
    return drawn


def _write_png(figure: Figure, question: str, path: Path) -> None:
    """Write a PNG on white that stands by itself: the question is a strip above the figure."""
    width_in = float(figure.get_size_inches()[0])
    strip = new_figure(Layout("title", width_in, 1), 0.42)
    strip.text(0.01, 0.5, question, va="center", fontsize=12, fontweight="bold")
    image = np.concatenate([_pixels(strip), _pixels(figure)])
    imsave(path, image, dpi=PNG_DOTS_PER_INCH)


def _pixels(figure: Figure) -> npt.NDArray[np.uint8]:
    """Render a figure on white as uint8[height, width, 4]."""
    figure.set_dpi(PNG_DOTS_PER_INCH)
    figure.patch.set_facecolor("white")
    canvas: Any = FigureCanvasAgg(figure)  # untyped in matplotlib
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def to_svg(figure: Figure, name: str, title: str) -> str:
    """Save a figure as SVG that can stand inside a page with others, light or dark.

    Args:
        figure: as a `Chart.draw` gives it.
        name: unique in the page; every id in the SVG starts with it.
        title: read out by screen readers.

    Returns:
        The `<svg>` element: no prolog, no metadata, no outside reference; text, grid and muted
        text take the page's colours. Places are rounded to a hundredth of a point.
    """
    stream = io.StringIO()
    # `savefig` would draw everything twice, once for the layout alone.
    canvas: Any = FigureCanvasSVG(figure)  # untyped in matplotlib
    canvas.print_svg(stream, metadata={"Date": None})
    figure.set_layout_engine("none")  # the places are found; a PNG of it need not search again
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = text.replace("'DejaVu Sans'", "var(--figure-font)")
    wanted = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
    names = {first or second for first, second in wanted}
    text = re.sub(
        r' id="([^"]+)"', lambda found: found.group() if found.group(1) in names else "", text
    )
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d+\.\d\d)\d+", r"\1", tag.group()), text)
    for ink, css in ((INK, "currentColor"), (GRID, "var(--rule)"), (MUTED, "var(--muted)")):
        text = text.replace(ink, css).replace(ink.upper(), css)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    label = title.replace("&", "&amp;").replace('"', "&quot;")
    text = text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    return re.sub(r"\s*\n\s*", "\n", text)
