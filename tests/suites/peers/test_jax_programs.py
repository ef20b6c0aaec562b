"""Programs written for JAX: they are programs of ours, and give the workloads' results."""

import inspect

import numpy as np
import pytest

from fuser.suites.checks.verify import compare, other_dtypes, reference
from fuser.suites.peers.jax_programs import STATIC, JaxProgramsRunner, programs
from fuser.suites.registry import program_workloads, resolve
from fuser.suites.runners import NotExpressibleError


@pytest.fixture(scope="module")
def runner() -> JaxProgramsRunner:
    """A runner with JAX loaded."""
    found = JaxProgramsRunner()
    if reason := found.unavailable():
        pytest.skip(reason)
    found.start()
    return found


def test_each_program_is_that_of_a_workload(runner: JaxProgramsRunner) -> None:
    """By name and by its arguments."""
    written = programs()
    assert STATIC.keys() <= written.keys() <= program_workloads().keys()
    for name, program in written.items():
        ours = inspect.signature(program_workloads()[name].function)
        assert list(inspect.signature(program).parameters) == list(ours.parameters)


@pytest.mark.parametrize(
    "name", ["jacobi_2d", "thomas", "conjugate_gradients", "line_search", "edit_distance", "mlp"]
)
def test_programs_give_the_workloads_results(runner: JaxProgramsRunner, name: str) -> None:
    """One of each kind of loop, and one that needs none; every run of the suite checks all."""
    work = resolve(name)
    given = work.inputs(300, work.dtypes[0], 2)
    found = runner.fetch(runner.prepare(work.function, given)(*runner.accept(given)))
    expected = reference(work, given)
    assert other_dtypes(found, expected) is None
    assert not compare(found, expected, work.tolerance(work.dtypes[0], 300)).problem


def test_a_loop_over_elements_is_refused(runner: JaxProgramsRunner) -> None:
    """Where nothing is written for it: JAX's own words are the reason."""
    work = resolve("nussinov")
    with pytest.raises(NotExpressibleError, match="boolean"):
        runner.prepare(work.function, work.inputs(9, "int64", 0))
    assert np.array_equal(runner.fetch(np.ones(2)), np.ones(2))
