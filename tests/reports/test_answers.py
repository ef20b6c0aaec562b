"""The three questions of the first screen."""

from dataclasses import replace

import pytest

from fuser.reports.analysis import analyse
from fuser.reports.answers import answers_of
from fuser.reports.headline import cards_of
from fuser.reports.record import Record
from fuser.reports.tables import summary_table
from tests.reports import synthetic


@pytest.fixture(scope="module")
def record() -> Record:
    """Every workload at two sizes."""
    return synthetic.record()


def _said(record: Record) -> dict[str, str]:
    return {each.question: " ".join(each.sentences) for each in answers_of(analyse(record))}


def test_all_three_are_answered_in_words(record: Record) -> None:
    """With the sizes that were measured, an interval, bytes and launches."""
    said = _said(record)
    assert list(said) == ["How much faster?", "Why?", "Where not?"]
    assert "On small arrays (4,096 elements)" in said["How much faster?"]
    assert "On large arrays (16,777,216 elements)" in said["How much faster?"]
    assert "times as fast as plain NumPy (95% interval " in said["How much faster?"]
    assert "times as many bytes as the kernels do" in said["Why?"]
    assert "operations of NumPy become" in said["Why?"]
    assert "Slower than NumPy: no row." in said["Where not?"]
    assert "sort_rows (small)" in said["Where not?"]
    assert "tone_mapping (large) (fell back)" in said["Where not?"]


def test_one_process_has_no_interval() -> None:
    """Two have none either."""
    said = _said(synthetic.record(processes=2, workloads=synthetic.WORKLOADS[:2]))
    assert "(no interval: 2 processes)" in said["How much faster?"]


def test_slower_rows_are_named(record: Record) -> None:
    """The first few, and how many more."""
    slowed = []
    for cell in record.cells:
        runs = [
            replace(run, samples=replace(
                run.samples, seconds=[200 * each for each in run.samples.seconds]
            )) if run.variant == "fused" else run
            for run in cell.runs
        ]  # fmt: skip
        slowed.append(replace(cell, runs=runs))
    said = _said(replace(record, cells=slowed))["Where not?"]
    assert "Slower than NumPy: add (small, 0.0" in said
    assert " more." in said


def test_nothing_fused_has_no_answer(record: Record) -> None:
    """Nor an empty run."""
    variants = [each for each in record.variants if each.kind == "eager"]
    cells = [replace(each, runs=[r for r in each.runs if r.variant == "eager"])
             for each in record.cells]  # fmt: skip
    assert answers_of(analyse(replace(record, variants=variants, cells=cells))) == []
    assert answers_of(analyse(synthetic.empty())) == []


def test_an_interval_that_spans_one_shows_no_difference(record: Record) -> None:
    """In the sentence and on the card; no row of such a run gains most."""
    noisy = []
    for cell in record.cells:
        runs = [
            replace(run, samples=replace(run.samples, seconds=[
                each * (1, 40, 0.02)[process % 3] for each, process in
                zip(run.samples.seconds, run.samples.process, strict=True)
            ])) if run.variant == "fused" else run
            for run in cell.runs
        ]  # fmt: skip
        noisy.append(replace(cell, runs=runs))
    spread = replace(record, cells=noisy)
    assert "which spans 1: no difference is shown" in _said(spread)["How much faster?"]
    assert "Most is gained" not in _said(spread)["How much faster?"]
    cards = [str(each) for each in cards_of(spread, summary_table(analyse(spread)))]
    assert any("which spans 1: no difference is shown" in each for each in cards)
