"""All tables of a run under their names, which are also the names of its CSV files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from fuser.reports import (
    aims,
    best_peers,
    call_tables,
    chunks,
    cost_model,
    side_by_side,
    tables,
    whole_programs,
)
from fuser.reports.analysis import Analysis
from fuser.reports.comparison import Comparison
from fuser.reports.plots.style import KIND_COLORS
from fuser.reports.record import Record


class PresetTable(Protocol):
    """What a module of a preset's table has."""

    LEGEND: str

    def sentences(self, record: Record, table: pd.DataFrame) -> list[str]:
        """The table in a few lines; nothing where it has no rows."""


TABLES = {
    "side_by_side": side_by_side.side_by_side_table,
    "whole_programs": whole_programs.programs_table,
    "chunks": chunks.chunks_table,
    "best_peers": best_peers.best_peers_table,
    "aims": aims.aims_table,
    "summary": tables.summary_table,
    "extremes": tables.extremes_table,
    "runs": tables.runs_table,
    "left_out": tables.left_out_table,
    "fresh_into": tables.fresh_into_table,
    "traffic": tables.traffic_table,
    "boundaries": tables.boundaries_table,
    "memory": tables.memory_table,
    "roofline": tables.roofline_table,
    "bandwidth": tables.bandwidth_table,
    "ceilings": tables.ceilings_table,
    "anatomy": call_tables.anatomy_table,
    "break_even": tables.break_even_table,
    "compile": tables.compile_table,
    "first_calls": call_tables.first_calls_table,
    "phases": call_tables.phases_table,
    "repay": call_tables.repay_table,
    "model": cost_model.model_table,
    "split": cost_model.split_table,
    "accuracy": tables.accuracy_table,
    "noise": tables.noise_table,
    "samples": tables.samples_table,
}
"""Name -> the function of an `Analysis` that makes the table."""

PRESET_TABLES: Mapping[str, PresetTable] = {
    "side_by_side": side_by_side, "aims": aims, "whole_programs": whole_programs, "chunks": chunks,
    "best_peers": best_peers,
}  # fmt: skip
"""Tables that a preset is for, under their names, with what says them in words."""

COMPARED = {
    "compare_times": tables.times_table,
    "compare_counts": tables.counts_table,
}
"""Name -> the function of a `Comparison`, or None, that makes the table."""


@dataclass(frozen=True, slots=True)
class Collection:
    """An analysed run and its tables; what figures and page are made from."""

    analysis: Analysis
    tables: Mapping[str, pd.DataFrame]
    comparison: Comparison | None = None  # of this run, the head, with a base

    def peers(self) -> list[str]:
        """Name the variants that are other fusers, in recorded order: they share the palette.

        So does a second variant of one kind, as a third party's beside our own.
        """
        first: dict[str, str] = {}
        variants = self.analysis.record.variants
        for each in variants:
            first.setdefault(each.kind, each.name)
        return [
            each.name for each in variants
            if each.kind == "peer" or (each.kind in KIND_COLORS and first[each.kind] != each.name)
        ]


def collect(analysis: Analysis, comparison: Comparison | None = None) -> Collection:
    """Make every table of an analysed run; tables with nothing to show have no rows."""
    made = {name: make(analysis) for name, make in TABLES.items()}
    made |= {name: make(comparison) for name, make in COMPARED.items()}
    return Collection(analysis, made, comparison)


def preset_sentences(record: Record, made: Mapping[str, pd.DataFrame]) -> list[str]:
    """What the tables of presets say in a few lines each; nothing of those without rows."""
    return [
        line for name, module in PRESET_TABLES.items()
        for line in module.sentences(record, made[name])
    ]  # fmt: skip
