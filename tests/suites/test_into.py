"""Results that go into arrays which are there before the call."""

from typing import Any

import numpy as np
import pytest

from fuser.suites import runners
from fuser.suites.checks.verify import buffers_for, reference
from fuser.suites.into import EagerIntoRunner, FusedIntoRunner
from fuser.suites.local import measure_here
from fuser.suites.plan import CellPlan, Plan, VariantPlan, variants_for
from fuser.suites.registry import workloads
from tests.suites import cheats


def _last_is_operator(a: Any, b: Any) -> Any:
    return np.sqrt(a) - b


def _last_is_function(a: Any, b: Any) -> Any:
    return np.maximum(a * b, 0)


def _last_negates(a: Any, b: Any) -> Any:
    return -(a + b)


def _last_compares(a: Any, b: Any) -> Any:
    return a + 1 < b


def _two(a: Any, b: Any) -> Any:
    total = a + b
    return total * 2, total - b


def _helped(a: Any, b: Any) -> Any:
    return _last_is_operator(a, b) * 2


def _name(a: Any, b: Any) -> Any:
    total = a + b
    return total  # noqa: RET504  (that is the case)


def _where(a: Any, b: Any) -> Any:
    return np.where(a > b, a, b)


INTO = [_last_is_operator, _last_is_function, _last_negates, _last_compares, _two, _helped]


def _buffers(function: Any, arguments: Any) -> Any:
    results = function(*arguments)
    return tuple(np.empty_like(each) for each in (results if function is _two else [results]))


@pytest.mark.parametrize("kind", [EagerIntoRunner, FusedIntoRunner])
@pytest.mark.parametrize("function", INTO)
def test_results_go_into_the_buffers(function: Any, kind: type[runners.Runner]) -> None:
    """The same bits as NumPy's new arrays, in the arrays that were given."""
    runner = kind()
    rows = np.linspace(0, 3, 12, dtype=np.float32).reshape(3, 4)
    arguments = (rows, rows[0])
    buffers = _buffers(function, arguments)
    runner.prepare_into(function, arguments, buffers)(*arguments)
    results = function(*arguments) if function is _two else [function(*arguments)]
    for buffer, right in zip(buffers, results, strict=True):
        assert np.array_equal(buffer, right)


@pytest.mark.parametrize(
    ("function", "reason"), [(_name, "`total`, which takes no out="), (_where, "np.where")]
)
def test_where_no_out_is_possible_it_is_said(function: Any, reason: str) -> None:
    """A returned name and a function without `out=`: the row is not run."""
    x = np.ones(3)
    with pytest.raises(runners.NotExpressibleError, match=reason):
        EagerIntoRunner().prepare_into(function, (x, x), (x,))


def test_a_scalar_result_goes_into_no_array() -> None:
    """It is refused with that reason."""
    x = np.ones(3)
    with pytest.raises(runners.NotExpressibleError, match="scalar"):
        FusedIntoRunner().prepare_into(np.sum, (x,), (np.empty(()),))


def test_most_formulas_have_a_form_with_out() -> None:
    """Those that have one give the same bits."""
    changed = 0
    for workload in workloads().values():
        if workload.must_refuse or workload.unavailable() is not None:
            continue
        arguments = workload.inputs(64, workload.dtypes[0], 0)
        buffers = buffers_for(reference(workload, arguments))
        try:
            call = EagerIntoRunner().prepare_into(workload.function, arguments, buffers)
        except runners.NotExpressibleError:
            continue
        call(*arguments)
        right = workload.function(*arguments)
        outputs = right if isinstance(right, tuple) else (right,)
        assert all(np.array_equal(*each) for each in zip(buffers, outputs, strict=True))
        changed += 1
    assert changed >= 15


@pytest.mark.parametrize(
    ("kind", "when"),
    [(cheats.LeavingHalf, "before timing"), (cheats.WritingOnce, "in timed block")],
)
def test_a_buffer_that_is_not_written_is_seen(kind: type[runners.Runner], when: str) -> None:
    """Whatever the call returns: the buffers were poisoned, and they are what is judged."""
    run = measure_here(cheats.DOUBLE, 64, [VariantPlan("x", cheats.spec(kind), "into")]).runs
    # a plan has no row of kind "into" for arrays as small as these: ask for large ones
    assert not run
    run = measure_here(
        cheats.DOUBLE, 1 << 18, [VariantPlan("x", cheats.spec(kind), "into")]
    ).runs
    assert run[0].status == "wrong"
    assert when in run[0].reason


def test_an_honest_one_passes() -> None:
    """And small arrays have no such row."""
    plan = [VariantPlan("into", cheats.spec(cheats.Into), "into")]
    assert measure_here(cheats.DOUBLE, 1 << 18, plan).runs[0].status == "ok"


def test_small_cells_have_no_row() -> None:
    """The C library has that memory at hand, and the row would say nothing."""
    variants = variants_for(["eager", "eager_into", "fused_into"])
    plan = Plan([], variants)
    wanted = [
        [each.name for each in variants if plan.wants(CellPlan("axpy", "float32", n, "S"), each)]
        for n in (1024, 1 << 20)
    ]
    assert wanted == [
        ["eager", "eager_again"], ["eager", "eager_again", "eager_into", "fused_into"],
    ]
