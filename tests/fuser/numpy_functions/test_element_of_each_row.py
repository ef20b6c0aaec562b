"""One element of each row by its number: fused where rows are computed, and equal to NumPy."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

CHANCE = np.random.default_rng(9)
Z = CHANCE.integers(-12, 13, (7, 5)) / 4
Y = CHANCE.integers(0, 5, 7)
SPECIAL = np.where(Z > 1, -np.inf, np.where(Z < -1, np.nan, Z * -0.0))


def loss(z: Any, y: Any) -> Any:
    """The cross entropy of a softmax."""
    moved = z - z.max(axis=1, keepdims=True)
    logs = moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))
    return -logs[np.arange(len(z)), y].mean()


def gradient(z: Any, y: Any) -> Any:
    """Its gradient, beside it."""
    n = z.shape[0]
    found = np.exp(z - z.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    value = -np.log(found[np.arange(n), y]).sum() / n
    found[np.arange(n), y] -= 1
    return value, found / n


def hinge(z: Any, y: Any) -> Any:
    """Rows less what they should be largest at, which is then left out."""
    scores, rows = z * 2, np.arange(y.shape[0])
    margins = np.maximum(0, scores - scores[rows, y][:, None] + 1)
    margins[rows, y] = 0
    return margins, margins.sum(axis=1)


def one_hot(z: Any, y: Any) -> Any:
    """Ones in an array of zeros."""
    found = np.zeros(z.shape, dtype=np.float32)
    found[np.arange(z.shape[0]), y] = 1
    return found


def scaled(z: Any, y: Any) -> Any:
    """What is read is computed with and written back, beside numbers for each row."""
    n = len(z)
    x, by = z + z, y * 2 + 1
    x[np.arange(n), y] = x[np.arange(n), y] * by + x[0, 0]
    x[np.arange(n), y] *= 0.5
    return x, x[np.arange(n), y]


def of_two(z: Any, y: Any) -> Any:
    """Read of one array, written into another; and by other numbers."""
    n = len(z)
    one, other = z * 1, z * 3
    one[np.arange(n), y] = other[np.arange(n), y]
    other[np.arange(n), y] = one[np.arange(n), y[::-1]]
    return one, other


def memory(z: Any, y: Any) -> Any:
    """Of an argument NumPy reads and writes but these."""
    z[np.arange(len(z)), y] += 1
    return z[np.arange(len(z)), y] * 2


FUSED = [loss, gradient, hinge, one_hot, scaled, of_two]


@pytest.mark.parametrize("function", FUSED)
def test_all_is_kernels(function: Any) -> None:
    """Numbers from both ends, any memory order, rows of one."""
    for z in (Z, np.asfortranarray(Z), Z[::-1, ::-1], Z.astype(np.float32)):
        for y in (Y, Y - 5, Y.astype(np.int8), Y.astype(np.uint16), np.repeat(Y, 2)[::2]):
            assert_same(function, z, y, ulp=16)
    assert_same(function, Z[:, :1], Y * 0, ulp=16)
    assert_same(function, Z[:1], Y[:1], ulp=16)


@pytest.mark.parametrize("function", [hinge, one_hot, scaled, of_two])
def test_special_values_are_read_as_they_are(function: Any) -> None:
    """NaN, infinities and signed zeros; and integers."""
    assert_same(function, SPECIAL, Y)
    assert_same(function, (Z * 4).astype(np.int32), Y, fallback="allow")
    assert_same(lambda z, y: ~(z > 0)[np.arange(7), y], Z, Y, fallback="allow")
    assert_same(lambda z, y: (~(z > 0))[np.arange(len(z)), y], Z, Y)
    assert_same(lambda z, y: (-z)[np.arange(len(z)), y], np.full((7, 5), -128, np.int8), Y)


@pytest.mark.parametrize("function", [*FUSED, memory])
def test_numbers_beyond_rows_raise(function: Any) -> None:
    """Before and after calls that do not; so do rows without elements, and other lengths."""
    fused = fuser.fuse(function, fallback="allow")
    for y in (Y, Y + 1, Y - 6, Y, Y[:3], Y * 1.0, Y, Y + 2**40):
        assert compare(fused, Z, y, ulp=16) == ""
    assert compare(fused, Z[:, :0], Y, ulp=16) == ""
    assert compare(fused, Z[:0], Y[:0], ulp=16) == ""


def diagonal(z: Any, y: Any) -> Any:
    """Of rows that are as long as there are rows, or longer."""
    distances, place = np.abs(z) + 1, np.arange(len(z))
    distances[place, place] = np.inf
    return distances, distances.argmin(axis=1), (z * 2)[place, place]


def test_diagonals_are_places_of_rows() -> None:
    """In one kernel; where rows are too short, NumPy raises."""
    fused = fuser.fuse(diagonal, fallback="allow")
    for shape in ((5, 5), (3, 5), (7, 5), (5, 5), (1, 1), (0, 0), (0, 4), (4, 9)):
        z = np.arange(1.0 * np.prod(shape)).reshape(shape) - 6
        assert compare(fused, z, Y) == ""
        assert compare(fused, np.asfortranarray(z), Y) == ""
    fused = fuser.fuse(diagonal, fallback="error")
    assert compare(fused, Z[:5], Y) == ""
    assert len(fused.explain(Z[:5], Y).groups) == 1


def test_arguments_are_read_where_the_places_are() -> None:
    """One element of each row, not all; NumPy writes there."""
    fused = fuser.fuse(memory, fallback="allow")
    assert compare(fused, Z, Y) == ""
    assert {reason.operation for reason in fused.fallbacks} == {"assignment"}


def test_a_loss_stores_no_rows() -> None:
    """Nor does its gradient, but for the result."""
    fused = fuser.fuse(loss, fallback="error")
    plan = str(fused.explain(Z, Y))
    assert "o0" in plan
    assert len(fused.explain(Z, Y).groups) == 1
    assert len(fuser.fuse(gradient, fallback="error").explain(Z, Y).groups) == 1
