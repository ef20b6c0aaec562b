"""Ratios of times and their intervals, from raw samples.

The unit of replication is the process, not the sample: two runs of the same code in two processes
differ by more (address layout, page placement, clocks) than the samples of one process tell.
So each process gives one number, the median over its blocks of the paired log ratio, and the
interval is Student's t over processes. Ratios are averaged as logarithms, so that a ratio and
its inverse cancel.

What is printed, drawn and judged goes through one rule, `reported_interval`: no interval from fewer
than three processes, and none that is narrower than what equal things differ by in the same run.

Sources:
    Student, "The probable error of a mean", Biometrika 6(1), 1908, pp. 1-25.
    Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013, section 5.
    Fleming and Wallace, "How not to lie with statistics", CACM 29(3), 1986, pp. 218-221.
    Welch, "The generalization of Student's problem when several different population variances
    are involved", Biometrika 34, 1947, pp. 28-35.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.special import stdtrit

from fuser.reports.record import Samples

LogRatios = Mapping[int, float]
"""Process number -> that process's log ratio, a pure number; above 0 the candidate is faster."""

CONFIDENCE = 0.95

LEAST_PROCESSES = 3
"""Two numbers lie near each other by luck too often: an interval needs so many processes."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; `low` and `high` are None where there are too few processes."""

    value: float
    low: float | None
    high: float | None
    processes: int

    def as_text(self, digits: int = 3) -> str:
        """Spell it as `1.52 [1.48, 1.56]`, or `1.52 [no interval: 1 process]`."""
        if self.low is None or self.high is None:
            return f"{self.value:.{digits}g} [{no_interval(self.processes)}]"
        return f"{self.value:.{digits}g} [{self.low:.{digits}g}, {self.high:.{digits}g}]"


def no_interval(processes: int) -> str:
    """Say that there is no interval, and why: `no interval: 2 processes`."""
    if processes == 0:
        return "no interval: no process measured all of it"
    return f"no interval: {processes} process{'es' * (processes != 1)}"


def reported_interval(
    middle: float, interval: tuple[float, float] | None, processes: int, noise_log: float = 0.0
) -> tuple[float, float] | None:
    """Give the interval that may be shown and judged by: the one rule for all of them.

    Args:
        middle: the logarithm that the interval is about.
        interval: what the samples alone give, as logarithms; None where they give none.
        processes: how many processes it is from.
        noise_log: how far the ratio of a thing to itself comes out from 1 in the same run, as a
            distance in log ratio (the A/A noise); 0 where that was not measured.

    Returns:
        The interval, widened to `noise_log` on both sides of the middle; None where it is from
        fewer than `LEAST_PROCESSES` processes.
    """
    if interval is None or processes < LEAST_PROCESSES:
        return None
    return min(interval[0], middle - noise_log), max(interval[1], middle + noise_log)


def reported_range(values: Sequence[float]) -> tuple[float, float]:
    """Give the least and the greatest of one number a process; NaN where they are too few.

    Args:
        values: float64[n], any unit.
    """
    if len(values) < LEAST_PROCESSES:
        return math.nan, math.nan
    return min(values), max(values)


def _estimate(
    middle: float, interval: tuple[float, float] | None, processes: int, noise_log: float
) -> Estimate:
    """A ratio from logarithms, with the interval that may be shown."""
    shown = reported_interval(middle, interval, processes, noise_log)
    low, high = (None, None) if shown is None else (math.exp(each) for each in shown)
    return Estimate(math.exp(middle), low, high, processes)


def block_seconds(samples: Samples) -> dict[tuple[int, int], float]:
    """Give the seconds of one call for each (process, block).

    Args:
        samples: parallel sequences of n samples; `seconds` is for `calls` calls together.

    Returns:
        (process, block) -> seconds a call, the median where a block holds several samples.
        Samples of zero seconds are left out: the clock did not resolve them.
    """
    per_block: dict[tuple[int, int], list[float]] = defaultdict(list)
    rows = zip(samples.process, samples.block, samples.calls, samples.seconds, strict=True)
    for process, block, calls, seconds in rows:
        if seconds > 0:
            per_block[int(process), int(block)].append(seconds / calls)
    return {key: median(times) for key, times in per_block.items()}


def process_seconds(samples: Samples) -> dict[int, float]:
    """Give the seconds of one call for each process: the median over its blocks."""
    per_process: dict[int, list[float]] = defaultdict(list)
    for (process, _), seconds in block_seconds(samples).items():
        per_process[process].append(seconds)
    return {process: median(seconds) for process, seconds in per_process.items()}


def paired_log_ratios(baseline: Samples, candidate: Samples) -> dict[int, float]:
    """Give one log ratio a process: the median over blocks of log(baseline / candidate).

    Args:
        baseline: the samples that count as 1.
        candidate: the samples compared with them, from the same processes and blocks.

    Returns:
        process -> log ratio (a pure number; above 0 the candidate is faster). A process without
        a block in which both were timed is not in it; empty where nothing can be paired.

    Source:
        Kalibera and Jones 2013: repetition at the highest level that varies, the process.
    """
    baseline_s, candidate_s = block_seconds(baseline), block_seconds(candidate)
    per_process: dict[int, list[float]] = defaultdict(list)
    for key in sorted(baseline_s.keys() & candidate_s.keys()):
        per_process[key[0]].append(math.log(baseline_s[key] / candidate_s[key]))
    return {process: median(logs) for process, logs in per_process.items()}


def t_interval(
    values: Iterable[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Give Student's t interval of the mean of independent, roughly normal values.

    Args:
        values: float64[n], any unit.
        confidence: the share of such intervals that hold the true mean, between 0 and 1.

    Returns:
        (low, high) in the unit of `values`, or None for n < 2: one value says nothing of spread.

    Raises:
        ValueError: `confidence` is not between 0 and 1.

    Source:
        Student 1908; the quantile is Cephes' `stdtri` as in scipy.special.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: found {confidence}, expected a share between 0 and 1")
    array = np.asarray(list(values), dtype=np.float64)
    if array.size < 2:
        return None
    quantile = float(stdtrit(array.size - 1, (1 + confidence) / 2))
    half = quantile * float(array.std(ddof=1)) / math.sqrt(array.size)
    mean = float(array.mean())
    return mean - half, mean + half


def ratio_of(
    log_ratios: LogRatios, confidence: float = CONFIDENCE, noise_log: float = 0.0
) -> Estimate | None:
    """Turn log ratios by process into a ratio with its interval.

    Args:
        log_ratios: process -> log ratio, as `paired_log_ratios` gives them.
        confidence: as in `t_interval`.
        noise_log: as in `reported_interval`.

    Returns:
        exp(mean) with exp of the reported interval, pure numbers; None where there is no process.
    """
    logs = list(log_ratios.values())
    if not logs:
        return None
    return _estimate(float(np.mean(logs)), t_interval(logs, confidence), len(logs), noise_log)


def seconds_per_call(samples: Samples, noise_log: float = 0.0) -> Estimate | None:
    """Give the time of one call: median over the blocks of a process, averaged over processes.

    Args:
        samples: as in `block_seconds`.
        noise_log: as in `reported_interval`.

    Returns:
        Seconds a call: the geometric mean over processes of the process medians, with the reported
        interval of their logarithms; None where nothing was timed.
    """
    logs = {process: math.log(each) for process, each in process_seconds(samples).items()}
    return ratio_of(logs, noise_log=noise_log)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Summarise many ratios as one.

    Args:
        ratios: float64[n], n >= 1, pure numbers above 0.

    Returns:
        exp(mean(log(ratios))), a pure number.

    Raises:
        ValueError: there is no ratio, or one is not finite and positive.

    Source:
        Fleming and Wallace 1986: the only mean that gives the same ranking for every baseline.
    """
    array = np.asarray(ratios, dtype=np.float64)
    if array.size == 0:
        raise ValueError("geometric_mean: no ratio given; summarise only what was measured")
    if not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(f"geometric_mean: ratios must be finite and positive, found {array}")
    return math.exp(float(np.mean(np.log(array))))


def geometric_mean_ratio(
    rows: Sequence[LogRatios], noise_log: float = 0.0
) -> Estimate | None:
    """Summarise many rows as one ratio with its interval over processes.

    The interval is that of this machine measuring these rows again; it says nothing about rows
    that were not chosen.

    Args:
        rows: one mapping process -> log ratio for each row.
        noise_log: as in `reported_interval`. What disturbs one row disturbs others, too: a mean of
            many rows is not trusted more than one row.

    Returns:
        The geometric mean over rows of the row's ratio. The interval is over those processes
        that measured every row, and is None where they are too few. None without rows.

    Source:
        Fleming and Wallace 1986 for the mean, Student 1908 for the interval.
    """
    measured = [row for row in rows if row]
    if not measured:
        return None
    middle = float(np.mean([np.mean(list(row.values())) for row in measured]))
    shared = sorted(set.intersection(*(set(row) for row in measured)))
    by_process = [float(np.mean([row[process] for row in measured])) for process in shared]
    interval = t_interval(by_process)
    if interval is not None:
        # Rows cut short by an interruption pull the value away from the shared processes' mean.
        interval = min(interval[0], middle), max(interval[1], middle)
    return _estimate(middle, interval, len(shared), noise_log)


def ratio_between(
    base: LogRatios, head: LogRatios, confidence: float = CONFIDENCE, noise_log: float = 0.0
) -> Estimate | None:
    """Compare two runs whose processes have nothing in common.

    Args:
        base: process -> a logarithm (of a time or a ratio), of the run that counts as 1.
        head: the same of the other run.
        confidence: as in `t_interval`.
        noise_log: as in `reported_interval`, of the noisier run.

    Returns:
        exp(mean of head - mean of base) with Welch's interval as it may be reported, which is None
        where a side has too few processes; None where a side has none.

    Source:
        Welch 1947, with the degrees of freedom of its equation (28).
    """
    if not base or not head:
        return None
    first = np.asarray(list(base.values()), dtype=np.float64)
    second = np.asarray(list(head.values()), dtype=np.float64)
    middle = float(np.mean(second) - np.mean(first))
    processes = min(first.size, second.size)
    if processes < 2:
        return _estimate(middle, None, processes, noise_log)
    parts = [float(np.var(each, ddof=1)) / each.size for each in (first, second)]
    total = sum(parts)
    if total == 0.0:
        return _estimate(middle, (middle, middle), processes, noise_log)
    freedom = total**2 / sum(
        part**2 / (each.size - 1) for part, each in zip(parts, (first, second), strict=True)
    )
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(total)
    return _estimate(middle, (middle - half, middle + half), processes, noise_log)
