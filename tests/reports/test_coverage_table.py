"""The coverage map in one line an operation, and cell by cell."""

from dataclasses import replace

from fuser.reports import coverage_table
from fuser.reports.analysis import analyse
from tests.reports import synthetic


def test_cells_are_counted_by_proof() -> None:
    """Two dtypes and three layouts each: every cell is in exactly one column."""
    analysis = analyse(synthetic.record(processes=2, blocks=2, workloads=synthetic.WORKLOADS[:1]))
    table = coverage_table.proofs_table(analysis)
    assert list(table["operation"]) == ["add", "multiply", "exp"]
    assert (table[["timed", "verified", "never"]].sum(axis=1) == 6).all()
    assert set(table["dtypes_timed"]) == {"float32"}
    assert set(table["layouts_timed"]) == {"contiguous"}


def test_many_workloads_are_shortened() -> None:
    """Four names, and how many more."""
    made = synthetic.record(processes=2, blocks=2, workloads=synthetic.WORKLOADS[:1])
    cell = replace(made.coverage[0], by=[f"w{k}" for k in range(6)])
    table = coverage_table.coverage_table(analyse(replace(made, coverage=[cell])))
    assert table.iloc[0]["by"] == "w0, w1, w2, w3 and 2 more"
    assert table.iloc[0]["workloads"] == 6


def test_a_record_without_a_map_has_an_empty_table() -> None:
    """The columns stay."""
    table = coverage_table.coverage_table(analyse(synthetic.empty()))
    assert list(table.columns) == coverage_table.COVERAGE
