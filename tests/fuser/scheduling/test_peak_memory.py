"""Memory held at once: planned beside unfused, for workloads, random and awkward programs."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import fuser
from fuser import executor
from fuser.base import trees
from fuser.capture.tracer import trace_call
from fuser.compiler import compile_upfront
from fuser.ir.graph import Graph
from fuser.scheduling import schedule
from fuser.scheduling.schedule import planned_peak_bytes, unfused_peak_bytes
from fuser.suites.registry import program_workloads, workloads
from tests.fuser.random_programs import random_program
from tests.fuser.randomly import randomly

X = np.ones((64, 256), np.float32)
#: Single numbers that wait between kernels, as results of whole sums do, are not held against them.
NUMBERS_BYTES = 128


def peaks(function: Any, args: tuple[Any, ...]) -> tuple[int, int] | None:
    """Planned and unfused peak bytes of a call; None where NumPy's functions run between."""
    structure, leaves = trees.flatten((args, {}))
    graph: Graph = trace_call(function, structure, leaves).graph
    if graph.has_externs:
        return None
    arrays, _ = executor.check_arguments(graph, args)
    sizes = executor.sizes_of(graph, {name: array.shape for name, array in arrays.items()})
    assert sizes is not None
    plan = compile_upfront(graph).plan
    return planned_peak_bytes(plan, sizes), unfused_peak_bytes(graph, sizes)


def test_peaks_counted_by_hand() -> None:
    """An exponential, then a sum: one array at a time; fused, only the result."""
    assert peaks(lambda x: (np.exp(x) * 2).sum(), (X,)) == (4, 2 * X.nbytes)
    assert peaks(lambda x: (x + 1, x.T * 2), (X,)) == (2 * X.nbytes, 2 * X.nbytes)


def test_no_workload_holds_more_than_its_operations_one_by_one() -> None:
    """Every workload of the suite that is fused as one graph; unrolled loops are no such plans."""
    tried = 0
    for name, workload in workloads().items():
        if workload.family == "must refuse" or name in program_workloads():
            continue
        found = peaks(workload.function, tuple(workload.inputs(4096, workload.dtypes[0], 0)))
        if found is not None:
            assert found[0] <= found[1], (workload.name, found)
            tried += 1
    assert tried >= 40


@randomly(30)
@given(seed=st.integers(0, 2**32), length=st.sampled_from([6, 12, 30]))
def test_random_programs_hold_no_more(seed: int, length: int) -> None:
    """All dtypes, views, joins, choices."""
    program = random_program(Random(seed), length=length)
    note(repr(program))
    try:
        found = peaks(program, tuple(program.inputs))
    except fuser.base.errors.Unsupported:  # lengths that are only equal because they are 0
        return
    assert found is None or found[0] <= found[1] + NUMBERS_BYTES


def joined(x: Any) -> Any:
    """Ten joined arrays, each used twice."""
    total = 0.0
    for k in range(10):
        both = np.concatenate([x * k, x + k])
        total = total + (both[::-1] * both).sum()
    return total


def exponentials(x: Any) -> Any:
    """Eight arrays that are costly and broadcast, then summed."""
    total = 0
    for k in range(8):
        total = total + (np.exp(x * k)[None] * x[:4, None, :]).sum()
    return total


def stencils(x: Any) -> Any:
    """Six chains of stencils, each stored on the way."""
    total = 0.0
    for k in range(6):
        y = np.sin(x * k)
        for _ in range(5):
            y = y[1:-1, 1:-1] + y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2]
        total = total + y.sum()
    return total


@pytest.mark.parametrize(
    ("function", "factor"), [(joined, schedule.PEAK_LIMIT), (exponentials, 1.0), (stencils, 1.02)]
)
def test_sharing_loops_does_not_keep_everything_alive(function: Any, factor: float) -> None:
    """What would be read together is freed one by one instead, and the result is NumPy's."""
    found = peaks(function, (X,))
    assert found is not None
    assert found[0] <= found[1] * factor + NUMBERS_BYTES
    small = np.linspace(0.1, 1, 20 * 24).reshape(20, 24)
    fused = fuser.fuse(function, fallback="error")(small)
    np.testing.assert_allclose(fused, function(small), rtol=1e-12)
