"""tools/compile_times.py: the compile times beside their aims."""

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.tree import ROOT


def tool() -> ModuleType:
    """Import the tool from its file: it is not installed."""
    spec = importlib.util.spec_from_file_location(
        "compile_times", ROOT / "tools" / "compile_times.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compile_times"] = module
    spec.loader.exec_module(module)
    return module


def test_every_figure_is_measured_in_new_processes() -> None:
    """Four positive times and exponents; no claim about this machine's speed."""
    figures = tool().measure(1, (8, 32))
    assert [figure.aim for figure in figures] == [30, 0.2, 1.2, 100]
    cold, long, _, warm = (figure.value for figure in figures)
    assert cold > 0
    assert long > 0
    assert warm > 0
    assert "gelu" in str(figures[0])
    assert ("reached" in str(figures[0])) == (cold <= 30)


def test_the_exponent_is_the_slope_in_logarithms() -> None:
    """Times that grow with the square have exponent 2."""
    assert tool().exponent((1, 2, 4), (3.0, 12.0, 48.0)) == pytest.approx(2)
