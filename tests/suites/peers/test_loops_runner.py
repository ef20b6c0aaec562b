"""Loops written by hand for numba: the workloads' results."""

import numpy as np
import pytest

from fuser.suites.checks.verify import flatten
from fuser.suites.peers.loop_programs import PROGRAMS
from fuser.suites.peers.loops_runner import LOOPS, LoopsRunner, StrictLoopsRunner
from fuser.suites.registry import program_workloads, resolve
from fuser.suites.runners import NotExpressibleError


def test_every_program_with_a_loop_has_a_loop_written_by_hand() -> None:
    """Matrix products without one are numba's own matter; nothing is written for another name."""
    named = {each.__name__ for each in PROGRAMS}
    assert named <= program_workloads().keys()
    assert all(" for " not in program_workloads()[name].formula()
               for name in program_workloads().keys() - named)  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_give_the_workloads_results(name: str) -> None:
    """As plain Python, on few elements, with what is left over of eight."""
    work = resolve(name)
    dtype = work.dtypes[0] if name in program_workloads() else "float64"
    given = work.inputs(19 * 8, dtype, 0, tuple((each, 19) for each in work.axes))
    found, expected = LOOPS[name](*given), work.function(*given)
    for ours, right in zip(flatten(found), flatten(expected), strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-9, atol=1e-12)


def test_a_workload_without_a_loop_is_refused() -> None:
    """By its name; a number that numba gives is of the arrays' type."""
    runner = LoopsRunner()
    if reason := runner.unavailable():
        pytest.skip(reason)
    with pytest.raises(NotExpressibleError, match="no loop"):
        runner.prepare(resolve("axpy").function, ())
    x = np.ones(64, np.float32)
    found = runner.fetch(runner.prepare(resolve("sum_of_squares").function, (x,))(x))
    assert (found, found.dtype) == (64, np.float32)


def test_loops_without_fastmath_keep_the_order_of_sums() -> None:
    """The same loop, compiled without the promise: a recurrence has Python's bits."""
    runner = StrictLoopsRunner()
    if reason := runner.unavailable():
        pytest.skip(reason)
    work = resolve("garch")
    given = work.inputs(500, "float64", 1)
    found = runner.fetch(runner.prepare(work.function, given)(*given))
    assert np.array_equal(found, LOOPS["garch"](*given))
