"""The table of the best peers: ratios, ranges, ceilings, and cells that have none."""

import numpy as np
import pandas as pd
import pytest

from fuser.reports import best_peers
from fuser.reports.analysis import analyse
from fuser.reports.markdown_page import markdown_page
from fuser.reports.record import Ceiling, Cell
from tests.reports.tables import cell, record

ELEMENTS = 1 << 24
NOISE = np.array([1.0, 1.02, 0.99])
MOVED_S = 12 * ELEMENTS / 2e10


def made(ours: float, peer: float, c: float, elements: int = ELEMENTS, name: str = "axpy") -> Cell:
    """One cell with three blocks, whose times differ by a few percent."""
    return cell(
        name, elements=elements, fused=list(ours * NOISE), fused_into=list(ours * NOISE),
        c=list(c * NOISE), numba=list(peer * NOISE), eager=[9 * peer], eager_into=[8 * peer],
        numexpr="not one expression",
    )  # fmt: skip


def table(*cells: Cell, ceilings: bool = True) -> pd.DataFrame:
    """The table of a record of some cells."""
    speeds = [
        Ceiling(name, int(speed), 12 * ELEMENTS, 2, 0, [1.0])
        for name, speed in (("copy", 2e10), ("triad", 2e10), ("read", 4e10))
    ]
    found = record("peers", *cells, ceilings=speeds if ceilings else [])
    return best_peers.best_peers_table(analyse(found))


def test_the_best_peer_decides_with_its_range() -> None:
    """A peer timed once gives no range, the best of those in every block does."""
    row = table(made(0.010, 0.030, 0.010)).iloc[0]
    assert (row["best"], row["best_into"]) == ("numba", "numba")
    assert row["ratio"] == pytest.approx(3.0)
    assert row["ratio_low"] <= 3.0 <= row["ratio_high"]


def test_the_ceiling_is_memory_or_arithmetic() -> None:
    """A C loop that is slower than moving its bytes is what bounds the cell."""
    row = table(made(2 * MOVED_S, 0.03, MOVED_S)).iloc[0]
    assert (row["ceiling"], row["share"]) == ("triad", pytest.approx(0.5, rel=0.03))
    row = table(made(4 * MOVED_S, 0.03, 3 * MOVED_S)).iloc[0]
    assert (row["ceiling"], row["share"]) == ("c", pytest.approx(0.75))
    bare = cell("axpy", fused=[1.0], numba=[2.0])
    assert np.isnan(table(bare, ceilings=False).iloc[0]["share"])


def test_the_page_lists_every_cell_and_its_verdicts() -> None:
    """Large results are summed up apart; a cell that failed keeps its reason."""
    failed = cell("failed", fused="out of memory", numba=[1.0])
    alone = cell("alone", fused=[0.01], c=[0.01], numexpr="not one expression")
    cells = (made(0.010, 0.030, 0.01), made(0.01, 0.005, 0.01, 4096, "axpy-small"), failed, alone)
    found = record("peers", *cells)
    text = markdown_page(found)
    assert "no peer was measured (numexpr: not one expression)" in text
    assert "2 of 4 cells have a ratio." in text
    assert "3.00 times the best peer" in text
    assert "median below 0.95: 1, of which in every block: 1." in text
    assert "out of memory" in text
    assert text.count("| axpy") == 2
    lines = best_peers.sentences(found, best_peers.best_peers_table(analyse(found)))
    assert any("of the ceiling" in line for line in lines)
    further = record("others", *cells)
    lines = best_peers.sentences(further, best_peers.best_peers_table(analyse(further)))
    assert not any("of the ceiling" in line for line in lines)


def test_a_run_without_peers_has_no_such_table() -> None:
    """NumPy alone is in the other tables."""
    found = record("quick", cell("axpy", fused=[1.0], eager=[2.0]))
    assert best_peers.best_peers_table(analyse(found)).empty
