"""A comparison of two runs as tables: times that changed, and what was counted differently."""

from typing import Any

import pandas as pd

from fuser.reports.comparison import Comparison
from fuser.reports.tables import spread

TIMES = [
    "cell", "variant", "ratio", "ratio_low", "ratio_high", "processes", "verdict", "basis", "gated",
]  # fmt: skip
COUNTS = ["cell", "variant", "what", "base", "head", "finding"]


def times_table(comparison: Comparison | None) -> pd.DataFrame:
    """List every row that both runs timed, the most slowed first.

    Returns:
        `ratio` is head / base, a pure number above 1 where the head is slower; NaN where a side
        has no time. `gated` says whether the row decides the gate: a peer's does not.
    """
    lines: list[dict[str, Any]] = [
        {
            "cell": row.cell,
            "variant": row.variant,
            **spread("ratio", row.ratio),
            "processes": 0 if row.ratio is None else row.ratio.processes,
            "verdict": row.verdict,
            "basis": row.basis,
            "gated": "yes" if row.gated else "no",
        }
        for row in (comparison.timed if comparison else ())
    ]
    table = pd.DataFrame(lines, columns=TIMES)
    return table.sort_values("ratio", ascending=False, kind="stable", ignore_index=True)


def counts_table(comparison: Comparison | None) -> pd.DataFrame:
    """List what needs no clock and differs: wrong and missing rows, counts, emitted text."""
    if comparison is None:
        return pd.DataFrame(columns=COUNTS)
    lines = [(*found[:2], "result", "", found[2], "wrong") for found in comparison.wrong]
    lines += [(*found[:2], "row", "measured", found[2], "missing") for found in comparison.missing]
    lines += [
        (each.cell, each.variant, each.what, each.base, each.head, each.kind)
        for each in comparison.changes
    ]
    return pd.DataFrame(lines, columns=COUNTS)
