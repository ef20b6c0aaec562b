"""Two checkouts side by side: ratios, verdicts and the page."""

import numpy as np
import pytest

from fuser.reports import side_by_side
from fuser.reports.analysis import analyse
from fuser.reports.record import Record
from tests.reports.tables import cell, record


def calls(**ratios: float) -> Record:
    """A record of calls whose cells have these ratios."""
    cells = [
        cell(name, fused=[ratio, ratio], baseline=[1.0, 1.0]) for name, ratio in ratios.items()
    ]
    return record("calls", *cells)


@pytest.mark.parametrize(
    ("ratios", "mean", "verdict"),
    [
        ((1.0, 1.0), 1.0, "holds"),
        ((1.02,), 1.02, "holds"),
        ((2.0, 0.5), 1.0, "holds; 1 cells need a reason"),
        ((1.1, 1.0), 1.1**0.5, "MISSED: its mean is above 1.02"),
        ((1.16, 1.16), 1.16, "MISSED: its mean is above 1.02; 2 cells need a reason"),
        ((), np.nan, "nothing was measured"),
    ],
)
def test_a_table_is_judged(ratios: tuple[float, ...], mean: float, verdict: str) -> None:
    """By its geometric mean, and by each cell."""
    found = side_by_side.table(calls(**{f"cell{k}": each for k, each in enumerate(ratios)}))
    np.testing.assert_allclose(side_by_side.mean(found), mean)
    assert side_by_side.verdict(found) == verdict
    assert side_by_side.holds(found) == verdict.startswith("holds")


def test_pairs_are_of_one_block() -> None:
    """A drift that both have met is in no ratio; the range is that of the blocks."""
    found = record("calls", cell("one", fused=[2, 4, 8], baseline=[1, 2, 4]))
    figures = side_by_side.table(found)[["ratio", "ratio_low", "ratio_high", "old_s"]]
    np.testing.assert_allclose(figures, [[2.0] * 4])


def test_what_was_not_measured_is_named() -> None:
    """Forms of a cell of which one side failed, and those that the time was too short for."""
    times = {"fused": [2.0], "fused_into": [2.0]}
    found = side_by_side.table(record(
        "rows", cell("done", **times, baseline=[1.0], baseline_into="wrong"),
        cell("late", fused="out of time", baseline="out of time"),
    ))  # fmt: skip
    assert list(found["cell"]) == ["done fresh", "done into", "late fresh"]
    assert list(found["ratio"].notna()) == [True, False, False]
    assert found["ratio_low"].isna().all()
    assert list(found["reason"][1:]) == ["wrong", "out of time"]
    assert "2 were not measured" in side_by_side.verdict(found)


def test_the_page_has_all_tables() -> None:
    """A line each, and the slowest cells first; all that are beyond the limit."""
    slow = {f"slow{k}": 1.2 + k for k in range(side_by_side.SHOWN + 2)}
    rows = record("rows", cell("done", fused=[2.0, 2.0], baseline=[2.0, 2.0]))
    text = side_by_side.page([calls(quick=0.5, **slow), rows])
    assert "| rows | 1 | 1.000 | 0 (0) | 1.00 | holds |" in text
    places = [text.index(f"| {name} ") for name in slow]
    assert places == sorted(places, reverse=True)
    assert "| quick |" not in text
    assert "not all of the same two commits" not in text
    late = [cell(f"late{k}", fused="late", baseline="late") for k in range(side_by_side.SHOWN + 1)]
    shown = side_by_side.page([record("rows", *late[:2]), record("others", *late)])
    assert "- late0, late1: late" in shown
    assert f"- {len(late)} figures: late" in shown
    other = record("calls", commit="another", dirty=True)
    assert "not all of the same two commits" in side_by_side.page([rows, other])
    assert "differed from its commit" in side_by_side.page([other])


def test_the_report_has_the_figures_of_a_run_with_a_baseline() -> None:
    """And nothing of a run without."""
    found = calls(one=1.1, two=1.3)
    made = side_by_side.side_by_side_table(analyse(found))
    assert list(made["cell"]) == ["two", "one"]
    assert "MISSED" in side_by_side.sentences(found, made)[0]
    without = record("calls", cell("one", fused=[1.0]))
    nothing = side_by_side.side_by_side_table(analyse(without))
    assert nothing.empty
    assert not side_by_side.sentences(without, nothing)
