"""The command `fuser-bench history`: rows over many saved runs, as a page."""

import sys
from pathlib import Path

import click

from fuser.base.near import near_it
from fuser.reports.record import Record, RecordError, load
from fuser.suites.commands.exit_codes import ExitCode
from fuser.suites.commands.saved_runs import RECORD, RESULTS, open_run

WORST = 10
"""Rows that the terminal names; the page has all."""


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--since", default="", metavar="COMMIT",
              help="List what got slower since a run of this commit, or of this name.")
@click.option("--output", default="history.html", show_default=True,
              type=click.Path(dir_okay=False), help="The page.")
def history(runs: tuple[str, ...], since: str, output: str) -> None:
    """Show rows over many saved RUNS, and changes.

    Machine by machine; each change of level is dated to the commits between which it lies.

    RUNS are runs, records, or folders with such inside; default: all in bench-results. Runs are
    ordered by the time of their measuring. Ends with 1 where something is slower since COMMIT, with
    3 where no two runs share a row.
    """
    from rich.console import Console
    from rich.progress import track

    from fuser.reports.history import histories, slower_since
    from fuser.reports.history_page import change_of, page

    try:
        paths = [path for text in runs or (RESULTS,) for path in _records(text)]
        console = Console(stderr=True)
        records = list[Record]()
        for path in track(paths, "reading", console=console, transient=True):
            records.append(load(path))
    except RecordError as error:
        raise click.UsageError(str(error)) from None
    lines = histories(records)
    try:
        slower = slower_since(lines, since) if since else []
    except LookupError:
        known = sorted({name for line in lines for p in line.points for name in (p.commit, p.run)
                        if name})  # fmt: skip
        raise click.UsageError(
            f"--since {since}: no run is of that commit or name; {near_it(since, known)}"
        ) from None
    try:
        Path(output).write_text(page(lines, slower, since), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--output: {error}: name a file that can be written") from None
    steps = sum(len(line.steps) for line in lines)
    click.echo(f"{len(records)} runs, {len(lines)} rows in two or more of them, {steps} changes")
    for each in slower[:WORST]:
        click.echo(f"  {each.line.cell}, {each.line.variant}: {change_of(each.ratio)}")
    if len(slower) > WORST:
        click.echo(f"  and {len(slower) - WORST} more that are slower since {since}")
    click.echo(output)
    sys.exit(ExitCode.NOTHING if not lines else ExitCode.REGRESSION if slower else ExitCode.OK)


def _records(text: str) -> list[Path]:
    """The records that a name stands for: a run's, or those in a folder.

    Raises:
        RecordError: there is none.
    """
    folder = Path(text)
    if folder.is_dir() and not (folder / RECORD).is_file():
        found = sorted({*folder.rglob(RECORD), *_saved_pages(folder)})
        if found:
            return found
    place, _ = open_run(text)
    return [place if place.is_file() else place / RECORD]


def _saved_pages(folder: Path) -> list[Path]:
    """Records of any name in a folder of recorded runs: JSON that says it is one."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        with path.open(encoding="utf-8") as file:
            head = file.read(4096)
        if '"run_id"' in head or '"schema"' in head:
            found.append(path)
    return found
