"""The command that times two checkouts, and presets that are tables on the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fuser.reports.record import load
from fuser.suites import presets
from fuser.suites.commands import cli
from fuser.suites.plan import Plan
from tests.tree import ROOT


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small cells of a table."""
    whole = presets.table_plan

    def few(*arguments: Any, **changes: Any) -> Plan:
        plan = whole(*arguments, **changes)
        cells = sorted(plan.cells, key=lambda each: each.elements)[:2]
        return replace(plan, cells=cells, processes=1, most_blocks=3, ceilings=False)

    monkeypatch.setattr(presets, "table_plan", few)


def test_both_checkouts_are_timed_and_known_cells_are_kept(tmp_path: Path) -> None:
    """The page is in the folder; the second run measures nothing again."""
    arguments = ["side-by-side", str(ROOT), str(tmp_path), "--preset", "rows"]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code in (0, 1), done.output
    page = (tmp_path / "side_by_side.md").read_text()
    assert "| rows | 4 |" in page or "| rows | 2 |" in page
    first = load(tmp_path / "rows" / "record.json")
    assert {each.name for each in first.variants} == {
        "fused", "fused_into", "baseline", "baseline_into",
    }
    CliRunner().invoke(cli.main, arguments)
    assert load(tmp_path / "rows" / "record.json").cells == first.cells


def test_a_table_of_the_command_has_its_variants_and_goes_on(tmp_path: Path) -> None:
    """`--resume` writes into the same folder; a report of it can be had as Markdown."""
    arguments = ["run", "--preset", "others", "--output", str(tmp_path), "--variants",
                 "eager,fused", "--no-report"]  # fmt: skip
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 0, done.output
    (folder,) = tmp_path.iterdir()
    again = CliRunner().invoke(cli.main, [*arguments, "--resume", str(folder)])
    assert again.exit_code == 0, again.output
    assert list(tmp_path.iterdir()) == [folder]
    text = tmp_path / "page.md"
    done = CliRunner().invoke(cli.main, ["report", str(folder), "--markdown", str(text)])
    assert done.exit_code == 0, done.output
    assert text.read_text().startswith("# The best peer of each cell")
