"""What makes the figures of a run weak: said before they are, on the page and in the terminal."""

from collections.abc import Iterable

from fuser.reports.analysis import Analysis
from fuser.reports.statistics import LEAST_PROCESSES

NOISY = 1.05
"""Equal things that come out further from each other than this hide most differences."""

WEAK_NOTES = (
    "anchor took", "noise: equal things", "was given up", "interrupted after", "the budget of",
)
"""What notes of a run have in them that say so: its machine was not itself, or time ran out."""


def weaknesses(analysis: Analysis) -> list[str]:
    """Say what is weak about a run's figures, in whole sentences; nothing where nothing is.

    Args:
        analysis: of the run.
    """
    record, floor, processes = analysis.record, analysis.floor, analysis.processes
    found = []
    if not any(row.seconds is not None for row in analysis.rows):
        return ["Nothing was measured: the record holds no sample.", *_of_notes(record.notes)]
    if not record.finished:
        found.append("This run was interrupted: only what was measured until then is shown.")
    if processes < LEAST_PROCESSES:
        found.append(
            f"Measured in {processes} process{'es' * (processes != 1)}: there is no interval and "
            f"no verdict from fewer than {LEAST_PROCESSES}."
        )
    elif few := sum(0 < row.seconds.processes < LEAST_PROCESSES
                    for row in analysis.rows if row.seconds is not None):  # fmt: skip
        found.append(
            f"{few} of {len(analysis.rows)} rows were measured in fewer than {LEAST_PROCESSES} "
            "processes: they have no interval and no verdict."
        )
    if floor is None:
        found.append(
            "Nothing was timed against itself: how far equal things differ here is not known, and "
            "intervals may be too narrow."
        )
    elif floor.ratio > NOISY:
        found.append(
            f"Equal things differed by {apart(floor.ratio)} in this run: a ratio nearer to 1 says "
            "nothing, and no interval is narrower."
        )
    return found + _of_notes(record.notes)


def _of_notes(notes: Iterable[str]) -> list[str]:
    """The notes of a run that say that its figures are weak, as sentences."""
    weak = [note for note in notes if any(mark in note for mark in WEAK_NOTES)]
    return [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in weak]


def apart(ratio: float) -> str:
    """Say how far equal things were from each other: 1.008 is 0.8%, 30 a factor of 30."""
    return f"{ratio - 1:.1%}" if ratio < 2 else f"a factor of {ratio:,.3g}"
