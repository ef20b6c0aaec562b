"""One row of a record as numbers for pytest-benchmark's file and as a line of our own table."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.reports.record import Cell, Run
from fuser.reports.spelling import bytes_text, seconds_text

if TYPE_CHECKING:
    from fuser.reports.statistics import Estimate

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


COLUMNS: Mapping[str, tuple[int, str, Callable[[Any], str]]] = {
    "time": (8, "median_s", seconds_text),
    "speed-up": (19, "speedup", "{:.3g}".format),
    "GB/s": (6, "gigabytes_per_second", "{:.1f}".format),
    "ceil": (5, "share_of_ceiling", "{:.0%}".format),
    "planned": (8, "planned_bytes", bytes_text),
    "kernels": (7, "kernels", str),
    "first": (8, "first_call_s", seconds_text),
    "ulp": (5, "max_error_ulp", "{:.1f}".format),
}
"""Columns of the terminal's table: how wide, which of `metrics`, and how it is spelled."""
NAME_WIDTH = 44
HEADER = " ".join([
    f"{'row':<{NAME_WIDTH}}", *(f"{name:>{width}}" for name, (width, *_) in COLUMNS.items()),
    " status",
])  # fmt: skip


def table_line(cell: Cell, run: Run, ceiling: float | None = None) -> str:
    """Return one line of the table; what is unknown is a dash. `ceiling` as for `metrics`."""
    found = metrics(cell, run, ceiling)
    texts = {
        name: "-" if found[metric] is None else spell(found[metric])
        for name, (_, metric, spell) in COLUMNS.items()
    }
    if found["speedup_low"] is not None and found["speedup_high"] is not None:
        texts["speed-up"] += f" [{found['speedup_low']:.3g}, {found['speedup_high']:.3g}]"
    status = run.status if run.status == "ok" else f"{run.status}: {run.reason}"
    name = f"{cell.id} {run.variant}"
    columns = (f"{texts[name]:>{width}}" for name, (width, *_) in COLUMNS.items())
    return " ".join([f"{name:<{NAME_WIDTH}}", *columns, f" {status}"])
