"""Which cells a run has no answer for yet, so that more processes may give one."""

from collections.abc import Sequence

from fuser.reports.record import Cell, Run
from fuser.reports.statistics import LogRatios, paired_log_ratios
from fuser.reports.verdicts import Verdict, noise_floor, verdict
from fuser.suites.plan import VariantPlan

JUDGED = ("fused",)
"""Kinds of variant whose verdict against eager a run is for."""


def inconclusive(cells: Sequence[Cell], variants: Sequence[VariantPlan]) -> list[int]:
    """Return the indices of cells in which fused is neither faster, slower, nor the same."""
    kinds = {each.name: each.kind for each in variants}
    pairs = [_ratios(cell, kinds, "aa") for cell in cells]
    noise = [each for pair in pairs for each in pair]
    processes = max((len(each) for each in noise), default=1)
    floor = noise_floor(noise, max(1, processes))
    return [
        index
        for index, cell in enumerate(cells)
        if any(
            verdict(ratios, floor) in (Verdict.INCONCLUSIVE, Verdict.NOT_MEASURED)
            for kind in JUDGED
            for ratios in _ratios(cell, kinds, kind)
        )
    ]


def _ratios(cell: Cell, kinds: dict[str, str], kind: str) -> list[LogRatios]:
    """Return eager's times over those of each row of a kind, by process, where both were timed."""
    eager = next((run for run in cell.runs if kinds.get(run.variant) == "eager"), None)
    if eager is None or not _timed(eager):
        return []
    rows = [run for run in cell.runs if kinds.get(run.variant) == kind and _timed(run)]
    found = [paired_log_ratios(eager.samples, run.samples) for run in rows]
    return [each for each in found if each]


def _timed(run: Run) -> bool:
    return bool(run.samples.seconds) and run.status == "ok"
