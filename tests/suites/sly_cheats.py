"""Cheats that look at who calls them, work where no clock runs, or change what others are held to.

All but the last keep their result where some of the elements are as they were; they are honest
wherever they believe to be looked at.
"""

import gc
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.suites.runners import Facts
from fuser.suites.workload import Arguments
from tests.suites.cheats import Honest, Into, Peer, cheat

Call = Callable[..., Any]


def some_elements(given: Arguments) -> list[bytes]:
    """Return the ends and a third of each array: other values are most likely noticed."""
    return [np.ravel(each)[[0, np.size(each) // 3, -1]].tobytes() for each in given]


class Keeping(Honest):
    """Computes when its elements have changed, or when `looked_at` says so."""

    def looked_at(self) -> bool:
        """Return whether it had better be honest."""
        return False

    def prepare(self, function: Call, arguments: Arguments) -> Call:
        """Return a function that copies what it kept."""
        kept: list[Any] = [None, None]

        def keeping(*given: Any) -> Any:
            key = some_elements(given)
            if self.looked_at() or kept[0] != key:
                kept[:] = [key, np.asarray(function(*given))]
            return kept[1].copy()

        return keeping


class KnowsTheCaller(Keeping):
    """Honest unless the function that times calls it."""

    name = "knows_the_caller"

    def looked_at(self) -> bool:
        """Look at the stack."""
        return sys._getframe(2).f_code.co_name != "timed_calls"


class KnowsTheCollector(Keeping):
    """Honest while the garbage collector is on: off it is where calls are timed."""

    name = "knows_the_collector"

    def looked_at(self) -> bool:
        """Ask the collector."""
        return gc.isenabled()


class KnowsTheRhythm(Keeping):
    """Honest when some time has passed since its last call, as in no loop."""

    name = "knows_the_rhythm"
    last_s = 0.0

    def looked_at(self) -> bool:
        """Look at the clock."""
        before_s, self.last_s = self.last_s, time.perf_counter()
        return self.last_s - before_s > 0.1


class KnowsTheCount(Keeping):
    """Honest in its first hundred calls, and in every third."""

    name = "knows_the_count"

    def __init__(self) -> None:
        self.calls = itertools.count()

    def looked_at(self) -> bool:
        """Count."""
        return (call := next(self.calls)) < 100 or call % 3 == 0


@cheat
def ends_the_loop(function: Call, arguments: Arguments) -> Call:
    """Raises what ends a loop in C, in every second call."""
    calls = itertools.count()

    def ending(*given: Any) -> Any:
        if next(calls) % 2:
            raise StopIteration
        return function(*given)

    return ending


class WorksWhileConverting(Honest):
    """Has the result before the clock starts: it comes among the converted arguments."""

    name = "works_while_converting"
    function: Call | None = None

    def prepare(self, function: Call, arguments: Arguments) -> Call:
        """Return a function that copies what it is given."""
        self.function = function
        return lambda *given: given[1].copy() if given[0] is None else function(*given)

    def accept(self, arguments: Arguments) -> Arguments:
        """Compute, once the function is known."""
        return arguments if self.function is None else (None, self.function(*arguments))


class RemembersWhileConverting(Honest):
    """The same, with the result kept in a place of its own."""

    name = "remembers_while_converting"
    result: Any = None
    function: Call | None = None

    def prepare(self, function: Call, arguments: Arguments) -> Call:
        """Return a function that copies what was computed before."""
        self.function, self.result = function, function(*arguments)
        return lambda *given: self.result.copy()

    def accept(self, arguments: Arguments) -> Arguments:
        """Compute, and give the arguments back as they are."""
        if self.function is not None:
            self.result = np.asarray(self.function(*arguments))
        return arguments


class WorksWhileFetched(Peer):
    """A peer that copies its arguments, and computes when its result is fetched."""

    name = "works_while_fetched"

    def prepare(self, function: Call, arguments: Arguments) -> Call:
        """Return a function of promises that are no arrays."""
        return lambda *given: {"later": (function, [each.copy() for each in given])}

    def fetch(self, result: Any) -> Any:
        """Compute; who was not given a promise gives it back."""
        if not isinstance(result, dict):
            return result
        function, given = result["later"]
        return function(*given)


@cheat
def long_ring(function: Call, arguments: Arguments) -> Call:
    """Computes every time, into one of two hundred buffers in turn."""
    turns = itertools.cycle([np.array(function(*arguments)) for _ in range(200)])

    def ring(*given: Any) -> Any:
        buffer = next(turns)
        np.copyto(buffer, function(*given))
        return buffer

    return ring


class Marked(np.ndarray):
    """An array of another class."""


@cheat
def other_class(function: Call, arguments: Arguments) -> Call:
    """Gives arrays of a class of its own, under the name of a fuser of NumPy's."""
    return lambda *given: np.asarray(function(*given)).view(Marked)


@cheat
def slows_numpy(function: Call, arguments: Arguments) -> Call:
    """Quick beside a NumPy that it made slow."""
    quick = np.add

    def slow(*given: Any, **named: Any) -> Any:
        quick(*given, **named)
        return quick(*given, **named)

    np.add = slow  # type: ignore[assignment, misc]
    return lambda *given: function(*given)


@cheat
def slows_the_clock(function: Call, arguments: Arguments) -> Call:
    """Quick by a clock that it made."""
    from fuser.suites import sampling

    clock = time.perf_counter
    sampling.now_s = lambda: clock() / 2
    return lambda *given: function(*given)


@cheat
def copied(function: Call, arguments: Arguments) -> Call:
    """NumPy in a copy of the function, under a fuser's name."""
    code = getattr(function, "__code__").replace(co_name="kernel")  # noqa: B009
    return type(double)(code, getattr(function, "__globals__"))  # type: ignore[arg-type, no-any-return]  # noqa: B009


def double(x: Any) -> Any:
    """Only its type is of use."""
    return x + x


class Impostor(Honest):
    """Says that it is NumPy, to be what others are held against."""

    name = "impostor"
    kind = "eager"


class Namesake(Honest):
    """Has the name of the fuser, and claims bytes that nobody counted."""

    name = "fused"

    def facts(self, prepared: Call, arguments: Arguments) -> Facts:
        """Claim."""
        return Facts(kernels=1, unfused_bytes=10**9, planned_bytes=10**8, least_bytes=10**8)


class IntoAsFresh(Into):
    """Writes into given arrays, and calls that a fuser's fresh results."""

    name = "into_as_fresh"
    kind = "fused"


SLY = (
    KnowsTheCaller, KnowsTheCollector, KnowsTheRhythm, KnowsTheCount, ends_the_loop,
    WorksWhileConverting, RemembersWhileConverting, WorksWhileFetched, long_ring, other_class,
    slows_numpy, slows_the_clock,
)
"""Those that get no speed."""
