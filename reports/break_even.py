"""When fusing pays: the size from which a call is faster, the calls that repay compiling."""

import math
from collections.abc import Sequence

import numpy as np

from fuser.reports.statistics import Estimate, LogRatios, reported_interval, t_interval


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
