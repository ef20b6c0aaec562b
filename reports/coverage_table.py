"""The coverage map as a table: how each operation, dtype and layout is held to account."""

import pandas as pd

from fuser.reports.analysis import Analysis

COVERAGE = ["operation", "dtype", "layout", "proof", "workloads", "by"]
MOST_NAMES = 4


def coverage_table(analysis: Analysis) -> pd.DataFrame:
    """List every cell of the map, in the order of the operator table.

    Returns:
        `proof` is timed (a workload of this run uses it), verified (a test of the whole operator
        table compares it with NumPy) or never; `by` names who does, at most four.
    """
    lines = [
        {
            "operation": each.operation,
            "dtype": each.dtype,
            "layout": each.layout,
            "proof": each.proof,
            "workloads": len(each.by) if each.proof == "timed" else None,
            "by": _names(list(each.by)),
        }
        for each in analysis.record.coverage
    ]
    return pd.DataFrame(lines, columns=COVERAGE)


def proofs_table(analysis: Analysis) -> pd.DataFrame:
    """Count the cells of each operation by their proof: the map in one line an operation."""
    table = coverage_table(analysis)
    columns = ["operation", "timed", "verified", "never", "dtypes_timed", "layouts_timed"]
    lines = []
    for operation, group in table.groupby("operation", sort=False):
        timed = group[group["proof"] == "timed"]
        counts = {proof: int((group["proof"] == proof).sum()) for proof in columns[1:4]}
        lines.append(
            {
                "operation": operation,
                **counts,
                "dtypes_timed": ", ".join(dict.fromkeys(timed["dtype"])),
                "layouts_timed": ", ".join(dict.fromkeys(timed["layout"])),
            }
        )
    return pd.DataFrame(lines, columns=columns)


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
