"""The command `fuser-bench side-by-side`: all tables of speed, this checkout beside another."""

import sys
from pathlib import Path

import click

from fuser.reports.record import RecordError, load
from fuser.suites import presets
from fuser.suites.commands import measure_plan
from fuser.suites.commands.exit_codes import ExitCode
from fuser.suites.commands.parameters import Existing, Finite, Named
from fuser.suites.commands.saved_runs import RECORD, not_writable
from fuser.suites.probes.machine import command_line

SHARES = {"peers": 0.42, "rows": 0.3, "others": 0.28}
"""Of the time for arrays: by the number of cells, and how large they are."""
PAGE = "side_by_side.md"


@click.command("side-by-side")
@click.argument("baseline", type=Existing(file_okay=False))
@click.argument("folder", type=click.Path(file_okay=False))
@click.option(
    "--preset", "names", multiple=True,
    type=Named([each for each in presets.TABLES if each not in ("dask", "device")]),
    help="These tables only; may be given again.",
)
@click.option("--budget-s", type=Finite(1), default=1200.0, show_default=True,
              help="Seconds for arrays, over all their tables.")
@click.option("--processes", type=click.IntRange(1, 100), help="Processes of each checkout.")
def side_by_side(
    baseline: str, folder: str, names: tuple[str, ...], budget_s: float, processes: int | None
) -> None:
    """Time two checkouts of the fuser in turns.

    This checkout and the one in the folder BASELINE, table by table.

    The records and the page go into FOLDER. Started again with the same folder, it goes on where
    time ran out; what is measured already is not measured again. It ends with 0 where the geometric
    mean of new to old is at most 1.02 in each table, else with 1; cells beyond 1.15 are listed.
    """
    from fuser.reports import side_by_side as report

    place = Path(folder)
    if problem := not_writable(place):
        raise click.UsageError(f"FOLDER: {problem}")
    records = []
    for name in names or ("calls", "compile", *SHARES):
        known = place / name / RECORD
        try:
            earlier = load(known) if known.exists() else None
        except RecordError as error:
            raise click.UsageError(str(error)) from None
        changes = {"budget_s": budget_s * SHARES[name]} if name in SHARES else {}
        if processes is not None:
            changes["processes"] = processes
        plan = presets.table_plan(
            name, str(Path(baseline).resolve()), command=command_line(), **changes
        )
        click.echo(f"\n{name}: {len(plan.cells)} cells", err=True)
        record, _ = measure_plan.measure(plan, place, place / name, earlier)
        records.append(record)
        (place / PAGE).write_text(report.page(records), encoding="utf-8")
        if not record.finished:
            break
    click.echo(report.page(records).partition("\n## ")[0])
    click.echo(str(place / PAGE))
    if not records[-1].finished:
        sys.exit(ExitCode.INTERRUPTED)
    sys.exit(0 if all(report.holds(report.table(each)) for each in records) else 1)
