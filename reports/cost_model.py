"""What a call's time is made of: launches, bytes and operations, fitted on the run itself.

The time of a compiled call is modelled as

    seconds = e + a x kernels + b x bytes + c x operations + d x elementary functions

with coefficients of at least 0, a and e at most what a launch can take, fitted on every unfused
and fused row of one class: working sets that a core's own cache holds, that the shared one holds,
and those beyond, where bytes cost more and more threads work. What fusing saves is then split:
kernels that are no longer launched, bytes that no longer move, and a rest that the model does not
explain, which is shown and not hidden.

Sources:
    Stark and Parker, "Bounded-variable least-squares", Computational Statistics 10, 1995.
    Quenouille, "Notes on bias in estimation", Biometrika 43, 1956, pp. 353-360 (jackknife).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import lsq_linear

from fuser.reports.analysis import Analysis, Row, working_set_bytes
from fuser.reports.ceilings import OUTERMOST, working_set_class
from fuser.reports.tables import middle

PLACES = {
    "L1d": "in a core's own cache", "L2": "in a core's own cache", OUTERMOST: "beyond the caches",
}  # fmt: skip
"""Cache level -> class; every other level is shared by the cores."""
TERMS = ("kernel", "byte", "operation", "elementary function", "call")
LONGEST_LAUNCH_S = 50e-6
"""More than any launch takes, also one that wakes sleeping threads."""
STAYS = 0.75
"""The share of a cache that the arrays of calls in a loop find theirs: the rest is others'."""
LEAST_WORKLOADS = 5
"""Fewer say nothing about five coefficients."""

MODEL = ["place", "rows", "term", "cost_s", "cost_s_low", "cost_s_high", "error", "note"]
SPLIT = [
    "cell", "workload", "dtype", "size", "elements", "place", "unfused_s", "fused_s", "saved_s",
    "launches_s", "bytes_s", "rest_s", "saved", "saved_low", "saved_high", "launches",
    "bytes", "rest", "predicted_s",
]  # fmt: skip

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Observation:
    """One row as the model sees it."""

    row: Row
    counts: Vector  # kernels, bytes, operations, elementary functions, 1
    seconds: float
    place: str  # "in a core's own cache", "in the shared cache" or "beyond the caches"


@dataclass(frozen=True, slots=True)
class Fit:
    """The coefficients of one class, seconds each."""

    place: str
    rows: int
    costs: Vector
    low: Vector
    high: Vector
    error: float  # median relative error on workloads that were left out of the fit


def observations(analysis: Analysis) -> list[Observation]:
    """Give the rows that the model is fitted on: ours, compiled, timed, with all counts."""
    found = []
    for row in analysis.rows:
        book = row.cell.ledger
        if row.variant.kind not in ("unfused", "fused") or not row.label.counts:
            continue
        known = (row.run.kernels, row.run.planned_bytes, book.operations, book.elementary)
        if row.seconds is None or any(each is None for each in known):
            continue
        caches = analysis.record.machine.caches
        # what fills a cache to the brim does not stay there
        level = working_set_class(int(working_set_bytes(row.cell) / STAYS), caches)
        place = PLACES.get(level, "in the shared cache")
        counts = np.asarray([*known, 1], dtype=np.float64)
        found.append(Observation(row, counts, row.seconds.value, place))
    return found


def solve(chosen: Sequence[Observation]) -> Vector:
    """Fit the coefficients by least squares of the relative error, none below 0.

    Kernels of large arrays come with new memory each; without a bound what that costs would be
    taken for milliseconds a launch.

    Args:
        chosen: at least one observation with a positive time.

    Returns:
        float64[5], seconds for each of `TERMS`.
    """
    counts = np.stack([each.counts / each.seconds for each in chosen])
    scale = np.maximum(counts.max(axis=0), 1e-300)  # columns differ by ten orders of magnitude
    most = np.asarray([LONGEST_LAUNCH_S, math.inf, math.inf, math.inf, LONGEST_LAUNCH_S])
    found: Vector = lsq_linear(
        counts / scale, np.ones(len(chosen)), bounds=(0.0, most * scale), method="bvls"
    ).x / scale
    return found


def fits(analysis: Analysis) -> list[Fit]:
    """Fit each class that has enough workloads; intervals by leaving one workload out at a time."""
    known = observations(analysis)
    found = []
    for place in dict.fromkeys(each.place for each in known):
        chosen = [each for each in known if each.place == place]
        names = sorted({each.row.cell.workload for each in chosen})
        if len(names) < LEAST_WORKLOADS:
            continue
        costs = solve(chosen)
        partial, errors = [], []
        for name in names:
            rest = [each for each in chosen if each.row.cell.workload != name]
            partial.append(solve(rest))
            errors += [
                abs(float(each.counts @ partial[-1]) / each.seconds - 1)
                for each in chosen
                if each.row.cell.workload == name
            ]
        spread = np.stack(partial)
        count = len(names)
        error = np.sqrt((count - 1) / count * ((spread - spread.mean(axis=0)) ** 2).sum(axis=0))
        low, high = np.maximum(0.0, costs - 2 * error), costs + 2 * error
        found.append(Fit(place, len(chosen), costs, low, high, float(np.median(errors))))
    return found


def model_table(analysis: Analysis) -> pd.DataFrame:
    """Give the coefficients: seconds a kernel, byte, operation, with two jackknife errors."""
    lines: list[dict[str, Any]] = [
        {
            "place": fit.place,
            "rows": fit.rows,
            "term": f"one {term}",
            "cost_s": fit.costs[k],
            "cost_s_low": fit.low[k],
            "cost_s_high": fit.high[k],
            "error": fit.error,
            "note": _note(term, float(fit.costs[k]), float(fit.low[k])),
        }
        for fit in fits(analysis)
        for k, term in enumerate(TERMS)
    ]
    return pd.DataFrame(lines, columns=MODEL)


def _note(term: str, cost_s: float, low_s: float) -> str:
    if cost_s == 0:
        return "not seen beside the others"
    if term in ("kernel", "call") and cost_s >= 0.999 * LONGEST_LAUNCH_S:
        return "the most that a launch can take: what new memory costs is among the unexplained"
    if low_s == 0:
        return "its interval holds 0: not told from the others"
    if term == "byte":
        return f"{1 / cost_s / 1e9:.3g} GB/s"
    return "" if term in ("kernel", "call") else f"{1 / cost_s / 1e9:.3g} G/s"


def split_table(analysis: Analysis) -> pd.DataFrame:
    """Split what fusing saves in each cell into launches, bytes and what is not explained.

    Returns:
        Seconds, and the same as shares of the unfused time: `saved` is measured, `launches` and
        `bytes` are the model's, `rest` is what of the measured saving they leave (it may be
        negative: the model expected more).
    """
    by_place = {fit.place: fit for fit in fits(analysis)}
    pairs: dict[str, dict[str, Observation]] = {}
    for each in observations(analysis):
        pairs.setdefault(each.row.cell.id, {})[each.row.variant.kind] = each
    lines = []
    for cell, pair in pairs.items():
        if len(pair) < 2 or pair["fused"].place not in by_place:
            continue
        unfused, fused, costs = pair["unfused"], pair["fused"], by_place[pair["fused"].place].costs
        saved_s = unfused.seconds - fused.seconds
        fewer = (unfused.counts - fused.counts) * costs
        parts = {"saved": saved_s, "launches": float(fewer[0]), "bytes": float(fewer[1])}
        parts["rest"] = saved_s - parts["launches"] - parts["bytes"]
        lines.append(
            {
                **{name: getattr(fused.row.cell, name) for name in SPLIT[1:5]},
                "cell": cell,
                "place": fused.place,
                "unfused_s": unfused.seconds,
                "fused_s": fused.seconds,
                **{f"{name}_s": value for name, value in parts.items()},
                **{name: value / unfused.seconds for name, value in parts.items()},
                **_saved_interval(fused.row),
                "predicted_s": float(fused.counts @ costs),
            }
        )
    return pd.DataFrame(lines, columns=SPLIT)


def _saved_interval(fused: Row) -> dict[str, float]:
    """Turn the interval of unfused / fused into one of the share of time that is saved."""
    gain = fused.fusion_gain
    ends = (None, None) if gain is None else (gain.low, gain.high)
    low, high = (math.nan if end is None else 1 - 1 / end for end in ends)
    return {"saved_low": low, "saved_high": high}


def sentence(analysis: Analysis) -> str:
    """Say how well the model predicts workloads that it has not seen; empty where not fitted."""
    found = fits(analysis)
    if not found:
        return ""
    errors = "; ".join(
        f"{fit.place} {100 * fit.error:.0f}% (median of {fit.rows} rows)" for fit in found
    )
    worst = middle([fit.error for fit in found])
    trust = "" if math.isnan(worst) or worst < 0.5 else " Read the split as a rough one."
    return (
        "How well a model of launches, bytes and operations predicts workloads that it was not "
        f"fitted on, as relative error: {errors}.{trust}"
    )
