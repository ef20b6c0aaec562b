"""Memory tables: what crosses adds up to the plan, roofs are the measured ones."""

from dataclasses import replace

import numpy as np
import pytest

from fuser.reports import traffic_tables
from fuser.reports.analysis import Analysis, analyse
from tests.reports import synthetic

FEW = [each for each in synthetic.WORKLOADS if each.name in ("axpy", "gelu_bias")]


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """Two workloads, one of which stores an array between kernels."""
    return analyse(synthetic.record(processes=2, blocks=2, workloads=FEW))


def test_what_crosses_adds_up_to_the_planned_bytes(analysis: Analysis) -> None:
    """Largest first in each cell; the cost is the bytes at the speed of a copy."""
    table = traffic_tables.boundaries_table(analysis)
    assert set(table["workload"]) == {"gelu_bias"}
    for cell in analysis.record.cells:
        book = cell.ledger
        moved = table.loc[table["cell"] == cell.id, "moved_bytes"].sum()
        assert book.least_bytes is not None
        assert book.least_bytes + moved == book.planned_bytes
    first = table.iloc[0]
    assert first["kind"] == "stored"
    assert first["kernels"] == "0 → 1, 2"
    assert table.iloc[1]["kernels"] == "argument → 0, 1"
    assert first["moved_bytes"] / first["cost_s"] == pytest.approx(60e9, rel=0.1)


def test_a_cost_is_estimated_where_no_copy_was_timed_in_the_cache_level() -> None:
    """At the speed of the copy with the nearest working set; without any, not at all."""
    few = [each for each in synthetic.WORKLOADS if each.name == "gelu_bias"]
    made = synthetic.record(processes=1, blocks=2, workloads=few)
    near = [each for each in made.ceilings if each.working_set_bytes == 1 << 14]
    table = traffic_tables.boundaries_table(analyse(replace(made, ceilings=near)))
    assert (table["cost_s"] > 0).all()
    table = traffic_tables.boundaries_table(analyse(replace(made, ceilings=())))
    assert table["cost_s"].isna().all()


def test_memory_is_results_and_temporaries(analysis: Analysis) -> None:
    """The fused calls hold their result alone."""
    table = traffic_tables.memory_table(analysis)
    fused = table[table["kind"] == "fused"]
    assert (fused["temporary_bytes"] == 0).all()
    assert (fused["per_element"] == 4).all()
    assert (table.loc[table["kind"] == "eager", "temporary_bytes"] > 0).all()


def test_roofs_are_memory_at_low_and_arithmetic_at_high_intensity(analysis: Analysis) -> None:
    """Operations over time stay below the lower of the two."""
    table = traffic_tables.roofline_table(analysis)
    assert np.allclose(table["intensity"], table["operations"] / table["moved_bytes"])
    axpy = table[(table["workload"] == "axpy") & (table["elements"] == 1 << 24)]
    assert set(axpy["limit"]) == {"memory"}
    few = [replace(each, seconds=[10.0]) for each in analysis.record.arithmetic]
    slow = analyse(replace(analysis.record, arithmetic=few))
    assert set(traffic_tables.roofline_table(slow)["limit"]) == {"arithmetic"}


def test_a_record_without_any_of_it_has_empty_tables() -> None:
    """The columns stay."""
    empty = analyse(synthetic.empty())
    assert list(traffic_tables.boundaries_table(empty).columns) == traffic_tables.BOUNDARIES
    assert list(traffic_tables.memory_table(empty).columns) == traffic_tables.MEMORY
    assert list(traffic_tables.roofline_table(empty).columns) == traffic_tables.ROOFLINE
