"""How every figure looks: sizes, colours, number formats, and drawing without a display.

Colours are the palette of Okabe and Ito ("Color universal design", 2008), which people with any
common colour vision tell apart; each variant also has its own marker. The heat map uses
ColorBrewer's RdBu, safe for red-green blindness.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from fuser.reports.spelling import bytes_text

INK = "#1f2329"  # text and axes; becomes the page's own text colour in an inlined SVG
GRID = "#c9ced6"  # grid lines; becomes the page's own rule colour
MUTED = "#6b7280"  # secondary text; becomes the page's own muted colour
PAPER = "#fefefe"  # behind text on lines; becomes the page's own background

KIND_COLORS = {
    "eager": "#8c8c8c",
    "fallback": "#E69F00",
    "unfused": "#56B4E9",
    "fused": "#009E73",
    "aa": "#8c8c8c",
}
PEER_COLORS = ("#D55E00", "#CC79A7", "#0072B2", "#B8A800")
KIND_MARKERS = {"eager": "s", "fallback": "v", "unfused": "D", "fused": "o", "aa": "x"}
PEER_MARKERS = ("^", "P", "X", "<")


@dataclass(frozen=True, slots=True)
class Layout:
    """The two forms of each figure: beside each other on a desk, stacked on a telephone."""

    name: str
    width_in: float
    columns: int  # panels beside each other

    @property
    def is_narrow(self) -> bool:
        """Whether labels must be short and panels stacked."""
        return self.columns == 1


WIDE = Layout("wide", 9.6, 2)
NARROW = Layout("narrow", 4.1, 1)

_SETTINGS: Any = {  # matplotlib types the names, which differ from version to version
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # one name: matplotlib looks every name up for every text
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "svg.hashsalt": "fuser-bench",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the settings while a figure is drawn and saved; the caller's own stay as they are."""
    with mpl.rc_context(_SETTINGS):
        yield


def new_figure(layout: Layout, height_in: float) -> Figure:
    """Make a figure on the Agg canvas, without pyplot's global state."""
    figure = Figure(figsize=(layout.width_in, height_in), layout="constrained")
    engine: Any = figure.get_layout_engine()  # its `set` is untyped in matplotlib
    engine.set(w_pad=0.07, h_pad=0.06)  # room for the first letters of long names
    FigureCanvasAgg(figure)
    return figure


def panels(
    layout: Layout, count: int, height_in: float, share_y: bool = False, columns: int | None = None
) -> list[Axes]:
    """Make `count` panels of a height each, as many beside each other as the layout has room for.

    Args:
        layout: wide or narrow.
        count: of panels, at least 1.
        height_in: of each panel, inches.
        share_y: whether panels beside each other share their y axis.
        columns: how many fit beside each other in a wide layout; None takes the layout's.

    Raises:
        ValueError: `count` is less than 1.
    """
    if count < 1:
        raise ValueError(f"panels: found {count}, expected at least 1")
    beside = layout.columns if layout.is_narrow or columns is None else columns
    columns = min(beside, count)
    rows = -(-count // columns)
    figure = new_figure(layout, rows * height_in)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share_y)
    axes: list[Axes] = list(grid.flat)
    for spare in axes[count:]:
        spare.remove()
    return axes[:count]


def figure_of(axes: Axes) -> Figure:
    """Give the figure that an axes stands in."""
    figure = axes.get_figure()
    if not isinstance(figure, Figure):
        raise ValueError("the axes stands in no figure of its own")
    return figure


def text_box() -> dict[str, Any]:
    """Give what keeps the lines of a grid from striking a text through."""
    return {"boxstyle": "square,pad=0.12", "facecolor": PAPER, "edgecolor": "none"}


def color_of(kind: str, name: str, peers: list[str]) -> str:
    """Give a variant's colour; peers take theirs in the order in which they are listed."""
    if kind in KIND_COLORS and name not in peers:
        return KIND_COLORS[kind]
    return PEER_COLORS[peers.index(name) % len(PEER_COLORS)] if name in peers else PEER_COLORS[0]


def marker_of(kind: str, name: str, peers: list[str]) -> str:
    """Give a variant's marker, so that colour is never the only difference."""
    if kind in KIND_MARKERS and name not in peers:
        return KIND_MARKERS[kind]
    return PEER_MARKERS[peers.index(name) % len(PEER_MARKERS)] if name in peers else "^"


def ratio_tick(ratio: float) -> str:
    """Spell a ratio on an axis: `0.1x`, `1x`, `20x`, with a multiplication sign."""
    return f"{ratio:g}\N{MULTIPLICATION SIGN}"


def log_ticks(axis: Axis, formatter: Callable[[float], str]) -> None:
    """Give a logarithmic axis, whose limits are set, few ticks labelled as a person says them."""
    is_short = axis is axis.axes.xaxis and figure_of(axis.axes).get_figwidth() <= NARROW.width_in
    axis.set_major_formatter(FuncFormatter(lambda value, _: formatter(value)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(NullLocator())
    low, high = sorted(axis.get_view_interval())
    if formatter is bytes_text:
        axis.set_major_locator(LogLocator(base=32, numticks=5 if is_short else 8))
    elif low > 0 and high / low < 4:
        axis.set_major_locator(MaxNLocator(4 if is_short else 5, steps=[1, 2, 5, 10]))
    elif low > 0 and high / low < 30:
        axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    elif low > 0 and high / low < (100 if is_short else 1000):
        axis.set_major_locator(LogLocator(base=10, subs=(1.0, 3.0)))
    else:
        axis.set_major_locator(LogLocator(base=10, numticks=4 if is_short else 6))
