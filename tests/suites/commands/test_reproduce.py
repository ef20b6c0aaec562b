"""A row measured again: inside what was recorded, or outside."""

from pathlib import Path

from fuser.reports.record import Record, save
from fuser.suites.commands.reproduce import latest_with, repeated
from tests.reports import synthetic
from tests.reports.test_comparison import FEW, changed, slower


def quiet(processes: int = 5) -> Record:
    """A run with little noise."""
    return synthetic.record(processes=processes, blocks=6, noise=0.001, workloads=FEW)


def test_the_same_again_is_inside() -> None:
    """Every row but eager and its twin is held against the recorded interval."""
    rows = list(repeated(quiet(), quiet()))
    assert rows
    assert all(row.inside for row in rows)
    assert "inside" in rows[0].as_text()
    assert not {"eager", "eager_again"} & {row.variant for row in rows}


def test_a_slower_row_is_outside() -> None:
    """And says both values with their intervals."""
    rows = list(repeated(quiet(), changed(quiet(), slower(1.3))))
    outside = [row for row in rows if row.inside is False]
    assert outside
    assert "OUTSIDE" in outside[0].as_text()
    assert "recorded" in outside[0].as_text()


def test_one_process_gives_no_answer() -> None:
    """The line says what would."""
    row = next(repeated(quiet(1), quiet(1)))
    assert row.inside is None
    assert "more processes" in row.as_text()


def test_the_latest_run_with_the_cell_is_found(tmp_path: Path) -> None:
    """Not the run itself, and not what cannot be read."""
    record = quiet(1)
    for name in ("20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"):
        save(record, tmp_path / name / "record.json")
    (tmp_path / "20260103T000000Z-cccccc").mkdir()
    (tmp_path / "20260103T000000Z-cccccc" / "record.json").write_text("{")
    identity = record.cells[0].id
    found = latest_with({identity}, tmp_path, "20260102T000000Z-bbbbbb")
    assert found is not None
    assert found.cells[0].id == identity
    assert latest_with({"nosuch"}, tmp_path, "") is None
