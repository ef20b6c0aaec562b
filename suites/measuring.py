"""What one process does: prepare and verify every row, time all rows interleaved, verify again.

A row is one variant on one cell. Every finding is emitted as an event, a small dict that JSON can
carry, as soon as it is known: an interrupted run keeps what was emitted.
"""

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuser.suites.machine import available_memory_bytes
from fuser.suites.plan import CellPlan, blocks_within
from fuser.suites.runners import Facts, NotExpressibleError, Runner
from fuser.suites.sampling import calls_per_sample, collector_off, now_s, timed_calls
from fuser.suites.verify import (
    Accuracy,
    Reference,
    buffers_for,
    compare,
    compare_or_recall,
    copies,
    other_dtypes,
    poison,
    poison_buffers,
    reference,
    refill,
    unchanged,
)
from fuser.suites.workload import Arguments, Workload

MEMORY_FACTOR = 8
"""What a cell needs beside its inputs: copies, a float64 reference, results, temporaries."""

Event = dict[str, Any]
Emit = Callable[[Event], None]
Mark = Callable[[int, int], None]

OVERRUN = 1.25
"""Past this multiple of its time a batch stops after the blocks that every cell needs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how finely to measure."""

    time_s: float
    least_sample_s: float
    least_blocks: int
    most_blocks: int
    memory_bytes: int
    seed: int


@dataclass(slots=True)
class Row:
    """One variant on one cell, in this process."""

    variant: int
    runner: Runner
    call: Callable[..., Any]
    buffers: Arguments = ()  # where its results go, if they do not come in new arrays
    given: Arguments | None = None  # the cell's arguments as the runner's own arrays
    calls: int = 1
    call_s: float = 0.0
    alive: bool = True

    def arguments(self, state: "CellState") -> Arguments:
        """Return what a call is given; converted when the cell's values are new."""
        if self.given is None:
            self.given = self.runner.accept(state.arguments)
        return self.given

    def found(self, result: Any) -> Any:
        """Return what is judged: the buffers, where the results had to go there."""
        return self.buffers or result


@dataclass(slots=True)
class CellState:
    """One cell while it is measured: its arguments and the rows that may be timed."""

    index: int
    plan: CellPlan
    workload: Workload
    arguments: Arguments = ()
    rows: list[Row] = field(default_factory=list)
    check_s: float = 0.0

    def seed(self, phase: int, run_seed: int) -> int:
        """Return a seed that depends on the cell, the run and the phase."""
        return zlib.crc32(f"{self.plan.id}/{run_seed}/{phase}".encode())

    def inputs(self, seed: int) -> Arguments:
        """Return the arguments of one call."""
        plan = self.plan
        return self.workload.inputs(plan.elements, plan.dtype, seed, plan.axes)

    def tolerance(self) -> float:
        """Return how far a result may be from its reference."""
        plan = self.plan
        return self.workload.tolerance(plan.dtype, plan.elements, plan.axes)

    def block_s(self) -> float:
        """Return what one block of this cell costs: each row's warm-up call and its sample."""
        return sum((row.calls + 1) * row.call_s for row in self.rows if row.alive)

    def input_bytes(self) -> int:
        """Return the size of the arguments that are arrays."""
        return sum(each.nbytes for each in self.arguments if isinstance(each, np.ndarray))


class Measurement:
    """One process's share of a run."""

    def __init__(
        self,
        cells: Sequence[tuple[int, CellPlan, Workload, Sequence[int]]],
        runners: Mapping[int, Runner],
        limits: Limits,
        emit: Emit,
        mark: Mark = lambda cell, variant: None,
    ) -> None:
        self.runners = runners
        self.limits = limits
        self.emit = emit
        self.mark = mark
        self.random = random.Random(limits.seed)
        self.order = 0
        self.cells = list(cells)
        self.random.shuffle(self.cells)
        self.done_weight = 0.0
        self.total_weight = max(1e-9, sum(_weight(plan) for _, plan, _, _ in self.cells))

    def run(self) -> None:
        """Measure all cells, in batches whose inputs fit the memory limit together."""
        start_s = now_s()
        waiting = list(self.cells)
        while waiting:
            batch_start_s = now_s()
            batch = self._prepare_batch(waiting)
            weight = sum(_weight(state.plan) for state in batch)
            left_weight = self.total_weight - self.done_weight
            left_s = self.limits.time_s - (batch_start_s - start_s)
            share_s = left_s * weight / max(left_weight, 1e-9)
            for state in batch:
                self._calibrate(state)
            recheck_s = 1.5 * sum(state.check_s for state in batch)
            self._sample_batch(batch, share_s - (now_s() - batch_start_s) - recheck_s)
            for state in batch:
                self._recheck(state)
            self.done_weight += weight

    # Preparing: compile, first call, verify.

    def _prepare_batch(self, waiting: list[Any]) -> list[CellState]:
        """Take cells off `waiting` until their inputs fill the memory limit."""
        batch: list[CellState] = []
        held_bytes = 0
        while waiting and (not batch or held_bytes < self.limits.memory_bytes):
            index, plan, workload, variants = waiting.pop()
            self._progress(f"preparing {plan.id}", len(batch) / (len(batch) + len(waiting) + 1) / 4)
            state = CellState(index, plan, workload)
            if (reason := workload.unavailable()) is not None:
                for variant in variants:
                    self._drop(state, variant, "not_run", reason)
                continue
            self._prepare(state, variants)
            if state.rows:
                held_bytes += state.input_bytes()
                batch.append(state)
        return batch

    def _prepare(self, state: CellState, variants: Sequence[int]) -> None:
        seed = state.seed(0, self.limits.seed)
        state.arguments = state.inputs(seed)
        if (reason := _too_large(state.input_bytes())) is not None:
            state.arguments = ()
            for variant in variants:
                self._drop(state, variant, "not_run", reason)
            return
        expected = reference(state.workload, state.arguments, state.plan.dtype)
        arrays = [each for each in state.arguments if isinstance(each, np.ndarray)]
        self.emit({
            "event": "cell", "cell": state.index, "input_bytes": state.input_bytes(),
            "output_bytes": expected.nbytes(),
            "elements": max((each.size for each in arrays), default=0),
            "note": state.workload.describe(state.plan.elements),
        })
        before = copies(state.arguments)
        for variant in self.random.sample(list(variants), len(variants)):
            self._first_call(state, variant, expected, before)

    def _first_call(
        self, state: CellState, variant: int, expected: Reference, before: Arguments
    ) -> None:
        runner = self.runners[variant]
        self.mark(state.index, variant)
        poison(expected)
        buffers = buffers_for(expected) if runner.writes_into else ()
        function = state.workload.function
        try:
            given = runner.accept(state.arguments)
            compiled = runner.compiled_kernels()
            with runner.observed() as stages_s:
                start_s = now_s()
                call = (
                    runner.prepare_into(function, state.arguments, buffers)
                    if runner.writes_into
                    else runner.prepare(function, state.arguments)
                )
                result = call(*given)
                first_call_s = now_s() - start_s
            compilations = _grown(compiled, runner.compiled_kernels())
            facts = runner.facts(call, state.arguments)
        except NotExpressibleError as error:
            self._drop(state, variant, "not_run", str(error))
            return
        except Exception as error:  # noqa: BLE001  (any failure of a fuser is a finding, not ours)
            self._drop(state, variant, "failed", _message(error))
            return
        check_start_s = now_s()
        row = Row(variant, runner, call, buffers, given)
        result = row.found(result)
        if runner.kind == "peer" and (reason := other_dtypes(result, expected)) is not None:
            self._drop(state, variant, "not_run", f"{runner.name} means another type: {reason}")
            return
        tolerance = state.tolerance()
        accuracy = compare_or_recall(result, expected, tolerance, ulps=True)
        if not accuracy.problem and not unchanged(state.arguments, before):
            accuracy = Accuracy(np.inf, None, "the call changed its input arrays")
            refill(state.arguments, before)
        event = _first_event(state.index, variant, first_call_s, stages_s, facts)
        self.emit(event | {"compilations": compilations})
        if self._passes(state, variant, "before timing", accuracy):
            state.rows.append(row)
        state.check_s += now_s() - check_start_s

    def _calibrate(self, state: CellState) -> None:
        """Find each row's calls a sample. Apart from preparing: emptied caches refill here."""
        for row in state.rows:
            self.mark(state.index, row.variant)
            try:
                self._find_calls(state, row)
            except Exception as error:  # noqa: BLE001  (see _first_call)
                self._fail(state, row, _message(error))

    def _find_calls(self, state: CellState, row: Row) -> None:
        """Set how many calls make a sample: 1 where a call that compiled nothing is long."""
        compiled = row.runner.compiled_kernels()
        given = row.arguments(state)
        row.call_s, _ = timed_calls(row.call, given, 1)
        long = row.call_s > 10 * self.limits.least_sample_s
        if not long or row.runner.compiled_kernels() != compiled:
            row.calls, row.call_s = calls_per_sample(
                row.call, given, self.limits.least_sample_s
            )

    # Timing.

    def _sample_batch(self, batch: Sequence[CellState], time_s: float) -> None:
        """Time all cells' blocks in random order, spread evenly over the time."""
        counts = blocks_within(
            time_s, [state.block_s() for state in batch],
            self.limits.least_blocks, self.limits.most_blocks,
        )
        tasks = self._tasks(batch, counts)
        # among the blocks that are taken however late it is
        always = self.limits.least_blocks
        checked = {state.index: self.random.randrange(always) for state in batch}
        start_s = now_s()
        for done, (_, block, state) in enumerate(tasks):
            late = now_s() - start_s > max(time_s, 0.0) * OVERRUN
            if late and block >= self.limits.least_blocks:
                continue
            self._block(state, block, check=checked[state.index] == block)
            self._progress(f"timing {state.plan.id}", 0.25 + 0.7 * done / len(tasks))

    def _tasks(
        self, batch: Sequence[CellState], counts: Sequence[int]
    ) -> list[tuple[float, int, CellState]]:
        tasks = [
            ((block + self.random.random()) / count, block, state)
            for state, count in zip(batch, counts, strict=True)
            for block in range(count)
        ]
        return sorted(tasks, key=lambda task: task[0])

    def _block(self, state: CellState, block: int, check: bool) -> None:
        """Take one sample of every row, in random order; verify it where `check` is set."""
        expected = None
        if check:
            # other values in the same arrays: a result remembered from before is now wrong
            seed = state.seed(1, self.limits.seed)
            fresh = state.inputs(seed)
            refill(state.arguments, fresh)
            expected = reference(state.workload, state.arguments, state.plan.dtype)
            for row in state.rows:
                row.given = None
        for row in self.random.sample(state.rows, len(state.rows)):
            if row.alive:
                self._sample(state, row, block, expected)

    def _sample(
        self, state: CellState, row: Row, block: int, expected: Reference | None
    ) -> None:
        self.mark(state.index, row.variant)
        compiled, fallen = row.runner.compiled_kernels(), row.runner.fallbacks()
        try:
            given = row.arguments(state)
            with collector_off():
                row.call(*given)
                if expected is not None:
                    poison_buffers(row.buffers)
                seconds, result = timed_calls(row.call, given, row.calls)
        except Exception as error:  # noqa: BLE001  (see _first_call)
            self._fail(state, row, _message(error))
            return
        self.order += 1
        self.emit({
            "event": "sample", "cell": state.index, "variant": row.variant, "block": block,
            "order": self.order, "calls": row.calls, "seconds": seconds,
        })
        self._counted(state, row, "compiled_inside", compiled, row.runner.compiled_kernels())
        self._counted(state, row, "fell_back", fallen, row.runner.fallbacks())
        if expected is not None:
            tolerance = state.tolerance()
            accuracy = compare(row.found(result), expected, tolerance)
            row.alive = self._passes(state, row.variant, f"in timed block {block}", accuracy)

    def _counted(
        self, state: CellState, row: Row, what: str, before: int | None, after: int | None
    ) -> None:
        if before is not None and after is not None and after > before:
            self.emit({
                "event": "inside", "cell": state.index, "variant": row.variant, "what": what,
                "count": after - before,
            })

    # Verifying.

    def _recheck(self, state: CellState) -> None:
        """Verify every row on new arrays with new values, after timing."""
        self._progress(f"verifying {state.plan.id} again", 0.95)
        seed = state.seed(2, self.limits.seed)
        arguments = state.inputs(seed)
        expected = reference(state.workload, arguments, state.plan.dtype)
        for row in state.rows:
            if not row.alive:
                continue
            self.mark(state.index, row.variant)
            poison(expected)
            poison_buffers(row.buffers)
            try:
                result = row.found(row.call(*row.runner.accept(arguments)))
            except Exception as error:  # noqa: BLE001  (see _first_call)
                self._fail(state, row, _message(error))
                continue
            tolerance = state.tolerance()
            accuracy = compare_or_recall(result, expected, tolerance)
            row.alive = self._passes(state, row.variant, "after timing", accuracy)
        state.arguments = ()
        state.rows = []

    def _passes(self, state: CellState, variant: int, when: str, accuracy: Accuracy) -> bool:
        """Emit a finding; return whether the result was right."""
        finite = np.isfinite(accuracy.max_relative_error)
        self.emit({
            "event": "check", "cell": state.index, "variant": variant,
            "relative": accuracy.max_relative_error if finite else None,
            "ulp": accuracy.max_error_ulp,
            "problem": f"{when}: {accuracy.problem}" if accuracy.problem else "",
        })
        return not accuracy.problem

    def _fail(self, state: CellState, row: Row, reason: str) -> None:
        row.alive = False
        self._drop(state, row.variant, "failed", reason)

    def _drop(self, state: CellState, variant: int, status: str, reason: str) -> None:
        self.emit({
            "event": "dropped", "cell": state.index, "variant": variant, "status": status,
            "reason": reason,
        })

    def _progress(self, text: str, fraction: float) -> None:
        batch_share = 1.0 - self.done_weight / self.total_weight
        done = 1.0 - batch_share + fraction * batch_share
        self.emit({"event": "progress", "text": text, "fraction": min(done, 1.0)})


def _too_large(input_bytes: int) -> str | None:
    """Return why a cell does not fit the memory that is left, or None."""
    needed_bytes = MEMORY_FACTOR * input_bytes
    available_bytes = available_memory_bytes()
    if available_bytes is None or needed_bytes <= available_bytes:
        return None
    return (
        f"needs about {needed_bytes / 1e9:.1f} GB, {available_bytes / 1e9:.1f} GB are available"
    )


def _weight(plan: CellPlan) -> float:
    """Return a cell's share of the time: cells beyond the cache need about ten times as long."""
    return 1.0 + 10.0 * min(1.0, plan.elements / (1 << 20))


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _grown(before: int | None, after: int | None) -> int | None:
    """Return by how much a count grew; preparing may have set it back to zero."""
    if before is None or after is None:
        return None
    return after - before if after >= before else after


def with_rest(stages_s: Mapping[str, float], whole_s: float) -> dict[str, float]:
    """Return the stages and what they leave of the whole, as stage `rest`; none where none."""
    if not stages_s:
        return {}
    return {**stages_s, "rest": max(0.0, whole_s - sum(stages_s.values()))}


def _first_event(
    cell: int, variant: int, first_call_s: float, stages_s: Mapping[str, float], facts: Facts
) -> Event:
    return {
        "event": "first", "cell": cell, "variant": variant, "first_call_s": first_call_s,
        "stages_s": with_rest(stages_s, first_call_s), "kernels": facts.kernels,
        "fallback_reasons": list(facts.fallback_reasons), "unfused_bytes": facts.unfused_bytes,
        "planned_bytes": facts.planned_bytes, "least_bytes": facts.least_bytes,
        "allocations": facts.allocations, "text_hashes": dict(facts.text_hashes),
        "operations": facts.operations, "elementary": facts.elementary,
        "peak_bytes": facts.peak_bytes, "boundaries": list(facts.boundaries),
        "texts": dict(facts.texts),
    }
