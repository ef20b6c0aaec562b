"""Totals of a nest's own results: every form of the nest, and how it is cut."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import costs
from fuser.backends.cpu.reducing import epilogues
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.explain.explanation import launch_of
from tests.backends.cpu.schedules import AWAITED, GATHERED

GENERATOR = np.random.default_rng(5)


def _losses(x: Any) -> Any:
    z = x - x.max(-1, keepdims=True)
    rows = np.log(np.exp(z).sum(-1)) * 2
    return rows.mean(), rows.max(), (z * z).sum(), rows


def extent_of(fused: Any, *arrays: Any) -> costs.Extent:
    """How a call of one nest runs."""
    structure, leaves = fuser.base.trees.flatten((arrays, {}))
    launch = launch_of(fused._find_call(structure, leaves))
    ((_, section),) = launch.groups[0].sections
    extent: costs.Extent = section.extent
    return extent


@pytest.mark.parametrize(
    ("shape", "schedule", "counted"),
    [
        ((30, 40), DEFAULT, False), ((1000, 40), DEFAULT, True), ((30, 7), GATHERED, False),
        ((20_000, 7), GATHERED, True), ((2, 200_000), AWAITED, True), ((1, 140_000), AWAITED, True),
        ((70, 3000), DEFAULT, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_schedules(
    shape: tuple[int, ...], schedule: Schedule, counted: bool, dtype: str
) -> None:
    """Lengths choose the schedule; results are NumPy's, and the same bits in each call."""
    fused = fuser.fuse(_losses, fallback="error")
    for _ in range(4):  # other values each time: nothing of an earlier call is left
        x = GENERATOR.normal(size=shape).astype(dtype)
        wanted = _losses(x)
        found = fused(x)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found, fused(x), strict=True))
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5)
    extent = extent_of(fused, x)
    assert (extent.schedule, costs.counts_parts(extent)) == (schedule, counted)


def test_blocks_depend_on_lengths_alone() -> None:
    """Words: blocks, units of one, words of partial totals, ranges of columns, their width."""
    fused = fuser.fuse(lambda x: x.sum(-1).max(), fallback="error")
    x = np.ones((1000, 64), np.float32)
    fused(x)
    structure, leaves = fuser.base.trees.flatten(((x,), {}))
    (group,) = launch_of(fused._find_call(structure, leaves)).groups
    (nest,) = group.kernel.nests
    words, extent = epilogues.lay_out(nest, [1000, 64], beside=False)
    assert words[:5] == [7, 143, 1 + 7, 1, 1]
    assert (extent.outer, extent.ochunk, extent.counts_parts) == (7, 1, True)
    words, extent = epilogues.lay_out(nest, [0, 64], beside=False)
    assert words == [1, 0, 0, 1, 1]
    assert extent.outer == 1
    words, extent = epilogues.lay_out(nest, [100_000, 5], beside=True)
    assert words[3] * words[4] >= 100_000
    assert extent.counts_parts
