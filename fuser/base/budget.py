"""What a first call may cost: tracing, planning and compiling draw on one budget.

A first call does work that NumPy does not do. Most functions need a few milliseconds of it; a long
Python loop may need minutes, and then nothing that is compiled makes up for them. So each first
call has a budget, in units that do not depend on the machine: operations and writes traced, steps
of planning, kernels, instructions compiled. A clock of this thread's processor time stands beside
them, for what the units do not foresee: it can stop a compilation, and selects nothing. A machine
with other work takes longer, so what the clock has refused is tried once more by a later call.

What goes beyond the budget raises `Unsupported`; the call runs in NumPy, and its reason names the
line to change. Where no budget is open nothing is counted.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import thread_time
from typing import Any

from fuser.base import notices
from fuser.base.errors import Unsupported

#: What one first call may take, all its traces together. Of 27,000 first calls in the tests the
#: largest take 10,000 operations (a chain of them), 36 writes, 6,300 steps but for that chain,
#: 37 kernels and 10,200 instructions. A step of an ocean model takes 70 writes, no line of it
#: more than 6. `tests/fuser/base/test_budget.py` has programs beyond.
LIMITS: Mapping[str, int] = {
    "operations": 20_000,  # traced operations on arrays, and arithmetic of their Python numbers
    "numbers": 256,  # Python numbers among the arguments: each is converted at every call
    "values": 4_096,  # in lists, dicts and sets that a function reaches: 50 µs each
    "writes": 40,  # traced writes into parts of arrays by one line: more are an unrolled loop
    "steps": 100_000,  # of planning: values looked at, pairs compared; 5 to 15 µs each
    "kernels": 128,  # planned, of all stages together
    "instructions": 60_000,  # lines of the kernels' text; the compiler takes 40 µs for each
}
#: Seconds of this thread's processor time: a first call is to end within two. One of a hundred
#: operations takes 0.03, the longest of 57 whole programs 0.54.
SECONDS = 1.8
#: What takes longer says what it does.
SILENT_S = 1.0
#: Notes that are kept.
_NOTES = 8
#: Steps between two looks at the clock.
_STRIDE = 256
#: A line of the user's that made at least so many operations or writes is in a loop.
REPEATED = 4


class Budget:
    """What is left for one first call.

    Attributes:
        name: the function's, for the reason.
        left: units that are left, by the keys of `LIMITS`.
        lines: how often each line of the user's code made an operation.
        notes: why loops were unrolled.
        writes: how often each made a write into a part of an array.
        look: steps until the clock is looked at.
        resting: how many `unclocked` it is in.
        timed_out: the clock has refused something.
    """

    __slots__ = (
        "_ends_s", "_told", "left", "lines", "look", "name", "notes", "resting",
        "timed_out", "writes",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        """Open a budget for the function called `name`."""
        self.name = name
        self.left = dict(LIMITS)
        self.lines: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.notes: list[str] = []
        self.look, self.resting = _STRIDE, 0
        self._ends_s = thread_time() + SECONDS
        self._told = self.timed_out = False

    def check(self, unit: str) -> None:
        """Look whether anything is left.

        Args:
            unit: what was used last.

        Raises:
            Unsupported: nothing is.
        """
        if self.left[unit] < 0:
            raise self.refusal(f"more than {LIMITS[unit]:,} {_WORDS[unit]}")
        self.look = _STRIDE
        left_s = self.left_s(thread_time())
        if left_s < SECONDS - SILENT_S and not self._told:
            self._told = True
            self._tell()
        if left_s < 0:
            raise self.too_long()

    def left_s(self, now_s: float) -> float:
        """The seconds that are left where the thread's clock shows so many."""
        return self._ends_s - now_s

    def too_long(self) -> Unsupported:
        """The reason that no time is left."""
        self.timed_out = True
        return self.refusal(f"more than {SECONDS:g} s of tracing, planning and compiling")

    def _tell(self) -> None:
        """Say what takes so long: to `logging`, and where somebody sits in front of a terminal."""
        used = {unit: LIMITS[unit] - left for unit, left in self.left.items()}
        text = (
            f"{self.name}: the first call takes more than {SILENT_S:g} s to trace, plan and "
            f"compile ({used['operations']:,} operations, {used['kernels']:,} kernels so far); "
            f"after {SECONDS:g} s NumPy runs it"
        )
        notices.tell(text)
        with suppress(AttributeError, OSError, ValueError):  # no stream, or one that is closed
            if sys.__stderr__ is not None and sys.__stderr__.isatty():
                sys.__stderr__.write(f"fuser: {text}\n")

    def give_back(self, elapsed_s: float) -> None:
        """Have so many seconds more."""
        self._ends_s += elapsed_s

    def refusal(self, found: str) -> Unsupported:
        """The reason to run in NumPy: a loop by its line, where one was unrolled."""
        kind, counted = ("writes", self.writes) if self.writes else ("operations", self.lines)
        where, times = max(counted.items(), key=lambda entry: entry[1], default=("", 0))
        if times >= REPEATED:
            text = self.noted(f"{times:,} {kind} in a Python loop, {found}")
            return Unsupported("unrolled-loop", self.name, text, where)
        return Unsupported("too-large", self.name, found, "")

    def noted(self, text: str) -> str:
        """What is told of a loop, with why it was unrolled."""
        return f"{text}; the loop was unrolled: {self.notes[0]}" if self.notes else text


_WORDS = {
    "operations": "traced operations",
    "numbers": "Python numbers among the arguments",
    "values": "values in lists, dicts and sets that it reaches",
    "writes": "writes by one line",
    "steps": "steps of planning",
    "kernels": "kernels",
    "instructions": "instructions in kernels",
}

class _Here(threading.local):
    """The budget that is open on a thread."""

    budget: Budget | None = None


_here = _Here()


def current() -> Budget | None:
    """The budget that is open on this thread."""
    return _here.budget


def is_open() -> bool:
    """Whether this thread is within a first call: what calls now came in between, as a signal."""
    return _here.budget is not None


@contextmanager
def limited(name: str) -> Iterator[Budget]:
    """Have what is done inside, on this thread, draw on one budget; an open one is shared."""
    if (opened := _here.budget) is not None:
        yield opened
        return
    budget = _here.budget = Budget(name)
    try:
        yield budget
    finally:
        _here.budget = None


class unclocked:  # noqa: N801  (read as an adverb at its places of use)
    """Have the clock stand still inside, where NumPy or a kernel does the function's own work.

    A class and not a generator: slow calls pass it, too.
    """

    __slots__ = ("_budget", "_start_s")

    def __enter__(self) -> None:
        """Read the clock, if a budget is open."""
        self._budget = _here.budget
        self._start_s = 0.0
        if self._budget is not None:
            self._budget.resting += 1
            self._start_s = thread_time()

    def __exit__(self, *_: object) -> None:
        """Give the time back."""
        if self._budget is not None:
            self._budget.give_back(thread_time() - self._start_s)
            self._budget.resting -= 1


class aside(unclocked):  # noqa: N801  (read as an adverb at its places of use)
    """Have no budget open inside: calls there are later ones of what a first call has compiled."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Stop the clock, and put the budget aside."""
        super().__enter__()
        _here.budget = None

    def __exit__(self, *_: object) -> None:
        """Open it again."""
        _here.budget = self._budget
        super().__exit__()


def spend(unit: str, amount: int = 1, line: str = "") -> None:
    """Use up some of the open budget, if there is one.

    Args:
        unit: a key of `LIMITS`.
        amount: how much.
        line: `file:line` in the user's code that it is for.

    Raises:
        Unsupported: nothing is left.
    """
    budget = _here.budget
    if budget is None:
        return
    left = budget.left
    left[unit] -= amount
    if line and unit == "writes":
        budget.writes[line] += 1
        left[unit] = LIMITS[unit] - budget.writes[line]
    elif line:
        budget.lines[line] += 1
    budget.look -= amount
    if left[unit] < 0 or budget.look < 0:
        budget.check(unit)


def is_over() -> bool:
    """Whether the open budget's time is used up: what is refused now is not tried another way."""
    budget = _here.budget
    return budget is not None and budget.left_s(thread_time()) < 0


def is_final(late: set[Any], kind: Any = None) -> bool:
    """Whether what is refused now is not tried again by later calls.

    Args:
        late: what the clock has refused once; takes more.
        kind: what is refused.
    """
    budget = _here.budget
    if budget is None or not budget.timed_out or kind in late:
        return True
    late.add(kind)
    return False


def left(unit: str) -> int:
    """How much of a unit is left in the open budget; all of it where none is open."""
    budget = _here.budget
    return LIMITS[unit] if budget is None else budget.left[unit]


def foresee(iterations: int, operations: int, times: int, where: str) -> None:
    """Look whether there is time left, and whether a loop can be unrolled.

    Args:
        iterations: as many as it has.
        operations: that each takes, as the one that was looked at did.
        times: how often they are traced.
        where: `file:line` of the loop.

    Raises:
        Unsupported: there is no time, or the operations are more than are left.
    """
    budget = _here.budget
    if budget is None:
        return
    if budget.left_s(thread_time()) < 0:
        raise budget.too_long()
    if iterations * operations * times > budget.left["operations"]:
        text = f"{iterations:,} iterations of a Python loop, each of {operations:,} operations"
        raise Unsupported("unrolled-loop", budget.name, budget.noted(text), where)


def mark() -> Any:
    """What is left of the open budget, for `reset`."""
    budget = _here.budget
    if budget is None:
        return None
    return dict(budget.left), Counter(budget.lines), Counter(budget.writes)


def reset(marked: Any) -> None:
    """Have as much left as at a mark, but for time: what has been traced since is dropped."""
    if (budget := _here.budget) is not None and marked is not None:
        left, lines, writes = marked
        budget.left.update(left)
        budget.lines, budget.writes = Counter(lines), Counter(writes)


def note(text: str) -> None:
    """Keep why a loop is unrolled, for the reason where that goes beyond the budget."""
    if (budget := _here.budget) is not None and len(budget.notes) < _NOTES:
        budget.notes.append(text)
