"""The page: one HTML file that opens from disk, with every figure, its table and its evidence."""

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from fuser.reports.analysis import analyse
from fuser.reports.answers import TERMS, answers_of
from fuser.reports.collection import Collection, collect
from fuser.reports.comparison import Comparison, compare_records
from fuser.reports.headline import machine_line, run_line
from fuser.reports.plots.figures import Drawn, draw_all
from fuser.reports.record import Record, load
from fuser.reports.row_details import packed
from fuser.reports.sections import sections_of
from fuser.reports.tables import write_csv
from fuser.reports.weaknesses import weaknesses

TABLE_PRESETS = ("peers", "rows", "others", "programs", "dask", "calls", "compile", "device")
"""Presets that are one table: their page begins with it."""
TRACE = "trace"
"""The key of the record's trace events among its texts."""
TRACE_FILE = "trace.json"


def render(
    run_dir: Path,
    base_dir: Path | None = None,
    target: Path | None = None,
    comparison: Comparison | None = None,
) -> Path:
    """Write the report of a run beside its record: the page, its figures and its tables.

    Args:
        run_dir: a folder that holds `record.json`, finished or interrupted, or a record's file.
        base_dir: that of a run to compare with; the page then has a section Compare.
        target: the page to write; by default `report.html` in the folder, for a file in a folder
            of its name beside it.
        comparison: the run with a base, as somebody compared them already; instead of `base_dir`.

    Returns:
        The path of the page; `figures/*.png` and `*.csv` are written beside it.

    Raises:
        fuser.reports.record.RecordError: the record is not one, or a field of it is wrong.
        OSError: the folder cannot be read or written.
    """
    head = record_of(run_dir)
    if base_dir is not None:
        comparison = compare_records(record_of(base_dir), head)
    place = Path(run_dir)
    folder = place.with_suffix("") if place.is_file() else place
    if place.name == "record.json":
        folder = place.parent
    target = folder / "report.html" if target is None else Path(target)
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    collection = collect(analyse(head), comparison)
    drawn = draw_all(collection, folder / "figures")
    if TRACE in head.texts:
        (folder / TRACE_FILE).write_text(head.texts[TRACE], encoding="utf-8")
    write_csv({name: table for name, table in collection.tables.items() if len(table)}, folder)
    text = page_text(collection, drawn)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(target)
    return target


def page_text(collection: Collection, drawn: Sequence[Drawn]) -> str:
    """Fill the template.

    Args:
        collection: an analysed run and its tables.
        drawn: its figures, as `fuser.reports.plots.figures.draw_all` gives them.

    Returns:
        The whole page as HTML text, without any reference that needs a network.
    """
    record = collection.analysis.record
    return filled(
        "page.html.j2",
        title=f"Fusion report {record.run_id}",
        style=resource("page.css"),
        script=resource("page.js"),
        details_script=resource("details.js"),
        details=packed(collection.analysis),
        trace=TRACE_FILE if TRACE in record.texts else "",
        machine_line=machine_line(record),
        run_line=run_line(record),
        weaknesses=weaknesses(collection.analysis),
        answers=() if record.preset in TABLE_PRESETS else answers_of(collection.analysis),
        terms=TERMS,
        sections=sections_of(collection, drawn),
        footer=f"Run {record.run_id}, drawn by fuser-bench from record.json.",
    )


def filled(template: str, **values: Any) -> str:
    """Fill a template of this package; what it shows is escaped, and nothing may be missing."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(resource)
    )
    return environment.get_template(template).render(values)


def resource(name: str) -> str:
    """Read a file that is installed beside this module."""
    return files("fuser.reports").joinpath(name).read_text(encoding="utf-8")


def record_of(run_dir: Path) -> Record:
    """Read the record that a run's folder holds, or that a file is."""
    place = Path(run_dir)
    return load(place if place.is_file() else place / "record.json")
