"""The command: its output, its exit codes, each from its cause."""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

import fuser
import fuser.base.config
from fuser.reports.record import Cell, Machine, Record, Run, Samples, load
from fuser.suites.commands import cli, summary
from fuser.suites.commands.exit_codes import ExitCode
from fuser.suites.plan import Plan
from tests.children import said
from tests.reports import synthetic
from tests.settings import settings
from tests.suites import cheats
from tests.tree import ROOT

FAST = ["--processes", "1", "--budget-s", "3"]


def command(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(cli.main, list(arguments))


def run(
    folder: Path, *more: str, variants: str = "eager", cell: str = "axpy-float32-64"
) -> Result:
    """Measure one cell in a moment; with `--no-report` among the arguments nothing is drawn."""
    return command("run", cell, "--variants", variants, "--output", str(folder), *FAST, *more)


@pytest.fixture(autouse=True)
def _no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring memory speed takes seconds that no test here needs."""
    measure = cli.measure

    def quickly(plan: Plan, output: Path, *resumed: Any) -> Any:
        few = replace(plan, ceilings=False, most_blocks=3, least_blocks=2, most_processes=0)
        return measure(few, output, *resumed)

    monkeypatch.setattr(cli, "measure", quickly)


def test_a_run_of_one_cell(tmp_path: Path) -> None:
    """The estimate comes first, the path last, and the record holds the one cell."""
    done = run(tmp_path, "--no-report")
    assert done.exit_code == 0, done.output
    lines = done.stdout.strip().splitlines()
    assert lines[0].startswith("about ")
    assert lines[-1].endswith("record.json")
    record = load(lines[-1])
    assert [cell.id for cell in record.cells] == ["axpy-float32-64"]
    assert record.preset == "custom"
    assert record.finished


def test_the_report_is_written_and_printed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the reports' own function, for the run's folder."""
    rendered: list[Path] = []

    def render(folder: Path, base: Path | None = None) -> Path:
        rendered.append(folder)
        return folder / "report.html"

    monkeypatch.setattr("fuser.reports.page.render", render)
    done = run(tmp_path)
    assert done.stdout.strip().splitlines()[-1] == str(rendered[0] / "report.html")
    again = command("report", str(rendered[0]))
    assert (again.exit_code, rendered[1]) == (0, rendered[0])


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RuntimeError("no such font"), 0, "no such font"),
        (KeyboardInterrupt, ExitCode.INTERRUPTED, "no report: interrupted; `fuser-bench report"),
    ],
)
def test_a_report_that_is_not_drawn_leaves_the_record(
    error: Any, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure, or the command that draws it, is said; the record's path is printed."""

    def render(folder: Path, base: Path | None = None) -> Path:
        raise error

    monkeypatch.setattr("fuser.reports.page.render", render)
    done = run(tmp_path)
    assert done.exit_code == code
    assert words in done.stderr
    assert done.stdout.strip().endswith("record.json")


def test_a_row_measured_again_is_held_against_its_record(tmp_path: Path) -> None:
    """With the one that is named; of one process nobody knows whether it agrees."""
    again = partial(run, tmp_path, "--no-report", variants=f"eager,{cheats.spec(cheats.Honest)}")
    first = again()
    assert "again:" not in first.output
    second = again("--json", "--against", first.stdout.split()[-1])
    rows = json.loads(second.stdout)["repeated"]
    assert [(row["variant"], row["inside"]) for row in rows] == [("honest", None)]
    assert again("--against", "nosuch").exit_code == ExitCode.USAGE


def test_json_is_a_summary(tmp_path: Path) -> None:
    """Standard output is one JSON document."""
    done = run(tmp_path, "--no-report", "--json")
    found = json.loads(done.stdout)
    assert found["rows"] == {"ok": 2}
    schema = ROOT / "suites" / "commands" / "summary.schema.json"
    jsonschema.validate(found, json.loads(schema.read_text(encoding="utf-8")))
    assert [row["variant"] for row in found["speedups"]] == ["eager", "eager_again"]
    assert found["speedups"][1]["speedup"] > 0
    assert Path(found["record"]).is_file()


@pytest.mark.parametrize(
    ("variants", "code", "words"),
    [
        (f"eager,{cheats.spec(cheats.wrong)}", ExitCode.WRONG,
         "wrong result: axpy-float32-64, wrong: before timing"),
        (cheats.spec(cheats.Absent), ExitCode.NOTHING,
         "without absent: nosuchfuser is not installed"),
    ],
)  # fmt: skip
def test_what_is_wrong_or_not_measured_has_an_exit_code(
    variants: str, code: int, words: str, tmp_path: Path
) -> None:
    """And the row is named with its reason."""
    done = run(tmp_path, "--no-report", variants=variants)
    assert done.exit_code == code
    assert words in done.stdout


def test_a_required_row_that_is_missing_is_exit_code_3() -> None:
    """One without a speed, and a pattern that names none."""
    record = record_of(Run("eager", "ok", samples=MEASURED), Run("fused", "failed", "no such"))
    assert not list(summary.missing_rows(record, ["*-eager"]))
    assert list(summary.missing_rows(record, ["a-*"])) == ["a-float32-1-fused: failed: no such"]
    assert list(summary.missing_rows(record, ["b-*"])) == [
        "b-*: no row is called so; `fuser-bench run --list` shows the workloads"
    ]
    assert summary.exit_code(record, ["a-float32-1-fused"]) == ExitCode.NOTHING
    refused = Run("fused", "fell_back", "sort", expected_fallback=True, samples=MEASURED)
    assert not list(summary.missing_rows(record_of(refused), ["*-fused"]))
    unexpected = replace(refused, expected_fallback=False)
    assert list(summary.missing_rows(record_of(unexpected), ["*-fused"]))


def test_what_cannot_be_written_is_said_before_measuring(tmp_path: Path) -> None:
    """Not after four minutes."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = run(tmp_path / "file" / "runs")
    assert done.exit_code == ExitCode.USAGE
    assert "--output" in done.output


def test_a_workload_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`module:NAME` is found in the current folder, here and in the worker."""
    (tmp_path / "my_module.py").write_text(
        "import numpy as np\n"
        "from fuser.suites.workload import Workload, normals\n"
        "MINE = Workload('mine', 'own', 'a root', np.sqrt, normals(1), sizes={'S': 64, 'M': 99})\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    done = run(tmp_path, "--no-report", cell="my_module:MINE-float32-S")
    assert done.exit_code == 0, done.output
    assert next(iter(load(done.stdout.split()[-1]).cells)).workload == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("run nosuch", "nosuch"), ("run nosuch:NAME", "nosuch"),
        ("run axpy --variants nosuch", "nosuch"), ("run axpy --sizes huge", "huge"),
        ("run axpy --against nosuch", "nosuch"), (f"run {cheats.MODULE}:nosuch", "nosuch"),
        ("run --processes 0", "0"), ("report nosuch", "nosuch"), ("nosuch", "nosuch"),
        ("run axpy --budget-s nan", "nan is no number"),
    ],
)  # fmt: skip
def test_usage_is_exit_code_2(arguments: str, words: str) -> None:
    """With a message that names the wrong part."""
    done = command(*arguments.split())
    assert done.exit_code == ExitCode.USAGE
    assert words in done.output


def test_a_module_that_cannot_be_imported_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises; the message has the module and the error."""
    (tmp_path / "broken_module.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    done = command("run", "broken_module:MINE")
    assert done.exit_code == ExitCode.USAGE
    assert "importing broken_module raised ZeroDivisionError" in done.output


def test_an_unknown_backend_is_a_usage_error() -> None:
    """It is not found out after a minute of measuring."""
    with settings(backend="nosuch"):
        done = command("run", "axpy")
    assert done.exit_code == ExitCode.USAGE
    assert "no backend called 'nosuch'; known: cpu" in done.output


def test_a_busy_machine_is_said_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how long it may take; of a quiet one nothing is said."""
    facts = replace(cli.describe_machine(), cores_logical=2, load_average=[5.0, 1.0, 1.0])
    monkeypatch.setattr(cli, "describe_machine", lambda: facts)
    plan = cli._plan(["axpy-float32-64"], "quick", False, variants="eager", peers=False, dtypes="",
                     sizes="", axes=(), seed=0, processes=1, budget_s=60.0)  # fmt: skip
    said = cli._announcement(plan)
    assert "load average 5.0 on 2 processors): it may take " in said
    monkeypatch.setattr(cli, "describe_machine", lambda: replace(facts, load_average=[0.1]))
    assert "other work" not in cli._announcement(plan)


def test_the_version_is_that_of_the_library() -> None:
    """One line."""
    assert command("--version").output == f"fuser-bench, version {fuser.__version__}\n"


def test_findings_of_one_reason_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that were not run are among them where the cell has no time at all."""
    late = [Run(name, "not_run", "it never ends") for name in ("eager", "fused")]
    cells = [
        replace(record_of(*late).cells[0], id="late"),
        record_of(
            Run("eager", "ok", samples=MEASURED), Run("fused", "failed", "no"),
            Run("eager_into", "not_run", "takes no out="),
        ).cells[0],
    ]
    record = replace(record_of(), cells=cells)
    found = [(each["cell"], each["variants"], each["reason"]) for each in summary.findings(record)]
    assert found == [
        ("late", ["eager", "fused"], "it never ends"), ("a-float32-1", ["fused"], "no")
    ]
    summary.print_summary(record, Path("run"), None, False)
    assert "  not run: late, eager, fused: it never ends\n" in capsys.readouterr().out


def test_a_broken_record_is_a_usage_error(tmp_path: Path) -> None:
    """Said in one line, without a traceback."""
    (tmp_path / "record.json").write_text("{", encoding="utf-8")
    done = command("report", str(tmp_path))
    assert done.exit_code == ExitCode.USAGE
    assert "not JSON" in done.stderr


def record_of(*runs: Run, finished: bool = True) -> Record:
    """Return a record with one cell."""
    cell = Cell("a-float32-1", "a", "f", "float32", "S", 1, runs=runs)
    return Record("id", "2026-01-01T00:00:00Z", finished, "custom", Machine("cpu", 1), cells=[cell])


MEASURED = Samples([0], [0], [1], [1], [1.0])


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (record_of(Run("eager", "ok", samples=MEASURED)), 0),
        (record_of(Run("eager", "ok", samples=MEASURED), Run("fused", "wrong")), 4),
        (record_of(Run("eager", "absent")), 3),
        (record_of(Run("eager", "ok", samples=MEASURED), finished=False), 130),
        (record_of(finished=False), 3),
    ],
)
def test_exit_codes(record: Record, code: int) -> None:
    """Wrong results first, then nothing measured, then an interruption."""
    assert summary.exit_code(record) == code


def test_an_expected_fallback_is_no_finding() -> None:
    """It is counted apart, and not listed among what went wrong."""
    expected = Run("fused", "fell_back", "sort", expected_fallback=True)
    assert summary.counts(record_of(expected)) == {"expected fallback": 1}
    assert not summary.is_finding(expected)
    assert summary.is_finding(replace(expected, expected_fallback=False))


def test_list_and_doctor() -> None:
    """Both as text and as JSON."""
    assert "axpy" in command("run", "--list").output
    assert {"id", "family"} <= json.loads(command("run", "--list", "--json").output)[0].keys()
    assert "runner eager" in command("doctor").output
    assert json.loads(command("doctor", "--json").output)[0]["subject"] == "processor"


def test_help_imports_neither_pandas_nor_matplotlib() -> None:
    """The command answers at once."""
    code = (
        "import sys\nfrom fuser.suites.commands.cli import main\n"
        "main(['run', '--list'], standalone_mode=False)\n"
        "print([m for m in ('pandas', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    assert said("-c", code).strip().splitlines()[-1] == "[]"


def test_the_cache_is_shown_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Path, entries and bytes; `clear` removes the entries and nothing else."""
    monkeypatch.setattr("fuser.base.disk_cache.folder", lambda: tmp_path)
    (tmp_path / "one.o").write_bytes(b"12345")
    (tmp_path / "kept.txt").write_bytes(b"mine")
    shown = CliRunner().invoke(cli.main, ["cache", "--json"])
    found = json.loads(shown.output)
    assert (found["path"], found["entries"], found["bytes"]) == (str(tmp_path), 1, 5)
    assert f"path     {tmp_path}" in CliRunner().invoke(cli.main, ["cache"]).output
    cleared = CliRunner().invoke(cli.main, ["cache", "clear"])
    assert cleared.output == f"1 entries removed from {tmp_path}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_both_means_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A row that compiled while it was timed is left out of the first mean, not of the second."""
    known = [each for each in synthetic.WORKLOADS if each.name in ("axpy", "gelu_bias")]
    record = synthetic.record(processes=2, blocks=2, workloads=known)
    small = [cell for cell in record.cells if cell.size == "S"]
    spoilt = replace(small[0], runs=[
        replace(run, status="compiled_inside", reason="it compiled")
        if run.variant == "fused" else run
        for run in small[0].runs
    ])
    summary.print_summary(replace(record, cells=[spoilt, *small[1:]]), Path("run"), None, False)
    shown = capsys.readouterr().out
    (line,) = [each for each in shown.splitlines() if "Fused against eager" in each]
    assert f"{len(small) - 1} of {len(small)} rows" in line
    assert f"over {len(small)} rows, those left out at their measured time" in line
