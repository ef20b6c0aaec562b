"""Every workload at tiny and odd sizes: it runs, and NumPy is within its tolerance."""

import numpy as np
import pytest

from fuser.suites.checks.verify import compare, flatten, reference
from fuser.suites.families.real_data import tiled
from fuser.suites.registry import workloads
from fuser.suites.workload import Workload

CASES = [
    pytest.param(workload, dtype, id=f"{workload.name}-{dtype}")
    for workload in workloads().values()
    for dtype in workload.dtypes
]


@pytest.mark.parametrize(("workload", "dtype"), CASES)
@pytest.mark.parametrize("elements", [1, 7, 4096])
def test_numpy_is_within_the_tolerance(workload: Workload, dtype: str, elements: int) -> None:
    """The tolerance admits NumPy's own rounding, with room to spare."""
    if reason := workload.unavailable():
        pytest.skip(reason)
    arguments = workload.inputs(elements, dtype, 3)
    accuracy = compare(
        workload.function(*arguments),
        reference(workload, arguments, dtype),
        workload.tolerance(dtype, elements),
    )
    assert not accuracy.problem
    assert accuracy.max_relative_error <= workload.tolerance(dtype, elements) * 0.7


def test_there_are_workloads_of_every_family() -> None:
    """At least sixty, under at least fourteen families."""
    assert len(workloads()) >= 60
    assert len({workload.family for workload in workloads().values()}) >= 14


AXES = [
    pytest.param(workload, name, value, id=f"{workload.name}-{name}{value}")
    for workload in workloads().values()
    for name, values in workload.axes.items()
    for value in values[1:]
    if value < 10_000
]


@pytest.mark.parametrize(("workload", "name", "value"), AXES)
def test_numpy_is_within_the_tolerance_along_every_axis(
    workload: Workload, name: str, value: int
) -> None:
    """Also where the last row has a remainder, and where a row is all there is."""
    axes, dtype = ((name, value),), workload.dtypes[0]
    for elements in (3, 20_000):
        arguments = workload.inputs(elements, dtype, 4, axes)
        accuracy = compare(
            workload.function(*arguments),
            reference(workload, arguments, dtype),
            workload.tolerance(dtype, elements, axes) * 0.7,
        )
        assert not accuracy.problem


@pytest.mark.parametrize("workload", workloads().values(), ids=lambda each: each.name)
def test_the_seed_changes_values_alone(workload: Workload) -> None:
    """A check writes other values into the arrays that are timed."""
    if reason := workload.unavailable():
        pytest.skip(reason)
    one, other = (workload.inputs(4096, workload.dtypes[0], seed) for seed in (1, 2))
    assert [np.shape(each) for each in one] == [np.shape(each) for each in other]


@pytest.mark.parametrize("workload", workloads().values(), ids=lambda each: each.name)
def test_a_wrong_element_is_outside_the_tolerance(workload: Workload) -> None:
    """One element off by a hundredth of the mean magnitude is found."""
    if reason := workload.unavailable():
        pytest.skip(reason)
    dtype = workload.dtypes[0]
    arguments = workload.inputs(5000, dtype, 3)
    outputs = [np.array(each, order="C") for each in flatten(workload.function(*arguments))]
    flat = outputs[-1].reshape(-1)
    if flat.dtype.kind in "fc":
        flat[-1] += flat.dtype.type(0.01) * max(np.mean(np.abs(flat)), abs(flat[-1]))
    else:
        flat[-1] ^= 1
    tolerance = workload.tolerance(dtype, 5000)
    assert compare(outputs, reference(workload, arguments, dtype), tolerance).problem


def test_tiling_mirrors_at_the_edges() -> None:
    """Neighbours across a seam are equal, and the size is about the one asked for."""
    plane = np.arange(12.0).reshape(3, 4)
    large = tiled(plane, 1000)
    assert 900 <= large.size <= 1000
    assert np.array_equal(large[:3, :4], plane)
    assert np.array_equal(large[3], large[2])
    assert np.array_equal(large[:, 4], large[:, 3])


def test_real_data_say_what_was_tiled_and_how_often() -> None:
    """The note names the file and the number of repetitions."""
    for workload in workloads().values():
        if not workload.synthetic and workload.unavailable() is None:
            note = workload.describe(4 << 20)
            assert "matplotlib" in note
            assert "times over" in note


@pytest.mark.parametrize("name", ["durbin", "conjugate_gradients"])
def test_values_in_another_order_leave_a_system_that_can_be_solved(name: str) -> None:
    """The harness writes arguments again, one place further on, and changes elements of them."""
    work = workloads()[name]
    arguments = work.inputs(10_000, "float64", 3)
    moved = tuple(np.roll(each, 1) if isinstance(each, np.ndarray) else each for each in arguments)
    for given in (arguments, moved):
        found = work.function(*given)
        assert np.max(np.abs(found)) < 10  # nor is it NaN
