"""One sample of one row: warmed up, timed, and, where that is asked for, looked at.

A checked sample is timed on other values than those of its warm-up call. Its runner cannot tell it
from another sample: all calls are made at one place, and the result that is judged is that of any.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuser.suites.cell_state import CellState, Row
from fuser.suites.checks.inspection import arrays_of, arrives_late, glance, written_later
from fuser.suites.checks.memory_checks import Nudge, overlap
from fuser.suites.checks.verify import (
    Accuracy,
    Expected,
    copies,
    flatten,
    poison,
    poison_buffers,
    refill,
    some_of,
    unchanged,
)
from fuser.suites.preparing import Preparation, message
from fuser.suites.runners import EagerRunner, Runner
from fuser.suites.sampling import busy_beside_s, called, collector_off, timed_calls
from fuser.suites.workload import Array

LONG_CALL_S = 0.25
"""Longer calls need no warm-up of their own before each sample."""
LATE = "the result was not there when the call returned: work is left for later"


@dataclass(frozen=True, slots=True)
class Check:
    """What a checked sample needs: the right results, and how its values come and go."""

    expected: Expected
    write: Callable[[], None]  # the values that are timed
    rewind: Callable[[], None] | None  # those of the warm-up call; None: there is no such call
    untouched: Callable[[], bool]  # whether the arguments are as `write` left them
    again: bool  # whether a result is looked at in memory that held none
    when: str = ""  # said of a wrong result; else the block's number is


@dataclass(frozen=True, slots=True)
class Found:
    """The arrays of the timed result, and of another that was looked at when its call returned."""

    arrays: Sequence[Array]
    again: Sequence[Array]
    before: Sequence[Array]
    late: bool
    changed: bool


def other_values(state: CellState, expected_seed: int) -> Check:
    """Return the check on values that have nothing to do with those of before.

    Of very many elements they are those of before in reverse, without a warm-up call.
    """
    rewind: Callable[[], None] | None = None
    if state.large:
        fresh = tuple(reversed_copy(each) for each in state.arguments)
    else:
        drawn = state.inputs(expected_seed)
        # arrays get other values; a number in their midst stays the one that is passed
        fresh = tuple(
            new if isinstance(new, np.ndarray) else now
            for new, now in zip(drawn, state.arguments, strict=True)
        )
        old = copies(state.arguments)

        def rewind() -> None:
            refill(state.arguments, old)

    def untouched() -> bool:
        now, before = state.arguments, fresh
        if state.large:  # of very many elements some are looked at
            now, before = some_of(now), some_of(before)
        return unchanged(now, before)

    expected = state.expected(fresh, expected_seed)
    return Check(
        expected, lambda: refill(state.arguments, fresh), rewind, untouched,
        again=rewind is not None,
    )


def one_element(state: CellState, nudge: Nudge, expected_seed: int) -> Check:
    """Return the check on values that differ from those of before in an element of each array."""
    before = None if state.large else copies(state.arguments)
    nudge.apply()
    expected = state.expected(state.arguments, expected_seed)
    after = None if state.large else copies(state.arguments)

    def write() -> None:
        if after is not None:  # a neighbour may have written into them
            refill(state.arguments, after)
        nudge.apply()

    def rewind() -> None:
        if before is not None:
            refill(state.arguments, before)
        nudge.undo()

    return Check(
        expected, write, rewind, lambda: after is None or unchanged(state.arguments, after),
        again=False, when="after timing, one element of the arguments changed",
    )


class CheckedSamples(Preparation):
    """Takes samples, and judges what the checked ones gave."""

    def _sample(self, state: CellState, row: Row, block: int, check: Check | None = None) -> None:
        """Warm up, time a row's calls, and look at one result where that is asked for."""
        self.mark(state.index, row.variant)
        compiled, fallen = row.runner.compiled_kernels(), row.runner.fallbacks()
        kept = None if check is None else self.random.randrange(row.calls)
        try:
            with collector_off():
                given = self._warm(state, row, check)
                beside_s = busy_beside_s()
                seconds, result = timed_calls(row.call, given, row.calls, kept)
                if type(row.runner) is EagerRunner:
                    self.eager_s += seconds
                    self.beside_s += busy_beside_s() - beside_s
                found = None
                if check is not None:
                    found = self._look(state, row, given, seconds, result, check)
        except Exception as error:  # noqa: BLE001  (any failure of a fuser is a finding, not ours)
            self._fail(state, row, message(error))
            return
        self.order += 1
        if check is None or not check.when:
            self.emit({
                "event": "sample", "cell": state.index, "variant": row.variant, "block": block,
                "order": self.order, "calls": row.calls, "seconds": seconds,
                "checked": check is not None,
            })
        self._counted(state, row, "compiled_inside", compiled, row.runner.compiled_kernels())
        self._counted(state, row, "fell_back", fallen, row.runner.fallbacks())
        if check is not None and found is not None:
            accuracy = self._judged(state, row, check, found)
            when = check.when or f"in timed block {block}"
            row.alive = self._passes(state, row.variant, when, accuracy)

    def _warm(self, state: CellState, row: Row, check: Check | None) -> Any:
        """Call once, on other values than those that are timed where the sample is checked."""
        if check is None:
            given = row.arguments(state)
            if row.call_s < LONG_CALL_S:
                called(row.call, given)
            return given
        if check.rewind is not None:
            check.rewind()
            row.given = None
            called(row.call, row.arguments(state))
        check.write()
        row.given = None
        poison_buffers(row.buffers)
        return row.arguments(state)

    def _look(
        self, state: CellState, row: Row, given: Any, seconds: float, result: Any, check: Check
    ) -> Found:
        """Look at a timed result at once, and at one in memory that held no result.

        The other values come back before anybody looks at that one: what is computed later than
        the call returns is of those.
        """
        arrays, look_s = arrays_of(row.found(result), row.runner.fetch)
        again, before = arrays, glance(arrays)
        changed = not check.untouched()
        if check.again and check.rewind is not None:  # else clearing memory takes too long
            poison(check.expected)
            poison_buffers(row.buffers)
            made = row.found(called(row.call, given))
            seen = glance(flatten(made)) if _is_plain(made) else None
            check.rewind()
            again, _ = arrays_of(made, row.runner.fetch)
            check.write()
            before = glance(again) if seen is None else seen
        call_s, fetch = seconds / row.calls, row.runner.fetch
        fetched = type(row.runner).fetch is not Runner.fetch
        late = arrives_late(row.call, given, fetch, call_s, look_s, fetched)
        return Found(arrays, again, before, late, changed)

    def _judged(self, state: CellState, row: Row, check: Check, found: Found) -> Accuracy:
        if found.changed:
            return Accuracy(np.inf, None, "the calls changed their input arrays")
        accuracy = check.expected.judge(tuple(found.arrays), state.tolerance())
        if accuracy.problem:
            return accuracy
        late = found.late or written_later(found.again, found.before)
        if late or not self._is_of_the_call(state, check, found):
            return Accuracy(np.inf, None, LATE)
        if (broken := self.seal.broken()) is not None:
            return Accuracy(np.inf, None, f"{row.runner.name} {broken}")
        return accuracy

    def _is_of_the_call(self, state: CellState, check: Check, found: Found) -> bool:
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


def _is_plain(result: Any) -> bool:
    """Whether a result is there in NumPy's own arrays, so that looking at it computes nothing."""
    return all(type(each) is np.ndarray for each in flatten(result))


def reversed_copy(argument: Any) -> Any:
    """Return a copy of an array with its first axis reversed; numbers as they are."""
    if not isinstance(argument, np.ndarray) or not argument.ndim:
        return argument
    return argument[::-1].copy()
