"""Interchanged loops: all iterations of one block of elements, with the bits of NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from fuser.base import counters
from tests.fuser.comparing import assert_same, same

RANDOM = np.random.default_rng(5)


def polynomial(c: Any, x: Any) -> Any:
    """An element of an array for each iteration."""
    y = np.zeros_like(x)
    for k in range(c.shape[0]):
        y = y * x + c[k]
    return y


def backwards(c: Any, x: Any) -> Any:
    """From the last one on, two at a time."""
    y = x
    for k in range(c.shape[0] - 1, 0, -2):
        y = y * x + c[k] * c[k - 1]
    return y


def of_a_matrix(c: Any, x: Any) -> Any:
    """Elements of a row and of a column."""
    y = x
    table = np.outer(c, c)
    for k in range(c.shape[0]):
        y = y * table[k, 0] + table[0, k]
    return y


def logistic(x: Any, n: Any) -> Any:
    """Nothing but what is carried."""
    for _ in range(n):
        x = 2.5 * x * (1 - x)
    return x


def along_rows(x: Any, n: Any) -> Any:
    """What differs from row to row, or from column to column."""
    rate = x[:, None] if x.ndim == 1 else x[0]
    y = x
    for _ in range(n):
        y = rate * y * (1 - y)
    return y


def bouncing(x: Any, n: Any) -> Any:
    """Two arrays, selections, and what an iteration has left before."""
    v = np.zeros_like(x)
    for _ in range(n):
        v = np.where(x > 0.5, -v, v) * 0.5 + 0.25 * x
        x = np.clip(x + v, -1, 1)
    return x, v


def reordered(x: Any, n: Any) -> Any:
    """Iterations leave arrays in another order in memory than they find them."""
    y, z = x * 0.5, np.zeros(x.shape)
    for _ in range(n):
        y, z = z * 0.5 + y, y - z
    return y, z


def changing_places(x: Any, n: Any) -> Any:
    """One array takes the place of another, and that of a third."""
    a, b, c = x, x * 0.5, np.ones_like(x)
    for _ in range(n):
        a, b, c = b, c, a + 0.25 * b - c
    return a, b, c


def timed(x: Any, n: Any) -> Any:
    """The index as a value, which falls."""
    v = x * 0
    for t in range(n, -5, -3):
        v = v * 0.5 + x * t
    return v


def alternating(x: Any, n: Any) -> Any:
    """What the index decides, with two branches and with three."""
    y = x
    for t in range(n):
        y = (y * x) + x if t % 2 else (y * x) - x
        if t % 3 == 1:
            y = y * 0.5
        elif t % 3 == 2:
            y = y + 0.25
    return y


def numbered(x: Any, n: Any) -> Any:
    """Sums, products, quotients and remainders of the index, which falls below zero."""
    y, z = x * 0, np.zeros(x.shape)
    for t in range(n, -7, -2):
        y = y * 0.5 + x * ((3 * t - 1) // 4) - (-t % 5)
        z = z + x * (t % 7) - y
    return y, z


def congruential(x: Any, n: Any) -> Any:
    """Integers, which wrap around."""
    y = (x * 1000).astype(np.int64)
    for t in range(n):
        y = (y * 1103515245 + t) ^ 7
    return y


def truths(x: Any, n: Any) -> Any:
    """Truths are carried."""
    found = x > 0.25
    for _ in range(n):
        found = found ^ (x > 0)
    return found


def escape(x: Any, n: Any) -> Any:
    """It ends when no element goes on."""
    a, b, count = np.zeros_like(x), np.zeros_like(x), np.zeros(x.shape, np.int64)
    for _ in range(n):
        inside = a * a + b * b <= 4.0
        if not np.any(inside):
            break
        count = count + inside
        a, b = np.where(inside, a * a - b * b + x, a), np.where(inside, 2 * a * b - x, b)
    return count


def settled(x: Any, n: Any) -> Any:
    """It ends when all elements are done; what goes around is a result."""
    y, count = x, np.zeros(x.shape, np.int64)
    for _ in range(n):
        done = np.abs(y) < 0.125
        if np.all(done):
            break
        y = np.where(done, y, y * 0.5)
        count = count + np.where(done, 0, 1)
    return y, count


def masked(z: Any, n: Any) -> Any:
    """Boolean masks, which write into an argument."""
    count = np.zeros(z.shape, np.int32)
    for _ in range(n):
        mask = np.abs(z) < 2.0
        if not mask.any():
            break
        z[mask] = z[mask] ** 2 + 0.25
        count[mask] += 1
    return count


def arrays(dtype: str = "float64") -> Iterator[np.ndarray[Any, Any]]:
    """Odd lengths, none, one; strided, reversed, repeated, in two orders; NaN, infinity, -0.0."""
    for n in (0, 1, 2, 65, 130):
        x = RANDOM.uniform(-1.5, 1.5, n).astype(dtype)
        x[1:5] = np.array([np.nan, np.inf, -0.0, -np.inf])[: max(n - 1, 0)][:4]
        yield x
    yield x[::2]
    yield x[::-1]
    yield np.broadcast_to(x[:1], 9)
    wide = x[:120].reshape(4, 30)
    yield wide
    yield np.asfortranarray(wide)
    yield wide[::2, ::-3]
    yield np.broadcast_to(x[:7], (5, 7))
    yield np.float64(0.5) * np.ones(())


def is_interchanged(fused: Any, *args: Any) -> bool:
    """Whether the loop of a call is one kernel."""
    return "interchanged" in str(fused.explain(*args))


NUMBERED = [
    logistic, bouncing, reordered, changing_places, timed, alternating, numbered, congruential,
    truths, escape, settled,
]  # fmt: skip


@pytest.mark.parametrize("function", [polynomial, backwards, of_a_matrix])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_coefficients(function: Callable[..., Any], dtype: str) -> None:
    """Elements that the index says, of any number of them; one code serves all numbers."""
    fused = fuser.fuse(function)
    x = RANDOM.uniform(-1, 1, 99)
    assert is_interchanged(fused, x[:24], x)
    for x, n in itertools.product(arrays(dtype), (0, 1, 2, 24)):
        c = RANDOM.uniform(-1, 1, 24)
        assert_same(fused, c[:n], x)
        assert_same(fused, c[::-2][:n], x)
    assert_same(fused, RANDOM.integers(0, 9, 5), x)


@pytest.mark.parametrize("function", NUMBERED)
def test_numbers_of_iterations(function: Callable[..., Any]) -> None:
    """None, one, and many, in every layout."""
    fused = fuser.fuse(function, fallback="allow")
    assert is_interchanged(fused, RANDOM.uniform(-1, 1, 99), 5)
    for x, n in itertools.product(arrays(), (0, 1, 2, 20)):
        assert_same(fused, x, n)


def test_rows() -> None:
    """What is repeated along one of the axes."""
    fused = fuser.fuse(along_rows)
    assert is_interchanged(fused, RANDOM.uniform(-1, 1, (5, 70)), 5)
    for x in arrays():
        if x.ndim == 2:
            assert_same(fused, x, 5)


def test_masks_write_into_arguments() -> None:
    """Also where a call ends in its middle, and where arguments are views."""
    fused = fuser.fuse(masked, fallback="allow")
    assert is_interchanged(fused, RANDOM.uniform(-1, 1, 99), 5)
    for x, n in itertools.product(arrays(), (0, 1, 2, 9)):
        if x.flags.writeable:
            assert_same(fused, x, n)


def test_no_other_code_for_other_lengths() -> None:
    """Neither another number of iterations nor another length compiles anything."""
    fused, x = fuser.fuse(logistic), RANDOM.uniform(0, 1, 500)
    for _ in range(3):
        fused(x, 5)
    before = counters.snapshot().get("kernels", 0)
    for n, m in itertools.product((1, 2, 7, 100), (2, 63, 64, 499)):
        assert same(fused(x[:m], n), logistic(x[:m], n))
    assert counters.snapshot().get("kernels", 0) == before


def test_an_index_outside_raises() -> None:
    """As NumPy does, when the last iteration reads past an array, or the first one before it."""

    def reading(c: Any, x: Any, n: int) -> Any:
        y = x
        for k in range(n):
            y = y * c[k + 1]
        return y

    fused, x = fuser.fuse(reading, fallback="allow"), RANDOM.uniform(-1, 1, 70)
    c = RANDOM.uniform(-1, 1, 9)
    assert is_interchanged(fused, c, x, 5)
    for n in (8, 5, 9, 30, 8):
        assert_same(fused, c, x, n)


def shifted(x: Any, n: int) -> Any:
    """Neighbours are read."""
    for _ in range(n):
        x = x * 0.5 + np.roll(x, 1)
    return x


def summed(x: Any, n: int) -> Any:
    """All elements are read."""
    for _ in range(n):
        x = x / np.sum(x)
    return x


def halved(x: Any, n: int) -> Any:
    """It ends by a condition, but elements that are done change, too."""
    for _ in range(n):
        if not np.any(x > 0.1):
            break
        x = x * 0.5
    return x


def counted(x: Any, n: int) -> Any:
    """How many iterations there were is a result."""
    k = -1
    for k in range(n):  # noqa: B007 - it is a result
        small = np.abs(x) < 0.125
        if np.all(small):
            break
        x = np.where(small, x, x * 0.5)
    return x, k


def by_rows(x: Any, n: int) -> Any:
    """Each iteration reads a row of its own."""
    table = np.outer(x, x)
    for k in range(n):
        x = x * 0.5 + table[k]
    return x


def swapped(x: Any, n: int) -> Any:
    """Two arrays change places, and nothing new comes."""
    a, b, c = x * 2, x * 0.5, x
    for _ in range(n):
        a, b, c = b, a, c * 0.5 + a
    return a, b, c


def powers(x: Any, n: int) -> Any:
    """The index tells a number that grows beyond integers."""
    for t in range(n):
        x = x * 0.5 + 3**t
    return x


@pytest.mark.parametrize(
    "function", [shifted, summed, halved, counted, by_rows, swapped, powers],
)
def test_what_is_not_interchanged(function: Callable[..., Any]) -> None:
    """Elements that read others, conditions that all have to see, and what is not done so yet."""
    fused = fuser.fuse(function, fallback="allow")
    x = RANDOM.uniform(-1, 1, 99)
    assert not is_interchanged(fused, x, 9)
    for n in (1, 2, 9):
        for _ in range(2):
            wanted, found = function(x.copy(), n), fused(x.copy(), n)
            pairs = zip(wanted, found, strict=True) if type(wanted) is tuple else [(wanted, found)]
            for one, other in pairs:
                np.testing.assert_allclose(one, other, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 300), st.integers(0, 12), st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_random_lengths(length: int, iterations: int, seed: int, threads: int) -> None:
    """Blocks end by themselves, at any length, and with any number of threads."""
    x = np.random.default_rng(seed).uniform(-2, 2, length)
    before = fuser.get_num_threads()
    fuser.set_num_threads(threads)
    try:
        for function, fused in FUSED.items():
            assert same(fused(x, iterations), function(x, iterations))
    finally:
        fuser.set_num_threads(before)


FUSED = {f: fuser.fuse(f, fallback="allow") for f in (escape, settled, bouncing)}
