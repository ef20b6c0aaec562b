"""Loops that conditions on data end, and decisions in loops: regions that give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.ir import opaque_calls
from tests.fuser.comparing import difference, independent


def newton(x: Any, limit: float) -> Any:
    """A residual and a limit of steps, whose number is a result."""
    err = 1.0
    it = 0
    while err > limit and it < 50:
        new = x - (x**3 - 2.0) / (3.0 * x**2)
        err = np.abs(new - x).max()
        x = new
        it += 1
    return x, it, err


def descent(x: Any, limit: float) -> Any:
    """A norm, which is a function of its own, of what iterations leave."""
    r = x * 0.5
    while np.linalg.norm(r) > limit:
        x = x - 0.25 * r
        r = 0.5 * x
    return x


def conjugate_gradients(x: Any, limit: float) -> Any:
    """`break` in the middle; what comes after it is of no use to anybody then."""
    matrix = np.diag(np.linspace(1, 2, x.shape[0])) + 0.01
    p = r = x
    x = np.zeros_like(x)
    old = r @ r
    for i in range(100):  # noqa: B007 - it is read below
        q = matrix @ p
        alpha = old / (p @ q)
        x = x + alpha * p
        r = r - alpha * q
        new = r @ r
        if np.sqrt(new) < limit:
            break
        p = r + (new / old) * p
        old = new
    return x, i


def power_iteration(x: Any, limit: float) -> Any:
    """A Python number becomes NumPy's in the first iteration."""
    matrix = np.diag(np.linspace(1, 2, x.shape[0])) + 0.01
    found = 0.0
    for _ in range(500):
        w = matrix @ x
        new = np.sqrt((w * w).sum())
        x = w / new
        if abs(new - found) < limit:
            break
        found = new
    return x, new


def bisection(x: Any, limit: float) -> Any:
    """All elements until the widest interval is short."""
    low, high = x * 0.0, x + 2.0
    while np.max(high - low) > limit:
        middle = 0.5 * (low + high)
        below = middle**3 - x < 0
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return 0.5 * (low + high)


def heron(x: Any, limit: float) -> Any:
    """`while True`, and a `break` at the end."""
    y = x
    while True:
        new = 0.5 * (y + x / y)
        change = np.abs(new - y).sum()
        y = new
        if change < limit:
            break
    return y


def relaxed(x: Any, limit: float) -> Any:
    """Slices of an argument, until they change no more."""
    old = x.copy()
    change = 1.0
    steps = 0
    while change > limit:
        old[1:-1] = 0.5 * (x[2:] + x[:-2])
        change = np.abs(old - x).max()
        x[1:-1] = old[1:-1]
        steps += 1
    return steps, change


def swapped(x: Any, limit: float) -> Any:
    """Two arrays change places until the condition holds, after an odd number of steps or not."""
    u, v = x.copy(), x.copy()
    change = 1.0
    while change > limit:
        v[1:-1] = 0.5 * (u[2:] + u[:-2])
        change = np.abs(v - u).max()
        u, v = v, u
    return u


def by_a_sum(x: Any, limit: float) -> Any:
    """Both branches change one name."""
    for _ in range(30):
        if x.sum() > 3.0 + limit:
            x = x * 0.5
        else:
            x = x + 0.25
    return x


def every_tenth(x: Any, limit: float) -> Any:
    """The index decides what is written."""
    y = x * 0.0
    for t in range(400):
        if t % 10 == 0:
            y[:] = y + x
        x = x * 0.99
    return x + limit, y


def skipped(x: Any, limit: float) -> Any:
    """`continue`, and a decision in a decision."""
    total = x * limit
    for t in range(25):
        x = x + 0.5
        if t % 3 == 1:
            continue
        if total.sum() < 100.0:
            if x[0] > 4.0:
                total = total + x
            else:
                total = total - 1.0
        total = total + x
    return total


def fixed_point(x: Any, limit: float) -> Any:
    """What was found before the last step is the result."""
    for it in range(200):  # noqa: B007 - it is read below
        new = np.cos(x)
        if np.abs(new - x).max() < limit:
            break
        x = new
    return x, it


def clipped(x: Any, limit: float) -> Any:
    """A gradient is made shorter where its norm is large."""
    for _ in range(20):
        norm = np.sqrt((x * x).sum())
        if norm > 1.0 + limit:
            x = x / norm
        x = x * 1.1
    return x


def returned(x: Any, limit: float) -> Any:
    """A solver that returns where it has settled; its two names are one array then."""
    x = x * 0.5
    for _ in range(200):
        new = x.copy()
        new[1:-1] = (x[2:] + x[:-2]) * 0.4
        if np.abs(new - x).max() < limit:
            return new
        x = new
    return x


def returned_in_two_ways(x: Any, limit: float) -> Any:
    """Each `return` gives something else."""
    for t in range(100):
        x = x * 0.75
        if x.max() < 10.0 * limit:
            return x + 1.0, t
        if t % 50 == 49:
            return x, -t
    return x - 1.0, 0


def otherwise(x: Any, limit: float) -> Any:
    """`else` is what follows where there was no `break`."""
    for _ in range(30):
        x = x * 0.75
        if x.max() < limit:
            break
    else:
        x = x + 10.0
    return x


def until_none_is_left(x: Any, limit: float) -> Any:
    """`not`, as an early end has it."""
    for _ in range(60):
        inside = x > 0.5 + limit
        if not np.any(inside):
            break
        x = np.where(inside, x * 0.75, x)
    return x


def unless_settled(x: Any, limit: float) -> Any:
    """`not` before a comparison, and `or` after `and`."""
    steps = 0
    while steps < 80 and not (np.abs(x).max() < limit or x.sum() < 0):
        x = x * 0.75 - 0.001
        steps += 1
    return x, steps


def between(x: Any, limit: float) -> Any:
    """Comparisons in a row, and a choice that either of two tests makes."""
    for t in range(40):
        if 1.0 + limit < np.sum(x) <= 30.0 < 31.0:
            x = x * 1.25
        elif t % 3 == 1 or not x[0] > 1.0:
            x = x + 0.5
        else:
            x = x * 0.5
    return x


PROGRAMS = (
    until_none_is_left, unless_settled, between,
    returned, returned_in_two_ways, otherwise,
    newton, descent, conjugate_gradients, power_iteration, bisection, heron, relaxed, swapped,
    by_a_sum, every_tenth, skipped, fixed_point, clipped,
)  # fmt: skip


def _traces(function: Any) -> list[Any]:
    """What a fused function has traced."""
    return [known.trace for entry in function._signatures.values() for known in entry.found]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_conditions(function: Callable[..., Any]) -> None:
    """One trace whatever the number of iterations; types, written arguments, counts."""
    fused = fuser.fuse(function, fallback="allow")
    for limit, length in ((1e-3, 20), (1e-5, 20), (1e-6, 31), (0.3, 20)):
        plain = np.linspace(1.0, 3.0, length) ** 2
        own = plain.copy()
        wanted, found = function(plain, limit), fused(own, limit)
        pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
        assert not any(difference(one, two, 1e7) for one, two in pairs)
        assert not difference(plain, own, 1e7)
    assert all(opaque_calls.LOOP in trace.graph.text for trace in _traces(fused))
    leaves = function in (returned, returned_in_two_ways, otherwise)
    assert len(_traces(fused)) <= (3 if leaves else 1)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_conditions_that_do_not_hold_at_first(function: Callable[..., Any]) -> None:
    """No iteration, or one alone: the very arrays that NumPy returns, NaN, and no elements."""
    fused = fuser.fuse(function, fallback="allow")
    for limit, fill in ((1e9, 2.0), (1e-3, 2.0), (1e9, 1.0), (np.nan, 2.0), (1e9, np.nan)):
        for length in (20, 3, 1):
            plain = np.full(length, fill)
            own = plain.copy()
            if function is heron and (limit != limit or fill != fill):
                continue  # it goes on for ever
            with np.errstate(all="ignore"):
                wanted, found = function(plain, limit), fused(own, limit)
            one = wanted if isinstance(wanted, tuple) else (wanted,)
            two = found if isinstance(found, tuple) else (found,)
            assert not any(map(difference, one, two, [1e7] * len(one)))
            assert [each is plain for each in one] == [each is own for each in two]
            assert not difference(plain, own, 1e7)


def test_counts_are_python_integers() -> None:
    """The number of steps, and the last index, are what Python has there."""

    def counted(x: Any) -> Any:
        it = 3
        for t in range(4, 400, 3):  # noqa: B007 - it is read below
            x = x * 0.5
            it += 2
            if x.max() < 1e-3:
                break
        return it, t, it * t + 1

    fused = fuser.fuse(counted, fallback="error")
    for scale in (1.0, 100.0, 1e-9):
        x = np.ones(5) * scale
        assert fused(x) == counted(x)
        assert [type(value) for value in fused(x)] == [int, int, int]
    assert len(_traces(fused)) == 1


def test_a_short_circuit_asks_no_more_than_python() -> None:
    """What follows `and` is not asked where Python would not ask it."""

    def halved(x: Any, n: int) -> Any:
        k = 4
        while k > 0 and x[n // k] > 0.1:
            x = x * 0.5
            k -= 1
        return x, k

    fused = fuser.fuse(halved, fallback="allow")
    for n in (0, 3, 4):
        given = np.linspace(1, 2, 9)
        one, two = halved(given, n), fused(given, n)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1] == two[1]


def test_a_function_in_a_test_is_called_where_python_calls_it() -> None:
    """One that writes into its argument is not called where what stands before it decides."""

    def cleared(x: Any) -> Any:
        x[0] = 0.0
        return x.sum() > 1.0

    def run(x: Any, n: int) -> Any:
        y = x * 0.5
        for _ in range(n):
            if y.max() > 2.0 and cleared(x):
                y = y - x
            y = y * 1.5
        return y

    fused = fuser.fuse(run, fallback="allow")
    for scale in (1.0, 0.1, 4.0):
        plain = np.linspace(0.5, 1.5, 9) * scale
        own = plain.copy()
        np.testing.assert_allclose(fused(own, 6), run(plain, 6))
        np.testing.assert_array_equal(own, plain)


def test_exceptions_in_branches_that_are_not_taken() -> None:
    """What would raise if both branches ran does not raise where NumPy does not."""

    def solved(m: Any, n: int) -> Any:
        for _ in range(n):
            if np.abs(m).sum() > 1.0:
                m = np.linalg.inv(m) * 0.5
            else:
                m = m * 0.5
        return m

    fused = fuser.fuse(solved, fallback="allow")
    for scale in (2.0, 0.0):
        given = np.eye(3) * scale
        np.testing.assert_allclose(fused(given, 4), solved(given, 4))


def test_the_text_of_a_condition_is_read_back() -> None:
    """Text and results of a traced graph; every mode."""
    x = np.linspace(1.0, 3.0, 9)
    wanted = bisection(x, 1e-3)
    graph = fuser.trace(bisection, x, 1e-3)
    assert str(fuser.parse(str(graph))) == str(graph)
    for mode in ("fused", "unfused", "fallback"):
        fused = fuser.fuse(bisection, mode=mode, fallback="allow")
        np.testing.assert_array_equal(fused(x, 1e-3), wanted)
    assert "until its condition ends it" in str(fuser.fuse(bisection).explain(x, 1e-3))


def test_arguments_that_are_one_array() -> None:
    """A loop that writes into one name of an array is seen through the other."""

    def spread(a: Any, b: Any) -> Any:
        change = 1.0
        k = 0
        while change > 1e-2 and k < 30:
            old = b.sum()
            a[1:] = a[:-1] * 0.5 + b[1:] * 0.25
            change = abs(old - b.sum()) + 1e-3
            b[0] = 1.0
            k += 1
        return change

    fused = fuser.fuse(spread, fallback="allow")
    a, b = np.linspace(0, 1, 9), np.linspace(1, 2, 9)
    fused(*independent((a, b)))
    memory, other = np.linspace(0, 1, 12), np.linspace(0, 1, 12)
    for one, two in ((memory, memory), (memory[:9], memory[3:])):
        mine = (other, other) if one is two else (other[:9], other[3:])
        assert not difference(spread(one, two), fused(*mine), 1e7)
        assert not difference(memory, other, 1e7)


def _wraps(x: Any, y: Any) -> Any:
    """Its index reads from the end of an array first, and then from the beginning."""
    for k in range(6):
        y = y * 0.5 + x[k - 3]
        if y.sum() > 1e9:
            break
    return y


def test_an_index_that_changes_its_sign_before_the_loop_may_end() -> None:
    """It is unrolled, as its iterations are not one function."""
    x, y = np.arange(9.0), np.ones(400)
    fused = fuser.fuse(_wraps, fallback="error")
    for _ in range(3):
        np.testing.assert_array_equal(fused(x, y), _wraps(x, y))
