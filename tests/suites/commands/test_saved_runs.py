"""Nothing that was measured is lost in saving."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuser.reports.record import (
    Cell,
    Machine,
    Record,
    RecordError,
    Run,
    Samples,
    Variant,
    load,
)
from fuser.suites.commands.saved_runs import (
    RECORD,
    REJECTED,
    RESULTS,
    find_run,
    keep,
    not_writable,
    open_run,
)

GOOD = Run("eager", "ok", samples=Samples([0], [0], [1], [1], [1.0]))
CELL = Cell("a-float32-1", "a", "f", "float32", "S", 1, runs=[GOOD])
WHOLE = Record(
    "id", "2026-01-01T00:00:00Z", True, "custom", Machine("cpu", 1), cells=[CELL],
    variants=[Variant("eager", "eager")],
)
ROW = replace(GOOD, variant="mine")


def test_a_run_is_found_by_folder_record_or_name(tmp_path: Path) -> None:
    """And not by a file beside it."""
    folder = keep(WHOLE, tmp_path / "run").folder
    assert find_run(str(folder)) == folder
    assert find_run(str(folder / RECORD)) == folder
    assert find_run(str(folder / "other.json")) is None


def test_a_run_that_is_not_there_names_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name mistyped; a name of nothing; no saved run at all."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordError, match="holds no saved run: `fuser-bench run` makes one"):
        open_run("nosuch")
    names = [f"2026010{day}T000000Z-{day}abcde" for day in range(1, 6)]
    for name in names:
        keep(replace(WHOLE, run_id=name), tmp_path / RESULTS / name)
    with pytest.raises(RecordError, match=f"near it: {names[3]}"):
        open_run("20260104T000000Z-4abcd")
    with pytest.raises(RecordError, match=f"latest saved runs: {names[4]}, .* and 2 more"):
        open_run("nosuch")
    assert open_run(names[0])[1].run_id == names[0]


@pytest.mark.parametrize(
    "bad",
    [
        replace(ROW, kernels="many"),
        replace(ROW, planned_bytes=1.5),
        replace(ROW, samples=Samples([0], [0], [1], [1], [math.nan])),
        replace(ROW, samples=Samples([0], [0], [1], [1], [])),
        replace(ROW, text_hashes={"cpu": object()}),
    ],
)
def test_a_row_that_the_record_has_no_form_for_costs_itself_alone(tmp_path: Path, bad: Any) -> None:
    """The others stay; as it was measured, everything is beside the record."""
    cell = replace(CELL, runs=[GOOD, bad])
    kept = keep(replace(WHOLE, cells=[cell]), tmp_path)
    assert REJECTED in kept.problems[0]
    runs = load(tmp_path / RECORD).cells[0].runs
    assert [run.status for run in runs] == ["ok", "failed"]
    assert "the record has no form for it" in runs[1].reason
    raw = json.loads((tmp_path / REJECTED).read_text(encoding="utf-8"))
    assert [run["variant"] for run in raw["cells"][0]["runs"]] == ["eager", "mine"]
    assert raw["cells"][0]["runs"][0]["samples"]["seconds"] == [1.0]


@pytest.mark.parametrize(
    "part",
    [
        {"settings": {"when": object()}},
        {"notes": [3]},
        {"call_overhead": {"clock_resolution_s": math.inf}},
        {"variants": [Variant("eager", "eager"), Variant("mine", "odd")]},  # type: ignore[arg-type]
        {"cells": [CELL, replace(CELL, id="", elements=-1)]},
    ],
)
def test_other_parts_are_left_out_with_a_note(tmp_path: Path, part: dict[str, Any]) -> None:
    """The rows stay."""
    kept = keep(replace(WHOLE, **part), tmp_path)
    found = load(tmp_path / RECORD)
    assert found.cells[0].runs[0].samples.seconds == (1.0,)
    assert len(kept.problems) > 1
    assert found.notes


def test_a_folder_that_cannot_be_written_is_no_loss(tmp_path: Path) -> None:
    """It is said before measuring; after it, the record goes elsewhere."""
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    assert not_writable(file / "runs")
    assert not_writable(tmp_path / "runs") is None
    kept = keep(WHOLE, file / "runs" / "id")
    assert load(kept.folder / RECORD).run_id == "id"
    assert str(kept.folder.parent) in kept.problems[0]
