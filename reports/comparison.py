"""Two saved runs compared: what was counted, and how long it took.

The deterministic part needs no clock: kernels, planned bytes, allocations, compilations and the
hash of the emitted text are the same on a busy machine. The timed part compares each row's time
relative to eager NumPy in the same processes, so that a machine that was slower on the other day
changes both sides; runs share no process, so the interval is Welch's.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from fuser.reports import verdicts
from fuser.reports.analysis import Analysis, analyse
from fuser.reports.record import Cell, Record, Run
from fuser.reports.statistics import (
    Estimate,
    LogRatios,
    paired_log_ratios,
    process_seconds,
    ratio_between,
)
from fuser.reports.verdicts import judged
from fuser.reports.weaknesses import weaknesses

GATED_KINDS = ("fused", "unfused", "into")
"""Kinds of variant that are this project's own: a peer's regression is no failure of ours."""
MARGIN = 0.05
COUNTS = ("kernels", "launches", "planned_bytes", "allocations", "compilations")
"""Fields of a run that are better when lower."""
PORTABLE = ("gpu",)
"""Targets whose text does not depend on the machine that emits it."""
CIRCUMSTANCES = ("switches", "disk_cache", "threads")
"""Settings of a run that change how fast the same code is."""
UNUSABLE = ("failed", "absent", "not_run")

ChangeKind = Literal["regression", "improvement", "changed"]
Verdict = Literal["faster", "slower", "same", "inconclusive", "not measured"]
OF_TIMES: Mapping[verdicts.Verdict, Verdict] = {
    verdicts.Verdict.FASTER: "slower", verdicts.Verdict.SLOWER: "faster",
    verdicts.Verdict.SAME: "same", verdicts.Verdict.INCONCLUSIVE: "inconclusive",
    verdicts.Verdict.NOT_MEASURED: "not measured",
}  # fmt: skip
"""What a verdict about a ratio of speeds is about one of times, whose larger one is slower."""


class Outcome(IntEnum):
    """What the gate says: the exit code."""

    OK = 0
    REGRESSION = 1
    NOTHING = 3
    WRONG = 4
    INCONCLUSIVE = 5


@dataclass(frozen=True, slots=True)
class Change:
    """Something counted that differs between the runs."""

    cell: str
    variant: str
    what: str
    base: str
    head: str
    kind: ChangeKind


@dataclass(frozen=True, slots=True)
class TimedRow:
    """How the time of one row changed; the ratio is head / base, above 1 slower."""

    cell: str
    variant: str
    basis: Literal["relative to eager", "seconds"]
    ratio: Estimate | None
    verdict: Verdict
    gated: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that was found, and what the gate makes of it."""

    base_id: str
    head_id: str
    changes: Sequence[Change]
    timed: Sequence[TimedRow]
    missing: Sequence[tuple[str, str, str]]  # cell, variant, reason
    wrong: Sequence[tuple[str, str, str]]
    notes: Sequence[str]
    counted: int  # rows that both runs have
    margin: float
    floor: float = 0.0  # what equal things differ by, as a log ratio: the larger of both

    def outcome(self) -> Outcome:
        """Return the gate's answer; the gravest finding decides."""
        gated = [row.verdict for row in self.timed if row.gated]
        if self.wrong:
            return Outcome.WRONG
        if self.missing or not self.counted:
            return Outcome.NOTHING
        if "slower" in gated or any(each.kind == "regression" for each in self.changes):
            return Outcome.REGRESSION
        if "inconclusive" in gated or "not measured" in gated:
            return Outcome.INCONCLUSIVE
        return Outcome.OK


@dataclass(frozen=True, slots=True)
class _Pair:
    """One row in both runs."""

    cell: Cell
    base: Run
    head: Run
    gated: bool
    base_eager: Run | None
    head_eager: Run | None


def compare_records(
    base: Record,
    head: Record,
    timed: bool = True,
    same_text: bool = False,
    margin: float = MARGIN,
) -> Comparison:
    """Compare two runs row by row.

    Args:
        base: what counts as 1.
        head: what is judged.
        timed: compare times too, not counts alone.
        same_text: another emitted text is a regression, not only a change.
        margin: relative difference in time that is still the same.

    Raises:
        ValueError: the margin is not positive.
    """
    if margin <= 0:
        raise ValueError(f"margin: found {margin}, expected a relative difference above 0")
    pairs, judged_runs = list(_pairs(base, head)), [analyse(base), analyse(head)]
    floor = max(each.noise_log for each in judged_runs)
    comparable = _same_target(base, head)
    changes = [
        change for pair in pairs if pair.gated
        for change in _changes(pair, same_text, comparable)
    ]
    rows = [_timed(pair, margin, floor) for pair in pairs] if timed else []
    return Comparison(
        base.run_id, head.run_id, changes, [row for row in rows if row is not None],
        list(_missing(base, head)), list(_wrong(head)), _notes(judged_runs, comparable),
        len([pair for pair in pairs if pair.gated]), margin, floor,
    )


def _runs(record: Record) -> dict[tuple[str, str], tuple[Cell, Run]]:
    return {(cell.id, run.variant): (cell, run) for cell in record.cells for run in cell.runs}


def _kinds(record: Record) -> Mapping[str, str]:
    return {each.name: each.kind for each in record.variants}


def _eager(record: Record, cell: Cell) -> Run | None:
    kinds = _kinds(record)
    return next((run for run in cell.runs if kinds.get(run.variant) == "eager"), None)


def _pairs(base: Record, head: Record) -> Iterator[_Pair]:
    """Give the rows that both runs measured; eager and its twin are the scale, not rows."""
    known, kinds = _runs(head), _kinds(base)
    for (identity, name), (cell, run) in _runs(base).items():
        found = known.get((identity, name))
        if found is None or kinds.get(name) in ("eager", "aa"):
            continue
        if run.status in (*UNUSABLE, "wrong") or found[1].status in (*UNUSABLE, "wrong"):
            continue
        gated = kinds.get(name) in GATED_KINDS
        yield _Pair(cell, run, found[1], gated, _eager(base, cell), _eager(head, found[0]))


def _missing(base: Record, head: Record) -> Iterator[tuple[str, str, str]]:
    """Give the gated rows that the base measured and the head did not."""
    known, kinds = _runs(head), _kinds(base)
    for (identity, name), (_, run) in _runs(base).items():
        if kinds.get(name) not in GATED_KINDS or not run.samples.seconds:
            continue
        found = known.get((identity, name))
        if found is None:
            yield identity, name, "the run has no such row"
        elif found[1].status in UNUSABLE or (
            found[1].status != "wrong" and not found[1].samples.seconds
        ):
            yield identity, name, f"{found[1].status}: {found[1].reason}"


def _wrong(head: Record) -> Iterator[tuple[str, str, str]]:
    for (identity, name), (_, run) in _runs(head).items():
        if run.status == "wrong":
            yield identity, name, run.reason


def _same_target(base: Record, head: Record) -> bool:
    """Whether both ran on the same processor: the emitted text depends on it."""
    return (base.machine.cpu, base.machine.features) == (head.machine.cpu, head.machine.features)


def _notes(runs: Sequence[Analysis], comparable: bool) -> list[str]:
    notes = []
    base, head = (each.record for each in runs)
    if not comparable:
        notes.append(
            "the processors differ: times and emitted text of different machines say little"
        )
    notes += [
        f"{name}: {base.packages.get(name)} in the base, {head.packages.get(name)} in the head"
        for name in sorted({*base.packages, *head.packages})
        if base.packages.get(name) != head.packages.get(name)
    ]
    notes += [
        f"{name.replace('_', ' ')}: {before} in the base, {after} in the head"
        for name in CIRCUMSTANCES
        if (before := base.settings.get(name, "none")) != (after := head.settings.get(name, "none"))
    ]
    for each in runs:
        notes += [f"{each.record.run_id}: {text}" for text in weaknesses(each)]
    return notes


def _changes(pair: _Pair, same_text: bool, comparable: bool) -> Iterator[Change]:
    """Give what was counted differently; a count that a side lacks is not compared."""
    base, head = pair.base, pair.head
    here = (pair.cell.id, head.variant)
    if base.status != head.status:
        worse = head.status != "ok" and not head.expected_fallback
        kind: ChangeKind = "regression" if worse else "improvement"
        if base.status == "ok" and head.expected_fallback:
            kind = "changed"
        yield Change(*here, "status", base.status, f"{head.status}: {head.reason}", kind)
    for name in COUNTS:
        before, after = getattr(base, name), getattr(head, name)
        if before is not None and after is not None and before != after:
            kind = "regression" if after > before else "improvement"
            yield Change(*here, name.replace("_", " "), str(before), str(after), kind)
    for target in sorted(base.text_hashes.keys() & head.text_hashes.keys()):
        if not comparable and target not in PORTABLE:
            continue
        first, second = base.text_hashes[target], head.text_hashes[target]
        if first != second:
            kind = "regression" if same_text else "changed"
            yield Change(*here, f"emitted text, {target}", first[:12], second[:12], kind)


def _timed(pair: _Pair, margin: float, floor: float) -> TimedRow | None:
    """Judge one row's time; None where it was left out of the timing in both runs alike."""
    relative = _logs(pair.base, pair.base_eager), _logs(pair.head, pair.head_eager)
    if all(relative):
        basis: Literal["relative to eager", "seconds"] = "relative to eager"
        base, head = relative
    else:
        basis, base, head = "seconds", _logs(pair.base, None), _logs(pair.head, None)
    if not base and not head:
        return None
    wide = ratio_between(base, head, noise_log=floor)
    narrow = ratio_between(base, head, 0.90, noise_log=floor)
    verdict = OF_TIMES[judged(narrow, wide, margin)]
    return TimedRow(pair.cell.id, pair.head.variant, basis, wide, verdict, pair.gated)


def _logs(run: Run, eager: Run | None) -> LogRatios:
    """Give a process's log of the time of one call, relative to eager's where that is given."""
    if eager is not None:
        ratios = paired_log_ratios(eager.samples, run.samples)
        return {process: -log for process, log in ratios.items()}
    return {process: math.log(each) for process, each in process_seconds(run.samples).items()}
