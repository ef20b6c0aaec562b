"""Ratios of times and their intervals, from raw samples.

The unit of replication is the process, not the sample: two runs of the same code in two processes
differ by more (address layout, page placement, clocks) than the samples of one process tell.
So each process gives one number, the median over its blocks of the paired log ratio, and the
interval is Student's t over processes. Ratios are averaged as logarithms, so that a ratio and
its inverse cancel.

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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; `low` and `high` are None where one process gives no interval."""

    value: float
    low: float | None
    high: float | None
    processes: int

    def as_text(self, digits: int = 3) -> str:
        """Spell it as `1.52 [1.48, 1.56]`, or `1.52 [no interval]`."""
        if self.low is None or self.high is None:
            return f"{self.value:.{digits}g} [no interval]"
        return f"{self.value:.{digits}g} [{self.low:.{digits}g}, {self.high:.{digits}g}]"


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


def ratio_of(log_ratios: LogRatios, confidence: float = CONFIDENCE) -> Estimate | None:
    """Turn log ratios by process into a ratio with its interval.

    Args:
        log_ratios: process -> log ratio, as `paired_log_ratios` gives them.
        confidence: as in `t_interval`.

    Returns:
        exp(mean) with exp of the t interval, pure numbers; None where there is no process.
    """
    logs = list(log_ratios.values())
    if not logs:
        return None
    interval = t_interval(logs, confidence)
    low, high = (None, None) if interval is None else (math.exp(each) for each in interval)
    return Estimate(math.exp(float(np.mean(logs))), low, high, len(logs))


def seconds_per_call(samples: Samples, confidence: float = CONFIDENCE) -> Estimate | None:
    """Give the time of one call: median over the blocks of a process, averaged over processes.

    Args:
        samples: as in `block_seconds`.
        confidence: as in `t_interval`.

    Returns:
        Seconds a call: the geometric mean over processes of the process medians, with the t
        interval of their logarithms; None where nothing was timed.
    """
    per_process: dict[int, list[float]] = defaultdict(list)
    for (process, _), seconds in block_seconds(samples).items():
        per_process[process].append(seconds)
    return ratio_of(
        {process: math.log(median(s)) for process, s in per_process.items()}, confidence
    )


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
    rows: Sequence[LogRatios], confidence: float = CONFIDENCE
) -> Estimate | None:
    """Summarise many rows as one ratio with its interval over processes.

    The interval is that of this machine measuring these rows again; it says nothing about rows
    that were not chosen.

    Args:
        rows: one mapping process -> log ratio for each row.
        confidence: as in `t_interval`.

    Returns:
        The geometric mean over rows of the row's ratio. The interval is over those processes
        that measured every row, and is None where they are fewer than two. None without rows.

    Source:
        Fleming and Wallace 1986 for the mean, Student 1908 for the interval.
    """
    measured = [row for row in rows if row]
    if not measured:
        return None
    value = math.exp(float(np.mean([np.mean(list(row.values())) for row in measured])))
    shared = sorted(set.intersection(*(set(row) for row in measured)))
    by_process = [float(np.mean([row[process] for row in measured])) for process in shared]
    interval = t_interval(by_process, confidence)
    if interval is None:
        return Estimate(value, None, None, len(shared))
    low, high = (math.exp(each) for each in interval)
    # Rows cut short by an interruption pull the value away from the shared processes' mean.
    return Estimate(value, min(low, value), max(high, value), len(shared))


def ratio_between(
    base: LogRatios, head: LogRatios, confidence: float = CONFIDENCE
) -> Estimate | None:
    """Compare two runs whose processes have nothing in common.

    Args:
        base: process -> a logarithm (of a time or a ratio), of the run that counts as 1.
        head: the same of the other run.
        confidence: as in `t_interval`.

    Returns:
        exp(mean of head - mean of base) with Welch's interval, which is None where a side has
        fewer than two processes; None where a side has none.

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
        return Estimate(math.exp(middle), None, None, processes)
    parts = [float(np.var(each, ddof=1)) / each.size for each in (first, second)]
    total = sum(parts)
    if total == 0.0:
        return Estimate(math.exp(middle), math.exp(middle), math.exp(middle), processes)
    freedom = total**2 / sum(
        part**2 / (each.size - 1) for part, each in zip(parts, (first, second), strict=True)
    )
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(total)
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half), processes)
