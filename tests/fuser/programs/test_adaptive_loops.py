"""Loops that end when arrays agree, steps that are taken or not, and comprehensions in bodies."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture import comprehensions
from tests.fuser.comparing import difference
from tests.fuser.programs.own_range import of_another_range

X = np.random.default_rng(5).uniform(0.1, 2.0, 300)


def until_equal(x: Any, most: float) -> Any:
    """NumPy's function gives Python's truth."""
    n = 0
    while True:
        new = np.minimum(x, most) * 1.0
        n += 1
        if np.array_equal(new, x):
            break
        x = new - 0.25
        most = most * 0.5
    return x, n


def until_close(x: Any, most: float) -> Any:
    """The same in the test of `while`, negated, and beside another one."""
    n = 0
    y = x * 0.0
    while not np.allclose(x, y, atol=1e-3) and n < 80:
        x, y = most * x + (1 - most) * y, most * y + (1 - most) * x
        n += 1
    return x, y, n


def until_all(x: Any, most: float) -> Any:
    """`bool` of a value."""
    for _ in range(90):
        x = x * 0.9
        if bool((x < most).all()):
            break
    return x


def adaptive(x: Any, most: float) -> Any:
    """Steps that are taken or not; floats that both outcomes change."""
    t = 0.0
    h = 0.4
    while t < 1:
        if t + h > 1:
            h = 1 - t
        slope = x * (1 - x)
        new = x + h * slope
        if np.abs(new - x).max() * h < most:
            t += h
            x = new
            h = h * 1.25
        else:
            h = h / 2
    return x, t


def damped(x: Any, most: float) -> Any:
    """A float that both branches change, and nothing else."""
    rate = 1.0
    for _ in range(60):
        if np.sqrt((x * x).sum()) > most:
            rate = rate * 0.5
        else:
            rate = rate + 0.125
        x = x * 0.75 + rate * np.sin(x)
    return x, rate


def accelerated(x: Any, most: float) -> Any:
    """A number of NumPy's that no array has to do with."""
    y, t = x, 1.0
    for _ in range(400):
        new = y - most * np.sin(y)
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y = new + (t - 1) / after * (new - x)
        x, t = new, after
    return x, t


def neighbours(x: Any, most: float) -> Any:
    """A sum of a generator over two tuples, without one of their pairs."""
    u = np.outer(x[:20], x[:17])
    for _ in range(40):
        s = sum(
            np.roll(np.roll(u, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1)
            if (i, j) != (0, 0)
        )  # fmt: skip
        u = u + most * (s / 8 - u)
    return u


def diffused(x: Any, most: float) -> Any:
    """A sum over names of arrays; a list over a range."""
    u = x
    for _ in range(50):
        left, right = np.roll(u, 1) - u, np.roll(u, -1) - u
        scaled = [u * (k + 1) for k in range(3)]
        u = u + 0.2 * sum(np.exp(-((d / most) ** 2)) * d for d in (left, right))
        u = np.maximum(u, scaled[0] - scaled[2] * 0.25)
    return u


def chosen(x: Any, most: float) -> Any:
    """Values of decisions, in one another, in sums, and in elements of which kinds differ."""
    out, total = np.zeros(60), 0.0
    for t in range(60):
        top = x.max()
        step = top * 0.25 if top > most else (top * 0.5 if top > most / 2 else top * 0.75)
        x = x * 0.875 + (np.sin(x) if x[0] > 0 else step - x * 0.25)
        out[t] = (top - x.mean()) / top if top > 0 else 0.0
        total += x.min() if x.sum() > 0 else -top
    return x, out, total


def counted(x: Any, most: float) -> Any:
    """Integers that decisions count; what is taken is an array that nobody else has."""
    taken, left, since = 0, 7, 0
    energy = (x * x).sum()
    for t in range(120):
        new = x + most * np.cos(x + t)
        after = (new * new).sum()
        if after < energy:
            x, energy = new, after
            taken += 1
            since = 0
        else:
            left -= 2
            since += 1
        if since > 20:
            break
    return x, energy, taken, left, since


PROGRAMS = [
    (until_equal, 1.5), (until_close, 0.75), (until_all, 0.01), (adaptive, 5.0), (adaptive, 0.02),
    (chosen, 0.75), (counted, 0.0625), (damped, 9.0), (accelerated, 0.25), (neighbours, 0.125),
    (diffused, 0.5),
]  # fmt: skip


def _parts(value: Any) -> tuple[Any, ...]:
    return value if type(value) is tuple else (value,)


@pytest.mark.parametrize(("function", "most"), PROGRAMS)
def test_it_is_one_loop_of_the_machines(function: Callable[..., Any], most: float) -> None:
    """Values, types and counts are those of NumPy, and nothing is unrolled."""
    fused = fuser.fuse(function, fallback="error")
    before = fuser.stats().get("loops", 0)
    for scale in (1.0, 0.5, 1.5):
        wanted, found = _parts(function(X * scale, most)), _parts(fused(X * scale, most))
        for one, other in zip(wanted, found, strict=True):
            assert not difference(one, other, close=1e-11)
    assert fuser.stats()["loops"] > before


def test_a_range_of_the_users_is_not_taken_for_pythons() -> None:
    """It is seen when the trace runs."""
    fused = fuser.fuse(of_another_range, fallback="allow")
    for _ in (1, 2):
        assert not difference(of_another_range(X), fused(X), close=1e-11)


@pytest.mark.parametrize("text", [
    "[f(k) for k in ks]", "[k for k in (n(), 2)]", "sum(k for k in (1, 2) if k > n)",
    "[lambda: k for k in (1, 2)]", "any(k for k in (1, 2))", "[k for k in range(n)]",
    "[k for k in range(100)]", "{k for k in (1, 2)}", "[i for i, j in ((1, 2), 3)]",
    "[k for k in (1, 2) if 1 / 0]", "[(y := k) for k in (1, 2)]",
])  # fmt: skip
def test_what_the_source_does_not_tell_stays_as_it_is(text: str) -> None:
    """Calls, names that stand for more, conditions that are not known, and long ones."""
    tree = ast.parse(f"while True:\n    x = {text}")
    before = ast.dump(tree)
    expanding = comprehensions.Expanding()
    expanding.visit(tree)
    assert not expanding.changed
    assert ast.dump(tree) == before
