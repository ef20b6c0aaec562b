"""Which cells a run has no answer for yet, so that more processes may give one."""

from fuser.reports.analysis import analyse
from fuser.reports.record import Record
from fuser.reports.verdicts import Verdict, verdict

JUDGED = ("fused",)
"""Kinds of variant whose verdict against eager a run is for."""


def inconclusive(record: Record) -> list[int]:
    """Return the indices of cells in which fused is neither faster, slower, nor the same."""
    found = analyse(record)
    open_cells = {
        row.cell.id
        for row in found.rows
        if row.variant.kind in JUDGED and row.log_ratios
        and verdict(row.log_ratios, found.floor) in (Verdict.INCONCLUSIVE, Verdict.NOT_MEASURED)
    }  # fmt: skip
    return [index for index, cell in enumerate(record.cells) if cell.id in open_cells]
