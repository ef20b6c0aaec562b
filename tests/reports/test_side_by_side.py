"""Two checkouts side by side: ratios, verdicts and the page."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuser.reports import side_by_side

ABOUT = {"commit": "new", "baseline": "old", "machine": {"cpu": "a processor", "os": "a system"}}


def calls(**ratios: float) -> dict[str, Any]:
    """A record of calls whose cells have these ratios."""
    beside = {name: {"new": [ratio, ratio], "old": [1.0, 1.0]} for name, ratio in ratios.items()}
    return {**ABOUT, "table": "calls", "beside": beside}


def arrays(*wanted: str, **rows: Any) -> dict[str, Any]:
    """A record of arrays: rows of the baseline by cell, beside ours of 2 s."""
    ours = {"seconds": {"fresh": [2.0, 2.0]}}
    cells = {name: {"rows": {"fused": ours, "baseline": row}} for name, row in rows.items()}
    return {**ABOUT, "set": "rows", "cells": cells, "wanted": [*rows, *wanted]}


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
    np.testing.assert_allclose(found.mean, mean)
    assert found.verdict == verdict


def test_pairs_are_of_one_round() -> None:
    """A drift that both have met is in no ratio; the interval is that of the rounds."""
    record = {**ABOUT, "table": "calls", "beside": {"one": {"new": [2, 4, 8], "old": [1, 2, 4]}}}
    (cell,) = side_by_side.table(record).cells
    np.testing.assert_allclose((cell.ratio, cell.low, cell.high, cell.old_s), 2)


def test_what_was_not_measured_is_named() -> None:
    """Cells of which one side failed, and those that the time was too short for."""
    done = {"seconds": {"fresh": [1.0, 1.0], "into": [1.0, 1.0]}}
    found = side_by_side.table(arrays("late", done=done, failed={"reason": "its process ended"}))
    assert [cell.name for cell in found.cells] == ["done fresh"]
    assert found.missing == {"failed": "its process ended", "late": "out of time"}
    assert "2 were not measured" in found.verdict


def test_the_page_has_all_tables() -> None:
    """A line each, and the slowest cells first; all that are beyond the limit."""
    slow = {f"slow{k}": 1.2 + k for k in range(side_by_side.SHOWN + 2)}
    record = arrays(done={"seconds": {"fresh": [2.0, 2.0]}})
    text = side_by_side.page([calls(quick=0.5, **slow), record])
    assert "| rows | 1 | 1.000 | 0 (0) | 1.00 | holds |" in text
    places = [text.index(f"| {name} ") for name in slow]
    assert places == sorted(places, reverse=True)
    assert "| quick |" not in text
    assert "not all of the same two commits" not in text
    assert "not all of the same two commits" in side_by_side.page([record, calls() | {"commit": 0}])


@pytest.mark.parametrize(
    ("record", "status"), [(calls(one=1.0), 0), (calls(one=1.1), 1), (calls(), 1)]
)
def test_the_command_says_whether_it_holds(
    record: Any, status: int, tmp_path: Path
) -> None:
    """By its exit status; the page is written either way."""
    path, page = tmp_path / "calls.json", tmp_path / "page.md"
    path.write_text(json.dumps(record), encoding="utf-8")
    assert side_by_side.main([str(path), str(page)]) == status
    assert page.read_text(encoding="utf-8") == side_by_side.page([record])


def test_other_records_are_refused(tmp_path: Path) -> None:
    """Those of a run without a baseline have nothing to be put side by side."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"cells": {}}), encoding="utf-8")
    with pytest.raises(SystemExit):
        side_by_side.main([str(path), str(tmp_path / "page.md")])
    assert side_by_side.turns(0) != side_by_side.turns(1)
