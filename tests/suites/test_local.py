"""Measuring a user's function in this process."""

from dataclasses import replace
from typing import Any

import numpy as np

from fuser.suites.local import LIMITS, measure_here, with_keywords, workload_of
from fuser.suites.plan import variants_for
from tests.suites import cheats

QUICK = replace(LIMITS, time_s=0.2, least_sample_s=1e-4, most_blocks=5, least_blocks=2)


def squared(x: Any, factor: float) -> Any:
    """A user's function with an array and a number."""
    return factor * x * x


def test_a_function_and_its_arguments_are_a_workload() -> None:
    """Fresh inputs hold the same values in another order; numbers stay."""
    given = (np.arange(20.0).reshape(4, 5), 2.5)
    workload = workload_of(squared, given, "squared")
    fresh = workload.inputs(20, workload.dtypes[0], 1)
    assert workload.dtypes == ("float64",)
    assert fresh[1] == 2.5
    assert fresh[0].shape == (4, 5)
    assert sorted(fresh[0].ravel()) == sorted(given[0].ravel())
    assert not np.array_equal(fresh[0], given[0])


def test_it_is_measured_and_verified_here() -> None:
    """Eager and a fuser side by side, a cheat found."""
    workload = workload_of(squared, (np.arange(64, dtype=np.float32), 0.5), "squared")
    names = ["eager", cheats.spec(cheats.Honest), cheats.spec(cheats.wrong)]
    cell = measure_here(workload, 64, variants_for(names), QUICK)
    assert [(run.variant, run.status) for run in cell.runs] == [
        ("eager", "ok"), ("eager_again", "ok"), ("honest", "ok"), ("wrong", "wrong"),
    ]
    assert set(cell.runs[0].samples.process) == {0}


def test_keywords_are_arguments_that_are_measured() -> None:
    """Arrays among them get fresh values, too."""
    called = with_keywords(squared, 1, ("factor",))
    assert called(3.0, 2.0) == 18.0
    assert called.__name__ == "squared"
    assert with_keywords(squared, 2, ()) is squared
