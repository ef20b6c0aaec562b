"""One frame lies between a caller of a fused function and the plain one; warnings skip it."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fuser


def warns(x: Any, held: Any = None, level: int = 2) -> Any:
    """Warn of its caller's line."""
    held = SimpleNamespace() if held is None else held
    held.frames = [sys._getframe(1).f_code.co_filename, sys._getframe(2).f_code.co_filename]
    warnings.warn("old", DeprecationWarning, stacklevel=level)
    return x + 1


def further(function: Any, *args: Any) -> Any:
    """Have a warning of level 3 name who calls this."""
    return function(*args)


@pytest.mark.parametrize("level", [2, 3])
def test_warnings_name_the_caller(level: int) -> None:
    """At first calls, and at those that native entries or Python send to the plain function."""
    fused = fuser.fuse(warns, fallback="allow")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for function in (warns, *[fused] * 9):
            further(function, np.ones(3), None, level)
    assert len(told) == 10
    assert len({(each.filename, each.lineno) for each in told}) == 1


def test_one_frame_lies_between() -> None:
    """So functions that call themselves may go as deep, but for a half."""
    held = SimpleNamespace()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuser.fuse(warns, fallback="allow")(np.ones(3), held)
    assert held.frames[1] == __file__


def test_what_is_said_of_a_call_names_its_caller() -> None:
    """The frame is not counted twice."""
    with pytest.warns(fuser.FallbackWarning) as told:
        fuser.fuse(warns)(np.ones(3))
    assert {each.filename for each in told} == {__file__}


def test_functions_that_numpy_runs_warn_as_they_do_in_the_plain_function() -> None:
    """Once, and with its line: where one warns while it is traced, the plain function runs."""
    fused = fuser.fuse(spreads, fallback="allow")
    for length, runs in ((3, 1), (9, 0)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            np.testing.assert_allclose(fused(np.arange(length)), spreads(np.arange(length)))
        told = [each for each in told if "Degrees of freedom" in str(each.message)]
        assert len(told) == 2 * runs
        assert len({(each.filename, each.lineno) for each in told}) == runs
    assert fused.explain(np.arange(9)).groups


def spreads(x: Any) -> Any:
    """Warn of few elements."""
    return np.cov(x, ddof=5) * 2
