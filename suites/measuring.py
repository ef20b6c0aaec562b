"""One process's share of a run: all rows timed interleaved, looked at, and verified again."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fuser.suites.cell_state import CellState, Limits, Row
from fuser.suites.checks.by_rows import judged_rows, rows_between
from fuser.suites.checks.checked_samples import (
    LATE,
    Check,
    CheckedSamples,
    one_element,
    other_values,
    reversed_copy,
)
from fuser.suites.checks.edge_values import Edges, edges_of
from fuser.suites.checks.inspection import SHORT_CALL_S, arrays_of, runs_itself, shortcut
from fuser.suites.checks.memory_checks import (
    PROBED_ELEMENTS,
    Nudge,
    converted_elsewhere,
    problem_of,
)
from fuser.suites.checks.verify import (
    Accuracy,
    compare_or_recall,
    copies,
    poison,
    poison_buffers,
    refill,
)
from fuser.suites.plan import blocks_within
from fuser.suites.preparing import (
    BEGIN,
    END,
    EVERY,
    Emit,
    Event,
    message,
    of_the_workload,
    weight_of,
    with_rest,
)
from fuser.suites.runners import EagerRunner, Runner
from fuser.suites.sampling import LONG_S, called, now_s
from fuser.suites.workload import Arguments

__all__ = ["Emit", "Event", "Limits", "Measurement", "with_rest"]

LONG_CALLS_TURNS = 2
"""Of rows of long calls every second one is looked at for shortcuts, the others by the next."""
BESIDE_SHARE = 0.5
"""Of NumPy's time: threads of a pool that spin for a moment after their own call are less."""
OVERRUN = 1.25
"""Past this multiple of its time a batch stops after the blocks that every cell needs."""


class Measurement(CheckedSamples):
    """One process's share of a run."""

    def run(self) -> None:
        """Measure all cells, in batches whose inputs fit the memory limit together."""
        start_s = now_s()
        waiting = list(self.cells)
        while waiting:
            batch_start_s = now_s()
            batch = self._prepare_batch(waiting)
            weight = sum(weight_of(state.plan) for state in batch)
            dropped_weight = self.batch_weight - weight
            left_weight = self.total_weight - self.done_weight - dropped_weight
            left_s = self.limits.time_s - (batch_start_s - start_s)
            share_s = left_s * weight / max(left_weight, 1e-9)
            for state in batch:
                self._calibrate(state)
            recheck_s = 1.5 * sum(state.check_s for state in batch)
            self._sample_batch(batch, share_s - (now_s() - batch_start_s) - recheck_s)
            for state in batch:
                self.emit({"event": "load", "cell": state.index, **state.load.fields()})
                self.turn(state.index, END)
                self._recheck(state)
            self.done_weight += self.batch_weight
        self._look_beside()

    def _look_beside(self) -> None:
        """Note where other threads were at work while NumPy was timed: it was disturbed."""
        strangers = [
            each.name for each in self.runners.values()
            if not type(each).__module__.startswith("fuser.suites.")
        ]
        share = self.beside_s / self.eager_s if self.eager_s else 0.0
        if strangers and share > BESIDE_SHARE:
            text = (
                f"while NumPy was timed in the processes of {', '.join(strangers)}, other threads "
                f"there took {share:.0%} of a core: NumPy was disturbed, ratios to it flatter"
            )
            self.emit({"event": "note", "text": text})

    # Timing.

    def _sample_batch(self, batch: Sequence[CellState], time_s: float) -> None:
        """Time all cells' blocks in random order, spread evenly over the time."""
        counts = blocks_within(
            time_s, [state.block_s() * self.limits.together for state in batch],
            self.limits.least_blocks, self.limits.most_blocks,
        )
        tasks = self._tasks(batch, counts)
        checked = {
            state.index: self.random.randrange(count)
            for state, count in zip(batch, counts, strict=True)
        }
        start_s = now_s()
        for done, (_, block, state) in enumerate(tasks):
            late = now_s() - start_s > max(time_s, 0.0) * OVERRUN
            check = checked[state.index] == block  # taken however late it is
            if late and block >= self.limits.least_blocks and not check:
                continue
            if self.alternates:
                self.turn(state.index, BEGIN + 1 + block)
                state.move()
            state.load.begin()
            self._block(state, block, check)
            state.load.end()
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

    def _block(self, state: CellState, block: int, checked: bool) -> None:
        """Take one sample of every row, in random order; verify it where `checked` is set."""
        rows = [row for row in self.random.sample(state.rows, len(state.rows)) if row.alive]
        if not checked:
            for row in rows:
                self._sample(state, row, block)
            return
        if not rows:
            return
        self.mark(state.index, EVERY)
        try:
            check = other_values(state, state.seed(1, self.limits.seed))
        except Exception as error:  # noqa: BLE001  (a person's workload may raise anything)
            self._drop_cell(state, [row.variant for row in rows], "failed", of_the_workload(error))
            return
        self._checked(state, rows, block, check)

    def _checked(
        self, state: CellState, rows: Sequence[Row], block: int, check: Check
    ) -> None:
        """Take a checked sample of each row; the values that were timed stay."""
        for row in rows:
            self._sample(state, row, block, check)
        check.write()
        for row in state.rows:
            row.given = None

    # Verifying.

    def _recheck(self, state: CellState) -> None:
        """Verify every row after timing; where the workload itself fails, none is right."""
        self._progress(f"verifying {state.plan.id} again", 0.95)
        try:
            self._recheck_rows(state)
        except Exception as error:  # noqa: BLE001  (a person's workload may raise anything)
            alive = [row.variant for row in state.rows if row.alive]
            self._drop_cell(state, alive, "failed", of_the_workload(error))

    def _recheck_rows(self, state: CellState) -> None:
        """Verify every row on new arrays with new values."""
        before = None if state.large else copies(state.arguments)
        self._find_shortcuts(state)
        if before is not None:  # it moves elements, and a workload may ask for large diagonals
            refill(state.arguments, before)
        self._nudge(state)
        self._look_at_memory(state)
        if not state.large:
            self._look_at_edges(state)
        seed = state.seed(2, self.limits.seed)
        self.mark(state.index, EVERY)
        if state.large and _all_contiguous(state.arguments):
            arguments = tuple(reversed_copy(each) for each in state.arguments)
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
                accept = self._convert_elsewhere(row, arguments) or row.runner.accept
                result = row.runner.fetch(row.found(called(row.call, accept(arguments))))
            except Exception as error:  # noqa: BLE001  (see _first_call)
                self._fail(state, row, message(error))
                continue
            accuracy = compare_or_recall(result, expected, state.tolerance())
            row.alive = self._passes(state, row.variant, "after timing", accuracy)
        state.arguments = ()
        state.rows = []

    def _convert_elsewhere(
        self, row: Row, arguments: Arguments
    ) -> Callable[[Arguments], Arguments] | None:
        """Return how a runner that never saw the function converts arguments, if one can."""
        other = self._other(row)
        if other is None:
            return None
        try:
            other.accept(arguments)
        except Exception:  # noqa: BLE001  (one that was not started)
            return None
        return other.accept

    def _look_at_memory(self, state: CellState) -> None:
        """Verify where results lie, and that arguments are converted and no more."""
        for row in self._doubted(state):
            if state.large and row.call_s > LONG_S:
                continue
            self._try(state, row, partial(_memory_of, state, row, self._other(row)))

    def _nudge(self, state: CellState) -> None:
        """Take a sample more, timed on values that differ in one element from those of before.

        Who looks at some elements to know whether there is work does not see it.
        """
        seed = state.seed(3, self.limits.seed)
        arguments, plan = state.arguments, state.plan
        part = judged_rows(state.workload, arguments, plan.dtype, seed)
        largest = max((np.size(each) for each in arguments), default=0)
        if part is None and largest > PROBED_ELEMENTS:
            return
        near = arguments if part is None else rows_between(arguments, *part)
        nudge = Nudge(near, self.random.randrange)
        rows = self._doubted(state)
        if nudge.changes and rows:
            self._checked(state, rows, -1, one_element(state, nudge, seed))

    def _other(self, row: Row) -> Runner | None:
        """Return a runner of the same kind that never sees a function, to convert arguments."""
        kind = type(row.runner)
        if kind not in self.others:
            try:
                self.others[kind] = kind()
            except Exception:  # noqa: BLE001  (one that is made in ways of its own)
                self.others[kind] = None
        return self.others[kind]

    def _look_at_edges(self, state: CellState) -> None:
        """Verify what rows make of values that are too rare to be among those drawn.

        What a maximum or a comparison makes of NaN is another library's own to say.
        """
        for finite in (True, False):
            rows = [
                row for row in self._doubted(state)
                if finite or row.runner.kind not in ("peer", "ceiling")
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
                found = LATE if self._looking_works(state, row) else None
                if found is None and not state.large and not elsewhere:
                    found = shortcut(
                        row.call, state.arguments, row.runner.accept, row.call_s,
                        self._convert_elsewhere(row, state.arguments),
                    )
            except Exception as error:  # noqa: BLE001  (see _first_call)
                self._fail(state, row, message(error))
                continue
            if found is not None:
                accuracy = Accuracy(np.inf, None, found)
                row.alive = self._passes(state, row.variant, "after timing", accuracy)

    def _looking_works(self, state: CellState, row: Row) -> bool:
        """Whether the function runs when somebody looks at a result."""
        result, fetch = row.found(called(row.call, row.arguments(state))), row.runner.fetch
        return runs_itself(lambda: arrays_of(result, fetch), (), state.workload.function)

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


def _memory_of(state: CellState, row: Row, other: Runner | None) -> Accuracy:
    """Judge where a row's results lie; those that it was told where to put are there."""
    if other is not None:
        found = converted_elsewhere(row.runner, other, state.arguments)
        if found is not None:
            return Accuracy(np.inf, None, found)
    row.given = None
    given = row.arguments(state)
    if row.runner.writes_into:
        called(row.call, given)  # what it remembers is of these values
        return Accuracy()
    found = problem_of(
        row.call, given, state.workload.function, state.arguments,
        free_order=row.runner.kind == "peer" or row.runner.own_arrays,
    )
    return Accuracy(np.inf, None, found) if found else Accuracy()


def _at_edges(state: CellState, row: Row, right: Arguments, edges: Edges) -> Accuracy:
    """Judge the result for arguments that hold rare values."""
    refill(state.arguments, right)  # a neighbour may have written into them
    row.given = None
    poison_buffers(row.buffers)
    with np.errstate(all="ignore"):
        result = row.runner.fetch(row.found(called(row.call, row.arguments(state))))
    found = edges.problem(result, state.tolerance())
    return Accuracy(np.inf, None, found) if found else Accuracy()


def _all_contiguous(arguments: Arguments) -> bool:
    """Return whether copies of all arrays have the same layout as they have."""
    return all(each.flags.c_contiguous for each in arguments if isinstance(each, np.ndarray))
