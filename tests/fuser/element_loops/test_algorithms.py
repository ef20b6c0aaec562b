"""Algorithms over elements run as one kernel, and give what Python and NumPy give."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import fuser
from tests.fuser.comparing import assert_alike
from tests.fuser.element_loops.algorithms import ALGORITHMS

NAMES = [f"{function.__name__}-{place}" for place, (function, _) in enumerate(ALGORITHMS)]


@pytest.mark.parametrize(("function", "args"), ALGORITHMS, ids=NAMES)
def test_algorithms(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Results, and what is left in arguments; the second call by the short way, the third too."""
    fused = fuser.fuse(function, fallback="error")
    wanted_args = copy.deepcopy(args)
    wanted = function(*wanted_args)
    for _ in range(3):
        given = copy.deepcopy(args)
        assert_alike(wanted, fused(*given))
        assert_alike(wanted_args, given)
    assert fused.explain(*copy.deepcopy(args)).loops
