"""`fuser-bench compare`: each exit code produced by its cause."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fuser.reports.comparison import Comparison
from fuser.reports.plots import charts
from fuser.reports.record import Record, Run, Samples, save
from fuser.suites.commands.cli import main
from tests.reports import synthetic
from tests.reports.test_comparison import FEW, changed, counted, slower


def compare(tmp_path: Path, base: Record, head: Record, *options: str) -> Result:
    """Save two runs and compare them."""
    for name, record in (("base", base), ("head", head)):
        save(record, tmp_path / name / "record.json")
    arguments = ["compare", str(tmp_path / "base"), str(tmp_path / "head"), *options]
    return CliRunner().invoke(main, arguments)


def quiet(processes: int = 5) -> Record:
    """A run with little noise."""
    return synthetic.record(processes=processes, blocks=6, noise=0.001, workloads=FEW)


def _wrong(run: Run) -> Run:
    return replace(run, status="wrong", reason="off by one", samples=Samples())


CAUSES: list[tuple[int, Callable[[Run], Run | None]]] = [
    (0, lambda run: run), (1, slower(1.3)), (1, counted(kernels=7)), (3, lambda run: None),
    (4, _wrong),
]


@pytest.mark.parametrize(("code", "change"), CAUSES)
def test_each_exit_code_has_its_cause(
    tmp_path: Path, code: int, change: Callable[[Run], Run | None]
) -> None:
    """No regression, slower, more kernels, a row missing, wrong."""
    base = quiet()
    assert compare(tmp_path, base, changed(base, change), "--gate").exit_code == code


def test_one_process_is_inconclusive(tmp_path: Path) -> None:
    """It gives no interval: 5; counted things alone are compared all the same: 0."""
    one = quiet(processes=1)
    assert compare(tmp_path, one, one, "--gate").exit_code == 5
    assert compare(tmp_path, one, one, "--gate", "--no-clock").exit_code == 0


def test_usage_errors_end_with_two(tmp_path: Path) -> None:
    """A run that is not there, a record that is none, a margin of nothing; of nothing else."""
    base = quiet()
    assert compare(tmp_path, base, changed(base, slower(1.3))).exit_code == 0, "without --gate"
    runs = [str(tmp_path / "base"), str(tmp_path / "head")]
    for margin in ("0", "nan", "-1"):
        assert CliRunner().invoke(main, ["compare", *runs, "--margin", margin]).exit_code == 2
    result = CliRunner().invoke(main, ["compare", runs[0], "nosuchrun"])
    assert (result.exit_code, "nosuchrun" in result.output) == (2, True)
    (tmp_path / "head" / "record.json").write_text("{}", encoding="utf-8")
    assert CliRunner().invoke(main, ["compare", *runs]).exit_code == 2


def test_a_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    """Said after what was found, without a traceback."""
    base = quiet(processes=1)
    done = compare(tmp_path, base, base, "--junit", str(tmp_path / "nosuch" / "a.xml"))
    assert done.exit_code == 2
    assert "-> " in done.stdout
    assert "name a file that can be written" in done.stderr


def test_records_by_other_names_are_compared(tmp_path: Path) -> None:
    """As they are kept from other machines."""
    path = str(save(quiet(processes=1), tmp_path / "quiet.json"))
    assert CliRunner().invoke(main, ["compare", path, path]).exit_code == 0


def test_files_for_ci_are_written(tmp_path: Path) -> None:
    """Markdown, JUnit XML, and JSON on the terminal."""
    base = quiet()
    files = ["--markdown", str(tmp_path / "a.md"), "--junit", str(tmp_path / "a.xml")]
    result = compare(tmp_path, base, changed(base, slower(1.3)), "--json", *files)
    assert json.loads(result.output)["exit_code"] == 1
    assert (tmp_path / "a.md").read_text(encoding="utf-8").startswith("### fuser-bench: regress")
    assert (tmp_path / "a.xml").read_text(encoding="utf-8").startswith("<?xml")


def test_a_run_compared_is_a_report_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compare --html` renders HEAD against BASE; `report --base` the same, in HEAD's folder."""
    asked: list[tuple[Path, ...]] = []

    def render(
        folder: Path, base: Path | None = None, target: Path | None = None,
        comparison: Comparison | None = None,
    ) -> Path:  # fmt: skip
        asked.append(tuple(each for each in (folder, base, target) if each is not None))
        assert (comparison is None) == (target is None)
        return target or folder / "report.html"

    monkeypatch.setattr("fuser.reports.page.render", render)
    base, head, page = tmp_path / "base", tmp_path / "head", tmp_path / "compared.html"
    record = quiet(processes=1)
    assert compare(tmp_path, record, record, "--html", str(page)).exit_code == 0
    result = CliRunner().invoke(main, ["report", str(head), "--base", str(base)])
    assert result.output.strip() == str(head / "report.html")
    assert asked == [(head, page), (head, base)]


def test_the_page_has_the_margin_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page calls the same is what the command called the same."""
    forest = [each for each in charts.CHARTS if each.name == "compare"]
    monkeypatch.setattr(charts, "CHARTS", forest)
    base = quiet()
    page = tmp_path / "page" / "compared.html"
    done = compare(
        tmp_path, base, changed(base, slower(1.3)), "--margin", "0.5", "--html", str(page)
    )
    assert done.exit_code == 0
    assert "slower" not in done.stdout
    assert "margin ±50%" in page.read_text(encoding="utf-8")
