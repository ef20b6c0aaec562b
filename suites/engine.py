"""The measuring engine: runs a plan in worker processes and gives the raw record.

Each worker measures every cell of its variants, interleaved; workers run one after another, so
that none disturbs another. Where a plan alternates, the workers of all variants are alive at once,
go from cell to cell together, and take its blocks in turns: what one is slower than another then
is no drift of the machine. A worker that dies or hangs costs the row that did it, not the run.
"""

import json
import os
import queue
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from fuser.reports.record import Cell, Record
from fuser.suites import cold_processes
from fuser.suites.children import child_environment, settle
from fuser.suites.collect import Collector
from fuser.suites.measuring import Event, Limits
from fuser.suites.plan import Plan, VariantPlan
from fuser.suites.preparing import BEGIN, EVERY, NOBODY
from fuser.suites.probes import machine
from fuser.suites.progress import Progress
from fuser.suites.worker import GO, Job, Position

MOST_RESTARTS = 5
"""Of one run, whatever they cost; then as many as the time of its budget has room for."""
END_S = 5.0
SHOW_EVERY_S = 0.25
SAVE_EVERY_S = 10.0
WORTH_STARTING = 0.6
"""The share of the mean process's time that must be left for another one."""
IN_ANY_CASE = 3
"""Processes of each group that run whatever the budget says: an interval needs as many."""
LEAST_WORKER_S = 1.0
MORE_SHARE = 0.15
"""The share of the budget that is kept for more processes where there is no verdict."""
WORKER_START_S = 1.0
KEPT_SETTINGS = (
    "processes", "most_processes", "most_blocks", "least_blocks", "least_sample_s", "budget_s",
    "memory_bytes", "alternate", "longest_call_s", "reuse_compiled",
)
"""Fields of a plan that the record keeps among its settings."""
Step = tuple[int, int]
"""What a worker that alternates with others waits to do: a cell, by its place, and a step of it."""
STARTING = BEGIN - 1
LEAST_START_S = 60.0
"""Starting a process on a busy machine is no stall."""


class Engine:
    """One run of one plan."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress | None = None,
        on_partial: Callable[[Record], object] | None = None,
        earlier: Record | None = None,
    ) -> None:
        """Get ready.

        Args:
            plan: what to measure.
            progress: shows how far it is.
            on_partial: is given the record after each part of the run.
            earlier: of a run of the same plan that ended early; its cells are not measured again.
        """
        self.plan = plan
        self.progress = progress or Progress()
        self.on_partial = on_partial
        self.collector = Collector(plan)
        self.created = datetime.now(UTC)
        stamp = self.created.strftime("%Y%m%dT%H%M%SZ")
        self.run_id = f"{stamp}-{secrets.token_hex(3)}"
        self.machine = machine.describe_machine()
        self.commit, self.dirty = machine.checkout_state()
        self.kept = cells_measured(plan, earlier)
        self.earlier = earlier
        self.excluded: set[tuple[int, int]] = set()
        self.only: frozenset[int] | None = None  # cells of a process more; None: all
        self.restarts = 0
        self.lost_s = 0.0  # in processes that died
        self.shown_s = self.saved_s = self.fraction = 0.0
        self.visits = dict.fromkeys(range(len(plan.cells)), 0)
        self.chance = random.Random(plan.seed)

    def run(self) -> Record:
        """Measure everything; after Ctrl-C, return what was measured, with finished False."""
        finished = False
        started_s = time.monotonic()
        self.progress.start(self.plan.estimate_s())
        try:
            self._run_workers(started_s)
            finished = True
        except KeyboardInterrupt:
            elapsed_s = time.monotonic() - started_s
            self.collector.notes.append(f"interrupted after {elapsed_s:.0f} s: rows are missing")
        finally:
            self.progress.stop()
        return self.record(finished)

    def record(self, finished: bool) -> Record:
        """Return the record as far as it is known."""
        plan, kept = self.plan, self.kept
        earlier = self.earlier
        cells = [kept.get(each.id, each) for each in self.collector.cells()]
        notes = [*(() if earlier is None else earlier.notes), *self.collector.notes]
        return Record(
            run_id=self.run_id, created_utc=self.created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            finished=finished, preset=plan.preset, machine=self.machine,
            command=list(plan.command), seed=plan.seed, settings=_settings(plan),
            packages=machine.package_versions(), commit=self.commit, dirty=self.dirty,
            ceilings=[*(() if earlier is None else earlier.ceilings), *self.collector.ceilings],
            variants=self.collector.variants(),
            cells=cells, call_overhead=self.collector.call_overhead(),
            **self.collector.experiments.fields(), texts=dict(self.collector.texts),
            notes=list(dict.fromkeys(notes)),
        )

    def _run_workers(self, started_s: float) -> None:
        """Run what the plan says, turn by turn, so that a drift of the machine meets all."""
        groups = self.plan.groups()
        if self.plan.cold:
            whole = all(each.id in self.kept for each in self.plan.cells)
            for process, event in () if whole else cold_processes.measure(self.plan):
                self._take(process, event)
        elif self.plan.alternate:
            self._run_turns(groups, started_s)
        else:
            self._run_apart(groups, started_s)

    def _run_apart(self, groups: Sequence[Sequence[VariantPlan]], started_s: float) -> None:
        """Run the groups' workers one after another."""
        count = self.plan.worker_count()
        kept_s = self.plan.budget_s * (MORE_SHARE if self.plan.most_processes else 0.0)
        for process in range(count):
            left_s = self.plan.budget_s - (time.monotonic() - started_s)
            if self._too_late(process, left_s, started_s):
                return
            share_s = max(LEAST_WORKER_S, (left_s - kept_s) / (count - process))
            self._run_worker(process, groups[process % len(groups)], share_s)
            self._keep_partial()
        if groups and self.plan.processes > 1:
            self._run_more(count, groups[0], started_s)

    def _run_turns(self, groups: Sequence[Sequence[VariantPlan]], started_s: float) -> None:
        """Run one worker of each group together, as often as the plan has processes."""
        chance = random.Random(self.plan.seed)
        for process in range(self.plan.processes):
            left = self.plan.processes - process
            left_s = max(0.0, self.plan.budget_s - (time.monotonic() - started_s))
            ends_s = time.monotonic() + max(LEAST_WORKER_S, left_s / left)
            order = chance.sample(range(len(self.plan.cells)), len(self.plan.cells))
            # what was out of time before is first; else small arrays, so that many cells are known
            order.sort(key=lambda at: (self.visits[at], self.plan.cells[at].elements))
            while order:
                order = self._run_together(process, groups, order, ends_s)
            self._keep_partial()

    def _run_together(
        self, process: int, groups: Sequence[Sequence[VariantPlan]], order: list[int], ends_s: float
    ) -> list[int]:
        """Let a worker of each group go over cells in step; return those left where one died."""
        jobs = [
            self._job(process, group, ends_s - time.monotonic(), not at, len(groups), order)
            for at, group in enumerate(groups)
        ]
        rank = {cell: place for place, cell in enumerate(order)}
        with ExitStack() as stack:
            workers = [
                stack.enter_context(WorkerProcess(job, self.plan.stall_s))
                for job in jobs if any(job.rows)
            ]
            waiting: dict[WorkerProcess, Step] = dict.fromkeys(workers, (0, STARTING))
            while waiting:
                first = min(waiting.values())
                worker = self.chance.choice([each for each in waiting if waiting[each] == first])
                del waiting[worker]
                late = first[1] == BEGIN and time.monotonic() >= ends_s
                if first[1] != STARTING:
                    worker.tell(not late)
                if (event := self._advance(process, worker)) is not None:
                    waiting[worker] = rank[event["cell"]], event["step"]
                settle(worker.process.pid)
                if worker.problem is not None:
                    left = order[first[0] :]
                    self._blame(process, worker.problem, worker.position, left)
                    return left if self._goes_on(process, worker) else []
                ahead = min((place for place, _ in waiting.values()), default=len(order))
                if ahead > first[0] and not late:
                    self._visited(order[first[0]])
        return []

    def _advance(self, process: int, worker: "WorkerProcess") -> Event | None:
        """Take in a worker's events until it waits for its turn; None where it has ended."""
        for event in worker.events:
            self._take(process, event)
            if event["event"] == "turn":
                return event
        return None

    def _take(self, process: int, event: Event) -> None:
        """Keep an event, and show how far the run is."""
        self.collector.add(process, event)
        if event["event"] == "progress":
            self._show(process, event)

    def _visited(self, cell: int) -> None:
        """Note that a cell was measured by all workers of a turn; save now and then."""
        self.visits[cell] += 1
        if time.monotonic() - self.saved_s > SAVE_EVERY_S:
            self.saved_s = time.monotonic()
            self._keep_partial()

    def _run_more(
        self, process: int, group: Sequence[VariantPlan], started_s: float
    ) -> None:
        """Measure what has no verdict yet in more processes, as long as the budget lasts."""
        from fuser.suites.inconclusive import inconclusive  # imports scipy

        mean_s = (time.monotonic() - started_s) / max(1, process)
        for number in range(self.plan.processes, self.plan.most_processes):
            left_s = self.plan.budget_s - (time.monotonic() - started_s)
            self.only = frozenset(inconclusive(self.record(finished=False)))
            share = len(self.only) / max(1, len(self.plan.cells))
            if not self.only or left_s < WORKER_START_S + LEAST_WORKER_S + mean_s * share / 2:
                return
            share_s = min(left_s, max(LEAST_WORKER_S, left_s / 2))
            self._run_worker(process, group, share_s)
            process += 1
            self.collector.notes.append(
                f"{len(self.only)} cells were measured in a process more, their "
                f"{number + 1}th: they had no verdict"
            )
            self._keep_partial()

    def _keep_partial(self) -> None:
        if self.on_partial is not None:
            self.on_partial(self.record(finished=False))

    def _too_late(self, process: int, left_s: float, started_s: float) -> bool:
        """Return whether another process would run far over the budget; three run in any case."""
        if process < IN_ANY_CASE * len(self.plan.groups()):
            return False
        mean_s = (time.monotonic() - started_s) / process
        if left_s > WORTH_STARTING * mean_s:
            return False
        count = self.plan.worker_count()
        self.collector.notes.append(
            f"the budget of {self.plan.budget_s:.0f} s was spent after {process} of {count} "
            "processes: give --budget-s more for narrower intervals"
        )
        return True

    def _run_worker(self, process: int, group: Sequence[VariantPlan], share_s: float) -> None:
        """Run one worker, again where it died, without the row that it died of."""
        while True:
            job = self._job(process, group, share_s, process % len(self.plan.groups()) == 0)
            if not any(job.rows):
                return
            started_s = time.monotonic()
            with WorkerProcess(job, self.plan.stall_s) as worker:
                self._advance(process, worker)
            if worker.problem is None:
                return
            self._blame(process, worker.problem, worker.position)
            self.lost_s += time.monotonic() - started_s
            if not self._goes_on(process, worker):
                return

    def _goes_on(self, process: int, worker: "WorkerProcess") -> bool:
        """Return whether a process is started again after one that died."""
        often = self.restarts >= MOST_RESTARTS and self.lost_s > self.plan.budget_s
        if worker.position is None or often:
            self.collector.notes.append(f"process {process} was given up: {worker.problem}")
            return False
        self.restarts += 1
        return True

    def _blame(
        self, process: int, problem: str, position: tuple[int, int] | None,
        unfinished: Sequence[int] | None = None,
    ) -> None:
        """Take the row, cell or variant at work out of the run; None: no cell was finished."""
        self.collector.forget_samples(process, unfinished)
        if position is None:
            return
        cell, variant = position
        if variant == EVERY:
            problem = f"{problem}, in the workload itself"
        for index in range(len(self.plan.cells)) if cell < 0 else [cell]:
            for number in range(len(self.plan.variants)) if variant == EVERY else [variant]:
                self.excluded.add((index, number))
                self.collector.fail(index, number, problem)

    def _job(
        self, process: int, group: Sequence[VariantPlan], share_s: float, first: bool,
        together: int = 1, order: Sequence[int] | None = None,
    ) -> Job:
        """Return what a worker is told.

        Args:
            process: its number.
            group: its variants.
            share_s: the time it has.
            first: whether it also measures the machine, once a turn: a peer alone would measure the
                same memory again.
            together: how many workers are alive with it.
            order: of the cells; None: the plan's.
        """
        plan = self.plan
        variants = {
            index: each.runner for index, each in enumerate(plan.variants) if each in group
        }
        wanted = {
            index: [
                variant for variant in variants
                if (self.only is None or index in self.only)
                and plan.cells[index].id not in self.kept
                and plan.wants(plan.cells[index], plan.variants[variant])
                and (index, variant) not in self.excluded
                and not self._too_long(index, variant)
            ]
            for index in (range(len(plan.cells)) if order is None else order)
        }
        used = {variant for rows in wanted.values() for variant in rows}
        fused = [each for each in sorted(used) if plan.variants[each].kind == "fused"]
        turns = process if plan.alternate else process // len(plan.groups())
        return Job(
            process=process,
            limits=Limits(
                time_s=max(share_s - WORKER_START_S, share_s / 2),
                least_sample_s=plan.least_sample_s,
                least_blocks=plan.least_blocks, most_blocks=plan.most_blocks,
                memory_bytes=plan.memory_bytes, seed=plan.seed * 1000 + process,
                longest_call_s=plan.longest_call_s,
                turn=turns if plan.processes > 1 else None, together=together,
            ),
            cells=[(index, plan.cells[index]) for index, rows in wanted.items() if rows],
            rows=[rows for rows in wanted.values() if rows],
            variants={index: spec for index, spec in variants.items() if index in used},
            ceilings=plan.ceilings and first and self.only is None,
            experiments=fused[0] if fused and plan.experiments and self.only is None else None,
            keep_texts=plan.keep_texts and process == 0, reuse_compiled=plan.reuse_compiled,
            checkout=group[0].checkout,
        )

    def _too_long(self, cell: int, variant: int) -> bool:
        """Take a row out of which one call would take too long, and say so."""
        reason = self.plan.too_long(self.plan.cells[cell], self.plan.variants[variant])
        if reason is not None:
            self.excluded.add((cell, variant))
            self.collector.fail(cell, variant, reason, "not_run")
        return reason is not None

    def _show(self, process: int, event: Event) -> None:
        """Say what is at work, a few times a second: events arrive many at once.

        Processes that take turns, and one that is started again, are not equally far: the most
        that any has reached is shown.
        """
        if time.monotonic() - self.shown_s < SHOW_EVERY_S and event["fraction"] > 0:
            return
        self.shown_s = time.monotonic()
        together = self.plan.alternate or self.plan.cold
        count = self.plan.processes if together else self.plan.worker_count()
        fraction = event["fraction"]
        if not self.plan.cold:
            fraction = min(1.0, (process + fraction) / count)
        count = max(count, process + 1)
        self.fraction = max(self.fraction, fraction)
        self.progress.update(self.fraction, f"process {process + 1} of {count}: {event['text']}")


class WorkerProcess:
    """One worker: started on entering, its events read from a pipe, stopped on leaving."""

    def __init__(self, job: Job, stall_s: float) -> None:
        self.stall_s = stall_s
        self.problem: str | None = None
        self.position: tuple[int, int] | None = None
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.events = self._events()
        self.folder = tempfile.TemporaryDirectory(prefix="fuser-bench-")
        root = Path(self.folder.name)
        self.position_path = root / "position"
        (root / "job.json").write_text(job.to_json(), encoding="utf-8")
        self.errors: IO[bytes] = (root / "stderr").open("w+b")
        self.process = self._start(root, job)

    def _start(self, root: Path, job: Job) -> subprocess.Popen[bytes]:
        reading, writing = os.pipe()
        module = ["-m", "fuser.suites.worker"]
        if job.checkout:
            module = [str(Path(__file__).with_name("other_checkout.py")), job.checkout]
        command = [
            sys.executable, *module, str(root / "job.json"), str(writing), str(self.position_path),
        ]
        try:
            # a session of its own: Ctrl-C reaches the engine alone, which then ends the worker
            process = subprocess.Popen(
                command, env=child_environment(), pass_fds=(writing,),
                stdin=subprocess.PIPE if job.limits.together > 1 else subprocess.DEVNULL,
                stdout=self.errors, stderr=self.errors, start_new_session=True,
            )
        finally:
            os.close(writing)
        thread = threading.Thread(target=self._read, args=(reading,), daemon=True)
        thread.start()
        return process

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8") as stream:
            for line in stream:
                self.lines.put(line)
        self.lines.put(None)

    def tell(self, go: bool) -> None:
        """Let a worker that waits for its turn take the step, or end instead."""
        assert self.process.stdin is not None  # it is one of several
        try:
            self.process.stdin.write(f"{GO if go else 'end'}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:  # it has died: its events end
            pass

    def _events(self) -> Iterator[Event]:
        """Yield the events until the worker ends; then `problem` says whether it went well."""
        done = False
        limit_s = max(self.stall_s, LEAST_START_S)
        while True:
            try:
                line = self.lines.get(timeout=limit_s)
            except queue.Empty:
                self._end(f"said nothing for {limit_s:.0f} s and was stopped")
                return
            if line is None:
                break
            limit_s = self.stall_s
            event: Event = json.loads(line)
            done = done or event["event"] == "done"
            yield event
        if not done:
            self._end(self._how_it_ended())

    def _end(self, problem: str) -> None:
        self.problem = f"the measuring process {problem}"
        found = Position.read(self.position_path)
        self.position = None if found is None or found[1] == NOBODY else found

    def _how_it_ended(self) -> str:
        code = self.process.wait()
        self.errors.seek(0)
        tail = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}: {' '.join(tail)}"

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_details: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_S if self.problem else 0.5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.errors.close()
        self.folder.cleanup()


def cells_measured(plan: Plan, earlier: Record | None) -> dict[str, Cell]:
    """Return by id the cells of an earlier record that have samples, and are of the plan."""
    wanted = {each.id for each in plan.cells}
    return {
        cell.id: cell for cell in (() if earlier is None else earlier.cells)
        if cell.id in wanted and any(run.samples.seconds for run in cell.runs)
    }


def _settings(plan: Plan) -> Mapping[str, Any]:
    return {
        **{name: getattr(plan, name) for name in KEPT_SETTINGS},
        "worker_processes": plan.worker_count(),
        "disk_cache": child_environment()["FUSER_CACHE"],
        "threads": machine.usable_cores(),
        **({"aims": dict(plan.aims)} if plan.aims else {}), **_baseline(plan),
        **({"switches": switches} if (switches := _switches()) else {}),
    }


def _baseline(plan: Plan) -> dict[str, str | None]:
    """Return the commit of the other checkout, where there is one."""
    folder = next((each.checkout for each in plan.variants if each.checkout), None)
    return {} if folder is None else {"baseline": machine.checkout_state(Path(folder))[0]}


def _switches() -> str:
    """Return the fuser's switches in the environment, which may explain a run's speed."""
    return " ".join(
        f"{name}={value}" for name, value in sorted(os.environ.items())
        if name.startswith("FUSER_") and name != "FUSER_REQUIRE"
    )
