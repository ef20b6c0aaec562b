"""Two runs compared: every finding, every exit code, from its cause."""

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from fuser.reports import comparison_output as output
from fuser.reports.comparison import Comparison, Outcome, TimedRow, compare_records
from fuser.reports.record import Machine, Record, Run, Samples
from fuser.reports.statistics import Estimate, ratio_between
from tests.reports import synthetic

NAME = "axpy-float32-16777216"
FEW = tuple(each for each in synthetic.WORKLOADS if each.name in ("axpy", "gelu_bias"))


@pytest.fixture(scope="module")
def base() -> Record:
    """A quiet run of two workloads in five processes."""
    return synthetic.record(processes=5, blocks=6, noise=0.001, workloads=FEW)


def changed(
    record: Record, change: Callable[[Run], Run | None], variant: str = "fused", cell: str = NAME
) -> Record:
    """The record with one run changed, or taken out where the change gives None."""
    cells = []
    for each in record.cells:
        runs = [
            change(run) if (each.id, run.variant) == (cell, variant) else run for run in each.runs
        ]
        cells.append(replace(each, runs=[run for run in runs if run is not None]))
    return replace(record, cells=cells, run_id="20261120T100000Z-000001")


def slower(factor: float) -> Callable[[Run], Run]:
    """A change that makes a run slower."""

    def change(run: Run) -> Run:
        seconds = [each * factor for each in run.samples.seconds]
        return replace(run, samples=replace(run.samples, seconds=seconds))

    return change


def counted(**counts: object) -> Callable[[Run], Run]:
    """A change of what was counted."""
    return lambda run: replace(run, **counts)  # type: ignore[arg-type]


def test_a_run_against_itself_is_ok(base: Record) -> None:
    """Every row is the same within the margin, nothing counted differs."""
    found = compare_records(base, base)
    assert found.outcome() == Outcome.OK
    assert {row.verdict for row in found.timed} == {"same"}
    assert not found.changes
    assert not found.missing
    assert found.counted > 4


def test_another_quiet_run_is_ok(base: Record) -> None:
    """Other samples of the same code: no regression is made up."""
    again = synthetic.record(processes=5, blocks=6, noise=0.001, workloads=FEW, seed=7)
    assert compare_records(base, again, margin=0.1).outcome() == Outcome.OK


def test_a_slower_row_is_a_regression(base: Record) -> None:
    """By 20%; a faster one is none; a row of a peer does not gate."""
    found = compare_records(base, changed(base, slower(1.2)))
    assert found.outcome() == Outcome.REGRESSION
    row = next(each for each in found.timed if each.verdict == "slower")
    assert (row.cell, row.variant, row.basis) == (NAME, "fused", "relative to eager")
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(1.2)
    faster = compare_records(base, changed(base, slower(0.8)))
    assert faster.outcome() == Outcome.OK
    assert [each.verdict for each in faster.timed].count("faster") == 1
    peers = [each.name for each in base.variants if each.kind == "peer"]
    for name in peers[:1]:
        slow_peer = compare_records(base, changed(base, slower(2.0), variant=name))
        assert slow_peer.outcome() == Outcome.OK


def test_a_slower_machine_is_no_regression(base: Record) -> None:
    """Eager is slower too: the ratio to it stays."""
    head = base
    for cell in base.cells:
        for run in cell.runs:
            head = changed(head, slower(1.5), variant=run.variant, cell=cell.id)
    assert compare_records(base, head).outcome() == Outcome.OK


@pytest.mark.parametrize("name", ["kernels", "planned_bytes", "allocations", "compilations"])
def test_counts_need_no_clock(base: Record, name: str) -> None:
    """More is a regression, fewer an improvement, unknown on one side nothing."""
    low, high = (changed(base, counted(**{name: count})) for count in (3, 4))
    unknown = changed(base, counted(**{name: None}))
    worse = compare_records(low, high, timed=False)
    assert worse.outcome() == Outcome.REGRESSION
    assert [(each.what, each.base, each.head) for each in worse.changes] == [
        (name.replace("_", " "), "3", "4")
    ]
    better = compare_records(high, low, timed=False)
    assert (better.outcome(), better.changes[0].kind) == (Outcome.OK, "improvement")
    assert compare_records(unknown, high, timed=False).outcome() == Outcome.OK


def test_another_text_is_a_change_or_a_regression_as_asked(base: Record) -> None:
    """On the same processor; on another the text says nothing."""
    first, second = (changed(base, counted(text_hashes={"cpu": name * 32})) for name in "ab")
    found = compare_records(first, second, timed=False)
    assert (found.outcome(), [each.kind for each in found.changes]) == (Outcome.OK, ["changed"])
    strict = compare_records(first, second, timed=False, same_text=True)
    assert strict.outcome() == Outcome.REGRESSION
    elsewhere = replace(second, machine=Machine("another processor", 2))
    found = compare_records(first, elsewhere, timed=False, same_text=True)
    assert found.outcome() == Outcome.OK
    assert "processors differ" in found.notes[0]


def test_a_row_that_falls_back_now_is_a_regression(base: Record) -> None:
    """Whatever its time."""
    head = changed(base, counted(status="fell_back", reason="sort has no fused form"))
    found = compare_records(base, head, timed=False)
    assert found.outcome() == Outcome.REGRESSION
    assert "sort has no fused form" in found.changes[0].head


@pytest.mark.parametrize(
    "change",
    [
        lambda run: None,
        lambda run: replace(run, status="failed", reason="no such kernel", samples=Samples()),
        lambda run: replace(run, samples=Samples()),
    ],
)
def test_a_missing_row_is_said(base: Record, change: Callable[[Run], Run | None]) -> None:
    """Not in the run, failed, or never timed."""
    found = compare_records(base, changed(base, change))
    assert found.outcome() == Outcome.NOTHING
    assert [each[:2] for each in found.missing] == [(NAME, "fused")]


def test_many_missing_rows_are_one_line(base: Record) -> None:
    """A whole run beside one cell: how many, the first ones, why; all of them in JUnit XML."""
    found = compare_records(base, replace(base, cells=base.cells[:1]))
    assert len(found.missing) > output.MOST_MISSING
    lines = [each for each in output.as_text(found).splitlines() if each.startswith("  missing ")]
    more = len(found.missing) - output.MOST_MISSING
    assert lines[0].startswith(f"  missing      {len(found.missing)} rows: the run has no such row")
    assert lines[0].endswith(f"and {more} more")
    assert " ".join(found.missing[0][:2]) in lines[0]
    assert len(lines) == 1
    assert f"| missing | `{len(found.missing)} rows` |" in output.as_markdown(found)
    suite = ElementTree.fromstring(output.as_junit(found))[0]
    assert suite.get("errors") == str(len(found.missing))
    assert found.outcome() == Outcome.NOTHING


def test_nothing_measured_is_no_success() -> None:
    """Two empty runs differ in nothing and prove nothing."""
    empty = synthetic.empty()
    assert compare_records(empty, empty).outcome() == Outcome.NOTHING


def test_a_wrong_result_comes_first(base: Record) -> None:
    """Even where other rows are slower or missing."""
    head = changed(base, lambda run: None, variant="unfused")
    head = changed(head, counted(status="wrong", reason="off by one", samples=Samples()))
    assert compare_records(base, head).outcome() == Outcome.WRONG


def test_too_few_or_too_noisy_processes_are_inconclusive(base: Record) -> None:
    """One process has no interval; noise hides a difference of the margin's size."""
    one = synthetic.record(processes=1, blocks=6, noise=0.001, workloads=FEW)
    found = compare_records(one, one)
    assert {row.verdict for row in found.timed} == {"not measured"}
    assert found.outcome() == Outcome.INCONCLUSIVE
    noisy = [
        synthetic.record(processes=2, blocks=2, noise=0.2, workloads=FEW, seed=seed)
        for seed in (1, 2)
    ]
    assert compare_records(*noisy).outcome() in (Outcome.INCONCLUSIVE, Outcome.REGRESSION)


def test_the_margin_is_positive(base: Record) -> None:
    """Else nothing could be the same."""
    with pytest.raises(ValueError, match="margin"):
        compare_records(base, base, margin=0.0)


def test_welchs_interval_covers(base: Record) -> None:
    """95% of intervals hold the true ratio, with few processes and unequal spreads."""
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        first = dict(enumerate(generator.normal(0.0, 0.01, 4)))
        second = dict(enumerate(generator.normal(0.1, 0.03, 6)))
        found = ratio_between(first, second)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low < np.exp(0.1) < found.high
    assert 925 <= held <= 975
    assert ratio_between({}, {0: 1.0}) is None
    single = ratio_between({0: 0.0}, {0: 1.0})
    assert single is not None
    assert single.low is None


def _all_findings(base: Record) -> Comparison:
    head = changed(base, slower(1.2))
    head = changed(head, counted(kernels=9), variant="unfused")
    return compare_records(base, head)


def test_markdown_and_text_name_every_finding(base: Record) -> None:
    """The answer first, then one row a finding with its ratio and interval."""
    found = _all_findings(base)
    markdown, text = output.as_markdown(found), output.as_text(found)
    assert markdown.startswith("### fuser-bench: regression\n")
    assert f"| slower | `{NAME}` | fused | time, relative to eager: 1.2 [" in markdown
    assert f"| regression | `{NAME}` | unfused | kernels:" in markdown
    assert text.startswith("regression: ")
    assert text.splitlines()[2].startswith(f"  slower       {NAME} fused: ")
    assert output.as_markdown(compare_records(base, base)).startswith("### fuser-bench: no regr")


def test_ten_lines_lead_with_what_is_slowest_and_fold_the_rest(base: Record) -> None:
    """Seven slower rows, two faster ones, what is inconclusive, and three notes."""
    ratios = [1.1, 1.5, 1.3, 1.2, 1.6, 1.7, 1.4, 0.5, 0.6]
    rows = [
        TimedRow(
            f"cell{place}", "fused", "seconds", Estimate(ratio, ratio, ratio, 3),
            "slower" if ratio > 1 else "faster", gated=True,
        )
        for place, ratio in enumerate(ratios)
    ]
    unknown = [replace(rows[0], cell=f"odd{place}", verdict="inconclusive") for place in range(30)]
    found = Comparison("a", "b", [], [*unknown, *rows], [], [], ["one", "two", "three"], 39, 0.05)
    lines = output.as_text(found).splitlines()
    assert len(lines) == 10
    assert [line.split()[1] for line in lines[2:8]] == [f"cell{at}" for at in (5, 4, 1, 6, 2, 3)]
    assert lines[8] == "  further: 1 slower, 2 faster, 30 inconclusive (--all shows them)"
    assert lines[9] == "  note: one (2 more notes: --all)"
    whole = output.as_text(found, whole=True).splitlines()
    assert len(whole) == 2 + 39 + 3
    markdown = output.as_markdown(found)
    folded = markdown.index("<details><summary>further: 1 slower, 2 faster, 30 inconclusive")
    assert markdown.index("`cell3`") < folded < markdown.index("`cell0`") < markdown.index("`odd0`")


def test_the_answer_counts_our_rows_apart_and_names_what_slowed_first(base: Record) -> None:
    """A row that is not gated is no part of the answer."""
    text = output.headline(_all_findings(base))
    times, others = text.split("; times: ")[1].split("; times of NumPy's rows and other fusers': ")
    assert times.startswith("1 slower, ")
    assert "slower" not in others


def test_runs_under_other_circumstances_are_noted(base: Record) -> None:
    """Switches and threads change the speed of the same code; a budget does not."""
    settings = {**base.settings, "switches": "FUSER_NUM_THREADS=1", "budget_s": 7.0}
    notes = compare_records(base, replace(base, settings=settings)).notes
    assert notes == ["switches: none in the base, FUSER_NUM_THREADS=1 in the head"]


def test_junit_counts_failures(base: Record) -> None:
    """A CI system shows what failed: two failures here, and the rows that passed."""
    suite = ElementTree.fromstring(output.as_junit(_all_findings(base)))[0]
    assert (suite.get("failures"), suite.get("errors")) == ("2", "0")
    assert int(suite.get("tests", "0")) == len(suite) > 4
    missing = compare_records(base, changed(base, lambda run: None))
    suite = ElementTree.fromstring(output.as_junit(missing))[0]
    assert suite.get("errors") == "1"
    assert output.as_data(missing)["exit_code"] == 3


def test_a_reason_of_several_lines_stays_one_line(base: Record) -> None:
    """An error's own text may hold line breaks and control characters, which XML forbids."""
    bad = counted(status="wrong", reason="off\nby \x1b[31mone\x00", samples=Samples())
    found = compare_records(base, changed(base, bad))
    assert "off by [31mone" in output.as_text(found)
    assert f"| wrong | `{NAME}` | fused | off by [31mone |" in output.as_markdown(found)
    suite = ElementTree.fromstring(output.as_junit(found))[0]
    assert suite.get("errors") == "1"
