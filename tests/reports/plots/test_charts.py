"""The list of charts is complete: names are unique, and every figure module is in it."""

from pathlib import Path

from fuser.reports.plots import charts


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
