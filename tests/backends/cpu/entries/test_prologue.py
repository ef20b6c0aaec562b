"""Numbers that Python computes for a native call, and guards on values."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

X = np.linspace(1, 2, 5, dtype=np.float32)
BYTES = np.arange(5, dtype=np.int8)


def test_expressions_over_numbers() -> None:
    """Floats, integers, lengths, division by zero, powers of another type."""
    function: Any = lambda x, a, n: x * (1 - a) + (n**-1) * len(x)  # noqa: E731
    fused = fuser.fuse(function)
    for x in (X, X[:3], X, X[::2]):
        for a in (0.25, 0.5, 3, True, float("inf")):
            for n in (2, 2, 4.0, -1, 0):
                assert_same(fused, x, a, n)
    assert fused._native.hits > 20


def test_expressions_that_leave_the_range() -> None:
    """An integer that does not fit is NumPy's error; then all goes on."""
    function: Any = lambda x, n: x * (n + 1)  # noqa: E731
    fused = fuser.fuse(function)
    for n in (1, 2, 3, 126, 127, 10**30, -129, -130, 5, 6):
        assert_same(fused, BYTES, n)
    assert fused._native.hits >= 3


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_branches_on_numbers() -> None:
    """Each side has a table; values that were not seen before are native too."""
    function: Any = lambda x, n, s: (x * n if n > 100 else x + n) - s  # noqa: E731
    fused = fuser.fuse(function)
    for n in (1000, 50, 1001, 51, 1002, 52, 1003.0, 1e300, float("nan"), -5, 10**25):
        assert_same(fused, X, n, 0.5)
        assert_same(fused, X, n, 1)
    before = fused._native.hits
    for n in range(40, 160, 10):
        assert_same(fused, X, n, 0.5)
    assert fused._native.hits - before == 24


def test_structure_by_large_numbers() -> None:
    """An equal number is enough, whichever object it is; a list's length is no symbol."""
    function: Any = lambda x, n, a: x * a + len([None] * n)  # noqa: E731
    fused = fuser.fuse(function)
    for _ in range(4):
        for n in (300, 500):
            assert_same(fused, X, int(str(n)), 2.0)
    assert fused._native.hits >= 4
