"""What results make of rare values, judged where nothing depends on an order of operations."""

import random
from typing import Any

import numpy as np
import pytest

from fuser.suites.checks.edge_values import edges_of
from fuser.suites.registry import workloads
from fuser.suites.workload import Workload, normals

TOLERANCE = 1e-6


def logistic(x: Any, y: Any) -> Any:
    """Overflows far out in float32, where float64 does not."""
    return y / (1 + np.exp(-x))


LOGISTIC = Workload("logistic", "test", "a logistic", logistic, normals(2))


def _edges(workload: Workload, elements: int = 4096) -> tuple[Any, Any]:
    arguments = workload.inputs(elements, "float32", 1)
    return edges_of(workload, arguments, "float32", random.Random(1).randrange), arguments


def test_numpy_itself_is_right() -> None:
    """And other ways to compute the same, to the last few bits."""
    edges, (x, y) = _edges(LOGISTIC)
    with np.errstate(all="ignore"):
        assert edges.problem(logistic(x, y), TOLERANCE) is None
        other = (y.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
    assert edges.problem(other, TOLERANCE) is None


@pytest.mark.parametrize("kept", [np.isfinite, lambda r: ~np.isnan(r), lambda r: r != 0])
def test_what_is_lost_is_found(kept: Any) -> None:
    """Infinities, NaN, or zeros that become ones."""
    edges, (x, y) = _edges(LOGISTIC)
    with np.errstate(all="ignore"):
        right = logistic(x, y)
    found = edges.problem(np.where(kept(right), right, np.float32(1.0)), TOLERANCE)
    assert "values far out, NaN or infinities: 1.0, NumPy gives" in found


def test_libraries_of_others_get_finite_values_alone() -> None:
    """What they make of NaN is theirs to say."""
    arguments = LOGISTIC.inputs(4096, "float32", 1)
    assert edges_of(LOGISTIC, arguments, "float32", random.Random(1).randrange, finite=True)
    assert all(np.isfinite(each).all() for each in arguments)
    assert max(np.abs(each).max() for each in arguments) > 64


def test_of_very_many_elements_the_first_rows_are_judged() -> None:
    """The rare values are there."""
    edges, (x, y) = _edges(LOGISTIC, 1 << 20)
    assert edges.rows is not None
    assert not np.isfinite(x[: edges.rows]).all()
    assert np.isfinite(x[edges.rows :]).all()
    with np.errstate(all="ignore"):
        assert edges.problem(logistic(x, y), TOLERANCE) is None
    assert edges.problem(np.zeros_like(x), TOLERANCE) is not None


def test_loops_that_wait_for_values_are_not_tried() -> None:
    """They might wait for ever."""

    def halved(x: Any) -> Any:
        while np.max(x) > 1:
            x = x / 2
        return x

    assert _edges(Workload("halved", "test", "halves", halved, normals(1)))[0] is None
    assert _edges(workloads()["positive_roots"])[0] is None


def test_whole_numbers_have_no_rare_values() -> None:
    """Arrays that cannot be written have none either."""
    whole = Workload("whole", "test", "sums", lambda x: x + x, normals(1))
    for array in (np.arange(9), np.broadcast_to(1.5, 9)):
        assert edges_of(whole, (array,), "float32", random.Random(1).randrange) is None
