"""Loops over columns by blocks of rows: where that is the same, and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.element_loops.code import Constant, For, If, Load, Store, everything
from fuser.element_loops.row_blocks import blocked
from fuser.element_loops.translate import translated
from tests.fuser.comparing import same

_INSIDE = "for j in range(1, a.shape[1]):\n    for i in range(a.shape[0]):\n        "
BLOCKED = {
    "recurrence": _INSIDE + "a[i, j] += 0.5 * a[i, j - 1]",
    "slices": "for j in range(1, a.shape[1]):\n    a[:, j] = a[:, j] - c * a[:, j - 1]",
    "backwards": "for j in range(a.shape[1] - 2, -1, -1):\n"
    "    a[:, j] += b[:, j + 1] * a[:, j + 1]",
    "two": "for j in range(1, a.shape[1]):\n    a[:, j] += a[:, j - 1]\n"
    "    t = c * j\n    b[:, j] = t * a[:, j]",
    "planes": "for k in range(1, d.shape[2]):\n    t = c * d[:, :, k - 1]\n"
    "    d[:, :, k] = t * (e[:, :, k] - e[:, :, k - 1])",
    "planes, one by one": "for k in range(1, d.shape[2]):\n    for i in range(d.shape[0]):\n"
    "        for j in range(d.shape[1]):\n            d[i, j, k] = c * d[i, j, k - 1]",
    "other rows are read only": _INSIDE + "a[i, j] = b[i - 1, j] + a[i, j - 1]",
}
AS_THEY_STAND = {
    "along rows": "for i in range(a.shape[0]):\n    for j in range(a.shape[1]):\n"
    "        a[i, j] += 1.0",
    "the row above": _INSIDE + "a[i, j] = a[i - 1, j] + 1.0",
    "the last row": _INSIDE + "a[i, j] = a[-1, j] + 1.0",
    "a sum": "s = 0.0\n" + _INSIDE + "s += a[i, j]",
    "a number that is carried": "for j in range(1, a.shape[1]):\n    c = c * 0.5\n    a[:, j] = c",
    "a number of the last row": _INSIDE + "t = a[i, j]\n    b[:, j] = t",
    "a condition": _INSIDE + "if a[i, j] > 0:\n            a[i, j] = 0.0",
    "an element of what is written": "for j in range(1, a.shape[1]):\n    t = a[0, j]\n"
    "    a[:, j] = t",
    "triangles": "for j in range(1, a.shape[1]):\n    for i in range(j):\n        a[i, j] = 1.0",
    "planes that lie well": "for k in range(1, d.shape[0]):\n    d[k] = e[k] + d[k - 1]\n"
    "    e[k, 0, 0] = 1.0",
    "the diagonal of planes": "for k in range(1, d.shape[2]):\n"
    "    for i in range(d.shape[0]):\n        for j in range(d.shape[1]):\n"
    "            d[i, i, k] = d[i, i, k - 1]",
    "planes and a row": "for k in range(1, d.shape[2]):\n    d[:, :, k] += d[:, :, k - 1]\n"
    "    d[:, 0, k] = 1.0",
    "planes of most other rows": "for k in range(1, d.shape[2]):\n"
    "    for i in range(d.shape[0]):\n        for j in range(d.shape[1]):\n"
    "            d[i, j, k] = d[i, j - 1, k - 1]",
}
_NAMES = (
    ("a", "float64[2]"), ("b", "float64[2]"), ("c", "pyfloat"),
    ("d", "float64[3]"), ("e", "float64[3]"),
)  # fmt: skip


def _blocks(source: str, by_rows: bool = True) -> int:
    """How many loops over blocks there are."""
    code = translated(source, _NAMES, ())[0]
    found = blocked(code.body, code.arrays, lambda array: by_rows)
    return sum(isinstance(each, For) and each.slot.startswith("rows of")
               for each in everything(found))  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_rows_that_run_apart(name: str) -> None:
    """By blocks, of which the last may be smaller; not where columns are contiguous."""
    assert _blocks(BLOCKED[name]) == 1
    assert not _blocks(BLOCKED[name], by_rows=False)


@pytest.mark.parametrize("name", AS_THEY_STAND)
def test_rows_that_depend_on_each_other(name: str) -> None:
    """They run as they stand; so do those that lie well already."""
    assert not _blocks(AS_THEY_STAND[name])


def _forth_and_back(a: Any, decay: float) -> Any:
    made = np.empty_like(a)
    made[:, 0] = a[:, 0]
    for j in range(1, a.shape[1]):
        made[:, j] = (1 - decay) * a[:, j] + decay * made[:, j - 1]
    last = -1
    for j in range(a.shape[1] - 2, -1, -1):
        for i in range(a.shape[0]):
            a[i, j] = made[i, j + 1] - decay * a[i, j + 1]
            last = i * j
    return made, last


@pytest.mark.parametrize("order", [np.ascontiguousarray, np.asfortranarray, lambda a: a[::-1]])
def test_results(order: Callable[[Any], Any]) -> None:
    """Bit for bit, for rows that make whole blocks, some that are left, and none."""
    fused = fuser.fuse(_forth_and_back, fallback="error")
    for rows, columns in ((1, 1), (3, 4), (4, 3), (4, 1), (9, 5), (64, 33), (0, 3)):
        given = np.random.default_rng(rows).standard_normal((rows, columns))
        wanted, found = order(given.copy()), order(given.copy())
        assert same(_forth_and_back(wanted, 0.3), fused(found, 0.3))
        assert same(wanted, found)


def _columns_of_planes(u: Any, w: Any, decay: float) -> Any:
    """A tridiagonal solve along the last axis, with planes that are kept for a while."""
    c, d = np.empty(u.shape), np.empty(u.shape)
    seen = np.zeros(u.shape[:2])
    c[:, :, 0] = 0.25 * w[1:, :, 0]
    d[:, :, 0] = u[:, :, 0]
    for k in range(1, u.shape[2]):
        rise = 0.25 * (w[1:, :, k] + w[:-1, :, k])
        fall = rise * decay
        c[:, :, k] = rise
        over = 1.0 / (2.0 + c[:, :, k - 1] * fall)
        c[:, :, k] = c[:, :, k] * over
        d[:, :, k] = (u[:, :, k] - d[:, :, k - 1] * fall) * over
        last = k
    for k in range(u.shape[2] - 2, -1, -1):
        found = d[:, :, k] - c[:, :, k] * seen
        seen[:] = found
        u[:, :, k] = decay * (found - d[:, :, k + 1])
    return c, d, seen, last


def test_planes() -> None:
    """Bit for bit, where two indices tell a row; also of arrays so short that nothing is left."""
    fused = fuser.fuse(_columns_of_planes, fallback="error")
    for rows, columns, deep in ((3, 4, 5), (1, 1, 2), (5, 9, 33), (2, 3, 4), (0, 3, 4), (3, 0, 4)):
        random = np.random.default_rng(deep)
        u, w = random.random((rows, columns, deep)), random.random((rows + 1, columns, deep))
        for order in (np.ascontiguousarray, np.asfortranarray, lambda a: a[:, ::-1]):
            wanted, found = order(u.copy()), order(u.copy())
            assert same(_columns_of_planes(wanted, w, 0.3), fused(found, w, 0.3))
            assert same(wanted, found)


_KEPT = """
for k in range(1, d.shape[2]):
    t = c * d[:, :, k - 1]
    d[:, :, k] = t * e[:, :, k]
"""


@pytest.mark.parametrize("read_later", [False, True])
def test_scratch_memory_is_variables(read_later: bool) -> None:
    """That is where nothing reads it after the loop."""
    code = translated(_KEPT, _NAMES, ())[0]
    (scratch,) = (k for k, array in enumerate(code.arrays) if array.within)
    zero = Constant("int64", 0)
    later = Store(0, (zero, zero), Load(scratch, (zero, zero), "float64", False), False)
    (known,) = (each.then for each in code.body if isinstance(each, If))
    body = (*known, later) if read_later else known
    found = blocked(body, code.arrays, lambda array: True)
    blocks = [each for each in everything(found) if isinstance(each, For)
              and each.slot.startswith("rows of")]  # fmt: skip
    stored = {each.array for block in blocks for each in everything(block.body)
              if isinstance(each, Store)}  # fmt: skip
    assert blocks
    assert (scratch in stored) is read_later
