"""Functions that catch errors: what a trace refuses is none of NumPy's, and decides nothing."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

X = np.array([1.5, -2.25, 3.0, 0.125])


class Careful:
    """An object whose method catches everything."""

    def __call__(self, x: Any) -> Any:
        """By a value, where there is one."""
        try:
            return x * x.sum().item()
        except BaseException:  # noqa: BLE001 - what is tested
            return x


CAREFUL = Careful()


def caught(x: Any) -> Any:
    """Everything."""
    try:
        factor = complex(x[0]).real
    except Exception:  # noqa: BLE001 - what is tested
        factor = 0.0
    return x * factor


def caught_by_name(x: Any) -> Any:
    """Nothing that NumPy raises here."""
    try:
        return round(x.sum(), 1) * x
    except TypeError:
        return x * 3


def suppressed(x: Any) -> Any:
    """By a context."""
    with contextlib.suppress(Exception):
        return x * float(x[0])
    return x * 3


def returned_finally(x: Any) -> Any:
    """By a `return` on the way out."""
    try:
        x = x * 2 if x.sum() > 0 else x * 5
    finally:
        return x * 3  # noqa: B012 - what is tested


def formatted(x: Any) -> Any:
    """As text."""
    try:
        return f"{x.sum():.2f}"
    except TypeError:
        return x * 3


def formatted_array(x: Any) -> Any:
    """As text that arrays do not have."""
    try:
        return f"{x:.2f}"
    except TypeError:
        return x * 3


def as_key(x: Any) -> Any:
    """As a key."""
    try:
        return len({x.sum(): 1}) * x
    except TypeError:
        return x * 3


def array_as_key(x: Any) -> Any:
    """As a key, which arrays are not."""
    try:
        return len({x: 1}) * x
    except TypeError:
        return x * 3


def reshaped(x: Any) -> Any:
    """By its attribute, where that can be set."""
    y = x * 2
    try:
        y.shape = (y.size, 1)
    except AttributeError:
        y = x * 3
    return y


def reinterpreted(x: Any) -> Any:
    """The same bytes."""
    y = x * 2
    y.dtype = np.int64
    return y


def in_an_array(x: Any) -> Any:
    """Among what NumPy makes an array of."""
    try:
        return x * np.array([float(x[0]), 2.0])[0]
    except Exception:  # noqa: BLE001 - what is tested
        return x * 3


FUNCTIONS: list[Callable[..., Any]] = [
    caught, caught_by_name, suppressed, returned_finally, formatted, formatted_array, as_key,
    array_as_key, in_an_array, reshaped, reinterpreted, lambda x: CAREFUL(x) + 1,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_that_catch_errors_go_the_way_that_they_go_with_arrays(
    function: Callable[..., Any],
) -> None:
    """At each of several calls."""
    for values in (X, -X, X[:3]):
        assert_same(function, values, fallback="allow")


def test_the_reason_is_what_was_refused_and_not_what_followed() -> None:
    """With its line."""
    fused = fuser.fuse(caught, fallback="error")
    with pytest.raises(fuser.FusionError, match=r"complex\(\) .*test_caught_errors.py:\d+"):
        fused(X)


def test_errors_that_numpy_raises_too_may_be_caught() -> None:
    """Those that depend on dtypes and ranks alone."""
    for function in (array_as_key, formatted_array):
        assert_same(function, X, fallback="error")
