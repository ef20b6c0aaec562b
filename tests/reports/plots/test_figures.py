"""Every figure has something on it, stands by itself, and fits a page with the others."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from fuser.reports.analysis import analyse
from fuser.reports.collection import COMPARED, TABLES, Collection, collect
from fuser.reports.plots import (
    figure_accuracy,
    figure_compile,
    figure_heatmap,
    figures,
    style,
)
from fuser.reports.plots.charts import CHARTS, Chart
from fuser.reports.plots.figures import Drawn
from fuser.reports.record import Variant
from fuser.reports.spelling import bytes_text, count_text, ratio_text, seconds_text
from tests.reports import synthetic
from tests.reports.conftest import Rendered

UNITS = r"log|ulp|percent|milliseconds|linear|multiple|dtype"


@pytest.fixture(scope="module")
def collection(rendered: Rendered) -> Collection:
    """A record with a few workloads that shows everything that can go wrong."""
    return rendered.collection


@pytest.fixture(scope="module")
def drawn(rendered: Rendered) -> Sequence[Drawn]:
    """All figures, drawn once."""
    return rendered.drawn


def test_every_chart_is_drawn(drawn: Sequence[Drawn]) -> None:
    """A full record leaves no figure out."""
    assert [each.chart.name for each in drawn] == [chart.name for chart in CHARTS]


def test_pngs_are_large_and_not_blank(drawn: Sequence[Drawn]) -> None:
    """Each PNG has a title strip and marks below it, on white."""
    for each in drawn:
        pixels = imread(each.png)[..., :3]
        assert pixels.shape[1] == round(style.WIDE.width_in * figures.PNG_DOTS_PER_INCH)
        strip, rest = pixels[:63], pixels[63:]
        assert (strip < 0.5).any(), f"{each.chart.name}: no title"
        assert np.mean(np.any(rest < 0.95, axis=-1)) > 0.01, f"{each.chart.name}: blank"
        assert np.all(pixels[-3:, :3] == 1.0), f"{each.chart.name}: not on white"


def test_svgs_stand_in_one_page(drawn: Sequence[Drawn]) -> None:
    """No id occurs twice, no reference leads outside or nowhere, every text is text."""
    page = "".join(each.wide_svg + each.narrow_svg for each in drawn)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page)
    assert {first or second for first, second in targets} <= set(ids)
    assert not re.search(r"https?:|xmlns|<metadata|<!DOCTYPE|<image", page)
    for each in drawn:
        for svg in (each.wide_svg, each.narrow_svg):
            assert svg.count("<text") > 5
            assert "currentColor" in svg
            assert style.INK not in svg
            assert f'aria-label="{each.chart.question}"'.replace("'", "'") in svg


def test_axes_have_units(collection: Collection) -> None:
    """Every figure with axes says on them what is shown and in which unit or scale."""
    for chart in CHARTS:
        if chart.name == "heatmap":
            continue
        with style.drawing():
            figure = chart.draw(collection, style.WIDE)
        assert figure is not None
        for axes in figure.axes:
            label = axes.get_xlabel()
            assert re.search(UNITS, label), f"{chart.name}: {label!r}"
            if axes.get_xscale() == "log":
                assert "log" in label


def test_charts_name_a_question_and_a_table() -> None:
    """The title is a question; the twin exists."""
    for chart in CHARTS:
        assert chart.question.endswith("?")
        assert chart.table in {**TABLES, **COMPARED}
        assert chart.section in ("overview", "traffic", "overhead", "compare", "evidence")


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_an_empty_record_has_no_figure(chart: Chart) -> None:
    """Nothing to show is None, not an empty frame and not an error."""
    empty = collect(analyse(synthetic.empty()))
    assert chart.draw(empty, style.WIDE) is None


def test_drawing_leaves_matplotlib_as_it_was(collection: Collection) -> None:
    """The caller's settings and pyplot's figures are not touched."""
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with style.drawing():
        CHARTS[0].draw(collection, style.NARROW)
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.2e-7, "120 ns"), (9.99e-7, "999 ns"), (1e-6, "1 µs"), (0.0159, "15.9 ms"), (2.0, "2 s")],
)
def test_times_are_spelled_in_the_unit_that_fits(seconds: float, text: str) -> None:
    """Three digits and a unit."""
    assert seconds_text(seconds) == text


def test_sizes_and_counts_are_spelled_briefly() -> None:
    """Binary units for bytes, decimal ones for elements."""
    assert bytes_text(48 << 10) == "48 KiB"
    assert bytes_text(192 << 20) == "192 MiB"
    assert count_text(4096) == "4.1 k"
    assert count_text(1) == "1"
    assert ratio_text(12.217).startswith("12.2")
    assert ratio_text(0.998).startswith("1.00")


def test_many_sweeps_are_capped() -> None:
    """Nine panels of twelve swept workloads: the page stays small, the table is whole."""
    from fuser.reports.plots import figure_sweep

    names = [f"axpy_{index}" for index in range(12)]
    axpy = next(each for each in synthetic.WORKLOADS if each.name == "axpy")
    record = synthetic.record(processes=2, blocks=2, workloads=[axpy])
    cells = [
        replace(cell, id=cell.id.replace("axpy", name), workload=name)
        for name in names
        for cell in record.cells
    ]
    many = collect(analyse(replace(record, cells=cells)))
    with style.drawing():
        figure = figure_sweep.draw(many, style.WIDE)
    assert figure is not None
    assert len(figure.axes) == figure_sweep.MOST_PANELS
    assert many.tables["break_even"]["workload"].nunique() == 12


def test_no_right_result_lies_beyond_what_is_admitted() -> None:
    """Errors and bounds are those of one size: what is admitted grows with the terms of a sum."""
    rows = pd.DataFrame({
        "row": ["sum"] * 4 + ["axpy"], "elements": [16, 16, 4096, 4096, 16],
        "max_error_ulp": [4.0, 2.0, 27.0, 3.0, 1.0], "tolerance": [19.0, 19.0, 79.0, 79.0, 16.0],
    })
    kept = figure_accuracy._nearest_to_wrong(rows)
    assert list(kept["elements"]) == [4096, 4096, 16]
    assert (kept["max_error_ulp"] <= kept["tolerance"]).all()


def test_stages_fill_the_bar_of_their_call() -> None:
    """Medians of the parts do not add up to the median of the whole."""
    table = pd.DataFrame({
        "workload": ["axpy"] * 3, "state": ["cold"] * 3, "stage": ["first call", "trace", "llvm"],
        "stage_s": [16e-3, 2e-3, 6e-3],
    })
    found = figure_compile._adding_up(table, table[table["stage"] != "first call"])
    assert list(found) == pytest.approx([4e-3, 12e-3])


def test_a_stage_has_one_colour_in_every_figure() -> None:
    """Whatever stands beside it; unknown stages take colours that are free."""
    own = figure_compile.STAGE_COLORS
    assert figure_compile.stage_colors(["trace", "llvm"]) == [own["trace"], own["llvm"]]
    labels = ["trace", "nvrtc", "load", "llvm", figure_compile.SHORTER]
    found = figure_compile.stage_colors(labels)
    assert (found[0], found[3]) == (own["trace"], own["llvm"])
    assert len(set(found)) == len(labels)


def test_stages_differ_in_more_than_hue() -> None:
    """Those of like brightness and hue to people who see two primary colours have a pattern."""
    assert set(figure_compile.STAGE_COLORS) >= set(figure_compile.STAGE_HATCHES)
    looks = [
        figure_compile.bar_style(label, color)
        for label, color in figure_compile.STAGE_COLORS.items()
    ]
    assert len({look["facecolor"] for look in looks}) == len(looks)
    patterns = [look["hatch"] for look in looks if look["hatch"]]
    assert len(set(patterns)) == len(patterns) >= 4
    assert all(look["edgecolor"] == style.PAPER for look in looks)


def test_two_variants_of_a_kind_look_different(collection: Collection) -> None:
    """A third party's fuser beside ours is drawn with the peers' colours and marks."""
    variants = [*collection.analysis.record.variants, Variant("theirs", "fused", "another")]
    record = replace(collection.analysis.record, variants=variants)
    both = replace(collection, analysis=replace(collection.analysis, record=record))
    assert "theirs" in both.peers()
    assert "fused" not in both.peers()
    for look in (style.color_of, style.marker_of):
        assert look("fused", "theirs", both.peers()) != look("fused", "fused", both.peers())


def test_texts_on_lines_stand_on_the_page(drawn: Sequence[Drawn]) -> None:
    """Their boxes have the page's colour, light or dark."""
    traffic = next(each for each in drawn if each.chart.name == "traffic")
    assert "var(--page)" in traffic.wide_svg
    assert not any(style.PAPER in each.wide_svg for each in drawn)


def test_every_variant_that_overtakes_eager_has_its_crossing_drawn() -> None:
    """Of fused it is said why there is none; bands wider than a factor of ten are left away."""
    import pandas as pd
    from matplotlib.figure import Figure

    from fuser.reports.plots import figure_sweep

    rows = pd.DataFrame({
        "variant": ["fused", "jax", "numba"], "kind": ["fused", "peer", "peer"],
        "crossing_elements": [float("nan"), 2e5, 1e3],
        "crossing_elements_low": [float("nan"), 1e5, float("nan")],
        "crossing_elements_high": [float("nan"), 4e5, float("nan")],
        "note": ["faster at every size measured", "", ""],
    })
    axes = Figure().subplots()
    figure_sweep._crossings(axes, rows, ["jax", "numba"])
    assert [each.get_text() for each in axes.texts] == [
        "jax: faster from 200 k [100 k, 400 k]", "numba: faster from 1 k",
        "fused: faster at every size measured",
    ]
    assert len(axes.lines) == 2
    panel = pd.DataFrame({
        "variant": "jax", "kind": "peer", "elements": [1, 10, 100], "call_s": [1.0, 1.0, 1.0],
        "call_s_low": [0.9, 0.9, 0.1], "call_s_high": [1.1, 1.1, 9.0],
    })
    axes = Figure().subplots()
    figure_sweep._lines(axes, panel, ["jax"])
    filled, hollow = axes.lines[1:]
    assert [len(filled.get_xdata()), len(hollow.get_xdata())] == [2, 1]  # type: ignore[arg-type]
    assert hollow.get_markerfacecolor() == "none"


def test_the_heat_map_fills_what_is_sure_alone() -> None:
    """A cell without a verdict, as of one process, is outlined in the colour of its side."""
    from matplotlib.patches import Rectangle

    for processes, filled in ((3, True), (1, False)):
        found = collect(analyse(synthetic.record(processes=processes, blocks=4)))
        rows = figure_heatmap.speedup_rows(found)
        sure = rows[(rows["label"] == "") & rows["verdict"].isin([*figure_heatmap.SURE])]
        assert bool(len(sure)) == filled
        with style.drawing():
            figure = figure_heatmap.draw(found, style.WIDE)
        assert figure is not None
        cells = [each for axes in figure.axes for each in axes.patches
                 if isinstance(each, Rectangle)]  # fmt: skip
        assert sum(each.get_facecolor()[3] > 0 for each in cells) == len(sure)
        assert len(cells) == len(rows)
