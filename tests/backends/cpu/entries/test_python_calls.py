"""Calls whose arguments are compared natively, and that Python then serves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import config

X = np.random.default_rng(3).standard_normal((4, 4))


def known(function: Any, *args: Any, **kwargs: Any) -> Any:
    """A fused function that has met such calls."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(4):
        fused(*args, **kwargs)
    return fused


def served(fused: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    """What a call gives, and whether the dispatcher found who serves it."""
    before = fused._native.hits
    found = fused(*args, **kwargs)
    return found, fused._native.hits == before + 1


def test_other_kinds_of_arguments_are_looked_at() -> None:
    """Another dtype, rank, type, number or keyword is no such call; its results are NumPy's."""
    fused = known(lambda x, k=-1: np.sort(x, k), X, 1)
    for args in ((X.astype("f4"), 1), (X[0], 0), (X, True), (X,), (X.tolist(), 1)):
        found, native = served(fused, *args)
        assert not native
        np.testing.assert_array_equal(found, np.sort(*args))
    np.testing.assert_array_equal(fused(X, k=1), np.sort(X, 1))


def test_errors_are_the_functions_own() -> None:
    """What the plain function raises goes to the caller once: it is not run again."""
    runs = []

    def failing(x: Any) -> Any:
        runs.append(len(x))
        if len(x) == 3:
            raise KeyError("three")
        return np.sort(x)

    fused = known(failing, np.arange(4.0))
    runs.clear()
    with pytest.raises(KeyError, match="three"):
        fused(np.arange(3.0))
    assert runs == [3]


def test_a_function_may_call_itself() -> None:
    """And fall deep: the interpreter says when it is too deep."""

    def deep(x: Any) -> Any:
        return x if len(x) < 2 else np.sort(fused(x[1:]))

    fused = fuser.fuse(deep, fallback="allow")
    for _ in range(3):
        assert fused(np.arange(9.0)).tolist() == [8.0]
    with pytest.raises(RecursionError):
        fused(np.arange(20_000.0))


FACTOR = 2.0


def test_names_and_settings_are_compared() -> None:
    """A new value of a name, or of a setting, ends it."""
    global FACTOR
    fused = known(lambda x: np.sort(x * FACTOR) + 1, X)
    assert served(fused, X)[1]
    FACTOR = 3.0
    found, native = served(fused, X)
    assert not native
    np.testing.assert_array_equal(found, np.sort(X * 3) + 1)
    for _ in range(3):
        fused(X)
    assert served(fused, X)[1]
    config.bump_mode()
    assert not served(fused, X)[1]
    for _ in range(3):
        fused(X)
    found, native = served(fused, X)
    assert native
    np.testing.assert_array_equal(found, np.sort(X * 3) + 1)


@pytest.mark.usefixtures("never_brief")
def test_defaults_that_python_compares() -> None:
    """A keyword's default may be changed in place, which only Python sees."""

    def function(x: Any, *, k: float = 2.0) -> Any:
        return np.sort(x * k) + k

    fused = known(function, X)
    assert served(fused, X)[1]
    function.__kwdefaults__["k"] = 3.0
    np.testing.assert_array_equal(fused(X), np.sort(X * 3) + 3)


def test_arrays_that_are_written_lie_apart_and_can_be_written() -> None:
    """Else Python looks at the call, and NumPy says what it says."""

    def function(x: Any, y: Any) -> Any:
        x += np.sort(y)
        y -= 1
        return x

    memory = np.arange(12.0)
    fused = known(function, memory[:4], memory[4:8])
    found, native = served(fused, memory[:4], memory[4:8])
    assert native
    assert np.shares_memory(found, memory)
    plain, own = np.arange(12.0), np.arange(12.0)
    function(plain[:4], plain[2:6])
    assert not served(fused, own[:4], own[2:6])[1]
    np.testing.assert_array_equal(own, plain)
    own.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fused(own[:4], own[6:10])


def test_objects_are_compared_by_identity() -> None:
    """Another text is another call."""
    fused = known(lambda x, how: np.searchsorted(x, x * 2, side=how) + 1, X[0], "left")
    assert served(fused, X[0], "left")[1]
    found, native = served(fused, X[0], "right")
    assert not native
    np.testing.assert_array_equal(found, np.searchsorted(X[0], X[0] * 2, side="right") + 1)
