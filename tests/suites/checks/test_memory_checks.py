"""Results that are right and lie in the wrong memory; and cheats of more kinds."""

import random
import re
from typing import Any

import numpy as np
import pytest

from fuser.reports.record import Record
from fuser.suites.checks.memory_checks import Nudge, converted_elsewhere, layout, problem_of
from fuser.suites.engine import Engine
from fuser.suites.plan import CellPlan, Plan, variants_for
from tests.suites import cheats, more_cheats

X = np.arange(12.0).reshape(3, 4)


def test_a_layout_is_the_order_of_axes_and_whether_there_are_gaps() -> None:
    """Axes of length one and few elements have none; a reversed axis lies as it did."""
    assert layout(X) == ((0, 1), True)
    assert layout(X.T) == ((1, 0), True)
    assert layout(X[:, ::2]) == ((0, 1), False)
    assert layout(X[None, ::-1]) == ((1, 2), True)
    assert layout(X[:1, :1]) == ((), True)


def test_where_results_lie() -> None:
    """What NumPy's function does itself is right; a library of its own may use rows."""
    cases = [
        (lambda x: x + 1, lambda x: x + 1, ""),
        (lambda x: x[1:], lambda x: x[1:], ""),
        (lambda x: np.sum(x), lambda x: x.sum(), ""),
        (lambda x: x, lambda x: x.copy(), "memory of an argument"),
        (lambda x: (x + 1).T.copy().T, lambda x: x + 1, "NumPy's as axes"),
    ]
    for call, plain, problem in cases:
        found = problem_of(call, (X,), plain, (X,), free_order=False) or ""
        assert problem in found
        assert bool(problem) == bool(found)
    other = problem_of(lambda x: np.ascontiguousarray(x.T), (X,), lambda x: x.T + 0, (X,), True)
    assert other is None


def test_one_element_is_changed_in_the_midst() -> None:
    """Of numbers that may be written, never the first or the last; and it is put back."""
    changed = X.copy()
    nudge = Nudge((changed, 3.0, np.array([True] * 5)), random.Random(1).randrange)
    assert nudge.changes
    nudge.apply()
    assert np.count_nonzero(changed != X) == 1
    assert (changed[0, 0], changed[-1, -1]) == (X[0, 0], X[-1, -1])
    nudge.undo()
    assert (changed == X).all()
    frozen = X.copy()
    frozen.flags.writeable = False
    assert not Nudge((frozen, np.ones(3), np.ones(9)), random.Random(1).randrange).changes


class Converter:
    """A runner's half that converts."""

    function: Any = None

    def fetch(self, result: Any) -> Any:
        """Return what is there."""
        return result

    def accept(self, arguments: Any) -> Any:
        """Double all values once the function is known."""
        return tuple(each * (1 if self.function is None else 2) for each in arguments)


def test_arguments_are_converted_by_who_knows_no_function() -> None:
    """What is converted otherwise is said; what cannot be converted so is not judged."""
    knowing, other = Converter(), Converter()
    assert converted_elsewhere(knowing, other, (X, 2.0)) is None
    knowing.function = np.sqrt
    assert "since it knows the function" in str(converted_elsewhere(knowing, other, (X, 2.0)))
    assert converted_elsewhere(knowing, object(), (X,)) is None


@pytest.fixture(scope="module")
def crowd() -> Record:
    """One run with all of them."""
    kinds = [f"tests.suites.more_cheats:{kind.__name__}" for kind in more_cheats.MORE]
    cells = [CellPlan(f"{cheats.MODULE}:DOUBLE", "float32", 1024, "S")]
    variants = variants_for(["eager", cheats.spec(cheats.Honest), *kinds])
    plan = Plan(cells, variants, processes=1, budget_s=3.0, ceilings=False, most_blocks=4)
    return Engine(plan).run()


@pytest.mark.parametrize(
    ("variant", "when"),
    [
        ("stale_buffer", "one element of the arguments changed|remembered"),
        ("in_place", "in timed block|after timing"),
        ("lower_precision", "before timing"),
        ("just_within", "before timing"),
        ("lazy_array", "NaN do not agree|relative error"),  # what an array holds that nobody filled
        ("view_of_input", "changed its input"),
        ("other_dtype", "dtype float64"),
        ("other_shape", "shape"),
        ("other_order", "with gaps"),
        ("same_buffer", "that result is lost"),
        ("half_later", "in timed block"),
        ("ring", "buffers are given out in turn"),
        ("restless", "the calls changed their input arrays"),
        ("rare_nan", "values far out, NaN or infinities: nan, NumPy gives"),
        ("promised", "work is left for later"),
        ("by_address", "work is remembered by address"),
    ],
)
def test_none_of_them_gets_a_speed(crowd: Record, variant: str, when: str) -> None:
    """Each is found where it shows."""
    run = next(run for run in crowd.cells[0].runs if run.variant == variant)
    assert (run.status, list(run.samples.seconds)) == ("wrong", [])
    assert re.search(when, run.reason), run.reason


def test_an_honest_row_is_none(crowd: Record) -> None:
    """It has results of its own."""
    statuses = {run.variant: run.status for run in crowd.cells[0].runs}
    assert (statuses["honest"], statuses["eager"]) == ("ok", "ok")
