"""The pytest door to the engine: `-p fuser.suites.plugin`, or `pytest_plugins` in a conftest.

At the first selected row the engine measures every selected row, interleaved; each test then
publishes its own through pytest-benchmark's `benchmark.pedantic`, whose timer replays the samples.
So tables, `--benchmark-autosave`, `--benchmark-compare` and `pytest-benchmark compare` show what
the engine measured. Without pytest-benchmark the rows appear in this plugin's own table.
"""

import csv
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuser.reports.record import Cell, Record, Run, save
from fuser.suites import plan as plans
from fuser.suites import progress
from fuser.suites.engine import Engine
from fuser.suites.local import measure_here, workload_of
from fuser.suites.machine import command_line
from fuser.suites.plan import Plan
from fuser.suites.rows import HEADER, METRICS, metrics, seconds_a_call, table_line
from fuser.suites.thresholds import Threshold, ThresholdError

ROW_FIXTURES = ("row", "fused_benchmark")
NO_BENCHMARK = (
    "pytest-benchmark is not active: rows are shown in this table only. "
    "pip install pytest-benchmark stores and compares them."
)


class Replay:
    """A timer for pytest-benchmark: each pair of readings is one recorded sample apart."""

    __name__ = "replay"

    def __init__(self) -> None:
        self.waiting: list[float] = []
        self.now_s = 0.0
        self.starting = True

    def load(self, samples_s: list[float]) -> None:
        """Take the samples of the next row."""
        self.waiting = list(samples_s)
        self.starting = True

    def __call__(self) -> float:
        """Return the time of the clock that is played back."""
        if self.starting or not self.waiting:
            self.starting = False
        else:
            self.starting = True
            self.now_s += self.waiting.pop(0)
        return self.now_s


class Door:
    """What the plugin keeps during one pytest session."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.replay = Replay()
        self.plan: Plan | None = None
        self.selected: set[tuple[str, str]] = set()
        self.found: Record | None = None
        self.shown: list[tuple[Cell, Run]] = []
        self.ceilings: dict[str, float] = {}  # cell id -> bytes a second of a copy
        self.thresholds: list[Threshold] = []

    def option(self, name: str) -> Any:
        """Return an option of ours; None where the plugin came too late to be asked for any."""
        return self.config.getoption(f"fuser_{name}", None)

    def whole_plan(self) -> Plan:
        """Return the plan of the options, before anything is deselected."""
        if self.plan is None:
            full = self.option("preset") == "full"
            make = plans.full_plan if full else plans.quick_plan
            changes = {name: self.option(name) for name in ("processes", "budget_s", "seed")}
            changes["command"] = command_line()
            self.plan = make(**{key: each for key, each in changes.items() if each is not None})
        return self.plan

    def record(self) -> Record:
        """Return the record of everything selected; the first call measures."""
        if self.found is None:
            plan = _only(self.whole_plan(), self.selected)
            with _uncaptured(self.config):
                engine = Engine(plan, progress.for_terminal())
                print(f"\nmeasuring {len(self.selected)} rows, about "
                      f"{progress.clock_text(plan.estimate_s())}", flush=True)
                self.found = engine.run()
            self.ceilings = _ceilings(self.found)
            if output := self.option("output"):
                save(self.found, Path(output) / self.found.run_id / "record.json")
        return self.found

    def publish(self, cell: Cell, run: Run, benchmark: Any) -> Run:
        """Show a row in both tables; a wrong or missing one ends its test."""
        self.shown.append((cell, run))
        if run.status in ("absent", "not_run"):
            pytest.skip(run.reason)
        if run.status in ("wrong", "failed"):
            pytest.fail(f"{cell.id}, {run.variant}: {run.status}: {run.reason}", pytrace=False)
        if run.status != "ok" and not run.expected_fallback:
            warnings.warn(f"{cell.id}, {run.variant}: {run.status}: {run.reason}", stacklevel=3)
        found = metrics(cell, run, self.ceilings.get(cell.id))
        if benchmark is not None:
            per_call_s = seconds_a_call(run)
            self.replay.load(per_call_s)
            benchmark.extra_info.update(found)
            benchmark.pedantic(_nothing, rounds=len(per_call_s), iterations=1)
        row = f"{cell.id}-{run.variant}"
        crossed = [text for each in self.thresholds if (text := each.crossed(row, found))]
        if crossed:
            pytest.fail("\n".join(crossed), pytrace=False)
        return run

    def write_csv(self, target: Path) -> None:
        """Write the rows that were shown, one line each."""
        rows = [metrics(cell, run, self.ceilings.get(cell.id)) for cell, run in self.shown]
        with target.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]) if rows else ["cell"])
            writer.writeheader()
            writer.writerows(rows)


DOOR = pytest.StashKey[Door]()


def _ceilings(record: Record) -> dict[str, float]:
    """Return what a copy reaches at each cell's size, where that was measured."""
    from fuser.reports.analysis import analyse  # imports scipy

    rows = analyse(record).rows
    return {row.cell.id: row.ceiling.typical for row in rows if row.ceiling is not None}


def _nothing() -> None:
    return None


def _pairs(plan: Plan) -> list[tuple[str, str]]:
    """Return every row of a plan, those of absent runners too: their tests say why they skip."""
    return [
        (cell.id, each.name)
        for cell in plan.cells
        for each in plan.variants
        if each.absent_reason is not None or plan.wants(cell, each)
    ]


def _only(plan: Plan, selected: set[tuple[str, str]]) -> Plan:
    """Return the plan of the selected pairs alone."""
    cells = [cell for cell in plan.cells if any(cell.id == each for each, _ in selected)]
    variants = [each for each in plan.variants if any(each.name == name for _, name in selected)]
    whole = len(selected) == len(_pairs(plan))
    # memory speed and compile time by length belong to a whole run, not to a chosen row
    return replace(
        plan, cells=cells, variants=variants, selected=frozenset(selected),
        preset=plan.preset if whole else "custom", ceilings=whole,
        scaling=plan.scaling if whole else (),
    )


@contextmanager
def _uncaptured(config: pytest.Config) -> Iterator[None]:
    """Let the progress through pytest's capturing."""
    manager = config.pluginmanager.getplugin("capturemanager")
    if manager is None:
        yield
        return
    with manager.global_and_fixture_disabled():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the measurement."""
    group = parser.getgroup("fuser", "what fusion buys (fuser-bench)")
    group.addoption("--fuser-preset", choices=("quick", "full"), default="quick")
    group.addoption("--fuser-processes", type=int, help="worker processes")
    group.addoption("--fuser-budget-s", type=float, help="seconds for measuring")
    group.addoption("--fuser-seed", type=int, help="seed of inputs and order")
    group.addoption(
        "--fuser-fail", action="append", default=[], metavar="ROWS:METRIC<NUMBER",
        help="fail rows for which this holds: '*-fused:speedup<1', 'axpy-*:max_error_ulp>4'",
    )
    group.addoption("--fuser-csv", metavar="FILE", help="write every row's metrics there")
    group.addoption("--fuser-output", help="folder for the raw record; default: none is kept")


def pytest_configure(config: pytest.Config) -> None:
    """Set up the session's state, and stand in for pytest-benchmark where it is not active."""
    door = config.stash[DOOR] = Door(config)
    try:
        door.thresholds = [Threshold.parse(each, METRICS) for each in door.option("fail") or ()]
    except ThresholdError as error:
        raise pytest.UsageError(str(error)) from None
    if not config.pluginmanager.hasplugin("benchmark"):
        config.pluginmanager.register(NoBenchmark(), "fuser-no-benchmark")


class NoBenchmark:
    """Gives the fixture `benchmark` where pytest-benchmark does not."""

    @pytest.fixture
    def benchmark(self) -> None:
        """Nothing: rows are shown in our own table."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of every cell and variant, with ids that are stable from run to run."""
    if "row" not in metafunc.fixturenames:
        return
    plan = metafunc.config.stash[DOOR].whole_plan()
    pairs = _pairs(plan)
    metafunc.parametrize(
        ("cell_id", "variant"), pairs, ids=[f"{cell}-{variant}" for cell, variant in pairs]
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the rows their timer."""
    if not config.pluginmanager.hasplugin("benchmark"):
        return
    for item in items:
        names = getattr(item, "fixturenames", ())
        if any(name in names for name in ROW_FIXTURES):
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            group = parameters.get("cell_id", item.name)
            marker = pytest.mark.benchmark(timer=config.stash[DOOR].replay, group=group)
            item.add_marker(marker)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which rows are left after -k, -m and the like: only they are measured."""
    for item in session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "row" in getattr(item, "fixturenames", ()):
            session.config.stash[DOOR].selected.add((parameters["cell_id"], parameters["variant"]))


@pytest.fixture
def cell_id(request: pytest.FixtureRequest) -> str:
    """Stands for the parameter of the same name."""
    return str(request.param)


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> str:
    """Stands for the parameter of the same name."""
    return str(request.param)


@pytest.fixture
def row(
    request: pytest.FixtureRequest, cell_id: str, variant: str, benchmark: Any
) -> Callable[[], Run]:
    """A function that publishes this test's row, and measures all of them the first time."""
    if hasattr(request.config, "workerinput"):
        pytest.skip("measuring needs the whole machine: run without -n")
    door = request.config.stash[DOOR]

    def publish() -> Run:
        for cell in door.record().cells:
            for run in cell.runs:
                if (cell.id, run.variant) == (cell_id, variant):
                    return door.publish(cell, run, benchmark)
        raise KeyError(f"{cell_id}, {variant}: not in the record")

    return publish


@pytest.fixture
def fused_benchmark(request: pytest.FixtureRequest, benchmark: Any) -> Callable[..., Cell]:
    """Measure a function of your own: `fused_benchmark(function, *arrays)`.

    Eager and the fuser's modes are interleaved in this process and verified against float64;
    the row of `fused` is published, the whole cell returned.
    """
    door = request.config.stash[DOOR]

    def measure(function: Callable[..., Any], *arguments: Any, **options: Any) -> Cell:
        workload = workload_of(function, arguments, request.node.name, **options)
        sizes = [each.size for each in arguments if isinstance(each, np.ndarray)]
        cell = measure_here(workload, max(sizes, default=1))
        found = {run.variant: run for run in cell.runs}
        door.publish(cell, found["fused"], benchmark)
        return cell

    return measure


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]
) -> None:
    """Say in pytest-benchmark's file which run the rows came from."""
    record = config.stash[DOOR].found
    if record is not None:
        output_json["fuser"] = {
            "run_id": record.run_id, "finished": record.finished,
            "settings": dict(record.settings), "notes": list(record.notes),
        }


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the rows with the numbers that pytest-benchmark has no columns for."""
    door = config.stash.get(DOOR, None)
    if door is None or not door.shown:
        return
    terminalreporter.section("fuser-bench")
    if not config.pluginmanager.hasplugin("benchmark"):
        terminalreporter.write_line(NO_BENCHMARK)
    terminalreporter.write_line(HEADER)
    for cell, run in door.shown:
        terminalreporter.write_line(table_line(cell, run))
    if target := door.option("csv"):
        door.write_csv(Path(target))
    good = sum(run.status == "ok" for _, run in door.shown)
    terminalreporter.write_line(f"{good} of {len(door.shown)} rows are measured and right")
