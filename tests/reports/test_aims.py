"""Figures beside what is asked of them."""

import pytest

from fuser.reports.aims import aims_table, sentences
from fuser.reports.analysis import analyse
from tests.reports.tables import cell, record


def test_calls_are_held_against_numpys_line() -> None:
    """Reached where the whole interval is, missed where none of it is."""
    times = {"sure": [0.1] * 3, "unsure": [0.1, 0.2, 0.9], "never": [0.9] * 3, "free": [0.5] * 3}
    cells = [cell(name, True, fused=each, eager=[1.0] * 3) for name, each in times.items()]
    aims = dict.fromkeys(("sure", "unsure", "never"), 0.4)
    found = record("calls", *cells, settings={"aims": aims})
    made = aims_table(analyse(found)).set_index("cell")
    assert dict(made["verdict"]) == {
        "sure": "reached", "unsure": "not shown", "never": "missed", "free": "",
    }
    assert made.loc["sure", "eager_ratio"] == pytest.approx(0.1)
    assert "of NumPy's time" in sentences(found, made)[0]


def test_first_calls_are_held_against_seconds_and_their_growth() -> None:
    """An exponent of all lengths, fitted in logarithms."""
    chains = [cell(f"chain_{n}", True, fused=[n**2 / 1e6] * 3) for n in (64, 128, 256)]
    cold = cell("gelu_cold", True, fused=[0.02] * 3)
    found = record("compile", *chains, cold, settings={"aims": {"gelu_cold": 0.03}})
    made = aims_table(analyse(found)).set_index("cell")
    assert made.loc["gelu_cold", "verdict"] == "reached"
    assert "to the power of 2.00" in sentences(found, made)[0]
    assert aims_table(analyse(record("quick", cold))).empty
