"""What a workload promises: inputs by seed, tolerances by dtype, a formula to show."""

from dataclasses import replace

import numpy as np
import pytest

from fuser.suites.workload import (
    DISTINCT,
    Workload,
    matrix_and_rows,
    normal,
    normals,
    number_of,
    side,
    uniform,
)
from tests.suites.cheats import DOUBLE

ROWS = Workload("r", "test", "", np.add, matrix_and_rows(1), axes={"hidden": (4, 33)})


def test_the_same_seed_gives_the_same_inputs() -> None:
    """And another seed gives others."""
    first, again, other = (DOUBLE.inputs(100, "float32", seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.dtype == np.float32


def test_tolerance_follows_the_dtype() -> None:
    """In epsilons for floats, exact for integers."""
    assert DOUBLE.tolerance("float32") == 16 * np.finfo(np.float32).eps
    assert DOUBLE.tolerance("float64") == 16 * np.finfo(np.float64).eps
    assert DOUBLE.tolerance("int64") == 0.0


def test_tolerance_grows_with_the_terms_of_a_sum() -> None:
    """By their logarithm or their root, and an axis says how many there are."""
    epsilon = float(np.finfo(np.float32).eps)
    whole = Workload("w", "test", "", np.sum, normals(1), reduced=lambda n: n, tolerance_eps=10)
    assert whole.tolerance("float32", 1024) == pytest.approx(20 * epsilon)
    axes = {"hidden": (16, 64)}
    rows = replace(whole, axes=axes, reduced=lambda n, hidden: hidden, growth="root")
    assert rows.tolerance("float32", 1024) == pytest.approx(13 * epsilon)
    assert rows.tolerance("float32", 1024, (("hidden", 64),)) == pytest.approx(17 * epsilon)


def test_axes_have_defaults() -> None:
    """The first value, unless a cell names another; makers get them by name."""
    assert ROWS.axis_values() == {"hidden": 4}
    assert [ROWS.inputs(100, "float32", 0, axes)[0].shape for axes in ((), (("hidden", 33),))] == [
        (25, 4), (3, 33),
    ]
    assert ROWS.inputs(3, "float32", 0)[0].shape == (1, 3)
    assert len(ROWS.inputs(3, "float32", 0)) == 2


def test_numbers_of_elements_have_binary_suffixes() -> None:
    """k and M; anything else is no number."""
    assert [number_of(each) for each in ("16k", "4M", "100")] == [1 << 14, 1 << 22, 100]
    assert [number_of(each) for each in ("S", "M", "0", "-1", "1.5", "", "k")] == [None] * 7


def test_the_formula_is_the_source() -> None:
    """A function without source is shown by its repr."""
    assert DOUBLE.formula().startswith("def double")
    assert "ufunc" in Workload("sine", "test", "", np.sin, normals(1)).formula()


def test_notes_may_depend_on_the_size() -> None:
    """A note is text or a function of the number of elements."""
    noted = Workload("noted", "test", "", np.sin, normals(1), note=lambda n: f"{n} elements")
    assert noted.describe(5) == "5 elements"
    assert DOUBLE.describe(5) == ""


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_large_arrays_repeat_a_prime_number_of_values(dtype: str) -> None:
    """So that a block of 2^n elements read at the wrong place is seen."""
    values = normal(np.random.default_rng(0), 2 * DISTINCT, np.dtype(dtype))
    assert values.dtype == dtype
    assert np.array_equal(values[:DISTINCT], values[DISTINCT:])
    assert all(DISTINCT % factor for factor in range(2, 600))


def test_uniform_values_keep_their_range() -> None:
    """Low is included, high is not."""
    values = uniform(np.random.default_rng(0), (10, 10), np.dtype(np.float64), 2.0, 3.0)
    assert values.shape == (10, 10)
    assert values.min() >= 2.0
    assert values.max() <= 3.0


def test_side_is_the_nearest_square() -> None:
    """At least one."""
    assert [side(n) for n in (1, 16, 17, 1 << 22)] == [1, 4, 4, 2048]
