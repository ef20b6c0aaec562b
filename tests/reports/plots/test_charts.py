"""The list of charts is complete: names are unique, and every figure module is in it."""

from pathlib import Path

import pandas as pd

from fuser.reports.plots import charts, figure_waterfall


def test_names_are_unique_and_sections_are_together() -> None:
    """A name is a file and an anchor; the page shows a section's charts one after another."""
    names = [chart.name for chart in charts.CHARTS]
    assert len(names) == len(set(names))
    sections = [chart.section for chart in charts.CHARTS]
    assert sections == sorted(sections, key=sections.index)


def test_no_figure_module_is_forgotten() -> None:
    """Each `figure_*.py` draws at least one chart."""
    folder = Path(charts.__file__).parent
    modules = {f"fuser.reports.plots.{path.stem}" for path in folder.glob("figure_*.py")}
    assert modules == {chart.draw.__module__ for chart in charts.CHARTS}


def test_readings_are_sentences() -> None:
    """One or more sentences say how to read each."""
    assert all(chart.reading.endswith(".") for chart in charts.CHARTS)


def test_a_waterfall_ends_with_what_is_moved() -> None:
    """What NumPy's functions move between kernels is not said to be planned."""
    columns = ["row", "kind", "value", "of_least", "moved_bytes", "meaning"]
    rows = [
        ("kernels", "stored", "sum#1 (a.py:1)", 0.5, 8, "rows are long"),
        ("sorted", "graph-break", "np.sort", 0.5, 8, "no fused form"),
    ]
    names, bars = figure_waterfall._steps(pd.DataFrame(rows, columns=columns))
    assert names == [
        "kernels", "+ sum#1 (a.py:1)", "= planned", "sorted", "+ np.sort", "= in all",
    ]  # fmt: skip
    assert [start + width for start, width, *_ in bars] == [1.0, 1.5, 1.5] * 2
