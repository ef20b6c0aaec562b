"""Which indices are known to lie within before any is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.element_loops.operators import FALSE
from fuser.element_loops.translate import translated

SURE = {
    "insertion": "for i in range(1, len(x)):\n    v = x[i]\n    j = i - 1\n"
    "    while j >= 0 and x[j] > v:\n        x[j + 1] = x[j]\n        j -= 1\n    x[j + 1] = v",
    "bisection": "for q in range(len(y)):\n    lo = 0\n    hi = len(x)\n    while lo < hi:\n"
    "        mid = (lo + hi) // 2\n        if x[mid] < y[q]:\n            lo = mid + 1\n"
    "        else:\n            hi = mid\n    y[q] = lo",
    "neighbours": "for i in range(n):\n    for d in range(-1, 2):\n        y[i] += x[(i + d) % n]",
    "sieve": "i = 2\nwhile i * i < n:\n    for j in range(i * i, n, i):\n        x[j] = 0\n"
    "    i += 1",
    "congruences": "for i in range(len(x)):\n    m = (1103515245 * m + 12345) % 2147483648\n"
    "    x[i] = m",
    "slices": "for i in range(1, len(x)):\n    y[1:-1] += y[2:] + x[i] * y[:-2]",
    "guarded": "for i in range(-3, n):\n    if 0 <= i - m < len(x):\n        x[i - m] = 1",
    "counted": "c = 0\nfor i in range(len(x)):\n    if x[i] > 0:\n        y[c] = i\n        c += 1",
    "from the end": "for i in range(len(x)):\n    x[i] = x[i - 1]",
    "swapped": "i = 0\nj = len(x) - 1\nwhile i < j:\n    x[i], x[j] = x[j], x[i]\n    i += 1\n"
    "    j -= 1",
    "shifted": "c = 1\nfor i in range(len(x)):\n    c = (c >> 1) & 3\n    x[i] = c",
    "until equal": "i = 0\nwhile i != len(x):\n    x[i] = 0\n    i += 1",
    "parts up to a given number": "for t in range(3):\n"
    "    x[1 : n - 1] = 0.5 * (y[: n - 2] + y[2:n]) + x[t]",
    "parts beside a given number": "for t in range(3):\n    x[:-m] = y[m:] * x[t]",
    "smaller": "for i in range(min(n, len(x))):\n    x[i] = 1",
}

UNSURE = {
    "one too far": "i = 0\nwhile i <= len(x):\n    x[i] = 0\n    i += 1",
    "by elements": "for i in range(len(k)):\n    x[k[i]] = 0",
    "between elements": "for i in range(k[0], k[1]):\n    x[i] = 0",
    "either": "i = 0\nwhile i < len(x):\n    x[i] = 0\n    i += k[i] if i < len(k) else 1",
    "counted twice": "c = 0\nfor i in range(len(x)):\n    c += 2\n    x[c] = 0",
    "less than none": "j = len(x) - 1\nwhile x[j] > 0:\n    j -= 1\n    if j < -len(x):\n"
    "        j += 3",
    "wraps": "for i in range(len(k)):\n    x[(k[i] + 1) // 2] = 0",
}


def _is_sure(source: str) -> bool:
    kinds = {"x": "float64[1]", "y": "float64[1]", "k": "int64[1]", "n": "pyint", "m": "pyint"}
    return translated(source, tuple(kinds.items()), ())[0].sure != FALSE


@pytest.mark.parametrize("name", SURE)
def test_indices_that_are_known(name: str) -> None:
    """Of loops that a condition ends, too: by what their iterations keep to."""
    assert _is_sure(SURE[name])


@pytest.mark.parametrize("name", UNSURE)
def test_indices_that_are_not_known(name: str) -> None:
    """They may be outside, or only the elements of an array tell."""
    assert not _is_sure(UNSURE[name])


def test_parts_of_many_arrays() -> None:
    """What each of a dozen arrays has to hold is asked once, before all loops."""
    names = "abcdefghijlm"
    body = [f"    {x}[:, :, k] = {y}[:, :, k - 1] * {z}[1:, :, k + 1]"
            for x, y, z in zip(names, names[1:], "z" * 11, strict=False)]  # fmt: skip
    source = "\n".join(["for k in range(1, n - 1):", *body])
    kinds = dict.fromkeys([*names, "z"], "float64[3]") | {"n": "pyint"}
    code = translated(source, tuple(kinds.items()), ())[0]
    assert code.sure != FALSE


def _relaxed(x: Any, y: Any, n: int) -> None:
    for t in range(1, 4):
        x[1 : n - 1] = 0.5 * (y[: n - 2] + y[2:n]) + x[t]
        for i in range(1, n - 1):
            y[i] = x[i - 1] + y[i]
        x[:-n] = y[n:]


@pytest.mark.parametrize("n", [9, 10, 5, 3, 2, 1, 0, -1, -4, -9, -20, 11, 30])
def test_given_numbers_that_are_no_usual_bounds(n: int) -> None:
    """They are negative, or larger than arrays are long: NumPy's results, or its exception."""
    fused = fuser.fuse(_relaxed, fallback="allow")
    fused(np.linspace(0, 1, 9), np.linspace(1, 3, 9), 5)
    pairs = [(np.linspace(0, 1, 9), np.linspace(1, 3, 9)) for _ in "ab"]
    functions: list[Callable[..., Any]] = [_relaxed, fused]
    found = []
    for function, (x, y) in zip(functions, pairs, strict=True):
        try:
            found.append(function(x, y, n))
        except Exception as error:  # noqa: BLE001 - whichever NumPy raises
            found.append(repr(error))
    assert found[0] == found[1]
    for plain, mine in zip(*pairs, strict=True):
        np.testing.assert_array_equal(plain, mine)
