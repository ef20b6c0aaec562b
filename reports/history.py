"""Rows over many saved runs: what changed, by how much, and at which commit.

A row's speed-up (eager NumPy over the row, in the same processes) is taken from each run of one
machine, in the order of time. Where its level changes is found by optimal partitioning, with a
penalty that grows with the noise between neighbouring runs; each change is dated to the commit of
the first run after it. Runs of different machines are never compared.

Source:
    Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal
    Processing Letters 12, 2005, pp. 105-108.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt

from fuser.reports.analysis import analyse
from fuser.reports.record import Machine, Record
from fuser.reports.statistics import geometric_mean

Vector = npt.NDArray[np.float64]
LEAST_RUNS = 4
"""Of fewer runs nobody can tell a step from noise."""
LEAST_CHANGE = 0.05
"""A smaller step is not reported: machines drift by as much."""
LEAST_NOISE_LOG = 0.01
"""Neighbouring runs that happen to be equal do not make a thousandth a step."""
PENALTY = 6.0
"""Times the variance of a run and the logarithm of their number: the squares that a step must
spare."""


@dataclass(frozen=True, slots=True)
class Point:
    """A row in one run: speed-up over eager, a pure number; `low` and `high` where there are."""

    run: str
    created_utc: str
    commit: str
    speedup: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level: the number of the first point after it, and levels on both sides."""

    place: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """Speed after over speed before: below 1 the row got slower."""
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class Line:
    """A row of one machine over its runs, in the order of time."""

    machine: str
    cell: str
    variant: str
    points: Sequence[Point]
    steps: Sequence[Step]

    def dated(self, step: Step) -> str:
        """Say between which commits a step lies: `a1b2c3d..e4f5a6b`, or the run where unknown."""
        before, after = self.points[step.place - 1], self.points[step.place]
        if not before.commit or not after.commit or before.commit == after.commit:
            return f"{after.run} ({after.commit or 'no commit'})"
        return f"{before.commit}..{after.commit}"

    def level_at(self, place: int) -> float:
        """Give the level of a point: the geometric mean between the steps around it."""
        bounds = [0, *(step.place for step in self.steps), len(self.points)]
        first = max(each for each in bounds[:-1] if each <= place)
        last = min(each for each in bounds if each > first)
        return geometric_mean([point.speedup for point in self.points[first:last]])


@dataclass(frozen=True, slots=True)
class Slower:
    """A row that is slower now than it was at a release; `ratio` is speed now over speed then."""

    line: Line
    then: float
    now: float

    @property
    def ratio(self) -> float:
        """Below 1."""
        return self.now / self.then


def histories(records: Iterable[Record]) -> list[Line]:
    """Sort the rows of saved runs into lines.

    Args:
        records: of any machines, in any order; a run that is given twice counts once.

    Returns:
        A line for each machine, cell and variant that two runs or more have a time of: those of
        one machine together, the ones with most runs first.
    """
    found: dict[tuple[str, str, str], dict[str, Point]] = defaultdict(dict)
    for record in records:
        machine = machine_of(record.machine)
        for row in analyse(record).rows:
            if row.speedup is None or not row.label.timed or row.variant.kind == "eager":
                continue
            point = Point(
                record.run_id, record.created_utc, (record.commit or "")[:10], row.speedup.value,
                row.speedup.low, row.speedup.high,
            )  # fmt: skip
            found[machine, row.cell.id, row.variant.name][record.run_id] = point
    lines = []
    for (machine, cell, variant), points in found.items():
        ordered = sorted(points.values(), key=lambda each: (each.created_utc, each.run))
        if len(ordered) > 1:
            steps = steps_of([point.speedup for point in ordered])
            lines.append(Line(machine, cell, variant, ordered, steps))
    return sorted(lines, key=lambda each: (each.machine, -len(each.points), each.cell))


def machine_of(machine: Machine) -> str:
    """Name a machine so that runs of another kind are told apart."""
    accelerator = f", {machine.accelerator}" if machine.accelerator else ""
    return f"{machine.cpu}, {machine.cores_logical} cores{accelerator}"


def steps_of(speedups: Sequence[float]) -> list[Step]:
    """Find where the level of a row changes.

    Args:
        speedups: one a run, in the order of time; positive.

    Returns:
        Steps of at least `LEAST_CHANGE`, in order; none of fewer than `LEAST_RUNS` runs.
    """
    if len(speedups) < LEAST_RUNS:
        return []
    logs = np.log(np.asarray(speedups, dtype=np.float64))
    penalty = PENALTY * noise_log(logs.tolist()) ** 2 * math.log(len(logs))
    places = _ends_of_levels(logs, penalty)
    levels = [geometric_mean(speedups[a:b]) for a, b in pairwise([0, *places])]
    return [
        Step(place, before, after)
        for place, before, after in zip(places, levels, levels[1:], strict=False)
        if abs(math.log(after / before)) > math.log1p(LEAST_CHANGE)
    ]


def _ends_of_levels(values: Vector, penalty: float) -> list[int]:
    """Divide values into levels: the fewest squares around their means, and a penalty for each.

    Returns:
        Where each level ends, in order; the last is the number of values.
    """
    counts = np.arange(len(values) + 1)
    sums, squares = (np.cumsum([0.0, *each]) for each in (values, values * values))
    least = np.zeros(1)  # of the first k values
    begins = [0]  # of the last level of the first k values
    for end in counts[1:]:
        level = sums[end] - sums[:end]
        spread = squares[end] - squares[:end] - level * level / (end - counts[:end])
        total = least + spread + penalty
        begins.append(int(np.argmin(total)))
        least = np.append(least, total[begins[-1]])
    ends = [len(values)]
    while begins[ends[0]]:
        ends.insert(0, begins[ends[0]])
    return ends


def noise_log(logs: Sequence[float]) -> float:
    """Give the standard deviation of one run, from neighbours, which steps hardly change.

    Source:
        von Neumann, "Distribution of the ratio of the mean square successive difference to the
        variance", Annals of Mathematical Statistics 12, 1941: the difference of neighbours, here by
        its median (1.4826 makes the median deviation of a normal its standard deviation).
    """
    apart = [abs(b - a) for a, b in pairwise(logs)]
    return max(LEAST_NOISE_LOG, 1.4826 * median(apart) / math.sqrt(2))


def slower_since(lines: Sequence[Line], release: str) -> list[Slower]:
    """List rows whose level is lower now than at a release, the most slowed first.

    Args:
        lines: as `histories` gives them.
        release: the beginning of a commit, or a run's name. Of several runs the last counts.

    Raises:
        LookupError: no run is of it.
    """
    found, known = [], False
    for line in lines:
        places = [
            k for k, point in enumerate(line.points)
            if point.run == release or (release and point.commit.startswith(release[:10]))
        ]  # fmt: skip
        if not places:
            continue
        known = True
        then, now = line.level_at(places[-1]), line.level_at(len(line.points) - 1)
        if now < then / (1 + LEAST_CHANGE):
            found.append(Slower(line, then, now))
    if not known:
        raise LookupError(release)
    return sorted(found, key=lambda each: each.ratio)
