"""The table of large-array speed: ratios, ranges, ceilings, and cells that have none."""

from pathlib import Path

import numpy as np
import pytest

from fuser.reports import throughput


def cell(ours: float, peer: float, c: float, elements: int = 1 << 24) -> dict:
    """One cell with three rounds, whose times differ by a few percent."""
    noise = [1.0, 1.02, 0.99]
    times = {"fresh": [ours * each for each in noise], "into": [ours * each for each in noise]}
    return {
        "workload": "axpy", "dtype": "float32", "elements": elements,
        "bandwidth": {"copy": 2e10, "triad": 2e10, "read": 4e10},
        "rows": {
            "fused": {
                "seconds": times, "input_bytes": 8 * elements, "output_bytes": 4 * elements,
            },
            "c": {"seconds": {"fresh": [c * each for each in noise]}},
            "numba": {"seconds": {"fresh": [peer * each for each in noise]}},
            "eager": {"seconds": {"fresh": [9 * peer], "into": [8 * peer]}},
            "numexpr": {"reason": "not one expression"},
        },
    }  # fmt: skip


def record(*cells: dict) -> dict:
    """A record of some cells."""
    return {
        "cells": dict(enumerate(cells)), "threads": 2, "packages": {"numpy": "2.4"},
        "machine": {"cpu": "a processor", "os": "an OS"},
    }


def test_the_best_peer_decides_with_its_range() -> None:
    """A peer timed once gives no range, the best of those in every round does."""
    row = throughput.table(record(cell(0.010, 0.030, 0.010))).iloc[0]
    assert (row["best"], row["best_into"]) == ("numba", "numba")
    assert row["ratio"] == pytest.approx(3.0)
    assert row["low"] <= 3.0 <= row["high"]
    assert np.isnan(throughput.paired([1.0], [0.5, 0.5])[1])


def test_the_ceiling_is_memory_or_arithmetic() -> None:
    """A C loop that is slower than moving its bytes is what bounds the cell."""
    moved_s = 12 * (1 << 24) / 2e10
    assert throughput.ceiling_s(cell(0.02, 0.03, moved_s)) == ([pytest.approx(moved_s)], "triad")
    assert throughput.ceiling_s(cell(0.02, 0.03, 3 * moved_s))[1] == "C"
    without = cell(0.02, 0.03, moved_s) | {"bandwidth": {"reason": "no gcc"}}
    assert np.isnan(throughput.table(record(without)).iloc[0]["share"])


def test_a_share_is_paired_round_by_round() -> None:
    """A slow phase of the machine has the ceiling and ours; what is left is the share."""
    slow = [1.0, 2.0, 2.0, 1.0, 2.0]
    made = cell(0.02, 0.03, 0.01)
    moved = 12 << 24
    made["rows"]["memory"] = {
        "bytes": dict.fromkeys(("copy", "triad", "read"), moved // 2),
        "seconds": {name: [0.005 * each for each in slow] for name in ("copy", "triad", "read")},
    }
    made["rows"]["fused"]["seconds"] = {"fresh": [0.02 * each for each in slow]}
    assert throughput.ceiling_s(made) == ([pytest.approx(0.01 * each) for each in slow], "triad")
    row = throughput.table(record(made)).iloc[0]
    assert (row["bound"], row["share"]) == ("triad", pytest.approx(0.5))
    assert (row["best"], row["best_into"]) == ("numba", "numba")


def test_the_page_lists_every_cell_and_its_verdicts() -> None:
    """Large results are summed up apart; a cell that failed keeps its reason."""
    failed = cell(0.01, 0.02, 0.01)
    failed["rows"]["fused"] = {"reason": "out of memory"}
    alone = cell(0.01, 0.02, 0.01)
    alone["rows"] = {name: alone["rows"][name] for name in ("fused", "c", "numexpr")}
    cells = (cell(0.010, 0.030, 0.01), cell(0.01, 0.005, 0.01, 4096), failed, alone)
    text = throughput.page(record(*cells))
    assert "no peer was measured (numexpr: not one expression)" in text
    assert "2 of 4 cells have a ratio." in text
    assert "3.00 times the best peer" in text
    assert "median below 0.95: 1, of which in every round: 1." in text
    assert "out of memory" in text
    assert text.count("| axpy |") == 4


@pytest.mark.parametrize("text", [None, "{", '{"cells": []}', "[]"])
def test_what_is_no_record_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    """A file that is not there, and files that hold something else."""
    given = tmp_path / "record.json"
    if text is not None:
        given.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        throughput.main([str(given), str(tmp_path / "page.md")])
    assert ended.value.code == 2
    assert str(given) in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
