"""Every row of a run judged once: time, ratios, verdict, bandwidth, and what is wrong with it.

`analyse` turns a raw record into rows; the tables, the figures and the page only arrange them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fuser.reports.ceilings import Speed, ceiling_for, ceiling_speeds, fastest_for
from fuser.reports.labels import Label, label_of
from fuser.reports.record import Cell, Record, Run, Variant
from fuser.reports.statistics import (
    Estimate,
    LogRatios,
    paired_log_ratios,
    process_seconds,
    ratio_of,
    seconds_per_call,
)
from fuser.reports.verdicts import NoiseFloor, Verdict, noise_floor, verdict

CLOCK_READING_S = 1e-7
"""A sample's uncertainty where the record does not state the clock's: two readings of ~50 ns."""

CEILING_SLACK = 1.1
"""How far above the fastest anchor a bandwidth must be before it is called impossible."""

WIDE = 1.5
"""How much longer than in its slowest process a row may take in truth."""

ENTRY_PART = "interpreter and entry"
"""The part of a call's anatomy that every call has, whatever it does."""

CLOCK_STEPS = 20
"""A sample shorter than this many clock steps has an error above 5%."""


@dataclass(frozen=True, slots=True)
class Row:
    """One variant on one cell, judged. Ratios are pure numbers, above 1 in the variant's favour."""

    cell: Cell
    run: Run
    variant: Variant
    label: Label
    seconds: Estimate | None  # a call
    log_ratios: LogRatios  # eager / this, by process
    speedup: Estimate | None  # the same, as a ratio
    verdict: Verdict
    fusion_log_ratios: LogRatios  # unfused / this where this is of kind fused, as timed
    fusion_gain: Estimate | None  # the same, only where both sides ran our kernels
    bytes_per_second: float | None  # least bytes / seconds
    copy_share: float | None  # of the copy ceiling of the same working-set class
    ceiling: Speed | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """A record with everything that was derived from it."""

    record: Record
    rows: Sequence[Row]
    floor: NoiseFloor | None
    noise: Mapping[str, LogRatios]  # cell id -> A/A log ratios
    speeds: Sequence[Speed]
    processes: int  # the most that any cell was measured in
    variants: Mapping[str, Variant]  # by name

    @property
    def noise_log(self) -> float:
        """What no interval of the run is narrower than, as a log ratio; 0 where not measured."""
        return self.floor.log if self.floor else 0.0


def least_bytes(cell: Cell) -> int | None:
    """Bytes that any implementation must move: the ledger's, else inputs and outputs once."""
    if cell.ledger.least_bytes is not None:
        return cell.ledger.least_bytes
    return (cell.input_bytes + cell.output_bytes) or None


def working_set_bytes(cell: Cell) -> int:
    """Bytes that a call touches at least once: its inputs and outputs."""
    return cell.input_bytes + cell.output_bytes or (least_bytes(cell) or 0)


def analyse(record: Record) -> Analysis:
    """Judge every row of a record.

    Args:
        record: as `fuser.reports.record.load` gives it; it may be interrupted or empty.

    Returns:
        One `Row` for each cell and variant of the record, in its order. A variant that a cell has
        no run of is a row "not run", so that nothing disappears without a label.
    """
    variants = {each.name: each for each in record.variants}
    noise = _noise_pairs(record, variants)
    processes = max(
        (len(set(run.samples.process)) for cell in record.cells for run in cell.runs), default=0
    )
    floor = noise_floor(list(noise.values()), max(processes, 1))
    speeds = ceiling_speeds(record.ceilings)
    found = Analysis(record, (), floor, noise, speeds, processes, variants)
    return replace(found, rows=[row for cell in record.cells for row in _rows_of(cell, found)])


def _rows_of(cell: Cell, context: Analysis) -> list[Row]:
    """Judge every variant of a cell."""
    runs = {run.variant: run for run in cell.runs}
    absent = _not_run_reason(context.record)
    return [
        _judge(
            cell, runs.get(variant.name) or Run(variant.name, "not_run", absent), variant, context
        )
        for variant in _variants_of(cell, context.variants)
        # results into given arrays are timed on large arrays alone
        if variant.kind != "into" or variant.name in runs
    ]


def _not_run_reason(record: Record) -> str:
    return "the record has no run of it" if record.finished else "the run was interrupted"


def _variants_of(cell: Cell, variants: Mapping[str, Variant]) -> list[Variant]:
    """The record's variants in its order, A/A apart, then those only this cell has."""
    declared = [each for each in variants.values() if each.kind != "aa"]
    known = set(variants)
    extra = [Variant(run.variant, "peer") for run in cell.runs if run.variant not in known]
    return declared + extra


def _noise_pairs(record: Record, variants: Mapping[str, Variant]) -> dict[str, LogRatios]:
    """The A/A log ratios of every cell that has an A/A pair."""
    pairs: dict[str, LogRatios] = {}
    for cell in record.cells:
        eager = _run_of_kind(cell, variants, "eager")
        again = _run_of_kind(cell, variants, "aa")
        if eager is not None and again is not None:
            logs = paired_log_ratios(eager.samples, again.samples)
            if logs:
                pairs[cell.id] = logs
    return pairs


def _run_of_kind(cell: Cell, variants: Mapping[str, Variant], kind: str) -> Run | None:
    """The cell's first run of a kind."""
    for run in cell.runs:
        variant = variants.get(run.variant)
        if variant is not None and variant.kind == kind:
            return run
    return None


def _fusion_log_ratios(cell: Cell, run: Run, context: Analysis) -> LogRatios:
    """Log ratios of unfused to fused: the unfused run of the same name, else the first."""
    twin_name = run.variant.replace("fused", "unfused", 1)
    twin = next((each for each in cell.runs if each.variant == twin_name), None)
    partner = twin or _run_of_kind(cell, context.variants, "unfused")
    return _ratios_to(partner, run)


def _has_unfused_kernels(cell: Cell, context: Analysis) -> bool:
    """Whether the unfused side of the comparison really ran our kernels."""
    partner = _run_of_kind(cell, context.variants, "unfused")
    return partner is not None and partner.status == "ok"


def _judge(cell: Cell, run: Run, variant: Variant, context: Analysis) -> Row:
    """Work out one row."""
    record, speeds = context.record, context.speeds
    label = label_of(cell, run, variant)
    noise_log = context.noise_log
    seconds = seconds_per_call(run.samples, noise_log=noise_log) if label.timed else None
    least, working_set = least_bytes(cell), working_set_bytes(cell)
    rate = least / seconds.value if least and seconds else None
    ceiling = ceiling_for(working_set, speeds, record.machine.caches, ("copy",))
    if label.timed and seconds is None:
        label = Label("not timed", run.reason or _not_timed_reason(record), False, False, False)
    elif impossible := _impossible(cell, run, seconds, context):
        label = Label("impossible number", impossible, False, False, False)
    eager = _run_of_kind(cell, context.variants, "eager")
    logs = _ratios_to(eager, run) if label.timed and variant.kind != "eager" else {}
    is_fused = variant.kind == "fused" and label.timed
    fusion = _fusion_log_ratios(cell, run, context) if is_fused else {}
    gains = label.fuses and label.counts and _has_unfused_kernels(cell, context)
    return Row(
        cell=cell,
        run=run,
        variant=variant,
        label=label,
        seconds=seconds,
        log_ratios=logs,
        speedup=ratio_of(logs, noise_log=noise_log),
        verdict=verdict(logs, context.floor) if label.counts else Verdict.NOT_MEASURED,
        fusion_log_ratios=fusion,
        fusion_gain=ratio_of(fusion, noise_log=noise_log) if gains else None,
        bytes_per_second=rate,
        copy_share=rate / ceiling.typical if rate and ceiling else None,
        ceiling=ceiling,
    )


def _ratios_to(baseline: Run | None, run: Run) -> LogRatios:
    """Log ratios of a baseline to a run; empty where the baseline's own result is unusable."""
    if baseline is None or baseline.status in ("wrong", "failed", "absent", "not_run"):
        return {}
    return paired_log_ratios(baseline.samples, run.samples)


def _not_timed_reason(record: Record) -> str:
    return "no sample was recorded" if record.finished else "interrupted before its first sample"


def _impossible(cell: Cell, run: Run, seconds: Estimate | None, context: Analysis) -> str:
    """Say why a time cannot be true, or nothing.

    The slow end of the interval is held against the fastest anchor of any process: only what is
    beyond both noises is called impossible. Few processes give no interval, or one that may hold
    anything: then half as much again as the slowest process took is slow enough.
    """
    if seconds is None:
        return ""
    step_s = clock_step_s(context.record)
    shortest_s = min(run.samples.seconds, default=0.0)
    if shortest_s < CLOCK_STEPS * step_s:
        return (
            f"below the clock's resolution: a sample took {shortest_s * 1e9:.0f} ns, "
            f"one reading of the clock is uncertain by {step_s * 1e9:.0f} ns"
        )
    floor_s = launch_floor_s(context.record)
    slowest_s = seconds.value
    if seconds.processes > 1:
        high = math.inf if seconds.high is None else seconds.high
        slowest_s = min(high, WIDE * max(process_seconds(run.samples).values()))
    if floor_s is not None and slowest_s < floor_s:
        return (
            f"below the launch floor: a call took {slowest_s * 1e9:.1f} ns, but one that does "
            f"nothing takes {floor_s * 1e9:.1f} ns: the work was not done when it was timed"
        )
    fastest = fastest_for(working_set_bytes(cell), context.record, context.speeds)
    least = least_bytes(cell)
    if least and fastest and least / slowest_s > CEILING_SLACK * fastest:
        return (
            f"above the ceiling: {least / slowest_s / 1e9:.1f} GB/s of least traffic, but the "
            f"fastest copy, triad or read of this working set moved {fastest / 1e9:.1f} GB/s: "
            "data left in a cache, or work that was skipped"
        )
    return ""


def launch_floor_s(record: Record) -> float | None:
    """Give what a call that does nothing costs, seconds: the fastest process; None if unknown."""
    entries = [
        seconds
        for each in record.anatomy
        if each.path == "native"
        for seconds in each.parts_s.get(ENTRY_PART, ())
    ]
    return min(entries, default=None)


def clock_step_s(record: Record) -> float:
    """Give the uncertainty of one reading of the clock, seconds: the record's, else assumed."""
    steps = (record.call_overhead or {}).get("clock_resolution_s")
    if isinstance(steps, int | float) and steps > 0:
        return float(steps)
    if isinstance(steps, list | tuple) and steps:
        return max(float(each) for each in steps)
    return CLOCK_READING_S
