"""Functions that put results together: their texts name everything that they need."""

from typing import Any

import numpy as np
import pytest

from fuser.base import trees
from fuser.calls.result_assembly import NotAssembled, assemble, prepare
from fuser.capture.tracer import trace_call
from fuser.ir.views import apply_views
from tests.fuser.result_kinds import inside, sizes_too


def _trace(function: Any, *args: Any) -> Any:
    structure, leaves = trees.flatten((args, {}))
    return trace_call(function, structure, leaves)


def test_writes_are_copied_unless_kernels_write_them() -> None:
    """The copied form takes the result, the direct form the argument alone."""
    x, y = np.arange(5.0), np.ones(5)
    trace = _trace(inside, x, y)
    copied, direct = assemble(trace, {}), assemble(trace, {}, {0})
    assert (copied.results, direct.results) == ((0,), ())
    assert copied.function(np.array([7.0, 8.0, 9.0]), *(x,) * len(copied.leaves)) is x
    assert x.tolist() == [0, 7, 8, 9, 4]
    assert direct.function(x) is x


def test_lengths_and_numbers_come_from_arguments() -> None:
    """In the order that the assembly says."""
    x = np.ones((2, 3))
    made = assemble(_trace(sizes_too, x, 2.5), {})
    given = [(x, 2.5)[place] for place in made.leaves]
    assert made.function(x * 9, *given)[1:] == ((2, 3), 7, 5.0, 2)


def test_numbers_are_computed_where_guards_hold() -> None:
    """Types are compared too; a guard that fails gives None."""
    def scaled(x: Any, a: float, n: int) -> Any:
        return x * (1 - a) if n > 2 else x

    trace = _trace(scaled, np.ones(3), 0.25, 5)
    guards, wanted = list(trace.value_guards), [("1 - s0", float)]
    made = prepare(trace, guards, wanted)
    assert guards
    assert [made.leaves, made.results] == [(2, 1), ()]
    assert made.function(5, 0.25) == (0.75,)
    assert made.function(1, 0.25) is None
    assert made.function(5, 2) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.T[1:, None],
        lambda x: x.reshape(3, -1)[::-1],
        lambda x: np.broadcast_to(x[0], (2, 2, 3)),
        lambda x: np.split(x, [1], axis=1)[1],
    ],
)
def test_views_are_those_that_the_long_way_makes(function: Any) -> None:
    """Shapes, strides and memory."""
    x = np.arange(6.0).reshape(2, 3)
    trace = _trace(function, x)
    found = assemble(trace, {}).function(x)
    (leaf,) = trace.leaves
    wanted = apply_views(x, leaf.views, {"n0": 2, "n1": 3}, np)
    assert (found.shape, found.strides) == (wanted.shape, wanted.strides)
    assert np.may_share_memory(found, x)


def test_a_length_that_no_argument_has_is_refused() -> None:
    """Those that functions between kernels tell."""
    x = np.ones(3)
    trace = _trace(lambda x: (np.sort(x)[x[:0].size :], np.unique(x).shape[0] + 1), x)
    with pytest.raises(NotAssembled):
        assemble(trace, {})
