"""The command `fuser-bench`."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fuser
from fuser.backend import get_backend
from fuser.base import config
from fuser.base.errors import BackendError
from fuser.base.near import near_it
from fuser.reports.record import Record, RecordError
from fuser.suites import presets, progress, runners
from fuser.suites.commands import selection
from fuser.suites.commands.compare_command import compare
from fuser.suites.commands.doctor import BUSY, findings
from fuser.suites.commands.exit_codes import ExitCode
from fuser.suites.commands.history_command import history
from fuser.suites.commands.measure_plan import measure
from fuser.suites.commands.parameters import Existing, Finite, Named
from fuser.suites.commands.pytest_command import pytest_command
from fuser.suites.commands.saved_runs import RESULTS, not_writable, open_run
from fuser.suites.commands.side_by_side_command import side_by_side
from fuser.suites.commands.summary import exit_code, missing_rows, print_summary
from fuser.suites.commands.tune_command import tune_command
from fuser.suites.plan import MODES, Plan, variants_for
from fuser.suites.probes.machine import command_line, describe_machine

if TYPE_CHECKING:
    from fuser.suites.commands.reproduce import Repeated

PRESETS = ("quick", "full", *presets.TABLES)


FIRST_STEPS = """
First steps:

\b
  fuser-bench doctor           what this machine can measure (seconds)
  fuser-bench run              NumPy against fused, and a report (4 minutes)
  fuser-bench run --list       the workloads by name
  fuser-bench run gelu_bias    one of them
  fuser-bench report RUN       a saved run's report again
  fuser-bench compare A B      two saved runs: what got slower

A run is a folder in bench-results/: the raw times in record.json, report.html, figures and
tables. fuser-bench COMMAND --help has every option.
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=FIRST_STEPS)
@click.version_option(fuser.__version__, prog_name="fuser-bench")
def main() -> None:
    """Measure what fusing NumPy operations buys on this machine, and why.

    Fusing compiles several NumPy operations into one loop, so that arrays in between are never
    written to memory. A run times each workload as plain NumPy, by the fuser, and by the fuser one
    operation at a time, so that the report can tell what made the difference.
    """


@main.command()
@click.argument("ids", nargs=-1)
@click.option("--list", "list_only", is_flag=True, help="Show the workloads and stop.")
@click.option(
    "--preset", type=Named(PRESETS), default="quick", show_default=True,
    help="What to measure. quick: a sample, in 4 minutes on an idle machine; full: everything; "
    "peers, rows, others: pointwise, reductions and further workloads beside other fusers; "
    "programs: loops and decisions; calls: small arrays; compile: first calls.",
)
@click.option(
    "--baseline", type=Existing(file_okay=False),
    help="Another checkout, whose fuser is timed beside ours, in turns.",
)
@click.option("--resume", metavar="RUN", help="Go on with a run that ended early, in its folder.")
@click.option("--full", is_flag=True, help="--preset full: everything, about an hour and a half.")
@click.option("--processes", type=click.IntRange(1, 100), help="Worker processes (quick: 3).")
@click.option("--budget-s", type=Finite(1), help="Seconds for measuring (quick: 200).")
@click.option("--variants", help="Runners to compare, by comma: eager,unfused,fused.")
@click.option("--peers", is_flag=True, help="Also every other fuser that is installed.")
@click.option("--dtypes", default="", help="Dtypes instead of the preset's, by comma.")
@click.option("--sizes", default="", help="Sizes instead: S, M, L, 16k or 16384, by comma.")
@click.option("--axis", "axes", multiple=True, help="Values of an axis: hidden=64,1000,65536.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of inputs and order.")
@click.option("--output", default=RESULTS, show_default=True, type=click.Path(file_okay=False))
@click.option(
    "--against", help="A saved run to compare the rows with; default: the latest that has them."
)
@click.option(
    "--require", multiple=True, metavar="ROWS",
    help="End with 3 where a row is missing: 'gelu*-fused'. A pattern of cell-variant.",
)
@click.option("--no-report", is_flag=True, help="Write the raw record only.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def run(
    ids: Sequence[str],
    list_only: bool,
    require: Sequence[str],
    as_json: bool,
    output: str,
    no_report: bool,
    against: str | None,
    resume: str | None,
    **options: Any,
) -> None:
    """Measure workloads and write a report.

    Those named by IDS, or a preset. An ID is a workload, or workload-dtype-size as the report
    prints it. Ctrl-C ends the run early: what was measured is kept and reported. Rows that an
    earlier run has are held against it: does the new ratio agree with the recorded interval? Exit
    codes: 0 measured, 2 usage, 3 nothing measured or a required row missing, 4 a wrong result, 130
    interrupted.
    """
    if list_only:
        _print_list(as_json)
        return
    plan = _plan(ids, **options)
    base = _saved(against)[1] if against else None
    if problem := not_writable(Path(output)):
        raise click.UsageError(f"--output: {problem}")
    click.echo(_announcement(plan), err=as_json)
    record, folder = measure(plan, Path(output), *(_saved(resume) if resume else ()))
    again = base is not None or (ids and not resume)
    repeats = _repeats(record, Path(output), base) if again else []
    try:
        report = None if no_report else _report(folder)
    except KeyboardInterrupt:
        click.echo(f"no report: interrupted; `fuser-bench report {folder}` draws it", err=True)
        report, record = None, replace(record, finished=False)
    print_summary(record, folder, report, as_json, repeats)
    missing = list(missing_rows(record, require))
    for each in missing:
        click.echo(f"required, but missing: {each}", err=True)
    sys.exit(exit_code(record, missing))


def _plan(
    ids: Sequence[str], preset: str, full: bool, baseline: str | None = None, **options: Any
) -> Plan:
    """Return the plan that the options describe; usage errors end the command."""
    if any(":" in each for each in (*ids, options["variants"] or "")):
        sys.path.append(str(Path.cwd()))  # where a person's own module:NAME is
    try:
        if named := config.current().backend:
            get_backend(named)
        table = preset in presets.TABLES and not full
        names = _split(options["variants"]) or ([] if table else list(MODES))
        names += [each for each in _peers(options["peers"]) if each not in names]
        plan = presets.plan_of(
            "full" if full else preset, str(Path(baseline).resolve()) if baseline else "",
            seed=options["seed"], command=command_line(),
            **({"variants": variants_for(names, aa=not table)} if names else {}),
        )
        plan = selection.restrict(
            plan, ids, _split(options["dtypes"]), _split(options["sizes"]),
            selection.parse_axes(options["axes"]),
        )
    except KeyError as error:
        near = near_it(str(error.args[0]), runners.specs(), "`fuser-bench doctor` lists them")
        raise click.UsageError(f"there is no runner {error}; {near}") from None
    except (ValueError, ImportError, BackendError) as error:
        raise click.UsageError(str(error)) from None
    # each peer is measured in processes of its own: it gets as much time as ours together
    chosen: dict[str, Any] = {}
    if not table:
        chosen["budget_s"] = plan.budget_s * max(1, len(plan.groups()))
    chosen |= {name: options[name] for name in ("processes", "budget_s") if options[name]}
    return replace(plan, **chosen)


def _peers(wanted: bool) -> list[str]:
    """Return every runner that is not ours; the absent ones are listed with their reason."""
    named = (
        runners.BUILT_IN, runners.INTO, runners.BY_HAND, runners.DEVICE, runners.THROUGH_CPP,
    )  # fmt: skip
    ours = {name for kind in named for name in kind}
    return [name for name in runners.specs() if name not in ours] if wanted else []


def _split(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _announcement(plan: Plan) -> str:
    """Return what is going to happen and about how long it takes."""
    present = [each.name for each in plan.variants if each.absent_reason is None]
    cells, es = "s" * (len(plan.cells) != 1), "es" * (plan.worker_count() != 1)
    lines = [(
        f"about {progress.clock_text(plan.estimate_s())} to measure {len(plan.cells)} cell{cells} "
        f"x {len(present)} variants ({', '.join(present)}) in {plan.worker_count()} process{es}"
    )]
    facts = describe_machine()
    load, cores = max(facts.load_average[:1], default=0.0), max(1, facts.cores_logical)
    if load > BUSY * cores:  # what runs already shares the processors with what is timed
        longer = progress.clock_text(plan.estimate_s() * max(1.0, (load + 1) / cores))
        lines.append(
            f"other work is running (load average {load:.1f} on {cores} processors): it may take "
            f"{longer} and more, and the figures will be weak"
        )
    absent = [each for each in plan.variants if each.absent_reason is not None]
    lines += [f"without {each.name}: {each.absent_reason}" for each in absent]
    return "\n".join(lines)


def _saved(text: str) -> tuple[Path, Record]:
    """Return the folder and the record of a saved run; of a record by another name, its file."""
    try:
        return open_run(text)
    except RecordError as error:
        raise click.UsageError(str(error)) from None


def _report(folder: Path, base: Path | None = None) -> Path | None:
    """Render the report of a run's folder; a failure is said and leaves the record."""
    try:
        from fuser.reports.page import render

        return Path(render(folder, base))
    except ImportError as error:
        click.echo(f"no report: {error}. Install fuser-bench[bench].", err=True)
    except Exception as error:  # noqa: BLE001  (an hour's measurement must not end in a traceback)
        click.echo(f"no report: {type(error).__name__}: {error}", err=True)
    return None


def _repeats(record: Record, output: Path, base: Record | None) -> "list[Repeated]":
    """Return the rows that an earlier run has too, beside what that one found."""
    from fuser.suites.commands.reproduce import latest_with, repeated  # imports scipy

    if base is None:
        base = latest_with({each.id for each in record.cells}, output, record.run_id)
    return [] if base is None else list(repeated(base, record))


def _print_list(as_json: bool) -> None:
    rows = selection.listing()
    if as_json:
        click.echo(json.dumps([dict(row) for row in rows]))
        return
    for row in rows:
        click.echo(f"{row['id']:<24} {row['preset']:<6} {row['family']:<22} {row['title']}")


@main.command()
@click.argument("run_path", metavar="RUN", type=click.Path())
@click.option("--base", metavar="BASE", help="A run to compare with: adds the section Compare.")
@click.option("--markdown", type=click.Path(dir_okay=False), help="Write a table's page here, too.")
def report(run_path: str, base: str | None, markdown: str | None) -> None:
    """Write the report of a saved RUN again.

    RUN is its folder, its record, or its name. A record that is not called record.json, as those
    kept from other machines, is drawn into a folder of its name beside it.
    """
    folder, record = _saved(run_path)
    if markdown is not None:
        from fuser.reports.markdown_page import markdown_page

        Path(markdown).write_text(markdown_page(record), encoding="utf-8")
    base_folder = None if base is None else _saved(base)[0]
    written = _report(folder, base_folder)
    if written is None:
        sys.exit(1)
    click.echo(str(written))
    nothing = exit_code(record) == ExitCode.NOTHING
    sys.exit(ExitCode.NOTHING if nothing else ExitCode.OK)


main.add_command(compare)
main.add_command(history)
main.add_command(pytest_command)
main.add_command(side_by_side)
main.add_command(tune_command)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> None:
    """Say what this machine can measure.

    It says also what is lacking, what that costs, and what to install.
    """
    rows = list(findings())
    if as_json:
        names = ("subject", "state", "text")
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
        return
    for subject, state, text in rows:
        click.echo(f"{state:<9} {subject:<18} {text}")


@main.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def cache(context: click.Context, as_json: bool) -> None:
    """Show or clear machine code kept on disk.

    Where it is, how many entries, how many bytes.
    """
    if context.invoked_subcommand is not None:
        return
    from fuser.base import disk_cache

    known = disk_cache.entries()
    size_bytes = sum(size for _, size, _ in known)
    found = {
        "path": str(disk_cache.folder()), "entries": len(known),
        "limit_entries": disk_cache.LIMIT_ENTRIES,
        "bytes": size_bytes, "limit_bytes": disk_cache.LIMIT_BYTES,
    }
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"path     {found['path']}")
    click.echo(f"entries  {len(known):,} of at most {disk_cache.LIMIT_ENTRIES:,}")
    size, most = (each / 2**20 for each in (size_bytes, disk_cache.LIMIT_BYTES))
    click.echo(f"size     {size:,.1f} MiB of at most {most:,.0f} MiB")


@cache.command()
def clear() -> None:
    """Remove every entry."""
    from fuser.base import disk_cache

    where = disk_cache.folder()
    click.echo(f"{disk_cache.clear()} entries removed from {where}")


if __name__ == "__main__":
    main()
