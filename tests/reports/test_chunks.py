"""The table of Dask arrays: ratios to eager Dask, what is slower, and the page."""

from dataclasses import replace

import pytest

from fuser.reports import chunks
from fuser.reports.analysis import analyse
from fuser.reports.markdown_page import markdown_page
from tests.reports.tables import cell, record

CELLS = (
    cell("softmax", eager=[0.05], dask=[0.04], dask_optimized=[0.02], dask_fused=[0.01]),
    cell("anomaly", eager=[0.05], dask=[0.04], dask_optimized=[0.05], dask_fused=[0.02]),
    cell("gelu_bias", eager=[0.05], dask=[0.04], dask_optimized=[0.02], dask_fused=[0.02]),
    cell("black_scholes", eager=[0.05], dask="out of time", dask_fused=[0.02]),
)


def test_ratios_are_to_eager_dask() -> None:
    """Not to NumPy; a workload that Dask did not finish has none."""
    found = record("dask", *CELLS)
    table = chunks.chunks_table(analyse(found))
    ours = table[table["variant"] == "dask_fused"]
    assert list(ours["speedup"].fillna(-1)) == pytest.approx([4, 2, 2, -1])
    lines = chunks.sentences(found, table)
    assert "dask_fused 2.52 (3 of 4)" in lines[0]
    assert lines[1] == "Slower than eager Dask (below 0.95): anomaly (dask_optimized, 0.80)."
    assert lines[2].endswith("gelu_bias (2.00).")


def test_the_page_has_what_was_counted() -> None:
    """Tasks, bytes and memory, or dashes."""
    first = CELLS[0]
    runs = [replace(run, tasks=12, handed_bytes=3_000_000, peak_bytes=2_000_000)
            if run.variant == "dask_fused" else run for run in first.runs]  # fmt: skip
    found = record("dask", replace(first, runs=runs))
    text = markdown_page(found).replace("\N{MULTIPLICATION SIGN}", "x")
    assert "| softmax | dask_fused | 10 ms | 4.00x | 12 | 2.86 MiB | 1.91 MiB |" in text
    assert "| softmax | dask | 40 ms | 1.00x | — | — | — |" in text


def test_other_presets_have_no_such_table() -> None:
    """Nor its sentences."""
    found = record("programs", *CELLS)
    assert chunks.chunks_table(analyse(found)).empty
    assert not chunks.sentences(found, chunks.chunks_table(analyse(found)))
