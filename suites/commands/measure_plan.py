"""Running a plan from the command line: interruptible, and saved whatever happens."""

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import click

from fuser.reports.record import Record
from fuser.suites import progress
from fuser.suites.commands.saved_runs import keep
from fuser.suites.engine import Engine
from fuser.suites.plan import Plan
from fuser.suites.probes import noise

#: What people and terminals that are closed end a program with.
ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let the first signal of `ENDING` end the measuring; ignore more until the record is saved."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    kept = {each: signal.signal(each, interrupt) for each in ENDING}
    try:
        yield
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


def measure(
    plan: Plan, output: Path, folder: Path | None = None, earlier: Record | None = None
) -> tuple[Record, Path]:
    """Run the plan; return the record and the folder it was saved in.

    Args:
        plan: what to measure.
        output: where folders of runs are.
        folder: that of this run; by default one of its name.
        earlier: the record of an earlier run that this one goes on with.
    """
    with interruptible():
        engine = Engine(plan, progress.for_terminal(), earlier=earlier)
        folder = output / engine.run_id if folder is None else folder
        engine.on_partial = partial(keep, folder=folder)
        kept = keep(placed(engine.run()), folder)
    for problem in kept.problems:
        click.echo(problem, err=True)
    return kept.record, kept.folder


def placed(record: Record) -> Record:
    """Note how the machine differs from what it was in earlier runs, and remember this one."""
    if not record.finished or not (record.call_overhead or {}).get("anchors"):
        return record
    notes = noise.unlike_before(record, noise.known(record.machine))
    noise.remember(record)
    return replace(record, notes=[*record.notes, *notes])
