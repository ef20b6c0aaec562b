"""What one run measures: cells, variants, processes and the time they may take."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fuser.reports.record import Preset, SizeName
from fuser.suites import runners
from fuser.suites.pace import FEW, PATIENCE_S, pace
from fuser.suites.registry import workloads
from fuser.suites.workload import Axes

MODES = ("eager", "fallback", "unfused", "fused", "eager_into", "fused_into")
OTHER = "baseline"
"""The fuser of another checkout, beside ours."""
LEAST_INTO_BYTES = 1 << 20
"""Smaller arrays come from memory that the C library has at hand: into one adds nothing."""
QUICK_BUDGET_S = 200.0

# For the estimate of a run's length only; from runs on a machine with two cores.
PROCESS_START_S = 1.0
CEILINGS_S = 2.5
REFERENCES = 3  # evaluations in float64: before, during and after timing
CHECKED_S = 2e-8  # an element of a result compared three times
MADE_S = 4e-9  # an element of an argument or result written and looked through
LARGE_ELEMENTS = 1 << 23
"""Of more elements other values are those of before in reverse: drawing them takes too long."""
SINGLE_CALLS = 7  # the first, two to calibrate, looking at results, the last
RELATIVE_TIME: Mapping[str, float] = {"eager": 1.0, "aa": 1.0, "fallback": 1.0, "fused": 0.3}


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One workload at one dtype and size."""

    workload: str
    dtype: str
    elements: int
    size: SizeName
    axes: Axes = ()  # those that are not at their default

    @property
    def id(self) -> str:
        """Stable from run to run: `workload-dtype-elements`, then axes as `-hidden1000`."""
        base = f"{self.workload.rpartition(':')[2]}-{self.dtype}-{self.elements}"
        return "-".join([base, *(f"{name}{value}" for name, value in self.axes)])

    @property
    def array_bytes(self) -> int:
        """The size of its largest input."""
        return self.elements * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """One way of running the cells; `eager_again` is eager a second time (kind "aa")."""

    name: str
    runner: str
    kind: str
    description: str = ""
    own_process: bool = False
    absent_reason: str | None = None
    first_call_s: float = runners.Runner.typical_first_call_s
    checkout: str = ""  # folder of another checkout, whose fuser it runs


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the engine needs to know before it starts."""

    cells: Sequence[CellPlan]
    variants: Sequence[VariantPlan]
    preset: Preset = "custom"
    selected: frozenset[tuple[str, str]] | None = None  # (cell id, variant); None means all
    processes: int = 3
    most_processes: int = 0  # where there is no verdict after `processes` and time is left
    budget_s: float = QUICK_BUDGET_S
    seed: int = 0
    least_sample_s: float = 0.002
    most_blocks: int = 30
    least_blocks: int = 2
    ceilings: bool = True
    experiments: bool = False
    memory_bytes: int = 1 << 30
    stall_s: float = 120.0  # a worker that says nothing for so long is stopped
    longest_call_s: float = 60.0  # rows of which one call takes longer are not run
    alternate: bool = False  # all processes of a turn are alive and take blocks in turns
    keep_texts: bool = True  # plans, sources and assembly, for the report
    reuse_compiled: bool = False  # of peers that compile for seconds: once for all sizes
    aims: Mapping[str, float] = field(default_factory=dict)  # cell id -> the most it may be
    cold: bool = False  # first calls: each sample is from a process of its own
    command: Sequence[str] = field(default_factory=tuple)

    def too_long(self, cell: CellPlan, variant: VariantPlan) -> str | None:
        """Return why a row is not even begun: NumPy would need too long for one call."""
        call_s = eager_estimate_s(cell)
        if math.isinf(call_s):  # nobody can run it
            return f"NumPy did not end a call on {FEW} elements within {PATIENCE_S:g} s"
        if variant.kind not in ("eager", "aa", "fallback", "into"):
            return None
        if variant.kind == "into" and variant.name != "eager_into":
            return None
        if call_s <= self.longest_call_s:
            return None
        return f"one call takes about {call_s:.1f} s, longer than {self.longest_call_s:g} s"

    def wants(self, cell: CellPlan, variant: VariantPlan) -> bool:
        """Return whether this pair is to be measured."""
        if variant.absent_reason is not None:
            return False
        small = cell.array_bytes < LEAST_INTO_BYTES
        if variant.kind == "into" and small:
            known = workloads().get(cell.workload)  # one's own workloads are not among them
            if known is None or not known.small_into:
                return False
        return self.selected is None or (cell.id, variant.name) in self.selected

    def groups(self) -> list[list[VariantPlan]]:
        """Return which variants share worker processes: ours together, each peer with eager."""
        present = [each for each in self.variants if each.absent_reason is None]
        shared = [each for each in present if not each.own_process]
        # where processes alternate, the first one's NumPy is paired with every other's blocks
        eager = [each for each in shared if each.kind == "eager" and not self.alternate]
        groups = [shared] if shared else []
        alone: dict[str, list[VariantPlan]] = {}
        for each in present:
            if each.own_process:  # those of another checkout share its processes
                alone.setdefault(each.checkout or each.name, [*eager]).append(each)
        return groups + list(alone.values())

    def worker_count(self) -> int:
        """Return how many worker processes run, one after another."""
        return self.processes * len(self.groups())

    def estimate_s(self) -> float:
        """Return about how long the run takes: the budget, as far as the cells can use it."""
        least_s, most_s = self.bounds_s()
        return min(most_s, max(least_s, self.budget_s))

    def bounds_s(self) -> tuple[float, float]:
        """Return about how long the run takes with the fewest and with the most blocks."""
        bounds = [self._worker_bounds_s(group, not at) for at, group in enumerate(self.groups())]
        least_s = self.processes * sum(least for least, _ in bounds)
        return least_s, self.processes * sum(most for _, most in bounds)

    def _worker_bounds_s(
        self, group: Sequence[VariantPlan], first: bool
    ) -> tuple[float, float]:
        """Return one process's least and most seconds; the first group's measure ceilings."""
        fixed_s = PROCESS_START_S + (CEILINGS_S if self.ceilings and first else 0.0)
        block_s = 0.0
        for cell in self.cells:
            wanted = [
                each for each in group
                if self.wants(cell, each) and self.too_long(cell, each) is None
            ]
            if not wanted:
                continue
            eager_s = eager_estimate_s(cell)
            large = cell.elements > LARGE_ELEMENTS  # verified by parts
            fixed_s += (0.0 if large else REFERENCES * 2 * eager_s)
            checked_s = MADE_S if large else CHECKED_S
            fixed_s += cell.elements * checked_s * (len(wanted) + 2)
            for each in wanted:
                call_s = eager_s * RELATIVE_TIME.get(each.kind, 0.5)
                fixed_s += each.first_call_s + SINGLE_CALLS * call_s
                block_s += call_s + max(self.least_sample_s, call_s)
        return fixed_s + self.least_blocks * block_s, fixed_s + self.most_blocks * block_s


def eager_estimate_s(cell: CellPlan) -> float:
    """Guess one NumPy call's seconds from the workload's pace."""
    return pace(cell.workload, cell.dtype).estimate_s(cell.elements)


def variants_for(names: Iterable[str] | None = None, aa: bool = True) -> list[VariantPlan]:
    """Return the variants of the given names (default: our modes), absent ones with a reason.

    Raises:
        KeyError: a name that no runner has.
    """
    known = runners.specs()
    plans = []
    for name in MODES if names is None else names:
        spec = name if ":" in name else known[name]
        plans.append(_variant(name, spec))
        if aa and name == "eager":
            twin = "eager again: with eager it shows the noise of this machine"
            plans.append(VariantPlan("eager_again", spec, "aa", twin))
    return _told_apart(plans)


def of_checkout(variants: Sequence[VariantPlan], folder: str) -> list[VariantPlan]:
    """Return those of the variants that are the fuser's own, as another checkout has them."""
    return [
        replace(
            each, name=each.name.replace("fused", OTHER), own_process=True, checkout=folder,
            kind=OTHER if each.kind == "fused" else each.kind,
            description=f"the other checkout: {each.description}",
        )
        for each in variants if each.name in ("fused", "fused_into")
    ]


def _told_apart(plans: Sequence[VariantPlan]) -> list[VariantPlan]:
    """Return each variant once; one that has another's name goes by what it is loaded from."""
    ours = frozenset(runners.specs().values())
    found: dict[tuple[str, str], VariantPlan] = {}
    for each in plans:
        rivals = [one for one in plans if one.name == each.name and one.runner != each.runner]
        named = replace(each, name=each.runner) if rivals and each.runner not in ours else each
        found[named.name, named.runner] = named
    return list(found.values())


def _variant(name: str, spec: str) -> VariantPlan:
    try:
        runner = runners.load(spec)
        reason = runner.unavailable()
    except Exception as error:  # noqa: BLE001  (a third party's import may raise anything)
        return VariantPlan(name, spec, "peer", "", True, f"{type(error).__name__}: {error}")
    # a runner cannot stand in for NumPy, nor have its results' memory given and pass for the fuser
    kind = "into" if runner.writes_into and runner.kind != "ceiling" else runner.kind
    if kind == "eager" and type(runner) is not runners.EagerRunner:
        reason = "of kind eager, which is NumPy itself: a runner of yours is a peer"
    return VariantPlan(
        runner.name or name, spec, kind, runner.description, runner.own_process, reason,
        runner.typical_first_call_s,
    )


def blocks_within(
    time_s: float, block_costs_s: Sequence[float], least: int, most: int
) -> list[int]:
    """Share a time among cells: how many blocks each gets, cheap cells up to `most`.

    Each takes an equal share of the time that is left, cheapest first, so that what a cheap cell
    does not need goes to the dear ones.
    """
    counts = [least] * len(block_costs_s)
    order = sorted(range(len(block_costs_s)), key=lambda index: block_costs_s[index])
    for position, index in enumerate(order):
        share_s = max(0.0, time_s) / (len(order) - position)
        cost_s = max(block_costs_s[index], 1e-9)
        counts[index] = max(least, min(most, math.floor(share_s / cost_s)))
        time_s -= counts[index] * cost_s
    return counts
