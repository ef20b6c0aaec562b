"""All tables of a run under their names, which are also the names of its CSV files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

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


class Made(NamedTuple):
    """A table: the function that makes it, and its title in the page."""

    make: Callable[[Any], pd.DataFrame]
    title: str


TABLES = {
    "side_by_side": Made(
        side_by_side.side_by_side_table,
        "Two checkouts: time of the new one over that of the baseline",
    ),
    "whole_programs": Made(
        whole_programs.programs_table,
        "Whole programs: NumPy's time over ours and over each peer's",
    ),
    "chunks": Made(chunks.chunks_table, "Arrays in chunks: eager Dask's time over that of each"),
    "best_peers": Made(best_peers.best_peers_table, "The best peer of each cell, and the ceiling"),
    "aims": Made(aims.aims_table, "Figures beside what is asked of them"),
    "summary": Made(tables.summary_table, "Summaries by size: geometric means, rows and verdicts"),
    "extremes": Made(tables.extremes_table, "Best and worst: where fusing wins most and least"),
    "runs": Made(tables.runs_table, "Every row"),
    "left_out": Made(tables.left_out_table, "What was left out of the speed-ups, and why"),
    "fresh_into": Made(
        tables.fresh_into_table, "Results in a new array (fresh), and in one that is there (into)",
    ),
    "traffic": Made(tables.traffic_table, "Bytes a call, counted from the graph"),
    "boundaries": Made(tables.boundaries_table, "Arrays that cross kernels, and why"),
    "memory": Made(tables.memory_table, "Memory held during a call, beside its arguments"),
    "roofline": Made(tables.roofline_table, "Operations, bytes and the roof above each row"),
    "bandwidth": Made(tables.bandwidth_table, "Effective bandwidth of every row"),
    "ceilings": Made(tables.ceilings_table, "Memory speed of this machine, measured in this run"),
    "anatomy": Made(call_tables.anatomy_table, "The parts of a call, their sum, and the whole"),
    "break_even": Made(
        tables.break_even_table, "Cost of a call, and the size at which a variant overtakes eager",
    ),
    "compile": Made(tables.compile_table, "First call by stages"),
    "first_calls": Made(
        call_tables.first_calls_table, "First calls, cold and with machine code on disk",
    ),
    "phases": Made(call_tables.phases_table, "The phases of one first call"),
    "repay": Made(call_tables.repay_table, "Calls that repay the first"),
    "model": Made(
        cost_model.model_table, "What a launch, a byte and an operation cost, fitted on this run",
    ),
    "split": Made(cost_model.split_table, "What fusing saves, split by the model"),
    "accuracy": Made(tables.accuracy_table, "Largest errors"),
    "noise": Made(tables.noise_table, "Eager against itself"),
    "samples": Made(
        tables.samples_table, "Samples of every row, and the command that measures it again",
    ),
}
"""Name -> the table that is made of an `Analysis`."""

PRESET_TABLES: Mapping[str, PresetTable] = {
    "side_by_side": side_by_side, "aims": aims, "whole_programs": whole_programs, "chunks": chunks,
    "best_peers": best_peers,
}  # fmt: skip
"""Tables that a preset is for, under their names, with what says them in words."""

COMPARED = {
    "compare_times": Made(tables.times_table, "Change in time of every row that both runs have"),
    "compare_counts": Made(tables.counts_table, "What was counted differently"),
}
"""Name -> the table that is made of a `Comparison`, or None."""
EVERY: Mapping[str, Made] = {**TABLES, **COMPARED}


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
    made = {name: each.make(analysis) for name, each in TABLES.items()}
    made |= {name: each.make(comparison) for name, each in COMPARED.items()}
    return Collection(analysis, made, comparison)


def preset_sentences(record: Record, made: Mapping[str, pd.DataFrame]) -> list[str]:
    """What the tables of presets say in a few lines each; nothing of those without rows."""
    return [
        line for name, module in PRESET_TABLES.items()
        for line in module.sentences(record, made[name])
    ]  # fmt: skip
