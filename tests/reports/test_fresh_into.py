"""Results in new arrays beside results in given ones."""

from dataclasses import replace

import pytest

from fuser.reports.analysis import analyse
from fuser.reports.fresh_into import fresh_into_table
from fuser.reports.record import Record, Run, Samples, Variant
from fuser.reports.tables import summary_table
from tests.reports import synthetic


def _faster(run: Run, name: str, factor: float) -> Run:
    seconds = [each / factor for each in run.samples.seconds]
    samples = replace(run.samples, seconds=seconds)
    return replace(run, variant=name, samples=samples)


def _with_into() -> Record:
    """The synthetic record, whose large cells have both `into` variants as well."""
    record = synthetic.record()
    cells = []
    for cell in record.cells:
        runs = list(cell.runs)
        named = {run.variant: run for run in runs}
        if cell.size == "L" and cell.workload == "axpy":
            runs.append(_faster(named["eager"], "eager_into", 1.5))
            runs.append(_faster(named["fused"], "fused_into", 1.0))
        elif cell.size == "L":
            runs.append(Run("eager_into", "not_run", "no out=", samples=Samples()))
        cells.append(replace(cell, runs=runs))
    into = [Variant("eager_into", "into"), Variant("fused_into", "into")]
    return replace(record, cells=cells, variants=[*record.variants, *into])


def test_both_ratios_stand_side_by_side() -> None:
    """What the memory's cost hid or made is seen."""
    table = fresh_into_table(analyse(_with_into())).set_index("cell")
    line = table.loc["axpy-float32-16777216"]
    assert line["into_ratio"] == pytest.approx(line["fresh_ratio"] / 1.5)
    assert line["eager_s"] == pytest.approx(1.5 * line["eager_into_s"])
    assert line["note"] == ""
    others = table.drop("axpy-float32-16777216")
    assert others["into_ratio"].isna().all()
    assert (others["note"] == "eager_into: no out=").all()


def test_small_cells_have_no_row_and_summaries_are_of_new_arrays() -> None:
    """A cell without such a run is not called "not run"; no mean mixes both."""
    analysis = analyse(_with_into())
    small = [row for row in analysis.rows if row.cell.size == "S"]
    assert not any(row.variant.kind == "into" for row in small)
    assert not summary_table(analysis)["variant"].str.contains("into").any()
