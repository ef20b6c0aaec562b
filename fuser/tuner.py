"""Times the legal schedules of a function's loop nests, and keeps the best for this machine.

Each loop nest is tried alone, the others as they are chosen; what is timed is the whole launch,
with results in memory that is there already. Candidates take turns in an order that changes. The
best is timed against the chosen schedule once more, on fresh samples: what a first round finds
fastest of many is so partly by chance.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fuser import executor
from fuser.backend import Backend, NestChoice, get_backend
from fuser.base import budget, caches, trees
from fuser.base.errors import ArgumentError, FusionError, Unsupported
from fuser.base.records import record
from fuser.calls.fused_function import FusedFunction
from fuser.executor import CannotRun
from fuser.interface import fuse
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Program
from fuser.programs import run
from fuser.runtime.launch import Launch, bind

#: A schedule that is not this much faster than the chosen one is not kept.
WORTH_KEEPING = 0.95
#: Seconds of one sample, at least: many launches where they are brief.
SAMPLE_S = 200e-6
#: Samples of each schedule, by which the best is found.
FIRST_SAMPLES = 5


@record
class TunedNest:
    """What was found for one loop nest.

    Attributes:
        nest: its kernel's name and its number there.
        schedules: how many are legal.
        chosen: what its lengths and strides are given.
        used: what ran before: the chosen one, or one kept earlier.
        best: the fastest legal one.
        regret: seconds of the whole launch by the chosen schedule over those by the best, on
            samples of which the choice of the best knew nothing: 1 where that is the chosen one.
        chosen_s: median seconds of the launch by the chosen schedule.
        kept: the fastest one that gives the same bits as the chosen one, where it was worth
            keeping, and was to be kept; else an empty text.
    """

    nest: str
    schedules: int
    chosen: str
    used: str
    best: str
    regret: float
    chosen_s: float
    kept: str


@record
class Tuning:
    """What `tune` found: prints as a table."""

    nests: tuple[TunedNest, ...]

    def __str__(self) -> str:
        """A line for each loop nest."""
        if not self.nests:
            return "no loop nest of this call has more than one schedule"
        lines = []
        for each in self.nests:
            lines.append(
                f"{each.nest}: {each.schedules} schedules, {each.chosen_s * 1e6:,.1f} us as chosen "
                f"({each.chosen}); the best ({each.best}) is {each.regret:.2f} times as fast"
            )
            if each.kept:
                lines.append(f"    kept for this machine: {each.kept}")
        return "\n".join(lines)


def tune(
    function: Callable[..., Any], *args: Any, keep: bool = True, seconds: float = 5.0
) -> Tuning:
    """Time the legal schedules of a call's loop nests and keep the best for this machine.

    Only schedules that give the same bits are kept: results do not change. They are kept for this
    processor, number of processors, loop nest and lengths of as many binary digits, beside the
    machine code on disk (`FUSER_CACHE=off` and continuous integration: for this process only).
    Arguments are read, never written.

    Args:
        function: fused, or to be fused.
        args: what it is called with.
        keep: False: only report.
        seconds: to spend on each loop nest, about.

    Returns:
        What was found, by loop nest; those that run by row blocks together are left out.

    Raises:
        ArgumentError: `seconds` is no positive number.
        FusionError: the call cannot be fused.
    """
    if type(seconds) not in (int, float) or not 0 < seconds < float("inf"):
        raise ArgumentError(f"tune takes a positive number of seconds, found {seconds!r}")
    fused = function if isinstance(function, FusedFunction) else fuse(function)
    found, better = [], []
    for backend, launch, arrays, numbers in launches_of(fused, args):
        for choice in backend.choices(launch):
            nest, schedule = _tuned(backend, launch, choice, arrays, numbers, seconds, keep)
            found.append(nest)
            if keep and schedule != choice.used:
                better.append((backend, choice, schedule))
    for backend, choice, schedule in better:
        backend.keep(choice, schedule)
    if better:
        caches.clear()  # what is bound already has the schedules from before
    return Tuning(tuple(found))


def time_again(
    function: Callable[..., Any], args: Sequence[Any], picked: Mapping[str, str],
    seconds: float = 1.0,
) -> dict[str, float]:  # fmt: skip
    """Time schedules that `tune` found, on fresh samples: another process asks this one to.

    Args:
        function: as `tune` was given it.
        args: likewise.
        picked: the schedule of each loop nest, both as `TunedNest` spells them.
        seconds: to spend on each.

    Returns:
        By loop nest, the seconds by the chosen schedule over those by the picked one.

    Raises:
        FusionError: the call cannot be fused.
    """
    fused = function if isinstance(function, FusedFunction) else fuse(function)
    ratios = {}
    for backend, launch, arrays, numbers in launches_of(fused, args):
        for choice in backend.choices(launch):
            wanted = picked.get(choice.label)
            legal = {spelled(each): each for each in choice.legal}
            if wanted is None or wanted not in legal:
                continue
            pair = (choice.chosen, legal[wanted])
            timers = [Timer(backend.bound_by(launch, choice, s), arrays, numbers) for s in pair]
            ratios[choice.label] = 1 / _ratios(timers, seconds)[1]
    return ratios


def spelled(schedule: Any) -> str:
    """A schedule in words; that which differs in nothing from the usual one has its own."""
    return str(schedule) or "usual"


Bound = tuple[Backend, Callable[[], Launch], Mapping[str, Any], Mapping[str, Any]]


def launches_of(function: FusedFunction[..., Any], args: Sequence[Any]) -> list[Bound]:
    """The kernels of a call: backend, what binds them anew, arrays and numbers, stage by stage.

    Raises:
        FusionError: the call cannot be fused.
    """
    try:
        structure, leaves = trees.flatten((tuple(args), {}))
        with budget.limited(getattr(function.__wrapped__, "__name__", "function")):
            call = function._find_call(structure, leaves)
            return list(_launches(call))
    except (CannotRun, Unsupported) as error:
        raise FusionError(error.reason) from None


def _launches(call: Any) -> Iterator[Bound]:
    """As `launches_of`, of a call that some specialisation holds for."""
    spec = call.specialisation.spec
    stages: list[tuple[KernelSpec, Mapping[str, Any]]] = []
    numbers = dict(call.numbers)
    if isinstance(spec, Program):
        run.execute(spec, call.arrays, call.numbers, learned=numbers,
                    seen=lambda one, arrays: stages.append((one, dict(arrays))))  # fmt: skip
    elif spec is not None:
        stages.append((spec, call.arrays))
    for one, arrays in stages:
        backend = get_backend(executor.device_of(arrays.values()))
        module = backend.array_module
        whole = {name: module.asarray(array) for name, array in arrays.items()}
        sizes = executor.sizes_of(
            one.graph, {name: array.shape for name, array in whole.items()}, numbers
        )
        if sizes is not None:
            yield backend, partial(bind, one, whole, sizes, backend), whole, {**numbers, **sizes}


def _tuned(
    backend: Backend, launch: Callable[[], Launch], choice: NestChoice, arrays: Mapping[str, Any],
    numbers: Mapping[str, Any], seconds: float, keep: bool,
) -> tuple[TunedNest, Any]:  # fmt: skip
    """What is found for one loop nest, and the schedule that it should run by."""
    timers = {
        each: Timer(backend.bound_by(launch, choice, each), arrays, numbers)
        for each in choice.legal
    }
    chosen = timers[choice.chosen]
    whole = FIRST_SAMPLES * sum(timer.sample_s for timer in timers.values())
    first = max(1, round(FIRST_SAMPLES * min(1.0, seconds / 2 / whole)))
    _take_turns(list(timers.values()), first)
    best = min(timers, key=lambda each: timers[each].median_s)
    exact = [each for each in choice.same_bits if timers[each].same_as(chosen)]
    safe = min(exact, key=lambda each: timers[each].median_s)
    finalists = {each: timers[each] for each in dict.fromkeys((choice.chosen, best, safe))}
    ratios = _ratios(list(finalists.values()), seconds / 2) if len(finalists) > 1 else [1.0]
    against = dict(zip(finalists, ratios, strict=True))
    worth = against[safe] < WORTH_KEEPING
    kept = safe if worth else choice.chosen
    return TunedNest(
        choice.label, len(choice.legal), spelled(choice.chosen), spelled(choice.used),
        spelled(best), 1 / against[best], chosen.median_s, spelled(safe) if worth and keep else "",
    ), kept  # fmt: skip


class Timer:
    """Times one bound launch."""

    def __init__(
        self, launch: Launch, arrays: Mapping[str, Any], numbers: Mapping[str, Any]
    ) -> None:
        """Run it once, into memory that later runs use again.

        Args:
            launch: bound to these arrays.
            arrays: arguments by parameter name.
            numbers: scalars and lengths by name.
        """
        self._launch, self._numbers = launch, numbers
        self._arrays = dict(arrays)
        given = set(arrays)
        self._run(1)
        self.results = {n: a for n, a in self._arrays.items() if n not in given and n[0] == "o"}
        once = min(self._run(1) for _ in range(3))
        self._count = max(1, round(SAMPLE_S / max(once, 1e-9)))
        self.sample_s = once * self._count
        """About how long one sample takes."""
        self.samples: list[float] = []
        """Seconds of one launch."""

    def _run(self, count: int) -> float:
        """Seconds of so many launches."""
        run_once, arrays, numbers = self._launch.run, self._arrays, self._numbers
        start = time.perf_counter()
        for _ in range(count):
            run_once(arrays, numbers)
        return time.perf_counter() - start

    def sample(self) -> float:
        """Take one sample; seconds of one launch."""
        seconds = self._run(self._count) / self._count
        self.samples.append(seconds)
        return seconds

    @property
    def median_s(self) -> float:
        """Of all samples."""
        return statistics.median(self.samples)

    def same_as(self, other: Timer) -> bool:
        """Whether both leave the same bits."""
        return all(
            array.tobytes() == other.results[name].tobytes()
            for name, array in self.results.items()
        )


def _take_turns(timers: Sequence[Timer], samples: int) -> None:
    """Take so many samples of each, in an order that changes."""
    order, generator = list(timers), random.Random(7)
    for _ in range(samples):
        generator.shuffle(order)
        for timer in order:
            timer.sample()


def _ratios(timers: Sequence[Timer], seconds: float) -> list[float]:
    """Fresh samples of each over those of the first, in medians of pairs."""
    once = sum(timer.sample_s for timer in timers)
    return paired([timer.sample for timer in timers], seconds / max(once, 1e-9))


def paired(samples: Sequence[Callable[[], float]], rounds: float) -> list[float]:
    """What each takes over what the first does: medians of about so many pairs, taken in turns."""
    order, generator = list(range(len(samples))), random.Random(11)
    pairs: list[list[float]] = [[] for _ in samples]
    for _ in range(max(5, min(200, round(rounds)))):
        generator.shuffle(order)
        taken = {k: samples[k]() for k in order}
        for k, found in enumerate(pairs):
            found.append(taken[k] / taken[0])
    return [statistics.median(found) for found in pairs]
