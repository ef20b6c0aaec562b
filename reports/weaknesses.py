"""What makes the figures of a run weak: said before they are, on the page and in the terminal."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from fuser.reports.analysis import Analysis
from fuser.reports.record import Cell
from fuser.reports.statistics import LEAST_PROCESSES

NOISY = 1.05
"""Equal things that come out further from each other than this hide most differences."""

BUSY_CORES = 0.25
"""Processors kept busy by others while a cell is measured; more than this is worth a word."""

STOLEN_CORES = 0.05
"""Processors that the hypervisor gave away; more than this is worth a word."""

CHANGED_CLOCK = 1.15
"""How many times the lowest clock rate the highest may be."""

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
    found += _of_load(record.cells)
    return found + _of_notes(record.notes)


def _of_notes(notes: Iterable[str]) -> list[str]:
    """The notes of a run that say that its figures are weak, as sentences."""
    weak = [note for note in notes if any(mark in note for mark in WEAK_NOTES)]
    return [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in weak]


def _of_load(cells: Sequence[Cell]) -> list[str]:
    """Say where the machine did something else while a cell was measured."""
    met = [(cell, each) for cell in cells for each in cell.load if each.wall_s > 0]
    found = []
    for what, cores_of, most in (
        ("other processes used", attrgetter("other_cores"), BUSY_CORES),
        ("the hypervisor took away", attrgetter("steal_cores"), STOLEN_CORES),
    ):
        hit = {cell.id for cell, each in met if cores_of(each) > most}
        if hit:
            cell, worst = max(met, key=lambda pair: cores_of(pair[1]))
            found.append(
                f"While {len(hit)} of {len(cells)} cells were measured, {what} more than {most:g} "
                f"of a processor; at most {cores_of(worst):.2g} processors, for {cell.id}."
            )
    if slowed := {cell.id for cell, each in met if each.throttles}:
        found.append(
            f"Processors were slowed for their heat while {len(slowed)} of {len(cells)} cells "
            "were measured."
        )
    rates = [rate for _, each in met for rate in each.frequency_hz]
    if rates and max(rates) > CHANGED_CLOCK * min(rates):
        found.append(
            f"The processors' clock rate was between {min(rates) / 1e9:.2f} and "
            f"{max(rates) / 1e9:.2f} GHz during the run."
        )
    return found


def apart(ratio: float) -> str:
    """Say how far equal things were from each other: 1.008 is 0.8%, 30 a factor of 30."""
    return f"{ratio - 1:.1%}" if ratio < 2 else f"a factor of {ratio:,.3g}"
