"""Lengths while tracing."""

from typing import Any

import numpy as np
import pytest

from fuser.base.errors import ShapeError
from fuser.capture.tracer import Tracer
from fuser.ir import dims


def tracing(*lengths: int) -> tuple[Tracer, list[Any]]:
    """A trace with a symbol for each of these lengths."""
    found = Tracer()
    return found, [found.new_length(length) for length in lengths]


def test_equal_lengths_become_one_symbol() -> None:
    """Later symbols give way, whichever order they are met in, and results are remembered."""
    known, (n, m, k) = tracing(5, 5, 5)
    assert known.broadcast("add", [(m,), (n,)]) == (n,)
    assert known.resolve(m) == n
    assert known.broadcast("add", [(k, m), (n, n)]) == (n, n)
    assert known.broadcast("add", [(k, m), (n, n)]) == (n, n)
    assert [str(s) for s in map(known.resolve, (n, m, k))] == ["n0", "n0", "n0"]


def test_ones_are_broadcast_and_noted() -> None:
    """A length that is 1 in this call becomes 1; what was remembered before is not used then."""
    known, (n, one) = tracing(5, 1)
    assert known.broadcast("add", [(n,), (1,)]) == (n,)
    assert known.broadcast("add", [(n,), (one,)]) == (n,)
    assert known.resolve(one) == 1
    assert known.broadcast("add", [(one,), (n, one)]) == (n, 1)


def test_lengths_that_differ_are_an_error() -> None:
    """With the shapes of this call, and the axis."""
    known, (n, m) = tracing(5, 4)
    with pytest.raises(ShapeError, match=r"\(5,\) and \(4,\) do not broadcast at axis -1"):
        known.broadcast("add", [(n,), (m,)])
    assert known.size(n + m) == 9
    known.hold_at_least(n, 2)
    assert [tuple(map(str, pair)) for pair in known.guards] == [("n0", "max(n0, 2)")]
    assert dims.evaluate(known.guards[0][1], {"n0": np.int64(1)}) == 2


def test_slices_of_arrays_of_one_length_say_that_it_is_one() -> None:
    """Not of lengths that differ in this call, nor of those that are told later."""
    known, (n, m, k) = tracing(5, 5, 6)
    short, other = dims.maximum(n - 1, 0), dims.maximum(m - 1, 0)
    assert known.broadcast("add", [(short,), (other,)]) == (short,)
    assert known.resolve(m) == n
    assert not known.guards
    assert known.broadcast("add", [(n,), (dims.maximum(k - 1, 0),)])
    assert known.resolve(k) == k
    late = known.new_late_length(5)
    known.unify(short, dims.maximum(late - 1, 0), lambda: "add")
    assert known.resolve(late) == late


def test_a_length_that_is_known_not_to_be_cut_short_is_the_same_with_and_without_a_limit() -> None:
    """`n0 - 1` and `max(n1 - 1, 0)` say that the lengths are one where there is an element."""
    known, (n, m) = tracing(5, 5)
    known.hold_at_least(n, 1)
    assert known.broadcast("add", [(n - 1,), (dims.maximum(m - 1, 0),)]) == (n - 1,)
    assert known.resolve(m) == n
