"""What the pytest door keeps during a session: the plan, the record, and how tests end."""

import csv
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuser.base.near import near_it
from fuser.reports.record import Cell, Record, Run
from fuser.suites import presets, progress
from fuser.suites.commands.exit_codes import ExitCode, from_pytest
from fuser.suites.commands.saved_runs import keep
from fuser.suites.engine import Engine
from fuser.suites.plan import Plan
from fuser.suites.probes.machine import command_line
from fuser.suites.registry import resolve
from fuser.suites.rows import METRICS, metrics, seconds_a_call
from fuser.suites.thresholds import Threshold


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
        self.problems: dict[str, ExitCode] = {}  # test -> why it fails

    def option(self, name: str) -> Any:
        """Return an option of ours; None where the plugin came too late to be asked for any."""
        return self.config.getoption(f"fuser_{name}", None)

    def whole_plan(self) -> Plan:
        """Return the plan of the options, before anything is deselected."""
        if self.plan is None:
            given = {name: self.option(name) for name in ("processes", "budget_s", "seed")}
            changes = {name: each for name, each in given.items() if each is not None}
            preset = self.option("preset") or "quick"
            self.plan = presets.plan_of(preset, command=command_line(), **changes)
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
                kept = keep(self.found, Path(output) / self.found.run_id)
                self.found = kept.record
                for problem in kept.problems:
                    warnings.warn(problem, stacklevel=2)
        return self.found

    def publish(self, cell: Cell, run: Run, benchmark: Any, test: pytest.Item) -> Run:
        """Show a row in both tables; a wrong or missing one ends its test."""
        self.shown.append((cell, run))
        if run.status in ("absent", "not_run"):
            pytest.skip(run.reason)
        if run.status in ("wrong", "failed"):
            wrong = run.status == "wrong"
            self.problems[test.nodeid] = ExitCode.WRONG if wrong else ExitCode.NOTHING
            pytest.fail(f"{cell.id}, {run.variant}: {run.status}: {run.reason}", pytrace=False)
        if run.status != "ok" and not run.expected_fallback:
            warnings.warn(f"{cell.id}, {run.variant}: {run.status}: {run.reason}", stacklevel=3)
        found = metrics(cell, run, self.ceilings.get(cell.id))
        if benchmark is not None:
            per_call_s = seconds_a_call(run)
            self.replay.load(per_call_s)
            benchmark.extra_info.update(found)
            benchmark.pedantic(_nothing, rounds=len(per_call_s), iterations=1)
        self._judge(cell, run, found, test)
        return run

    def _judge(self, cell: Cell, run: Run, found: dict[str, Any], test: pytest.Item) -> None:
        """Fail the test of a row that crosses a threshold, or may: that is not known either."""
        names = (f"{cell.id}-{run.variant}", cell.id, cell.family)
        own = conditions_of(test)
        chosen = [each for each in self.thresholds if each.names(names)] + own
        crossed = [each for each in chosen if each.holds(found)]
        if not crossed:
            return
        undecided = all(each.undecided(found) for each in crossed)
        self.problems[test.nodeid] = (
            ExitCode.INCONCLUSIVE if undecided else ExitCode.REGRESSION
        )
        lines = [each.finding(names[0], found) for each in crossed]
        pytest.fail("\n".join(lines), pytrace=False)

    def unmet(self) -> list[str]:
        """Say which conditions of the command line are for rows that nothing is called.

        Rows of the suite that are not selected are rows all the same.
        """
        rows = [(cell.id, run.variant, cell.family) for cell, run in self.shown]
        if self.plan is not None:
            families = {each.id: resolve(each.workload).family for each in self.plan.cells}
            rows += [(cell, name, families[cell]) for cell, name in pairs_of(self.plan)]
        names = {each for cell, name, family in rows for each in (f"{cell}-{name}", cell, family)}
        near = {cell.partition("-")[0] for cell, _, _ in rows} | names
        return [
            f"--fuser-fail: no row is called {each.rows!r}; {near_it(each.rows.strip('*-'), near)}"
            for each in self.thresholds if names and not each.names(names)
        ]

    def write_csv(self, target: Path) -> None:
        """Write the rows that were shown, one line each."""
        rows = [metrics(cell, run, self.ceilings.get(cell.id)) for cell, run in self.shown]
        with target.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]) if rows else ["cell"])
            writer.writeheader()
            writer.writerows(rows)


DOOR = pytest.StashKey[Door]()
MARKER = "fuser_fail(condition, ...): fail this test's rows where a condition holds: 'speedup<1'"


class Watch:
    """Sees how a session ends, for the command that translates pytest's exit codes."""

    def __init__(self) -> None:
        self.door: Door | None = None
        self.failed: list[str] = []
        self.by_hand = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Take hold of the door."""
        self.door = session.config.stash.get(DOOR, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note that a person ended it: errors while collecting end it with the same code."""
        self.by_hand = type(excinfo.value) is KeyboardInterrupt

    def exit_code(self, raw: int) -> ExitCode:
        """Return what the session means."""
        if self.door is None:  # it ended before it began
            return from_pytest(raw, (), 0, by_hand=False)
        found = {self.door.problems.get(each, ExitCode.REGRESSION) for each in self.failed}
        measured = sum(bool(run.samples.seconds) for _, run in self.door.shown)
        partly = self.door.found is not None and not self.door.found.finished
        return from_pytest(raw, found, measured, self.by_hand or partly)


def _ceilings(record: Record) -> dict[str, float]:
    """Return what a copy reaches at each cell's size, where that was measured."""
    from fuser.reports.analysis import analyse  # imports scipy

    rows = analyse(record).rows
    return {row.cell.id: row.ceiling.typical for row in rows if row.ceiling is not None}


def _nothing() -> None:
    return None


def conditions_of(test: pytest.Item) -> list[Threshold]:
    """Return the conditions of a test's own marks.

    Raises:
        ThresholdError: one cannot be read.
    """
    texts = [text for mark in test.iter_markers("fuser_fail") for text in mark.args]
    return [Threshold.parse(text, METRICS) for text in texts]


def pairs_of(plan: Plan) -> list[tuple[str, str]]:
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
    whole = len(selected) == len(pairs_of(plan))
    # memory speed belongs to a whole run, not to a chosen row
    return replace(
        plan, cells=cells, variants=variants, selected=frozenset(selected),
        preset=plan.preset if whole else "custom", ceilings=whole,
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
