"""How long the plain function takes and how long the fused one, timed in turns.

Each round times both, one after the other, and the next round in the other order, so that what
slows the machine down for a while slows both. A round gives one ratio. What is told is the median
over rounds, with the interval that its order statistics give whatever the ratios' distribution is.
It speaks of this process: another one, with its arrays in other memory, may differ by a few percent
(`fuser-bench run` measures with several).

Source:
    Conover, "Practical Nonparametric Statistics", 3rd edition, 1999, section 3.2: confidence
    intervals of quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base import trees
from fuser.base.errors import ArgumentError, Reason
from fuser.base.records import field, record

if TYPE_CHECKING:
    from fuser.calls.owner import Owner

CONFIDENCE = 0.95
#: Rounds: so many at least, whatever time they take, and so many at most.
LEAST_ROUNDS, MOST_ROUNDS = 7, 501
#: One sample takes at least this long, by as many calls as that needs: the clock resolves it.
SAMPLE_NS = 200_000


@record(eq=False)
class Comparison:
    """The plain function against the fused one, on the same arguments.

    Attributes:
        name: the function's.
        speedup: the plain function's time over the fused one's, the median over rounds.
        low: the lower end of its interval.
        high: the upper end.
        plain_s: seconds of one call of the plain function, the median.
        fused_s: likewise of the fused one.
        rounds: how many there were.
        fallbacks: why calls, or functions in them, are not fused; empty where all is.
    """

    name: str
    speedup: float
    low: float
    high: float
    plain_s: float
    fused_s: float
    rounds: int
    fallbacks: list[Reason] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Which one is faster; "no difference seen" where the interval has 1 in it."""
        if self.low <= 1 <= self.high:
            return "no difference seen"
        return "fused is faster" if self.low > 1 else "fused is slower"

    def __str__(self) -> str:
        """Readable text."""
        interval = f"[{self.low:.3g}, {self.high:.3g}]"
        lines = [
            f"{self.name}: {self.speedup:.3g} times NumPy's speed {interval}, {self.verdict}",
            f"  NumPy {_spelled(self.plain_s)} a call, fused {_spelled(self.fused_s)}",
            f"  95% interval of the median of {self.rounds} rounds in this process",
        ]
        return "\n".join(lines + [f"  not fused: {reason}" for reason in self.fallbacks])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks."""
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


def _spelled(seconds: float) -> str:
    """Seconds, with a unit that suits them."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the median: two order statistics that hold it with 95% confidence.

    Args:
        values: float64[n], n >= 6; with fewer not even the least and the greatest hold it.

    Returns:
        The k-th least and the k-th greatest value, where k is the greatest number for which
        2 * P(Binomial(n, 1/2) < k) is at most 5%.
    """
    ordered, count = sorted(values), len(values)
    k, below = 0, 0
    while True:
        below += math.comb(count, k)
        if 2 * below > (1 - CONFIDENCE) * 2**count:
            break
        k += 1
    place = max(k, 1) - 1
    return ordered[place], ordered[count - 1 - place]


def compare(function: Owner, args: Any, kwargs: Any, seconds: float) -> Comparison:
    """Time a fused function and its plain one.

    Args:
        function: the fused one.
        args: of each call.
        kwargs: likewise.
        seconds: how long to measure.

    Raises:
        ArgumentError: `seconds` is not positive.
    """
    if not seconds > 0:
        raise ArgumentError(f"benchmark takes seconds > 0, found {seconds!r}")
    known = set(function.fallbacks)
    with _restored(args, kwargs) as restore:
        calls: list[Callable[..., Any]] = [function.__wrapped__, _callable(function)]
        counts = [_calls_a_sample(call, args, kwargs, restore) for call in calls]
        samples: list[list[float]] = [[], []]
        end = perf_counter_ns() + int(seconds * 1e9)
        while len(samples[0]) < MOST_ROUNDS:
            order = (0, 1) if len(samples[0]) % 2 else (1, 0)
            for each in order:
                restore()
                samples[each].append(_sample(calls[each], args, kwargs, counts[each]))
            if perf_counter_ns() > end and len(samples[0]) >= LEAST_ROUNDS:
                break
    ratios = [plain / fused for plain, fused in zip(*samples, strict=True)]
    low, high = median_interval(ratios)
    return Comparison(
        function._name, median(ratios), low, high, median(samples[0]), median(samples[1]),
        len(ratios), [each for each in function.fallbacks if each not in known],
    )  # fmt: skip


def _callable(function: Any) -> Callable[..., Any]:
    """A fused function as something that is called."""
    found: Callable[..., Any] = function
    return found


def _calls_a_sample(
    call: Callable[..., Any], args: Any, kwargs: Any, restore: Callable[[], None]
) -> int:
    """How many calls make one sample; the first calls compile, and warm caches."""
    for _ in range(2):
        restore()
        call(*args, **kwargs)
    restore()
    once = _sample(call, args, kwargs, 1) * 1e9
    return max(1, math.ceil(SAMPLE_NS / max(once, 1)))


def _sample(call: Callable[..., Any], args: Any, kwargs: Any, count: int) -> float:
    """Seconds of one call, from several."""
    start = perf_counter_ns()
    for _ in range(count):
        call(*args, **kwargs)
    return max(perf_counter_ns() - start, 1) / count / 1e9


@contextmanager
def _restored(args: Any, kwargs: Any) -> Iterator[Callable[[], None]]:
    """Keep what the arrays among arguments hold; gives what puts it back, and does so at the end.

    After the first calls it is known which arrays change, and only these are written.
    """
    _, leaves = trees.flatten((args, kwargs))
    held = [
        (leaf, leaf.copy()) for leaf in leaves
        if isinstance(leaf, np.ndarray) and leaf.flags.writeable
    ]  # fmt: skip
    changed: dict[int, tuple[Any, Any]] = {}
    looks = 0

    def restore() -> None:
        nonlocal looks
        looks += 1
        if looks <= 4:  # before the calls that are timed
            changed.update(
                (place, each) for place, each in enumerate(held)
                if each[0].tobytes() != each[1].tobytes()
            )  # fmt: skip
        for array, kept in changed.values():
            np.copyto(array, kept)

    try:
        yield restore
    finally:
        looks = 0
        restore()
