"""A workload with a mistake costs its own rows, which say what it is, and nobody else's."""

import math
import subprocess
from typing import Any

import pytest

from fuser.reports.record import Record
from fuser.suites import pace as paces
from fuser.suites import plan as plans
from fuser.suites.engine import Engine
from fuser.suites.pace import Pace, pace
from fuser.suites.plan import CellPlan, Plan, variants_for
from fuser.suites.workload import SIZES, Workload, normals, sizes_of
from tests.suites import bad_workloads, cheats

RIGHT = "right"
REASONS = {
    "RAISING": "the workload itself raised RuntimeError: no such values",
    "RAISING_LATER": "RuntimeError: once too often",
    "REFUSING_NAN": RIGHT,
    "KILLING": "was ended by SIGKILL, in the workload itself",
    "NOTHING": "returns no arrays of numbers",
    "WRITING": "writes into its arguments",
    "NO_INPUTS": "the workload itself raised ZeroDivisionError",
    "GOOD": RIGHT,
}


@pytest.fixture(scope="module")
def run() -> Record:
    """One run of one process with all of them: more die than a run restarts at any price."""
    cells = [
        CellPlan(f"{bad_workloads.MODULE}:{name}", "float32", 64, "S") for name in REASONS
    ]
    variants = variants_for(["eager", cheats.spec(cheats.Honest)])
    return Engine(Plan(
        cells, variants, processes=1, budget_s=60.0, least_sample_s=1e-4, most_blocks=4,
        ceilings=False,
    )).run()


@pytest.mark.parametrize("name", REASONS)
def test_each_row_says_what_is_wrong(run: Record, name: str) -> None:
    """All rows of the cell have the reason, or all are timed."""
    cell = run.cells[list(REASONS).index(name)]
    assert len(cell.runs) == 3
    for row in cell.runs:
        if REASONS[name] == RIGHT:
            assert row.status == "ok"
            assert row.samples.seconds
        else:
            assert row.status == "failed"
            assert REASONS[name] in row.reason


def test_a_workload_that_hangs_where_no_row_is_timed_is_stopped() -> None:
    """Here in the call that says what is right: all its rows go, after the stall limit."""
    cell = CellPlan(f"{bad_workloads.MODULE}:HALF_HANGING", "float32", 64, "S")
    found = Engine(Plan(
        [cell], variants_for(["eager"]), processes=1, budget_s=2.0, ceilings=False, stall_s=3.0,
    )).run()
    assert found.finished
    for row in found.cells[0].runs:
        assert "said nothing for 3 s and was stopped, in the workload itself" in row.reason


def test_the_pace_is_taken_where_it_can_do_no_harm() -> None:
    """In another process: one that raises or kills takes no time."""
    module = bad_workloads.MODULE
    assert pace(f"{module}:GOOD", "float32").call_s > 0
    assert pace(f"{module}:RAISING", "float32") == Pace(0.0)
    assert pace(f"{module}:KILLING", "float32") == Pace(0.0)


@pytest.mark.parametrize(
    ("said", "call_s"),
    [("", 0.0), (f"{paces.BEGUN}\n", math.inf), (f"{paces.BEGUN}\na word\ncall_s 0.25\n", 0.25)],
)
def test_what_is_known_of_a_call_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch, said: str, call_s: float
) -> None:
    """Nothing where its process had no time to begin; else that it hangs, or for many elements."""

    def run(*_command: object, **_options: object) -> None:
        raise subprocess.TimeoutExpired("pace", 1.0, said.encode())

    monkeypatch.setattr(subprocess, "run", run)
    assert paces._pace_elsewhere(f"{bad_workloads.MODULE}:HANGING", "float32").call_s == call_s


def test_a_workload_that_hangs_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """By nobody, and the run is not held up."""
    monkeypatch.setattr(plans, "pace", lambda spec, dtype: Pace(math.inf))
    cell = CellPlan(f"{bad_workloads.MODULE}:HANGING", "float32", 64, "S")
    plan = Plan([cell], variants_for(["eager", "fused"]))
    for each in plan.variants:
        assert "did not end a call on 16 elements" in (plan.too_long(cell, each) or "")
    assert plan.estimate_s() < 30


def test_the_pace_is_taken_on_no_more_elements_than_a_workload_is_for() -> None:
    """A program of many steps an element would not end on half a million of them."""
    seen: list[int] = []

    def cubic(x: Any) -> Any:
        seen.append(x.size)
        return x * 2

    for sizes, most in ((sizes_of(100, 900, 10_000), 900), (SIZES, paces.MANY)):
        seen.clear()
        few_s, _ = paces._calls_s(
            Workload("cubic", "mine", "a table", cubic, normals(1), sizes=sizes), "float64"
        )
        assert max(seen) == most
        assert few_s > 0


def test_what_the_arguments_promise_holds_in_every_check() -> None:
    """Factors without pivots of a matrix whose diagonal was moved would be anybody's guess."""
    found = Engine(Plan(
        [CellPlan("lu", "float64", 4096, "S")] * 2, variants_for(["eager", "fused"]), processes=1,
        budget_s=2.0, ceilings=False, most_blocks=3,
    )).run()
    assert [(row.status, row.reason) for cell in found.cells for row in cell.runs] == [
        ("ok", "")
    ] * len(found.cells) * len(found.cells[0].runs)
