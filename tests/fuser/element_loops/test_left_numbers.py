"""What a function does with Python numbers that a loop over elements leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser


def _compacted(x: Any, h: Any) -> Any:
    count = 0
    for i in range(len(x)):
        if x[i] > 0.5:
            h[count] = x[i]
            count += 1
    return h[:count] * 1, count


def _mean(x: Any, h: Any) -> Any:
    count = 0
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.25:
            total += x[i]
            count += 1
    return total / count, x / count, count // 2, x[count - 1]


def _decides(x: Any, h: Any) -> Any:
    count = 0
    for i in range(len(x)):
        h[i] = x[i]
        if x[i] > 0.5:
            count += 1
    if count > 8:
        return x * 2
    return x + count


def _raises(x: Any, h: Any) -> Any:
    count = 0
    for i in range(len(x)):
        h[i] = x[i]
        if x[i] > 0.5:
            count += 1
    if count > 8:
        raise ValueError(f"{count} are too many")
    h[:count] += 1
    return h[count:].max()


def _runs(x: Any, h: Any) -> Any:
    values, counts = np.empty(len(x)), np.zeros(len(x), np.int64)
    k = i = 0
    while i < len(x):
        j = i
        while j < len(x) and (x[j] > 0.5) == (x[i] > 0.5):
            j += 1
        values[k] = x[i]
        counts[k] = j - i
        k += 1
        i = j
    return values[:k], counts[:k]


def _outcome(function: Callable[..., Any], x: Any) -> str:
    """What a call gives or raises, and what it leaves."""
    h = np.zeros(len(x))
    try:
        found = function(x, h)
    except ValueError as error:
        found = error
    return repr((found, h))


@pytest.mark.parametrize("function", [_compacted, _mean, _decides, _raises, _runs])
def test_numbers_are_read(function: Callable[..., Any]) -> None:
    """A count is a length, an index, a divisor, or decides, in calls of other counts and sizes."""
    fused = fuser.fuse(function, fallback="allow" if function is _raises else "error")
    for seed in (*range(5), 0, 2):
        x = np.random.default_rng(seed).random(16 + seed % 3)
        assert _outcome(fused, x) == _outcome(function, x)


def _powers(x: Any, base: Any, exponent: Any) -> Any:
    value = base
    for i in range(len(x)):
        value = value**exponent * 0.5 + base**3 - base**-2
        x[i] = value
    return value


def _squares(x: Any, base: Any, exponent: Any) -> Any:
    value = base
    for i in range(len(x)):
        value = value**2
        x[i] = value
    return value


@pytest.mark.parametrize("function", [_powers, _squares])
def test_powers_of_python_floats(function: Callable[..., Any]) -> None:
    """They are fused; where Python raises of one, or it is a complex number, Python runs it."""
    fused = fuser.fuse(function, fallback="error")
    fused(np.zeros(4), 2.0, 1.5)
    fused = fuser.fuse(function, fallback="allow")
    for base, exponent in ((0.5, 3), (0.5, 2.5), (0.0, 2), (-2.0, 0.5), (1e200, 2), (np.inf, 1)):
        found = []
        for each in (function, fused):
            x = np.zeros(5)
            try:
                found.append((repr(type(each(x, base, exponent))), x))
            except (ArithmeticError, TypeError) as error:
                found.append((repr(error), x))
        assert found[0][0] == found[1][0]
        np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-14)
