"""Operands that are read down columns: which are copied first, and what that gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.element_loops.translate import translated
from tests.fuser.comparing import faults, same

_I, _K = "for i in range(a.shape[0]):\n    ", "for k in range(a.shape[1]):\n        "
COPIED = {
    "slices": _I + _K + "c[i, : i + 1] += a[i, k] * a[: i + 1, k]",
    "elements": _I + _K + "for j in range(i):\n            c[i, j] += a[i, k] * a[j, k]",
    "two": _I + _K + "c[i, : i + 1] += a[i, k] * b[: i + 1, k] + b[i, k] * a[: i + 1, k]",
}
AS_THEY_LIE = {
    "rows": _I + _K + "for j in range(i):\n            c[i, j] += a[i, k] * a[k, j]",
    "part of the columns": _I + "for k in range(2):\n"
    "        c[i, : i + 1] += a[i, k] * a[: i + 1, k]",
    "few rows": "for i in range(3):\n    " + _K + "c[i, :3] += a[i, k] * a[:3, k]",
    "once": _K.replace("        ", "    ") + "c[0, :] += a[0, k] * a[:, k]",
    "sums": _I + _K + "s = 0.0\n        for j in range(i):\n            s += a[j, k]\n"
    "        c[i, k] = s",
    "written": _I + _K + "a[: i + 1, k] += c[i, : i + 1]",
}  # fmt: skip
_NAMES = ("a", "float64[2]"), ("b", "float64[2]"), ("c", "float64[2]")


@pytest.mark.parametrize("name", COPIED)
def test_what_is_copied(name: str) -> None:
    """Where loops around go over all that is copied."""
    arrays = translated(COPIED[name], _NAMES, ())[0].arrays
    found = [array.name for array in arrays if "transposed" in array.name]
    assert sorted(found) == ["a transposed", "b transposed"][: 1 + (name == "two")]


@pytest.mark.parametrize("name", AS_THEY_LIE)
def test_what_is_not(name: str) -> None:
    """What is written, read once, or in part; and where elements are added up in their order."""
    arrays = translated(AS_THEY_LIE[name], _NAMES, ())[0].arrays
    assert not any("transposed" in array.name for array in arrays)


def _product(a: Any, c: Any, alpha: float) -> None:
    for i in range(a.shape[0]):
        c[i, : i + 1] *= alpha
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


def _two(a: Any, b: Any, c: Any) -> None:
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[i, k] * b[: i + 1, k] + b[i, k] * a[: i + 1, k]


def test_lengths_that_only_the_run_tells() -> None:
    """Where they differ, nothing is copied."""
    fused, before = fuser.fuse(_two, fallback="error"), faults()
    rng = np.random.default_rng(6)
    for rows, columns, more in ((9, 5, 0), (9, 5, 1), (9, 5, 4), (1, 1, 0)):
        a = rng.standard_normal((rows, columns))
        b = rng.standard_normal((rows + more, columns + more))
        wanted, found = np.zeros((rows, rows)), np.zeros((rows, rows))
        _two(a, b, wanted)
        fused(a, b, found)
        assert same(wanted, found)
    assert faults() == before


def test_results() -> None:
    """Bit for bit, for layouts of all kinds, no elements, and arrays that share memory."""
    fused, before = fuser.fuse(_product, fallback="error"), faults()
    rng = np.random.default_rng(5)
    for rows, columns in ((1, 1), (7, 3), (40, 21), (5, 0), (0, 5)):
        wide = rng.standard_normal((2 * rows, 2 * columns))
        for a in (wide[:rows, :columns], wide[::2, ::-2], np.asfortranarray(wide[:rows, :columns])):
            wanted = rng.standard_normal((rows, rows))
            found = wanted.copy()
            _product(a, wanted, 1.5)
            fused(a, found, 1.5)
            assert same(wanted, found)
    one, other = np.full((6, 6), 0.25), np.full((6, 6), 0.25)
    _product(one, one, 1.5)
    fuser.fuse(_product)(other, other, 1.5)
    assert same(one, other)
    assert faults() == before
