"""A machine that behaves as the model says is found again, and savings are split as they arose."""

from dataclasses import replace

import numpy as np
import pytest

from fuser.reports import cost_model
from fuser.reports.analysis import analyse
from fuser.reports.record import Record, Samples
from tests.reports import synthetic

COSTS = np.array([2e-7, 5e-11, 1e-10, 2e-9, 1e-7])


def obeying(noise: float = 0.0) -> Record:
    """A record whose compiled rows take exactly what the model says, up to noise."""
    made = synthetic.record(processes=2, blocks=1, workloads=synthetic.WORKLOADS[:9])
    generator = np.random.default_rng(5)
    cells = []
    for cell in made.cells:
        runs = []
        for run in cell.runs:
            if run.kernels is not None and run.planned_bytes is not None:
                book = cell.ledger
                counts = [run.kernels, run.planned_bytes, book.operations, book.elementary, 1]
                seconds = float(np.asarray(counts, float) @ COSTS)
                drawn = seconds * np.exp(generator.normal(0, noise, 2))
                samples = Samples([0, 1], [0, 0], [0, 1], [1000, 1000], list(1000 * drawn))
                run = replace(run, samples=samples)
            runs.append(run)
        cells.append(replace(cell, runs=runs))
    return replace(made, cells=cells, ceilings=())


def test_coefficients_are_found_again() -> None:
    """Exactly without noise; within their intervals with some."""
    table = cost_model.model_table(analyse(obeying()))
    for _, group in table.groupby("place"):
        assert np.allclose(group["cost_s"], COSTS, rtol=1e-3)
        assert (group["error"] < 1e-3).all()
    noisy = cost_model.model_table(analyse(obeying(noise=0.02)))
    byte = noisy[noisy["term"] == "one byte"]
    assert ((byte["cost_s_low"] <= COSTS[1]) & (COSTS[1] <= byte["cost_s_high"])).all()


def test_a_saving_is_launches_and_bytes_and_a_rest() -> None:
    """The parts add up; where the machine obeys nothing is left, where it does not it is shown."""
    table = cost_model.split_table(analyse(obeying()))
    assert len(table)
    sums = table["launches_s"] + table["bytes_s"] + table["rest_s"]
    assert np.allclose(sums, table["saved_s"])
    assert np.allclose(table["rest"], 0, atol=1e-3)
    real = cost_model.split_table(analyse(synthetic.record(processes=2, blocks=2)))
    assert np.allclose(real["launches"] + real["bytes"] + real["rest"], real["saved"])
    assert (real["rest"].abs() > 1e-3).any()


def test_no_launch_takes_milliseconds() -> None:
    """Where every kernel brings new memory, its cost is not called a launch's."""
    found = analyse(obeying())
    seen = [
        cost_model.Observation(
            each.row, each.counts, 1e-3 * float(each.counts[0]) + 1e-9, "beyond the caches"
        )
        for each in cost_model.observations(found)
    ]
    costs = cost_model.solve(seen)
    assert costs[0] <= cost_model.LONGEST_LAUNCH_S
    assert costs[4] <= cost_model.LONGEST_LAUNCH_S
    assert costs[1] > 0


def test_few_workloads_are_not_fitted() -> None:
    """Five coefficients from two workloads would say nothing."""
    few = analyse(synthetic.record(processes=2, blocks=2, workloads=synthetic.WORKLOADS[:2]))
    assert cost_model.fits(few) == []
    assert cost_model.sentence(few) == ""
    assert list(cost_model.split_table(few).columns) == cost_model.SPLIT


def test_no_cost_is_negative() -> None:
    """Least squares alone would give some below 0 on noisy rows."""
    found = cost_model.fits(analyse(synthetic.record(processes=2, blocks=2)))
    assert found
    assert all((fit.costs >= 0).all() and (fit.low >= 0).all() for fit in found)
    assert cost_model.sentence(analyse(obeying())).count("%") == len(found)
    assert pytest.approx(0, abs=1) == cost_model.fits(analyse(obeying()))[0].error * 100
