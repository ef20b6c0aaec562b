"""tools/compile_times.py: the compile times beside their aims."""

import json
from pathlib import Path

import pytest

from tests.tree import ROOT, tool


def test_every_figure_is_measured_in_new_processes() -> None:
    """Positive times; no claim about this machine's speed."""
    figures = tool("compile_times").measure(1, (8, 32))
    assert [figure.aim for figure in figures] == [30, 0.2, 1.2, 100, 30]
    cold, long, _, warm, first_fuse = (figure.value for figure in figures)
    assert cold > 0
    assert long > 0
    assert warm > 0
    assert first_fuse > 0
    assert "gelu" in str(figures[0])
    assert ("reached" in str(figures[0])) == (cold <= 30)


def test_two_checkouts_are_timed_in_turns() -> None:
    """Every figure of both, once the caches are filled; this checkout stands for both."""
    found = tool("compile_times").beside(ROOT, 1, longest=16)
    assert {"import", "gelu, cold", "16 operations"} <= found.keys()
    for seconds in found.values():
        assert [len(seconds[side]) for side in ("new", "old")] == [1, 1]
        assert min(*seconds["new"], *seconds["old"]) > 0


def test_the_exponent_is_the_slope_in_logarithms() -> None:
    """Times that grow with the square have exponent 2."""
    assert tool("compile_times").exponent((1, 2, 4), (3.0, 12.0, 48.0)) == pytest.approx(2)


def test_figures_are_kept_with_the_machine(tmp_path: Path) -> None:
    """As they were measured, and what NumPy took."""
    tools = tool("compile_times")
    tools.keep(tmp_path / "compile.json", [tools.Figure("gelu, cold", 29.5, 30, "ms")], 0.06)
    kept = json.loads((tmp_path / "compile.json").read_text())
    assert kept["figures"] == [{"name": "gelu, cold", "value": 29.5, "aim": 30, "unit": "ms"}]
    assert kept["import_numpy_s"] == 0.06
    assert kept["machine"]["cpu"]
