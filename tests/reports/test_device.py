"""The page of a run on a GPU, from lines as the run writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuser.reports import device


def _speed(way: str, times: list[float], **more: Any) -> dict[str, Any]:
    return {"part": "speed", "workload": "axpy", "shape": [64], "way": way, "batch_ms": times,
            "gigabytes_per_s": 3000.0, "of_copy": 0.92, **more}  # fmt: skip


LINES: list[dict[str, Any]] = [
    {"part": "machine", "platform": "Linux", "versions": {"numpy": "2.4", "jax": None},
     "attributes": {"MultiProcessorCount": 132}},
    {"part": "smoke", "workload": "axpy", "right": True},
    {"part": "smoke", "workload": "gelu", "call": 2, "right": False},
    {"part": "traffic", "skipped": "no ncu on the PATH"},
    {"part": "failed", "name": "capture", "error": "Traceback\nRuntimeError: no"},
    {"part": "copy", "gigabytes_per_s": 4100.0},
    _speed("fuser", [1.0, 1.1, 0.9]), _speed("raw", [1.2, 1.3, 1.1]), _speed("eager", [3.0, 3.0]),
    {"part": "speed", "workload": "axpy", "shape": [64], "way": "jax", "error": "absent"},
    {"part": "overhead", "way": "fuser", "us": 4.2},
]  # fmt: skip


def test_cells_stand_beside_the_best_other_way() -> None:
    """Its median over ours, with an interval; what has no times is in no cell."""
    (cell,) = device.cells(LINES)
    assert cell["best_peer"] == "raw"
    assert cell["ratio"] == pytest.approx(1.2)
    assert cell["interval"][0] <= 1.2 <= cell["interval"][1]
    assert cell["holds"]
    assert device.geometric_mean([cell]) == pytest.approx(1.2)
    assert device.cells(LINES[:7]) == []


def test_the_page_says_what_is_wrong_missing_and_quick(tmp_path: Path) -> None:
    """A last line that was cut off is left out."""
    record, target = tmp_path / "device.jsonl", tmp_path / "page.md"
    record.write_text("\n".join(map(json.dumps, LINES)) + '\n{"part": "spe')
    device.main([str(record), str(target)])
    page = target.read_text()
    for text in (
        "132 multiprocessors; numpy 2.4.", "1 of 2 checks are right.", "- wrong: smoke gelu 2",
        "- failed: capture: RuntimeError: no", "- skipped: traffic: no ncu on the PATH",
        "A copy moves 4100 GB/s.", "Geometric mean over the best other way: 1.20",
        "- axpy [64] jax: absent", "| fuser | 4.2 |",
    ):  # fmt: skip
        assert text in page


def test_a_run_that_ended_at_once_has_a_page() -> None:
    """No lines at all."""
    assert "not described" in device.page([])
