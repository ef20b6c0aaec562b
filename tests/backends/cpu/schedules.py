"""Schedules that several tests name."""

from fuser.backends.cpu.schedule import Schedule
from fuser.base.records import changed

AWAITED, JOINED = Schedule(split="await"), Schedule(split="last_joins")
ONLINE = Schedule(passes="online")
ONLINE_AWAITED, ONLINE_JOINED = (
    changed(ONLINE, split="await"), changed(ONLINE, split="last_joins"),
)  # fmt: skip
GATHERED = Schedule(vector_axis="strided", layout="gather", accumulate="plain")
PAIRWISE = changed(GATHERED, accumulate="pairwise")


def of_one_block(schedule: Schedule) -> Schedule:
    """The same for rows of one block of vectors."""
    return changed(schedule, accumulate="plain")


def batch(rows: int) -> Schedule:
    """Batches of so many rows."""
    return Schedule(combine="lane_transpose", tile=rows)


def unrolled(vectors: int, *, whole: bool = False, rows: int = 0) -> Schedule:
    """Rows of so many vectors, the last of which is a whole one or not; in batches of rows."""
    combine = batch(rows) if rows else Schedule()
    tail = changed(combine, tail="none" if whole else "masked")
    return changed(tail, unroll=vectors, accumulate="plain")


def packed(columns: int, schedule: Schedule) -> Schedule:
    """Operands packed as at least so many columns."""
    return changed(schedule, vector_axis="strided", layout="pack", tile=columns)
