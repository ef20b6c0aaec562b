"""What one run measures: cells, variants, processes and the time they may take."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fuser.suites import runners
from fuser.suites.registry import resolve, workloads
from fuser.suites.workload import SWEEP, Workload

Preset = Literal["quick", "full", "custom"]
SizeName = Literal["S", "M", "L", "sweep"]

AA_PAIR = ("eager", "eager_again")
MODES = ("eager", "fallback", "unfused", "fused", "eager_into", "fused_into")
LEAST_INTO_BYTES = 1 << 20
"""Smaller arrays come from memory that the C library has at hand: into one adds nothing."""
QUICK_BUDGET_S = 200.0
FULL_BUDGET_S = 3600.0
SCALING_OPERATIONS = (10, 40, 160, 640)
PROCESS_START_S = 1.0
SLOW_UFUNCS = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh arctan power arctan2".split()
)


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One workload at one dtype and size."""

    workload: str
    dtype: str
    elements: int
    size: SizeName

    @property
    def id(self) -> str:
        """Stable from run to run: `workload-dtype-elements`."""
        return f"{self.workload.rpartition(':')[2]}-{self.dtype}-{self.elements}"

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


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the engine needs to know before it starts."""

    cells: Sequence[CellPlan]
    variants: Sequence[VariantPlan]
    preset: Preset = "custom"
    selected: frozenset[tuple[str, str]] | None = None  # (cell id, variant); None means all
    processes: int = 3
    budget_s: float = QUICK_BUDGET_S
    seed: int = 0
    least_sample_s: float = 0.002
    most_blocks: int = 30
    least_blocks: int = 2
    ceilings: bool = True
    scaling: Sequence[int] = ()
    memory_bytes: int = 1 << 30
    stall_s: float = 120.0  # a worker that says nothing for so long is stopped
    command: Sequence[str] = field(default_factory=tuple)

    def wants(self, cell: CellPlan, variant: VariantPlan) -> bool:
        """Return whether this pair is to be measured."""
        if variant.absent_reason is not None:
            return False
        if variant.kind == "into" and cell.array_bytes < LEAST_INTO_BYTES:
            return False
        return self.selected is None or (cell.id, variant.name) in self.selected

    def groups(self) -> list[list[VariantPlan]]:
        """Return which variants share worker processes: ours together, each peer with eager."""
        present = [each for each in self.variants if each.absent_reason is None]
        shared = [each for each in present if not each.own_process]
        eager = [each for each in shared if each.kind == "eager"]
        groups = [shared] if shared else []
        return groups + [[*eager, each] for each in present if each.own_process]

    def worker_count(self) -> int:
        """Return how many worker processes run, one after another."""
        return self.processes * len(self.groups())

    def estimate_s(self) -> float:
        """Return about how long the run takes: what the cells need, at most the budget."""
        total_s = 0.0
        for group in self.groups():
            total_s += self.processes * self._worker_estimate_s(group)
        return min(total_s, self.budget_s)

    def _worker_estimate_s(self, group: Sequence[VariantPlan]) -> float:
        total_s = PROCESS_START_S + (2.0 if self.ceilings else 0.0) + 0.5 * len(self.scaling)
        for cell in self.cells:
            wanted = [each for each in group if self.wants(cell, each)]
            call_s = eager_estimate_s(resolve(cell.workload), cell)
            sample_s = max(self.least_sample_s, call_s)
            total_s += sum(each.first_call_s for each in wanted)
            total_s += len(wanted) * (6 * call_s + self.most_blocks * sample_s)
        return total_s


class OperationCounter(np.ndarray[Any, Any]):
    """An array that counts the ufuncs applied to it, weighed by what an element costs."""

    total = 0.0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        OperationCounter.total += 8.0 if ufunc.__name__ in SLOW_UFUNCS else 1.0
        plain = [
            each.view(np.ndarray) if isinstance(each, OperationCounter) else each for each in inputs
        ]
        result = getattr(ufunc, method)(*plain, **kwargs)
        return result.view(OperationCounter) if isinstance(result, np.ndarray) else result


def eager_estimate_s(workload: Workload, cell: CellPlan) -> float:
    """Guess one NumPy call's seconds: 0.7 ns an element and operation, 1 us an operation."""
    if workload.unavailable() is not None:
        return 0.0
    arguments = workload.inputs(16, cell.dtype, 0)
    OperationCounter.total = 0.0
    with np.errstate(all="ignore"):
        workload.function(
            *(
                each.view(OperationCounter) if isinstance(each, np.ndarray) else each
                for each in arguments
            )
        )
    operations = max(1.0, OperationCounter.total)
    width = np.dtype(cell.dtype).itemsize / 4
    return operations * (1e-6 + cell.elements * width * 0.7e-9)


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
    return plans


def _variant(name: str, spec: str) -> VariantPlan:
    try:
        runner = runners.load(spec)
        reason = runner.unavailable()
    except Exception as error:  # noqa: BLE001  (a third party's import may raise anything)
        return VariantPlan(name, spec, "peer", "", True, f"{type(error).__name__}: {error}")
    return VariantPlan(
        runner.name or name, spec, runner.kind, runner.description, runner.own_process, reason,
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
    """Return every workload, dtype and size, with the sweep for all that have one."""
    cells: dict[str, CellPlan] = {}
    for name, workload in workloads().items():
        for cell in _cells(name, workload, workload.dtypes, ("S", "M", "L")):
            cells[cell.id] = cell
        if workload.sweep:
            _add_sweep(cells, name, workload)
    return list(cells.values())


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
        "scaling": SCALING_OPERATIONS,
    }
    return Plan(**(settings | changes))


def full_plan(**changes: Any) -> Plan:
    """Return everything: every workload, dtype and size, five processes."""
    settings: dict[str, Any] = {
        "cells": full_cells(),
        "variants": variants_for(),
        "preset": "full",
        "processes": 5,
        "budget_s": FULL_BUDGET_S,
        "scaling": SCALING_OPERATIONS,
    }
    return Plan(**(settings | changes))


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
