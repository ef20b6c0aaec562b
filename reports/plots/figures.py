"""How a chart becomes SVG for the page and PNG for a file.

There are two forms of SVG, one for wide and one for narrow windows. A figure with nothing to show
is left out.
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import imsave

from fuser.reports.collection import Collection
from fuser.reports.plots import charts
from fuser.reports.plots.charts import Chart
from fuser.reports.plots.style import (
    GRID,
    INK,
    MUTED,
    NARROW,
    PAPER,
    WIDE,
    Layout,
    drawing,
    new_figure,
)

PNG_DOTS_PER_INCH = 150


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
        The figures in the order of `charts.CHARTS`, with their SVG text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with drawing():
        for chart in charts.CHARTS:
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
    for ink, css in ((INK, "currentColor"), (GRID, "var(--rule)"), (MUTED, "var(--muted)"),
                     (PAPER, "var(--page)")):
        text = text.replace(ink, css).replace(ink.upper(), css)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    label = title.replace("&", "&amp;").replace('"', "&quot;")
    text = text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    return re.sub(r"\s*\n\s*", "\n", text)
