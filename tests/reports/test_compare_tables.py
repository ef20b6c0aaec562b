"""A comparison as tables: slowest first, everything that differs, nothing where nothing is."""

from dataclasses import replace

from fuser.reports.compare_tables import COUNTS, TIMES, counts_table, times_table
from fuser.reports.comparison import compare_records
from tests.reports import synthetic

FEW = synthetic.WORKLOADS[1:2]


def test_times_are_sorted_from_slower_to_faster() -> None:
    """Every timed row with its interval; peers are there and do not decide."""
    found = compare_records(synthetic.base(FEW), synthetic.record(workloads=FEW))
    table = times_table(found)
    assert list(table["ratio"]) == sorted(table["ratio"], reverse=True)
    fused = table[table["variant"] == "fused"]
    assert (fused["ratio"] < 0.85).all()
    assert set(fused["verdict"]) == {"faster"}
    assert len(table) == len(found.timed)


def test_counts_are_wrong_and_missing_rows_too() -> None:
    """Each finding with its cell, variant and both sides."""
    base = synthetic.record(workloads=FEW)
    cells = list(base.cells)
    runs = [
        replace(run, status="wrong", reason="off by one") if run.variant == "fused" else
        replace(run, kernels=9) for run in cells[0].runs if run.variant != "unfused"
    ]  # fmt: skip
    cells[0] = replace(cells[0], runs=runs)
    table = counts_table(compare_records(base, replace(base, cells=cells)))
    assert {"wrong", "missing"} <= set(table["finding"])
    assert "off by one" in set(table["head"])


def test_without_a_base_there_are_no_rows() -> None:
    """The columns stay, so that figures and page need no special case."""
    assert list(times_table(None).columns) == TIMES
    assert list(counts_table(None).columns) == COUNTS
    assert not len(times_table(None)) + len(counts_table(None))
