"""The command `fuser-bench tune`: how far the chosen schedules are from the best legal ones.

With `--constant`, it times kernels under several values of a constant: of `backends/cpu/tuning.py`,
or of a module of the core, as in `scheduling.clustering.WINDOW`.
"""

import ast
import importlib
import json
import math
import multiprocessing
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import click

from fuser.base.errors import FuserError
from fuser.base.near import near_it
from fuser.suites import presets
from fuser.suites.commands import selection
from fuser.suites.commands.exit_codes import ExitCode
from fuser.suites.commands.parameters import Finite, Named
from fuser.suites.plan import CellPlan
from fuser.suites.registry import resolve
from fuser.tuner import Timer, TunedNest, launches_of, paired, time_again, tune

AIM, AIM_95 = 1.03, 1.15
"""Of the regret of all loop nests: the geometric mean, and the 95th percentile."""


@click.command("tune")
@click.argument("ids", nargs=-1)
@click.option("--preset", type=Named(("quick", "full", "peers", "rows", "others")),
              default="quick", show_default=True, help="Its rows, where no IDS are given.")
@click.option("--keep", is_flag=True, help="Run by the best schedules on this machine from now on.")
@click.option("--processes", type=click.IntRange(1, 50), default=5, show_default=True,
              help="Fresh processes that time the best schedule again.")
@click.option("--seconds", type=Finite(0.01), default=2.0, show_default=True,
              help="For each loop nest in each process.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
@click.option("--constant", default="", metavar="NAME",
              help="Time kernels under values of this constant instead: of backends/cpu/tuning.py, "
                   "or of the core, as scheduling.clustering.WINDOW.")
@click.option("--value", "values", multiple=True, help="One value of it, as Python spells it.")
def tune_command(
    ids: Sequence[str], preset: str, keep: bool, processes: int, seconds: float, as_json: bool,
    constant: str, values: Sequence[str],
) -> None:  # fmt: skip
    """Find the fastest schedules for this machine.

    Times every legal schedule of the kernels of IDS, or of a preset's rows.

    Regret is the time by the chosen schedule over that by the fastest one: 1 where the choice is
    the best. The fastest of many seems faster than it is; so processes that did not choose it time
    it again, and the median of their times is printed. Only schedules that give the same bits are
    kept, in the folder of the machine code; CI keeps nothing. With --constant, whole kernels are
    timed under each --value, in turns, and the times over those under the usual value are printed.
    """
    from rich.console import Console
    from rich.progress import Progress

    try:
        cells = selection.restrict(presets.plan_of(preset), ids).cells
    except selection.UnknownSelectionError as error:
        raise click.UsageError(str(error)) from None
    if constant or values:
        _compare_values(cells, constant, values, processes, seconds, as_json)
        return
    rows: list[dict[str, Any]] = []
    progress = Progress(console=Console(stderr=True), disable=as_json, transient=True)
    with progress:
        task = progress.add_task("tuning", total=len(cells))
        for cell in cells:
            progress.update(task, description=cell.id)
            rows += _rows(cell, keep, processes, seconds)
            progress.advance(task)
    if as_json:
        click.echo(json.dumps({"rows": rows, **_summary(rows)}, indent=1))
    else:
        _print(rows)
    sys.exit(0 if rows else ExitCode.NOTHING)


def _compare_values(
    cells: Sequence[CellPlan], constant: str, values: Sequence[str], processes: int,
    seconds: float, as_json: bool,
) -> None:  # fmt: skip
    """Print, row by row, the time of the kernels under each value over that under the usual one."""
    module, name = _home(constant)
    known = [each for each in dir(module) if each.isupper()]
    if name not in known or not values:
        near = near_it(name, known, "backends/cpu/tuning.py has most")
        raise click.UsageError(
            "--constant takes a name in backends/cpu/tuning.py, or one with its module of the "
            f"core, with --value; {near}"
        )
    try:
        wanted = [ast.literal_eval(value) for value in values]
    except (SyntaxError, ValueError) as error:
        raise click.UsageError(f"--value takes a number or a tuple of numbers: {error}") from None
    rows: list[dict[str, Any]] = []
    for cell in cells:
        found = [_fresh(_under_values, cell, constant, wanted, seconds) for _ in range(processes)]
        if isinstance(found[0], str):
            rows.append({"row": cell.id, "refused": found[0]})
            continue
        ratios = [statistics.median(some) for some in zip(*found, strict=True)]
        rows.append({"row": cell.id, "ratios": dict(zip(values, ratios, strict=True))})
        if not as_json:
            parts = (f"  {v}: {ratio:.3f}" for v, ratio in zip(values, ratios, strict=True))
            click.echo(f"{cell.id:40}" + "".join(parts))
    timed = [row["ratios"] for row in rows if "ratios" in row]
    means = {v: statistics.geometric_mean(r[v] for r in timed) for v in values} if timed else {}
    usual = repr(getattr(module, name))
    if as_json:
        click.echo(json.dumps({"constant": constant, "usual": usual, "rows": rows,
                               "geometric_means": means}, indent=1))  # fmt: skip
    else:
        said = "".join(f"  {value}: {mean:.3f}" for value, mean in means.items())
        click.echo(f"{len(timed)} rows, {constant} is {usual}; in the geometric mean{said}")


def _home(constant: str) -> tuple[Any, str]:
    """The module that has a constant, and its name there; None where there is no such module."""
    path, _, name = constant.rpartition(".")
    try:
        return importlib.import_module(f"fuser.{path or 'backends.cpu.tuning'}"), name
    except ImportError:
        return None, name


def _under_values(
    cell: CellPlan, constant: str, values: Sequence[Any], seconds: float
) -> list[float] | str:
    """A row's kernels under each value: medians of pairs, taken in turns."""
    import fuser

    module, name = _home(constant)
    usual, (function, arguments) = getattr(module, name), _call(cell)
    timers: list[list[Timer]] = []
    try:
        for value in (usual, *values):
            setattr(module, name, value)
            fuser.clear_caches()
            bound = launches_of(fuser.fuse(function), arguments)
            timers.append([Timer(launch(), *given) for _, launch, *given in bound])
    except FuserError as error:
        setattr(module, name, usual)
        return str(error)

    def sample(value: Any, some: Sequence[Timer]) -> float:
        setattr(module, name, value)
        return sum(timer.sample() for timer in some)

    once = sum(timer.sample_s for some in timers for timer in some)
    samples = [partial(sample, *each) for each in zip((usual, *values), timers, strict=True)]
    found = paired(samples, seconds / max(once, 1e-9))
    setattr(module, name, usual)
    return found[1:]


def _call(cell: CellPlan) -> tuple[Any, Any]:
    """A row's function and its arguments."""
    workload = resolve(cell.workload)
    return workload.function, workload.inputs(cell.elements, cell.dtype, 0, cell.axes)


def _in_process(cell: CellPlan, keep: bool, seconds: float) -> tuple[TunedNest, ...] | str:
    """What is found for a row, or why it has no kernels."""
    try:
        function, arguments = _call(cell)
        return tune(function, *arguments, keep=keep, seconds=seconds).nests
    except FuserError as error:
        return str(error)


def _again(cell: CellPlan, picked: Mapping[str, str], seconds: float) -> dict[str, float]:
    """What other samples say of the schedules that were found."""
    function, arguments = _call(cell)
    return time_again(function, arguments, picked, seconds)


def _rows(cell: CellPlan, keep: bool, processes: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The loop nests of one row."""
    found = _fresh(_in_process, cell, keep, seconds)
    if isinstance(found, str):
        yield {"row": cell.id, "refused": found}
        return
    picked = {each.nest: each.best for each in found if each.best != each.chosen}
    samples = [_fresh(_again, cell, picked, seconds) for _ in range(processes if picked else 0)]
    for each in found:
        ratios = [taken[each.nest] for taken in samples if each.nest in taken]
        yield {
            "row": cell.id, "nest": each.nest, "schedules": each.schedules,
            "chosen": each.chosen, "chosen_s": each.chosen_s, "best": each.best,
            "regret": max(1.0, statistics.median(ratios)) if ratios else 1.0,
            "regret_of_processes": ratios, "kept": each.kept,
        }  # fmt: skip


def _fresh(function: Any, *arguments: Any) -> Any:
    """What a function gives in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over all loop nests: how many, and their regret."""
    regrets = sorted(row["regret"] for row in rows if "regret" in row)
    if not regrets:
        return {"nests": 0}
    last = regrets[min(len(regrets) - 1, math.ceil(0.95 * len(regrets)) - 1)]
    return {
        "nests": len(regrets), "regret_geometric_mean": statistics.geometric_mean(regrets),
        "regret_95th_percentile": last,
    }  # fmt: skip


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table for people, and its summary."""
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(
        Column("row", no_wrap=True), "legal", "chosen", "us", "best", "regret", "kept"
    )
    for row in rows:
        if "refused" in row:
            table.add_row(row["row"], "-", row["refused"])
            continue
        table.add_row(
            row["row"], str(row["schedules"]), row["chosen"], f"{row['chosen_s'] * 1e6:,.1f}",
            row["best"] if row["best"] != row["chosen"] else "the same", f"{row['regret']:.2f}",
            row["kept"],
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    summary = _summary(rows)
    if not summary["nests"]:
        click.echo("no kernel was timed")
        return
    click.echo(
        f"{summary['nests']} loop nests: regret {summary['regret_geometric_mean']:.3f} in the "
        f"geometric mean (aim {AIM}), {summary['regret_95th_percentile']:.2f} at the 95th "
        f"percentile (aim {AIM_95})"
    )
