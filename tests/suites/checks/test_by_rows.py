"""Large results verified by parts."""

import numpy as np
import pytest

from fuser.suites.checks import by_rows
from fuser.suites.checks.by_rows import PartReference, expected_of, goes_by_rows, rows_between
from fuser.suites.checks.verify import Reference, nbytes
from fuser.suites.registry import workloads
from tests.suites.cheats import DOUBLE


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("axpy", True), ("gelu_bias", True), ("softmax", True), ("first_powers", True),
        ("transposed", False), ("laplacian", False), ("column_mean", False),
        ("sum_of_squares", False), ("reversed_difference", False), ("running_average", False),
    ],
)
def test_what_goes_by_rows_is_found_out(name: str, expected: bool) -> None:
    """Where a row of the result needs the same row of the arguments and no other."""
    workload = workloads()[name]
    assert goes_by_rows(workload, workload.dtypes[0]) is expected


def test_rows_are_cut_from_what_has_them() -> None:
    """A vector beside a matrix belongs to its columns, however long it is."""
    matrix, vector = np.ones((5, 5)), np.ones(5)
    cut = rows_between((matrix, vector, 2.0), 1, 3)
    assert [np.shape(each) for each in cut] == [(2, 5), (5,), ()]


def test_every_kind_of_wrong_result_is_found() -> None:
    """At the ends, not written anywhere, of another shape or dtype; and a right one passes."""
    (x,) = DOUBLE.inputs(1_000_000, "float32", 0)
    parts = PartReference(DOUBLE, (x,), "float32", 7)
    assert nbytes(parts) == 4_000_000
    right = x + x
    assert not parts.judge(right, 1e-6).problem
    for place in (0, -1):
        wrong = right.copy()
        wrong[place] += 1
        assert "relative error" in parts.judge(wrong, 1e-6).problem
    hole = right.copy()
    hole[500_001:500_003].view(np.uint8)[...] = 0xFF
    assert parts.judge(hole, 1e-6).problem
    assert "expected" in parts.judge(right[1:], 1e-6).problem
    assert "expected" in parts.judge(right.astype(np.float64), 1e-6).problem


def test_only_large_results_are_verified_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are held against the whole formula."""
    arguments = DOUBLE.inputs(5000, "float32", 0)
    assert isinstance(expected_of(DOUBLE, arguments, "float32", 0), Reference)
    monkeypatch.setattr(by_rows, "LEAST_ELEMENTS", 4000)
    assert isinstance(expected_of(DOUBLE, arguments, "float32", 0), PartReference)
    sums = workloads()["sum_of_squares"]
    whole = sums.inputs(5000, "float32", 0)
    assert isinstance(expected_of(sums, whole, "float32", 0), Reference)
