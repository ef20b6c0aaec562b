"""What one run measures: cells, variants, processes and the time they may take."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from fuser.suites import runners
from fuser.suites.pace import FEW, PATIENCE_S, pace
from fuser.suites.registry import workloads
from fuser.suites.workload import SWEEP, Axes, Workload

Preset = Literal["quick", "full", "custom"]
SizeName = Literal["S", "M", "L", "sweep"]

MODES = ("eager", "fallback", "unfused", "fused", "eager_into", "fused_into")
LEAST_INTO_BYTES = 1 << 20
"""Smaller arrays come from memory that the C library has at hand: into one adds nothing."""
QUICK_BUDGET_S = 200.0
FULL_BUDGET_S = 3600.0
SCALING_OPERATIONS = (10, 40, 160, 640)

# For the estimate of a run's length only; from runs on a machine with two cores.
PROCESS_START_S = 1.0
CEILINGS_S = 2.5
SCALING_S = 0.001  # an operation
REFERENCES = 3  # evaluations in float64: before, during and after timing
CHECKED_S = 2e-8  # an element of a result compared three times
MADE_S = 4e-9  # an element of an argument or result written and looked through
LARGE_ELEMENTS = 1 << 23
"""Of more elements other values are those of before in reverse: drawing them takes too long."""
SINGLE_CALLS = 7  # the first, two to calibrate, looking at results, the last
RELATIVE_TIME: Mapping[str, float] = {"eager": 1.0, "aa": 1.0, "fallback": 1.0, "fused": 0.3}
PEERS_BUDGET_S = 1200.0
PEERS_VARIANTS = ("eager", "fused", "fused_into")
PEERS_WORKLOADS = (
    "axpy", "polynomial", "multiply_add_pairs", "shifted_powers", "hypotenuse", "gelu_bias",
    "silu_mul", "scale_bias_relu", "bias_add", "black_scholes", "wave_times_decay",
    "cos_sin_chain", "law_of_cosines", "sine_and_log_root", "exp_tan_sinh", "angle_sum",
    "where_odd", "boolean_mix", "clip_integers", "strided", "transposed", "mixed_dtypes",
)
"""DESIGN 7.6's, numexpr's expressions, activations with bias, comparisons, layouts, dtypes."""
PEERS_ELEMENTS = (1 << 14, 1 << 18, 1 << 22, 1 << 24, 1 << 26)


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
    scaling: Sequence[int] = ()
    experiments: bool = False
    memory_bytes: int = 1 << 30
    stall_s: float = 120.0  # a worker that says nothing for so long is stopped
    longest_call_s: float = 60.0  # rows of which one call takes longer are not run
    alternate: bool = False  # all processes of a turn are alive and take blocks in turns
    keep_texts: bool = True  # plans, sources and assembly, for the report
    reuse_compiled: bool = False  # of peers that compile for seconds: once for all sizes
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
        if any(each.kind == "fused" for each in group):
            fixed_s += SCALING_S * sum(self.scaling)
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
    kind = "into" if runner.writes_into else runner.kind
    if kind == "eager" and type(runner) is not runners.EagerRunner:
        reason = "of kind eager, which is NumPy itself: a runner of yours is a peer"
    return VariantPlan(
        runner.name or name, spec, kind, runner.description, runner.own_process, reason,
        runner.typical_first_call_s,
    )


def quick_cells(chosen: Mapping[str, Workload] | None = None) -> list[CellPlan]:
    """Return the quick preset: first dtype, sizes S and M, six sizes for the sweep workloads.

    `chosen` holds other workloads by the name or `module:attribute` that worker processes resolve.
    """
    cells: dict[str, CellPlan] = {}
    for name, workload in (workloads() if chosen is None else chosen).items():
        if chosen is None and not workload.quick:
            continue
        for cell in _cells(name, workload, workload.dtypes[:1], ("S", "M")):
            cells[cell.id] = cell
        if workload.sweep:
            _add_sweep(cells, name, workload)
    return list(cells.values())


def full_cells() -> list[CellPlan]:
    """Return every workload, dtype and size, sweeps, and every value of an axis at size M.

    Size L and the axes are those of the first dtype.
    """
    cells: dict[str, CellPlan] = {}
    for name, workload in workloads().items():
        found = _cells(name, workload, workload.dtypes, ("S", "M"))
        found += _cells(name, workload, workload.dtypes[:1], ("L",))
        found += _along_axes(name, workload)
        for cell in found:
            cells[cell.id] = cell
        if workload.sweep:
            _add_sweep(cells, name, workload)
    return list(cells.values())


def _along_axes(name: str, workload: Workload) -> list[CellPlan]:
    return [
        CellPlan(name, workload.dtypes[0], workload.sizes["M"], "sweep", ((axis, value),))
        for axis, values in workload.axes.items()
        for value in values[1:]
    ]


def _cells(
    name: str, workload: Workload, dtypes: Sequence[str], sizes: Sequence[SizeName]
) -> list[CellPlan]:
    return [
        CellPlan(name, dtype, workload.sizes[size], size)
        for dtype in dtypes
        for size in sizes
    ]


def _add_sweep(cells: dict[str, CellPlan], name: str, workload: Workload) -> None:
    """Add the sweep's sizes; those no larger than the workload's own M, whatever its presets."""
    for elements in SWEEP:
        elements = min(elements, workload.sizes["M"])
        cell = CellPlan(name, workload.dtypes[0], elements, "sweep")
        cells.setdefault(cell.id, cell)


def quick_plan(**changes: Any) -> Plan:
    """Return the default run: at most four minutes with the report."""
    settings: dict[str, Any] = {
        "cells": quick_cells(),
        "variants": variants_for(),
        "preset": "quick",
        "most_processes": 6,
        "scaling": SCALING_OPERATIONS,
        "experiments": True,
    }
    return Plan(**(settings | changes))


def full_plan(**changes: Any) -> Plan:
    """Return everything: every workload, dtype and size, five processes."""
    settings: dict[str, Any] = {
        "cells": full_cells(),
        "variants": variants_for(),
        "preset": "full",
        "processes": 5,
        "most_processes": 10,
        "budget_s": FULL_BUDGET_S,
        "scaling": SCALING_OPERATIONS,
        "experiments": True,
    }
    return Plan(**(settings | changes))


def peers_plan(**changes: Any) -> Plan:
    """Return fused beside every other fuser: pointwise work, five sizes, two dtypes.

    NumPy runs in our processes alone: peers relate to it by their times, not pair by pair.
    """
    settings: dict[str, Any] = {
        "cells": peers_cells(),
        "variants": variants_for(aa=False),
        "processes": 3,
        "budget_s": PEERS_BUDGET_S,
        "most_blocks": 8,
        "least_blocks": 1,
        "longest_call_s": 2.0,
        "alternate": True,
        "keep_texts": False,
        "reuse_compiled": True,
    }
    return Plan(**(settings | changes))


def peers_cells() -> list[CellPlan]:
    """Return `PEERS_WORKLOADS` on 16 k to 64 M elements, in their first two dtypes."""
    return [
        CellPlan(name, dtype, elements, named_size(workloads()[name], elements))
        for name in PEERS_WORKLOADS
        for dtype in workloads()[name].dtypes[:2]
        for elements in PEERS_ELEMENTS
    ]


def named_size(workload: Workload, elements: int) -> SizeName:
    """Return the preset of so many elements, or that it is one of a sweep."""
    named = [preset for preset, count in workload.sizes.items() if count == elements]
    return cast(SizeName, named[0] if named else "sweep")


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
