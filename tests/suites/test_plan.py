"""Plans: presets, groups of processes, estimates, and how blocks are shared out."""

import pytest

from fuser.suites import plan as plans
from fuser.suites.plan import CellPlan, Plan, blocks_within, eager_estimate_s, variants_for
from fuser.suites.registry import resolve
from tests.suites import cheats


def test_the_quick_preset_is_what_it_says() -> None:
    """12 to 16 workloads, float32, two sizes, a six-size sweep for three of them."""
    cells = plans.quick_cells()
    names = {cell.workload for cell in cells}
    assert 12 <= len(names) <= 16
    assert {cell.dtype for cell in cells} == {"float32"}
    sizes = {name: sum(cell.workload == name for cell in cells) for name in names}
    assert sorted(sizes.values())[-3:] == [6, 6, 6]
    assert set(sizes.values()) == {2, 6}
    assert len({cell.id for cell in cells}) == len(cells)


def test_the_full_preset_has_every_workload_and_dtype() -> None:
    """And the quick cells among them."""
    full = {cell.id for cell in plans.full_cells()}
    assert {cell.id for cell in plans.quick_cells()} <= full


def test_ids_are_stable() -> None:
    """A cell's ID is its workload, dtype and number of elements."""
    assert CellPlan("axpy", "float32", 64, "sweep").id == "axpy-float32-64"


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


def test_the_estimate_grows_with_size_and_operations() -> None:
    """One element costs microseconds, four million of 66 operations a second or so."""
    chain = resolve("cos_sin_chain")
    small = eager_estimate_s(chain, CellPlan("cos_sin_chain", "float32", 1, "S"))
    large = eager_estimate_s(chain, CellPlan("cos_sin_chain", "float32", 4 << 20, "L"))
    cheap = eager_estimate_s(resolve("axpy"), CellPlan("axpy", "float32", 4 << 20, "L"))
    assert small < 1e-3 < cheap < large / 50 < 1


def test_blocks_are_shared_by_cost() -> None:
    """Cheap cells get the most, what they leave goes to the dear ones, none less than the least."""
    assert blocks_within(10.0, [0.001, 1.0, 100.0], 3, 30) == [30, 4, 3]
    assert blocks_within(-1.0, [1.0], 2, 5) == [2]
    assert blocks_within(1.0, [], 1, 2) == []
