"""What is weak about a run is said first: on the page, in the terminal and by a comparison."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuser.reports import comparison_output
from fuser.reports.analysis import analyse
from fuser.reports.collection import EVERY
from fuser.reports.comparison import compare_records
from fuser.reports.display import display
from fuser.reports.headline import cards_of
from fuser.reports.page import render
from fuser.reports.plots import charts
from fuser.reports.plots.charts import CHARTS
from fuser.reports.record import Record, Samples, save
from fuser.reports.tables import runs_table, summary_table
from fuser.reports.verdicts import Verdict
from fuser.reports.weaknesses import apart, weaknesses
from fuser.suites.commands import summary
from tests.reports import synthetic
from tests.reports.synthetic import Workload

FEW = [each for each in synthetic.WORKLOADS if each.name in ("axpy", "gelu_bias")]


def made(processes: int = 3, factor: float = 1.0, workloads: list[Workload] = FEW) -> Record:
    """A quiet run, but that eager against itself differs by a factor, up and down in turn."""
    record = synthetic.record(processes, blocks=4, noise=0.001, workloads=workloads)
    cells = []
    for number, cell in enumerate(record.cells):
        factors = {"eager_again": factor if number % 2 else 1 / factor}
        runs = [
            replace(run, samples=scaled(run.samples, factors.get(run.variant, 1.0)))
            for run in cell.runs
        ]
        cells.append(replace(cell, runs=runs))
    return replace(record, cells=cells, notes=[])


def scaled(samples: Samples, factor: float) -> Samples:
    """The same samples, each that much longer."""
    return replace(samples, seconds=list(np.asarray(samples.seconds) * factor))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (made(), []),
        (made(1), ["Measured in 1 process: there is no interval and no verdict from fewer than 3"]),
        (made(2), ["Measured in 2 processes"]),
        (made(factor=2.0), ["Equal things differed by a factor of"]),
        (made(factor=1.1), ["Equal things differed by "]),
        (replace(made(), finished=False), ["interrupted"]),
        (replace(made(), notes=["the memory anchor took 1.9 times as long", "3 cells were fine"]),
         ["The memory anchor took 1.9 times as long."]),
        (replace(made(), notes=["noise: equal things differed by 9%, usually by 1%"]),
         ["Noise: equal things differed by 9%"]),
        (replace(made(), variants=[each for each in synthetic.VARIANTS if each.kind != "aa"]),
         ["Nothing was timed against itself"]),
        (synthetic.empty(), ["Nothing was measured"]),
    ],
)  # fmt: skip
def test_each_weakness_is_said(record: Record, said: list[str]) -> None:
    """And nothing of a quiet run of three processes."""
    found = weaknesses(analyse(record))
    assert len(found) == len(said)
    assert all(start in text for start, text in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("met", "said"),
    [
        ({"others_s": 0.9}, "other processes used more than 0.25 of a processor; at most 1.8 "),
        ({"steal_s": 0.1}, "hypervisor took away more than 0.05 of a processor; at most 0.2 "),
        ({"throttles": 3}, "Processors were slowed for their heat while 1 of 16 cells "),
        ({"frequency_hz": [2.0e9, 3.0e9]}, "The processors' clock rate was between 2.00 and 3.00 "),
    ],
)  # fmt: skip
def test_what_else_the_machine_did_is_said(met: dict[str, Any], said: str) -> None:
    """One cell met something in one of its processes; what was met in no cell is not said."""
    record = made()
    first = record.cells[0]
    loads = [first.load[0], replace(first.load[1], **met), *first.load[2:]]
    cells = [replace(first, load=loads), *record.cells[1:]]
    (text,) = weaknesses(analyse(replace(record, cells=cells)))
    assert said in text


def test_rows_of_fewer_processes_are_counted() -> None:
    """One row of the run lost a process."""
    record = made()
    run = record.cells[0].runs[3]
    keep = [place for place, process in enumerate(run.samples.process) if process < 2]
    fields = ("process", "block", "calls", "seconds")
    few = {name: [getattr(run.samples, name)[place] for place in keep] for name in fields}
    runs = [*record.cells[0].runs[:3], replace(run, samples=Samples(**few)),
            *record.cells[0].runs[4:]]  # fmt: skip
    cell = replace(record.cells[0], runs=runs)
    (text,) = weaknesses(analyse(replace(record, cells=[cell, *record.cells[1:]])))
    assert text.startswith("1 of ")


def cards(record: Record) -> list[str]:
    """The headlines as text."""
    return list(map(str, cards_of(record, summary_table(analyse(record)))))


def test_headlines_and_tables_say_why_there_is_no_interval() -> None:
    """The ratio stands there with the number of processes, and no verdict."""
    for count, words in ((1, "no interval: 1 process)"), (2, "no interval: 2 processes)")):
        record = made(count)
        assert all(words in text for text in cards(record))
        table = runs_table(analyse(record))
        assert table["speedup"].notna().any()
        assert table[["speedup_low", "call_s_low", "fusion_gain_high"]].isna().all(axis=None)
        assert set(table["verdict"]) <= {"", Verdict.NOT_MEASURED}
        shown = display("runs", EVERY["runs"].title, table)
        place = [column.name for column in shown.columns].index("speedup")
        texts = {line.entries[place].interval for line in shown.lines if line.entries[place].text}
        assert texts == {words.rstrip(")")}
    assert all("95% interval" in text for text in cards(made()))


def test_headlines_are_no_narrower_than_the_noise() -> None:
    """Where equal things differ by a factor of two, so do the ends of every interval."""
    record = made(factor=2.0)
    analysis = analyse(record)
    assert analysis.floor is not None
    table = summary_table(analysis)
    for line in (table[table["speedup"].notna()], runs_table(analysis).dropna(subset="speedup")):
        for value, low, high in zip(line["speedup"], line["speedup_low"], line["speedup_high"],
                                    strict=True):  # fmt: skip
            assert low <= value / analysis.floor.ratio * 1.0001
            assert high >= value * analysis.floor.ratio / 1.0001
    assert Verdict.SAME not in {row.verdict for row in analysis.rows}


def test_the_banner_stands_before_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of weak figures alone."""
    monkeypatch.setattr(charts, "CHARTS", CHARTS[:1])  # drawing all of them takes time
    for name, record in (("weak", made(2, 2.0, FEW[:1])), ("strong", made(3, 1.0, FEW[:1]))):
        save(record, tmp_path / name / "record.json")
        text = render(tmp_path / name).read_text(encoding="utf-8")
        assert ('class="banner"' in text) is (name == "weak")
        if name == "weak":
            banner = text.index('class="banner"')
            assert banner < text.index("<h1>") < text.index('class="card"')
            assert banner < text.index("Equal things differed by a factor") < text.index("<h1>")
            assert "no interval: 2 processes" in text


def test_the_terminal_says_it_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the means; and as data."""
    record = made(2, 2.0)
    summary.print_summary(record, Path("run"), None, False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("weak figures: ") for line in lines[:3]] == [True, True, False]
    summary.print_summary(record, Path("run"), None, True)
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert len(told["weaknesses"]) == 2
    summary.print_summary(made(), Path("run"), None, False)
    assert "weak figures" not in capsys.readouterr().out


def test_a_comparison_says_it_of_both_runs() -> None:
    """And judges no row of two processes, nor one within the noise of either run."""
    quiet, few, noisy = made(), made(2), made(factor=2.0)
    found = compare_records(quiet, few)
    assert {row.verdict for row in found.timed} == {"not measured"}
    assert any("Measured in 2 processes" in note for note in found.notes)
    assert "no interval: 2 processes" in comparison_output.as_text(found, whole=True)
    found = compare_records(quiet, noisy)
    assert {row.verdict for row in found.timed} == {"inconclusive"}
    assert any("Equal things differed" in note for note in found.notes)
    for row in found.timed:
        assert row.ratio is not None
        assert row.ratio.low is not None
        assert row.ratio.low * 1.9 < row.ratio.value


def test_a_large_difference_is_a_factor() -> None:
    """Percents of hundreds say nothing to a reader."""
    assert [apart(each) for each in (1.008, 1.5, 30.0)] == ["0.8%", "50.0%", "a factor of 30"]
