"""Rows over many runs: steps are found where they are, dated, and drawn; noise has none."""

import math
import random
import re
from dataclasses import replace

import pytest

from fuser.reports.history import Line, Point, histories, slower_since, steps_of
from fuser.reports.history_page import change_of, page
from fuser.reports.record import Machine, Record
from tests.reports import synthetic


def _noisy(levels: list[tuple[int, float]], spread: float = 0.02, seed: int = 1) -> list[float]:
    generator = random.Random(seed)
    return [level * math.exp(generator.gauss(0, spread)) for runs, level in levels
            for _ in range(runs)]  # fmt: skip


def test_steps_are_found_where_they_are() -> None:
    """One down and one up, with their sizes."""
    steps = steps_of(_noisy([(8, 4.0), (7, 3.0), (9, 5.0)]))
    assert [step.place for step in steps] == [8, 15]
    assert [step.ratio for step in steps] == pytest.approx([0.75, 1.67], abs=0.04)


@pytest.mark.parametrize("seed", range(20))
def test_noise_has_few_steps(seed: int) -> None:
    """Thirty runs of one level have none."""
    assert steps_of(_noisy([(30, 4.0)], 0.03, seed)) == []


def test_equal_runs_and_few_runs_have_none() -> None:
    """A thousandth is no step, and three runs tell nothing."""
    assert steps_of([2.0, 2.0, 2.0, 2.0, 2.002, 2.002]) == []
    assert steps_of([1.0, 1.0, 9.0]) == []


def _slowed(record: Record, factor: float) -> Record:
    """A record whose fused rows took longer."""
    cells = []
    for cell in record.cells:
        runs = []
        for run in cell.runs:
            seconds = tuple(s * factor for s in run.samples.seconds)
            samples = replace(run.samples, seconds=seconds)
            runs.append(replace(run, samples=samples) if run.variant == "fused" else run)
        cells.append(replace(cell, runs=runs))
    return replace(record, cells=cells)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Eight runs of one machine, the last four of a slower commit; one run of another machine."""
    made = synthetic.record(workloads=synthetic.WORKLOADS[:1])
    runs = [
        replace(
            _slowed(made, 1.0 if k < 4 else 1.5), run_id=f"run{k}", commit=f"{k}" * 12,
            created_utc=f"2026-01-0{k + 1}T00:00:00Z",
        )
        for k in range(8)
    ]  # fmt: skip
    other = replace(runs[0], run_id="other", machine=Machine("another processor", 64))
    return [*reversed(runs), other, runs[0]]


def test_a_step_is_dated_to_the_commits_around_it(records: list[Record]) -> None:
    """Runs are sorted by time, a run given twice counts once, other machines are apart."""
    lines = [line for line in histories(records) if line.variant == "fused"]
    assert lines
    for line in lines:
        assert [point.run for point in line.points] == [f"run{k}" for k in range(8)]
        (step,) = line.steps
        assert step.ratio == pytest.approx(1 / 1.5, rel=0.05)
        assert line.dated(step) == f"{'3' * 10}..{'4' * 10}"
    assert "another processor" not in {line.machine for line in lines}


def test_what_got_slower_since_a_release(records: list[Record]) -> None:
    """By the beginning of a commit, or a run's name; unknown ones are an error."""
    lines = histories(records)
    for release in ("2222", "run2"):
        found = slower_since(lines, release)
        assert {each.line.variant for each in found} == {"fused"}
        assert found[0].ratio == pytest.approx(1 / 1.5, rel=0.05)
    assert slower_since(lines, "run5") == []
    with pytest.raises(LookupError):
        slower_since(lines, "nothing")


def test_the_page_says_and_draws_it(records: list[Record]) -> None:
    """Tables, drawings with words for those who do not see them, and no link to elsewhere."""
    lines = histories(records)
    text = page(lines, slower_since(lines, "run2"), "run2")
    assert "Slower since run2" in text
    assert "1.50 times as slow" in text or "1.51 times as slow" in text
    assert text.count("<svg") == sum(1 for line in lines if line.steps)
    assert 'role="img" aria-label="' in text
    assert not re.findall(r"(?:src|href)=.(?!#|data:)", text)
    assert "No row is in two runs" in page([], [])


def test_a_step_between_runs_of_one_commit_names_the_run() -> None:
    """Or of no commit."""
    points = [Point(f"r{k}", "2026", "", 1.0 + (k > 3), None, None) for k in range(8)]
    line = Line("m", "c", "fused", points, steps_of([p.speedup for p in points]))
    assert line.dated(line.steps[0]) == "r4 (no commit)"
    assert change_of(0.5) == "2.00 times as slow"
