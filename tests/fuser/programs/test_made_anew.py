"""Names that a loop writes into and then binds to a new array, and arrays of constants it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import difference


def of_a_copy(x: Any, n: int) -> Any:
    """Written in place, then made anew."""
    u = x.copy()
    for _ in range(n):
        u += 0.25 * np.roll(u, 1)
        u = np.maximum(u * 0.5, np.sin(u))
    return u


def of_an_argument(x: Any, n: int) -> Any:
    """The first iteration writes into what others see."""
    kept = x
    for _ in range(n):
        x[0] = x.mean()
        x = np.cos(x)
    return x, kept


def of_two_names(x: Any, n: int) -> Any:
    """Another name has what the first iteration writes into."""
    y = x * 1.0
    z = y
    for _ in range(n):
        y[1:] += z[:-1] * 0.125
        y = y * 0.875
    return y, z


def through_a_view(x: Any, n: int) -> Any:
    """A view is written into."""
    y = x * 2
    for _ in range(n):
        v = y[1:-1]
        v *= 0.5
        y[0] = v.sum()
        y = y + 0.125
    return y


def _steps(values: Any, n: int) -> Any:
    for _ in range(n):
        values[2:5] = values[3:6] * 0.5
        values = values + 0.25
    return values


def in_a_helper(x: Any, n: int) -> Any:
    """The caller's array is the helper's first one."""
    y = x * 3
    return _steps(y, n) + y, y


def with_weights(x: Any, n: int) -> Any:
    """Constants by the index of a loop in it."""
    weights = np.array([0.125, 0.25, 0.5])
    y = x * 1.0
    for _ in range(n):
        s = np.zeros_like(y)
        for i in range(3):
            s[:] += weights[i] * np.roll(y, i)
        y = y - s * 0.5
    return y


def changing_constants(x: Any, n: int) -> Any:
    """An array of constants that the loop writes into is no such one."""
    weights = np.array([0.125, 0.25, 0.5])
    for _ in range(n):
        weights[1] *= 0.5
        x = x * weights.sum()
    return x, weights


def of_what_stays(x: Any, n: int) -> Any:
    """The new array is the same each time; what is written into it is seen by nobody."""
    y = x * 1.0
    c = np.zeros_like(x)
    for _ in range(n):
        c += x
        y[:-1] += c[:-1] * 0.5
        y = x.copy()
    return y, c


def of_the_one_before(x: Any, n: int) -> Any:
    """Another name keeps what was written into."""
    y = x * 1.0
    before = y
    for k in range(n):
        y[1:] += 0.25 * before[:-1]
        before = y
        y = y * 0.5 + k
    return y, before


def until_it_is_large(x: Any, n: int) -> Any:
    """It is left before the array is made anew."""
    y = x * 1.0
    for _ in range(n):
        y[2:] += 0.5
        if y.sum() > 80:
            break
        y = y + 0.125
    return y


@pytest.mark.parametrize(("function", "loops"), [
    (of_what_stays, True), (of_the_one_before, True), (until_it_is_large, True),
    (of_a_copy, True), (of_an_argument, True), (of_two_names, True), (through_a_view, True),
    (in_a_helper, True), (with_weights, True), (changing_constants, False),
])  # fmt: skip
def test_it_is_a_loop_and_memory_is_numpys(function: Callable[..., Any], loops: bool) -> None:
    """Values, what is written, and which results are one array, of any number of iterations."""
    fused = fuser.fuse(function, fallback="allow")
    before = fuser.stats().get("loops", 0)
    for n in (90, 0, 1, 2, 3, 91):
        given = np.random.default_rng(n).uniform(0.5, 1.5, 40)
        wanted, found = _results(function, given.copy(), n), _results(fused, given.copy(), n)
        for one, other in zip(wanted, found, strict=True):
            assert not difference(one, other, close=1e-12)
        assert _same(wanted) == _same(found)
    assert (fuser.stats().get("loops", 0) > before) is loops


def _results(function: Callable[..., Any], x: Any, n: int) -> list[Any]:
    """The argument, and what the function gives."""
    value = function(x, n)
    return [x, *(value if type(value) is tuple else (value,))]


def _same(results: list[Any]) -> list[list[bool]]:
    """Which are one array."""
    return [[a is b for a in results] for b in results]


def powers(a: Any, b: Any) -> Any:
    """A sum with a transposed matrix, and a vector that is divided, in each of several products."""
    a = a + a.T
    for _ in range(6):
        c = a @ b
        b = c / np.linalg.norm(c)
    return b


def test_what_many_loop_nests_need_is_stored() -> None:
    """The matrix once for all products, the quotient once and not for each row."""
    a, b = np.random.default_rng(3).uniform(0.5, 1.5, (40, 40)), np.ones(40)
    fused = fuser.fuse(powers, fallback="error")
    assert not difference(powers(a, b), fused(a, b), close=1e-12)
    text = str(fused.explain(a, b))
    assert "costly and needed by several kernels" in text
    assert "costly and broadcast" in text
    assert text.count("reads a, a.T") == 1
