"""A cell is held against the memory speed of its own cache level."""

from dataclasses import replace

import pytest

from fuser.reports.ceilings import ceiling_for, ceiling_speeds, fastest_for, working_set_class
from fuser.reports.record import Ceiling
from tests.reports import synthetic

CACHES = {"L1d": 32 << 10, "L1i": 64 << 10, "L2": 1 << 20, "L3": 32 << 20}


@pytest.mark.parametrize(
    ("size", "name"),
    [(1, "L1d"), (32 << 10, "L1d"), (48 << 10, "L2"), (2 << 20, "L3"), (64 << 20, "memory")],
)
def test_the_class_is_the_smallest_data_cache_that_holds_it(size: int, name: str) -> None:
    """Instruction caches hold no arrays."""
    assert working_set_class(size, CACHES) == name


def test_speeds_are_medians_over_processes() -> None:
    """Three processes at 1, 2 and 4 GB/s: typical 2, fastest 4; a time of zero is no speed."""
    made = [
        Ceiling("copy", 1000, 1 << 28, 1, process, [1e-6 / factor, 0.0])
        for process, factor in enumerate((1, 2, 4))
    ]
    (speed,) = ceiling_speeds(made)
    assert (speed.typical, speed.fastest, speed.processes) == pytest.approx((2e9, 4e9, 3))


def test_the_nearest_anchor_of_the_same_class_is_chosen() -> None:
    """The fastest thread count at the nearest size; another level's anchor never serves."""
    sizes = ((1 << 18, 1, 1e-6), (1 << 28, 1, 3e-6), (1 << 28, 2, 2e-6))
    speeds = ceiling_speeds([Ceiling("copy", 1000, *s[:2], 0, [s[2]]) for s in sizes])
    chosen = ceiling_for(100 << 20, speeds, CACHES, ("copy",))
    assert chosen is not None
    assert (chosen.working_set_bytes, chosen.threads) == (1 << 28, 2)
    assert ceiling_for(8 << 20, speeds, CACHES, ("copy",)) is None
    assert ceiling_for(100 << 20, speeds, CACHES, ("triad",)) is None


def test_nothing_is_impossible_where_fewer_threads_were_timed() -> None:
    """A kernel on two threads may beat a copy on one."""
    record = synthetic.record()
    speeds = ceiling_speeds(record.ceilings)
    assert fastest_for(1 << 28, record, speeds) == pytest.approx(12e9 * 1.04, rel=0.05)
    alone = [speed for speed in speeds if speed.threads == 1]
    assert fastest_for(1 << 28, record, alone) is None
    told = replace(record, settings={"threads": 1})
    assert fastest_for(1 << 28, told, alone) is not None
