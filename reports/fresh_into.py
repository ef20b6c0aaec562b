"""The table of large results in new arrays beside results in arrays that are there already.

The page faults of a large new array cost whoever makes it; with a buffer given, they are gone for
both sides. So the ratio of what is left stands beside the ratio of new arrays.
"""

from typing import Any

import pandas as pd

from fuser.reports.analysis import Analysis, Row
from fuser.reports.statistics import Estimate, paired_log_ratios, ratio_of
from fuser.reports.tables import identity, spread

PAIRS = (("eager", "eager_into"), ("fused", "fused_into"))
"""A variant, and the same one writing into a given array."""


def fresh_into_table(analysis: Analysis) -> pd.DataFrame:
    """List the cells that were timed both ways, one row each.

    Returns:
        Seconds a call of all four; `fresh_ratio` is eager / fused, `into_ratio` is eager_into /
        fused_into, pure numbers above 1 where the fuser is faster. `note` says what is missing.
    """
    by_cell: dict[str, dict[str, Row]] = {}
    for row in analysis.rows:
        by_cell.setdefault(row.cell.id, {})[row.variant.name] = row
    lines = [
        _line(rows, analysis.noise_log)
        for rows in by_cell.values()
        if any(pair[1] in rows for pair in PAIRS)
    ]
    return pd.DataFrame(lines, columns=COLUMNS)


def _line(rows: dict[str, Row], noise_log: float) -> dict[str, Any]:
    names = [name for pair in PAIRS for name in pair]
    line: dict[str, Any] = identity(next(iter(rows.values())))
    for name in names:
        line |= spread(f"{name}_s", rows[name].seconds if name in rows else None)
    line |= spread("fresh_ratio", _ratio(rows, "eager", "fused", noise_log))
    line |= spread("into_ratio", _ratio(rows, "eager_into", "fused_into", noise_log))
    missing = [f"{name}: {rows[name].label.reason}" for name in names
               if name in rows and rows[name].seconds is None]  # fmt: skip
    return line | {"note": "; ".join(missing)}


def _ratio(
    rows: dict[str, Row], baseline: str, candidate: str, noise_log: float
) -> Estimate | None:
    """Give the ratio of two timed rows that count; None where one does not."""
    pair = [rows.get(baseline), rows.get(candidate)]
    if any(row is None or row.seconds is None or not row.label.counts for row in pair):
        return None
    first, second = rows[baseline], rows[candidate]
    logs = paired_log_ratios(first.run.samples, second.run.samples)
    return ratio_of(logs, noise_log=noise_log)


COLUMNS = [
    *("cell", "workload", "family", "dtype", "size", "elements"),
    *(
        f"{name}{end}"
        for name in ("eager_s", "eager_into_s", "fused_s", "fused_into_s", "fresh_ratio",
                     "into_ratio")
        for end in ("", "_low", "_high")
    ),
    "note",
]  # fmt: skip
