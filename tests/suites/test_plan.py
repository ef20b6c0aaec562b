"""Plans: presets, groups of processes, estimates, and how blocks are shared out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fuser.suites import pace
from fuser.suites import plan as plans
from fuser.suites.plan import CellPlan, Plan, blocks_within, eager_estimate_s, variants_for
from fuser.suites.registry import resolve
from tests.suites import cheats


def test_ids_are_stable() -> None:
    """A cell's ID is its workload, dtype and number of elements."""
    assert CellPlan("axpy", "float32", 64, "sweep").id == "axpy-float32-64"
    rows = CellPlan("softmax", "float32", 64, "sweep", (("hidden", 7),))
    assert rows.id == "softmax-float32-64-hidden7"


def test_eager_comes_with_its_twin() -> None:
    """The A/A pair; a runner that cannot be imported is absent, with the reason."""
    variants = variants_for(["eager", "nosuchmodule:Runner"])
    assert [(each.name, each.kind) for each in variants[:2]] == [
        ("eager", "eager"), ("eager_again", "aa"),
    ]
    assert "nosuchmodule" in (variants[2].absent_reason or "")
    with pytest.raises(KeyError):
        variants_for(["nosuchrunner"])


def test_peers_get_processes_with_eager_alone() -> None:
    """Ours share one process; each peer has its own, where eager runs beside it."""
    names = ["eager", cheats.spec(cheats.Honest), cheats.spec(cheats.Peer)]
    plan = Plan([], variants_for(names), processes=2)
    groups = [[each.kind for each in group] for group in plan.groups()]
    assert groups == [["eager", "aa", "fused"], ["eager", "peer"]]
    assert plan.worker_count() == 4


def test_results_go_into_given_arrays_where_memory_or_the_call_is_the_point() -> None:
    """Large arrays, and tiny ones of workloads that are for it."""
    into = next(each for each in variants_for(["fused_into"]))
    plan = Plan([], [into])
    large, small = (CellPlan("axpy", "float32", n, "S") for n in (1 << 20, 1 << 10))
    assert plan.wants(large, into)
    assert not plan.wants(small, into)
    assert plan.wants(CellPlan("multiply_add", "float32", 1, "S"), into)


def test_the_estimate_grows_with_size_and_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One element costs least, four million of 66 operations more than of two."""

    def timed(function: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> tuple[float]:
        operations = 66 if function is resolve("cos_sin_chain").function else 2
        return (1e-6 + 1e-9 * operations * max(a.size for a in arguments if np.ndim(a)),)

    monkeypatch.setattr(pace, "timed_calls", timed)
    # What was measured by others is left to them.
    monkeypatch.setattr(plans, "pace", pace.pace.__wrapped__)
    small = eager_estimate_s(CellPlan("cos_sin_chain", "float32", 1, "S"))
    large = eager_estimate_s(CellPlan("cos_sin_chain", "float32", 4 << 20, "L"))
    cheap = eager_estimate_s(CellPlan("axpy", "float32", 4 << 20, "L"))
    assert small < cheap < large / 5


def test_the_estimate_is_the_budget_as_far_as_it_can_be_used() -> None:
    """Never below what the fewest blocks need, never above what the most could use."""
    cells = [CellPlan(f"{cheats.MODULE}:DOUBLE", "float32", 64, "S")]
    plan = Plan(cells, variants_for(["eager"]), processes=2)
    least_s, most_s = plan.bounds_s()
    assert 2 < least_s < most_s < plan.budget_s
    assert plan.estimate_s() == most_s
    assert replace(plan, budget_s=0.1).estimate_s() == least_s


def test_blocks_are_shared_by_cost() -> None:
    """Cheap cells get the most, what they leave goes to the dear ones, none less than the least."""
    assert blocks_within(10.0, [0.001, 1.0, 100.0], 3, 30) == [30, 4, 3]
    assert blocks_within(-1.0, [1.0], 2, 5) == [2]
    assert blocks_within(1.0, [], 1, 2) == []
