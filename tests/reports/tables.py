"""Records of tables, as runs of the presets leave them: given seconds by variant."""

from collections.abc import Mapping, Sequence
from typing import Any

from fuser.reports.record import Cell, Machine, Record, Run, Samples, Variant

KINDS = {
    "fused": "fused", "baseline": "baseline", "eager": "eager", "c": "ceiling", "numba": "peer",
    "numexpr": "peer",
}  # fmt: skip
Times = Sequence[float] | str
"""Seconds by block, all in one process; or the reason for none."""


def run(variant: str, times: Times, by_process: bool = False) -> Run:
    """One row."""
    if isinstance(times, str):
        return Run(variant, "failed", times)
    numbers, zeros = list(range(len(times))), [0] * len(times)
    where = (numbers, zeros) if by_process else (zeros, numbers)
    return Run(variant, "ok", samples=Samples(*where, numbers, [1] * len(times), times))


def cell(name: str, by_process: bool = False, elements: int = 64, **rows: Times) -> Cell:
    """One cell with its rows."""
    runs = [run(variant, times, by_process) for variant, times in rows.items()]
    return Cell(name, name.partition("-")[0], "family", "float32", "sweep", elements,
                input_bytes=8 * elements, output_bytes=4 * elements, runs=runs)  # fmt: skip


def record(preset: str, *cells: Cell, settings: Mapping[str, Any] | None = None,
           **fields: Any) -> Record:  # fmt: skip
    """A record of a table."""
    names = dict.fromkeys(each.variant for found in cells for each in found.runs)
    variants = [Variant(name, KINDS.get(name, "into")) for name in names]  # type: ignore[arg-type]
    about = {"commit": "new", "settings": {"baseline": "old", "threads": 2, **(settings or {})}}
    return Record(
        "run", "2026-11-23T00:00:00Z", True, preset,  # type: ignore[arg-type]
        Machine("a processor", 2, os="a system"), variants=variants, cells=cells,
        **(about | fields),  # type: ignore[arg-type]
    )  # fmt: skip
