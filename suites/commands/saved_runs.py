"""Where runs are saved, how a person names one, and that nothing measured is lost in saving."""

import json
import tempfile
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from fuser.base.near import near_it
from fuser.reports.record import (
    Cell,
    Record,
    RecordError,
    Run,
    Variant,
    load,
    save,
    to_document,
    validate,
)

RESULTS = "bench-results"
RECORD = "record.json"
REJECTED = "record.rejected.json"
"""Everything that was measured, as it was, where the record has no form for a part of it."""
NEAREST = 3
"""Saved runs that are named where the one asked for is not there."""
OPTIONAL = (
    "notes", "ceilings", "call_overhead", "arithmetic", "anatomy", "first_calls", "texts",
    "settings", "packages", "command",
)


def find_run(text: str) -> Path | None:
    """Return the folder of a run from its path, its record's path, or its name; None if absent."""
    path = Path(text)
    for folder in (path, path.parent, Path(RESULTS) / text):
        named = path.name == RECORD or folder != path.parent
        if named and (folder / RECORD).is_file():
            return folder
    return None


def open_run(text: str) -> tuple[Path, Record]:
    """Return a saved run's folder and its record; of a record by another name, its file.

    Raises:
        RecordError: no run is called so, or its record cannot be read.
    """
    folder = find_run(text)
    if folder is None and Path(text).suffix == ".json" and Path(text).is_file():
        folder = Path(text)
    if folder is None:
        raise RecordError(_not_found(text))
    return folder, load(folder if folder.is_file() else folder / RECORD)


def _not_found(text: str) -> str:
    """Say that no run is called so, and which saved runs are nearest: by name, else the newest."""
    where, path = f"{text}: no {RECORD} there", Path(text)
    if path.name != text and path.parent.is_dir():
        return f"{where}; {near_it(path.name, beside(path))}"
    if not path.is_absolute():
        where += f" or in {RESULTS}/{text}"
    records = sorted(Path(RESULTS).glob(f"*/{RECORD}"), key=lambda each: -each.stat().st_mtime)
    saved = [each.parent.name for each in records]
    if not saved:
        return f"{where}; {RESULTS} holds no saved run: `fuser-bench run` makes one"
    more = f" and {len(saved) - NEAREST} more" if len(saved) > NEAREST else ""
    latest = f"the latest saved runs: {', '.join(saved[:NEAREST])}{more}"
    return f"{where}; {near_it(path.name, saved, latest)}"


def beside(path: Path) -> list[str]:
    """Names of what is in a path's folder; nothing where that is no folder."""
    try:
        return sorted(each.name for each in path.parent.iterdir())
    except OSError:
        return []


def not_writable(folder: Path) -> str | None:
    """Make a folder; return why nothing can be written there, or None."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class Kept:
    """What was saved, where, and what is wrong with it."""

    record: Record
    folder: Path
    problems: tuple[str, ...] = ()


def keep(record: Record, folder: Path) -> Kept:
    """Save a record whatever is in it: an hour's measurement must not be lost for one field.

    Rows and parts that the record has no form for are taken out of it, with the reason; everything
    as it was measured goes to `record.rejected.json` beside it. Where the folder cannot be
    written, a temporary one takes both.
    """
    try:
        save(record, folder / RECORD)
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="fuser-bench-kept-")) / folder.name
        found = keep(record, elsewhere)
        return replace(found, problems=(f"{error}: kept in {elsewhere}", *found.problems))
    except ValueError as error:  # RecordError, and what JSON has no form for
        folder.mkdir(parents=True, exist_ok=True)
        raw = json.dumps(_raw(record), ensure_ascii=False, default=repr)
        (folder / REJECTED).write_text(raw + "\n", encoding="utf-8")
        mended, lost = without_bad_parts(record)
        first = f"{error}; everything as it was measured is in {folder / REJECTED}"
        save(replace(mended, notes=[*mended.notes, *lost]), folder / RECORD)
        return Kept(mended, folder, (first, *lost))
    return Kept(record, folder)


def _raw(value: Any) -> Any:
    """Return what JSON can hold of anything."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _raw(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(name): _raw(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_raw(each) for each in value]
    return value


def without_bad_parts(record: Record) -> tuple[Record, list[str]]:
    """Return the record without the parts that cannot be saved, and what they were."""
    lost: list[str] = []
    bare = replace(record, cells=[], variants=[], **{name: _empty(name) for name in OPTIONAL})
    for name in OPTIONAL:
        part = {name: getattr(record, name)}
        if problem := _problem(replace(bare, **part)):
            record = replace(record, **{name: _empty(name)})
            lost.append(f"{name} left out: {problem}")
    variants = []
    for each in record.variants:
        problem = _problem(replace(bare, variants=[each]))
        if problem:
            lost.append(f"variant {each.name}: {problem}")
        variants.append(Variant(str(each.name), "peer", problem) if problem else each)
    cells = [cell for each in record.cells if (cell := _sound(bare, each, lost)) is not None]
    return replace(record, variants=variants, cells=cells), lost


def _empty(name: str) -> Any:
    if name == "call_overhead":
        return None
    return {} if name in ("texts", "settings", "packages") else []


def _sound(bare: Record, cell: Cell, lost: list[str]) -> Cell | None:
    """Return a cell with those of its rows that can be saved, the others failed; None without."""
    if problem := _problem(replace(bare, cells=[replace(cell, runs=[])])):
        lost.append(f"{cell.id} left out: {problem}")
        return None
    runs = []
    for run in cell.runs:
        if problem := _problem(replace(bare, cells=[replace(cell, runs=[run])])):
            lost.append(f"{cell.id}, {run.variant} left out: {problem}")
            run = Run(run.variant, "failed", f"the record has no form for it: {problem}")
        runs.append(run)
    return replace(cell, runs=runs)


def _problem(record: Record) -> str:
    """Return what keeps a record from being saved, or nothing."""
    try:
        document = to_document(record)
        validate(document)
        json.dumps(document, allow_nan=False)
    except ValueError as error:
        return str(error).partition(". Correct the writer")[0]
    return ""
