"""Lower bounds of lengths from guards, and comparisons that follow from them."""

import pytest

from fuser.ir import dims
from fuser.ir.attributes import Span
from fuser.passes import length_facts
from fuser.passes.length_facts import at_least, lower_bounds

N, M = dims.symbol("n0"), dims.symbol("n1")


def test_guards_say_how_long_lengths_are() -> None:
    """Of symbols, of sums with integers, and through max."""
    assert lower_bounds([at_least(N, 2)]) == {"n0": 2}
    assert lower_bounds([at_least(N - 2, 3)]) == {"n0": 5}
    assert lower_bounds([at_least(dims.maximum(N - 2, 0), 3)]) == {"n0": 5}
    assert lower_bounds([(N, M), at_least(N * M, 2)]) == {}
    assert lower_bounds([at_least(N, 2), at_least(N, 4)]) == {"n0": 4}


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [
        (1, N - 1, True),
        (2, N - 1, False),
        (0, N, True),
        (N - 1, N, True),
        (N, N - 1, False),
        (M, N, False),
        (N, N + M, True),
        (N, N * M, False),
        (3, N + M, False),
        (0, dims.maximum(M - 1, 0), True),
        (3, 4, True),
    ],
)
def test_places_are_compared_where_it_is_known(
    left: dims.Dim, right: dims.Dim, answer: bool
) -> None:
    """With n0 at least 2; False stands for unknown too."""
    assert length_facts.at_most(left, right, {"n0": 2}) is answer


def test_decided_limits_are_replaced() -> None:
    """min and max that the bounds decide."""
    length = dims.minimum(N, 1) + dims.maximum(N - 1, 0) * 3 + dims.minimum(M, 1)
    assert length_facts.simplify(length, {"n0": 1}) == 3 * N - 2 + dims.minimum(M, 1)
    assert length_facts.simplify(length, {}) == length
    assert length_facts.simplify(7, {"n0": 1}) == 7


def test_boxes_are_apart_where_it_is_known() -> None:
    """The first column and the last one, if there are two; parts that lie in turn."""
    first, last = ((0, M, 1), (0, 1, 1)), ((0, M, 1), (N - 1, N, 1))
    assert length_facts.apart(first, last, {"n0": 2})
    assert not length_facts.apart(first, last, {"n0": 1})
    assert not length_facts.apart(first, first, {})
    assert length_facts.apart(((0, N, 2),), ((1, N, 2),), {})
    assert not length_facts.apart(((0, N, 2),), ((2, N, 2),), {})


@pytest.mark.parametrize(
    ("one", "two", "apart"),
    [
        ((0, 2, 1), (2, N, 1), True),
        ((0, 3, 1), (2, N, 1), False),
        ((0, N, 2), (1, N, 2), True),
        ((0, N, 2), (2, N, 2), False),
        ((0, N - 1, 1), (N - 1, N, 1), True),
        ((0, N, 1), (M, N, 1), False),
    ],
)
def test_spans_that_are_apart(one: Span, two: Span, apart: bool) -> None:
    """Surely, whatever the lengths: an axis is enough."""
    for pair in ((one, two), (two, one)):
        boxes = [((0, M, 1), span) for span in pair]
        assert length_facts.apart(*boxes, {}) == apart
