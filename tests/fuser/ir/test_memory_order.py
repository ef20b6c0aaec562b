"""Results lie in memory as NumPy's do, whatever order their operands are in."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fuser.comparing import assert_same, compare

#: What decides the order by other rules than elementwise functions and joins.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "roll first": lambda x: np.roll(x, 1, 0),
    "roll last": lambda x: np.roll(x, -1, -1),
    "roll two": lambda x: np.roll(x, (1, 1), (0, 1)),
    "concatenate": lambda x: np.concatenate([x[-1:], x[:-1]]),
    "gradient": lambda x: np.gradient(x, axis=-1) if x.shape[-1] > 1 else x + 0,
    "select": lambda x: np.select([x > 0, x < -1], [x, -x], 0.5),
    "pad": lambda x: np.pad(x, 1),
    "pad edge": lambda x: np.pad(x, 1, mode="edge"),
    "pad wrap": lambda x: np.pad(x, ((1, 0),) * x.ndim, mode="wrap"),
    "round": lambda x: np.round(x, 1),
    "imag": lambda x: np.imag(x),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "out=": lambda x: np.divide(1.0, x, out=np.zeros_like(x), where=x > 0),
}
SHAPES = [(2, 5), (5, 2), (1, 4), (4, 1), (2, 3, 4), (3, 1, 2), (2, 2, 2)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_in_memory_as_numpys(name: str) -> None:
    """Every order of axes, of shapes with ones and twos, and strided ones."""
    random = np.random.default_rng(3)
    for shape in SHAPES:
        for order in itertools.permutations(range(len(shape))):
            there = tuple(shape[axis] for axis in order)
            x = random.normal(size=there).transpose(np.argsort(order))
            assert_same(FUNCTIONS[name], x)
        assert_same(FUNCTIONS[name], random.normal(size=shape[::-1]).T[::-1])
        assert_same(FUNCTIONS[name], random.normal(size=(*shape[:0:-1], 2 * shape[0])).T[::2])


def test_a_contiguous_copy_may_be_no_copy() -> None:
    """What is written into it, the argument has to show, if that lies in C order."""

    def centred(x: Any) -> Any:
        y = np.ascontiguousarray(x)
        y -= 1
        return y * 2

    x = np.arange(12.0).reshape(3, 4)
    for each in (x, x.T, x[:, ::2]):
        assert not compare(centred, each, fallback="allow")
    assert_same(lambda x: np.ascontiguousarray(x) + 1, x.T)


def test_what_is_written_into_stays_as_it_lies() -> None:
    """Whatever the order of what is added to it."""
    x, y = np.asfortranarray(np.ones((3, 4))), np.ones((3, 4))

    def added(x: Any, y: Any) -> Any:
        z = x * 1
        z += y
        w = x * 2
        np.subtract(x, y, out=w, where=x > y)
        return z, w

    for one, other in ((x, y), (y, x), (x, x), (y[::-1], x)):
        assert_same(added, one, other)


def test_what_iterations_do_not_change_keeps_its_order() -> None:
    """Each iteration makes an array of its own of what is the same in all of them."""

    def carried(x: Any, n: Any) -> Any:
        y, whole = x * 0.5, x > 0
        count = np.zeros(x.shape, np.int64)
        for k in range(n):
            y, count = np.where(whole, k * 7, x + y), np.minimum(count, k) + np.where(whole, 7, 6)
            whole = 1 & (x > 0.1)
        return y, count, whole

    x = np.random.default_rng(5).normal(size=(5, 13))
    for n in (0, 1, 2, 5):
        assert_same(carried, x, n)
        assert_same(carried, np.asfortranarray(x), n)
