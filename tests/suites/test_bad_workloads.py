"""A workload with a mistake costs its own rows, which say what it is, and nobody else's."""

import math

import pytest

from fuser.reports.record import Record
from fuser.suites import pace as paces
from fuser.suites.engine import Engine
from fuser.suites.pace import Pace, pace
from fuser.suites.plan import CellPlan, Plan, variants_for
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
    "HALF_HANGING": "said nothing for 6 s and was stopped, in the workload itself",
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
        ceilings=False, stall_s=6.0,
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


def test_the_pace_is_taken_where_it_can_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload that hangs has no end, one that raises or kills takes no time."""
    module = bad_workloads.MODULE
    assert pace(f"{module}:GOOD", "float32").call_s > 0
    assert pace(f"{module}:RAISING", "float32") == Pace(0.0)
    assert pace(f"{module}:KILLING", "float32") == Pace(0.0)
    monkeypatch.setattr(paces, "PATIENCE_S", 3.0)
    assert math.isinf(pace(f"{module}:HANGING", "float32").call_s)
    cell = CellPlan(f"{module}:HANGING", "float32", 64, "S")
    plan = Plan([cell], variants_for(["eager", "fused"]))
    for each in plan.variants:
        assert "did not end a call on 16 elements" in (plan.too_long(cell, each) or "")
    assert plan.estimate_s() < 30
