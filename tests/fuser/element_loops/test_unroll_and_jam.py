"""Iterations that run several at a time: where that is the same, and what it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.element_loops.code import For, everything
from fuser.element_loops.translate import translated
from fuser.element_loops.unroll_and_jam import WIDTH, jammed
from tests.fuser.element_loops.random_programs import same

_J = "for j in range(a.shape[1]):\n    "
JAMMED = {
    "product": _J + "s = 0.0\n    for k in range(b.shape[0]):\n        s += x[k] * b[k, j]\n"
    "    a[0, j] = s",
    "down columns": _J + "for k in range(a.shape[0]):\n        a[k, j] += c * b[k, j]",
    "slices": _J + "t = b[:, j] @ x\n    a[:, j] -= x * t",
    "windows": "for j in range(len(x)):\n    s = 0.0\n"
    "    for k in range(b.shape[1]):\n        s = s * 0.5 + y[j + k] * b[0, k]\n    x[j] = s",
}
AS_THEY_STAND = {
    "rows": "for i in range(a.shape[0]):\n    for k in range(a.shape[1]):\n        a[i, k] += 1.0",
    "the column before": "for j in range(1, a.shape[1]):\n    for k in range(a.shape[0]):\n"
    "        a[k, j] += a[k, j - 1]",
    "one element": _J + "for k in range(b.shape[0]):\n        a[0, 0] += b[k, j]",
    "a number that is carried": _J + "for k in range(b.shape[0]):\n        c += b[k, j]\n"
    "    a[0, j] = c",
    "bounds that differ": _J + "s = 0.0\n    for k in range(j):\n        s += b[k, j]\n"
    "    a[0, j] = s",
    "a condition": _J + "s = 0.0\n    for k in range(b.shape[0]):\n        if b[k, j] > s:\n"
    "            s = b[k, j]\n    a[0, j] = s",
    "two indices": _J + "for k in range(a.shape[0]):\n        a[k, j] = a[k, j] + a[j, k]",
}
_NAMES = (("a", "float64[2]"), ("b", "float64[2]"), ("c", "pyfloat"), ("x", "float64[1]"),
          ("y", "float64[1]"))  # fmt: skip


def _blocks(source: str) -> int:
    """How many loops run several iterations at a time."""
    code = translated(source, _NAMES, ())[0]
    found = everything(jammed(code.body, code.arrays))
    return sum(isinstance(each, For) and each.step == WIDTH for each in found)


@pytest.mark.parametrize("name", JAMMED)
def test_iterations_that_stand_apart(name: str) -> None:
    """They run together; those that look at each index run as they stand."""
    assert _blocks(JAMMED[name]) == 1


@pytest.mark.parametrize("name", AS_THEY_STAND)
def test_iterations_that_depend_on_each_other(name: str) -> None:
    """They run one after another; so do those that go along rows already."""
    assert not _blocks(AS_THEY_STAND[name])


def _several(a: Any, b: Any, x: Any) -> Any:
    s = last = 0.0
    for j in range(b.shape[1]):
        s = 0.0
        for k in range(b.shape[0]):
            s += a[0, k] * b[k, j]
        x[j] = s
        last = s - j
    for j in range(b.shape[1]):
        t = x[j] - 0.5
        for k in range(b.shape[0]):
            b[k, j] -= t * a[0, k]
    return s, j, last


def test_results() -> None:
    """Bit for bit, for blocks, iterations that are left, and neither; layouts of all kinds."""
    fused = fuser.fuse(_several, fallback="error")
    for rows, columns in ((3, 1), (5, 7), (5, 8), (4, 21), (70, 40), (0, 9)):
        for order in (np.ascontiguousarray, np.asfortranarray, lambda b: b[::-1]):
            rng = np.random.default_rng(columns)
            a, b = rng.standard_normal((1, rows)), rng.standard_normal((rows, columns))
            pairs = [(a, order(b.copy()), np.zeros(columns)) for _ in range(2)]
            wanted, found = _several(*pairs[0]), fused(*pairs[1])
            assert same(wanted, found)
            assert all(map(same, *pairs))
