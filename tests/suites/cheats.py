"""Runners and workloads that misbehave, each in one way; worker processes import them by name."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fuser.suites.runners import EagerRunner, Facts, NotExpressibleError, Runner
from fuser.suites.workload import Arguments, Workload, normals

MODULE = "tests.suites.cheats"
Call = Callable[..., Any]


class Honest(Runner):
    """A runner as a third party would write one: only what it must."""

    name = "honest"
    kind = "fused"
    description = "calls the function"
    own_process = False

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the function in a wrapper, so that it is another object."""
        return lambda *given: function(*given)

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return made-up facts that the record must carry."""
        return Facts(kernels=1, unfused_bytes=300, planned_bytes=200, least_bytes=100)

    @contextmanager
    def observed(self) -> Iterator[dict[str, float]]:
        """Give one made-up stage."""
        yield {"trace": 0.0}


def cheat(prepare: Callable[..., Call]) -> type[Honest]:
    """Return the runner of this name that prepares so, and is honest but for that."""
    name, doc = prepare.__name__, prepare.__doc__
    facts = {"name": name, "prepare": staticmethod(prepare), "__doc__": doc}
    return type(name, (Honest,), {**facts, "__module__": prepare.__module__})


def cheat_in_each_call(call: Callable[..., Any]) -> type[Honest]:
    """Return the runner of this name whose calls are these, of the function and its arguments."""

    def prepare(function: Call, arguments: Arguments) -> Call:
        return partial(call, function)

    return cheat(wraps(call)(prepare))


class Moody(Honest):
    """Right, and slow in every second process: the folder that a variable names knows which."""

    name = "moody"
    FOLDER = "MOODY_FOLDER"

    def __init__(self) -> None:
        self.times = 1
        if folder := os.environ.get(self.FOLDER):
            made = Path(folder, str(os.getpid()))
            made.touch()
            self.times = 1 if len(list(made.parent.iterdir())) % 2 else 40

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that does its work many times over."""

        def moody(*given: Any) -> Any:
            for _ in range(self.times):
                result = function(*given)
            return result

        return moody


@cheat_in_each_call
def wrong(function: Call, *given: Any) -> Any:
    """Slightly off in one element."""
    result = np.array(function(*given))
    result.reshape(-1)[-1:] += 0.01
    return result


@cheat
def remembering(function: Call, arguments: Arguments) -> Call:
    """Computes once and returns that result for ever: caught by new values in the same arrays."""
    kept: list[Any] = []

    def remembered(*given: Any) -> Any:
        if not kept:
            kept.append(function(*given))
        return kept[0]

    return remembered


@cheat
def remembering_addresses(function: Call, arguments: Arguments) -> Call:
    """Remembers results by the identity and content of the first element: caught after timing."""
    known = [id(each) for each in arguments]
    last: list[Any] = []

    def remembered(*given: Any) -> Any:
        if [id(each) for each in given] == known or not last:
            last[:] = [function(*given)]
        return last[0]

    return remembered


@cheat
def remembering_values(function: Call, arguments: Arguments) -> Call:
    """Remembers results by all values of its arguments, so that every result is right."""
    kept: dict[bytes, Any] = {}

    def remembered(*given: Any) -> Any:
        key = b"".join(each.tobytes() for each in given)
        if key not in kept:
            time.sleep(0.02)
            kept[key] = function(*given)
        return kept[key]

    return remembered


@cheat
def skipping(function: Call, arguments: Arguments) -> Call:
    """Skips the work when it is called again at once, as a timing loop does."""
    last: list[Any] = [0.0, None]

    def skipping(*given: Any) -> Any:
        now_s = time.perf_counter()
        if now_s - last[0] > 1e-3 or last[1] is None:
            last[1] = function(*given)
        last[0] = time.perf_counter()
        return last[1]

    return skipping


@cheat_in_each_call
def background(function: Call, *given: Any) -> Any:
    """Returns at once and computes in a thread: nobody waits for it."""
    result = np.empty_like(given[0])

    def work() -> None:
        time.sleep(0.002)
        np.copyto(result, function(*given))

    threading.Thread(target=work, daemon=True).start()
    return result


class Promise:
    """Computes, after some seconds, when somebody looks at it."""

    def __init__(self, *work: Any) -> None:
        self.work = work

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """The function's result."""
        function, given, seconds = self.work
        time.sleep(seconds)
        return np.asarray(function(*given))


@cheat_in_each_call
def lazy(function: Call, *given: Any) -> Any:
    """Returns a promise that computes when somebody looks at it."""
    return Promise(function, given, 0.002)


@cheat_in_each_call
def overwriting(function: Call, *given: Any) -> Any:
    """Right, but writes into its input."""
    result = function(*given)
    given[0][...] += 1
    return result


class Compiling(Honest):
    """Compiles on every call."""

    name = "compiling"
    compiled: ClassVar[int] = 0

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that counts a compilation each time."""

        def compiling(*given: Any) -> Any:
            Compiling.compiled += 1
            return function(*given)

        return compiling

    def compiled_kernels(self) -> int:
        """Return the count."""
        return Compiling.compiled


class Falling(Honest):
    """Falls back, and says why."""

    name = "falling"

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return a reason."""
        return Facts(fallback_reasons=("sort: no elementwise form",))


class FallingLater(Honest):
    """Falls back only in the timed region."""

    name = "falling_later"
    fallen: ClassVar[int] = 0

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function that counts a fallback each time."""

        def falling(*given: Any) -> Any:
            FallingLater.fallen += 1
            return function(*given)

        return falling

    def fallbacks(self) -> int:
        """Return the count."""
        return FallingLater.fallen


@cheat
def raising(function: Call, arguments: Arguments) -> Call:
    """Cannot compile."""
    raise NotImplementedError("no such kernel")


@cheat
def dying(function: Call, arguments: Arguments) -> Call:
    """Takes its process down on the second call."""
    calls = iter(range(1000))

    def dying(*given: Any) -> Any:
        if next(calls) > 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        return function(*given)

    return dying


@cheat
def hanging(function: Call, arguments: Arguments) -> Call:
    """Never returns from its second call."""
    calls = iter(range(1000))

    def hanging(*given: Any) -> Any:
        if next(calls) > 0:
            time.sleep(1000)
        return function(*given)

    return hanging


class Absent(Honest):
    """Needs what is not installed."""

    name = "absent"

    def unavailable(self) -> str:
        """Return the reason."""
        return "nosuchfuser is not installed: pip install nosuchfuser"


class Peer(EagerRunner):
    """A peer: timed in a process of its own."""

    name = "peer"
    kind = "peer"
    own_process = True


class Refusing(Peer):
    """Has no form of the formula."""

    name = "refusing"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Raise."""
        raise NotExpressibleError("no form of sort")


class Widening(Peer):
    """Computes in float64."""

    name = "widening"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of another dtype."""
        return lambda x: function(x.astype(np.float64))


class Converting(Peer):
    """Takes lists instead of arrays."""

    name = "converting"
    converted: ClassVar[int] = 0

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a function of lists."""
        return lambda values: np.asarray([value + value for value in values])

    def accept(self, arguments: Arguments) -> Arguments:
        """Convert and count it."""
        Converting.converted += 1
        return tuple(list(each) for each in arguments)


class Into(Honest):
    """Writes into the arrays it is given."""

    name = "into"
    kind = "into"
    writes_into = True

    def prepare_into(
        self, function: Callable[..., Any], arguments: Arguments, buffers: Arguments
    ) -> Callable[..., Any]:
        """Return a function that copies its result."""

        def into(*given: Any) -> Any:
            np.copyto(buffers[0], function(*given))
            return buffers[0]

        return into


class LeavingHalf(Into):
    """Writes the first half only, and returns the right result in another array."""

    name = "leaving_half"

    def prepare_into(
        self, function: Callable[..., Any], arguments: Arguments, buffers: Arguments
    ) -> Callable[..., Any]:
        """Return a function that fills half of the buffer."""

        def half(*given: Any) -> Any:
            result = function(*given)
            buffers[0][: result.size // 2] = result[: result.size // 2]
            return result

        return half


class WritingOnce(Into):
    """Writes into its buffer in the first call alone."""

    name = "writing_once"

    def prepare_into(
        self, function: Callable[..., Any], arguments: Arguments, buffers: Arguments
    ) -> Callable[..., Any]:
        """Return a function that fills the buffer once."""
        calls = iter(range(10**9))

        def once(*given: Any) -> Any:
            if next(calls) == 0:
                np.copyto(buffers[0], function(*given))
            return buffers[0]

        return once


def double(x: Any) -> Any:
    """Twice its argument."""
    return x + x


SIZES = {"S": 64, "M": 1024, "L": 4096}
DOUBLE = Workload("double", "test", "twice", double, normals(1), sizes=SIZES)
REFUSED = Workload(
    "refused", "test", "must fall back", double, normals(1), sizes=SIZES, must_refuse=True
)
AWAY = Workload(
    "away", "test", "no data", double, normals(1), sizes=SIZES,
    unavailable=lambda: "the file is not here",
)


def spec(kind: type[Runner]) -> str:
    """Return a runner's `module:attribute`."""
    return f"{MODULE}:{kind.__name__}"
