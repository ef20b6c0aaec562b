"""The table of whole programs: means that count what is missing, who is ahead, and the page."""

import pytest

from fuser.reports import whole_programs
from fuser.reports.analysis import analyse
from fuser.reports.markdown_page import markdown_page
from tests.reports.tables import cell, record

CELLS = (
    cell("garch", eager=[0.04], fused=[0.01], numba=[0.02], numexpr="more than one expression"),
    cell("crc16", eager=[0.04], fused="out of time", numba=[0.001], numexpr="no form"),
    cell("atax", eager=[0.01], fused=[0.01], numba="no form", numexpr="no form"),
    cell("mvt", eager=[0.01], fused=[0.02], numba=[0.01], numexpr="no form"),
    cell("syrk", eager="the run ended", fused="the run ended", numba="the run ended"),
)


def test_what_is_missing_counts_as_numpy() -> None:
    """In our mean, in each peer's, and in that of the best of them."""
    found = record("programs", *CELLS)
    table = whole_programs.programs_table(analyse(found))
    assert list(table["ours"].fillna(-1)) == pytest.approx([4, -1, 1, 0.5])
    assert list(table["best"]) == ["numba", "numba", "", "numba"]
    assert whole_programs.mean_over_all(table["ours"]) == pytest.approx(2 ** 0.25)
    assert whole_programs.mean_over_all(table["numba"]) == pytest.approx(80 ** 0.25)
    lines = whole_programs.sentences(found, table)
    assert "ours 1.19; the best peer of each 2.99; numba 2.99 (3 ran); numexpr 1.00" in lines[0]
    assert lines[1] == "Ahead of the best peer: 2 of 4. Behind: crc16, mvt."
    assert lines[2] == "Slower than NumPy: mvt."
    assert lines[3] == "Not finished, and counted as NumPy: crc16."
    assert lines[4] == "No time was left for: syrk."


def test_the_page_has_a_line_for_each_program() -> None:
    """And is the page of such a record."""
    made = markdown_page(record("programs", *CELLS))
    text = made.replace("\N{MULTIPLICATION SIGN}", "x")
    assert "| garch | 4.00x | 2.00x | numba | 40 ms | 2.00x |  |" in text
    assert "| crc16 | — | 40.0x | numba | 40 ms | 40.0x | out of time |" in text


def test_other_presets_have_no_such_table() -> None:
    """Nor its sentences."""
    found = record("others", *CELLS)
    table = whole_programs.programs_table(analyse(found))
    assert table.empty
    assert not whole_programs.sentences(found, table)
