"""One process's share of a run: all rows timed interleaved, looked at, and verified again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fuser.suites.cell_state import CellState, Limits, Row
from fuser.suites.edge_values import Edges, edges_of
from fuser.suites.inspection import (
    SHORT_CALL_S,
    arrays_of,
    arrives_late,
    glance,
    runs_itself,
    shortcut,
    written_later,
)
from fuser.suites.memory_checks import PROBED_ELEMENTS, change_one, overlap, problem_of
from fuser.suites.plan import blocks_within
from fuser.suites.preparing import Emit, Event, Preparation, message, weight_of, with_rest
from fuser.suites.runners import EagerRunner
from fuser.suites.sampling import collector_off, now_s, timed_calls
from fuser.suites.verify import (
    Accuracy,
    Expected,
    compare_or_recall,
    copies,
    flatten,
    poison,
    poison_buffers,
    refill,
    some_of,
    unchanged,
)
from fuser.suites.workload import Arguments, Array

__all__ = ["Emit", "Event", "Limits", "Measurement", "with_rest"]

LONG_CALL_S = 0.25
"""Longer calls need no warm-up of their own before each sample."""
LONG_CALLS_TURNS = 2
"""Of rows of long calls every second one is looked at for shortcuts, the others by the next."""
OVERRUN = 1.25
"""Past this multiple of its time a batch stops after the blocks that every cell needs."""


class Measurement(Preparation):
    """One process's share of a run."""

    def run(self) -> None:
        """Measure all cells, in batches whose inputs fit the memory limit together."""
        start_s = now_s()
        waiting = list(self.cells)
        while waiting:
            batch_start_s = now_s()
            batch = self._prepare_batch(waiting)
            weight = sum(weight_of(state.plan) for state in batch)
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
        rows = [row for row in self.random.sample(state.rows, len(state.rows)) if row.alive]
        if not check:
            for row in rows:
                self._sample(state, row, block)
            return
        # other values in the same arrays: a result remembered from before is now wrong
        if state.large:
            fresh = tuple(_reversed(each) for each in state.arguments)
            old: Arguments | None = None
        else:
            drawn = state.inputs(state.seed(1, self.limits.seed))
            # arrays get other values; a number in their midst stays the one that is passed
            fresh = tuple(
                new if isinstance(new, np.ndarray) else now
                for new, now in zip(drawn, state.arguments, strict=True)
            )
            old = copies(state.arguments)
        expected = state.expected(fresh, state.seed(1, self.limits.seed))
        for row in rows:
            self._sample(state, row, block, Check(expected, fresh, old))
        refill(state.arguments, fresh)
        for row in state.rows:
            row.given = None

    def _sample(
        self, state: CellState, row: Row, block: int, check: "Check | None" = None
    ) -> None:
        """Warm up, time a row's calls, and look at the last result where that is asked for."""
        self.mark(state.index, row.variant)
        compiled, fallen = row.runner.compiled_kernels(), row.runner.fallbacks()
        try:
            with collector_off():
                given = self._warm(state, row, check)
                seconds, result = timed_calls(row.call, given, row.calls)
                found = None
                if check is not None:
                    found = self._look(state, row, given, seconds, result, check)
        except Exception as error:  # noqa: BLE001  (see _first_call)
            self._fail(state, row, message(error))
            return
        self.order += 1
        self.emit({
            "event": "sample", "cell": state.index, "variant": row.variant, "block": block,
            "order": self.order, "calls": row.calls, "seconds": seconds,
            "checked": check is not None,
        })
        self._counted(state, row, "compiled_inside", compiled, row.runner.compiled_kernels())
        self._counted(state, row, "fell_back", fallen, row.runner.fallbacks())
        if check is not None and found is not None:
            accuracy = self._judged(state, check, found, ulps=False)
            row.alive = self._passes(state, row.variant, f"in timed block {block}", accuracy)

    def _warm(self, state: CellState, row: Row, check: "Check | None") -> Arguments:
        """Call once, on other values than those that are timed where the sample is checked."""
        if check is None:
            given = row.arguments(state)
            if row.call_s < LONG_CALL_S:
                row.call(*given)
            return given
        if check.old is not None:
            refill(state.arguments, check.old)
            row.given = None
            row.call(*row.arguments(state))
        refill(state.arguments, check.fresh)
        row.given = None
        poison_buffers(row.buffers)
        return row.arguments(state)

    def _look(
        self, state: CellState, row: Row, given: Arguments, seconds: float, result: Any,
        check: "Check",
    ) -> "Found":
        """Look at the last timed result at once, and at one in memory that held no result.

        The other values come back before anybody looks at that one: what is computed later than
        the call returns is of those.
        """
        arrays, look_s = arrays_of(row.found(result), row.runner.fetch)
        again, before = arrays, glance(arrays)
        changed = not _unchanged(state, check)
        if check.old is not None:  # not where clearing memory takes longer than the calls
            poison(check.expected)
            poison_buffers(row.buffers)
            made = row.found(row.call(*given))
            seen = glance(flatten(made)) if _is_plain(made) else None
            refill(state.arguments, check.old)
            again, _ = arrays_of(made, row.runner.fetch)
            refill(state.arguments, check.fresh)
            before = glance(again) if seen is None else seen
        call_s = seconds / row.calls
        late = arrives_late(row.call, given, row.runner.fetch, call_s, look_s)
        return Found(arrays, again, before, late, changed)

    def _judged(
        self, state: CellState, check: "Check", found: "Found", ulps: bool
    ) -> Accuracy:
        if found.changed:
            return Accuracy(np.inf, None, "the calls changed their input arrays")
        accuracy = check.expected.judge(tuple(found.arrays), state.tolerance(), ulps)
        if accuracy.problem:
            return accuracy
        late = found.late or written_later(found.again, found.before)
        if late or not self._is_of_the_call(state, check, found):
            text = "the result was not there when the call returned: work is left for later"
            return Accuracy(np.inf, None, text)
        return accuracy

    def _is_of_the_call(self, state: CellState, check: "Check", found: "Found") -> bool:
        """Whether the result that was looked at later is that of the values that were passed."""
        if found.again is found.arrays or all(map(np.array_equal, found.arrays, found.again)):
            return True
        if any(overlap(each, state.arguments) for each in found.again):
            return True  # a view shows what the arguments hold, as NumPy's does
        return not check.expected.judge(tuple(found.again), state.tolerance()).problem

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
        self._find_shortcuts(state)
        if not state.large:
            self._look_at_memory(state)
            self._look_at_edges(state)
        seed = state.seed(2, self.limits.seed)
        if state.large and _all_contiguous(state.arguments):
            arguments = tuple(_reversed(each) for each in state.arguments)
            state.arguments = ()
        else:
            arguments = state.inputs(seed)
        expected = state.expected(arguments, seed)
        for row in state.rows:
            if not row.alive:
                continue
            self.mark(state.index, row.variant)
            poison(expected)
            poison_buffers(row.buffers)
            try:
                result = row.found(row.call(*row.runner.accept(arguments)))
                result = row.runner.fetch(result)
            except Exception as error:  # noqa: BLE001  (see _first_call)
                self._fail(state, row, message(error))
                continue
            accuracy = compare_or_recall(result, expected, state.tolerance())
            row.alive = self._passes(state, row.variant, "after timing", accuracy)
        state.arguments = ()
        state.rows = []

    def _look_at_memory(self, state: CellState) -> None:
        """Verify where results lie, and that one changed element changes them."""
        for row in self._doubted(state):
            self._try(state, row, partial(_memory_of, state, row))
        arrays = [each for each in state.arguments if isinstance(each, np.ndarray)]
        few = max((each.size for each in arrays), default=0) <= PROBED_ELEMENTS
        if not few or not change_one(state.arguments, self.random.randrange):
            return
        expected = state.expected(state.arguments, state.seed(3, self.limits.seed))
        right = copies(state.arguments)
        for row in self._doubted(state):
            self._try(state, row, partial(_probed, state, row, right, expected))

    def _look_at_edges(self, state: CellState) -> None:
        """Verify what rows make of values that are too rare to be among those drawn.

        What a maximum or a comparison makes of NaN is another library's own to say.
        """
        for finite in (True, False):
            rows = [
                row for row in self._doubted(state) if finite or row.runner.kind != "peer"
            ]
            edges = edges_of(
                state.workload, state.arguments, state.plan.dtype, self.random.randrange, finite
            ) if rows else None
            if edges is None:
                return
            right = copies(state.arguments)
            for row in rows:
                self._try(state, row, partial(_at_edges, state, row, right, edges))

    def _doubted(self, state: CellState) -> list[Row]:
        """Return the rows that still have a speed and are not NumPy itself."""
        return [row for row in state.rows if row.alive and type(row.runner) is not EagerRunner]

    def _try(self, state: CellState, row: Row, judge: Callable[[], Accuracy]) -> None:
        """Judge a row after timing; one that raises has failed."""
        self.mark(state.index, row.variant)
        try:
            accuracy = judge()
        except Exception as error:  # noqa: BLE001  (see _first_call)
            self._fail(state, row, message(error))
        else:
            row.alive = self._passes(state, row.variant, "after timing", accuracy)

    def _find_shortcuts(self, state: CellState) -> None:
        """Look for rows whose calls are quick without doing their work."""
        for row in self._doubted(state):
            turn = self.limits.turn
            elsewhere = row.call_s > SHORT_CALL_S and turn is not None and (
                (state.index + row.variant + turn) % LONG_CALLS_TURNS
            )
            self.mark(state.index, row.variant)
            try:
                self._look_at_name(state, row)
                if state.large or elsewhere:
                    continue
                found = shortcut(row.call, state.arguments, row.runner.accept, row.call_s)
            except Exception as error:  # noqa: BLE001  (see _first_call)
                self._fail(state, row, message(error))
                continue
            if found is not None:
                accuracy = Accuracy(np.inf, None, found)
                row.alive = self._passes(state, row.variant, "after timing", accuracy)

    def _look_at_name(self, state: CellState, row: Row) -> None:
        """Note where a runner runs NumPy under the name of a fuser and counts no fallback."""
        if row.runner.kind not in ("fused", "unfused"):
            return
        counted = row.runner.fallbacks()
        itself = runs_itself(row.call, row.arguments(state), state.workload.function)
        if itself and row.runner.fallbacks() == counted:
            text = "calls the workloads' own functions: NumPy's work under a fuser's name"
            self.emit({
                "event": "own_function", "cell": state.index, "variant": row.variant, "text": text,
            })
            text = f"{row.runner.name} {text}; its rows are left out of the means"
            self.emit({"event": "note", "text": text})


@dataclass(frozen=True, slots=True)
class Check:
    """What a checked sample needs: the right results, the values, and those to warm up with."""

    expected: Expected
    fresh: Arguments
    old: Arguments | None


@dataclass(frozen=True, slots=True)
class Found:
    """The arrays of the timed result, and of another that was looked at when its call returned."""

    arrays: Sequence[Array]
    again: Sequence[Array]
    before: Sequence[Array]
    late: bool
    changed: bool


def _unchanged(state: CellState, check: Check) -> bool:
    """Whether the arguments are as they were passed; of very many elements some are looked at."""
    now, before = state.arguments, check.fresh
    if state.large:
        now, before = some_of(now), some_of(before)
    return unchanged(now, before)


def _is_plain(result: Any) -> bool:
    """Whether a result is there in NumPy's own arrays, so that looking at it computes nothing."""
    return all(type(each) is np.ndarray for each in flatten(result))


def _memory_of(state: CellState, row: Row) -> Accuracy:
    """Judge where a row's results lie; those that it was told where to put are there."""
    row.given = None
    given = row.arguments(state)
    if row.runner.writes_into:
        row.call(*given)  # what it remembers is of these values
        return Accuracy()
    found = problem_of(
        row.call, given, state.workload.function, state.arguments,
        free_order=row.runner.kind == "peer",
    )
    return Accuracy(np.inf, None, found) if found else Accuracy()


def _probed(state: CellState, row: Row, right: Arguments, expected: Expected) -> Accuracy:
    """Judge the result for arguments that differ from those of the last call in one element."""
    refill(state.arguments, right)  # a neighbour may have written into them
    row.given = None
    poison_buffers(row.buffers)
    result = row.runner.fetch(row.found(row.call(*row.arguments(state))))
    accuracy = compare_or_recall(result, expected, state.tolerance())
    if not accuracy.problem:
        return accuracy
    return Accuracy(np.inf, None, f"one element of the arguments changed: {accuracy.problem}")


def _at_edges(state: CellState, row: Row, right: Arguments, edges: Edges) -> Accuracy:
    """Judge the result for arguments that hold rare values."""
    refill(state.arguments, right)  # a neighbour may have written into them
    row.given = None
    poison_buffers(row.buffers)
    with np.errstate(all="ignore"):
        result = row.runner.fetch(row.found(row.call(*row.arguments(state))))
    found = edges.problem(result, state.tolerance())
    return Accuracy(np.inf, None, found) if found else Accuracy()


def _all_contiguous(arguments: Arguments) -> bool:
    """Return whether copies of all arrays have the same layout as they have."""
    return all(each.flags.c_contiguous for each in arguments if isinstance(each, np.ndarray))


def _reversed(argument: Any) -> Any:
    """Return a copy of an array with its first axis reversed; numbers as they are."""
    if not isinstance(argument, np.ndarray) or not argument.ndim:
        return argument
    return argument[::-1].copy()


