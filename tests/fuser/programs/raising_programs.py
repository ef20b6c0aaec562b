"""Programs with loops that raise where values are bad; pytest rewrites no `assert` here."""

from __future__ import annotations

from typing import Any

import numpy as np


def in_place(x: Any, n: int) -> Any:
    """Writes into its argument, of which nothing may be left half done; the message reads on."""
    for t in range(n):
        if np.any(np.abs(x) > 100):
            raise ValueError(f"too large at {t}: {x.max():.3f}")
        x[1:] = x[1:] * 1.1 + 0.1 * x[:-1]
    return x.sum()


def in_turns(x: Any, n: int) -> Any:
    """Arrays that change places, and `assert`."""
    u, v = x, x * 0.5
    for _ in range(n):
        v[1:-1] = u[1:-1] * 1.1 + 0.1 * (u[:-2] - u[2:])
        assert np.abs(v).max() < 100, "too large"
        u, v = v, u
    return u, v


def listed(x: Any, n: int) -> Any:
    """Lists, in which an item stands for each iteration."""
    sizes, rows = [], []
    for t in range(n):
        x = x - 0.1 * (x - x.mean())
        if x.std() > 10:
            raise RuntimeError(t)
        sizes.append(x.std())
        rows.append(x)
    return np.array(sizes), np.stack(rows)


def nested(x: Any, n: int) -> Any:
    """In the inner one of two loops."""
    for t in range(n):
        for _ in range(4):
            x = x * 1.0625
            if not np.isfinite(x).all() or x.max() > 100:
                raise OverflowError(t)
        x = x - 0.125
    return x


def chosen(x: Any, n: int) -> Any:
    """In one branch of a decision, which the other one goes on from; and a `break`."""
    for t in range(n):
        x = x * 1.25
        if x.max() > 100:
            raise ValueError(t)
        if x.min() < -2000:
            break
        x = x + 1
    return x


def by_elements(x: Any, n: int) -> Any:
    """A loop over elements."""
    s = 0.0
    for i in range(len(x)):
        for j in range(n):
            s = s * 0.5 + x[i] * j
            if s > 500:
                raise ValueError(f"{i} {j} {s}")
        assert s > -500
    return s


def until(x: Any, n: int) -> Any:
    """A loop that gives up."""
    count = 0
    while np.abs(x).max() > 1e-3:
        x = x * 0.5
        count += 1
        if count > n:
            raise RuntimeError(f"{count} iterations")
    return x, count
