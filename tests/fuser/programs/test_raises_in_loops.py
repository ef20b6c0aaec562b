"""Loops that raise where values are bad: regions for calls that do not, NumPy for those that do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.programs import raising_programs as programs


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a call gives or raises."""
    try:
        return function(*args)
    except (ValueError, RuntimeError, AssertionError, OverflowError) as error:
        return type(error), str(error)


def parts(value: Any) -> tuple[Any, ...]:
    """What a function gives, one by one."""
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize(
    "name", ["in_place", "in_turns", "listed", "nested", "chosen", "by_elements", "until"]
)
def test_calls_that_raise_and_calls_that_do_not(name: str) -> None:
    """Both in turns, whichever comes first; those that do not are loops."""
    function = getattr(programs, name)
    x = np.linspace(-0.5, 1, 12)
    for first in (x, x * 90):
        fused = fuser.fuse(function, fallback="error")
        for value in (first, x, x * 90, x * np.nan, x):
            a, b = value.copy(), value.copy()
            with np.errstate(all="ignore"):
                wanted, found = outcome(function, a, 12), outcome(fused, b, 12)
            raised = isinstance(wanted, tuple) and isinstance(wanted[0], type)
            if raised:
                assert found == wanted
            else:
                for one, other in zip(parts(found), parts(wanted), strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-12)
            np.testing.assert_allclose(a, b, rtol=1e-12)
        assert "loop" in str(fused.explain(x.copy(), 12)).splitlines()[0]
