"""The sections of the page: which figures, tables and sentences stand where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuser.reports.collection import PRESET_TABLES, Collection, preset_sentences
from fuser.reports.comparison_output import headline
from fuser.reports.cost_model import sentence
from fuser.reports.display import Table, display
from fuser.reports.evidence import evidence_blocks
from fuser.reports.headline import Card, cards_of, left_out_sentence
from fuser.reports.plots.figures import Drawn

SECTIONS = (
    ("overview", "Overview"),
    ("traffic", "Memory traffic"),
    ("overhead", "Launch overhead"),
    ("compare", "Compare"),
    ("evidence", "Evidence"),
)
"""The sections in order; one with nothing to show is left out."""

LAST_TABLES = {
    "overview": tuple(
        (name, True)
        for name in (*PRESET_TABLES, "summary", "extremes", "runs", "left_out")
    ),
    "traffic": (("fresh_into", True), ("ceilings", False)),
    "overhead": (("model", False),),
    "compare": (("compare_counts", True),),
    "evidence": (("samples", False),),
}
"""Section -> tables after its figures, and whether they are open."""

TABLE_TITLES = {
    "side_by_side": "Two checkouts: time of the new one over that of the baseline",
    "whole_programs": "Whole programs: NumPy's time over ours and over each peer's",
    "chunks": "Arrays in chunks: eager Dask's time over that of each",
    "best_peers": "The best peer of each cell, and the ceiling",
    "aims": "Figures beside what is asked of them",
    "summary": "Summaries by size: geometric means, rows and verdicts",
    "extremes": "Best and worst: where fusing wins most and least",
    "runs": "Every row",
    "left_out": "What was left out of the speed-ups, and why",
    "fresh_into": "Results in a new array (fresh), and in one that is there (into)",
    "traffic": "Bytes a call, counted from the graph",
    "boundaries": "Arrays that cross kernels, and why",
    "memory": "Memory held during a call, beside its arguments",
    "roofline": "Operations, bytes and the roof above each row",
    "bandwidth": "Effective bandwidth of every row",
    "ceilings": "Memory speed of this machine, measured in this run",
    "break_even": "Cost of a call, and the size at which a variant overtakes eager",
    "compile": "First call by stages",
    "anatomy": "The parts of a call, their sum, and the whole",
    "first_calls": "First calls, cold and with machine code on disk",
    "phases": "The phases of one first call",
    "repay": "Calls that repay the first",
    "model": "What a launch, a byte and an operation cost, fitted on this run",
    "split": "What fusing saves, split by the model",
    "accuracy": "Largest errors",
    "noise": "Eager against itself",
    "compare_times": "Change in time of every row that both runs have",
    "compare_counts": "What was counted differently",
    "samples": "Samples of every row, and the command that measures it again",
}


@dataclass(frozen=True, slots=True)
class FigureBlock:
    """A figure as the template wants it."""

    name: str
    question: str
    reading: str
    wide_svg: str
    narrow_svg: str


@dataclass(frozen=True, slots=True)
class Block:
    """One thing in a section: a figure, a table, pairs, sources or a list."""

    figure: FigureBlock | None = None
    table: Table | None = None
    open: bool = False
    title: str = ""
    pairs: Sequence[tuple[str, str]] = ()
    sources: Sequence[object] = ()
    items: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the page."""

    name: str
    title: str
    paragraphs: Sequence[str]
    cards: Sequence[Card]
    blocks: Sequence[Block]


def sections_of(collection: Collection, drawn: Sequence[Drawn]) -> list[Section]:
    """Build the sections that have something to show."""
    sections = []
    for name, title in SECTIONS:
        blocks: list[Block] = []
        blocks += _figures(collection, [each for each in drawn if each.chart.section == name])
        if blocks or name not in ("traffic", "overhead"):  # ceilings alone say nothing of rows
            blocks += _open_tables(collection, LAST_TABLES.get(name, ()))
        if name == "evidence":
            blocks += [Block(**each) for each in evidence_blocks(collection)]
        paragraphs = paragraphs_of(collection, name)
        if blocks or (name == "compare" and paragraphs):
            cards = _cards(collection) if name == "overview" else []
            sections.append(Section(name, title, paragraphs, cards, blocks))
    return sections


def _cards(collection: Collection) -> list[Card]:
    return cards_of(collection.analysis.record, collection.tables["summary"])


def paragraphs_of(collection: Collection, section: str) -> list[str]:
    """Give the sentences under a section's title."""
    if section == "overview":
        said = preset_sentences(collection.analysis.record, collection.tables)
        return [*said, left_out_sentence(collection)]
    if section == "overhead":
        return [each for each in (sentence(collection.analysis),) if each]
    comparison = collection.comparison
    if section == "compare" and comparison is not None:
        found = f"{comparison.base_id} (base) and {comparison.head_id} (head): "
        return [f"{found}{headline(comparison)}.", *(f"{note}." for note in comparison.notes)]
    return []


def _figures(collection: Collection, drawn: Sequence[Drawn]) -> list[Block]:
    """Give each figure, and after it the table that says the same, once."""
    blocks: list[Block] = []
    shown = {"runs"}
    for each in drawn:
        blocks.append(Block(figure=_figure_block(each)))
        if each.chart.table not in shown:
            blocks += _open_tables(collection, [(each.chart.table, False)])
            shown.add(each.chart.table)
    return blocks


def _figure_block(drawn: Drawn) -> FigureBlock:
    chart = drawn.chart
    return FigureBlock(chart.name, chart.question, chart.reading, drawn.wide_svg, drawn.narrow_svg)


def _open_tables(collection: Collection, tables: Iterable[tuple[str, bool]]) -> list[Block]:
    """Spell the tables that have rows."""
    return [
        Block(table=display(name, TABLE_TITLES[name], collection.tables[name]), open=opened)
        for name, opened in tables
        if len(collection.tables[name])
    ]
