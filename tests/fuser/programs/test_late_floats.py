"""Python floats that iterations change and that are read after the loop."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.suites.families.solvers import line_search
from tests.fuser.comparing import assert_alike


def damped(x: Any, most: float) -> Any:
    """The float is returned, as Python's."""
    step = 1.0
    while np.max(np.abs(x * step)) > most:
        step = step * 0.5 - 1e-3
    return step


def scaled(x: Any, most: float) -> Any:
    """It meets arrays, scalars and floats on either side, and enters another loop."""
    step, shift = 2.0, most
    while np.sum(x * step) > most:
        step *= 0.75
    first = (-step + 3) * x + (x - step) * (2.0 - step * shift)
    while np.sum(x) * step > 0.01 * most:
        step = 0.5 * step
    return first, x / step, step


def counted(x: Any, n: int) -> Any:
    """A loop over a range that the call gives."""
    rate = 1.0
    for _ in range(n):
        x = x + rate * np.sqrt(np.abs(x))
        rate = rate * 0.5
    return x * rate


def compared(x: Any, most: float) -> Any:
    """A comparison of floats decides, so NumPy has to know it."""
    step = 1.0
    while np.sum(x * step) > most:
        step = 0.5 * step
    return x if step < 0.2 else -x


def raised(x: Any, most: float) -> Any:
    """Python's powers and quotients raise; an array's powers are squares for some floats."""
    step = 1.0
    while np.sum(x * step) > most:
        step = 0.5 * step
    return x ** (1 / step) + x**step + step**2


X = np.random.default_rng(7).uniform(0.5, 2.0, 400)
FUSED = [
    (line_search, (X - 1, X, 40)), (damped, (X, 0.3)), (scaled, (X, 20.0)), (counted, (X, 9)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args"), FUSED)
def test_a_float_that_iterations_change_is_known_after_them(
    function: Callable[..., Any], args: Any
) -> None:
    """One region serves any number of iterations; none and one are among them."""
    fused = fuser.fuse(function, fallback="error")
    for factor in (1.0, 1.0, 0.01, 7.0):
        given = (args[0] * factor, *args[1:])
        found, wanted = fused(*given), function(*given)
        if function is line_search:  # sums may be rounded otherwise
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
        else:
            assert_alike(wanted, found)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.complex128, np.bool_])
@pytest.mark.parametrize("function", [scaled, counted, compared, raised])
def test_what_numpy_computes_otherwise_with_floats_is_as_ever(
    function: Callable[..., Any], dtype: Any
) -> None:
    """Narrow arrays keep their dtype beside a Python float; what decides is NumPy's."""
    x = (X * 3).astype(dtype)
    second = 6 if function is counted else 50.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused = fuser.fuse(function, fallback="allow")
        for _ in range(3):
            try:
                wanted = function(x, second)
            except Exception as error:  # noqa: BLE001
                with pytest.raises(type(error)):
                    fused(x, second)
                continue
            found = fused(x, second)
            if not isinstance(wanted, tuple):
                found, wanted = (found,), (wanted,)
            for one, other in zip(found, wanted, strict=True):
                assert type(one) is type(other)
                assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
                np.testing.assert_allclose(one, other, rtol=1e-5)
