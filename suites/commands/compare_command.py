"""The command `fuser-bench compare`: two saved runs, and a gate for CI."""

import json
import sys
from pathlib import Path

import click

from fuser.reports.record import RecordError
from fuser.suites.commands.parameters import Finite
from fuser.suites.commands.saved_runs import open_run


@click.command()
@click.argument("base", metavar="BASE")
@click.argument("head", metavar="HEAD")
@click.option("--gate", is_flag=True, help="End with the exit code of what was found.")
@click.option("--no-clock", is_flag=True, help="Compare what is counted, not times.")
@click.option("--same-text", is_flag=True, help="Another emitted text is a regression.")
@click.option(
    "--margin", type=Finite(0, min_open=True), default=0.05, show_default=True,
    help="Relative difference in time that is still the same, as a share.",
)
@click.option("--markdown", type=click.Path(dir_okay=False), help="Write a summary for CI here.")
@click.option("--junit", type=click.Path(dir_okay=False), help="Write JUnit XML here.")
@click.option(
    "--html", type=click.Path(dir_okay=False),
    help="Write HEAD's report, compared; its figures and tables go beside it.",
)
@click.option("--all", "whole", is_flag=True, help="Print every row and note, not ten lines.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def compare(
    base: str,
    head: str,
    gate: bool,
    no_clock: bool,
    same_text: bool,
    margin: float,
    markdown: str | None,
    junit: str | None,
    html: str | None,
    whole: bool,
    as_json: bool,
) -> None:
    """Compare two saved runs: what got slower.

    Counts (kernels, bytes, texts) need no clock; times are compared with intervals.

    BASE and HEAD are folders of runs, their record.json, or their names. With --gate the exit
    code is 0 no regression, 1 regression, 3 nothing measured or a row of BASE is missing, 4 a
    wrong result, 5 inconclusive; without it 0. Usage errors end with 2 in any case.
    """
    from fuser.reports import comparison_output as output
    from fuser.reports.comparison import compare_records

    try:
        _, base_record = open_run(base)
        head_path, head_record = open_run(head)
    except RecordError as error:
        raise click.UsageError(str(error)) from None
    found = compare_records(
        base_record, head_record, timed=not no_clock, same_text=same_text, margin=margin
    )
    click.echo(json.dumps(output.as_data(found)) if as_json else output.as_text(found, whole))
    try:
        for path, write in ((markdown, output.as_markdown), (junit, output.as_junit)):
            if path is not None:
                Path(path).write_text(write(found), encoding="utf-8")
        if html is not None:
            from fuser.reports.page import render

            render(head_path, target=Path(html), comparison=found)
    except OSError as error:
        raise click.UsageError(f"{error}: name a file that can be written") from None
    sys.exit(int(found.outcome()) if gate else 0)
