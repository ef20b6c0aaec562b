"""Loops written by hand for numba: the workloads' results."""

import numpy as np
import pytest

from fuser.suites.checks.verify import flatten
from fuser.suites.peers.loops_runner import LOOPS, LoopsRunner
from fuser.suites.presets import ARRAYS
from fuser.suites.registry import resolve
from fuser.suites.runners import NotExpressibleError


@pytest.mark.parametrize("name", ARRAYS["rows"])
def test_loops_give_the_workloads_results(name: str) -> None:
    """As plain Python, on few elements, with what is left over of eight."""
    work = resolve(name)
    given = work.inputs(19 * 8, "float64", 0, tuple((each, 19) for each in work.axes))
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
