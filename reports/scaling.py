"""What follows from times at several sizes: growth, break-even size, calls that repay compiling."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from fuser.reports.statistics import (
    CONFIDENCE,
    Estimate,
    LogRatios,
    reported_interval,
    t_interval,
)


@dataclass(frozen=True, slots=True)
class Growth:
    """A fitted power law: seconds = exp(intercept) x size ** exponent."""

    exponent: float
    low: float | None
    high: float | None
    intercept: float
    points: int


def growth_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> Growth | None:
    """Fit how time grows with size, on the upper half of the sizes (in logarithm).

    The lower half is left out: fixed costs flatten it and would hide superlinear growth.

    Args:
        sizes: float64[n], above 0: operations of the graph.
        seconds: float64[n], above 0: time at each of them.

    Returns:
        The exponent (1 is linear) with the t interval of the regression slope, which needs three
        points; None where the upper half has fewer than two sizes.

    Raises:
        ValueError: the lengths differ, or a size or time is not positive.

    Source:
        Least squares on logarithms; Draper and Smith, "Applied Regression Analysis", 1998, ch. 1.
    """
    size, second = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    if size.shape != second.shape:
        raise ValueError(f"growth_exponent: {size.size} sizes but {second.size} times")
    if size.size and (size.min() <= 0 or second.min() <= 0):
        raise ValueError("growth_exponent: sizes and times must be above 0")
    if size.size == 0:
        return None
    upper = size >= math.sqrt(float(size.min()) * float(size.max()))
    x, y = np.log(size[upper]), np.log(second[upper])
    if np.unique(x).size < 2:
        return None
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    intercept = float(y.mean() - slope * x.mean())
    if x.size < 3:
        return Growth(slope, None, None, intercept, int(x.size))
    residual = y - (intercept + slope * x)
    error = math.sqrt(float(residual @ residual) / (x.size - 2) / float(centred @ centred))
    half = float(stdtrit(x.size - 2, (1 + CONFIDENCE) / 2)) * error
    return Growth(slope, slope - half, slope + half, intercept, int(x.size))


def crossing_size(sizes: Sequence[int], rows: Sequence[LogRatios]) -> Estimate | str:
    """Find the size from which the candidate stays faster than the baseline.

    Args:
        sizes: int[n], elements of the largest input, in any order.
        rows: n mappings process -> log ratio of baseline to candidate, as
            `fuser.reports.statistics.paired_log_ratios` gives them.

    Returns:
        Elements at the last crossing, interpolated in log size and averaged over processes with
        the t interval; or a sentence that says why there is none.

    Source:
        Linear interpolation of the log ratio between the two sizes around its last zero.
    """
    pairs = zip(sizes, rows, strict=True)
    measured = sorted((size, row) for size, row in pairs if row and size > 0)
    if len(measured) < 2:
        return "not measured at two sizes"
    processes = sorted(set.intersection(*(set(row) for _, row in measured)))
    if not processes:
        return "no process measured every size"
    log_sizes = [math.log(size) for size, _ in measured]
    crossings: list[float] = []
    for process in processes:
        logs = [row[process] for _, row in measured]
        if logs[-1] <= 0:
            return "not faster at the largest size measured"
        last = max((index for index, log in enumerate(logs) if log <= 0), default=None)
        if last is None:
            return "faster at every size measured"
        share = -logs[last] / (logs[last + 1] - logs[last])
        crossings.append(log_sizes[last] + share * (log_sizes[last + 1] - log_sizes[last]))
    middle = float(np.mean(crossings))
    interval = t_interval(crossings)
    if interval and interval[0] <= log_sizes[0] and interval[1] >= log_sizes[-1]:
        return "crossing not resolved: its interval holds every size measured"
    shown = reported_interval(middle, interval, len(crossings))
    low, high = (None, None) if shown is None else (math.exp(each) for each in shown)
    return Estimate(math.exp(middle), low, high, len(crossings))


def calls_to_repay(first_call_s: float, call_s: float, eager_s: float) -> float:
    """Count the calls after which compiling has paid for itself.

    Args:
        first_call_s: seconds of the first call, compilation included.
        call_s: seconds of each later call.
        eager_s: seconds of the eager call it replaces.

    Returns:
        The least whole n for which n calls, the first included, take no longer than n eager
        calls; infinity where a later call is no faster than an eager one.

    Raises:
        ValueError: a time is negative or not finite.

    Source:
        first_call_s + (n - 1) x call_s <= n x eager_s, solved for n.
    """
    times = (first_call_s, call_s, eager_s)
    if not all(math.isfinite(each) and each >= 0 for each in times):
        raise ValueError(f"calls_to_repay: times must be finite and not negative, found {times}")
    if first_call_s <= eager_s:
        return 1.0
    if call_s >= eager_s:
        return math.inf
    return float(max(1, math.ceil((first_call_s - call_s) / (eager_s - call_s))))
