"""Tables of calls: the anatomy of a call, first calls by stages, and when compiling is repaid."""

import json
import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fuser.reports.analysis import Analysis, Row
from fuser.reports.break_even import calls_to_repay
from fuser.reports.record import Anatomy
from fuser.reports.statistics import (
    LEAST_PROCESSES,
    Estimate,
    reported_interval,
    reported_range,
    t_interval,
)
from fuser.reports.tables import CELL, eager_seconds, middle, repaid_after, row_table, with_ends

CLOSES_SHARE = 0.05
"""Stamped parts are to add up to the whole within this share, of calls over 20 us within 1 us."""
CLOSES_S = 1e-6
NATIVE_CLOSES_SHARE = 0.10
"""Parts found by ablation are to add up within this share, or within 15 ns."""
NATIVE_CLOSES_S = 15e-9

WHOLE, SUM = "the whole, measured by itself", "the parts together"


def anatomy_table(analysis: Analysis) -> pd.DataFrame:
    """List the parts of a call on each path, their sum, and the whole that was measured apart.

    Returns:
        Seconds (median over processes, with the range as its interval) and the share of the
        whole. `closes` says on the line of the sum how far from the whole it is. Near enough is
        within 15 ns or 10% by ablation, by stamps within 5%, of calls over 20 us within 1 us.
    """
    lines = []
    for each in analysis.record.anatomy:
        if not each.whole_s or not each.parts_s:
            continue
        whole_s = middle(each.whole_s)
        sums = [sum(values) for values in zip(*each.parts_s.values(), strict=False)]
        for part, seconds in {**each.parts_s, SUM: sums, WHOLE: each.whole_s}.items():
            lines.append((
                each.path, each.subject, part, middle(seconds), *reported_range(seconds),
                middle(seconds) / whole_s, unexplained(each).text if part == SUM else "",
            ))  # fmt: skip
    names = ("path", "subject", "part", "part_s", "share", "closes")
    return pd.DataFrame(lines, columns=with_ends(names, ("part_s",)))


@dataclass(frozen=True, slots=True)
class Unexplained:
    """What is between a call and its parts: their sum less the whole, as shares of the whole.

    Attributes:
        share: the median over processes of each one's own.
        low: the least that any process holds possible; None in records without rounds.
        high: the most.
        limit: what is near enough.
    """

    share: float
    low: float | None
    high: float | None
    limit: float

    @property
    def closes(self) -> bool:
        """Whether the parts add up."""
        return abs(self.share) <= self.limit

    @property
    def text(self) -> str:
        """One line for the table."""
        side = "above" if self.share > 0 else "below"
        word = "" if self.closes else ", which is too far: something is missing or counted twice"
        between = ""
        if self.low is not None and self.high is not None:
            between = f" ({100 * self.low:+.1f}% to {100 * self.high:+.1f}%)"
        return f"{100 * abs(self.share):.1f}% {side} the whole{between}{word}"


def unexplained(anatomy: Anatomy) -> Unexplained:
    """Say how near the parts of a call come to the whole, and whether that is near enough.

    Parts and whole are compared within each process: its machine may have been slower.
    """
    sums = [sum(values) for values in zip(*anatomy.parts_s.values(), strict=False)]
    wholes = list(anatomy.whole_s)
    share = middle([each / whole - 1 for each, whole in zip(sums, wholes, strict=False)])
    if anatomy.method == "ablation":
        limit = max(NATIVE_CLOSES_SHARE, NATIVE_CLOSES_S / middle(wholes))
    else:
        limit = min(CLOSES_SHARE, CLOSES_S / middle(wholes))
    ends = [
        (low / whole, high / whole)
        for (low, _, high), whole in zip(anatomy.unexplained_s, wholes, strict=False)
    ]
    if len(ends) < LEAST_PROCESSES:
        return Unexplained(share, None, None, limit)
    low, high = min(each for each, _ in ends), max(each for _, each in ends)
    return Unexplained(share, low, high, limit)


def phases_table(analysis: Analysis) -> pd.DataFrame:
    """List the phases of the first call whose trace events the record keeps.

    Returns:
        One row a phase in the order of its start: its level, 0 for those that are part of no
        other, when it began, how long it took (seconds), and `share` of the call. The call ends
        with its first launch.
    """
    text = analysis.record.texts.get("trace")
    events = json.loads(text)["traceEvents"] if text else []
    # of two that begin at once the longer one holds the other
    events = sorted(events, key=lambda each: (each["ts"], -each["dur"]))
    lines: list[dict[str, Any]] = []
    open_until: list[float] = []
    for each in events:
        start, end = each["ts"], each["ts"] + each["dur"]
        while open_until and open_until[-1] <= start:
            open_until.pop()
        lines.append({
            "phase": each["name"], "level": len(open_until),
            "start_s": (start - events[0]["ts"]) / 1e6, "elapsed_s": each["dur"] / 1e6,
        })  # fmt: skip
        open_until.append(end)
        if each["name"] == "launch":
            break
    whole_s = max((each["start_s"] + each["elapsed_s"] for each in lines), default=0.0)
    for each in lines:
        each["share"] = each["elapsed_s"] / whole_s
    return pd.DataFrame(lines, columns=["phase", "level", "start_s", "elapsed_s", "share"])


def first_calls_table(analysis: Analysis) -> pd.DataFrame:
    """List the stages of first calls, cold and with machine code on disk, in seconds.

    Returns:
        One row a workload, state and stage, and one for the whole call ("first call"): median
        over processes with its 95% t interval where there are three, and the share of the call.
    """
    lines = []
    for each in analysis.record.first_calls:
        if not each.seconds:
            continue
        whole_s = middle(each.seconds)
        for stage, seconds in {"first call": each.seconds, **each.stages_s}.items():
            found = reported_interval(middle(seconds), t_interval(seconds), len(seconds))
            low, high = found or (math.nan, math.nan)
            lines.append((
                each.workload, each.state, stage, middle(seconds),
                low if math.isnan(low) else max(0.0, low), high,
                middle(seconds) / whole_s if whole_s else math.nan,
            ))  # fmt: skip
    names = ("workload", "state", "stage", "stage_s", "share")
    return pd.DataFrame(lines, columns=with_ends(names, ("stage_s",)))


def repay_table(analysis: Analysis) -> pd.DataFrame:
    """Count the calls that repay the first one, which compiles: cold, and with code on disk.

    Returns:
        One row a compiled and timed row. `calls_to_repay` is infinite where a call is no faster
        than eager; its interval is from that of the ratio to eager, and no end is below 1.
        `disk_calls_to_repay` is known for the workloads of `first_calls_table`.
    """
    eager = eager_seconds(analysis)
    on_disk = {
        each.workload: middle(each.seconds)
        for each in analysis.record.first_calls
        if each.state == "disk cache" and each.seconds
    }

    def eager_s(row: Row) -> float:
        return eager[row.cell.id].value

    def repay(row: Row) -> Estimate:
        ratio, first_s, low, high = row.speedup, middle(row.run.first_call_s), None, None
        if ratio is not None and ratio.low is not None and ratio.high is not None:
            low, high = (
                calls_to_repay(first_s, eager_s(row) / end, eager_s(row))
                for end in (ratio.high, ratio.low)
            )
        return Estimate(repaid_after(row, eager), low, high, 0)

    def disk_s(row: Row) -> float | None:
        return on_disk.get(row.cell.workload) if row.variant.kind == "fused" else None

    def disk_repay(row: Row) -> float | None:
        first_s = disk_s(row)
        if first_s is None or row.seconds is None:
            return None
        return calls_to_repay(first_s, row.seconds.value, eager_s(row))

    return row_table(
        [
            row for row in analysis.rows
            if row.variant.kind in ("fused", "unfused", "peer")
            and not math.isnan(repaid_after(row, eager))
        ],
        (*CELL, "variant", "first_call_s", "call_s", "eager_s", "calls_to_repay",
         "disk_first_call_s", "disk_calls_to_repay"),
        ("calls_to_repay",), eager_s=eager_s, calls_to_repay=repay, disk_first_call_s=disk_s,
        disk_calls_to_repay=disk_repay,
    )  # fmt: skip
