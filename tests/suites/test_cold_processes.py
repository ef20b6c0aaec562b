"""First calls from processes that have nothing yet."""

from pathlib import Path

import pytest

from fuser.suites import cold_figures, cold_processes
from fuser.suites.cold import LENGTHS
from fuser.suites.engine import Engine
from fuser.suites.presets import table_plan
from tests.tree import ROOT


def test_every_figure_is_found_for_both_checkouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sample a process, verified."""
    monkeypatch.setattr(cold_processes, "PROGRAMS", ("gelu", "disk"))
    plan = table_plan("compile", str(ROOT), processes=1)
    record = Engine(plan).run()
    names = ("import_fuser", "first_fuse", "gelu_cold", "import_and_gelu_from_disk")
    for cell in record.cells:
        for run in cell.runs:
            assert len(run.samples.seconds) == (cell.workload in names), run
            assert run.status == ("ok" if cell.workload in names else "not_run")
    assert record.settings["aims"]["gelu_cold-float32-1024"] == 0.03
    assert len(cold_figures.WORKLOADS) == 5 + len(LENGTHS)


def test_a_process_that_fails_is_a_note(tmp_path: Path) -> None:
    """With the last line of what it said."""
    assert "no fuser in" in str(cold_processes.figures("gelu", str(tmp_path), tmp_path))
