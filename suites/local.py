"""Measuring one function in this process: for the fixture `fused_benchmark` and for notebooks.

One process gives no interval (two runs of the same code in two processes differ by more than the
samples of one tell); three or more of the engine's worker processes give one.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from fuser.reports.record import Cell
from fuser.suites import runners
from fuser.suites.collect import Collector
from fuser.suites.measuring import Limits, Measurement
from fuser.suites.plan import CellPlan, Plan, VariantPlan, variants_for
from fuser.suites.workload import Arguments, Workload

LIMITS = Limits(
    time_s=2.0, least_sample_s=0.001, least_blocks=5, most_blocks=30, memory_bytes=1 << 30, seed=0
)


def workload_of(
    function: Callable[..., Any], arguments: Arguments, name: str, tolerance_eps: float = 64.0
) -> Workload:
    """Return a workload of any function and the arguments of one call.

    Fresh inputs, which the checks need, are the given arrays with their values in another order.
    """

    def shuffled(
        elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
    ) -> Arguments:
        return tuple(
            generator.permutation(each.reshape(-1)).reshape(each.shape)
            if isinstance(each, np.ndarray)
            else each
            for each in arguments
        )

    dtypes = [each.dtype for each in arguments if isinstance(each, np.ndarray)]
    floating = [each for each in dtypes if each.kind == "f"] or dtypes or [np.dtype(np.float64)]
    return Workload(
        name, "user's own", name, function, shuffled, dtypes=(floating[0].name,),
        tolerance_eps=tolerance_eps,
    )


def with_keywords(
    function: Callable[..., Any], positional: int, names: Sequence[str]
) -> Callable[..., Any]:
    """Return a function of positional arguments alone, the last of which are keywords of another.

    Args:
        function: what is called.
        positional: how many arguments it has before its keywords.
        names: of these keywords.
    """
    if not names:
        return function

    @wraps(function)
    def called(*values: Any) -> Any:
        keywords = dict(zip(names, values[positional:], strict=True))
        return function(*values[:positional], **keywords)

    return called


def measure_here(
    workload: Workload,
    elements: int,
    variants: Sequence[VariantPlan] | None = None,
    limits: Limits | None = None,
) -> Cell:
    """Measure one workload at one size in this process, all variants interleaved and verified."""
    chosen = variants_for() if variants is None else list(variants)
    cell = CellPlan(workload.name, workload.dtypes[0], elements, "sweep")
    collector = Collector(Plan([cell], chosen, processes=1), {workload.name: workload})
    present = {
        index: runners.load(each.runner)
        for index, each in enumerate(chosen)
        if each.absent_reason is None
    }
    for runner in present.values():
        runner.start()
    rows = [(0, cell, workload, list(present))]
    Measurement(rows, present, limits or LIMITS, lambda event: collector.add(0, event)).run()
    return collector.cells()[0]
