"""The page: one HTML file that opens from disk, with every figure, its table and its evidence."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined

from fuser.reports.analysis import analyse
from fuser.reports.collection import Collection, collect
from fuser.reports.display import Table, display
from fuser.reports.evidence import evidence_blocks
from fuser.reports.figures import Drawn, draw_all
from fuser.reports.headline import Card, cards_of, left_out_sentence, machine_line, run_line
from fuser.reports.record import Record, load
from fuser.reports.tables import write_csv

SECTIONS = (
    ("overview", "Overview"),
    ("traffic", "Memory traffic"),
    ("overhead", "Launch overhead"),
    ("evidence", "Evidence"),
)
"""The sections in order; one with nothing to show is left out."""

TABLE_TITLES = {
    "summary": "Summaries by size: geometric means, rows and verdicts",
    "runs": "Every row",
    "left_out": "What was left out of the speed-ups, and why",
    "fresh_into": "Large results: in a new array (fresh), and in one that is there (into)",
    "traffic": "Bytes a call, counted from the graph",
    "bandwidth": "Effective bandwidth of every row",
    "ceilings": "Memory speed of this machine, measured in this run",
    "break_even": "Cost of a call, and the size at which a variant overtakes eager",
    "compile": "First call by stages",
    "compile_scaling": "Compile time by stage and graph size",
    "accuracy": "Largest errors",
    "noise": "Eager against itself",
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


def render(run_dir: Path) -> Path:
    """Write the report of a run beside its record: the page, its figures and its tables.

    Args:
        run_dir: a folder that holds `record.json`, finished or interrupted.

    Returns:
        The path of `report.html`; `figures/*.png` and `*.csv` are written beside it.

    Raises:
        fuser.reports.record.RecordError: the record is not one, or a field of it is wrong.
        OSError: the folder cannot be read or written.
    """
    folder = Path(run_dir)
    collection = collect(analyse(load(folder / "record.json")))
    drawn = draw_all(collection, folder / "figures")
    write_csv({name: table for name, table in collection.tables.items() if len(table)}, folder)
    text = page_text(collection, drawn)
    target = folder / "report.html"
    unfinished = folder / f"report.html.{os.getpid()}.tmp"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(target)
    return target


def page_text(collection: Collection, drawn: Sequence[Drawn]) -> str:
    """Fill the template.

    Args:
        collection: an analysed run and its tables.
        drawn: its figures, as `fuser.reports.figures.draw_all` gives them.

    Returns:
        The whole page as HTML text, without any reference that needs a network.
    """
    record = collection.analysis.record
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(_resource)
    )
    return environment.get_template("page.html.j2").render(
        title=f"Fusion report {record.run_id}",
        style=_resource("page.css"),
        script=_resource("page.js"),
        machine_line=machine_line(record),
        run_line=run_line(record),
        banners=banners_of(collection),
        sections=sections_of(collection, drawn),
        footer=f"Run {record.run_id}, drawn by fuser-bench from record.json.",
    )


def _resource(name: str) -> str:
    """Read a file that is installed beside this module."""
    return files("fuser.reports").joinpath(name).read_text(encoding="utf-8")


def banners_of(collection: Collection) -> list[str]:
    """Say first what limits the whole page."""
    record = collection.analysis.record
    banners = []
    if not any(row.seconds is not None for row in collection.analysis.rows):
        banners.append("Nothing was measured: the record holds no sample.")
    if not record.finished:
        banners.append("This run was interrupted. The page shows what was measured until then.")
    if collection.analysis.processes == 1:
        banners.append(
            "Measured in one process: there is no interval and no verdict. "
            "The differences between processes are part of every honest comparison."
        )
    return banners


def sections_of(collection: Collection, drawn: Sequence[Drawn]) -> list[Section]:
    """Build the sections that have something to show."""
    sections = []
    for name, title in SECTIONS:
        blocks: list[Block] = []
        shown: set[str] = set()
        for each in (each for each in drawn if each.chart.section == name):
            blocks.append(Block(figure=_figure_block(each)))
            if each.chart.table not in shown and each.chart.table != "runs":
                blocks += _table_blocks(collection, [each.chart.table], opened=False)
                shown.add(each.chart.table)
        if name == "overview":
            blocks = _table_blocks(collection, ["summary"], opened=True) + blocks
            blocks += _table_blocks(collection, ["runs", "left_out"], opened=True)
        if name == "traffic" and blocks:
            blocks += _table_blocks(collection, ["fresh_into"], opened=True)
            blocks += _table_blocks(collection, ["ceilings"], opened=False)
        if name == "evidence":
            blocks += _table_blocks(collection, ["samples"], opened=False)
            blocks += [Block(**each) for each in evidence_blocks(collection)]
        is_overview = name == "overview"
        paragraphs = [left_out_sentence(collection)] if is_overview and blocks else []
        cards = cards_of(collection) if is_overview else []
        if blocks:
            sections.append(Section(name, title, paragraphs, cards, blocks))
    return sections


def _figure_block(drawn: Drawn) -> FigureBlock:
    chart = drawn.chart
    return FigureBlock(chart.name, chart.question, chart.reading, drawn.wide_svg, drawn.narrow_svg)


def _table_blocks(collection: Collection, names: Sequence[str], opened: bool) -> list[Block]:
    """Spell the tables that have rows."""
    return [
        Block(table=display(name, TABLE_TITLES[name], collection.tables[name]), open=opened)
        for name in names
        if len(collection.tables[name])
    ]


def record_of(run_dir: Path) -> Record:
    """Read the record that a run's folder holds."""
    return load(Path(run_dir) / "record.json")
