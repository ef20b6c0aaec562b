"""The coefficients in the tables are those that tools/elementary_fits.py finds."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fuser.backends.cpu.elementary import exponential, hyperbolic, roots, trigonometric

TOOLS = Path(__file__).resolve().parents[3] / "tools"

CASES: dict[tuple[str, str], Sequence[float]] = {
    ("exp", "float"): exponential.TABLES["float"].exp,
    ("tanh", "float"): exponential.TANH_FLOAT,
    ("sin", "float"): trigonometric.TABLES["float"].sine,
    ("cos", "float"): trigonometric.TABLES["float"].cosine,
    ("sinh", "double"): hyperbolic.TABLES["double"].sine,
    ("cbrt", "float"): roots.INVERSE_ROOT["float"],
}
"""Those that take little time."""


@pytest.mark.parametrize(("name", "scalar"), CASES)
def test_a_fit_gives_the_table(monkeypatch: pytest.MonkeyPatch, name: str, scalar: str) -> None:
    """The same numbers, to the last bit."""
    monkeypatch.syspath_prepend(str(TOOLS))
    fits = importlib.import_module("elementary_fits")
    found, _ = fits.coefficients(name, scalar)
    assert tuple(found) == tuple(CASES[name, scalar])
    assert "minimax" in sys.modules
