"""The sections of the page: which figures, tables and sentences stand where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuser.reports.collection import EVERY, PRESET_TABLES, Collection, preset_sentences
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


@dataclass(frozen=True, slots=True)
class Block:
    """One thing in a section: a figure, a table, pairs, sources or a list."""

    figure: Drawn | None = None
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
            found = collection.analysis.record, collection.tables["summary"]
            cards = cards_of(*found) if name == "overview" else []
            sections.append(Section(name, title, paragraphs, cards, blocks))
    return sections


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
        blocks.append(Block(figure=each))
        if each.chart.table not in shown:
            blocks += _open_tables(collection, [(each.chart.table, False)])
            shown.add(each.chart.table)
    return blocks


def _open_tables(collection: Collection, tables: Iterable[tuple[str, bool]]) -> list[Block]:
    """Spell the tables that have rows."""
    return [
        Block(table=display(name, EVERY[name].title, collection.tables[name]), open=opened)
        for name, opened in tables
        if len(collection.tables[name])
    ]
