"""The pytest door to the engine: `-p fuser.suites.plugin`, or `pytest_plugins` in a conftest.

At the first selected row the engine measures every selected row, interleaved; each test then
publishes its own through pytest-benchmark's `benchmark.pedantic`, whose timer replays the samples.
So tables, `--benchmark-autosave`, `--benchmark-compare` and `pytest-benchmark compare` show what
the engine measured. Without pytest-benchmark the rows appear in this plugin's own table.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuser.reports.record import Cell, Run
from fuser.suites.door import DOOR, MARKER, Door, conditions_of, pairs_of
from fuser.suites.local import measure_here, with_keywords, workload_of
from fuser.suites.rows import HEADER, METRICS, table_line
from fuser.suites.thresholds import Threshold, ThresholdError

ROW_FIXTURES = ("row", "fused_benchmark")
NO_BENCHMARK = (
    "pytest-benchmark is not active: rows are shown in this table only. "
    "pip install pytest-benchmark stores and compares them."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the measurement."""
    group = parser.getgroup("fuser", "what fusion buys (fuser-bench)")
    group.addoption("--fuser-preset", choices=("quick", "full"), default="quick")
    group.addoption("--fuser-processes", type=int, help="worker processes")
    group.addoption("--fuser-budget-s", type=float, help="seconds for measuring")
    group.addoption("--fuser-seed", type=int, help="seed of inputs and order")
    group.addoption(
        "--fuser-fail", action="append", default=[], metavar="ROWS:METRIC<NUMBER",
        help="fail rows for which this holds, by row, cell or family: '*-fused:speedup<1', "
        "'axpy-*:max_error_ulp>4', 'reductions:speedup<0.9'",
    )
    group.addoption("--fuser-csv", metavar="FILE", help="write every row's metrics there")
    group.addoption("--fuser-output", help="folder for the raw record; default: none is kept")


def pytest_configure(config: pytest.Config) -> None:
    """Set up the session's state, and stand in for pytest-benchmark where it is not active."""
    door = config.stash[DOOR] = Door(config)
    config.addinivalue_line("markers", MARKER)
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
    pairs = pairs_of(plan)
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
    """Note which rows are left after -k, -m and the like: only they are measured.

    A condition of a mark that cannot be read ends the session before anything is measured, and so
    does one of the command line for rows that nothing is called; rows of a person's own functions
    have their names once they are measured.
    """
    for item in session.items:
        try:
            conditions_of(item)
        except ThresholdError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "row" in getattr(item, "fixturenames", ()):
            session.config.stash[DOOR].selected.add((parameters["cell_id"], parameters["variant"]))
    own = any("fused_benchmark" in getattr(item, "fixturenames", ()) for item in session.items)
    if not own and session.items and (unmet := session.config.stash[DOOR].unmet()):
        raise pytest.UsageError("\n".join(unmet))


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
                    return door.publish(cell, run, benchmark, request.node)
        raise KeyError(f"{cell_id}, {variant}: not in the record")

    return publish


@pytest.fixture
def fused_benchmark(request: pytest.FixtureRequest, benchmark: Any) -> Callable[..., Cell]:
    """Measure a function of your own: `fused_benchmark(function, *arrays, axis=1, …)`.

    Keywords are the function's, but for `tolerance_eps`: how far a result may be from the one in
    float64, in units of the dtype's epsilon. Eager and the fuser's modes are interleaved in this
    process and verified against float64; the row of `fused` is published, the whole cell returned.
    """
    door = request.config.stash[DOOR]

    def measure(
        function: Callable[..., Any], *arguments: Any, tolerance_eps: float = 64.0, **keywords: Any
    ) -> Cell:
        given = (*arguments, *keywords.values())
        called = with_keywords(function, len(arguments), tuple(keywords))
        workload = workload_of(called, given, request.node.name, tolerance_eps)
        sizes = [each.size for each in given if isinstance(each, np.ndarray)]
        cell = measure_here(workload, max(sizes, default=1))
        found = {run.variant: run for run in cell.runs}
        door.publish(cell, found["fused"], benchmark, request.node)
        return cell

    return measure


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ctrl-C while measuring keeps the rows there are; the session is interrupted all the same.

    A condition that no row was held to is a usage error: a gate for a misspelt row guards nothing.
    """
    door = session.config.stash[DOOR]
    if door.found is not None and not door.found.finished:
        session.exitstatus = pytest.ExitCode.INTERRUPTED
    elif session.exitstatus == pytest.ExitCode.OK and door.shown and door.unmet():
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


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
        terminalreporter.write_line(table_line(cell, run, door.ceilings.get(cell.id)))
    if target := door.option("csv"):
        door.write_csv(Path(target))
    good = sum(run.status == "ok" for _, run in door.shown)
    terminalreporter.write_line(f"{good} of {len(door.shown)} rows are measured and right")
    for each in door.unmet():
        terminalreporter.write_line(each)
