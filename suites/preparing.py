"""Before timing: inputs, the first call with what it costs, and whether its result is right.

A row is one variant on one cell. Every finding is emitted as an event, a small dict that JSON can
carry, as soon as it is known: an interrupted run keeps what was emitted.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.reports.plain import to_plain
from fuser.suites.cell_state import CellState, Limits, Row
from fuser.suites.checks.seal import Seal
from fuser.suites.checks.verify import (
    Accuracy,
    Expected,
    buffers_for,
    compare_or_recall,
    copies,
    nbytes,
    other_dtypes,
    poison,
    refill,
    some_of,
    unchanged,
)
from fuser.suites.plan import CellPlan
from fuser.suites.probes.machine import available_memory_bytes
from fuser.suites.runners import EagerRunner, Facts, NotExpressibleError, Runner
from fuser.suites.sampling import LONG_S, calls_per_sample, now_s, timed_calls
from fuser.suites.statement import Statement
from fuser.suites.workload import Arguments, Workload

MEMORY_FACTOR = 8
"""What a cell needs beside its inputs: copies, a float64 reference, results, temporaries."""

NOBODY, EVERY = -1, -2
"""Marked in a row's place: none is at work; the workload itself is, for all rows of its cell."""

Event = dict[str, Any]
Emit = Callable[[Event], None]
Mark = Callable[[int, int], None]
Turn = Callable[[int, int], bool]
"""(cell, step) -> whether it may be done; returns when it is this process's turn."""
BEGIN, END = 0, 1 << 30
"""The first step of a cell, preparing it, and the last, verifying; between them are its blocks."""


def at_once(cell: int, step: int) -> bool:
    """The turns of a process that measures alone."""
    return True


class Preparation:
    """What a process does with its cells before it times them; and what it says of them."""

    def __init__(
        self,
        cells: Sequence[tuple[int, CellPlan, Workload, Sequence[int]]],
        runners: Mapping[int, Runner],
        limits: Limits,
        emit: Emit,
        mark: Mark = lambda cell, variant: None,
        turn: Turn = at_once,
    ) -> None:
        self.runners = runners
        self.limits = limits
        self.emit = emit
        self.mark = mark
        self.turn = turn
        self.random = random.Random(limits.seed)
        self.order = 0
        self.seal = Seal()
        self.breakers: dict[int, str] = {}  # variants that changed what all share
        self.eager_s = self.beside_s = 0.0  # of NumPy's samples, and of other threads meanwhile
        self.others: dict[type[Runner], Runner | None] = {}  # those that never see a function
        self.cells = list(cells)
        self.alternates = limits.together > 1
        if self.alternates:  # all have the engine's order
            self.cells.reverse()
        else:
            self.random.shuffle(self.cells)
        self.done_weight = self.batch_weight = 0.0
        self.total_weight = max(1e-9, sum(weight_of(plan) for _, plan, _, _ in self.cells))

    def _prepare_batch(self, waiting: list[Any]) -> list[CellState]:
        """Take cells off `waiting` until their inputs fill the memory limit."""
        batch: list[CellState] = []
        self.batch_weight = 0.0
        held_bytes = 0
        limit_bytes = 0 if self.alternates else self.limits.memory_bytes
        while waiting and (not batch or held_bytes < limit_bytes):
            index, plan, workload, variants = waiting.pop()
            if not self.turn(index, BEGIN):
                waiting.clear()
                break
            self._progress(f"preparing {plan.id}", 0.25)
            self.batch_weight += weight_of(plan)
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
        self.mark(state.index, EVERY)
        try:
            reason = _too_large(state.plan.array_bytes)  # before they are there
            if reason is None:
                state.arguments = state.inputs(seed)
                reason = _too_large(state.input_bytes())
            if reason is not None:
                self._drop_cell(state, variants, "not_run", reason)
                return
            # of very many elements some are compared: copies of all would take longer than calls
            before = copies(some_of(state.arguments) if state.large else state.arguments)
            expected = state.expected(state.arguments, seed)
        except Exception as error:  # noqa: BLE001  (a person's workload may raise anything)
            self._drop_cell(state, variants, "failed", of_the_workload(error))
            return
        now = some_of(state.arguments) if state.large else state.arguments
        if (reason := _no_workload(expected, unchanged(now, before))) is not None:
            self._drop_cell(state, variants, "failed", reason)
            return
        arrays = [each for each in state.arguments if isinstance(each, np.ndarray)]
        self.emit({
            "event": "cell", "cell": state.index, "input_bytes": state.input_bytes(),
            "output_bytes": nbytes(expected),
            "elements": max((each.size for each in arrays), default=0),
            "note": state.workload.describe(state.plan.elements),
        })
        for variant in self.random.sample(list(variants), len(variants)):
            self._first_call(state, variant, expected, before)

    def _first_call(
        self, state: CellState, variant: int, expected: Expected, before: Arguments
    ) -> None:
        runner = self.runners[variant]
        self.mark(state.index, variant)
        if variant in self.breakers:
            self._drop(state, variant, "failed", self.breakers[variant])
            return
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
            # what memory NumPy holds is seen on smaller arrays as well
            plain = state.large and isinstance(runner, EagerRunner)
            facts = Facts() if plain else runner.facts(call, state.arguments)
        except NotExpressibleError as error:
            self._drop(state, variant, "not_run", str(error))
            return
        except Exception as error:  # noqa: BLE001  (any failure of a fuser is a finding, not ours)
            self._drop(state, variant, "failed", message(error))
            return
        if (reason := self.seal.broken()) is not None:
            self.breakers[variant] = f"{runner.name} {reason}"
            self._drop(state, variant, "failed", self.breakers[variant])
            return
        check_start_s = now_s()
        row = Row(variant, runner, _as_timed(state.workload, runner, call, buffers), buffers, given)
        if row.call is not call:
            result = row.call(*given)
        result = runner.fetch(row.found(result))
        if runner.kind == "peer" and (reason := other_dtypes(result, expected)) is not None:
            self._drop(state, variant, "not_run", f"{runner.name} means another type: {reason}")
            return
        tolerance = state.tolerance()
        accuracy = compare_or_recall(result, expected, tolerance, ulps=True)
        now = some_of(state.arguments) if state.large else state.arguments
        if not accuracy.problem and not unchanged(now, before):
            accuracy = Accuracy(np.inf, None, "the call changed its input arrays")
            refill(now, before)
        timed_s = None if runner.reused else first_call_s
        event = _first_event(state.index, variant, timed_s, stages_s, facts)
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
                self._fail(state, row, message(error))
                continue
            if row.call_s > self.limits.longest_call_s:
                row.alive = False
                limit_s = self.limits.longest_call_s
                reason = f"one call takes {row.call_s:.1f} s, longer than {limit_s:g} s"
                self._drop(state, row.variant, "not_run", reason)

    def _find_calls(self, state: CellState, row: Row) -> None:
        """Set how many calls make a sample: 1 where calls that compiled nothing are long."""
        compiled = row.runner.compiled_kernels()
        given = row.arguments(state)
        row.call_s, _ = timed_calls(row.call, given, 1)
        long_s = 10 * self.limits.least_sample_s
        if long_s < row.call_s < LONG_S:  # or the machine was busy
            row.call_s = min(row.call_s, timed_calls(row.call, given, 1)[0])
        long = row.call_s > long_s
        if not long or row.runner.compiled_kernels() != compiled:
            row.calls, row.call_s = calls_per_sample(
                row.call, given, self.limits.least_sample_s
            )

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

    def _drop_cell(
        self, state: CellState, variants: Sequence[int], status: str, reason: str
    ) -> None:
        """Take all rows of a cell out; what they hold is freed."""
        for variant in variants:
            self._drop(state, variant, status, reason)
        state.arguments, state.rows = (), []

    def _drop(self, state: CellState, variant: int, status: str, reason: str) -> None:
        self.emit({
            "event": "dropped", "cell": state.index, "variant": variant, "status": status,
            "reason": reason,
        })

    def _progress(self, text: str, fraction: float) -> None:
        done = (self.done_weight + fraction * self.batch_weight) / self.total_weight
        self.emit({"event": "progress", "text": text, "fraction": min(done, 1.0)})


def _as_timed(
    workload: Workload, runner: Runner, call: Callable[..., Any], buffers: Arguments
) -> Callable[..., Any]:
    """Return what is timed: the call, or the line that the workload has for this runner."""
    if (text := workload.statements.get(runner.name)) is None:
        return call
    return Statement(text, workload.function, getattr(call, "func", call), buffers)


def _too_large(input_bytes: int) -> str | None:
    """Return why a cell does not fit the memory that is left, or None."""
    needed_bytes = MEMORY_FACTOR * input_bytes
    available_bytes = available_memory_bytes()
    if needed_bytes <= available_bytes:
        return None
    return (
        f"needs about {needed_bytes / 1e9:.1f} GB, {available_bytes / 1e9:.1f} GB are available"
    )


def _no_workload(expected: Expected, unchanged: bool) -> str | None:
    """Return why the calls of a function cannot be timed and judged, or None."""
    if not unchanged:
        return (
            "the workload writes into its arguments, so that its calls differ: "
            "let it return new arrays"
        )
    if all(dtype.kind == "O" for dtype in expected.dtypes):
        return "the workload returns no arrays of numbers: there is nothing to judge"
    return None


def weight_of(plan: CellPlan) -> float:
    """Return a cell's share of the time: cells beyond the cache need about ten times as long."""
    return 1.0 + 10.0 * min(1.0, plan.elements / (1 << 20))


def message(error: Exception) -> str:
    """Return an error as one line with its kind."""
    return f"{type(error).__name__}: {error}"


def of_the_workload(error: Exception) -> str:
    """Return the line for an error of the function that all rows run, or of its inputs."""
    return f"the workload itself raised {message(error)}"


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
    cell: int, variant: int, first_call_s: float | None, stages_s: Mapping[str, float], facts: Facts
) -> Event:
    stages_s = {} if first_call_s is None else with_rest(stages_s, first_call_s)
    return {
        "event": "first", "cell": cell, "variant": variant, "first_call_s": first_call_s,
        "stages_s": stages_s, **to_plain(facts),
    }
