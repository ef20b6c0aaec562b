"""Arrays of nothing: lengths that agree only there, sums over nothing, and errors that pass."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

VALUES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "four": lambda x: np.concatenate([x] * 4, axis=-1),
    "two": lambda x: np.tile(x, (1, 2)),
    "rest": lambda x: x[:, 1:],
    "every second": lambda x: x[:, ::2],
    "interleaved": lambda x: np.stack([x, x], -1).reshape(x.shape[0], 2 * x.shape[1]),
    "repeated": lambda x: np.repeat(x, 2, axis=1),
    "nothing": lambda x: x[:, :0],
}


def _assigned(a: Any, b: Any) -> Any:
    made = a * 1
    made[:] = b
    return made


TOGETHER: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "stack": lambda a, b: np.stack([a, b]),
    "reshape": lambda a, b: a.reshape(b.shape) + 1,
    "assign": _assigned,
    "sums": lambda a, b: a.sum(1) + b.sum(1),
    "sum": lambda a, b: (a * b).sum(1),
}


#: Which of two values is the first one decides what is reshaped and what is assigned.
CELLS = [
    (*pair, together)
    for together in TOGETHER
    for pair in (
        itertools.product(VALUES, VALUES)
        if together in ("reshape", "assign")
        else itertools.combinations_with_replacement(VALUES, 2)
    )
]


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_lengths_that_agree_where_there_is_nothing(cell: tuple[str, str, str]) -> None:
    """One function, called with four shapes: what NumPy gives, or the kind of error it raises."""
    one, other, together = VALUES[cell[0]], VALUES[cell[1]], TOGETHER[cell[2]]
    fused = fuser.fuse(lambda x: together(one(x), other(x)), fallback="error")
    for shape in ((3, 0), (0, 2), (0, 0), (2, 3)):
        assert_same(fused, np.ones(shape))


def test_a_call_that_raises_does_not_keep_later_ones_from_being_fused() -> None:
    """The trace raises because the function does: of these arguments nothing else is known."""
    fused = fuser.fuse(lambda x, y: x.reshape(y.shape[0], -1) * 2, fallback="error")
    for _ in range(2):
        with pytest.raises(ValueError, match="reshape"):
            fused(np.ones((2, 3)), np.ones((4, 1)))
    assert fused(np.ones((2, 3)), np.ones((3, 1))).shape == (3, 2)
    assert not fused.fallbacks


def test_a_trace_that_raises_where_the_function_does_not_is_made_once() -> None:
    """Such calls run as NumPy runs them, for the reason that is kept."""

    def work(x: Any, s: float) -> Any:
        """Asks for what stand-ins do not have."""
        return x * len(float.hex(s))

    fused = fuser.fuse(work, fallback="allow")
    for _ in range(3):
        assert fused(np.ones(3), 0.5).tolist() == [len((0.5).hex())] * 3
    assert [reason.code for reason in fused.fallbacks] == ["not-traceable"]


def test_a_length_that_numpy_cannot_find_is_numpys_to_refuse() -> None:
    """Groups of no images: after calls with some, the exception is NumPy's."""

    def groups(x: Any) -> Any:
        y = x.reshape(x.shape[0], 2, -1)
        return (y - y.mean(-1, keepdims=True)).reshape(x.shape)

    fused = fuser.fuse(groups, fallback="allow")
    for _ in range(3):
        fused(np.ones((3, 4, 5, 6)))
    with pytest.raises(ValueError, match="cannot reshape array of size 0"):
        fused(np.ones((0, 4, 5, 6)))
    np.testing.assert_array_equal(fused(np.ones((2, 4, 5, 6))), np.zeros((2, 4, 5, 6)))
