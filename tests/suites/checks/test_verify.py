"""Judging results: distances, shapes, dtypes, NaN, and remembered comparisons."""

import re

import numpy as np
import pytest

from fuser.suites.checks.verify import (
    Accuracy,
    compare,
    compare_or_recall,
    copies,
    flatten,
    nbytes,
    poison,
    reference,
    refill,
    unchanged,
)
from fuser.suites.workload import Workload, normals
from tests.suites.cheats import DOUBLE

X = np.array([1.0, -2.0, 3.0], np.float32)
EXPECTED = reference(DOUBLE, (X,))


def test_the_reference_is_float64_and_knows_the_dtype() -> None:
    """The formula is evaluated in float64; the expected dtype is what NumPy gives."""
    assert EXPECTED.outputs[0].dtype == np.float64
    assert EXPECTED.dtypes == (np.dtype(np.float32),)
    assert nbytes(EXPECTED) == 12


def test_a_reference_of_the_same_dtype() -> None:
    """For workloads in which a last-bit difference changes the result."""
    same = Workload("same", "test", "", np.sqrt, normals(1), reference="same")
    assert reference(same, (np.ones(3, np.float32),)).outputs[0].dtype == np.float32


def test_right_results_pass_with_their_errors() -> None:
    """An error of one ulp is one ulp, and its relative distance is measured."""
    off = np.nextafter(X * 2, np.float32(10))
    accuracy = compare(off, EXPECTED, 1e-6, ulps=True)
    assert not accuracy.problem
    assert 0 < accuracy.max_relative_error < 1e-6
    assert accuracy.max_error_ulp == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (X * 2.001, "relative error"),
        (X.astype(np.float64) * 2, "dtype float64, expected float32"),
        (X[:2] * 2, r"shape \(2,\)"),
        ((X, X), "2 outputs"),
        (np.array([np.nan, -4, 6], np.float32), "NaN"),
        (np.array([np.inf, -4, 6], np.float32), "infinities"),
    ],
)
def test_wrong_results_say_what_is_wrong(result: object, problem: str) -> None:
    """Each way of being wrong has its text."""
    assert re.search(problem, compare(result, EXPECTED, 1e-6).problem)


def test_unusual_values_must_agree() -> None:
    """NaN with NaN, infinity with infinity; an overflow of the narrow dtype is an infinity."""
    x = np.array([np.nan, np.inf, -np.inf, 3e38, 1.0], np.float32)
    with np.errstate(over="ignore"):
        assert not compare(x * 2, reference(DOUBLE, (x,)), 1e-6).problem


def test_integers_must_be_equal() -> None:
    """One differing element is a problem."""
    x = np.arange(5)
    expected = reference(DOUBLE, (x,))
    assert not compare(x * 2, expected, 0.0).problem
    assert "1 of 5 elements differ" in compare(x * 2 + (x == 3), expected, 0.0).problem


def test_zero_is_its_own_reference() -> None:
    """No division by zero where everything is zero; an empty result is right."""
    zero = np.zeros(4, np.float32)
    assert compare(zero, reference(DOUBLE, (zero,)), 0.0) == Accuracy()
    assert "relative error" in compare(zero + 1, reference(DOUBLE, (zero,)), 1e-6).problem
    empty = np.zeros(0, np.float32)
    assert not compare(empty, reference(DOUBLE, (empty,)), 0.0).problem


def test_equal_results_are_judged_once() -> None:
    """The second equal result takes the first one's finding; another is judged for itself."""
    expected = reference(DOUBLE, (X,))
    first = compare_or_recall(X * 2, expected, 1e-6)
    assert compare_or_recall(X * 2, expected, 1e-6) is first
    assert compare_or_recall(X * 3, expected, 1e-6).problem


def test_results_come_in_any_container() -> None:
    """Tuples, lists and dicts are flattened in order."""
    assert flatten({"a": 1, "b": [2, (3,)]}) == (1, 2, 3)


def test_inputs_are_copied_compared_and_refilled() -> None:
    """A changed input is seen; refilling keeps the arrays' identity."""
    given = (np.arange(4.0), 2.5)
    before = copies(given)
    given[0][1] = 7
    assert not unchanged(given, before)
    refill(given, before)
    assert unchanged(given, before)
    poison(EXPECTED)
