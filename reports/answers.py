"""The first screen in words: how much faster, why, and where not."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fuser.reports.analysis import Analysis, Row
from fuser.reports.labels import is_expected
from fuser.reports.plots.marks import SIZE_TITLES
from fuser.reports.spelling import bytes_text, count_text, ratio_text
from fuser.reports.statistics import Estimate, geometric_mean, geometric_mean_ratio, no_interval
from fuser.reports.verdicts import Verdict

SIZES = ("S", "M", "L")
NAMED = 4
"""Rows that a sentence names; the table has all."""
TERMS = (
    ("eager", "plain NumPy: one operation after another, each with a result in memory"),
    ("fused", "one kernel for operations that belong together: what this project is about"),
    ("unfused", (
        "the same compiler with one kernel for each operation: what is gained without fusing, by "
        "threads, memory that is used again, and better code"
    )),
    ("fallback", "the fuser when it leaves every operation to NumPy: what its calls cost"),
)  # fmt: skip
"""Names of the ways to run a workload, in the order in which a reader meets them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question of the first screen, and the sentences that answer it."""

    question: str
    sentences: Sequence[str]


def answers_of(analysis: Analysis) -> list[Answer]:
    """Answer the three questions from a run of whole workloads.

    Args:
        analysis: of the run; rows of size sweeps are left to their figure.

    Returns:
        Nothing where no fused row has a speed-up.
    """
    rows = [
        row for row in analysis.rows
        if row.variant.kind == "fused" and row.cell.size in SIZES and row.variant.name == "fused"
    ]  # fmt: skip
    counted = [row for row in rows if row.label.counts and row.speedup is not None]
    if not counted:
        return []
    return [
        Answer("How much faster?", [*_how_much(counted, analysis.noise_log)]),
        Answer("Why?", [*_why(counted, analysis.noise_log)]),
        Answer("Where not?", [*_where_not(rows, counted)]),
    ]


def _how_much(rows: Sequence[Row], noise_log: float) -> Iterable[str]:
    for size in SIZES:
        some = [row for row in rows if row.cell.size == size]
        if not some:
            continue
        whole = geometric_mean_ratio([row.log_ratios for row in some], noise_log=noise_log)
        said = (
            f"{_of(size, some)}, fused functions are {_as_fast(whole, 'plain NumPy')}: the "
            f"geometric mean of {len(some)} {_plural('workload', len(some))}."
        )
        sure = [row for row in some if row.verdict is Verdict.FASTER]
        if sure:
            best = max(sure, key=_speedup)
            said += f" Most is gained by {best.cell.workload} ({ratio_text(_speedup(best))})."
        yield said


def _why(rows: Sequence[Row], noise_log: float) -> Iterable[str]:
    moved = [
        row.cell.ledger for row in rows
        if row.cell.ledger.unfused_bytes and row.cell.ledger.planned_bytes
    ]  # fmt: skip
    if moved:
        less = geometric_mean(
            [(each.unfused_bytes or 1) / (each.planned_bytes or 1) for each in moved]
        )
        example = max(moved, key=lambda each: each.unfused_bytes or 0)
        yield (
            f"Fewer bytes: NumPy stores each intermediate result and reads it again, and moves "
            f"{less:.3g} times as many bytes as the kernels do (the largest row: "
            f"{bytes_text(example.unfused_bytes or 0)} and {bytes_text(example.planned_bytes or 0)}"
            " a call, counted from the graph)."
        )
    launched = [each for each in moved if each.kernels_fused and each.kernels_unfused]
    if launched:
        operations = sum(each.kernels_unfused or 0 for each in launched) / len(launched)
        kernels = sum(each.kernels_fused or 0 for each in launched) / len(launched)
        yield (
            f"Fewer launches: on average {count_text(operations)} operations of NumPy become "
            f"{count_text(kernels)} {_plural('kernel', kernels)}. It matters most on small arrays."
        )
    fusing = [row.fusion_log_ratios for row in rows if row.fusion_gain is not None]
    if fusing:
        whole = geometric_mean_ratio(fusing, noise_log=noise_log)
        yield (
            f"Fusing itself gains a part of it: fused functions are "
            f"{_as_fast(whole, 'the same compiler with one kernel for each operation')}. The rest "
            "comes from the compiler."
        )


def _where_not(rows: Sequence[Row], counted: Sequence[Row]) -> Iterable[str]:
    slower = [row for row in counted if row.verdict is Verdict.SLOWER]
    same = [row for row in counted if row.verdict in (Verdict.SAME, Verdict.INCONCLUSIVE)]
    yield f"Slower than NumPy: {_named(slower, _with_ratio) if slower else 'no row'}."
    if same:
        yield f"No difference seen, or none that is sure: {_named(same, _with_ratio)}."
    refused = [row for row in rows if is_expected(row.label)]
    if refused:
        yield f"Left to NumPy, as their workloads are there to show: {_named(refused, _place)}."
    left_out = [row for row in rows if row.label.is_left_out and not is_expected(row.label)]
    if left_out:
        named = _named(left_out, lambda row: f"{_place(row)} ({row.label.text})")
        yield f"Not counted: {named}; the reasons stand below."
    least = min(counted, key=_speedup)
    if not slower and not same:
        yield f"Least is gained by {_with_ratio(least)}."


def _of(size: str, rows: Sequence[Row]) -> str:
    """Where a sentence holds: no further than what was measured."""
    elements = sorted({row.cell.elements for row in rows})
    span = f"{elements[0]:,}"
    if len(elements) > 1:
        span += f" to {elements[-1]:,}"
    return f"On {SIZE_TITLES[size].lower()} arrays ({span} elements)"


def _as_fast(ratio: Estimate | None, other: str) -> str:
    """A ratio with its interval, in words."""
    if ratio is None:
        return f"not known to be faster than {other}"
    if ratio.low is None or ratio.high is None:
        interval = no_interval(ratio.processes)
    else:
        interval = f"95% interval {ratio.low:.3g} to {ratio.high:.3g}"
        if ratio.low <= 1 <= ratio.high:
            interval += ", which spans 1: no difference is shown"
    return f"{ratio.value:.3g} times as fast as {other} ({interval})"


def _speedup(row: Row) -> float:
    return row.speedup.value if row.speedup is not None else math.nan


def _plural(word: str, count: float) -> str:
    return word if count == 1 else f"{word}s"


def _place(row: Row) -> str:
    return f"{row.cell.workload} ({SIZE_TITLES[row.cell.size].lower()})"


def _with_ratio(row: Row) -> str:
    size = SIZE_TITLES[row.cell.size].lower()
    return f"{row.cell.workload} ({size}, {ratio_text(_speedup(row))})"


def _named(rows: Sequence[Row], spell: Callable[[Row], str]) -> str:
    """Some rows by name, and how many more there are."""
    names = [spell(row) for row in rows[:NAMED]]
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return ", ".join(names) + more
