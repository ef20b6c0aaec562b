"""Tables of memory: what crosses kernels and why, what a call holds, and the roofline."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis, Row, working_set_bytes
from fuser.reports.ceilings import Speed, ceiling_for
from fuser.reports.record import Cell
from fuser.reports.tables import middle

CELL = ["cell", "workload", "dtype", "size", "elements"]
BOUNDARIES = [
    *CELL, "value", "kind", "kernels", "moved_bytes", "of_least", "cost_s", "meaning", "reason",
    "array",
]  # fmt: skip
MEMORY = [*CELL, "variant", "kind", "peak_bytes", "temporary_bytes", "per_element"]
ROOFLINE = [
    *CELL, "variant", "kind", "operations", "moved_bytes", "intensity", "operations_per_s",
    "roof_per_s", "roof_share", "limit",
]  # fmt: skip


def _identity(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, "id" if name == "cell" else name) for name in CELL}


def boundaries_table(analysis: Analysis) -> pd.DataFrame:
    """List every array that crosses the kernels of a fused plan, most bytes first in its cell.

    Returns:
        `moved_bytes` is what is written and read because it crosses, `of_least` the same as a
        share of the cell's least bytes; the least and all of these together are the planned
        bytes. `cost_s` is an estimate: the bytes at the speed of a copy in the same cache level,
        or where none was timed in it, of the copy with the nearest working set.
    """
    lines = []
    for cell in analysis.record.cells:
        least = cell.ledger.least_bytes
        copy = _copy_speed(cell, analysis)
        for each in sorted(cell.ledger.boundaries, key=lambda one: -one.moved_bytes):
            readers = ", ".join(map(str, each.read_by))
            maker = "argument" if each.written_by is None else f"{each.written_by}"
            lines.append(
                {
                    **_identity(cell),
                    "value": each.value,
                    "kind": each.kind,
                    "kernels": f"{maker} → {readers}",
                    "moved_bytes": each.moved_bytes,
                    "of_least": each.moved_bytes / least if least else None,
                    "cost_s": each.moved_bytes / copy.typical if copy else None,
                    "meaning": each.meaning or each.reason,
                    "reason": each.reason,
                    "array": each.array,
                }
            )
    return pd.DataFrame(lines, columns=BOUNDARIES)


def _copy_speed(cell: Cell, analysis: Analysis) -> Speed | None:
    caches = analysis.record.machine.caches
    working_set = working_set_bytes(cell)
    copies = [each for each in analysis.speeds if each.name == "copy"]
    found = ceiling_for(working_set, copies, caches, ("copy",))
    if found is None and copies and working_set > 0:
        nearest = min(
            (each.working_set_bytes for each in copies),
            key=lambda size: abs(math.log(max(size, 1) / working_set)),
        )
        found = max(
            (each for each in copies if each.working_set_bytes == nearest),
            key=lambda each: each.typical,
        )
    return found


def memory_table(analysis: Analysis) -> pd.DataFrame:
    """List the memory that one call of each row holds at its peak, beyond what was held before.

    Returns:
        `temporary_bytes` is the peak without the results; `per_element` the peak for each element
        of the largest input. Rows that were not measured (peers) are not in it.
    """
    lines = [
        {
            **_identity(row.cell),
            "variant": row.variant.name,
            "kind": row.variant.kind,
            "peak_bytes": row.run.peak_bytes,
            "temporary_bytes": max(0, row.run.peak_bytes - row.cell.output_bytes),
            "per_element": row.run.peak_bytes / max(row.cell.elements, 1),
        }
        for row in analysis.rows
        if row.run.peak_bytes is not None
    ]
    return pd.DataFrame(lines, columns=MEMORY)


def arithmetic_roof(analysis: Analysis, dtype: str) -> float | None:
    """Give the operations a second of arithmetic that needs no memory: the fastest process.

    Args:
        analysis: of a run.
        dtype: of the operands; others have no roof.
    """
    found = (each for each in analysis.record.arithmetic if each.dtype == dtype and each.seconds)
    return max((each.operations / middle(each.seconds) for each in found), default=None)


def roofline_table(analysis: Analysis) -> pd.DataFrame:
    """Place every compiled row under the roof that memory and arithmetic set.

    Returns:
        `intensity` is operations a byte that the row's kernels move; `roof_per_s` the operations
        a second possible at it, by the fastest of copy, triad and read in the same cache level
        and by arithmetic; `limit` which of the two is lower. Elementary functions count as one
        operation each, so rows with many of them stay far below the arithmetic roof.
    """
    lines = []
    for row in analysis.rows:
        computed = (row.cell.ledger.operations or 0) + (row.cell.ledger.elementary or 0)
        moved = row.run.planned_bytes
        countable = row.variant.kind in ("unfused", "fused") and row.label.counts
        if not (countable and row.seconds and computed and moved):
            continue
        memory, arithmetic = _roofs(row, analysis)
        flat = [each for each in (memory and memory * computed / moved, arithmetic) if each]
        roof = min(flat, default=None)
        rate = computed / row.seconds.value
        lines.append(
            {
                **_identity(row.cell),
                "variant": row.variant.name,
                "kind": row.variant.kind,
                "operations": computed,
                "moved_bytes": moved,
                "intensity": computed / moved,
                "operations_per_s": rate,
                "roof_per_s": roof,
                "roof_share": rate / roof if roof else None,
                "limit": _limit(flat, arithmetic),
            }
        )
    return pd.DataFrame(lines, columns=ROOFLINE)


def _roofs(row: Row, analysis: Analysis) -> tuple[float | None, float | None]:
    caches = analysis.record.machine.caches
    working_set = working_set_bytes(row.cell)
    speed = ceiling_for(working_set, analysis.speeds, caches, ("copy", "triad", "read"))
    return (speed.typical if speed else None), arithmetic_roof(analysis, row.cell.dtype)


def _limit(roofs: Sequence[float], arithmetic: float | None) -> str:
    if not roofs:
        return ""
    return "arithmetic" if arithmetic is not None and min(roofs) == arithmetic else "memory"


def largest_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of the largest size of each workload and dtype."""
    most = table.groupby(["workload", "dtype"])["elements"].transform("max")
    return table[np.asarray(table["elements"] == most)]
