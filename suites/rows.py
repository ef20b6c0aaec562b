"""One row of a record as numbers for pytest-benchmark's file and as a line of our own table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.reports.record import Cell, Run

if TYPE_CHECKING:
    from fuser.reports.statistics import Estimate

HEADER = (
    f"{'row':<44} {'time':>8} {'speed-up':>19} {'GB/s':>6} {'ceil':>5} {'planned':>8} "
    f"{'kernels':>7} {'first ms':>8} {'ulp':>5}  status"
)


def seconds_a_call(run: Run) -> list[float]:
    """Return the samples of a row as seconds of one call."""
    pairs = zip(run.samples.seconds, run.samples.calls, strict=True)
    return [seconds / calls for seconds, calls in pairs]


METRICS = (
    "gigabytes_per_second", "share_of_ceiling", "speedup", "speedup_low", "speedup_high",
    "planned_bytes", "kernels", "first_call_s", "max_error_ulp", "peak_bytes", "median_s",
)
"""Those of `metrics` that are numbers, on which thresholds can be set."""


def metrics(cell: Cell, run: Run, ceiling: float | None = None) -> dict[str, Any]:
    """Return the row's numbers that pytest-benchmark has no column for.

    Args:
        cell: the workload at its size, with the row of eager among its runs.
        run: the row.
        ceiling: bytes a second that plain copying reaches at this size, where that is known.
    """
    times = seconds_a_call(run)
    planned = cell.ledger.planned_bytes if run.variant == "fused" else None
    moved = planned or cell.input_bytes + cell.output_bytes
    rate = moved / float(np.median(times)) if times else None
    speedup = _speedup(cell, run)
    return {
        "cell": cell.id, "variant": run.variant, "status": run.status, "reason": run.reason,
        "median_s": float(np.median(times)) if times else None,
        "gigabytes_per_second": None if rate is None else rate / 1e9,
        "share_of_ceiling": rate / ceiling if rate and ceiling else None,
        "speedup": None if speedup is None else speedup.value,
        "speedup_low": None if speedup is None else speedup.low,
        "speedup_high": None if speedup is None else speedup.high,
        "planned_bytes": planned, "peak_bytes": run.peak_bytes,
        "bytes_counted": "planned" if planned else "inputs and outputs once",
        "kernels": run.kernels,
        "first_call_s": float(np.median(run.first_call_s)) if run.first_call_s else None,
        "max_error_ulp": run.max_error_ulp, "checked_calls": run.checked_calls,
        "processes": len(set(run.samples.process)),
    }


def _speedup(cell: Cell, run: Run) -> "Estimate | None":
    """Return eager's time over the row's, with its interval where processes give one."""
    from fuser.reports.statistics import paired_log_ratios, ratio_of  # imports scipy
    from fuser.reports.verdicts import noise_floor

    eager = next((each for each in cell.runs if each.variant == "eager"), None)
    if eager is None or eager is run:
        return None
    again = next((each for each in cell.runs if each.variant == "eager_again"), None)
    pairs = [] if again is None else [paired_log_ratios(eager.samples, again.samples)]
    logs = paired_log_ratios(eager.samples, run.samples)
    floor = noise_floor(pairs, max(1, len(logs)))
    return ratio_of(logs, noise_log=floor.log if floor else 0.0)


def table_line(cell: Cell, run: Run, ceiling: float | None = None) -> str:
    """Return one line of the table; what is unknown is a dash. `ceiling` as for `metrics`."""
    found = metrics(cell, run, ceiling)
    times = seconds_a_call(run)
    columns = [
        f"{cell.id + ' ' + run.variant:<44}",
        f"{_time_text(float(np.median(times))) if times else '-':>8}",
        f"{_speedup_text(found):>19}",
        f"{_number(found['gigabytes_per_second'], '.1f'):>6}",
        f"{_number(found['share_of_ceiling'], '.0%'):>5}",
        f"{_bytes_text(found['planned_bytes']):>8}",
        f"{_number(found['kernels'], 'd'):>7}",
        f"{_number(found['first_call_s'], '.2f', 1e3):>8}",
        f"{_number(found['max_error_ulp'], '.1f'):>5}",
    ]
    status = run.status if run.status == "ok" else f"{run.status}: {run.reason}"
    return " ".join(columns) + f"  {status}"


def _speedup_text(found: Mapping[str, Any]) -> str:
    """Return `3.2 [3.1, 3.3]`: eager's time over the row's, and its interval where there is one."""
    if found["speedup"] is None:
        return "-"
    middle, low, high = (found[name] for name in ("speedup", "speedup_low", "speedup_high"))
    if low is None or high is None:
        return f"{middle:.3g}"
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def _number(value: float | None, form: str, factor: float = 1) -> str:
    return "-" if value is None else format(value * factor, form)


def _time_text(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def _bytes_text(size: int | None) -> str:
    """Return `1.5 MB`; powers of ten, as the rate beside it."""
    if size is None:
        return "-"
    for factor, unit in ((1, "B"), (1e3, "kB"), (1e6, "MB")):
        if size < 1000 * factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size / 1e9:.3g} GB"
