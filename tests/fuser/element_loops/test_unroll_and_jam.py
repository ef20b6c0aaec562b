"""Iterations that run several at a time: where that is the same, and what it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.element_loops.code import For, everything
from fuser.element_loops.translate import translated
from fuser.element_loops.unroll_and_jam import IN_TURN, WIDTH, jammed
from tests.fuser.comparing import same
from tests.fuser.element_loops.random_programs import loaded, outcome

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


_K = "for k in range(b.shape[0]):\n    "
_KJ = _K + "for j in range(b.shape[1]):\n        "
IN_TURNS = {
    "product": _KJ + "a[0, j] += x[k] * b[k, j]",
    "slices": _K + "a[0, :] += x[k] * b[k, :]",
    "a factor": _K + "s = x[k] * c\n    for j in range(b.shape[1]):\n"
    "        a[1, j] = a[1, j] * s + b[k, j]\n    t = s",
    "a sum of each": _K + "s = 0.0\n    for j in range(b.shape[1]):\n        s += b[k, j]\n"
    "        a[0, j] += s\n    t = s - k",
    "two arrays": _KJ + "a[0, j] += b[k, j]\n        y[j] = a[0, j] - y[j] * c",
    "three loops": "for i in range(a.shape[0]):\n    for k in range(b.shape[0]):\n"
    "        for j in range(b.shape[1]):\n            a[i, j] += x[k] * b[k, j]",
    "planes down": _KJ + "a[j, j] += b[k, j]",
}
AFTER_EACH_OTHER = {
    "another row each": _KJ + "a[k, j] += x[k] * b[k, j]",
    "the element beside": _K + "for j in range(b.shape[1] - 1):\n        a[0, j] += a[0, j + 1]",
    "an element read before": _K + "s = a[0, 0]\n    for j in range(b.shape[1]):\n"
    "        a[0, j] += s",
    "a number that is carried": _KJ + "a[0, j] += c\n        c = b[k, j]",
    "bounds that differ": _K + "for j in range(k):\n        a[0, j] += b[k, j]",
    "an index that is set": _K + "j = 0\n    for i in range(b.shape[1]):\n"
    "        a[0, j] += b[k, i]\n        j = i",
    "down a column": _K + "for j in range(b.shape[1]):\n        a[j, 0] += b[k, j]",
}


def _blocks(source: str, width: int = WIDTH) -> int:
    """How many loops run several iterations at a time."""
    code = translated(source, _NAMES, ())[0]
    found = everything(jammed(code.body))
    return sum(isinstance(each, For) and each.step == width for each in found)


@pytest.mark.parametrize("name", JAMMED)
def test_iterations_that_stand_apart(name: str) -> None:
    """They run together; those that look at each index run as they stand."""
    assert _blocks(JAMMED[name]) == 1


@pytest.mark.parametrize("name", AS_THEY_STAND)
def test_iterations_that_depend_on_each_other(name: str) -> None:
    """They run one after another; so do those that go along rows already."""
    assert not _blocks(AS_THEY_STAND[name])


@pytest.mark.parametrize("name", IN_TURNS)
def test_elements_take_in_iterations_one_after_another(name: str) -> None:
    """Four iterations run together where it is the inner loop's that stand apart."""
    assert _blocks(IN_TURNS[name], IN_TURN) == 1


@pytest.mark.parametrize("name", AFTER_EACH_OTHER)
def test_elements_that_depend_on_each_other(name: str) -> None:
    """An iteration begins when the one before it is over."""
    assert not _blocks(AFTER_EACH_OTHER[name], IN_TURN)


@pytest.mark.parametrize("name", [*IN_TURNS, *AFTER_EACH_OTHER])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_results_of_iterations_in_turn(name: str, dtype: str) -> None:
    """Bit for bit, of any number of iterations; also what variables are left with, and errors."""
    lines = {**IN_TURNS, **AFTER_EACH_OTHER}[name].replace("\n", "\n    ")
    source = "import numpy as np\n\n\ndef f(a, b, c, x, y):\n    s = t = 0.0\n    k = j = -1\n"
    source += f"    {lines}\n    return a, y, s, t, k, j, c\n"
    plain = loaded(source, f"in turn {name}")
    fused = fuser.fuse(plain, fallback="allow")
    for rows, columns in ((0, 3), (1, 1), (3, 5), (4, 9), (6, 0), (7, 9), (9, 9), (21, 40)):
        rng = np.random.default_rng(rows)
        shapes = ((max(rows, columns, 2), columns + 1), (rows, columns), (rows,), (columns,))
        arrays = [(rng.standard_normal(shape) * 9).astype(dtype) for shape in shapes]
        pairs = []
        for _ in range(2):
            a, b, x, y = (array.copy() for array in arrays)
            pairs.append([a, b, 0.5 if dtype[0] == "f" else 2, x, y])
        wanted, found = outcome(plain, pairs[0]), outcome(fused, pairs[1])
        assert wanted[0] == found[0]
        assert same(wanted[1], found[1])
        assert all(map(same, *pairs))


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
