"""The command that shows rows over many runs."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fuser.reports.record import save
from fuser.suites.commands import cli
from tests.reports import synthetic


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with a run's folder, a record by another name, and other JSON."""
    made = synthetic.record(workloads=synthetic.WORKLOADS[:1], blocks=3)
    folder = tmp_path / "recorded"
    (folder / "run0").mkdir(parents=True)
    save(replace(made, run_id="run0", commit="a" * 12), folder / "run0" / "record.json")
    save(replace(made, run_id="run1", commit="b" * 12), folder / "rows.json")
    (folder / "other.json").write_text('{"nothing": 1}')
    return folder


def test_a_folder_is_a_page(recorded: Path, tmp_path: Path) -> None:
    """Records in it by any name; other JSON beside them is left alone."""
    target = tmp_path / "history.html"
    given = ["history", str(recorded), "--output", str(target), "--since", "aaaa"]
    done = CliRunner().invoke(cli.main, given)
    assert done.exit_code == 0, done.output
    assert "2 runs, " in done.output
    assert "Synthetic processor" in target.read_text(encoding="utf-8")


def test_wrong_usage_says_what_there_is(recorded: Path, tmp_path: Path) -> None:
    """No run of that name, no commit like that, no folder to write to."""
    run = CliRunner().invoke
    done = run(cli.main, ["history", "nothing"])
    assert done.exit_code == 2
    done = run(cli.main, ["history", str(recorded), "--since", "zzz"])
    assert done.exit_code == 2
    assert "known: aaaaaaaaaa, bbbbbbbbbb, run0, run1" in done.output
    done = run(cli.main, ["history", str(recorded), "--output", str(tmp_path / "no" / "a.html")])
    assert done.exit_code == 2
