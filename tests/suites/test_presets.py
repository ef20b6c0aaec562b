"""Presets: which cells they have, beside whom, and how another checkout joins them."""

import pytest

from fuser.suites import presets
from fuser.suites.plan import of_checkout, variants_for
from fuser.suites.registry import program_workloads, resolve, workloads


def test_the_quick_preset_is_what_it_says() -> None:
    """15 to 18 workloads of most families, one dtype, two sizes, a longer sweep for three."""
    cells = presets.quick_cells()
    names = {cell.workload for cell in cells}
    assert 15 <= len(names) <= 18
    assert len({resolve(name).family for name in names}) >= 12
    assert {cell.dtype for cell in cells} == {"float32"}
    sizes = {name: sum(cell.workload == name for cell in cells) for name in names}
    assert sorted(sizes.values())[-3:] == [6, 6, 6]
    assert set(sizes.values()) == {2, 6}
    assert not any(cell.axes for cell in cells)
    assert len({cell.id for cell in cells}) == len(cells)


def test_the_full_preset_has_every_workload_and_dtype() -> None:
    """And the quick cells among them, and every value of every axis."""
    full = {cell.id for cell in presets.full_cells()}
    assert {cell.id for cell in presets.quick_cells()} <= full
    for name, workload in workloads().items():
        for dtype in workload.dtypes:
            assert f"{name}-{dtype}-{workload.sizes['M']}" in full
    assert "softmax-float32-4194304-hidden65536" in full


def test_tables_have_their_cells() -> None:
    """Every workload at every size and dtype, each cell once; further ones are in no other."""
    cells = {name: [each.id for each in presets.table_cells(name)] for name in presets.TABLES}
    for ids in cells.values():
        assert len(set(ids)) == len(ids) > 0
    assert len(cells["peers"]) == sum(5 * len(resolve(n).dtypes) for n in presets.POINTWISE)
    assert "axpy-float64-67108864" in cells["peers"]
    assert "softmax-float32-16777216-hidden65536" in cells["rows"]
    assert "pairwise_distance-float32-16777216" in cells["rows"], "3 is the default dimension"
    further = presets.ARRAYS["others"].keys()
    assert not further & (presets.ARRAYS["peers"].keys() | presets.ARRAYS["rows"].keys())
    assert [each.partition("-")[0] for each in cells["programs"]] == [*program_workloads()]
    assert len(cells["programs"]) >= 30
    assert len(cells["calls"]) == len(presets.SMALL_CALLS)
    for name in presets.SMALL_CALLS:
        assert {"eager", "fused"} <= workloads()[name].statements.keys()


@pytest.mark.parametrize("preset", presets.TABLES)
def test_another_checkout_is_timed_beside_ours_alone(preset: str) -> None:
    """Where no variants are named: its processes take turns with ours."""
    if preset in ("dask", "device"):
        with pytest.raises(ValueError, match="no variant"):
            presets.table_plan(preset, "/other")
        return
    plan = presets.table_plan(preset, "/other")
    groups = [[each.name for each in group] for group in plan.groups()]
    if preset == "compile":
        assert groups == [["fused"], ["baseline"]]
        assert plan.cold
    elif preset == "programs":
        assert groups == [["fused"], ["baseline"]]
        assert plan.alternate
    else:
        assert groups == [["fused", "fused_into"], ["baseline", "baseline_into"]]
        assert plan.alternate
    assert {each.checkout for each in plan.variants} == {"", "/other"}
    assert not plan.ceilings
    alone = presets.table_plan(preset)
    assert not any(each.checkout for each in alone.variants)


def test_the_quick_preset_may_have_a_baseline_too() -> None:
    """With all of ours; its own variants are the fuser's."""
    plan = presets.plan_of("quick", "/other")
    assert [each.name for each in plan.groups()[-1]] == ["baseline", "baseline_into"]
    assert not of_checkout(variants_for(["eager"]), "/other")
