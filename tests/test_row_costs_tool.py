"""The tool that measures what rows cost: weights that made times are found again."""

from typing import Any

import numpy as np

from fuser.backends.cpu import tuning
from fuser.backends.cpu.schedule import Schedule
from tests.backends.cpu.schedules import GATHERED, batch, unrolled
from tests.tree import tool

TOOL = tool("row_costs")


def _cells(count: int) -> list[Any]:
    """Nests whose times follow from weights of one way and of another."""
    generator = np.random.default_rng(3)
    cells = []
    for _ in range(count):
        counts = {way: generator.integers(0, 9, 10).astype(float) for way in ("rows", "batches")}
        one, other = counts["rows"] @ np.arange(1.0, 11), counts["batches"].sum() * 5
        cells.append(TOOL.Cell(counts, {"rows": float(one), "batches": float(other)}))
    return cells


def test_weights_are_found_again() -> None:
    """They choose well among nests that they were not fitted to; none is 0."""
    cells = _cells(80)
    weights = TOOL.improved(TOOL.fitted(cells[::2]), cells[::2], 2.0)
    assert set(weights) == set(tuning.ROW_COSTS)
    assert all((each > 0).all() for each in weights.values())
    assert np.mean(TOOL.regrets(weights, cells[1::2])) < 0.02


def test_every_way_is_known_by_its_schedule() -> None:
    """Schedules of rows, but those in parts or of packed operands."""
    known = {
        Schedule(): "rows", batch(16): "batches", unrolled(3): "unrolled",
        unrolled(3, rows=16): "unrolled batches", GATHERED: "gathered",
        Schedule(split="await"): "", Schedule(vector_axis="strided", layout="pack"): "",
    }  # fmt: skip
    for schedule, way in known.items():
        assert TOOL.way_of(schedule) == way
