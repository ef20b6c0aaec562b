"""What a run ends with: its findings, means and notes as text or JSON, and its exit code."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fuser.base.near import near_it
from fuser.reports.labels import STATUS_LABELS
from fuser.reports.record import Record, Run
from fuser.suites.commands.exit_codes import ExitCode
from fuser.suites.commands.saved_runs import RECORD
from fuser.suites.rows import metrics

if TYPE_CHECKING:
    from fuser.suites.commands.reproduce import Repeated


SCHEMA = 1
"""The version of `run --json`, whose schema is summary.schema.json beside this file."""
MANY = 10
"""Cells with the same finding, beyond which they are counted instead of named."""


def counts(record: Record) -> dict[str, int]:
    """Return how many rows have each status, and how many there are."""
    found: dict[str, int] = {}
    for cell in record.cells:
        for each in cell.runs:
            expected = each.status == "fell_back" and each.expected_fallback
            name = "expected fallback" if expected else each.status
            found[name] = found.get(name, 0) + 1
    return found


def is_finding(run: Run) -> bool:
    """Return whether a row is left out of the results for a reason that a person should see."""
    if run.status == "fell_back":
        return not run.expected_fallback
    return run.status in ("wrong", "failed", "compiled_inside")


def findings(record: Record) -> Iterator[dict[str, Any]]:
    """Yield what a person should see of rows, those of a cell with one reason together.

    Each has the keys "cell", "variants", "status" and "reason".
    """
    for cell in record.cells:
        none_timed = not any(run.samples.seconds for run in cell.runs)
        together: dict[tuple[str, str], list[str]] = {}
        for run in cell.runs:
            if is_finding(run) or (none_timed and run.status == "not_run"):
                together.setdefault((run.status, run.reason), []).append(run.variant)
        for (status, reason), names in together.items():
            yield {"cell": cell.id, "variants": names, "status": status, "reason": reason}


def finding_lines(record: Record) -> Iterator[str]:
    """Yield the findings as lines; what many cells have in common, once."""
    cells: dict[tuple[str, str, str], list[str]] = {}
    for each in findings(record):
        key = (each["status"], ", ".join(each["variants"]), each["reason"])
        cells.setdefault(key, []).append(each["cell"])
    for (status, variants, reason), names in cells.items():
        words = STATUS_LABELS.get(status, status)
        if len(names) > MANY:
            yield f"{words}: {len(names)} cells, {variants}: {reason}"
        else:
            yield from (f"{words}: {name}, {variants}: {reason}" for name in names)


def speedups(record: Record) -> list[dict[str, Any]]:
    """Return the numbers of every row that was timed: seconds a call, and eager's over them.

    `low` and `high` are None where processes are too few for an interval.
    """
    lines = []
    for cell in record.cells:
        for run in cell.runs:
            found = metrics(cell, run)
            if found["median_s"] is not None:
                lines.append({
                    "cell": cell.id, "variant": run.variant, "status": run.status,
                    "seconds": found["median_s"], "speedup": found["speedup"],
                    "low": found["speedup_low"], "high": found["speedup_high"],
                    "kernels": found["kernels"], "planned_bytes": found["planned_bytes"],
                    "first_call_s": found["first_call_s"],
                })  # fmt: skip
    return lines


def missing_rows(record: Record, required: Sequence[str]) -> Iterator[str]:
    """Yield the rows of the required patterns that have no speed, and patterns without a row.

    One whose workload is there to be refused has what is asked of it.
    """
    rows = {f"{cell.id}-{run.variant}": run for cell in record.cells for run in cell.runs}
    for pattern in required:
        named = [name for name in rows if fnmatchcase(name, pattern)]
        if not named:
            near = near_it(pattern, rows, "`fuser-bench run --list` shows the workloads")
            yield f"{pattern}: no row is called so; {near}"
        for name in named:
            row = rows[name]
            right = row.status == "ok" or (row.status == "fell_back" and row.expected_fallback)
            if not (right and row.samples.seconds):
                yield f"{name}: {row.status}: {row.reason}"


def exit_code(record: Record, missing: Sequence[str] = ()) -> ExitCode:
    """Return what the command ends with: wrong results first, then nothing measured."""
    found = counts(record)
    if found.get("wrong"):
        return ExitCode.WRONG
    if missing or not any(run.samples.seconds for cell in record.cells for run in cell.runs):
        return ExitCode.NOTHING
    return ExitCode.OK if record.finished else ExitCode.INTERRUPTED


def _head(record: Record) -> tuple[list[str], list[str]]:
    """Return what makes the figures weak, and the geometric means, in the words of the report."""
    try:
        from fuser.reports.analysis import analyse
        from fuser.reports.collection import PRESET_TABLES, TABLES, preset_sentences
        from fuser.reports.headline import cards_of
        from fuser.reports.tables import summary_table
        from fuser.reports.weaknesses import weaknesses
    except ImportError:  # what the report needs is not installed: there are no means without it
        return [], []
    analysis = analyse(record)
    means = [str(each) for each in cards_of(record, summary_table(analysis))]
    made = {name: TABLES[name].make(analysis) for name in PRESET_TABLES}
    means += preset_sentences(record, made)
    return weaknesses(analysis), means


def print_summary(
    record: Record,
    folder: Path,
    report: Path | None,
    as_json: bool,
    repeats: "Sequence[Repeated]" = (),
) -> None:
    """Print what was found, the path of the report or else of the record last."""
    found = counts(record)
    weak, means = _head(record)
    last = str(report or folder / RECORD)
    if as_json:
        click.echo(json.dumps({
            "schema": SCHEMA, "speedups": speedups(record),
            "run_id": record.run_id, "finished": record.finished, "rows": found,
            "record": str(folder / RECORD), "report": str(report) if report else None,
            "notes": list(record.notes), "weaknesses": weak, "means": means,
            "findings": list(findings(record)),
            "repeated": [asdict(each) | {"inside": each.inside} for each in repeats],
        }))
        return
    rows = sum(found.values())
    ending = "" if record.finished else "; interrupted: what was measured is kept"
    others = ", ".join(
        f"{count} {STATUS_LABELS.get(name, name)}" for name, count in found.items() if name != "ok"
    )
    others = f"; {others}" if others else ""
    for text in weak:
        click.echo(f"weak figures: {text}")
    click.echo(f"{found.get('ok', 0)} of {rows} rows measured{others}{ending}")
    for line in means:
        click.echo(f"  {line}")
    for line in finding_lines(record):
        click.echo(f"  {line}")
    for again in repeats:
        click.echo(f"  again: {again.as_text()}")
    for note in record.notes:
        click.echo(f"  note: {note}")
    click.echo(os.path.relpath(last) if Path(last).is_relative_to(Path.cwd()) else last)
