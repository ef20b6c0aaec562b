"""The engine: what it records of honest and of misbehaving runners, in worker processes."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fuser.reports.record import Record, Run, load, save
from fuser.reports.statistics import LEAST_PROCESSES
from fuser.suites import engine
from fuser.suites.engine import Engine
from fuser.suites.plan import CellPlan, Plan, VariantPlan, variants_for
from fuser.suites.progress import Progress
from fuser.suites.runners import Runner
from tests.suites import cheats
from tests.tree import ROOT

CELL = CellPlan(f"{cheats.MODULE}:DOUBLE", "float32", 64, "S")
LARGER = CellPlan(f"{cheats.MODULE}:DOUBLE", "float32", 1024, "M")
REFUSED = CellPlan(f"{cheats.MODULE}:REFUSED", "float32", 64, "S")
AWAY = CellPlan(f"{cheats.MODULE}:AWAY", "float32", 64, "S")


def plan_of(*kinds: type[Runner], cells: tuple[CellPlan, ...] = (CELL,), **changes: object) -> Plan:
    """Return a short plan: eager, its twin and the given runners."""
    variants = variants_for(["eager", *(cheats.spec(kind) for kind in kinds)])
    settings: dict[str, object] = {
        "processes": 1, "budget_s": 2.0, "least_sample_s": 1e-4, "most_blocks": 4,
        "least_blocks": 2, "ceilings": False,
    }
    return Plan(cells=cells, variants=variants, **(settings | changes))  # type: ignore[arg-type]


def row(record: Record, variant: str, cell: int = 0) -> Run:
    """Return one run of a record."""
    return next(run for run in record.cells[cell].runs if run.variant == variant)


@pytest.fixture(scope="module")
def crowd() -> Record:
    """One run of two processes with honest and misbehaving runners together."""
    kinds = (
        cheats.Honest, cheats.wrong, cheats.remembering, cheats.remembering_addresses,
        cheats.overwriting, cheats.Compiling, cheats.Falling, cheats.FallingLater,
        cheats.raising, cheats.Absent, cheats.Peer, cheats.remembering_values, cheats.skipping,
        cheats.background, cheats.lazy,
    )
    plan = plan_of(*kinds, cells=(CELL, LARGER, REFUSED, AWAY), processes=2, budget_s=8.0)
    return Engine(plan).run()


def test_an_honest_row_is_measured_in_every_process(crowd: Record) -> None:
    """Samples come from both processes, in blocks, with the first call and the checks recorded."""
    run = row(crowd, "honest")
    assert run.status == "ok"
    assert set(run.samples.process) == {0, 2}, "the peer has processes 1 and 3"
    assert len(run.first_call_s) == 2
    assert run.compile_stages_s == {"trace": [0.0, 0.0], "rest": run.first_call_s}
    assert run.checked_calls in range(8, 15), "before, during, up to five times after, twice"
    assert run.max_relative_error == 0.0
    assert max(run.samples.seconds) >= 0.5e-4, "a busy machine misleads the calibration at times"


def test_blocks_are_paired_and_interleaved(crowd: Record) -> None:
    """Every row of a cell has the same blocks, and the order of cells is mixed."""
    eager, twin = row(crowd, "eager"), row(crowd, "eager_again")
    pairs = set(zip(eager.samples.process, eager.samples.block, strict=True))
    assert len(pairs) == len(eager.samples.block) >= 2 * 2
    shared = {0, 2}
    assert {pair for pair in pairs if pair[0] in shared} == set(
        zip(twin.samples.process, twin.samples.block, strict=True)
    )
    orders = [
        order
        for cell in crowd.cells
        for run in cell.runs
        for process, order in zip(run.samples.process, run.samples.order, strict=True)
        if process == 0
    ]
    assert len(set(orders)) == len(orders), "one sample at a time"


def test_the_record_says_what_was_measured(crowd: Record, tmp_path: Path) -> None:
    """Formula, bytes, ledger and notes are there, and the record can be saved and read."""
    cell = crowd.cells[0]
    assert "return x + x" in cell.formula
    assert (cell.input_bytes, cell.output_bytes, cell.elements) == (256, 256, 64)
    assert (cell.ledger.planned_bytes, cell.ledger.kernels_fused) == (200, 1)
    assert crowd.finished
    assert load(save(crowd, tmp_path / "record.json")).cells[0].id == cell.id


@pytest.mark.parametrize(
    ("variant", "when"),
    [
        ("wrong", "before timing"),
        ("remembering", "in timed block"),
        ("remembering_addresses", "after timing"),
        ("overwriting", "changed its input"),
        ("remembering_values", "results are remembered|that result is lost"),
        ("skipping", "in timed block|after timing"),  # when the clock says so
        ("background", "NaN do not agree|was not there|relative error|start new thread"),
        ("lazy", "was not there when the call returned"),
    ],
)
def test_a_wrong_result_gets_no_speed(crowd: Record, variant: str, when: str) -> None:
    """Each cheat is found where it shows, and none of its samples is kept."""
    run = row(crowd, variant)
    assert run.status in ("wrong", "failed")
    assert re.search(when, run.reason), run.reason
    assert not run.samples.seconds


def test_a_wrong_neighbour_does_not_spoil_the_others(crowd: Record) -> None:
    """A runner that writes into its inputs leaves the other rows right."""
    assert {row(crowd, name).status for name in ("eager", "eager_again", "honest")} == {"ok"}


def test_compiling_inside_the_timed_region_is_labelled(crowd: Record) -> None:
    """The row keeps its samples and says how many kernels it compiled."""
    run = row(crowd, "compiling")
    assert run.status == "compiled_inside"
    assert "kernels while it was timed" in run.reason
    assert run.samples.seconds


def test_falling_back_is_labelled(crowd: Record) -> None:
    """With the reason the runner gives, or the count where it happened only while timed."""
    run = row(crowd, "falling")
    assert (run.status, run.reason) == ("fell_back", "sort: no elementwise form")
    assert not run.expected_fallback
    assert row(crowd, "falling_later").status == "fell_back"


def test_a_must_refuse_workload_expects_the_fallback(crowd: Record) -> None:
    """There, falling back is what is asked of fused variants, and not of eager."""
    assert row(crowd, "falling", cell=2).expected_fallback
    assert not row(crowd, "eager", cell=2).expected_fallback


def test_what_cannot_run_says_why(crowd: Record) -> None:
    """A runner that raises, one that is not installed, and data that are not there."""
    assert row(crowd, "raising").status == "failed"
    assert "no such kernel" in row(crowd, "raising").reason
    absent = next(run for run in crowd.cells[0].runs if run.status == "absent")
    assert "pip install nosuchfuser" in absent.reason
    assert row(crowd, "eager", cell=3).status == "not_run"
    assert row(crowd, "eager", cell=3).reason == "the file is not here"


def test_a_peer_has_processes_of_its_own_with_eager(crowd: Record) -> None:
    """Its samples pair with eager's of the same processes, and no other runner is there."""
    assert set(row(crowd, "peer").samples.process) == {1, 3}
    assert set(row(crowd, "eager").samples.process) == {0, 1, 2, 3}


def test_a_runner_that_kills_its_process_costs_only_its_rows() -> None:
    """The worker is started again without the row at work, which is marked as failed."""
    record = Engine(plan_of(cheats.Honest, cheats.dying)).run()
    assert record.finished
    assert row(record, "dying").status == "failed"
    assert "SIGSEGV" in row(record, "dying").reason
    assert row(record, "honest").status == "ok"
    assert set(row(record, "eager").samples.process) == {0}


def test_a_runner_that_hangs_is_stopped() -> None:
    """After the stall limit its process is ended, and the others are measured."""
    record = Engine(plan_of(cheats.hanging, stall_s=2.0)).run()
    assert row(record, "hanging").status == "failed"
    assert "said nothing for 2 s" in row(record, "hanging").reason
    assert row(record, "eager").status == "ok"


def test_only_the_selected_pairs_are_measured() -> None:
    """A selection names cells and variants; nothing else runs."""
    selected = frozenset({(CELL.id, "eager"), (LARGER.id, "honest")})
    plan = plan_of(cheats.Honest, cells=(CELL, LARGER), selected=selected)
    record = Engine(plan).run()
    found = {(cell.id, run.variant) for cell in record.cells for run in cell.runs}
    assert found == selected


def test_ceilings_and_overhead_are_recorded() -> None:
    """Copy, triad and read inside and beyond the cache, and the clock."""
    plan = plan_of(cheats.Honest, ceilings=True, budget_s=2.0)
    record = Engine(plan).run()
    assert {each.name for each in record.ceilings} == {"copy", "triad", "read"}
    assert len({each.working_set_bytes > 8 << 20 for each in record.ceilings}) == 2
    assert record.call_overhead is not None
    assert max(record.call_overhead["clock_resolution_s"]) < 1e-3


def test_what_has_no_verdict_is_measured_in_more_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here because one runner's speed changes from process to process."""
    monkeypatch.setenv(cheats.Moody.FOLDER, str(tmp_path))
    plan = plan_of(cheats.Moody, cells=(CELL, LARGER), processes=2, most_processes=3, budget_s=30.0)
    record = Engine(plan).run()
    processes = set(row(record, "moody").samples.process) | set(
        row(record, "moody", cell=1).samples.process
    )
    assert 2 in processes
    assert any("they had no verdict" in note for note in record.notes)


class InterruptSecond(Progress):
    """Raises what Ctrl-C raises, in the second process."""

    def update(self, fraction: float, text: str) -> None:
        """Interrupt."""
        if text.startswith("process 2"):
            raise KeyboardInterrupt


def test_an_interruption_keeps_what_was_measured() -> None:
    """The record is not finished, says so, and holds the samples of the first process."""
    partial: list[Record] = []
    plan = plan_of(processes=2, budget_s=5.0, most_blocks=3000)
    record = Engine(plan, InterruptSecond(), on_partial=partial.append).run()
    assert not record.finished
    assert any("interrupted" in note for note in record.notes)
    assert row(record, "eager").status == "ok"
    assert 0 in row(record, "eager").samples.process
    assert len(partial) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_sigint_to_the_command_alone_ends_the_worker_and_writes_the_record(tmp_path: Path) -> None:
    """As tox sends it: only the parent gets the signal."""
    command = [
        sys.executable, "-m", "fuser.suites.commands.command", "run", "axpy-float32-1024",
        "--variants", "eager", "--budget-s", "9", "--processes", "9", "--output", str(tmp_path),
        "--no-report",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline_s = time.monotonic() + 60
    while not list(tmp_path.glob("*/record.json")) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    workers = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    record = load(next(tmp_path.glob("*/record.json")))
    assert not record.finished
    assert row(record, "eager").samples.seconds
    _, alive = psutil.wait_procs(workers, timeout=20)  # a worker notices that nobody listens
    assert not alive


def test_a_spent_budget_leaves_as_many_processes_as_an_interval_needs() -> None:
    """Three of five; and the record says that there are fewer than were asked for."""
    assert engine.IN_ANY_CASE == LEAST_PROCESSES
    record = Engine(plan_of(processes=5, budget_s=0.5)).run()
    assert set(row(record, "eager").samples.process) == {0, 1, 2}
    assert any("was spent after 3 of 5" in note for note in record.notes)


def test_the_estimate_is_within_the_budget() -> None:
    """What is printed before a run is never above the budget, and small for small plans."""
    small = plan_of(cheats.Honest)
    assert 0 < small.estimate_s() <= small.budget_s
    assert isinstance(small.variants[0], VariantPlan)


def alternating(*kinds: type[Runner], **changes: object) -> Plan:
    """Return a plan whose processes take blocks in turns, one of another checkout among them."""
    plan = plan_of(*kinds, cells=(CELL, LARGER), alternate=True, **changes)
    other = replace(
        variants_for(["fused"])[0], name="baseline", kind="baseline", own_process=True,
        checkout=str(ROOT),
    )
    return replace(plan, variants=[*plan.variants, other])


def test_processes_that_alternate_have_the_same_blocks() -> None:
    """NumPy runs in the first process alone; all share its number, so that blocks are pairs."""
    plan = alternating(cheats.Honest, cheats.Peer)
    assert [[each.name for each in group] for group in plan.groups()] == [
        ["eager", "eager_again", "honest"], ["peer"], ["baseline"],
    ]
    record = Engine(alternating(cheats.Honest, processes=2, budget_s=30.0)).run()
    assert record.finished
    for name in ("eager", "honest", "baseline"):
        for cell in range(2):
            run = row(record, name, cell)
            assert run.status == "ok", run.reason
            assert set(run.samples.process) == {0, 1}
            assert {0, 1} <= set(run.samples.block)


def test_one_that_dies_among_several_costs_its_row() -> None:
    """The cell is measured again without it, and no sample of the first try is left."""
    record = Engine(alternating(cheats.dying, budget_s=30.0)).run()
    assert row(record, "dying").status == "failed"
    for name in ("eager", "baseline"):
        samples = row(record, name).samples
        assert samples.seconds
        assert len(set(samples.block)) == len(samples.block)


def test_a_run_goes_on_where_an_earlier_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells begun too late are left out; those that have samples are not measured again."""
    monkeypatch.setattr(engine, "LEAST_WORKER_S", -1.0)
    late = Engine(alternating(budget_s=-1.0)).run()
    assert not any(run.samples.seconds for cell in late.cells for run in cell.runs)
    plan = plan_of(cheats.Honest, cells=(CELL, LARGER), alternate=True, budget_s=30.0)
    first = Engine(replace(plan, cells=plan.cells[:1])).run()
    whole = Engine(plan, earlier=first).run()
    assert whole.cells[0] == first.cells[0]
    assert row(whole, "honest", 1).samples.seconds
