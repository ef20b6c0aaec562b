"""Algorithms over elements run as one kernel, and give what Python and NumPy give."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.element_loops.algorithms import ALGORITHMS, garch

#: Where a power is computed as a product, which differs in the last place.
ROUNDED = (garch,)
NAMES = [f"{function.__name__}-{place}" for place, (function, _) in enumerate(ALGORITHMS)]


def assert_same(one: Any, other: Any, exact: bool = True) -> None:
    """Values, dtypes, types and shapes are the same."""
    assert type(one) is type(other)
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right, exact)
    elif isinstance(one, (np.ndarray, np.generic)):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if exact:
            assert one.tobytes() == other.tobytes()
        else:
            np.testing.assert_allclose(other, one, rtol=1e-14)
    else:
        assert one == other


@pytest.mark.parametrize(("function", "args"), ALGORITHMS, ids=NAMES)
def test_algorithms(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Results, and what is left in arguments; the second call by the short way, the third too."""
    fused = fuser.fuse(function, fallback="error")
    exact = function not in ROUNDED
    wanted_args = copy.deepcopy(args)
    wanted = function(*wanted_args)
    for _ in range(3):
        given = copy.deepcopy(args)
        assert_same(wanted, fused(*given), exact)
        assert_same(wanted_args, given, exact)
    assert fused.explain(*copy.deepcopy(args)).loops
