"""Numbers are spelled with unit and interval, and rows have stable anchors."""

import math

import pandas as pd
import pytest

from fuser.reports.display import COLUMNS, FORMS, display
from fuser.reports.spelling import percent_text, rate_text


def test_an_interval_says_a_common_unit_once() -> None:
    """Both ends in microseconds, then one in nanoseconds."""
    table = pd.DataFrame(
        {
            "workload": ["a", "a"], "dtype": ["float32"] * 2, "elements": [4, 4096],
            "call_s": [2e-6, 1e-6], "ratio": [1.0, 1.5],
            "ratio_low": [0.9, math.nan], "ratio_high": [1.1, math.nan],
            "call_s_low": [1.9e-6, 9e-7], "call_s_high": [2.1e-6, 1.1e-6],
            "cell": ["a-float32-4", "a-float32-4096"],
        }
    )  # fmt: skip
    shown = display("noise", "Noise", table)
    assert [line.entries[4].interval for line in shown.lines] == [
        "1.9 to 2.1 µs",
        "900 ns to 1.1 µs",
    ]
    assert [line.entries[1].interval for line in shown.lines] == ["0.90 to 1.10", ""]
    assert [line.anchor for line in shown.lines] == ["noise-a-float32-4", "noise-a-float32-4096"]
    assert shown.lines[1].entries[3].text == "4.1 k"
    assert float(shown.lines[1].entries[3].sort) == 4096


def test_columns_that_say_nothing_are_left_out() -> None:
    """A run without ceilings shows no column of shares."""
    names = [column.name for column in COLUMNS["bandwidth"]]
    line = dict.fromkeys(names, None) | {"workload": "a", "dtype": "f", "elements": 1}
    shown = display("bandwidth", "Bandwidth", pd.DataFrame([{**line, "cell": "a-f-1"}]))
    assert [column.name for column in shown.columns] == ["workload", "dtype", "elements"]


def test_every_form_is_known() -> None:
    """A column cannot name a form that nothing spells."""
    special = {"text", "code", "long", "size", "of rows", "verdict"}
    used = {column.form for columns in COLUMNS.values() for column in columns}
    assert used <= special | FORMS.keys()


@pytest.mark.parametrize(
    ("value", "text"), [(28.1e9, "28.1 GB/s"), (5.62e4, "56.2 kB/s"), (999.9e6, "1 GB/s")]
)
def test_rates_have_the_unit_that_fits(value: float, text: str) -> None:
    """Small calls move kilobytes a second, not 0.0000562 GB/s."""
    assert rate_text(value) == text


def test_shares_never_need_an_exponent() -> None:
    """Two digits below ten percent, whole percents above."""
    assert [percent_text(each) for each in (0.0084, 0.012, 1.31)] == ["0.84%", "1.2%", "131%"]
    assert FORMS["repay"](math.inf) == "never"
